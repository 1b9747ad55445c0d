"""Expressions without branches: Python's meaning, for arrays and in compiled code."""

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numba
import numpy as np
import pytest

from sweep.compiler import arrays
from sweep.compiler.selections import NAMES, written
from sweep.compiler.source import Pass

NUMBERS = (-1.5, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan)


@pytest.mark.parametrize(
    "text",
    ["min(a, b)", "max(a, b, c)", "min(max(a, 1.0), b) / c", "a if a < b else b if b > c else c",
     "1.0 if a < b <= c else 2.0", "1.0 if a < b and not b < c else 0.0",
     "1.0 if a == 0.0 or b > c or c != c else 0.0", "abs(a) ** 2 - -b * c", "np.sqrt(abs(a)) + c",
     "np.nan if a > 1.0 else np.inf", "np.ceil(a / 3.0) * (b - c)"],
)  # fmt: skip
def test_expressions_mean_what_python_says(text):
    expression = ast.parse(text, mode="eval").body
    line = written(expression, {"a": "_a", "b": "_b", "c": "_c"})
    assert not {type(n) for n in ast.walk(ast.parse(line))} & {ast.IfExp, ast.BoolOp}
    values = np.array(list(product(NUMBERS, repeat=3)))
    compiled = numba.njit(error_model="numpy")(eval(f"lambda _a, _b, _c: {line}", {**NAMES}))
    with np.errstate(all="ignore"):
        found = eval(line, {**NAMES, **dict(zip(("_a", "_b", "_c"), values.T, strict=True))})
        single = [
            eval(text, {"np": np, **dict(zip("abc", map(np.float64, row), strict=True))})
            for row in values
        ]
        in_pass = np.array([compiled(*row) for row in values])
    for result in (np.broadcast_to(np.asarray(found, float), len(values)), in_pass):
        same = (result == single) & (np.signbit(result) == np.signbit(single))
        assert (same | (np.isnan(result) & np.isnan(single))).all()


def test_one_thread_at_a_time_writes_a_pass(monkeypatch):
    """The ``ast`` module of CPython 3.11 fails where two threads use it at once."""
    inside, most = [], []

    def slow_source(which):
        inside.append(which)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(which)
        return "def evaluate(given):\n    return {}"

    monkeypatch.setattr(arrays, "arrays_source", slow_source)
    passes = [Pass("hong_kim", "corrected", "rows", (f"never_{i}",)) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(arrays.get_arrays_pass, passes))
    assert most == [1, 1, 1, 1]

"""A body as one flat program: the same results to the bit, and one line for what is refused."""

from __future__ import annotations

import ast
import linecache
import textwrap
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_inputs import KERNELS

from sweep.compiler.lowering import lower, lowered
from sweep.compiler.program import names_in, parts_of
from sweep.errors import ModelError
from sweep.fields import VARIANTS
from sweep.models import get_model, model_names
from sweep.models.base import Symbol, added, equations

EVERY = [(model, variant) for model in model_names() for variant in VARIANTS]


def evaluated(program, inputs):
    """Return a program's results, each assignment executed as Python."""
    values = dict(inputs) | {"np": np, **program.constants}
    with np.errstate(all="ignore"):
        for made in program.assignments:
            values[made.name] = eval(ast.unparse(made.expression), values)
    return {name: values[at] for name, at in program.results.items()}


@pytest.mark.parametrize(("name", "variant"), EVERY)
@given(data=st.data())
def test_same_results_as_the_body(name, variant, data):
    model, inputs = get_model(name), data.draw(KERNELS[name]())
    flat, length = {}, 0
    for i in model.inputs:
        length = len(inputs[i.symbol]) if i.sequence else length
        parts = np.ravel(np.array(inputs[i.symbol], np.float64))
        flat |= zip(parts_of(i.symbol, length if i.sequence else None), parts, strict=True)
    found = evaluated(lowered(name, variant, length), flat)
    expected = model.evaluate(variant, inputs)
    assert list(found) == list(expected) == list(model.results)
    for result, value in expected.items():
        assert np.array_equal(found[result], value, equal_nan=True), result


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_each_value_is_assigned_once_and_after_what_it_reads(name, variant):
    program = lowered(name, variant, 3)
    known = {*program.inputs, *program.constants}
    for made in program.assignments:
        assert made.name not in known
        assert set(names_in(made.expression)) <= known
        known.add(made.name)
    numbers = {m.equation.number for m in program.assignments if m.equation is not None}
    assert len(numbers) > 1


def test_only_what_results_rest_on_is_needed():
    program = lowered("hong_kim", "corrected")
    few = program.needed(["memory_warp_parallelism"])
    assert 0 < len(few) < len(program.assignments) / 3
    assert few[-1].name == program.results["memory_warp_parallelism"]


# --- Small bodies ---------------------------------------------------------------------------------

SYMBOLS = {name: Symbol(name, "1", name) for name in ("x", "y", "values", "twice", "spread")}
_equation = equations("toy", SYMBOLS)
FACTOR = 3.0


@_equation("1")
def twice(x):
    """An equation of one expression."""
    return x * 2.0


@_equation("2")
def spread(x, y):
    """An equation with a variable of its own."""
    distance = x - y
    return distance * distance if distance > 0.0 else 0.0


def both(x, y):
    total = twice(x) + y
    return total, spread(total, x)


def body(x, y, values, corrected):
    total, square = both(x + 1.0, y)
    for i in range(len(values)):
        total += values[i] * FACTOR
        if values[i] > y or i == len(values) - 1:
            square += total
            total = 0.0
        elif values[i] == y:
            total -= 1.0
    if corrected:
        square = max(square, 1.0)
    return {"square": square, "rest": total / y if corrected else total}


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 2.0, 5.0), (2.0, 2.0, -1.0)])
def test_a_body_means_what_python_means(corrected, values):
    inputs = {"x": None, "y": None, "values": len(values)}
    program = lower(body, inputs, {"corrected": corrected})
    flat = {"x": 1.5, "y": 2.0, **{f"values_{i}": v for i, v in enumerate(values)}}
    assert evaluated(program, flat) == body(1.5, 2.0, values, corrected)
    assert "corrected" not in [name for m in program.assignments for name in names_in(m.expression)]


class Pair(NamedTuple):
    first: float
    second: float


NO_PAIR = Pair(0.0, 0.0)


def paired(x, pair):
    taken = Pair(x, pair.second)
    if x > 1.5:
        taken = Pair(twice(x), taken.first)
    return taken, x


def body_with_records(x, y, values):
    total = since = NO_PAIR
    last = y
    for i in range(len(values)):
        pair, last = paired(values[i], Pair(y + last, x))
        total, since = added(total, pair), added(since, pair)
        if values[i] > y:
            since, pair = NO_PAIR, last
    first, second = since
    return {"square": total.first / (total.second + 1.0), "rest": first - second}


@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 2.0, 5.0), (3.0, 2.0, 1.0, 1.75)])
def test_records_mean_what_python_means(values):
    program = lower(body_with_records, {"x": None, "y": None, "values": len(values)})
    flat = {"x": 1.5, "y": 2.0, **{f"values_{i}": v for i, v in enumerate(values)}}
    assert evaluated(program, flat) == body_with_records(1.5, 2.0, values)
    if values:  # explanations name what belongs together
        assert {"total.first", "since.second"} <= {made.variable for made in program.assignments}


def helper(x):
    while x > 1.0:
        x = x / 2.0
    return x


def defaulted(x, y=1.0):
    return x + y


def endless(x):
    return endless(x)


REFUSED = {
    "while x > 0.0:\n    x = x - 1.0": ("while x > 0.0:", 2),
    "y = max(x, key=abs)": ("arguments are given by position", 2),
    "y = max(*x)": ("arguments are given by position", 2),
    "y = print(x)": ("`print` cannot be called", 2),
    "y = np.exp(x)": ("`np.exp` cannot be called", 2),
    "y = twice(x, x)": ("twice takes 1 arguments", 2),
    "y = defaulted(x, x)": ("defaulted: a parameter cannot have a default", None),
    "y = endless(x)": ("a function cannot call itself", None),
    "y = helper(x)": ("helper: a body cannot have `while x > 1.0:`", None),
    "y = missing": ("'missing' has no value here", 2),
    "y = SYMBOLS": ("'SYMBOLS' is not a number", 2),
    "y = values": ("`values` is not one number", 2),
    "y = values[0]": ("`0` is not a place in the sequence", 2),
    "y = x[0]": ("`x` is not a sequence", 2),
    "y = 'text'": ("a body cannot have `'text'`", 2),
    "y = [x for x in values]": ("a body cannot have `[x for x in values]`", 2),
    "y = x @ x": ("a body cannot have `x @ x`", 2),
    "y = x if x is y else 0.0": ("a body cannot have `x is y`", 2),
    "y = x.real": ("a body cannot have `x.real`", 2),
    "y = lambda: x": ("a body cannot have `lambda: x`", 2),
    "y, z = x, x, x": ("2 names take as many values", 2),
    "x.y = 1.0": ("a value is assigned to a name", 2),
    "y = Pair(x)": ("`Pair` cannot be called", 2),
    "y = Pair": ("'Pair' is not a number", 2),
    "y = Pair(x, x)\nreturn {'square': y}": ("`y` is not one number", 3),
    "y = Pair(x, x)\nx = y.third": ("'y' has no 'third'", 3),
    "y = added(x, Pair(x, x))": ("`added(x, Pair(x, x))`: two records of one kind add up", 2),
    "z = Pair(x, x)\nif x > 1.0:\n    z = x\ny = z": ("'z' has no value here", 5),
    "y = twice(Pair(x, x))": ("`x` is not one number", None),
    "def inner(x):\n    return x": ("cannot be defined inside a body", 2),
    "for i in values:\n    y = i": ("a loop runs over range(len(SEQUENCE))", 2),
    "for i in range(100000):\n    y = i": ("a loop runs over range(len(SEQUENCE))", 2),
    "y = x\nimport os": ("a body cannot have `import os`", 3),
    "if x > 0.0:\n    z = 1.0\ny = z": ("'z' has no value here", 4),
    "if x > 0.0:\n    return {}": ("return stands at the end", 3),
    "y = 1.0\nreturn y": ("a body returns a dictionary of its results", 3),
    "return {'other': x}": ("the result 'square' is missing", 2),
    "return {'square': x, 'squared': x}": ("'squared' is no result of the model", 2),
    "x = 1.0": ("a function ends with a return of its results", 2),
    "def toy_body(x, valeus): return {'square': x}": (
        "'valeus' is no input of the model; did you mean 'values'?", 1),
    "def toy_body(x, y=1.0): return {'square': x}": ("a parameter cannot have a default", 1),
    "def toy_body(x, *y): return {'square': x}": ("parameters are plain names", 1),
    "def toy_body(x, *, y): return {'square': x}": ("parameters are plain names", 1),
}  # fmt: skip


def written_body(text):
    """Return a function whose source, or the body of it, is a text."""
    if not text.rpartition("\n")[2].startswith("return") and text != "x = 1.0":
        text += "\nreturn {'square': x}"
    source = f"def toy_body(x, y, values):\n{textwrap.indent(text, '    ')}\n"
    if text.startswith("def toy_body"):
        source = text.partition("\n")[0]
    path = f"<toy {hash(source)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    names = {"np": np, "twice": twice, "defaulted": defaulted, "endless": endless,
             "helper": helper, "SYMBOLS": SYMBOLS, "Pair": Pair, "added": added}  # fmt: skip
    exec(compile(source, path, "exec"), names)
    return names["toy_body"]


def refusal(function):
    with pytest.raises(ModelError) as caught:
        lower(function, {"x": None, "y": None, "values": 0}, results=["square"])
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", REFUSED)
def test_refused__with_file_and_line(text):
    words, line = REFUSED[text]
    path, at, name, message = refusal(written_body(text)).split(":", 3)
    assert words in f"{name.strip()}: {message.strip()}"
    if line is None:
        assert path == __file__
    else:
        assert (at, name) == (str(line), " toy_body")


def test_refused__no_source():
    names: dict = {}
    exec("def unseen(x):\n    return {'square': x}", names)
    assert "there is no source to read" in refusal(names["unseen"])

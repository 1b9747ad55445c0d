"""Following equations: steps, formulas, units, what the results rest on."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.compiler.lowering import lower, lowered
from sweep.explanation import formulas
from sweep.explanation.sections import literal
from sweep.explanation.trace import Trace
from sweep.fields import VARIANTS
from sweep.models import get_model, model_names
from sweep.models.base import Symbol, equations

SYMBOLS = {
    "a": Symbol("#a", "1", "first"),
    "b": Symbol("b", "cycle", "second"),
    "n": Symbol("N", "1", "count"),
    "total": Symbol("T_total", "cycle", "sum"),
    "latency": Symbol("T_latency", "cycle", "a sum under another name"),
    "parts": Symbol("p", "cycle", "a sequence"),
}
_equation = equations("toy", SYMBOLS)


@_equation("1", "total")
def total_1(a, b):
    """Sum."""
    doubled = b * 2.0
    return a * (doubled + b) / (a - b)


@_equation("2", "total")
def total_2(b, n):
    """Other sum."""
    return min(min(b, 7.0), n) ** 2


@_equation("3", kind="condition")
def is_small(a, b, n):
    """Smallness."""
    return (a < b) and (not (b + 1.0 >= n) or 0.0 < a <= 3.0)


def pair(a, b, n):
    _unused = a * n
    return total_1(a, b), total_2(b, n)


def body(x, b, n, corrected):
    first, second = pair(x, b, n)
    if corrected:  # TOY-1
        second = max(second, 0.0)
    small = is_small(x, b, n)
    latency = total_1(n, b)
    chosen = first if small else second
    ratio = chosen / b
    empty = n == 0.0
    if empty:
        chosen = 0.0
    return {"r0": chosen, "r1": ratio, "r2": latency + 0.5 * b}


def followed(x: float, b: float, n: float, *, corrected: bool = True) -> Any:
    inputs = {"x": (SYMBOLS["a"], x), "b": (SYMBOLS["b"], b), "n": (SYMBOLS["n"], n)}
    program = lower(body, dict.fromkeys(inputs), {"corrected": corrected})
    returns = {f"r{i}": Symbol(f"r{i}", "1", "") for i in range(3)}
    return Trace(program, inputs, symbols=SYMBOLS, errata=["TOY-1", "OY-1"], returns=returns)


def step_of(number: str, x: float, b: float, n: float) -> Any:
    return next(s for s in followed(x, b, n).steps if s.number == number)


@pytest.mark.parametrize("values", [(1.0, 2.0, 5.0), (4.0, 2.0, 0.0), (2.0, 2.0, 3.0)])
@pytest.mark.parametrize("corrected", [True, False])
def test_results_are_those_of_the_function(values, corrected):
    with np.errstate(all="ignore"):
        expected = body(*map(np.float64, values), corrected)
    np.testing.assert_equal(followed(*values, corrected=corrected).results, expected)


def test_formulas_are_written_in_symbols_and_in_numbers():
    step = step_of("1", 1.0, 2.0, 5.0)
    assert (step.number, step.name, step.value) == ("1", "T_total", -6.0)
    assert step.formula == "#a * (b * 2 + b) / (#a - b)"
    assert step.worked == "1 * (2 * 2 + 2) / (1 - 2)"
    assert step_of("2", 1.0, 2.0, 5.0).formula == "min(b, 7, N) ** 2"  # one minimum
    assert math.isinf(step_of("1", 2.0, 2.0, 3.0).value)  # as in the compiled code


def test_conditions_have_both_sides_of_every_comparison_and_decide():
    condition = step_of("3", 4.0, 2.0, 5.0)
    assert condition.value is False
    assert [tuple(vars(made).values()) for made in condition.comparisons] == [
        ("#a", "<", "b", 4.0, 2.0, False),
        ("b + 1", ">=", "N", 3.0, 5.0, False),
        ("0", "<", "#a", 0.0, 4.0, True),
        ("#a", "<=", "3", 4.0, 3.0, False),
    ]
    decisions = followed(4.0, 2.0, 5.0).decisions("r0")  # why the value was chosen
    assert [(d.number, bool(d.value)) for d in decisions] == [("3", False), ("", False)]
    assert followed(4.0, 2.0, 0.0).decisions("r0")[-1].value


def test_steps_have_names_units_and_comments__unused_ones_are_marked():
    steps = followed(1.0, 2.0, 5.0).steps
    by_name = {s.variable: s for s in steps if s.variable}
    assert by_name["ratio"].units == "1"
    assert by_name["latency"].name == "T_latency"
    unused = by_name["_unused"]
    assert (unused.name, unused.units, unused.meaning, unused.used) == ("_unused", "1", "", False)
    assert (steps[-1].name, steps[-1].formula) == ("r2", "T_latency + 0.5 * b")
    assert by_name["chosen"].kind == "choice"
    assert by_name["chosen"].formula == "T_total (1)"
    assert [s.comment for s in steps if s.comment] == ["TOY-1"]
    # The second of two values is chosen only if the condition fails.
    for x, is_used in ((1.0, False), (4.0, True)):
        maxima = [s for s in followed(x, 2.0, 5.0).steps if s.formula.startswith("max(")]
        assert [s.used for s in maxima] == [is_used]


def squares(b, n):
    none = 0.0
    area = b * b
    near = area + none * n  # a zero has any unit
    odd = (b + n) * b
    side = np.sqrt(near)
    return {"sum": odd + side, "n": n}


def test_units_of_squares_and_roots__none_of_a_sum_of_different_ones():
    inputs = {"b": (SYMBOLS["b"], 3.0), "n": (SYMBOLS["n"], 2.0)}
    steps = Trace(lower(squares, dict.fromkeys(inputs)), inputs).steps
    assert {step.name: step.units for step in steps} == {
        "area": "cycle^2", "near": "cycle^2", "odd": "", "side": "cycle",
    }  # fmt: skip


def begun(b, n):
    one = other = b
    first = second = total_1(n, b)
    one, other = one + first, other + second
    return {"one": one, "other": other}


def test_sums_that_begin_with_an_input__have_names_of_their_own():
    inputs = {"b": (SYMBOLS["b"], 3.0), "n": (SYMBOLS["n"], 2.0)}
    steps = Trace(lower(begun, dict.fromkeys(inputs)), inputs, symbols=SYMBOLS).steps
    assert [(step.name, step.formula) for step in steps[-3:]] == [
        ("T_total", "N * (b * 2 + b) / (N - b)"), ("one", "b + T_total (1)"),
        ("other", "b + T_total (1)"),
    ]  # fmt: skip


def sums(parts, n):
    result = 0.0
    for i in range(len(parts)):
        result += parts[i] * n
        if parts[i] > 4.0:
            result -= 1.0
    return {"sum": result, "n": n}


def test_sequences_and_branches__number_by_number():
    values = (3.0, 5.0, 8.0)
    program = lower(sums, {"parts": 3, "n": None})
    inputs = {"parts": (SYMBOLS["parts"], values), "n": (SYMBOLS["n"], 2.0)}
    found = Trace(program, inputs, symbols=SYMBOLS)
    assert found.results == sums(values, 2.0)
    assert [s.formula for s in found.steps[:3]] == [
        "result + p[0] * N", "result + p[1] * N", "result - 1",
    ]  # fmt: skip
    assert all(step.used for step in found.steps)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", model_names())
def test_every_model_is_followed_to_the_numbers_of_its_body(name, variant):
    model = get_model(name)
    draw = np.random.default_rng(2009)
    for _ in range(60):  # by then both sides of each decision that 200 of them take
        values = {
            described.symbol: tuple(np.exp(draw.normal(2, 2, 3)).tolist())
            if described.sequence
            else float(draw.choice([0.0, 1.0, *np.exp(draw.normal(2, 2, 8))]))
            for described in model.inputs
        }
        inputs = {symbol: (model.symbols[symbol], value) for symbol, value in values.items()}
        found = Trace(lowered(name, variant, 3), inputs, symbols=model.symbols)
        np.testing.assert_equal(found.results, model.evaluate(variant, values))


NUMBERS = st.integers(-9, 9).map(lambda i: formulas.constant(np.float64(i)))
SIGNS = st.sampled_from([ast.Add(), ast.Sub(), ast.Mult(), ast.Div()])
NONE = ast.Constant(0)


def _joined(children: Any) -> Any:
    def operation(parts: Any) -> Any:
        with np.errstate(all="ignore"):
            return formulas.combined(ast.BinOp(NONE, parts[0], NONE), parts[1:])

    binary = st.tuples(SIGNS, children, children).map(operation)
    minus = ast.UnaryOp(ast.USub(), NONE)
    return binary | children.map(lambda part: formulas.combined(minus, [part]))


@given(operand=st.recursive(NUMBERS, _joined, max_leaves=12))
@settings(max_examples=300)
def test_what_is_written_means_what_was_computed(operand):
    try:
        meant = eval(operand.with_numbers)
    except ZeroDivisionError:
        return
    assert meant == pytest.approx(float(operand.value), rel=1e-9, abs=1e-9)


def test_numbers_and_units_are_written_as_on_paper():
    texts = {
        1e7: "1e7", 9999999.0: "9999999", 184012510.104: "184012510", 7.68e10: "7.68e10",
        -2.5e-9: "-2.5e-9", np.nan: "nan", np.inf: "inf", np.bool_(True): "true",
    }  # fmt: skip
    assert {value: literal(value) for value in texts} == texts
    for units in ("cycle", "cycle^2", "B/s", "cycle^2/s", "1", ""):
        assert formulas.units_text(formulas.units_of(units)) == units

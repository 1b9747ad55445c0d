"""Compare expressions with Python on generated text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sweep.expressions import Expression, ExpressionError


def whole(function):
    """Return a function of math that returns floats instead of integers, as expressions do."""
    return lambda *numbers: float(function(*numbers))


def gcd(*numbers):
    if not all(number == int(number) and abs(number) <= 2**53 for number in numbers):
        raise ValueError("no integers that a float64 can hold")
    return float(math.gcd(*map(int, numbers)))


PYTHON = {
    "ceil": whole(math.ceil),
    "floor": whole(math.floor),
    "sqrt": math.sqrt,
    "log2": math.log2,
    "gcd": gcd,
    "min": min,
    "max": max,
    "abs": abs,
    "__builtins__": {},
}
VALUES = {"x": 6.0, "y": -4.0, "z": 2.5, "zero": 0.0, "n": 1024.0, "flag": True, "off": False}


def python_value(text):
    """Return Python's value of a generated expression, None where Python raises."""
    try:
        value = eval(text, PYTHON, VALUES)
        return None if isinstance(value, complex) else value
    except (ArithmeticError, ValueError):
        return None


def binary(operators):
    def combine(children):
        return st.tuples(children, st.sampled_from(operators), children).map(
            lambda parts: f"({parts[0]}) {parts[1]} {parts[2]}"
        )

    return combine


# All numbers are floats, so that Python does not use unbounded integers. They are few and short, so
# that products stay finite, because Python treats infinity differently.
LEAVES = st.sampled_from(["0.0", "1.0", "2.0", "3.0", "7.0", "0.5", "16.0", "1e3", "True", *VALUES])
POWERS = st.tuples(LEAVES, st.sampled_from(["0.0", "1.0", "2.0", "3.0", "-1.0"])).map(" ** ".join)
NUMBERS = st.one_of(LEAVES, POWERS)
STRINGS = st.sampled_from(["'row'", '"column"', "'x'"])


def larger(children):
    pairs = st.tuples(children, children)
    triples = st.tuples(children, children, children)
    return st.one_of(
        binary(["+", "-", "*", "/", "//", "%"])(children),
        binary(["<", "<=", ">", ">=", "==", "!="])(children),
        binary(["and", "or"])(children),
        children.map(lambda c: f"-{c}"),
        children.map(lambda c: f"(not {c})"),
        children.map(lambda c: f"({c})"),
        triples.map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        triples.map(lambda t: f"({t[0]}) < ({t[1]}) <= ({t[2]})"),
        triples.map(lambda t: f"(({t[0]}) in (({t[1]}), {t[2]}))"),
        pairs.map(lambda p: f"min({p[0]}, {p[1]})"),
        triples.map(lambda t: f"max({t[0]}, {t[1]}, {t[2]})"),
        pairs.map(lambda p: f"gcd({p[0]}, floor({p[1]}))"),
        st.tuples(st.sampled_from(["abs", "ceil", "floor", "sqrt", "log2"]), children).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        st.tuples(STRINGS, STRINGS).map(lambda p: f"({p[0]} == {p[1]})"),
    )


@given(st.recursive(NUMBERS, larger, max_leaves=12))
@example("-x ** 2.0")
@example("2.0 ** -1.0 ** 2.0")
@example("2.0 ** 3.0 ** 2.0")
@example("not x == y")
@example("x if off else y if flag else z")
@example("7.0 // -2.0 + 7.0 % -2.0 + -7.0 // 2.0 + -7.0 % 2.0")
@example("1.0 < 2.0 < 3.0 != 4.0 >= 4.0")
@example("y or x and zero or z")
@example("off and 1 / zero")
@example("flag or sqrt(y)")
@example("x not in (1.0, 2.0) and x in (6.0,) and not x in ()")
@example("1.0 / zero if flag else 2.0")
@example("1.0 < 2.0 < 1.0 / zero")
@example("(-8.0) ** 0.5")
def test_value_and_fault__are_pythons(text):
    expected = python_value(text)
    value, fault = Expression.parse(text, allowed=VALUES).evaluate(VALUES)
    assert fault == (expected is None)
    if expected is not None:
        assert value == pytest.approx(float(expected), rel=1e-13)


@given(st.recursive(NUMBERS, larger, max_leaves=8), st.integers(1, 7))
def test_value__of_an_array_is_that_of_its_elements(text, seed):
    generator = np.random.default_rng(seed)
    arrays = {
        name: generator.permutation([value, 3, 0, -2, 8])[:4]
        if not isinstance(value, bool)
        else generator.random(4) < 0.5
        for name, value in VALUES.items()
    }
    expression = Expression.parse(text)
    values, faults = expression.evaluate(arrays)
    for i in range(4):
        single, fault = expression.evaluate({name: array[i] for name, array in arrays.items()})
        at = i if values.ndim else ()
        assert faults[at] == fault
        np.testing.assert_array_equal(values[at], single)


ALPHABET = ["x", "y", "1", "2.5", "'a'", "+", "-", "*", "**", "//", "%", "<", "==", "in", "not",
            "and", "or", "if", "else", "(", ")", "[", "]", ",", "min", "abs", "True", "is", ".",
            "lambda", ":", "=", "for", "{", "}"]  # fmt: skip


@given(st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=9).map(" ".join))
def test_grammar__what_is_accepted_is_python(text):
    try:
        expression = Expression.parse(text)
    except ExpressionError as error:
        assert 0 <= error.position <= len(text)
        return
    compile(text, "text", "eval")
    assert expression.names <= {"x", "y"}


@given(st.text(max_size=30))
def test_parse__any_text_is_read_or_refused(text):
    try:
        Expression.parse(text)
    except ExpressionError as error:
        assert "\n" not in str(error)

"""Compare expressions with Python on generated text."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sweep.expressions import Expression, ExpressionError


def gcd(*numbers):
    if not all(number == int(number) and abs(number) <= 2**53 for number in numbers):
        raise ValueError("no integers that a float64 can hold")
    return float(math.gcd(*map(int, numbers)))


def choose(place, *values):
    if place not in range(len(values)):
        raise ValueError("no such place")
    return values[int(place)]


PYTHON = {
    "choose": choose,
    "ceil": lambda x: float(math.ceil(x)),
    "floor": lambda x: float(math.floor(x)),
    **{"sqrt": math.sqrt, "log2": math.log2, "gcd": gcd, "min": min, "max": max, "abs": abs},
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


# All numbers are floats, so that Python does not use unbounded integers. They are few and short, so
# that products stay finite, because Python treats infinity differently.
LEAVES = st.sampled_from(["0.0", "1.0", "2.0", "3.0", "7.0", "0.5", "16.0", "1e3", "True", *VALUES])
POWERS = st.tuples(LEAVES, st.sampled_from(["0.0", "1.0", "2.0", "3.0", "-1.0"])).map(" ** ".join)
OPERATORS = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or")
TEMPLATES = (
    *(f"({{}}) {operator} {{}}" for operator in OPERATORS),
    *(
        "-{}",
        "(not {})",
        "({})",
        "({} if {} else {})",
        "({}) < ({}) <= ({})",
        "(({}) in (({}), {}))",
    ),
    *("min({}, {})", "max({}, {}, {})", "gcd({}, floor({}))", "choose({}, {}, {}, {})"),
    *(f"{function}({{}})" for function in ("abs", "ceil", "floor", "sqrt", "log2")),
    *("('row' == \"column\")", "(\"row\" == 'row')", "('x' == 'row')"),
)


def larger(children):
    return st.sampled_from(TEMPLATES).flatmap(
        lambda text: st.tuples(*[children] * text.count("{}")).map(
            lambda parts: text.format(*parts)
        )
    )


NUMBERS = st.one_of(LEAVES, POWERS)


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
    arrays = {name: generator.permutation([v, 3, 0, -2, 8])[:4] for name, v in VALUES.items()}
    arrays |= {name: generator.random(4) < 0.5 for name in ("flag", "off")}
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

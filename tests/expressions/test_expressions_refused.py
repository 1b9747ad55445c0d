"""Invalid expressions are refused quickly, in one line with the column."""

from __future__ import annotations

import pickle
import tomllib
from pathlib import Path

import pytest

from sweep.errors import SweepError
from sweep.expressions import FUNCTIONS, Expression, ExpressionError, check_total
from sweep.expressions.syntax import MAX_DIGITS, MAX_LENGTH, MAX_NESTING, MAX_TOTAL


def value_of(text):
    value, fault = Expression.parse(text).evaluate({})
    assert not fault
    return value


def refusal(text, allowed=None):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text, allowed=allowed)
    assert "\n" not in str(caught.value)
    return caught.value


LONG = [
    ("n + " + "9" * (MAX_DIGITS + 1), 4, "digits"),
    ("9" * 1900 + "**" + "9" * 90, 0, "digits"),
]
REFUSED = tomllib.loads((Path(__file__).parent / "cases.toml").read_text("utf-8"))["refused"]


@pytest.mark.parametrize(("text", "position", "reason"), [*REFUSED, *LONG])
def test_refusal__names_the_offence_and_its_column(text, position, reason):
    error = refusal(text, allowed=["n", "x"])
    assert error.position == position
    assert f"at column {position + 1}" in str(error)
    assert reason in str(error)
    assert error.text == text and isinstance(error, SweepError)


def test_refusal__survives_pickling():
    error = refusal("n + __x", allowed=["x"])
    restored = pickle.loads(pickle.dumps(error))
    assert (str(restored), restored.position) == (str(error), error.position)


def test_refusal__shows_the_place_in_a_long_text():
    error = refusal(" + ".join(["tile"] * 100) + " + ? + " + " + ".join(["tile"] * 100))
    assert "? + tile" in str(error) and len(str(error)) < 160


@pytest.mark.parametrize("text", [
    "(" * 1000 + "1" + ")" * 1000, "-" * 1999 + "1", "not " * 499 + "1", "2**" * 600 + "1",
    "1 if 1 else " * 160 + "1", "min(1," * 300 + "1" + ")" * 300, "1 in (" * 300, "((((" * 499,
])  # fmt: skip
def test_refusal__of_deep_nesting(text):
    assert refusal(text[:MAX_LENGTH]).reason == "the expression is nested too deeply"


def test_nesting__that_is_reasonable_is_accepted():
    depth = MAX_NESTING // 2 - 1
    assert value_of("(" * depth + "1" + ")" * depth) == 1
    assert value_of("1 if 0 else " * 60 + "2") == 2


def test_length__limit_and_long_chains():
    text = "+".join(["1"] * (MAX_LENGTH // 2))
    assert value_of(text) == MAX_LENGTH // 2
    assert value_of("<".join(map(str, range(400)))).all()
    assert refusal(text + "+1" * 2).position == MAX_LENGTH
    assert refusal("1" + " " * MAX_LENGTH).position == MAX_LENGTH


def test_length__of_a_list_of_conditions_is_bounded():
    check_total(["1"] * MAX_TOTAL)
    with pytest.raises(ExpressionError, match="more than 200000 characters together"):
        check_total(["1 + 1 " * 300] * 112)


def test_power_tower__is_a_fault_and_no_hang():
    for text in ("9**9**9", "9**9**9**9", "10**10**10 // 3", "2**99**9 % 7"):
        assert Expression.parse(text).evaluate({})[1]


def test_functions__cannot_be_names():
    for name in FUNCTIONS:
        assert refusal(f"{name} + 1", allowed=[name]).position == 0

"""Invalid expressions are refused quickly, in one line with the column."""

import pickle
import tomllib
from pathlib import Path

import pytest

from sweep.errors import SweepError
from sweep.expressions import (
    FUNCTIONS,
    MAX_DIGITS,
    MAX_LENGTH,
    MAX_NESTING,
    Expression,
    ExpressionError,
    check_total,
)
from sweep.expressions.syntax import MAX_TOTAL


def refusal(text, allowed=None):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text, allowed=allowed)
    assert "\n" not in str(caught.value)
    return caught.value


LONG = [("n + " + "9" * (MAX_DIGITS + 1), 4, "digits"), ("9" * 1900 + "**" + "9" * 90, 0, "digits")]
REFUSED = tomllib.loads((Path(__file__).parent / "cases.toml").read_text("utf-8"))["refused"]


@pytest.mark.parametrize(("text", "position", "reason"), [*REFUSED, *LONG])
def test_refusal__names_the_offence_and_its_column(text, position, reason):
    error = refusal(text, allowed=["n", "x"])
    assert error.position == position
    assert f"at column {position + 1}" in str(error)
    assert reason in str(error)
    assert error.text == text and isinstance(error, SweepError)
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


def test_length_and_nesting__that_are_accepted():
    depth, text = MAX_NESTING // 2 - 1, "+".join(["1"] * (MAX_LENGTH // 2))
    for accepted, value in (
        ("(" * depth + "1" + ")" * depth, 1),
        ("1 if 0 else " * 60 + "2", 2),
        (text, MAX_LENGTH // 2),
        ("<".join(map(str, range(400))), True),
    ):
        assert Expression.parse(accepted).evaluate({}) == (value, False)
    assert refusal(text + "+1" * 2).position == MAX_LENGTH
    assert refusal("1" + " " * MAX_LENGTH).position == MAX_LENGTH


def test_length__of_a_list_of_conditions_is_bounded():
    check_total(["1"] * MAX_TOTAL)
    with pytest.raises(ExpressionError, match="more than 200000 characters together"):
        check_total(["1 + 1 " * 300] * 112)


def test_functions__cannot_be_names_and_power_towers_are_no_hang():
    for name in FUNCTIONS:
        assert refusal(f"{name} + 1", allowed=[name]).position == 0
    for text in ("9**9**9", "9**9**9**9", "10**10**10 // 3", "2**99**9 % 7"):
        assert Expression.parse(text).evaluate({})[1]

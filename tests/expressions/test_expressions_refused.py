"""Invalid expressions are refused quickly, in one line with the column."""

from __future__ import annotations

import pickle

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


def value_of(text):
    value, fault = Expression.parse(text).evaluate({})
    assert not fault
    return value


def refusal(text, allowed=None):
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text, allowed=allowed)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("ceil(n / __x)", 9, "unknown name '__x' at column 10; did you mean 'x'"),
        ("nn + 1", 0, "unknown name 'nn' at column 1; did you mean 'n'"),
        ("__import__('os')", 0, "unknown function '__import__'"),
        ("n.real", 1, "attribute access"),
        ("(1).real", 3, "attribute access"),
        ("n.__class__.__mro__", 1, "attribute access"),
        ("''.join('a')", 2, "attribute access"),
        ("lambda: 1", 0, "'lambda' is not allowed"),
        ("(lambda: 1)()", 1, "'lambda' is not allowed"),
        ("[i for i in (1, 2)]", 3, "'for' is not allowed"),
        ("[n]", 0, "a list may only stand at the right of 'in'"),
        ("n in [x for x in (1, 2)]", 8, "'for' is not allowed"),
        ("{1: 2}", 0, "no sets or dictionaries"),
        ("f'{n}'", 0, "prefix 'f'"),
        ("b'x' == x", 0, "prefix 'b'"),
        ("(n := 3)", 3, "no assignments"),
        ("n = 3", 2, "did you mean '=='"),
        ("n[0]", 1, "subscripts"),
        ("n[1:2]", 3, "slices"),
        ("min(*x)", 4, "unpacking"),
        ("min(**x)", 4, "unpacking"),
        ("min(n, key=x)", 10, "'=' is not allowed"),
        ("min(n)", 0, "takes at least 2 arguments, not 1"),
        ("min()", 0, "takes at least 2 arguments, not 0"),
        ("sqrt(n, x)", 0, "takes 1 argument, not 2"),
        ("n(3)", 0, "unknown function 'n'"),
        ("(n)(3)", 3, "only functions with a name"),
        ("round(n)", 0, "unknown function 'round'"),
        ("ciel(n)", 0, "did you mean 'ceil'"),
        ("print(n)", 0, "unknown function 'print'"),
        ("min + 1", 0, "needs its arguments"),
        ("n, x", 1, "','"),
        ("(n, x)", 2, "',' may only stand between arguments"),
        ("n; x", 1, "';' is not allowed"),
        ("n # x", 2, "'#' is not allowed"),
        ("n & x", 2, "did you mean 'and'"),
        ("n | x", 2, "did you mean 'or'"),
        ("n ^ x", 2, "did you mean '**'"),
        ("!n", 0, "did you mean 'not'"),
        ("~n", 0, "'~' is not allowed"),
        ("n @ x", 2, "'@' is not allowed"),
        ("n << 2", 3, "a value is expected"),
        ("n is x", 2, "did you mean '=='"),
        ("n is not None", 2, "'is' is not allowed"),
        ("None", 0, "'None' is not allowed"),
        ("await n", 0, "'await' is not allowed"),
        ("yield", 0, "'yield' is not allowed"),
        ("n if x", 6, "'else' is expected, not the end"),
        ("n if x else", 11, "ends too early"),
        ("(n", 2, "')' is expected"),
        ("n)", 1, "an operator is expected, not ')'"),
        ("n x", 2, "an operator is expected, not 'x'"),
        ("'a' 'b'", 4, "an operator is expected, not 'b'"),
        ("n +", 3, "ends too early"),
        ("* n", 0, "a value is expected, not '*'"),
        ("n ++", 4, "ends too early"),
        ("n + not x", 4, "a value is expected, not 'not'"),
        ("n not x", 6, "'in' is expected"),
        ("n in x", 5, "needs a list"),
        ("n in (x)", 5, "needs a comma"),
        ("n in 'abc'", 5, "needs a list"),
        ("n in (1, 2) == x", 12, "no comparison may follow a list"),
        ("n in (1, 2) + (3,)", 5, "needs a list"),
        ("n in (1, 2", 10, "')' is expected"),
        ("()", 1, "a value is expected"),
        ("", 0, "empty"),
        ("  \n", 0, "empty"),
        ("'abc", 0, "not closed"),
        ("'a\\x00'", 0, "backslash"),
        ("'a\nb'", 0, "line break"),
        ("n\0", 1, "'U+0000' is not allowed"),
        ("'a\0b'", 2, "printable"),
        ("n \\\n + 1", 2, "'\\' is not allowed"),
        ("ｎ", 0, "'ｎ' is not allowed"),
        ("n − 1", 2, "'−' is not allowed"),
        ("n\u202e + 1", 1, "'U+202E' is not allowed"),
        ("0x10", 0, "plain decimal number"),
        ("0b1", 0, "plain decimal number"),
        ("1j", 0, "plain decimal number"),
        ("2n", 0, "plain decimal number"),
        ("1__0", 0, "plain decimal number"),
        ("1.2.3", 0, "plain decimal number"),
        ("007", 0, "may not start with 0"),
        ("1e999", 0, "too large"),
        ("n + " + "9" * (MAX_DIGITS + 1), 4, "digits"),
        ("9" * 1900 + "**" + "9" * 90, 0, "digits"),
    ],
)
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


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "1" + ")" * 1000,
        "-" * 1999 + "1",
        "not " * 499 + "1",
        "2**" * 600 + "1",
        "1 if 1 else " * 160 + "1",
        "min(1," * 300 + "1" + ")" * 300,
        "1 in (" * 300,
        "((((" * 499,
    ],
)
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

"""Expressions: numbers, strings, broadcasting, and faults that evaluation reaches."""

import math
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest

from sweep.expressions import Expression, ExpressionError

CASES = tomllib.loads((Path(__file__).parent / "cases.toml").read_text("utf-8"))


def evaluate(text, **values):
    return Expression.parse(text).evaluate(values)


def value_of(text, **values):
    value, fault = evaluate(text, **values)
    assert not fault.any()
    return value


@pytest.mark.parametrize(("text", "expected"), [*CASES["constants"], ("log2(3)", math.log2(3))])
def test_value__of_constant_expression(text, expected):
    expression = Expression.parse(text)
    assert expression.is_constant
    value, fault = expression.evaluate({})
    assert value.dtype == (bool if isinstance(expected, bool) else np.float64)
    assert value.shape == () and not fault
    assert value == pytest.approx(expected, rel=1e-15)


def test_powers_of_integers_and_log2_of_powers_of_two__are_exact():
    base, exponent = np.arange(-60.0, 61.0).reshape(-1, 1), np.arange(0.0, 9.0)
    exact = [[float(int(b) ** int(e)) for e in exponent] for b in base.ravel()]
    np.testing.assert_array_equal(value_of("b ** e", b=base, e=exponent), exact)
    exponent = np.arange(-1000.0, 1000.0)
    np.testing.assert_array_equal(value_of("log2(x)", x=2.0**exponent), exponent)


def test_expression__is_its_text_and_knows_its_names():
    expression = Expression.parse("ceil(n / tile) ** 2 if warp_size > 1 else n")
    assert expression.names == {"n", "tile", "warp_size"} and not expression.is_constant
    assert Expression.parse("min(2, 3)").names == frozenset()
    a, b = Expression.parse("n + 1"), Expression.parse("n + 1", allowed=["n"])
    assert a == b and hash(a) == hash(b) and str(a) == "n + 1"
    assert a != Expression.parse("n+1")
    restored = pickle.loads(pickle.dumps(a))
    assert restored == a and restored.evaluate({"n": 2})[0] == 3


def test_parse__numbers_and_booleans_are_constants_and_nothing_else():
    for source in (3, -2.5, True, False, 1e-9, 10**20, np.float64(2.5), np.int64(7)):
        expression = Expression.parse(source)
        value, fault = expression.evaluate({})
        assert expression.is_constant and value == source and not fault
        assert value.dtype == (bool if isinstance(source, bool) else np.float64)
    for source in (math.nan, math.inf, 10**60, 10**5000, [1], {}, None, 1j, b"x"):
        with pytest.raises(ExpressionError) as caught:
            Expression.parse(source)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("dtype", [np.str_, np.dtypes.StringDType(), object])
def test_strings__of_every_kind_compare(dtype):
    array = np.array(["row", "column"], dtype=dtype)
    assert value_of("layout == 'row'", layout=array).tolist() == [True, False]
    assert value_of("layout in ('row', 'column')", layout=array).all()
    assert value_of("layout", layout=array).tolist() == ["row", "column"]
    assert value_of("2 if layout == 'row' else 3", layout=array).tolist() == [2, 3]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, bool, object])
def test_numbers__of_every_kind_are_float64(dtype):
    value = value_of("x + 1", x=np.array([0, 1], dtype=dtype))
    assert value.dtype == np.float64 and value.tolist() == [1, 2]


@pytest.mark.parametrize(
    "array", [np.array([1j]), np.array([object()]), np.array(["2020"], "M8[D]")], ids=str
)
def test_evaluate__refuses_other_values(array):
    with pytest.raises(ExpressionError, match="'n' is neither number, boolean nor string"):
        evaluate("1 + n", n=array)


def test_evaluate__missing_and_unused_names():
    assert value_of("n", n=2, other=object()) == 2
    with pytest.raises(ExpressionError, match="unknown name 'tile'.* mean 'tiles'") as caught:
        evaluate("n / tile", n=1, tiles=2)
    assert caught.value.position == 4


@pytest.mark.parametrize(("text", "position"), CASES["strings"])
def test_evaluate__strings_are_no_numbers(text, position):
    with pytest.raises(ExpressionError, match="string") as caught:
        evaluate(text, s=np.array(["a", "b"]), n=1)
    assert caught.value.position == position


def test_shape__is_that_of_the_names_used():
    tile = np.arange(1.0, 6.0).reshape(5, 1, 1)
    size = np.arange(1.0, 4.0).reshape(1, 3, 1)
    clock = np.ones((1, 1, 1000))
    values = {"tile": tile, "n": size, "clock": clock}
    for text, shape in CASES["shapes"]:
        value, fault = Expression.parse(text).evaluate(values)
        assert value.shape == fault.shape == tuple(shape), text
    with pytest.raises(ValueError, match="broadcast"):
        evaluate("a + b", a=np.ones(2), b=np.ones(3))


@pytest.mark.parametrize("text", CASES["faults"])
def test_fault__where_it_is_reached(text):
    value, fault = evaluate(text)
    assert fault.dtype == bool and fault.shape == () and fault
    assert np.isnan(value) if value.dtype == np.float64 else not value


@pytest.mark.parametrize(("text", "expected"), CASES["unreached"])
def test_fault__not_where_it_is_not_reached(text, expected):
    assert value_of(text) == expected


def test_fault__is_each_elements_own():
    n = np.array([4.0, 0.0, -1.0, 16.0])
    value, fault = evaluate("sqrt(n) / n if n != 16 else 1 / (n - 16 + 1)", n=n)
    assert fault.tolist() == [False, True, True, False]
    np.testing.assert_array_equal(value, [0.5, np.nan, np.nan, 1.0])
    value, fault = evaluate("n > 0 and 8 / n > 1", n=n)
    assert value.tolist() == [True, False, False, False] and not fault.any()
    value, fault = evaluate("8 / n > 1 and n > 0", n=n)
    assert fault.tolist() == [False, True, False, False]


def test_fault__of_undefined_input_counts_where_it_is_reached():
    x = np.array([1.0, np.nan, np.inf])
    for text in ("x + 1", "x > 0", "1 / x"):
        assert evaluate(text, x=x)[1].tolist() == [False, True, True]
    _, fault = evaluate("5 if use else x", x=x, use=np.array([True, True, False]))
    assert fault.tolist() == [False, False, True]


def test_fault__of_a_value_that_came_from_an_expression():
    n = np.array([0.0, 2.0])
    large, at_fault = evaluate("8 / n > 3", n=n)
    assert large.dtype == bool
    use = Expression.parse("1 if n == 0 or large else 2")
    assert not use.evaluate({"n": n, "large": large}, {"large": at_fault})[1].any()
    use = Expression.parse("1 if large else 2")
    value, fault = use.evaluate({"large": large}, {"large": at_fault})
    assert fault.tolist() == [True, False] and value[1] == 1
    # The fault may be larger than the value.
    value, fault = Expression.parse("a").evaluate({"a": 1.0}, {"a": np.array([True, False])})
    assert value.shape == fault.shape == (2,)
    np.testing.assert_array_equal(value, [np.nan, 1.0])


def test_evaluate__does_the_arithmetic_and_little_else(monkeypatch):
    calls = []

    def counted(name, function):
        return lambda *arguments: calls.append(name) or function(*arguments)

    for name in ("isfinite", "where"):
        monkeypatch.setattr(np, name, counted(name, getattr(np, name)))
    n = np.arange(1_000_000.0)
    value, fault = evaluate("(n + 1) * (n - 1) + 2 * n", n=n)
    assert calls == ["isfinite"] and not fault.any()
    np.testing.assert_array_equal(value, (n + 1) * (n - 1) + 2 * n)
    calls.clear()
    value, _ = evaluate("n", n=n)
    assert np.shares_memory(value, n) and calls == ["isfinite"]

"""Decide whether a condition can hold if its names are known only within bounds.

Interval arithmetic over NumPy arrays: every operand is a pair of its smallest and largest value.
The pairs contain the values for all names within their bounds, except faults. So "cannot hold" is
certain, while "can hold" is not. Truth values are numbers from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from sweep.expressions.syntax import Step, Steps, comparisons, fold


class Bounds(NamedTuple):
    """The smallest and the largest value that an operand can have."""

    low: Any
    high: Any

    @property
    def is_point(self) -> Any:
        """Where only one value is possible."""
        return self.low == self.high

    @property
    def can_hold(self) -> Any:
        """Where the operand can be true."""
        return (self.low != 0) | (self.high != 0)

    @property
    def can_fail(self) -> Any:
        """Where the operand can be false."""
        return (self.low <= 0) & (self.high >= 0)


EVERYTHING = Bounds(np.float64(-np.inf), np.float64(np.inf))
"""The bounds of an unknown value."""


def bounds_of(steps: Steps, names: Mapping[str, Bounds]) -> Bounds:
    """Return the bounds of a tree's value.

    Parameters
    ----------
    steps : sequence of Step
        The checked tree.
    names : mapping of str to Bounds
        The bounds of each name; missing names are unbounded.
    """

    def leaf(step: Step) -> Bounds:
        if step.operation == "name":
            return names.get(step.argument, EVERYTHING)
        if isinstance(step.argument, str):
            return EVERYTHING
        point = np.float64(step.argument)
        return Bounds(point, point)

    with np.errstate(all="ignore"):
        return fold(steps, leaf, _apply)


def _apply(step: Step, operands: list[Bounds]) -> Bounds:
    if step.operation == "compare":
        return _compare(step.argument, operands)
    function = _STEPS.get(step.operation)
    if function is None:
        return EVERYTHING
    if step.operation in _FOLDED:
        return reduce(function, operands)
    low, high = function(*operands)
    # NaN (0 times infinity) means unknown.
    return Bounds(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def _corners(function: Callable[[Any, Any], Any], a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a function that is monotone in each operand."""
    values = [function(x, y) for x in a for y in b]
    return Bounds(reduce(np.minimum, values), reduce(np.maximum, values))


def _unless(known: Any, bounds: Bounds) -> Bounds:
    """Return ``bounds`` where ``known``, else unlimited bounds."""
    return Bounds(np.where(known, bounds.low, -np.inf), np.where(known, bounds.high, np.inf))


def _quotient(a: Bounds, b: Bounds) -> Bounds:
    return _unless((b.low > 0) | (b.high < 0), _corners(np.divide, a, b))


def _whole_quotient(a: Bounds, b: Bounds) -> Bounds:
    low, high = _quotient(a, b)
    return Bounds(np.floor(low) - 1.0, np.floor(high) + 1.0)  # a quotient may be rounded


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a remainder: between 0 and the divisor, exact if both are known."""
    largest = np.maximum(np.abs(b.low), np.abs(b.high))
    low = np.where(b.low >= 0, 0.0, -largest)
    high = np.where(b.high <= 0, 0.0, largest)
    small = (a.low >= 0) & (b.low > 0)
    high = np.where(small, np.minimum(high, a.high), high)
    both = a.is_point & b.is_point
    exact = np.remainder(a.low, b.low)
    return Bounds(np.where(both, exact, low), np.where(both, exact, high))


def _power(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(np.power, a, b)
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))  # vector instructions round differently
    return _unless(a.low > 0, Bounds(low - slack, high + slack))


def _absolute(a: Bounds) -> Bounds:
    low, high = np.abs(a.low), np.abs(a.high)
    inside = (a.low <= 0) & (a.high >= 0)
    return Bounds(np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high))


def _logarithm(a: Bounds) -> Bounds:
    low, high = np.log2(np.maximum(a.low, 0.0)), np.log2(np.maximum(a.high, 0.0))
    return Bounds(low - 1e-9, high + 1e-9)


def _hull(a: Bounds, has_a: Any, b: Bounds, has_b: Any) -> Bounds:
    """Return the joint bounds of two operands, each where it is possible."""
    low = np.minimum(np.where(has_a, a.low, np.inf), np.where(has_b, b.low, np.inf))
    high = np.maximum(np.where(has_a, a.high, -np.inf), np.where(has_b, b.high, -np.inf))
    return Bounds(low, high)


ZERO = Bounds(np.float64(0.0), np.float64(0.0))


def _choose(place: Bounds, *values: Bounds) -> Bounds:
    """Return the joint bounds of the values that may stand at a place of a list."""
    return reduce(
        lambda found, item: _hull(
            found,
            found.low <= found.high,
            item[1],
            (place.low <= item[0]) & (item[0] <= place.high),
        ),
        enumerate(values),
        Bounds(np.float64(np.inf), np.float64(-np.inf)),
    )


def _truth(can_hold: Any, can_fail: Any) -> Bounds:
    return Bounds(np.where(can_fail, 0.0, 1.0), np.where(can_hold, 1.0, 0.0))


def _compare(operators: Sequence[tuple[str, int]], operands: list[Bounds]) -> Bounds:
    can_hold: Any = np.bool_(True)
    can_fail: Any = np.bool_(False)
    for operator, left, right in comparisons(operators, operands):
        if operator in ("in", "not in"):
            holds: Any = np.bool_(False)
            fails: Any = np.bool_(True)
            for can_equal, can_differ in (_pair("==", left, member) for member in right):
                holds, fails = holds | can_equal, fails & can_differ
            holds, fails = (fails, holds) if operator == "not in" else (holds, fails)
        else:
            holds, fails = _pair(operator, left, right[0])
        can_hold, can_fail = can_hold & holds, can_fail | fails
    return _truth(can_hold, can_fail)


def _pair(operator: str, a: Bounds, b: Bounds) -> tuple[Any, Any]:
    """Return where a comparison can hold, and where it can fail."""
    if operator in (">", ">="):
        return _pair({">": "<", ">=": "<="}[operator], b, a)
    if operator == "<":
        return a.low < b.high, ~(a.high < b.low)
    if operator == "<=":
        return a.low <= b.high, ~(a.high <= b.low)
    equal = (a.low <= b.high) & (b.low <= a.high)
    differ = ~(a.is_point & b.is_point & (a.low == b.low))
    return (equal, differ) if operator == "==" else (differ, equal)


_FOLDED = ("min", "max", "and", "or")
"""Operations on any number of operands, applied to two at a time."""

_STEPS: dict[str, Callable[..., Bounds]] = {
    "+": lambda a, b: Bounds(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Bounds(a.low - b.high, a.high - b.low),
    "*": lambda a, b: _corners(np.multiply, a, b),
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "**": _power,
    "negate": lambda a: Bounds(-a.high, -a.low),
    "plus": lambda a: a,
    "abs": _absolute,
    "ceil": lambda a: Bounds(*map(np.ceil, a)),
    "floor": lambda a: Bounds(*map(np.floor, a)),
    "sqrt": lambda a: Bounds(*(np.sqrt(np.maximum(end, 0.0)) for end in a)),
    "log2": _logarithm,
    "choose": _choose,
    "gcd": lambda *_: Bounds(np.float64(0.0), np.float64(np.inf)),
    "min": lambda a, b: Bounds(np.minimum(a.low, b.low), np.minimum(a.high, b.high)),
    "max": lambda a, b: Bounds(np.maximum(a.low, b.low), np.maximum(a.high, b.high)),
    "not": lambda a: _truth(a.can_fail, a.can_hold),
    "and": lambda a, b: _hull(ZERO, a.can_fail, b, a.can_hold),
    "or": lambda a, b: _hull(a, a.can_hold, b, a.can_fail),
    "select": lambda a, condition, b: _hull(a, condition.can_hold, b, condition.can_fail),
}

"""Values of an axis: a list, or a range with its last value included."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.errors import PlanError, nearest

__all__ = ["CLOCK_AXES", "MAX_AXIS", "Values", "axis_values", "check_clocks"]

Values = tuple[Any, ...]

CLOCK_AXES = ("core_clock", "memory_clock", "core_clock_ratio", "memory_clock_ratio")
"""Axes that are not parameters of a kernel; the first two are in MHz, the others relative."""

MAX_AXIS = 10_000_000
"""Longest axis; a range beyond it is a slip (a step in the wrong unit)."""

MAX_INTEGER = 1 << 53
"""Largest integer up to which all are exact in the arithmetic of expressions."""


def axis_values(where: str, given: Any) -> Values:
    """Return the values of one axis.

    Parameters
    ----------
    where : str
        File and key, for messages.
    given : list, mapping or scalar
        A list of numbers, strings or booleans; ``{start, stop, step}`` with ``stop`` included; or
        one value.

    Raises
    ------
    PlanError
        The axis is empty, repeats a value, mixes kinds, or a range cannot be counted out.
    """
    if isinstance(given, Mapping):
        values = _range(where, given)
    elif isinstance(given, (list, tuple, np.ndarray)):
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in given)
    else:
        values = (given,)
    if not values:
        raise PlanError(f"{where}: the axis is empty; it needs at least one value")
    kinds = {_kind(where, value) for value in values}
    if len(kinds) > 1:
        raise PlanError(f"{where}: the axis mixes {' and '.join(sorted(kinds))}")
    if len(set(values)) != len(values):
        twice = Counter(values).most_common(1)[0][0]
        raise PlanError(f"{where}: the value {twice!r} stands twice")
    return values


def _kind(where: str, value: Any) -> str:
    if isinstance(value, bool):
        return "booleans"
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise PlanError(f"{where}: an integer beyond 2**53, from where on not all are exact")
        if not math.isfinite(value):
            raise PlanError(f"{where}: {value} is not a finite number")
        return "numbers"
    if isinstance(value, str):
        if not value.isprintable():  # NumPy drops NUL at the end of a word
            raise PlanError(f"{where}: {value!r} holds a character that is not printable")
        return "strings"
    raise PlanError(f"{where}: {value!r} is neither a number, a string nor a boolean")


def _range(where: str, given: Mapping[str, Any]) -> Values:
    allowed = ("start", "stop", "step")
    for key in given:
        if key not in allowed:
            raise PlanError(
                f"{where}.{key}: unknown key{nearest(key, allowed)} (start, stop, step)"
            )
    for key in allowed:
        if not isinstance(given.get(key), (int, float)) or isinstance(given.get(key), bool):
            raise PlanError(f"{where}.{key}: a range needs the numbers start, stop and step")
    start, stop, step = (given[key] for key in allowed)
    for value in (start, stop, step):
        _kind(where, value)
    if step <= 0:
        raise PlanError(f"{where}.step = {step}: must be above 0")
    if stop < start:
        raise PlanError(f"{where}: the axis is empty, stop = {stop} is below start = {start}")
    # The tolerance keeps 0.5..1.0 step 0.1 at six values although 0.1 is not exact.
    steps = (stop - start) / step + 1e-9
    if steps >= MAX_AXIS:
        raise PlanError(f"{where}: {steps:.3g} values, more than {MAX_AXIS:,}; is the step right?")
    count = math.floor(steps) + 1
    if all(isinstance(v, int) for v in (start, stop, step)):
        return tuple(start + i * step for i in range(count))
    # Twelve digits drop what binary fractions add: 0.30000000000000004 is 0.3.
    return tuple(float(f"{start + i * step:.12g}") for i in range(count))


def check_clocks(where: str, name: str, values: Values) -> None:
    """Refuse clocks that are not plausible in their unit.

    Raises
    ------
    PlanError
        A clock is outside 1 to 20,000 MHz, or a ratio outside 0.01 to 100.
    """
    ratio = name.endswith("_ratio")
    low, high, unit = (0.01, 100.0, "of nominal") if ratio else (1.0, 20_000.0, "MHz")
    for value in values:
        if isinstance(value, (bool, str)) or not low <= value <= high:
            other = f"{name}_ratio" if not ratio else name.removesuffix("_ratio")
            hint = f"; for values relative to nominal write {other}" if not ratio else (
                f"; for values in MHz write {other}")  # fmt: skip
            raise PlanError(
                f"{where} = {value!r}: a clock must be {low:g} to {high:g} {unit}{hint}"
            )

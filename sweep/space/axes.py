"""The values of an axis: lists, ranges and single values, checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.errors import PlanError, nearest
from sweep.space.grid import Values

MAX_AXIS = 10_000_000
"""Longest axis; a range beyond it is a mistake (a step in the wrong unit)."""

MAX_INTEGER = 1 << 53
"""Largest integer up to which all are exact in the arithmetic of expressions."""


def axis_values(where: str, axis: Any) -> Values:
    """Return the values of one axis.

    Parameters
    ----------
    where : str
        File and key, for messages.
    axis : sequence, array, mapping or scalar
        A list, range or array of numbers, strings or booleans; ``{start, stop, step}`` with
        ``stop`` included; or one value. NumPy's numbers become Python's.

    Raises
    ------
    PlanError
        The axis is empty, repeats a value, mixes kinds, or a range has no finite number of steps.
    """
    if isinstance(axis, Mapping):
        values = _range(where, axis)
    elif isinstance(axis, (list, tuple, range)) or np.ndim(axis):
        if len(axis) > MAX_AXIS:
            raise PlanError(f"{where}: {len(axis):,} values, more than {MAX_AXIS:,}")
        values = tuple(map(plain_number, axis))
    else:
        values = (plain_number(axis),)
    if not values:
        raise PlanError(f"{where}: the axis is empty; it needs at least one value")
    kinds = {kind_of(where, value) for value in values}
    if len(kinds) > 1:
        raise PlanError(f"{where}: the axis mixes {' and '.join(sorted(kinds))}")
    if len(set(values)) != len(values):
        twice = Counter(values).most_common(1)[0][0]
        raise PlanError(f"{where}: the value {twice!r} stands twice")
    return values


def plain_number(value: Any) -> Any:
    """Return a number of NumPy, or an array of one, as Python's."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.size == 1 else value


def kind_of(where: str, value: Any) -> str:
    """Return ``numbers``, ``strings`` or ``booleans``; refuse what no axis can hold."""
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


def _range(where: str, axis: Mapping[str, Any]) -> Values:
    allowed = ("start", "stop", "step")
    axis = {key: plain_number(value) for key, value in axis.items()}
    for key in axis:
        if key not in allowed:
            hint = nearest(key, allowed)
            raise PlanError(f"{where}.{key}: unknown key{hint} (start, stop, step)")
    for key in allowed:
        if not isinstance(axis.get(key), (int, float)) or isinstance(axis.get(key), bool):
            raise PlanError(f"{where}.{key}: a range needs the numbers start, stop and step")
        kind_of(where, axis[key])
    start, stop, step = (axis[key] for key in allowed)
    if step <= 0:
        raise PlanError(f"{where}.step = {step}: must be above 0")
    if stop < start:
        raise PlanError(f"{where}: the axis is empty, stop = {stop} is below start = {start}")
    # The tolerance keeps 0.5..1.0 step 0.1 at six values although 0.1 is not exact.
    steps = (stop - start) / step + 1e-9
    if steps >= MAX_AXIS:
        raise PlanError(f"{where}: {steps:.3g} values, more than {MAX_AXIS:,}; is the step right?")
    values = (start + i * step for i in range(math.floor(steps) + 1))
    if all(isinstance(v, int) for v in (start, stop, step)):
        return tuple(values)
    # Twelve digits remove the error of binary fractions: 0.30000000000000004 is 0.3.
    return tuple(float(f"{value:.12g}") for value in values)


def check_clocks(where: str, name: str, values: Values) -> None:
    """Refuse clocks that are not plausible in their unit.

    Raises
    ------
    PlanError
        A clock is outside 1 to 20,000 MHz, or a ratio outside 0.01 to 100.
    """
    if name.endswith("_ratio"):
        low, high, unit, hint = 0.01, 100.0, "of nominal", "values in MHz"
        other = name.removesuffix("_ratio")
    else:
        low, high, unit, hint = 1.0, 20_000.0, "MHz", "values relative to nominal"
        other = f"{name}_ratio"
    for value in values:
        if isinstance(value, (bool, str)) or not low <= value <= high:
            raise PlanError(
                f"{where} = {value!r}: a clock must be {low:g} to {high:g} {unit}; for {hint} write"
                f" {other}"
            )

"""A kernel's expressions over a box, each evaluated once for all boxes that share its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from sweep.expressions import Expression
from sweep.models.workload import Array
from sweep.specs import Device

T = TypeVar("T")

BY_VALUE = (bool, int, float, str, type(None), Expression)


class StepCache:
    """Keeps the results of steps that the next box of a grid may need again.

    Neighbouring boxes differ along one or a few axes; what does not depend on these axes is the
    same again. The key of a step is its function and its arguments: numbers, texts and expressions
    by value, everything else by identity. An axis is a step of its dimension and range, and a table
    is a step of its expression and the axes that the expression reads, so a table's key is what the
    table depends on.

    Nobody may change an array in place that a step takes or returns. The cache forgets a result
    that a whole box did not ask for. Only one thread at a time may use a cache.

    Examples
    --------
    >>> cache, calls = StepCache(), []
    >>> def double(numbers):
    ...     calls.append(numbers)
    ...     return [2 * number for number in numbers]
    >>> numbers = [1, 2]
    >>> for _ in range(3):
    ...     cache.begin_box()
    ...     doubled = cache(double, numbers)
    >>> doubled, len(calls)
    ([2, 4], 1)
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._previous = self._steps

    def begin_box(self) -> None:
        """Forget the steps that the last box did not ask for."""
        self._previous, self._steps = self._steps, {}

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments)``."""
        key = (function, *((type(a), a) if isinstance(a, BY_VALUE) else id(a) for a in arguments))
        kept = self._steps.get(key) or self._previous.get(key)
        if kept is None:
            kept = arguments, function(*arguments)  # with its arguments, so that no id is reused
        self._steps[key] = kept
        return kept[1]


def device_array(values: Any, ndim: int) -> Any:
    """Return one number or text per device as an array along the device axis."""
    array = np.asarray(list(values))
    array = array.astype(np.float64) if array.dtype.kind in "biuf" else array
    return array.reshape((-1,) + (1,) * (ndim - 1))


def constant(value: Any, ndim: int) -> Any:
    """Return a number or truth value as an array with one element."""
    return np.full((1,) * ndim, value)


class Evaluator:
    """Evaluates a kernel's expressions over a box and collects where they fail.

    ``devices`` are those of the box; ``values`` has every name that expressions may use, ``faults``
    where a derived name is undefined: that matters only to expressions that use it there.
    ``failed`` is true where an expression divides by zero, or a count is negative or has no
    meaning.
    """

    def __init__(
        self, devices: tuple[Device, ...], values: dict[str, Any], ndim: int, steps: StepCache
    ) -> None:
        self.devices, self.values, self.ndim, self.steps = devices, values, ndim, steps
        self.faults: dict[str, Any] = {}
        self.failed = self.constant(False)
        self.beyond = self

    def go_beyond(self, l2_bytes: Any, derived: Mapping[str, Expression]) -> None:
        """Set ``beyond``: the same with what L2 and a memory-side cache hold as ``l2_bytes``."""
        if l2_bytes is not self.values["l2_bytes"]:
            values = {**self.values, "l2_bytes": l2_bytes}
            self.beyond = Evaluator(self.devices, values, self.ndim, self.steps)
            for name, expression in derived.items():
                self.beyond.define(name, expression)

    def constant(self, value: Any) -> Any:
        """Return a constant as an array."""
        return self.steps(constant, value, self.ndim)

    def define(self, name: str, expression: Expression) -> None:
        """Evaluate a derived name."""
        self.values[name], self.faults[name] = self.evaluated(expression)

    def __call__(
        self, expression: Expression | None, *, default: float = 0.0, signed: bool = False
    ) -> Array:
        """Evaluate a count; where it fails it is 1, and the configuration is flagged.

        A count that the kernel file does not give is the default; ``signed`` ones may be negative.
        """
        if expression is None:
            return self.constant(default)
        value, bad = self.steps(_count, *self.evaluated(expression), signed)
        self.note(bad)
        return value

    def share(self, expression: Expression | None) -> Array:
        """Evaluate a number from 0 to 1."""
        value = self(expression)
        self.note(value > 1.0)
        return value

    def l2_hits(self, expression: Expression | None) -> tuple[Array, Array]:
        """Evaluate the hit rate of L2, and of L2 with a memory-side cache, which is no smaller.

        It is 0 where a device has no L2 cache. A memory-side cache holds what L2 would, if it were
        that much larger.
        """
        found = []
        for caches in (self, self.beyond):
            value = self.steps(_where_cached, caches.values["l2_bytes"], caches(expression))
            self.note(value > 1.0)
            found.append(value)
        if found[0] is found[1]:
            return found[0], found[1]
        self.note(self.beyond.failed)
        return found[0], self.steps(np.maximum, *found)

    def of_hardware(self, value: Array, count: Array) -> Array:
        """Take the cost of an access; one that no hardware has (NaN) is flagged if it occurs."""
        value, unknown = self.steps(_known, value, count)
        self.note(unknown)
        return value

    def note(self, failed: Any) -> None:
        """Flag configurations; None flags none."""
        if failed is not None and failed.any():
            self.failed = self.failed | failed

    def evaluated(self, expression: Expression) -> tuple[Any, Any]:
        """Return an expression's value and where it is at fault."""
        names = sorted(expression.names)
        values = map(self.values.get, names)
        return self.steps(_evaluated, expression, self.ndim, *values, *map(self.faults.get, names))


# Steps of an evaluation


def _evaluated(expression: Expression, ndim: int, *arguments: Any) -> tuple[Any, Any]:
    """Evaluate an expression; the arguments are its names' values, then their faults, if any."""
    names = sorted(expression.names)
    values, faults = (
        {name: part for name, part in zip(names, parts, strict=True) if part is not None}
        for parts in (arguments[: len(names)], arguments[len(names) :])
    )
    value, fault = (np.asarray(part) for part in expression.evaluate(values, faults))
    return tuple(a if a.ndim else a.reshape((1,) * ndim) for a in (value, fault))  # type: ignore[return-value]


def _count(value: Any, fault: Any, signed: bool) -> tuple[Array, Any]:
    """Return a value as a count, and where it is none; ``None`` if it is one everywhere."""
    value = np.asarray(value, np.float64)
    lowest = value.min()
    if not fault.any() and (lowest >= 0 or (signed and lowest == lowest)):
        return value, None
    bad = fault | np.isnan(value) | ((value < 0) & (not signed))
    return (np.where(bad, 1.0, value), bad) if bad.any() else (value, None)


def _known(value: Array, count: Array) -> tuple[Array, Any]:
    """Return costs, 1 for unknown ones, and a mask of the unknown ones that count, or None."""
    unknown = np.isnan(value)
    if not unknown.any():
        return value, None
    return np.where(unknown, 1.0, value), unknown & (count > 0)


def _where_cached(l2_bytes: Array, share: Array) -> Array:
    return np.where(l2_bytes > 0, share, 0.0)

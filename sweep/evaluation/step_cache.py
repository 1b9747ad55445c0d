"""The cache of everything that is computed before a compiled pass runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sweep.expressions import Expression

__all__ = ["StepCache"]

T = TypeVar("T")

BY_VALUE = (bool, int, float, str, type(None), Expression)


class StepCache:
    """Keeps the results of steps that the next box of a grid may need again.

    Neighbouring boxes differ along one axis or few, and what does not depend on these is the same
    again. A step is a function and its arguments, and both are its key: numbers, texts and
    expressions by value, everything else by identity. As an axis is a step of its dimension and
    slice, and a table a step of its expression and the axes that the expression reads, a table's
    key is what the table depends on.

    Nobody may change an array in place that a step takes or returns. A result that no step of a
    whole box asked for is forgotten. Only one thread at a time may use a cache.

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
        result: T = kept[1]
        return result

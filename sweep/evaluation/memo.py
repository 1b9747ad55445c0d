"""What a computation keeps that runs for one box of a grid after another.

Neighbouring boxes of a grid differ along one axis, or few. What does not depend on these would come
out the same again, and costs as much as the rest where boxes are small. What does depend on them
is as large as in the box before: memory that the system hands out anew costs more than arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sweep.models.workload import Array

__all__ = ["Memo", "Workspace"]

T = TypeVar("T")

PLAIN = (bool, int, float, str)


class Memo:
    """Keeps each step's result for as long as the step is given the very same arguments.

    A step is the function and the place at which it is called, counted from :meth:`restart`.
    Arguments are the same if they are one object, or equal numbers or texts: nobody may change an
    array in place that a step was given or has returned. One thread uses a memo at a time.

    Examples
    --------
    >>> memo, calls = Memo(), []
    >>> def double(numbers):
    ...     calls.append(numbers)
    ...     return [2 * number for number in numbers]
    >>> numbers = [1, 2]
    >>> for _ in range(3):
    ...     memo.restart()
    ...     doubled = memo(double, numbers)
    >>> doubled, len(calls)
    ([2, 4], 1)
    """

    def __init__(self) -> None:
        self._steps: dict[int, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {}
        self._at = 0

    def restart(self) -> None:
        """Begin the computation again."""
        self._at = 0

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function of these arguments returns; it must not call the memo itself."""
        at = self._at
        self._at = at + 1
        kept = self._steps.get(at)
        if kept is not None and kept[0] is function and _same(kept[1], arguments):
            result: T = kept[2]
            return result
        result = function(*arguments)
        self._steps[at] = (function, arguments, result)
        return result


class Workspace:
    """Memory of one thread for the large tables of a box: until those of the next are asked for."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return an array, its content arbitrary."""
        size, held = math.prod(shape), self._held.get(name)
        if held is None or held.size < size:
            held = self._held[name] = np.empty(size)
        return held[:size].reshape(shape)


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if a is not b and not (type(a) is type(b) and isinstance(a, PLAIN) and a == b):
            return False
    return True

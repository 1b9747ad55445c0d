"""Results that can be reduced where they are, without being read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Asked", "Counted", "Kept", "Least", "Source", "group_numbers"]

Array = NDArray[Any]


class Asked(NamedTuple):
    """What to reduce of one kernel's grid.

    Attributes
    ----------
    kernel : str
        Its name.
    dims : tuple of str
        The grid's dimensions in order: positions count along them.
    objectives : tuple of str
        Names of variables.
    signs : tuple of int
        1 to minimise, -1 to maximise each.
    by : tuple of str
        Dimensions that form groups.
    indices : mapping
        Selected indices along every dimension, ascending.
    n : int
        How many of the smallest to keep of each group; 0 for the Pareto front.
    least : bool
        Whether the smallest and the value of the second smallest will do.
    """

    kernel: str
    dims: tuple[str, ...]
    objectives: tuple[str, ...]
    signs: tuple[int, ...]
    by: tuple[str, ...]
    indices: Mapping[str, Array]
    n: int
    least: bool = False


class Counted(NamedTuple):
    """What to count in one kernel's grid.

    ``kernel``, ``dims``, ``by`` and ``indices`` are as in :class:`Asked`; ``names`` are codes, or
    one number that is sorted into the bins between ``cuts``.
    """

    kernel: str
    dims: tuple[str, ...]
    names: tuple[str, ...]
    by: tuple[str, ...]
    indices: Mapping[str, Array]
    cuts: tuple[float, ...] | None


class Kept(NamedTuple):
    """Some of a group's configurations that can matter.

    ``key`` counts the selected values along each dimension of ``by``; ``columns`` are negated where
    they are maximised, without NaN; ``positions`` are in the whole grid.
    """

    key: tuple[int, ...]
    columns: tuple[Array, ...]
    positions: Array


class Least(NamedTuple):
    """The smallest of many groups at once, arrays over the groups.

    ``keys`` counts the selected values along each dimension of ``by``; ``value`` and ``runner_up``
    are negated where they are maximised, NaN where there is none.
    """

    keys: tuple[Array, ...]
    value: Array
    runner_up: Array
    positions: Array


@runtime_checkable
class Source(Protocol):
    """Results, and a quicker way to reduce them than to read them."""

    @property
    def results(self) -> Any:
        """The same results as a DataTree."""

    def reduced(self, asked: Asked) -> Iterable[Kept | Least] | None:
        """Return parts of each group that hold all that can matter, or None to be read instead.

        :class:`Least` only where that is said to do.
        """

    def counted(self, asked: Counted) -> Iterable[tuple[tuple[int, ...], Array]] | None:
        """Return groups and parts of their counts, or None to be read instead.

        Numbers that are not there need not be counted. A part has a line for each variable: of
        256 codes, or of the bins with those below and above before and behind them, and NaN.
        """


def group_numbers(keys: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """Return the numbers of groups in the order of the dimensions that form groups."""
    return np.atleast_1d(np.ravel_multi_index(keys, shape) if shape else 0)

"""What a question keeps of each group of results, in one form for all sources.

A store with its index, results that are read block by block, and a plan whose compiled passes keep
what matters all take the same description and return parts of the same form. Parts merge in any
order into the answer. All objectives are minimised (to maximise, negate); of equal configurations
the one with the smallest position comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sweep.fields import Array
from sweep.fronts import merge_fronts

N_CODES = 256
NOWHERE = 1 << 62
"""Position of a value whose configuration is not needed; larger than all positions."""
FEW = 4
"""Smallest numbers up to which a whole table is searched again for each."""


@dataclass(frozen=True)
class Keep:
    """What to keep of each group.

    Attributes
    ----------
    kind : str
        ``"smallest"``, ``"front"``, ``"codes"`` (how often each code occurs) or ``"bins"`` (how
        many numbers lie in each bin).
    n : int
        How many of the smallest.
    value_only : bool
        Whether of the last of them only the value is needed: a runner-up.
    cuts : tuple of float
        Borders of bins, ascending; a number equal to a border counts as above it.
    """

    kind: str
    n: int = 0
    value_only: bool = False
    cuts: tuple[float, ...] = ()

    @property
    def is_count(self) -> bool:
        """Whether configurations are counted, not kept."""
        return self.kind in ("codes", "bins")

    @property
    def width(self) -> int:
        """Numbers in a line of counts.

        Of 256 codes, or of the bins with those below and above them, and what has no number.
        """
        return N_CODES if self.kind == "codes" else len(self.cuts) + 2

    def merged(self, parts: Sequence[Kept]) -> Kept:
        """Return parts as one, its rows in the order of groups, values and positions."""
        groups = np.concatenate([part.groups for part in parts])
        columns = tuple(map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))
        positions = np.concatenate([part.positions for part in parts])
        if self.is_count:
            groups, places = np.unique(groups, return_inverse=True)
            total = np.zeros((len(groups), *columns[0].shape[1:]), np.int64)
            np.add.at(total, places.ravel(), columns[0])
            return Kept(groups, (total,), groups)
        if (groups[1:] > groups[:-1]).all():  # one row each, in order
            return Kept(groups, columns, positions)
        order = np.lexsort((positions, *columns[::-1], groups))
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sizes = np.diff(starts, append=len(groups))
        if self.kind == "smallest":
            order = order[np.arange(len(order)) - np.repeat(starts, sizes) < self.n]
        else:
            fronts = [np.empty(0, np.int64)]
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
                mine = order[start : start + size]
                best = merge_fronts([column[mine] for column in columns], positions[mine])
                fronts.append(mine[np.sort(best)])
            order = np.concatenate(fronts)
        return Kept(groups[order], tuple(column[order] for column in columns), positions[order])


BEST = Keep("smallest", 2, value_only=True)
"""The best configuration of each group, and the value of the second best."""
FRONT = Keep("front")
CODES = Keep("codes")


class Kept(NamedTuple):
    """What is kept: a row for each configuration, or one for each group that was counted.

    Attributes
    ----------
    groups : ndarray of int, shape (rows,)
        Number of the group.
    columns : tuple of ndarray
        The objectives' values, negated where they are maximised, without NaN. Of counts one array
        of shape (groups, variables, :attr:`Keep.width`).
    positions : ndarray of int, shape (rows,)
        In the whole grid, or :data:`NOWHERE`.
    """

    groups: Array
    columns: tuple[Array, ...]
    positions: Array

    @classmethod
    def counted(cls, groups: Any, counts: Any) -> Kept:
        """Return the counts of groups."""
        numbers = np.asarray(groups, np.int64)
        return cls(numbers, (np.asarray(counts),), numbers)


@dataclass(frozen=True)
class Reduction:
    """What to keep of one kernel's grid.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    variables : tuple of str
        One to three objectives, or what is counted.
    signs : tuple of int
        1 to minimise, -1 to maximise each objective.
    by : tuple of str
        Dimensions that form groups, numbered in this order.
    indices : mapping
        Selected indices along every dimension, ascending.
    keep : Keep
        What to keep of each group.
    """

    kernel: str
    variables: tuple[str, ...]
    signs: tuple[int, ...]
    by: tuple[str, ...]
    indices: Mapping[str, Array]
    keep: Keep = BEST

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many groups there are along each dimension of ``by``."""
        return tuple(len(self.indices[name]) for name in self.by)

    def groups(self, places: Sequence[Any]) -> Array:
        """Return the numbers of groups, from the place along each dimension of ``by``."""
        return np.atleast_1d(np.ravel_multi_index(tuple(places), self.shape) if places else 0)


@runtime_checkable
class Reducible(Protocol):
    """Results that are not computed yet, with a quicker way to reduce them than to read them."""

    @property
    def results(self) -> Any:
        """The same results as a DataTree."""

    @property
    def threads(self) -> int | None:
        """How many threads work, or None for as many as there are cores."""

    def reduce(self, reduction: Reduction) -> Iterable[Kept] | None:
        """Return parts that contain everything to keep, or None where results have to be read."""

    def expect(self, kernel: str, names: Sequence[str]) -> None:
        """Say which of a kernel's variables will be read, block by block."""


class Collected:
    """Parts of an answer, merged as they come, from one kernel after another.

    Kernels may share groups. Parts have a kernel's own numbers of groups and its own positions;
    so has what :meth:`limits` and :meth:`front` return. One thread adds parts; any may look.

    Attributes
    ----------
    kept : Kept or None
        What was merged up to now, with numbers and positions over all kernels.
    """

    def __init__(self, keep: Keep, groups: int) -> None:
        self.keep, self._groups = keep, groups
        self.kept: Kept | None = None
        self._pending: list[Kept] = []
        self.start(np.arange(groups), 0)

    def start(self, numbers: Array, offset: int) -> None:
        """Begin with the next kernel.

        Parameters
        ----------
        numbers : ndarray of int
            For each of its groups the number among all.
        offset : int
            Where its positions begin.
        """
        self._numbers, self._offset = numbers, offset
        self._limits: tuple[Kept | None, Array, Array] | None = None

    def add(self, part: Kept) -> None:
        """Add a part; merge once there is enough to merge."""
        groups = self._numbers[part.groups]
        self._pending.append(Kept(groups, part.columns, part.positions + self._offset))
        merged = 0 if self.kept is None else len(self.kept.groups)
        if 4 * sum(len(p.groups) for p in self._pending) >= merged:
            self.merge()

    def merge(self) -> Kept | None:
        """Merge everything."""
        if self._pending:
            before = [] if self.kept is None else [self.kept]
            self.kept = self.keep.merged([*before, *self._pending])
            self._pending = []
        return self.kept

    def limits(self) -> tuple[Array, Array]:
        """Return what a configuration must undercut to be among the smallest of each group.

        Returns
        -------
        values, positions : ndarray, shape (groups of the kernel,)
            A configuration counts if its value is smaller, or equal at a smaller position.
        """
        kept, known = self.kept, self._limits
        if known is None or known[0] is not kept:
            values, positions = self._limits_of(kept)
            known = kept, values[self._numbers], positions[self._numbers] - self._offset
            self._limits = known
        return known[1], known[2]

    def _limits_of(self, kept: Kept | None) -> tuple[Array, Array]:
        values = np.full(self._groups, np.inf)
        positions, n = np.full(self._groups, np.iinfo(np.int64).max), self.keep.n
        if kept is None:
            return values, positions
        first = np.flatnonzero(np.diff(kept.groups, prepend=-1))
        first = first[np.diff(first, append=len(kept.groups)) >= n]
        last, mine = first + n - 1, kept.groups[first]
        values[mine] = kept.columns[0][last]
        if self.keep.value_only:  # as the best of several equal ones, too
            is_tie = kept.columns[0][first] == kept.columns[0][last]
            positions[mine] = np.where(is_tie, kept.positions[first], -1)
        else:
            positions[mine] = kept.positions[last]
        return values, positions

    def front(self, group: int) -> tuple[list[Array], Array] | None:
        """Return columns and positions of a group's front up to now, None of an empty one."""
        kept = self.kept
        if kept is None:
            return None
        number = self._numbers[group]
        start, stop = np.searchsorted(kept.groups, [number, number + 1])
        if start == stop:
            return None
        columns = [column[start:stop] for column in kept.columns]
        return columns, kept.positions[start:stop] - self._offset


def smallest(
    values: Array, n: int, bounds: Array, *, value_only: bool = False
) -> tuple[Array, Array, Array]:
    """Return the smallest numbers of each row of a table.

    Parameters
    ----------
    values : ndarray of float, shape (rows, columns)
        NaN where there is none. Left as it was, though written to in between.
    n : int
        How many at most of each row.
    bounds : ndarray of float, shape (rows,)
        Larger values are not wanted.
    value_only : bool
        Whether the last one's column is not needed.

    Returns
    -------
    rows, columns : ndarray of int
        Where they are; of equal values the first columns; -1 for a column that is not needed.
    found : ndarray of float
        The values.
    """
    if n > FEW:
        chosen = [_smallest_of_row(row, n, bound) for row, bound in zip(values, bounds.tolist(),
                                                                         strict=True)]  # fmt: skip
        rows = np.repeat(np.arange(len(values)), [len(columns) for columns in chosen])
        columns = np.concatenate(chosen)
        return rows, columns, values[rows, columns]
    if not values.flags.writeable:
        values = values.copy()
    every, places, found = np.arange(len(values)), [], []
    for i in range(n):
        least = np.fmin.reduce(values, axis=1)
        at = np.full_like(every, -1)
        if i + 1 < n or not value_only:
            at = np.argmax(values == least[:, np.newaxis], axis=1)
            values[every, at] = np.nan
        places.append(at)
        found.append(least)
    written = n - 1 if value_only else n
    for i in reversed(range(written)):
        values[every, places[i]] = found[i]
    rows, columns, numbers = np.tile(every, n), np.concatenate(places), np.concatenate(found)
    wanted = numbers <= np.tile(bounds, n)
    return rows[wanted], columns[wanted], numbers[wanted]


def _smallest_of_row(values: Array, n: int, bound: float) -> Array:
    """Return the indices of the ``n`` smallest values up to a bound, in any order."""
    found = np.flatnonzero(values <= bound)
    if found.size > n:
        kept = values[found]
        threshold = np.partition(kept, n - 1)[n - 1]
        below = found[kept < threshold]
        found = np.concatenate([below, found[kept == threshold][: n - below.size]])
    return found

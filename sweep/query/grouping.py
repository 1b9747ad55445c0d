"""Groups of a grid's configurations: by dimensions, and by parameters of a list.

A block's values become an array of one row per group. Along dimensions that is a transposition.
The parameters of a list of configurations (:data:`sweep.fields.STACKED`) split the list: a row then
has the configurations of its group, in order, and padding up to the longest row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.fields import STACKED
from sweep.query.filters import Selection
from sweep.query.grid import Grid

__all__ = ["BlockGroups", "Grouping"]

Array = NDArray[Any]
Ranges = tuple[tuple[int, int], ...]


class Grouping:
    """The division of the selected configurations of a grid into groups.

    Parameters
    ----------
    grid : Grid
        The kernel's results.
    by : sequence of str
        Dimensions, and parameters that are stacked.
    selection : Selection
        The selected configurations.
    """

    def __init__(self, grid: Grid, by: Sequence[str], selection: Selection) -> None:
        self.grid, self.by, self.selection = grid, tuple(by), selection
        self.shape = tuple(len(self.places(name)) for name in by)
        self.size = int(np.prod(self.shape, dtype=object))
        strides = [int(np.prod(self.shape[i + 1 :], dtype=object)) for i in range(len(by))]
        self.strides = dict(zip(by, strides, strict=True))
        self.dims = [name for name in by if name in grid.dims]
        self.parameters = [name for name in by if name not in grid.dims]

    def places(self, name: str) -> Array:
        """Return the selected places among the values of a dimension or stacked parameter."""
        of = self.selection.axes if name in self.grid.stacked else self.selection.indices
        return of[name]

    def labels(self) -> list[tuple[Any, ...]]:
        """Return the values of each group, as Python scalars, in group order."""
        values = [self.grid.axis_values(name)[self.places(name)].tolist() for name in self.by]
        return list(product(*values))

    @cached_property
    def of_list(self) -> Array | None:
        """What its parameters add to the group number, for each selected configuration."""
        if not self.parameters:
            return None
        numbers: Any = 0
        for name in self.parameters:
            place = np.zeros(len(self.grid.stacked[name].values), np.int64)
            place[self.places(name)] = np.arange(len(self.places(name)))
            of = self.grid.stacked[name].places[self.selection.indices[STACKED]]
            numbers = numbers + place[of] * self.strides[name]
        return np.asarray(numbers)

    def absent(self) -> Array | None:
        """Return how many configurations of each group a list leaves out; None for a grid.

        A grid contains them, with the status that the list names (mostly ``constraint``).
        """
        if not self.grid.stacked:
            return None
        indices, axes = self.selection.indices, self.selection.axes
        searched = math.prod(len(axes[n]) for n in axes if n not in self.parameters)
        others = math.prod(
            len(indices[d]) for d in self.grid.dims if d != STACKED and d not in self.dims
        )
        numbers = np.zeros(len(indices[STACKED]), np.int64)
        if self.of_list is not None:
            numbers = self.of_list
        # Every combination of the dimensions has the same list.
        grids = [np.arange(self.shape[self.by.index(d)]) * self.strides[d] for d in self.dims]
        starts = sum(np.ix_(*grids), np.zeros((1,) * len(grids), np.int64)).ravel()
        present = np.bincount((starts[:, np.newaxis] + numbers).ravel(), minlength=self.size)
        return np.asarray((searched - present.astype(object)) * others)

    def of(self, ranges: Ranges) -> BlockGroups:
        """Return the groups of a block: a range of the selected indices of each dimension."""
        return BlockGroups(self, ranges)


@dataclass(frozen=True)
class BlockGroups:
    """The groups of a block's configurations, and the places of each group's own."""

    grouping: Grouping
    ranges: Ranges

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self.ranges)

    @cached_property
    def _axes(self) -> tuple[list[int], list[int]]:
        """The grid's axes that form groups, in the order asked for, and the others."""
        dims = self.grouping.grid.dims
        by = [dims.index(d) for d in self.grouping.dims]
        return by, [axis for axis in range(len(dims)) if axis not in by]

    @cached_property
    def _parts(self) -> tuple[Array, Array] | None:
        """Parts of a divided list: group numbers, and the places of each in the block, or -1."""
        whole = self.grouping.of_list
        if whole is None:
            return None
        start, stop = self.ranges[self.grouping.grid.dims.index(STACKED)]
        numbers, inverse, counts = np.unique(
            whole[start:stop], return_inverse=True, return_counts=True
        )
        order = np.argsort(inverse, kind="stable")
        row = inverse[order]
        column = np.arange(len(order)) - (np.cumsum(counts) - counts)[row]
        places = np.full((len(numbers), int(counts.max())), -1, np.intp)
        places[row, column] = order
        return numbers, places

    @cached_property
    def ids(self) -> Array:
        """The groups' numbers, in the order of the rows."""
        by, _ = self._axes
        grouping = self.grouping
        ids: Array = np.zeros((1,) * len(by), np.int64)
        for i, (axis, dim) in enumerate(zip(by, grouping.dims, strict=True)):
            along = np.arange(*self.ranges[axis]) * grouping.strides[dim]
            ids = ids + along.reshape((-1,) + (1,) * (len(by) - 1 - i))
        if self._parts is not None:
            ids = ids[..., np.newaxis] + self._parts[0]
        return ids.ravel()

    def rows(self, values: Array, padding: Any) -> Array:
        """Return an array of shape (groups, configurations) in the order of the dimensions.

        Parameters
        ----------
        values : array
            Values that broadcast over the block.
        padding : scalar
            Value after the last configuration of a row that is shorter than the longest.
        """
        by, rest = self._axes
        groups = math.prod(self._shape[a] for a in by)
        moved = np.broadcast_to(values, self._shape).transpose(by + rest)
        if self._parts is None:
            return moved.reshape(groups, -1)
        _, places = self._parts
        at = rest.index(self.grouping.grid.dims.index(STACKED))
        before, after = (math.prod(self._shape[a] for a in r) for r in (rest[:at], rest[at + 1 :]))
        flat = moved.reshape(groups, before, -1, after)
        taken = flat[:, :, places]  # groups, before, parts, places, after
        taken = np.where((places >= 0)[:, :, np.newaxis], taken, np.asarray(padding, values.dtype))
        return np.moveaxis(taken, 2, 1).reshape(groups * len(places), -1)

    def positions(self, rows: Array, columns: Array) -> Array:
        """Return the positions in the whole grid of elements of :meth:`rows`."""
        by, rest = self._axes
        if self._parts is None:
            order = [*by, *rest]
            elements = rows * math.prod(self._shape[a] for a in rest) + columns
        else:  # where the elements of the block are in the rows
            order = list(range(len(self._shape)))
            numbers = np.arange(math.prod(self._shape)).reshape(self._shape)
            elements = self.rows(numbers, 0)[rows, columns]
        shape = [self._shape[axis] for axis in order]
        places = dict(zip(order, np.unravel_index(elements, shape) if shape else (), strict=True))
        found = np.zeros(elements.shape, np.int64)
        grid, indices = self.grouping.grid, self.grouping.selection.indices
        for axis, dim in enumerate(grid.dims):
            found = found * grid.sizes[dim] + indices[dim][self.ranges[axis][0] + places[axis]]
        return found

"""Blocks of a kernel's selected configurations: read at once, as a table of one row per group.

Along dimensions that is a transposition. The parameters of a list of configurations
(:data:`sweep.fields.STACKED`) split the list: a row then has the configurations of its group, in
order, and padding up to the longest row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np

from sweep.fields import STACKED, Array
from sweep.query.question import KernelPart

Range = tuple[int, int]

TARGET = 1 << 20
"""Configurations of a block: temporaries stay near the cache, overhead stays small."""


@dataclass(frozen=True, eq=False)
class Block:
    """A box of selected configurations: per dimension a range of the selected indices."""

    part: KernelPart
    ranges: tuple[Range, ...]

    def read(self, codes: Sequence[str] = ()) -> tuple[list[Array], Array] | None:
        """Read the objectives, or the codes to count.

        Returns
        -------
        tables : list of array, shape (groups, configurations)
            One for each code; or for each objective, negated where it is maximised, NaN where a
            configuration cannot win.
        mask : array of bool
            Where selection and condition hold, with as many axes as the grid. None is returned if
            they hold nowhere.
        """
        part, index = self.part, self._index
        mask = part.selection.mask(part.grid, index)
        if part.condition is not None and mask.any():
            mask = mask & part.condition.mask(index)
        if not mask.any():
            return None
        if codes:
            found = part.grid.read(codes, index)
            return [self.rows(found[name], 0) for name in codes], mask
        found = part.grid.read([*{*part.objectives, *part.status_names}], index)
        valid = mask
        for name in part.status_names:
            valid = valid & (found[name] == 0)
        is_valid, tables = valid.all(), []
        for name, sign in zip(part.objectives, part.signs, strict=True):
            values = found[name] if found[name].dtype.kind == "f" else found[name].astype("f8")
            values = -values if sign < 0 else values
            if not is_valid:
                values = np.where(valid, values, values.dtype.type(np.nan))
            tables.append(self.rows(values, np.nan))
        return tables, mask

    @cached_property
    def _index(self) -> dict[str, slice | Array]:
        """The indices in the grid, along every dimension."""
        index: dict[str, slice | Array] = {}
        for dim, (start, stop) in zip(self.part.grid.dims, self.ranges, strict=True):
            chosen = self.part.selection.indices[dim][start:stop]
            first, last = int(chosen[0]), int(chosen[-1])
            index[dim] = slice(first, last + 1) if last - first + 1 == len(chosen) else chosen
        return index

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self.ranges)

    @cached_property
    def _axes(self) -> tuple[list[int], list[int]]:
        """The grid's axes that form groups, in the order of ``by``, and the others."""
        dims = self.part.grid.dims
        by = [dims.index(name) for name in self.part.by if name in dims]
        return by, [axis for axis in range(len(dims)) if axis not in by]

    @cached_property
    def _split(self) -> tuple[Array, Array] | None:
        """Parts of a list that is split: group numbers, and the places of each's own, or -1."""
        whole = self.part.list_groups
        if whole is None:
            return None
        start, stop = self.ranges[self.part.grid.dims.index(STACKED)]
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
    def groups(self) -> Array:
        """The groups' numbers, in the order of the rows."""
        dims, strides = self.part.grid.dims, self.part.strides
        numbers: Array = np.zeros(1, np.int64)
        for axis in self._axes[0]:
            steps = np.arange(*self.ranges[axis]) * strides[dims[axis]]
            numbers = np.add.outer(numbers, steps).ravel()
        return numbers if self._split is None else np.add.outer(numbers, self._split[0]).ravel()

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
        if self._split is None:
            return moved.reshape(groups, -1)
        _, places = self._split
        at = rest.index(self.part.grid.dims.index(STACKED))
        before, after = (math.prod(self._shape[a] for a in r) for r in (rest[:at], rest[at + 1 :]))
        flat = moved.reshape(groups, before, -1, after)
        taken = flat[:, :, places]  # groups, before, parts, places, after
        taken = np.where((places >= 0)[:, :, np.newaxis], taken, np.asarray(padding, values.dtype))
        return np.moveaxis(taken, 2, 1).reshape(groups * len(places), -1)

    def positions(self, rows: Array, columns: Array) -> Array:
        """Return the positions in the whole grid of elements of :meth:`rows`."""
        by, rest = self._axes
        if self._split is None:
            return self._offsets(by, rows) + self._offsets(rest, columns)
        axes = list(range(len(self._shape)))
        numbers = np.arange(math.prod(self._shape)).reshape(self._shape)
        return self._offsets(axes, self.rows(numbers, 0)[rows, columns])

    def _offsets(self, axes: Sequence[int], elements: Array) -> Array:
        """Return what elements of a table over some axes add to the position in the grid."""
        shape = [self._shape[axis] for axis in axes]
        if math.prod(shape) < elements.size:  # each place once
            return self._offsets(axes, np.arange(math.prod(shape)))[elements]
        grid, indices = self.part.grid, self.part.selection.indices
        places = np.unravel_index(elements, shape) if axes else ()
        found = np.zeros(elements.shape, np.int64)
        for axis, place in zip(axes, places, strict=True):
            chosen = indices[grid.dims[axis]][self.ranges[axis][0] + place]
            found += chosen * math.prod(grid.shape[axis + 1 :])
        return found


def blocks_of(part: KernelPart, codes: Sequence[str] = ()) -> list[Block]:
    """Return the blocks to read: whole chunks, merged up to a good size, empty ones left out."""
    names = codes or (*part.objectives, *part.status_names)
    if part.condition is not None:
        names = (*names, *part.condition.variables.values())
    if part.grid.planned is not None:
        part.grid.planned.expect(part.grid.kernel, names)
    cuts = part.grid.boundaries(names)
    indices = {dim: part.selection.indices[dim] for dim in part.grid.dims}
    return [Block(part, chosen) for chosen in boxes(indices, cuts, TARGET)]


def boxes(
    indices: Mapping[str, Array], cuts: Mapping[str, Array], target: int
) -> Iterator[tuple[Range, ...]]:
    """Yield boxes of whole chunks, merged up to a size, as ranges of the indices.

    Parameters
    ----------
    indices : mapping
        Ascending indices along every dimension.
    cuts : mapping
        Where chunks begin along every dimension, and where the last one ends.
    target : int
        Points of a box, if a chunk has no more.
    """
    ranges: list[list[Range]] = []
    for dim, index in indices.items():
        edges = np.searchsorted(index, cuts[dim])
        ranges.append([(int(a), int(b)) for a, b in pairwise(edges) if b > a])
    sizes = [max((b - a for a, b in of_dim), default=0) for of_dim in ranges]
    for axis in reversed(range(len(ranges))):
        others = math.prod(n for i, n in enumerate(sizes) if i != axis)
        ranges[axis] = _joined(ranges[axis], max(sizes[axis], target // max(others, 1)))
        sizes[axis] = max((b - a for a, b in ranges[axis]), default=0)
    return product(*ranges)


def _joined(ranges: Sequence[Range], limit: int) -> list[Range]:
    """Join neighbouring ranges while they stay within the limit."""
    joined: list[Range] = []
    for start, stop in ranges:
        if joined and stop - joined[-1][0] <= limit:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined

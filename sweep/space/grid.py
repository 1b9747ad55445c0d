"""The grid of one kernel: its dimensions, its chunks, its number of points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from sweep.fields import Array

Values = tuple[Any, ...]

CLOCK_AXES = ("core_clock", "memory_clock", "core_clock_ratio", "memory_clock_ratio")
"""Axes that are not parameters of a kernel; the first two are in MHz, the others relative."""

CHUNK_POINTS = 2_000_000
"""Target number of configurations in a chunk: below a million, files and Python cost more than the
disk."""
SMALL_CHUNK_POINTS, SHARES = 500_000, 4
"""Smallest target in a grid that would have fewer than four such chunks: the last of two or three
would leave all threads but one without work."""


@dataclass(frozen=True)
class Configurations:
    """A list of configurations, or of problems, row by row.

    Attributes
    ----------
    axes : mapping of str to tuple
        The values of each parameter.
    indices : mapping of str to array
        For each parameter, the index of every configuration's value among its values.
    """

    axes: Mapping[str, Values]
    indices: Mapping[str, Array]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Configurations:
        """Return the rows of a table, given by column; values count in the order of their rows."""
        axes: dict[str, Values] = {}
        indices: dict[str, Array] = {}
        for name, column in columns.items():
            values, first, places = np.unique(
                np.asarray(column), return_index=True, return_inverse=True
            )
            order = np.argsort(first)
            axes[name] = tuple(values[order].tolist())
            indices[name] = np.argsort(order)[places.ravel()]
        return cls(axes, indices)

    def __len__(self) -> int:
        return len(next(iter(self.indices.values()), ()))

    def column(self, name: str, part: slice = slice(None)) -> Array:
        """Return the values of a parameter, one per configuration, or of a part of them."""
        return np.asarray(np.asarray(self.axes[name])[self.indices[name][part]])

    def taken(self, numbers: Sequence[int]) -> Configurations:
        """Return some of the configurations."""
        chosen: Any = numbers if isinstance(numbers, range) else np.asarray(numbers, np.int64)
        if isinstance(numbers, range) and numbers.step > 0:
            chosen = slice(numbers.start, numbers.stop, numbers.step)  # a view needs no memory
        return Configurations(self.axes, {n: i[chosen] for n, i in self.indices.items()})

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return one configuration."""
        return {name: self.axes[name][int(self.indices[name][number])] for name in self.axes}


@dataclass(frozen=True)
class Dimension:
    """One dimension of a grid.

    ``kind`` is ``"device"``, ``"size"``, ``"parameter"``, ``"core"`` or ``"memory"``, or
    ``"configuration"`` for a list of configurations or ``"problem"`` for a list of problems:
    ``values`` are then their numbers, and ``stacked`` has the parameters or sizes.
    """

    name: str
    values: Values
    kind: str
    stacked: Configurations | None = field(default=None, compare=False, repr=False)

    @classmethod
    def listed(cls, name: str, rows: Configurations) -> Dimension:
        """Return the dimension of a list, a place for each row: of configurations or problems."""
        numbers: Any = range(len(rows))  # a sequence like the others, without their memory
        return cls(name, numbers, name, rows)

    @property
    def is_clock(self) -> bool:
        """Whether the values are core or memory clocks."""
        return self.kind in ("core", "memory")

    @property
    def axes(self) -> tuple[Dimension, ...]:
        """The dimension itself, or a dimension for each parameter or size that it stacks."""
        if self.stacked is None:
            return (self,)
        kind = "size" if self.kind == "problem" else "parameter"
        return tuple(Dimension(n, v, kind) for n, v in self.stacked.axes.items())

    def taken(self, numbers: Sequence[int] | Array) -> Dimension:
        """Return the same dimension with some of its values."""
        if isinstance(numbers, np.ndarray):
            is_range = len(numbers) > 0 and bool((np.diff(numbers) == 1).all())
            first = int(numbers[0]) if is_range else 0
            numbers = range(first, first + len(numbers)) if is_range else numbers.tolist()
        values: Any = self.values
        if isinstance(values, range) and isinstance(numbers, range) and numbers.step > 0:
            values = values[numbers.start : numbers.stop : numbers.step]
        else:
            values = tuple(values[i] for i in numbers)
        stacked = None if self.stacked is None else self.stacked.taken(numbers)
        return replace(self, values=values, stacked=stacked)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Box:
    """A rectangular part of a grid: half-open ranges, one per dimension."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent along each dimension."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index into an array over the whole grid."""
        return tuple(map(slice, self.start, self.stop))

    @property
    def n_points(self) -> int:
        """Configurations in the box."""
        return math.prod(self.shape)

    def within(self, other: Box) -> tuple[slice, ...]:
        """Return the box as an index into an array over another box that contains it."""
        ranges = zip(self.start, self.stop, other.start, strict=True)
        return tuple(slice(a - start, b - start) for a, b, start in ranges)


def cut_box(box: Box, limit: int) -> Iterator[Box]:
    """Cut a box along its first axes into contiguous boxes, in order.

    Parameters
    ----------
    box : Box
        What to cut; it must not be empty.
    limit : int
        Most points of a part, as far as single indices along the axis that is cut allow.
    """
    axis, inner = 0, math.prod(box.shape[1:])
    while inner > limit and axis < len(box.shape) - 1:
        axis += 1
        inner //= box.shape[axis]
    step = _even(box.shape[axis], limit // inner)
    for lead in product(*(range(a, b) for a, b in zip(box.start[:axis], box.stop, strict=False))):
        for start in range(box.start[axis], box.stop[axis], step):
            stop = min(start + step, box.stop[axis])
            yield Box(
                (*lead, start, *box.start[axis + 1 :]),
                (*(i + 1 for i in lead), stop, *box.stop[axis + 1 :]),
            )


def _even(length: int, limit: int) -> int:
    """Return the length of parts that are at most ``limit`` long and nearly equal."""
    parts = -(-length // max(1, limit))
    return -(-length // parts)


@dataclass(frozen=True)
class Grid:
    """All configurations of one kernel: the product of its dimensions.

    Parameters
    ----------
    dimensions : tuple of Dimension
        In result order: device, problem sizes, the list of problems, tuning parameters, core clock,
        memory clock.
    chunk_points : int, optional
        Target number of configurations in a chunk. By default 2 million, and down to half a million
        in grids of less than 8 million.
    """

    dimensions: tuple[Dimension, ...]
    chunk_points: int | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Dimension names in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Lengths in order."""
        return tuple(len(dimension) for dimension in self.dimensions)

    @property
    def n_points(self) -> int:
        """Configurations, each evaluated by every model."""
        return math.prod(self.shape)

    @cached_property
    def chunk_shape(self) -> tuple[int, ...]:
        """Extent of a chunk: trailing dimensions whole, the one that overflows cut evenly."""
        share = max(SMALL_CHUNK_POINTS, -(-self.n_points // SHARES))
        left = self.chunk_points or min(CHUNK_POINTS, share)
        extents: list[int] = []
        for length in reversed(self.shape):
            extents.append(_even(length, left))
            left //= length
        return tuple(reversed(extents))

    @cached_property
    def chunk_grid(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return math.prod(self.chunk_grid)

    def chunk_index(self, chunk: int) -> tuple[int, ...]:
        """Return the position of a chunk in the grid of chunks (C order)."""
        return tuple(map(int, np.unravel_index(chunk, self.chunk_grid)))

    def box(self, chunk: int) -> Box:
        """Return the part of the grid that a chunk covers."""
        start = tuple(np.multiply(self.chunk_index(chunk), self.chunk_shape).tolist())
        return Box(start, tuple(np.minimum(np.add(start, self.chunk_shape), self.shape).tolist()))

    @property
    def whole(self) -> Box:
        """The whole grid as one box."""
        return Box((0,) * len(self.shape), self.shape)

    def boxes(self) -> Iterator[Box]:
        """Yield the boxes of all chunks in order."""
        return map(self.box, range(self.n_chunks))

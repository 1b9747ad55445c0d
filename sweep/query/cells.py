"""A question laid over a store's index: which chunks can matter, in which order to read them.

A candidate is one model's part of one chunk, which is read at once. It consists of cells, one per
device, for each of which the index knows the smallest and the largest number of every variable and
where they first are. These bound what a selection or a condition can leave of the cell. A cell that
is asked for whole needs no reading: its own numbers are the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.query.view import Block, View
from sweep.store import GroupIndex

__all__ = ["Bounds", "Cells", "cells_of", "in_order"]

Array = NDArray[Any]

NEVER = np.iinfo(np.int64).max  # a position behind all others


@dataclass(frozen=True)
class Bounds:
    """What is known of an objective in each cell, negated where it is maximised.

    All have the shape (chunks, models, devices); NaN, or -1, where a cell has no number or is not
    selected.
    """

    lowest: Array
    position: Array
    second: Array


class Cells:
    """The cells of a question's view; made by :func:`cells_of`.

    Attributes
    ----------
    is_whole : array of bool, shape (chunks, models, devices)
        Whether all configurations of a cell are asked for.
    is_grouped : bool
        Whether all configurations of a cell belong to one group.
    """

    def __init__(self, view: View, index: GroupIndex) -> None:
        self.view, self.index = view, index
        units = index.units
        self._hit: list[Array] = []  # per dimension the chunks that the selection meets
        self._edges: list[Array] = []  # and where each one's selected indices begin and end
        whole: list[Array] = []
        for dim, size, chunk in zip(units.dims, units.shape, units.chunks, strict=True):
            chosen = view.selection.indices[dim]
            hit, first = np.unique(chosen // chunk, return_index=True)
            edges = np.append(first, len(chosen))
            extent = np.minimum(chunk, size - hit * chunk)
            self._hit.append(hit)
            self._edges.append(edges)
            whole.append(np.diff(edges) == extent)
        shape = tuple(len(hit) for hit in self._hit)
        self._at = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), int)
        self.chunks = np.zeros(self._at.shape[1], np.int64)
        for at, hit, count in zip(self._at, self._hit, units.counts, strict=True):
            self.chunks = self.chunks * count + hit[at]
        self.models = view.selection.indices["model"]
        self._place_devices(units.chunks[0])
        complete = np.ones(len(self.chunks), bool)
        for at, of_dim in zip(self._at[1:], whole[1:], strict=True):
            complete &= of_dim[at]
        if view.condition is not None or view.selection.masks:
            complete[:] = False
        self.shape = (len(self.chunks), len(self.models), units.chunks[0])
        self.selected = np.broadcast_to((self.device >= 0)[:, np.newaxis], self.shape)
        self.is_whole = self.selected & complete[:, np.newaxis, np.newaxis]
        self.is_grouped = set(view.by) <= {"model", units.dims[0]}

    def _place_devices(self, extent: int) -> None:
        """Find each cell's number among the selected devices, -1 for one that is not selected."""
        dim = self.index.units.dims[0]
        among = np.full((len(self._hit[0]), extent), -1, np.int64)
        for number, (start, stop) in enumerate(pairwise(self._edges[0])):
            inside = self.view.selection.indices[dim][start:stop] - self._hit[0][number] * extent
            among[number, inside] = np.arange(start, stop)
        self.device = among[self._at[0]]

    def take(self, values: Array) -> Array:
        """Return the view's part of an array of the index by chunk, model and device."""
        return values[self.chunks[:, np.newaxis], self.models]

    def bounds(self, objective: int) -> Bounds | None:
        """Return what the index knows of an objective; None if it does not know it."""
        name = self.view.objectives[objective]
        sign = self.view.signs[objective]
        end = "minimum" if sign > 0 else "maximum"
        lowest = self.index.number(f"chunk_{end}", name)
        position = self.index.number(f"chunk_{end}_position", name)
        second = self.index.number(f"chunk_second_{end}", name)
        if lowest is None or position is None or second is None:
            return None
        return Bounds(
            np.where(self.selected, sign * self.take(lowest), np.nan),
            np.where(self.selected, self.take(position), -1),
            np.where(self.selected, sign * self.take(second), np.nan),
        )

    def is_exact(self, objective: int) -> Array:
        """Return which cells' own numbers are the answer of what is asked of them.

        A number that a model gives is there exactly where its configuration can win. What the
        launch alone decides is also there where the model gives no time.
        """
        grid, name = self.view.grid, self.view.objectives[objective]
        dims = set(grid.variables[name].dims) | ({"model"} if grid.model_of(name) else set())
        is_own = dims == set(grid.dims) and self.is_grouped
        return self.is_whole if is_own else np.zeros(self.shape, bool)

    def value_counts(self, objective: int) -> Array:
        """Return how many configurations of each cell have a number for an objective."""
        found = self.index.number("chunk_value_count", self.view.objectives[objective])
        return np.zeros(self.shape, np.int64) if found is None else self.take(found)

    def counts(self, name: str) -> dict[int, Array]:
        """Return how often each code of ``status``, ``power_status`` or ``regime`` is in a cell."""
        codes, counts = self.index.counts(name)
        taken = self.take(counts)
        return {code: taken[..., i] for i, code in enumerate(codes)}

    @cached_property
    def groups(self) -> Array:
        """Each cell's group in the view; only where ``is_grouped``."""
        numbers = np.zeros(self.shape, np.int64)
        models = np.arange(len(self.models))[:, np.newaxis]
        devices = np.maximum(self.device, 0)[:, np.newaxis]
        for name, size in zip(self.view.by, self.view.grouping.shape, strict=True):
            numbers = numbers * size + (models if name == "model" else devices)
        return numbers

    def over_groups(self, of_group: Array) -> Array:
        """Return the largest of some number of the view's groups over the groups of each cell."""
        found = of_group.reshape(self.view.grouping.shape)
        dims = self.index.units.dims
        at: list[Array] = []
        for axis, name in enumerate(self.view.by):
            if name == "model":
                at.append(np.arange(len(self.models))[:, np.newaxis])
            elif name == dims[0]:
                at.append(np.maximum(self.device, 0)[:, np.newaxis])
            elif name in self.view.grid.stacked:  # a chunk of a list may have any of its values
                found = found.max(axis=axis, keepdims=True)
                at.append(np.zeros((1, 1, 1), np.int64))
            else:
                number = dims.index(name)
                found = np.maximum.reduceat(found, self._edges[number][:-1], axis=axis)
                at.append(self._at[number][:, np.newaxis, np.newaxis])
        return np.broadcast_to(found[tuple(at)] if at else found, self.shape)

    def block(self, candidate: int) -> Block:
        """Return what to read of a candidate: numbered with the chunks outside, models inside."""
        chunk, model = divmod(candidate, len(self.models))
        ranges = {"model": (model, model + 1)}
        for name, edges, at in zip(self.index.units.dims, self._edges, self._at, strict=True):
            ranges[name] = (int(edges[at[chunk]]), int(edges[at[chunk] + 1]))
        return Block(tuple(ranges[name] for name in self.view.grid.dims))


def cells_of(view: View) -> Cells | None:
    """Return the cells of a view on a store that has an index of its chunks; None without one."""
    index = view.grid.index
    if index is None or view.grid.dims != ("model", *index.units.dims):
        return None
    return Cells(view, index)


def in_order(cells: Cells, first: Array, matters: Callable[[Array], Array]) -> Iterator[Block]:
    """Yield the blocks of candidates, the most promising first, as long as they can matter.

    Parameters
    ----------
    cells : Cells
        The view's cells.
    first : array of shape (candidates,)
        What to order by, ascending; candidates with NaN are left out.
    matters : callable
        Given numbers of candidates, returns which of them can still change the answer. What was
        found up to then may rule out more than it did before.
    """
    left = np.argsort(first, kind="stable")
    left = left[: np.count_nonzero(~np.isnan(first))]
    while left.size:
        if not matters(left[:1])[0]:
            # Once for all that are left: a look at each by itself would take as long as reading.
            left = left[matters(left)]
            continue
        yield cells.block(int(left[0]))
        left = left[1:]

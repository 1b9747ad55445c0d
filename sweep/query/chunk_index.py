"""Answers from a store's index, and the blocks that have to be read besides.

For each cell (one model's configurations on one device in one chunk) the index knows the smallest
and the largest number of every variable and their positions. They bound the numbers in any part of
the cell that a selection or a condition leaves. A cell that is selected completely is not read: its
entries in the index are the answer.

The rest is branch and bound: the most promising chunk is read first, and chunks that cannot change
the answer are never read. Ties are decided by position, so that answers equal those of a full scan
to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.fields import POWER_STATUS
from sweep.fronts import spread
from sweep.query.kernel_part import Block, KernelPart
from sweep.reduction import NOWHERE, Keep, Kept, SoFar
from sweep.store import GroupIndex

__all__ = ["Chunks", "chunks_of"]

Array = NDArray[Any]

AGAINST = 64
"""Most points of a front that a chunk's own points are compared with."""
FRONT = ("execution_time", "energy")
"""Objectives, both minimised, for which the index has Pareto fronts."""
COUNTED = ("status", "power_status", "regime")
"""Codes that the index counts."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of an objective in each cell, negated where it is maximised.

    All have the shape (chunks, models, devices); NaN, or -1, where a cell has no number or is not
    selected.
    """

    lowest: Array
    position: Array
    second: Array


class Chunks:
    """The chunks that contain selected configurations, and the cells in them.

    A candidate is one model's part of a chunk, which is read at once. It consists of cells, one for
    each device.

    Attributes
    ----------
    is_whole : array of bool, shape (chunks, models, devices)
        Whether all configurations of a cell are asked for.
    is_grouped : bool
        Whether all configurations of a cell belong to one group.
    """

    def __init__(self, part: KernelPart, index: GroupIndex) -> None:
        self.part, self.index = part, index
        units = index.units
        self._hit: list[Array] = []  # per dimension the chunks that the selection meets
        self._edges: list[Array] = []  # and where each one's selected indices begin and end
        whole: list[Array] = []
        for dim, size, chunk in zip(units.dims, units.shape, units.chunks, strict=True):
            chosen = part.selection.indices[dim]
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
        self.models = part.selection.indices["model"]
        self._place_devices(units.chunks[0])
        complete = np.ones(len(self.chunks), bool)
        for at, of_dim in zip(self._at[1:], whole[1:], strict=True):
            complete &= of_dim[at]
        if part.condition is not None or part.selection.masks:
            complete[:] = False
        self.shape = (len(self.chunks), len(self.models), units.chunks[0])
        self.selected = np.broadcast_to((self.device >= 0)[:, np.newaxis], self.shape)
        self.is_whole = self.selected & complete[:, np.newaxis, np.newaxis]
        self.is_grouped = set(part.by) <= {"model", units.dims[0]}

    def _place_devices(self, extent: int) -> None:
        """Find each cell's number among the selected devices, -1 for one that is not selected."""
        dim = self.index.units.dims[0]
        among = np.full((len(self._hit[0]), extent), -1, np.int64)
        for number, (start, stop) in enumerate(pairwise(self._edges[0])):
            inside = self.part.selection.indices[dim][start:stop] - self._hit[0][number] * extent
            among[number, inside] = np.arange(start, stop)
        self.device = among[self._at[0]]

    def take(self, values: Array) -> Array:
        """Return the selected entries of an array of the index by chunk, model and device."""
        return values[self.chunks[:, np.newaxis], self.models]

    def bounds(self, objective: int) -> Bounds | None:
        """Return the bounds of an objective; None if the index has no such variable."""
        name = self.part.objectives[objective]
        sign = self.part.signs[objective]
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
        """Return the cells that the index alone can answer for an objective.

        A model gives a number exactly for the configurations that can win. A number that depends
        on the launch alone, such as the occupancy, also exists where the model gives no time.
        """
        grid, name = self.part.grid, self.part.objectives[objective]
        dims = set(grid.variables[name].dims) | ({"model"} if grid.model_of(name) else set())
        is_own = dims == set(grid.dims) and self.is_grouped
        return self.is_whole if is_own else np.zeros(self.shape, bool)

    def counts(self, name: str) -> dict[int, Array]:
        """Return how often each code of ``status``, ``power_status`` or ``regime`` is in a cell."""
        codes, counts = self.index.counts(name)
        taken = self.take(counts)
        return {code: taken[..., i] for i, code in enumerate(codes)}

    @cached_property
    def groups(self) -> Array:
        """Each cell's group in the part; only where ``is_grouped``."""
        numbers = np.zeros(self.shape, np.int64)
        models = np.arange(len(self.models))[:, np.newaxis]
        devices = np.maximum(self.device, 0)[:, np.newaxis]
        for name, size in zip(self.part.by, self.part.grouping.shape, strict=True):
            numbers = numbers * size + (models if name == "model" else devices)
        return numbers

    def over_groups(self, of_group: Array) -> Array:
        """Return for each cell the largest number among its groups, given one for each group."""
        found = of_group.reshape(self.part.grouping.shape)
        dims = self.index.units.dims
        at: list[Array] = []
        for axis, name in enumerate(self.part.by):
            if name == "model":
                at.append(np.arange(len(self.models))[:, np.newaxis])
            elif name == dims[0]:
                at.append(np.maximum(self.device, 0)[:, np.newaxis])
            elif name in self.part.grid.stacked:  # a chunk of a list may have any of its values
                found = found.max(axis=axis, keepdims=True)
                at.append(np.zeros((1, 1, 1), np.int64))
            else:
                number = dims.index(name)
                found = np.maximum.reduceat(found, self._edges[number][:-1], axis=axis)
                at.append(self._at[number][:, np.newaxis, np.newaxis])
        return np.broadcast_to(found[tuple(at)] if at else found, self.shape)

    def block(self, candidate: int) -> Block:
        """Return the block of a candidate; chunks count slowest in its number, models fastest."""
        chunk, model = divmod(candidate, len(self.models))
        ranges = {"model": (model, model + 1)}
        for name, edges, at in zip(self.index.units.dims, self._edges, self._at, strict=True):
            ranges[name] = (int(edges[at[chunk]]), int(edges[at[chunk] + 1]))
        return Block(tuple(ranges[name] for name in self.part.grid.dims))

    # ------------------------------------------------------------------------ reduction

    def reduced(
        self, keep: Keep, names: Sequence[str], so_far: SoFar
    ) -> tuple[list[Kept], Iterator[Block]]:
        """Return the answers of the index, and the blocks that have to be read.

        Parameters
        ----------
        keep : Keep
            What to keep of each group.
        names : sequence of str
            The codes to count.
        so_far : SoFar
            The answers so far; includes those of the index once the blocks are iterated.
        """
        if keep.is_count:
            return self._counts(keep, names)
        bounds = [self.bounds(k) for k in range(len(self.part.objectives))]
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return [], iter(self.part.blocks())
        if keep.kind == "front":
            return self._fronts(known, so_far)
        answers = self._minima(known[0]) if keep.value_only else []
        is_open = ~self.is_exact(0) if keep.value_only else np.ones(self.shape, bool)
        return answers, self._unbeaten(known[0], is_open, so_far)

    def _minima(self, bounds: Bounds) -> list[Kept]:
        """Return the smallest and second smallest of the cells that the index alone can answer."""
        first = self.is_exact(0) & ~np.isnan(bounds.lowest)
        second = first & ~np.isnan(bounds.second)
        return [
            Kept(self.groups[first], (bounds.lowest[first],), bounds.position[first]),
            Kept(self.groups[second], (bounds.second[second],),
                 np.full(np.count_nonzero(second), NOWHERE)),
        ]  # fmt: skip

    def _unbeaten(self, bounds: Bounds, is_open: Array, so_far: SoFar) -> Iterator[Block]:
        """Yield the blocks of open cells that can contain one of the smallest of their groups."""
        lowest = np.where(is_open, bounds.lowest, np.nan)
        by_candidate = lowest.reshape(-1, self.shape[-1])
        positions = bounds.position.reshape(by_candidate.shape)

        def matters(candidates: Array) -> Array:
            value, last = so_far.limits()
            limit = self.over_groups(value).reshape(by_candidate.shape)[candidates]
            least = by_candidate[candidates]
            tied = self.over_groups(last).reshape(by_candidate.shape)[candidates]
            is_earlier = positions[candidates] < tied
            return np.asarray(((least < limit) | ((least == limit) & is_earlier)).any(axis=1))

        return self._in_order(np.fmin.reduce(by_candidate, axis=1), matters, so_far)

    def _in_order(
        self, first: Array, matters: Callable[[Array], Array], so_far: SoFar
    ) -> Iterator[Block]:
        """Yield the blocks of candidates, in the order of ``first``, as long as they can matter.

        Those with NaN are left out. ``matters`` returns which of some candidates can still change
        the answer, judged by the answers so far.
        """
        left = np.argsort(first, kind="stable")
        left = left[: np.count_nonzero(~np.isnan(first))]
        while left.size:
            so_far.collected.merge()
            if not matters(left[:1])[0]:
                # All the others at once: to judge them one by one would take as long as reading.
                left = left[matters(left)]
                continue
            yield self.block(int(left[0]))
            left = left[1:]

    def _indexed_fronts(self) -> tuple[Array, Array, Sequence[Array]] | None:
        """Return counts, starts and points of the index's fronts if the objectives are theirs."""
        if self.part.objectives != FRONT or set(self.part.signs) != {1}:
            return None
        found = self.index.fronts()
        return None if found is None else (self.take(found[0]), self.take(found[1]), found[2])

    def _fronts(
        self, bounds: Sequence[Bounds], so_far: SoFar
    ) -> tuple[list[Kept], Iterator[Block]]:
        """Return the fronts of cells that the index alone can answer, and the blocks of the others.

        If the index has a cell's front, its points bound the cell: each configuration that a
        selection leaves is dominated by one of them or equal to it. Otherwise the smallest value of
        each objective bounds the cell.
        """
        lowest = [b.lowest for b in bounds]
        is_open = ~np.logical_or.reduce([np.isnan(low) for low in lowest])
        numbers = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        indexed = self._indexed_fronts()
        known: list[Kept] = []
        # Of each point that bounds a cell: the cell's number, the objectives, the position.
        owners, columns, places = [], [[] for _ in lowest], []  # type: ignore[var-annotated]
        if indexed is not None:
            counts, starts, (times, energies, positions) = indexed
            every = [self.is_exact(k) for k in range(len(bounds))]
            is_answered = np.logical_and.reduce(every) & (counts >= 0)
            answered = is_answered & (counts > 0)
            at = _ranges(starts[answered], counts[answered])
            groups = np.repeat(self.groups[answered], counts[answered])
            known = [Kept(groups, (times[at], energies[at]), positions[at])]
            is_open &= ~is_answered & (counts != 0)
            by_front = is_open & (counts > 0)
            at = _ranges(starts[by_front], counts[by_front])
            owners.append(np.repeat(numbers[by_front], counts[by_front]))
            for column, values in zip(columns, (times, energies), strict=True):
                column.append(values[at])
            places.append(positions[at])
            is_open &= ~by_front
        owners.append(numbers[is_open])
        for column, low in zip(columns, lowest, strict=True):
            column.append(low[is_open])
        places.append(
            np.full(len(owners[-1]), -1, np.int64)
        )  # a corner need not be a point of the cell
        owner, place = np.concatenate(owners), np.concatenate(places)
        points = np.stack([np.concatenate(column) for column in columns], axis=1)
        return known, self._undominated(owner, points, place, so_far)

    def _undominated(
        self, owner: Array, points: Array, place: Array, so_far: SoFar
    ) -> Iterator[Block]:
        """Yield the blocks that can contain a point of a front; points bound the cells."""
        candidate = owner // self.shape[-1]
        first = np.full(int(np.prod(self.shape[:2])), np.nan)
        np.fmin.at(first, candidate, points[:, 0])
        group = self.groups.ravel()[owner] if self.is_grouped else np.full(owner.shape, -1)

        def matters(candidates: Array) -> Array:
            mine = np.flatnonzero(np.isin(candidate, candidates))
            alive = np.ones(len(mine), bool)
            for number in np.unique(group[mine][group[mine] >= 0]).tolist():
                held = so_far.front(number)
                if held is None:
                    continue
                few = spread(np.arange(len(held[1])), AGAINST)
                against = np.stack([column[few] for column in held[0]], axis=1)
                here = np.flatnonzero(group[mine] == number)
                some = mine[here]
                alive[here] = ~_beaten(points[some], place[some], against, held[1][few])
            found = np.zeros(len(first), bool)
            found[candidate[mine[alive]]] = True
            return np.asarray(found[candidates])

        return self._in_order(first, matters, so_far)

    def _counts(self, keep: Keep, names: Sequence[str]) -> tuple[list[Kept], Iterator[Block]]:
        """Return the counts of candidates that the index knows, and the blocks of the others."""
        found = None
        if self.is_grouped:
            found = self._codes(keep, names) if keep.kind == "codes" else self._bins(keep)
        if found is None:
            return [], iter(self.part.blocks(names))
        counts, is_known = found
        candidates = (is_known | ~self.selected).all(axis=2, keepdims=True)
        is_whole = np.broadcast_to(candidates, self.shape) & self.selected
        left = (self.selected & ~is_whole).reshape(-1, self.shape[-1]).any(axis=1)
        known = [Kept.counted(self.groups[is_whole], counts[is_whole])] if is_whole.any() else []
        return known, map(self.block, np.flatnonzero(left).tolist())

    def _codes(self, keep: Keep, names: Sequence[str]) -> tuple[Array, Array] | None:
        """Return the counts of each cell's codes, and which cells they are known of."""
        counts = np.zeros((*self.shape, len(names), keep.width), np.int64)
        points = np.sum(list(self.counts("status").values()), axis=0)
        for line, name in enumerate(names):
            known = self.counts(name) if name in COUNTED else {}
            if not known:
                return None
            for code, n in known.items():
                counts[..., line, code] = n
            if name == "power_status":  # counted where there is a time
                no_time = points - counts[..., line, :].sum(axis=-1)
                counts[..., line, POWER_STATUS["no_time"]] += no_time
        return counts, self.is_whole

    def _bins(self, keep: Keep) -> tuple[Array, Array] | None:
        """Return the counts of cells whose numbers all lie in one bin, and which these are."""
        name = self.part.objectives[0]
        ends = [self.index.number(f"chunk_{end}", name) for end in ("minimum", "maximum")]
        amount = self.index.number("chunk_value_count", name)
        points = np.sum(list(self.counts("status").values()), axis=0)
        if ends[0] is None or ends[1] is None or amount is None or not np.ndim(points):
            return None
        low, high = (self.take(end).astype(np.float64) for end in ends if end is not None)
        numbers, n_cuts = self.take(amount), len(keep.cuts)
        first, last = (np.searchsorted(keep.cuts, end, side="right") for end in (low, high))
        counts = np.zeros((*self.shape, 1, keep.width), np.int64)
        at = np.where(numbers > 0, np.minimum(first, n_cuts), 0)
        np.put_along_axis(counts[..., 0, :], at[..., np.newaxis], numbers[..., np.newaxis], axis=-1)
        counts[..., 0, -1] = points - numbers
        return counts, self.is_exact(0) & ((first == last) | (numbers == 0))


def chunks_of(part: KernelPart) -> Chunks | None:
    """Return the chunks of a store that has an index of them; None without one."""
    index = part.grid.index
    if index is None or part.grid.dims != ("model", *index.units.dims):
        return None
    return Chunks(part, index)


def _ranges(starts: Array, counts: Array) -> Array:
    """Return the joined ranges that begin at ``starts`` and have ``counts`` members."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


def _beaten(points: Array, places: Array, against: Array, at: Array) -> Array:
    """Return the points that a front dominates; an equal point at an earlier place counts too."""
    beaten = np.zeros(len(points), bool)
    for limit, place in zip(against, at.tolist(), strict=True):
        above = (points >= limit).all(axis=1)
        beaten |= above & ((points > limit).any(axis=1) | (places > place))
    return beaten

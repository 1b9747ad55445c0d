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

import numpy as np

from sweep.fields import POWER_STATUS, Array
from sweep.fronts import spread
from sweep.query.blocks import Block, blocks_of
from sweep.query.question import KernelPart
from sweep.reduction import NOWHERE, Collected, Keep, Kept
from sweep.store.index import FRONT
from sweep.store.reader import GroupIndex

Answers = tuple[list[Kept], Iterator[Block]]

AGAINST = 64
"""Most points of a front that a chunk's own points are compared with."""


class Chunks:
    """The chunks that contain selected configurations, and the cells in them.

    Arrays of cells have the shape (chunks, models, devices). A candidate is one model's part of a
    chunk, which is read at once: a row of cells, one for each device.

    Attributes
    ----------
    selected : array of bool
        Whether anything of a cell is selected.
    is_whole : array of bool
        Whether all configurations of a cell are asked for.
    is_grouped : bool
        Whether all configurations of a cell belong to one group.
    """

    def __init__(self, part: KernelPart, index: GroupIndex) -> None:
        self.part, self.index = part, index
        units = index.units
        hits: list[Array] = []  # per dimension the chunks that the selection meets
        self._edges: list[Array] = []  # and where each one's selected indices begin and end
        whole: list[Array] = []
        for dim, size, chunk in zip(units.dims, units.shape, units.chunks, strict=True):
            chosen = part.selection.indices[dim]
            hit, first = np.unique(chosen // chunk, return_index=True)
            edges = np.append(first, len(chosen))
            hits.append(hit)
            self._edges.append(edges)
            whole.append(np.diff(edges) == np.minimum(chunk, size - hit * chunk))
        self._at = np.indices([len(hit) for hit in hits]).reshape(len(hits), -1)
        places = [hit[at] for hit, at in zip(hits, self._at, strict=True)]
        self.chunks = np.ravel_multi_index(places, units.counts)
        self.models = part.selection.indices["model"]
        # Each cell's number among the selected devices, -1 for one that is not selected.
        devices = part.selection.indices[units.dims[0]]
        among = np.full(units.counts[0] * units.chunks[0], -1)
        among[devices] = np.arange(len(devices))
        self.device = among.reshape(units.counts[0], -1)[places[0]]
        others = zip(whole[1:], self._at[1:], strict=True)
        complete = np.logical_and.reduce([of_dim[at] for of_dim, at in others])
        if part.condition is not None or part.selection.masks:
            complete = np.zeros(len(self.chunks), bool)
        self.shape = (len(self.chunks), len(self.models), units.chunks[0])
        self.selected = np.broadcast_to((self.device >= 0)[:, np.newaxis], self.shape)
        self.is_whole = self.selected & np.reshape(complete, (-1, 1, 1))
        self.is_grouped = set(part.by) <= {"model", units.dims[0]}

    def take(self, values: Array) -> Array:
        """Return the entries of the selected cells of an array of the index."""
        return values[self.chunks[:, np.newaxis], self.models]

    def bounds(self, objective: int) -> tuple[Array, Array, Array] | None:
        """Return the bounds of an objective in each cell; None if the index has none.

        Returns
        -------
        lowest, second : array
            The two smallest numbers, negated where the objective is maximised; NaN where a cell has
            none or is not selected.
        position : array
            That of the smallest, or -1.
        """
        name, sign = self.part.objectives[objective], self.part.signs[objective]
        end = "minimum" if sign > 0 else "maximum"
        arrays = (f"chunk_{end}", f"chunk_second_{end}", f"chunk_{end}_position")
        lowest, second, position = (self.index.number(array, name) for array in arrays)
        if lowest is None or second is None or position is None:
            return None
        return (
            np.where(self.selected, sign * self.take(lowest), np.nan),
            np.where(self.selected, sign * self.take(second), np.nan),
            np.where(self.selected, self.take(position), -1),
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

    def over_groups(self, of_group: Array) -> Array:
        """Return for each cell the largest number among its groups, given one for each group."""
        found = of_group.reshape(self.part.shape)
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
        return np.broadcast_to(found[tuple(at)], self.shape)

    @property
    def groups(self) -> Array:
        """Each cell's group; the last of them where it has several."""
        return self.over_groups(np.arange(self.part.size))

    def block(self, candidate: int) -> Block:
        """Return the block of a candidate; chunks count slowest in its number, models fastest."""
        chunk, model = divmod(candidate, len(self.models))
        ranges = {"model": (model, model + 1)}
        for name, edges, at in zip(self.index.units.dims, self._edges, self._at, strict=True):
            ranges[name] = (int(edges[at[chunk]]), int(edges[at[chunk] + 1]))
        return Block(self.part, tuple(ranges[name] for name in self.part.grid.dims))

    # ------------------------------------------------------------------------ reduction

    def reduced(self, keep: Keep, names: Sequence[str], so_far: Collected) -> Answers:
        """Return the answers of the index, and the blocks that have to be read.

        Parameters
        ----------
        keep : Keep
            What to keep of each group.
        names : sequence of str
            The codes to count.
        so_far : Collected
            The answers so far; includes those of the index once the blocks are iterated.
        """
        if keep.is_count:
            return self._counts(keep, names)
        bounds = [self.bounds(k) for k in range(len(self.part.objectives))]
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return [], iter(blocks_of(self.part))
        if keep.kind == "front":
            return self._fronts([lowest for lowest, _, _ in known], so_far)
        return self._smallest(keep, *known[0], so_far)

    def _smallest(
        self, keep: Keep, lowest: Array, second: Array, position: Array, so_far: Collected
    ) -> Answers:
        """Return the smallest that the index knows, and the blocks that can have one of them."""
        known = []
        if keep.value_only:
            groups, is_exact = self.groups, self.is_exact(0)
            for values, at in ((lowest, position), (second, np.full(self.shape, NOWHERE))):
                mine = is_exact & ~np.isnan(values)
                known.append(Kept(groups[mine], (values[mine],), at[mine]))
            lowest = np.where(is_exact, np.nan, lowest)

        def matters(candidates: Array) -> Array:
            value, last = (
                self.over_groups(limit).reshape(-1, self.shape[-1])[candidates]
                for limit in so_far.limits()
            )
            least, places = (
                cells.reshape(-1, self.shape[-1])[candidates] for cells in (lowest, position)
            )
            return np.asarray(((least < value) | ((least == value) & (places < last))).any(axis=1))

        return known, self._in_order(np.fmin.reduce(lowest, axis=2).ravel(), matters, so_far)

    def _in_order(
        self, first: Array, matters: Callable[[Array], Array], so_far: Collected
    ) -> Iterator[Block]:
        """Yield the blocks of candidates, in the order of ``first``, as long as they can matter.

        Those with NaN are left out. ``matters`` returns which of some candidates can still change
        the answer, judged by the answers so far.
        """
        left = np.argsort(first, kind="stable")
        left = left[: np.count_nonzero(~np.isnan(first))]
        while left.size:
            so_far.merge()
            if not matters(left[:1])[0]:
                # All the others at once: to judge them one by one would take as long as reading.
                left = left[matters(left)]
                continue
            yield self.block(int(left[0]))
            left = left[1:]

    def _fronts(self, lowest: Sequence[Array], so_far: Collected) -> Answers:
        """Return the fronts of cells that the index alone can answer, and the blocks of the others.

        If the index has a cell's front, its points bound the cell: each configuration that a
        selection leaves is dominated by one of them or equal to it. Otherwise the smallest value of
        each objective bounds the cell.
        """
        cells = np.arange(np.prod(self.shape)).reshape(self.shape)
        is_open = ~np.logical_or.reduce([np.isnan(low) for low in lowest])
        known: list[Kept] = []
        # Points that bound cells: the cells' numbers, the objectives, and positions.
        points: list[tuple[Array, ...]] = []
        has_fronts = self.part.objectives == FRONT and set(self.part.signs) == {1}
        indexed = self.index.fronts() if has_fronts else None
        if indexed is not None:
            counts, starts = map(self.take, indexed[:2])

            def points_of(chosen: Array) -> tuple[Array, ...]:
                at = _ranges(starts[chosen], counts[chosen])
                return np.repeat(cells[chosen], counts[chosen]), *(c[at] for c in indexed[2])

            is_exact = self.is_exact(0) & self.is_exact(1)
            if is_exact.any():
                owner, *columns, places = points_of(is_exact & (counts > 0))
                known = [Kept(self.groups.ravel()[owner], tuple(columns), places)]
            points.append(points_of(is_open & ~is_exact & (counts > 0)))
            is_open &= counts < 0
        corners = [low[is_open] for low in lowest]
        # A corner need not be a point of the cell.
        points.append((cells[is_open], *corners, np.full(len(corners[0]), -1)))
        owner, *columns, places = map(np.concatenate, zip(*points, strict=True))
        return known, self._undominated(owner, np.stack(columns, axis=1), places, so_far)

    def _undominated(
        self, owner: Array, points: Array, place: Array, so_far: Collected
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
                known = so_far.front(number)
                if known is None:
                    continue
                few = spread(np.arange(len(known[1])), AGAINST)
                against = np.stack([column[few] for column in known[0]], axis=1)
                here = np.flatnonzero(group[mine] == number)
                some = mine[here]
                alive[here] = ~_beaten(points[some], place[some], against, known[1][few])
            found = np.zeros(len(first), bool)
            found[candidate[mine[alive]]] = True
            return np.asarray(found[candidates])

        return self._in_order(first, matters, so_far)

    def _counts(self, keep: Keep, names: Sequence[str]) -> Answers:
        """Return the counts of candidates that the index knows, and the blocks of the others."""
        codes, statuses = self.index.counts("status")
        found = None
        if self.is_grouped and codes:
            points = self.take(statuses).sum(axis=-1)
            found = (
                self._bins(keep, points)
                if keep.kind == "bins"
                else self._codes(keep, names, points)
            )
        if found is None:
            return [], iter(blocks_of(self.part, names))
        counts, is_known = found
        is_whole = (is_known | ~self.selected).all(axis=2, keepdims=True) & self.selected
        left = (self.selected & ~is_whole).any(axis=2)
        known = [Kept.counted(self.groups[is_whole], counts[is_whole])]
        return known, map(self.block, np.flatnonzero(left).tolist())

    def _codes(self, keep: Keep, names: Sequence[str], points: Array) -> tuple[Array, Array] | None:
        """Return the counts of each cell's codes, and which cells they are known of."""
        counts = np.zeros((*self.shape, len(names), keep.width), np.int64)
        for line, name in enumerate(names):
            codes, known = self.index.counts(name)
            if not codes:
                return None
            counts[..., line, codes] = self.take(known)
            if name == "power_status":  # counted where there is a time
                no_time = points - counts[..., line, :].sum(axis=-1)
                counts[..., line, POWER_STATUS["no_time"]] += no_time
        return counts, self.is_whole

    def _bins(self, keep: Keep, points: Array) -> tuple[Array, Array] | None:
        """Return the counts of cells whose numbers all lie in one bin, and which these are."""
        name = self.part.objectives[0]
        arrays = ("chunk_minimum", "chunk_maximum", "chunk_value_count")
        low, high, amount = (self.index.number(array, name) for array in arrays)
        if low is None or high is None or amount is None:
            return None
        numbers = self.take(amount)
        first, last = (
            np.searchsorted(keep.cuts, self.take(end).astype(np.float64), side="right")
            for end in (low, high)
        )
        counts = np.zeros((*self.shape, 1, keep.width), np.int64)
        at = np.where(numbers > 0, np.minimum(first, len(keep.cuts)), 0)
        np.put_along_axis(counts[..., 0, :], at[..., np.newaxis], numbers[..., np.newaxis], axis=-1)
        counts[..., 0, -1] = points - numbers
        return counts, self.is_exact(0) & ((first == last) | (numbers == 0))


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

"""Answers from a store's index: what needs no reading, and what can be left unread.

Branch and bound over the chunks: each has a bound from the index, the most promising is read first,
and whatever cannot change the answer is never read. Ties are decided as everywhere, by position, so
that the answers are those of a full scan, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.query.cells import Cells, in_order
from sweep.query.select import Minima, merge_fronts, no_minima, spread
from sweep.query.view import Block

__all__ = ["exact_minima", "fronts_of_cells", "unbeaten", "undominated"]

Array = NDArray[Any]
Limits = Callable[[], tuple[Array, Array]]

AGAINST = 64  # points of a front that a chunk's own points are compared with

FRONT = ("execution_time", "energy")
"""Objectives, minimised, of which the index keeps Pareto fronts."""


def exact_minima(cells: Cells) -> Minima:
    """Return each group's first minimum over the cells that need no reading.

    Positions are those in the view's grid; groups without such cells have none.
    """
    view = cells.view
    bounds = cells.bounds(0)
    found = no_minima(view.groups)
    if bounds is None or not cells.is_grouped:
        return found
    known = cells.is_exact(0) & ~np.isnan(bounds.lowest)
    groups, values = cells.groups[known], bounds.lowest[known]
    positions, seconds = bounds.position[known], bounds.second[known]
    order = np.lexsort((positions, values, groups))
    groups = groups[order]
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    mine = groups[first]
    found.value[mine] = values[order[first]]
    found.position[mine] = positions[order[first]]
    found.runner_up[mine] = seconds[order[first]]
    has_next = first + 1 < len(groups)
    has_next[has_next] = groups[first[has_next] + 1] == mine[has_next]
    following = mine[has_next]
    others = values[order[first[has_next] + 1]]
    found.runner_up[following] = np.fmin(found.runner_up[following], others)
    return found


def unbeaten(cells: Cells, limits: Limits, *, exact: bool) -> Iterable[Block]:
    """Return the blocks that can hold one of the best configurations of their groups.

    Parameters
    ----------
    cells : Cells
        A view's cells.
    limits : callable
        Returns for each of the view's groups a value and a position: a configuration matters if
        its value is smaller, or if it is equal and at a smaller position.
    exact : bool
        Whether cells that :func:`exact_minima` answers are left out.
    """
    bounds = cells.bounds(0)
    if bounds is None:
        return cells.view.blocks()
    lowest = bounds.lowest
    if exact:
        lowest = np.where(cells.is_exact(0), np.nan, lowest)
    by_candidate = lowest.reshape(-1, cells.shape[-1])
    positions = bounds.position.reshape(by_candidate.shape)

    def matters(candidates: Array) -> Array:
        value, position = (
            cells.over_groups(limit).reshape(by_candidate.shape)[candidates] for limit in limits()
        )
        mine = by_candidate[candidates]
        smaller = (mine < value) | ((mine == value) & (positions[candidates] < position))
        return np.asarray(smaller.any(axis=1))

    return in_order(cells, np.fmin.reduce(by_candidate, axis=1), matters)


# ---------------------------------------------------------------------------- Pareto fronts


def _kept_fronts(cells: Cells) -> tuple[Array, Array, Sequence[Array]] | None:
    """Return counts, starts and points of the index's fronts where the question is of them."""
    view = cells.view
    if tuple(view.objectives) != FRONT or set(view.signs) != {1.0}:
        return None
    found = cells.index.fronts()
    return None if found is None else (cells.take(found[0]), cells.take(found[1]), found[2])


def fronts_of_cells(cells: Cells) -> dict[int, tuple[list[Array], Array]]:
    """Return each group's Pareto front over the cells that need no reading.

    Returns
    -------
    dict
        Group of the view to columns and positions in the view's grid.
    """
    kept = _kept_fronts(cells)
    if kept is None:
        return {}
    counts, starts, (times, energies, positions) = kept
    known = _answered(cells, counts) & (counts > 0)
    groups = cells.groups[known]
    found: dict[int, tuple[list[Array], Array]] = {}
    for group in np.unique(groups).tolist():
        mine = groups == group
        at = _ranges(starts[known][mine], counts[known][mine])
        columns = [times[at], energies[at]]
        best = merge_fronts(columns, positions[at])
        found[group] = [column[best] for column in columns], positions[at][best]
    return found


def _answered(cells: Cells, counts: Array) -> Array:
    """Return which cells' fronts are in the index whole, and asked for whole."""
    every = range(len(cells.view.objectives))
    return np.logical_and.reduce([cells.is_exact(k) for k in every]) & (counts >= 0)


def _ranges(starts: Array, counts: Array) -> Array:
    """Return the joined ranges that begin at ``starts`` and have ``counts`` members."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)


def undominated(
    cells: Cells, held: Callable[[], dict[int, tuple[list[Array], Array]]]
) -> Iterable[Block]:
    """Return the blocks that can hold a point of their groups' Pareto fronts.

    A cell is bounded by the points of its own front where the index keeps them: whatever a
    selection leaves of the cell is nowhere below one of them. Else by its smallest numbers.

    Parameters
    ----------
    cells : Cells
        A view's cells.
    held : callable
        Returns the fronts found up to now by the view's groups: columns, and positions in the
        view's grid (of points of kernels before it negative).
    """
    view = cells.view
    every = [cells.bounds(k) for k in range(len(view.objectives))]
    bounds = [b for b in every if b is not None]
    if len(bounds) < len(every):
        return view.blocks()
    lowest = [b.lowest for b in bounds]
    open_cells = ~np.logical_or.reduce([np.isnan(low) for low in lowest])
    kept = _kept_fronts(cells)
    has_front = np.zeros(cells.shape, bool)
    if kept is not None:
        has_front = kept[0] >= 0
        open_cells &= ~_answered(cells, kept[0]) & (kept[0] != 0)
    by_corner = open_cells & ~has_front
    numbers = np.arange(int(np.prod(cells.shape))).reshape(cells.shape)
    owners = [numbers[by_corner]]
    columns = [[low[by_corner]] for low in lowest]
    places = [np.full(owners[0].shape, -1, np.int64)]  # a corner is where no point need be
    by_front = open_cells & has_front
    if kept is not None and by_front.any():
        counts, starts, (times, energies, positions) = kept
        at = _ranges(starts[by_front], counts[by_front])
        owners.append(np.repeat(numbers[by_front], counts[by_front]))
        columns[0].append(times[at])
        columns[1].append(energies[at])
        places.append(positions[at])
    owner = np.concatenate(owners)
    points = np.stack([np.concatenate(column) for column in columns], axis=1)
    place = np.concatenate(places)
    candidate = owner // cells.shape[-1]
    first = np.full(numbers.size // cells.shape[-1], np.nan)
    np.fmin.at(first, candidate, points[:, 0])
    group = cells.groups.ravel()[owner] if cells.is_grouped else np.full(owner.shape, -1)

    def matters(candidates: Array) -> Array:
        mine = np.flatnonzero(np.isin(candidate, candidates))
        alive = np.ones(len(mine), bool)
        for number, (front, at) in held().items():
            here = np.flatnonzero(group[mine] == number)
            if here.size and at.size:
                few = spread(np.argsort(front[0]), AGAINST)
                against = np.stack([column[few] for column in front], axis=1)
                some = mine[here]
                alive[here] = ~_beaten(points[some], place[some], against, at[few])
        found = np.zeros(len(first), bool)
        found[candidate[mine[alive]]] = True
        return np.asarray(found[candidates])

    return in_order(cells, first, matters)


def _beaten(points: Array, places: Array, against: Array, at: Array) -> Array:
    """Return which points a point of a front dominates, or equals from an earlier place."""
    beaten = np.zeros(len(points), bool)
    for limit, place in zip(against, at.tolist(), strict=True):
        above = (points >= limit).all(axis=1)
        beaten |= above & ((points > limit).any(axis=1) | (places > place))
    return beaten

"""The front of points that no other point beats, of one to three objectives.

Nothing here knows of datasets, dimensions or files. All objectives are minimised (to maximise,
negate), NaN means that there is no point, and infinities are numbers like any other. Of several
equal points a front keeps only the first. Fronts of parts merge into the front of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = Sequence[Array]

LEAF = 16
"""Points compared pair by pair, a power of two."""
SAMPLE = 2048
"""Points whose front supplies the killers: points that dominate many others."""
KILLERS = 8
"""Most killers; each costs a pass over what the others left."""
WIDE = 256
"""Points of a sample's front from which on no few of them dominate much."""
FEW = 128
"""A killer must dominate one in so many points to be worth its pass."""


def front(columns: Columns, killers: Columns = ()) -> Array:
    """Return the indices of the points that no other point dominates.

    A point dominates another if it is nowhere larger and somewhere smaller. Of points that are
    equal in every column only the first is kept. A point with a NaN is no point.

    Parameters
    ----------
    columns : sequence of ndarray, each of shape (points,)
        One to three objectives.
    killers : sequence of ndarray, one per objective
        Points known from elsewhere: whatever they dominate is dropped at once. They only save
        work; a point equal to a killer stays.

    Returns
    -------
    ndarray of int
        Ascending indices.
    """
    missing = np.isnan(columns[0])
    for column in columns[1:]:
        missing = missing | np.isnan(column)
    alive = np.flatnonzero(~missing)
    columns = [column[alive] for column in columns]
    alive, columns = _drop_dominated(alive, columns, killers)
    if alive.size > SAMPLE:
        sample = [column[:: alive.size // SAMPLE] for column in columns]
        few = _killers(sample, _exact(sample))
        alive, columns = _drop_dominated(alive, columns, [column[few] for column in sample])
    kept = np.zeros(alive.size, bool)
    kept[_exact(columns)] = True
    return alive[kept]


def merge_fronts(columns: Columns, positions: Array) -> Array:
    """Return the indices of the front of gathered candidates, in the order of their positions."""
    order = np.argsort(positions, kind="stable")
    return order[front([column[order] for column in columns])]


def knee(x: Array, y: Array) -> int:
    """Return the index of a two-objective front's knee.

    The knee is the point farthest below the straight line between the front's end points, on
    logarithmic axes where all values are positive: there a step to either side costs the most.
    """
    if np.all(x > 0) and np.all(y > 0):
        x, y = np.log(x), np.log(y)
    width, height = np.ptp(x), np.ptp(y)
    if not (np.isfinite(width) and np.isfinite(height) and width > 0 and height > 0):
        return 0
    return int(np.argmin((x - x.min()) / width + (y - y.min()) / height))


def spread(indices: Array, n: int) -> Array:
    """Return at most ``n`` of the indices, evenly spread."""
    if indices.size <= n:
        return indices
    return indices[np.linspace(0, indices.size - 1, n).astype(np.int64)]


def _killers(sample: Columns, best: Array) -> Array:
    """Return points of a sample's front that together dominate the most of it, the best first."""
    if best.size > WIDE:
        return spread(best, KILLERS)
    above = np.ones((best.size, sample[0].size), bool)
    for column in sample:
        above &= column[best, np.newaxis] <= column
    chosen: list[int] = []
    while len(chosen) < KILLERS:
        gains = np.count_nonzero(above, axis=1)
        if gains.max() < max(1, sample[0].size // FEW):
            break
        chosen.append(int(np.argmax(gains)))
        above = above & ~above[chosen[-1]]
    return best[chosen]


def _drop_dominated(
    alive: Array, columns: Columns, killers: Columns
) -> tuple[Array, Sequence[Array]]:
    """Drop the points that a killer dominates."""
    for killer in zip(*killers, strict=True):
        keep = columns[0] < killer[0]
        for column, limit in zip(columns[1:], killer[1:], strict=True):
            keep |= column < limit
        # Points equal to the killer are not dominated by it; the first of them may be needed.
        equal = np.flatnonzero(columns[0] == killer[0])
        for column, limit in zip(columns[1:], killer[1:], strict=True):
            equal = equal[column[equal] == limit]
        keep[equal[:1]] = True
        if keep.all():
            continue
        alive = alive[keep]
        columns = [column[keep] for column in columns]
    return alive, columns


def _exact(columns: Columns) -> Array:
    """Return the indices of the front of points without NaN, sorted by the columns."""
    if columns[0].size == 0:
        return np.empty(0, np.int64)
    order = _in_order(columns)
    if len(columns) == 1:
        return order[:1]
    if len(columns) == 2:
        return order[_staircase(columns[1][order])]
    return order[_front3(columns[1][order], columns[2][order])]


def _in_order(columns: Columns) -> Array:
    """Return the order by the columns in turn, then by position.

    Only earlier points can dominate in it. Sorting by one column and then what is equal in it takes
    a fraction of the time of ``lexsort``, whose sorts cannot be NumPy's vectorised one.
    """
    first, *rest = columns
    order = np.argsort(first)
    sorted_first = first[order]
    equal = np.zeros(first.size + 1, bool)
    equal[1:-1] = sorted_first[1:] == sorted_first[:-1]
    tied = np.flatnonzero(equal[1:] | equal[:-1])
    if tied.size:
        mine = order[tied]
        keys = (mine, *(column[mine] for column in rest[::-1]), sorted_first[tied])
        order[tied] = mine[np.lexsort(keys)]
    return order


def _staircase(y: Array) -> Array:
    """Return where ``y`` is below everything before it."""
    lowest = np.minimum.accumulate(y)
    keep = np.ones(y.size, bool)
    keep[1:] = y[1:] < lowest[:-1]
    return np.flatnonzero(keep)


def _front3(y: Array, z: Array) -> Array:
    """Return the front of points sorted by (x, y, z), by halves, all halves of a size at once.

    In this order a point is dominated, or a repetition, exactly if an earlier one is nowhere larger
    in y and z. Of each block of points its first half may dominate points of the second: in the
    order of y that shows in the smallest z of the first half up to there. The halves are the next
    blocks, already in the order of y; small blocks are compared pair by pair.
    """
    n = y.size
    size = max(LEAF, 1 << (n - 1).bit_length())
    filled = np.full((2, size), [[np.inf], [np.nan]])  # what fills up is no point
    filled[0, :n], filled[1, :n] = y, z
    dominated = np.zeros(size, bool)
    place = _in_order([filled[0]]).reshape(1, size)  # in the order of y, of equal ones the first
    while place.shape[1] > LEAF:
        half = place.shape[1] // 2
        heights = filled[1][place]
        is_first = (place & half) == 0  # blocks begin at multiples of their size
        lowest = np.fmin.accumulate(np.where(is_first, heights, np.nan), axis=1)
        dominated[place[~is_first & (lowest <= heights)]] = True
        halves = (place[part].reshape(-1, 1, half) for part in (is_first, ~is_first))
        place = np.concatenate(list(halves), axis=1).reshape(-1, half)
    ys, zs = (np.ascontiguousarray(column.reshape(-1, LEAF).T) for column in filled)
    within = np.zeros(ys.shape, bool)
    for i in range(1, LEAF):
        within[i] = ((ys[:i] <= ys[i]) & (zs[:i] <= zs[i])).any(axis=0)
    return np.flatnonzero(~(dominated | within.T.ravel())[:n])

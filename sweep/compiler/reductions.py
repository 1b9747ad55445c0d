"""What a reducing pass does with a tile of results: keep the smallest, gather a front, count.

Each ``take_...`` function gets a tile's results while they lie in the first level cache, looks at
all of them in a loop that vectorises, and at single points only where that loop found any that can
matter. All minimise (the caller multiplies by -1 to maximise); NaN means that there is nothing. Of
equal values the first position counts. A function is named after what it keeps: a kind of
:class:`sweep.reduction.Keep`, or the least of each point.

A front is not kept by the pass: it gathers the points that the front so far does not beat, and
:func:`sweep.fronts.front` drops what they beat among themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.fields import Array
from sweep.fronts import merge_fronts
from sweep.jit import compiled
from sweep.reduction import NOWHERE, Keep, Kept

TILE = 4096
"""Most points of a tile: some ten clocked tables of this length fit the second level cache, and
what a row costs besides its points no longer counts."""
ROW_TILE = 512
"""Points of a tile where all of a hundred inputs are rows, which then fit the same cache."""
LEVELS = 16
"""Parts of a front, in the order of the first objective, at whose ends it is known which is the
smallest third objective up to each second one."""
KILLERS = 8
"""Points of a front that a whole tile is tested against, as far as there are as many."""
ROOM = 1 << 14
"""Points that are gathered before those that others beat are dropped."""


class State:
    """The arrays that a pass writes to; they go from one block of a grid to the next.

    Attributes
    ----------
    keeps : str
        Which ``take_...`` function it is for.
    arguments : tuple of ndarray
        What that function gets as its state.
    """

    keeps: str
    arguments: tuple[Array, ...]

    def make_room(self) -> None:
        """Drop what is beaten, where points are gathered."""

    def kept(self, group: int) -> Kept:
        """Return what was kept of the group; of several groups, ``group`` is the first."""
        raise NotImplementedError


# ---------------------------------------------------------------------------- the smallest


class Smallest(State):
    """The smallest of a group, ascending: ``held[0]`` of them."""

    keeps = "smallest"

    def __init__(self, n: int, signs: tuple[int, ...], dtype: Any) -> None:
        values, positions = np.full(n, np.inf, dtype), np.full(n, -1, np.int64)
        self.arguments = values, positions, np.zeros(1, np.int64), np.array(signs, dtype)

    def kept(self, group: int) -> Kept:
        """Return what was kept of the group."""
        values, positions, (n,), _ = self.arguments
        return Kept(np.full(n, group), (values[:n].copy(),), positions[:n].copy())


@compiled
def take_smallest(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Keep the N smallest, ascending, of the state of :class:`Smallest`."""
    values, positions, held, signs = state
    row, sign, size = rows[0], signs[0], values.size
    last = values[size - 1]  # infinite until there are N
    n = 0
    if is_tiled or held[0] < size:
        # Tiles that do not come in the order of positions may hold an equal value that is first.
        for j in range(row.size):
            n += sign * row[j] <= last
    else:
        for j in range(row.size):
            n += sign * row[j] < last
    if n == 0:
        return True
    for j in range(row.size):
        value = sign * row[j]
        if not value <= last:
            continue
        position = base + inner[start + j]
        full = held[0] == size
        if full and value == last and position > positions[size - 1]:
            continue
        at = held[0] - 1 if full else held[0]
        held[0] = size if full else held[0] + 1
        while at > 0 and (
            values[at - 1] > value or (values[at - 1] == value and positions[at - 1] > position)
        ):
            values[at], positions[at] = values[at - 1], positions[at - 1]
            at -= 1
        values[at], positions[at] = value, position
        if held[0] == size:
            last = values[size - 1]
    return True


class LeastOfEach(State):
    """The smallest of each point of the inner loop by itself, and the second smallest value.

    ``groups`` and ``inner`` are what each point adds to the group's number, and to the position.
    """

    keeps = "least_of_each"

    def __init__(self, groups: Array, inner: Array, signs: tuple[int, ...], dtype: Any) -> None:
        self.groups, self.inner = groups, inner
        self.values = np.full((2, len(inner)), np.nan, dtype)
        positions = np.full(len(inner), -1, np.int64)
        self.arguments = *self.values, positions, np.array(signs, dtype)

    def kept(self, group: int) -> Kept:
        """Return what was kept of the points' groups; ``group`` is the number of the first."""
        rows = self.arguments[2] + self.inner
        positions = np.stack([rows, np.full_like(rows, NOWHERE)])
        groups = np.stack([group + self.groups] * 2)
        is_there = ~np.isnan(self.values)
        return Kept(groups[is_there], (self.values[is_there],), positions[is_there])


@compiled
def take_least_of_each(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Keep the smallest along the rows, of the state of :class:`LeastOfEach`."""
    least, second, positions, signs = state
    row, sign, n = rows[0], signs[0], rows[0].size
    bests, others, places = (least[start : start + n], second[start : start + n],
                             positions[start : start + n])  # fmt: skip
    for j in range(n):
        value, best, other = sign * row[j], bests[j], others[j]
        # Rows come in the order of positions: of equal values the first stays.
        better = (value < best) | ((best != best) & (value == value))
        closer = (value < other) | (other != other)
        others[j] = best if better else (value if closer else other)
        bests[j] = value if better else best
        places[j] = base if better else places[j]
    return True


# ---------------------------------------------------------------------------- fronts


class Front(State):
    """The front of a group so far, and the points gathered since that it does not beat.

    Two objectives are three whose third one is the second again. ``columns`` and ``positions`` are
    the front in the order of the objectives. A pass also gets its second objectives, ascending, as
    ``heights``; as ``least``, for each level, the smallest third objectives of the level's points
    up to each height, NaN without any; and as ``limits`` the first objectives at the ends of the
    levels.
    """

    keeps = "front"

    def __init__(self, signs: tuple[int, ...], dtype: Any, gathered: tuple[Array, ...]) -> None:
        self._signs, self._gathered = np.array(signs, dtype), gathered
        self._settle(np.empty((len(signs), 0), dtype), np.empty(0, np.int64))

    def _settle(self, columns: Array, positions: Array) -> None:
        """Keep the front of points, and lay out what tests new ones."""
        front = merge_fronts(list(columns), positions)
        front = front[np.lexsort(columns[::-1, front])]
        self.columns = columns = np.ascontiguousarray(columns[:, front])
        self.positions, n, last = positions[front], len(front), columns[-1]
        heights = np.sort(columns[1])
        places = np.searchsorted(heights, columns[1])
        least = np.full((LEVELS, n), np.nan, columns.dtype)
        limits = np.full(LEVELS, -np.inf, columns.dtype)
        lowest = np.full(n, np.nan, columns.dtype)
        start = 0
        for level in range(LEVELS):
            stop = (level + 1) * n // LEVELS
            np.fmin.at(lowest, places[start:stop], last[start:stop])
            least[level] = np.fmin.accumulate(lowest)
            limits[level] = columns[0, stop - 1] if stop else -np.inf
            start = stop
        front_so_far = columns, self.positions, heights, least, limits
        self.arguments = *front_so_far, *self._gathered, self._signs

    def make_room(self) -> None:
        """Drop what is beaten."""
        columns, positions, held, _ = self._gathered
        n, held[0] = int(held[0]), 0
        if n:
            self._settle(
                np.concatenate([self.columns, columns[: len(self.columns), :n]], axis=1),
                np.concatenate([self.positions, positions[:n]]),
            )

    def kept(self, group: int) -> Kept:
        """Return what was kept of the group."""
        return Kept(np.full(len(self.positions), group), tuple(self.columns), self.positions)


def gathering(dtype: Any) -> tuple[Array, ...]:
    """Return room for points that may be on a front: of one thread, for its groups in turn."""
    columns, positions = np.empty((3, ROOM), dtype), np.empty(ROOM, np.int64)
    return columns, positions, np.zeros(1, np.int64), np.empty(TILE, np.bool_)


@compiled
def _count_up_to(heights, y):  # type: ignore[no-untyped-def]
    """Return how many of ascending heights are not above one."""
    low, high = 0, heights.size
    while low < high:
        middle = (low + high) // 2
        if heights[middle] <= y:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _is_beaten(x, y, z, heights, least, limits):  # type: ignore[no-untyped-def]
    """Whether a front is known to beat a point or to equal it: always rightly, mostly known."""
    levels = -1
    for level in range(LEVELS):
        levels += limits[level] <= x
    at = _count_up_to(heights, y)
    return levels >= 0 and at > 0 and least[levels, at - 1] <= z


@compiled
def _place_of(columns, x, y, z):  # type: ignore[no-untyped-def]
    """Return where a front has a point, -1 if it has not."""
    m, low, high = columns.shape[0] - 1, 0, columns.shape[1]
    while low < high:
        middle = (low + high) // 2
        a, b, c = columns[0, middle], columns[1, middle], columns[m, middle]
        if a < x or (a == x and (b < y or (b == y and c < z))):
            low = middle + 1
        else:
            high = middle
    found = low < columns.shape[1] and columns[0, low] == x
    found = found and columns[1, low] == y and columns[m, low] == z
    return low if found else -1


@compiled
def take_front(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Gather what may be on a front, of the state of :class:`Front`; False if there is no room."""
    columns, positions, heights, least, limits, gathered, at, held, alive, signs = state
    last = len(rows) - 1
    row_x, row_y, row_z = rows[0], rows[1], rows[last]
    sign_x, sign_y, sign_z = signs[0], signs[1], signs[last]
    n = row_x.size
    for j in range(n):
        alive[j] = (row_x[j] == row_x[j]) & (row_y[j] == row_y[j]) & (row_z[j] == row_z[j])
    killers, size = columns, positions.size
    if size == 0:
        killers, size = gathered, held[0]
    if size == 0:  # some of the tile itself, written where nothing is held
        size = min(KILLERS, n)
        for k in range(size):
            i = k * (n - 1) // max(size - 1, 1)
            x, y, z = sign_x * row_x[i], sign_y * row_y[i], sign_z * row_z[i]
            gathered[0, k], gathered[1, k], gathered[last, k] = x, y, z
    for k in range(min(KILLERS, size)):
        # Evenly spread over the front, both ends included.
        i = k * (size - 1) // max(min(KILLERS, size) - 1, 1)
        kill_x, kill_y, kill_z = killers[0, i], killers[1, i], killers[last, i]
        if not (kill_x == kill_x and kill_y == kill_y and kill_z == kill_z):
            continue
        for j in range(n):
            x, y, z = sign_x * row_x[j], sign_y * row_y[j], sign_z * row_z[j]
            # Those with an equal last objective stay: they may equal the point.
            alive[j] &= (x < kill_x) | (y < kill_y) | (z <= kill_z)
    left = 0
    for j in range(n):
        left += alive[j]
    if left == 0:
        return True
    if held[0] + left > at.size:
        return False
    for j in range(n):
        if not alive[j]:
            continue
        x, y, z = sign_x * row_x[j], sign_y * row_y[j], sign_z * row_z[j]
        position = base + inner[start + j]
        if _is_beaten(x, y, z, heights, least, limits):
            place = _place_of(columns, x, y, z) if is_tiled else -1
            if place >= 0 and position < positions[place]:
                positions[place] = position
            continue
        gathered[0, held[0]], gathered[1, held[0]], gathered[last, held[0]] = x, y, z
        at[held[0]] = position
        held[0] += 1
    return True


# ---------------------------------------------------------------------------- counts


class Counts(State):
    """How often a pass saw each code of each variable, or how many values are in each bin.

    The counts have a line for each variable, of :attr:`Keep.width` numbers. Cuts are filled up with
    infinity to a power of two.
    """

    def __init__(self, keep: Keep, variables: int) -> None:
        self.keeps = keep.kind
        cuts = np.full(1 << len(keep.cuts).bit_length(), np.inf)
        cuts[: len(keep.cuts)] = keep.cuts
        self.arguments = np.zeros((variables, keep.width), np.int64), cuts, np.empty(TILE, np.int64)

    def kept(self, group: int) -> Kept:
        """Return the counts of the group."""
        return Kept.counted([group], self.arguments[0][np.newaxis])


@compiled
def take_codes(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Count codes, of the state of :class:`Counts`."""
    counts = state[0]
    for i in range(len(rows)):
        row = rows[i]
        for j in range(row.size):
            counts[i, row[j]] += 1
    return True


@compiled
def take_bins(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Count numbers by bin, of the state of :class:`Counts`."""
    counts, cuts, place = state
    size, n_lines = cuts.size, counts.shape[1]
    for i in range(len(rows)):
        row, line = rows[i], counts[i]
        n = row.size
        for j in range(n):
            place[j] = 0
        # A search by halves, all numbers of the tile at once and without branches.
        step = size // 2
        while step > 0:
            for j in range(n):
                place[j] += step if row[j] >= cuts[place[j] + step - 1] else 0
            step //= 2
        for j in range(n):
            # Cuts that are not there are infinite, which infinity is not below.
            at = min(place[j], n_lines - 2)
            line[at if row[j] == row[j] else n_lines - 1] += 1
    return True

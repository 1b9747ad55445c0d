"""The front of three objectives that a reducing pass keeps, in a time of n log n.

Points that may be on the front are only gathered. Whenever there is no room for more, all are
sorted and those that another one beats are dropped (:func:`settle`), which costs n log n and makes
half of the room free. What is left, the settled front, tells of a new point by two searches whether
it is beaten, but for a narrow strip; so few points are gathered in vain.

All minimise, and of equal points the first position stays.
"""

from __future__ import annotations

import numpy as np

from sweep._jit import compiled

__all__ = ["LEVELS", "settle", "take_front_of_three"]

LEVELS = 16
"""Parts of the settled front, in the order of the first objective, at whose ends it is known which
is the smallest third objective up to each second one."""
KILLERS = 8
"""Points of the front that a tile is tested against, as far as there are as many."""


@compiled
def _before(columns, positions, i, j):  # type: ignore[no-untyped-def]
    for c in range(columns.shape[0]):
        if columns[c, i] != columns[c, j]:
            return columns[c, i] < columns[c, j]
    return positions[i] < positions[j]


@compiled
def _swap(columns, positions, i, j):  # type: ignore[no-untyped-def]
    for c in range(columns.shape[0]):
        columns[c, i], columns[c, j] = columns[c, j], columns[c, i]
    positions[i], positions[j] = positions[j], positions[i]


@compiled
def _sort(columns, positions, n):  # type: ignore[no-untyped-def]
    """Sort the first points by the columns in turn, then by position: a heap sort, in place."""
    start, end = n // 2, n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            _swap(columns, positions, 0, end)
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and _before(columns, positions, child, child + 1):
                child += 1
            if not _before(columns, positions, root, child):
                break
            _swap(columns, positions, root, child)
            root = child


@compiled
def _below(heights, n, y, or_equal):  # type: ignore[no-untyped-def]
    """Return how many of ascending heights are below one, or equal to it."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if heights[middle] < y or (or_equal and heights[middle] == y):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _drop_beaten(columns, positions, heights, n):  # type: ignore[no-untyped-def]
    """Move those of sorted points to the front that none before is equal to or beats; how many.

    ``heights`` are the second objectives, ascending. By the place there a tree holds the smallest
    third objective so far (Fenwick's, of minima); NaN where there is none.
    """
    tree = np.full(n + 1, np.nan, columns.dtype)
    kept = 0
    for i in range(n):
        z = columns[2, i]
        place = _below(heights, n, columns[1, i], True)
        at, is_beaten = place, False
        while at > 0 and not is_beaten:
            is_beaten = tree[at] <= z
            at -= at & -at
        if is_beaten:
            continue
        while place <= n:
            if not tree[place] <= z:
                tree[place] = z
            place += place & -place
        for c in range(3):
            columns[c, kept] = columns[c, i]
        positions[kept] = positions[i]
        kept += 1
    return kept


@compiled
def settle(columns, positions, held, heights, least, limits):  # type: ignore[no-untyped-def]
    """Drop the gathered points that another one beats, and lay out what tests new ones.

    State: ``held`` is how many points there are, and how many of them are settled; ``heights`` are
    the settled second objectives, ascending; ``least`` are, for each level, the smallest third
    objectives of the level's points up to each height, NaN without any; ``limits`` are the first
    objectives at the ends of the levels.
    """
    n = held[0]
    nowhere = np.zeros(n, np.int64)
    _sort(columns, positions, n)
    heights[0, :n] = columns[1, :n]
    _sort(heights, nowhere, n)
    n = _drop_beaten(columns, positions, heights[0], n)
    held[0], held[1] = n, n
    heights[0, :n] = columns[1, :n]
    _sort(heights, nowhere, n)
    lowest = np.full(n, np.nan, columns.dtype)
    start = 0
    for level in range(LEVELS):
        stop = (level + 1) * n // LEVELS
        for i in range(start, stop):
            place = _below(heights[0], n, columns[1, i], False)
            if not lowest[place] <= columns[2, i]:
                lowest[place] = columns[2, i]
        limits[level] = columns[0, stop - 1] if stop > 0 else -np.inf
        smallest = lowest[0] if n > 0 else np.nan
        for i in range(n):
            smallest = smallest if smallest <= lowest[i] or lowest[i] != lowest[i] else lowest[i]
            least[level, i] = smallest
        start = stop


@compiled
def _is_beaten(x, y, z, n, heights, least, limits):  # type: ignore[no-untyped-def]
    """Whether settled points are known to beat one: always rightly, in nearly all cases."""
    below, not_above = -1, -1
    for level in range(LEVELS):
        below += limits[level] < x
        not_above += limits[level] <= x
    if not_above < 0:
        return False
    at = _below(heights, n, y, True)
    if at == 0:
        return False
    if below >= 0 and least[below, at - 1] <= z:
        return True
    if least[not_above, at - 1] < z:
        return True
    if heights[at - 1] == y:
        at = _below(heights, n, y, False)
    return at > 0 and least[not_above, at - 1] <= z


@compiled
def take_front_of_three(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Gather what may be on the front; False if there is no room.

    State ``(columns, positions, held, signs, alive, heights, least, limits)``.
    """
    columns, positions, held, signs, alive, heights, least, limits = state
    row_x, row_y, row_z = rows
    sign_x, sign_y, sign_z = signs[0], signs[1], signs[2]
    n = row_x.size
    for j in range(n):
        x, y, z = sign_x * row_x[j], sign_y * row_y[j], sign_z * row_z[j]
        alive[j] = (x == x) & (y == y) & (z == z)
    size = held[1] if held[1] > 0 else held[0]
    for k in range(min(KILLERS, size)):
        at = k * (size - 1) // max(min(KILLERS, size) - 1, 1)
        kill_x, kill_y, kill_z = columns[0, at], columns[1, at], columns[2, at]
        for j in range(n):
            x, y, z = sign_x * row_x[j], sign_y * row_y[j], sign_z * row_z[j]
            equal = (x == kill_x) & (y == kill_y) & (z == kill_z)
            alive[j] &= (x < kill_x) | (y < kill_y) | (z < kill_z) | equal
    left = 0
    for j in range(n):
        left += alive[j]
    if left == 0:
        return True
    for j in range(n):
        if not alive[j]:
            continue
        x, y, z = sign_x * row_x[j], sign_y * row_y[j], sign_z * row_z[j]
        if held[1] > 0 and _is_beaten(x, y, z, held[1], heights[0], least, limits):
            continue
        if held[0] == positions.size:
            settle(columns, positions, held, heights, least, limits)
            if 2 * held[0] > positions.size:
                return False
        at = held[0]
        columns[0, at], columns[1, at], columns[2, at] = x, y, z
        positions[at] = base + inner[start + j]
        held[0] = at + 1
    return True

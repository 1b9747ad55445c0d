"""What a reducing pass does with a tile of results: keep the smallest, keep a front, count.

Each ``take_...`` function gets a tile's results while they lie in the first level cache, looks at
all of them in a loop that vectorises, and at single points only where that loop found any that can
matter. All minimise (the caller multiplies by -1 to maximise); NaN means that there is nothing.
Whatever is equal is ordered by position.
"""

from __future__ import annotations

from typing import Any

from sweep._jit import compiled
from sweep.compiler.front_of_three import KILLERS, take_front_of_three

__all__ = [
    "TAKERS",
    "take_counts",
    "take_front_of_two",
    "take_histogram",
    "take_least_of_each",
    "take_smallest",
]


@compiled
def take_smallest(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Keep the N smallest, ascending: state ``(values, positions, held, signs)``."""
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


@compiled
def take_least_of_each(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Keep the smallest along the rows, for each point of the inner loop by itself.

    State ``(least, second, positions, signs)``; NaN where nothing was seen.
    """
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


@compiled
def _insert_step(xs, ys, positions, held, x, y, position):  # type: ignore[no-untyped-def]
    """Insert a point into a staircase (x ascending, y descending); False if there is no room."""
    low, high = 0, held[0]
    while low < high:
        middle = (low + high) // 2
        if xs[middle] > x:
            high = middle
        else:
            low = middle + 1
    first = last = low
    if low > 0 and ys[low - 1] <= y:
        if xs[low - 1] == x and ys[low - 1] == y and position < positions[low - 1]:
            positions[low - 1] = position
        return True
    if low > 0 and xs[low - 1] == x:
        first = low - 1
    while last < held[0] and ys[last] >= y:
        last += 1
    shift = 1 - (last - first)
    if held[0] + shift > xs.size:
        return False
    if shift > 0:
        for i in range(held[0] - 1, last - 1, -1):
            xs[i + 1], ys[i + 1], positions[i + 1] = xs[i], ys[i], positions[i]
    elif shift < 0:
        for i in range(last, held[0]):
            xs[i + shift], ys[i + shift] = xs[i], ys[i]
            positions[i + shift] = positions[i]
    xs[first], ys[first], positions[first] = x, y, position
    held[0] += shift
    return True


@compiled
def take_front_of_two(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Keep a front: state ``(columns, positions, held, signs, alive)``; False if it is full."""
    columns, positions, held, signs, alive = state
    row_x, row_y = rows
    sign_x, sign_y = signs[0], signs[1]
    xs, ys = columns[0], columns[1]
    n = row_x.size
    # Points equal to one of the front stay, for the sake of the smaller position.
    for j in range(n):
        x, y = sign_x * row_x[j], sign_y * row_y[j]
        alive[j] = (x == x) & (y == y)
    size = held[0]
    for k in range(min(KILLERS, size)):
        # The killer that stands for a step of the staircase: evenly spread, both ends included.
        at = k * (size - 1) // max(min(KILLERS, size) - 1, 1)
        kill_x, kill_y = xs[at], ys[at]
        for j in range(n):
            x, y = sign_x * row_x[j], sign_y * row_y[j]
            alive[j] &= (x < kill_x) | (y < kill_y) | ((x == kill_x) & (y == kill_y))
    left = 0
    for j in range(n):
        left += alive[j]
    if left == 0:
        return True
    for j in range(n):
        if alive[j]:
            x, y = sign_x * row_x[j], sign_y * row_y[j]
            if not _insert_step(xs, ys, positions, held, x, y, base + inner[start + j]):
                return False
    return True


@compiled
def take_counts(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Count codes: state ``(counts,)``, one line of 256 for every row of codes."""
    (counts,) = state
    for i in range(len(rows)):
        row = rows[i]
        for j in range(row.size):
            counts[i, row[j]] += 1
    return True


@compiled
def take_histogram(state, rows, base, inner, start, is_tiled):  # type: ignore[no-untyped-def]
    """Count numbers by bin: state ``(counts, cuts, place)``, see :class:`._state.Counts`."""
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


TAKERS: dict[str, Any] = {
    "smallest": take_smallest,
    "least_of_each": take_least_of_each,
    "front_of_two": take_front_of_two,
    "front_of_three": take_front_of_three,
    "counts": take_counts,
    "histogram": take_histogram,
}
"""By the name of what a pass keeps."""

"""Levels of a curve over sizes: caches and DRAM."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 1.08
"""Largest over smallest value of a level [1]. The L2 cache of an MI210 varies by 6 %."""

LEAST_ROWS = 4
LEAST_EXTENT = 1.5
"""A level has this many sizes at least, and its largest is this many times its smallest."""

MOST_ROWS = 2000
"""More sizes than any tool prints; the search takes time with their square."""

Row = tuple[float, float]


@dataclass(frozen=True)
class Plateau:
    """Neighbouring sizes with about the same value."""

    rows: Sequence[Row]

    @property
    def value(self) -> float:
        """The median."""
        return statistics.median(value for _, value in self.rows)

    @property
    def deviation(self) -> float:
        """Standard deviation over the sizes."""
        return statistics.pstdev([value for _, value in self.rows])

    @property
    def first(self) -> float:
        """The smallest size."""
        return self.rows[0][0]

    @property
    def extent(self) -> float:
        """The largest size over the smallest one."""
        return self.rows[-1][0] / self.rows[0][0]

    @property
    def place(self) -> str:
        """Its sizes, in kB, in words."""
        return f"{self.rows[0][0]:.0f} to {self.rows[-1][0]:.0f} kB"

    def between(self, low: float, high: float) -> Plateau:
        """Return the part with sizes in a range; the whole if that is empty."""
        return Plateau([row for row in self.rows if low <= row[0] <= high] or self.rows)


def plateaus(rows: Sequence[Row]) -> list[Plateau]:
    """Return the levels of a curve in the order of sizes, the widest ones found first.

    Parameters
    ----------
    rows : sequence of (size, value)
        By rising size.
    """
    first, last = _widest(rows)
    if last - first + 1 < LEAST_ROWS or rows[last][0] < LEAST_EXTENT * rows[first][0]:
        return []
    return [*plateaus(rows[:first]), Plateau(rows[first : last + 1]), *plateaus(rows[last + 1 :])]


def _widest(rows: Sequence[Row]) -> tuple[int, int]:
    """Return the ends of the run within the tolerance that covers the largest ratio of sizes."""
    best, ends = 0.0, (0, -1)
    for first in range(len(rows)):
        low = high = rows[first][1]
        last = first
        for number in range(first, len(rows)):
            low, high = min(low, rows[number][1]), max(high, rows[number][1])
            if high > TOLERANCE * low:
                break
            last = number
        extent = rows[last][0] / rows[first][0]
        if extent > best:
            best, ends = extent, (first, last)
    return ends

"""Where regions of a map meet, and where in a region its name fits best."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["borders", "innermost", "run_length"]

Array = NDArray[Any]


def borders(codes: Array) -> Array:
    """Return the line segments between cells of different codes.

    Parameters
    ----------
    codes : ndarray of int, shape (rows, columns)
        0 where there is nothing; such cells have no border.

    Returns
    -------
    ndarray, shape (segments, 2, 2)
        Ends as (x, y); cell (row, column) has its centre at x = column, y = row.
    """
    row, column = np.nonzero(
        (codes[:, 1:] != codes[:, :-1]) & (codes[:, 1:] != 0) & (codes[:, :-1] != 0)
    )
    upright = [[column + 0.5, row - 0.5], [column + 0.5, row + 0.5]]
    across_row, across_column = np.nonzero(
        (codes[1:] != codes[:-1]) & (codes[1:] != 0) & (codes[:-1] != 0)
    )
    across = [[across_column - 0.5, across_row + 0.5], [across_column + 0.5, across_row + 0.5]]
    segments = np.concatenate([np.array(upright, float), np.array(across, float)], axis=2)
    return segments.transpose(2, 0, 1)


def innermost(mask: Array) -> tuple[int, int]:
    """Return the cell of a region that is farthest from its edge, of several the most central."""
    mask = np.asarray(mask, bool)
    while True:
        padded = np.pad(mask, 1)
        inner = mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        if not inner.any():
            break
        mask = inner
    rows, columns = np.nonzero(mask)
    middle = (rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2
    best = int(np.argmin(middle))
    return int(rows[best]), int(columns[best])


def run_length(mask: Array, row: int, column: int) -> int:
    """Return how many cells of a region lie side by side in a row around a cell."""
    line = np.asarray(mask[row], bool)
    left = column - np.argmin(line[column::-1]) + 1 if not line[: column + 1].all() else 0
    right = column + np.argmin(line[column:]) if not line[column:].all() else line.size
    return int(right - left)

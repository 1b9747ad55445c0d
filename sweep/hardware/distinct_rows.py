"""Tables of which each distinct row counts once: of arguments, and of warps with their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.jit import compiled

__all__ = ["HEADER", "INACTIVE", "Rows", "combinations", "rows_of"]

HEADER = 4
"""Integers of a row before its addresses."""

INACTIVE = -(2**62)
"""Stands for the address of a lane that takes no part."""

PATIENCE = 4000
"""Distinct warps of a process up to which interpreting them is quicker than compiling."""


def combinations(*arguments: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct combinations of arguments that broadcast.

    Parameters
    ----------
    *arguments : array_like of numbers
        Arguments, of shapes that broadcast.

    Returns
    -------
    table : ndarray, shape (n, arguments)
        The combinations.
    place : ndarray of int
        Where in the table each element's combination stands; of the broadcast shape.
    """
    arrays = [np.asarray(argument, np.float64) for argument in arguments]
    table = np.zeros((1, 0))
    place = np.zeros((1,) * max(array.ndim for array in arrays), np.int64)
    for array in arrays:  # one by one: a number for every combination so far stays small
        if array.size == 1:
            table = np.column_stack([table, np.full(len(table), array.item())])
            continue
        values, inverse = np.unique(array, return_inverse=True)
        number = place * len(values) + inverse.reshape(array.shape)
        kept, inverse = np.unique(number, return_inverse=True)
        place = inverse.reshape(number.shape)
        table = np.column_stack([table[kept // len(values)], values[kept % len(values)]])
    return table, place


def rows_of(
    addresses: ArrayLike, active: ArrayLike | None, period: ArrayLike, header: tuple[ArrayLike, ...]
) -> NDArray[np.int64]:
    """Return warps as rows: what describes the access, then the addresses.

    Parameters
    ----------
    addresses : array_like of int, shape (..., lanes)
        Byte address of each lane's word.
    active : array_like of bool or None
        Which lanes take part; all if not given.
    period : array_like of int
        Where to move all of a warp's addresses by this many bytes changes nothing [byte]; the
        first lane in use is then moved to the beginning, so that equal warps become equal rows.
    header : tuple of array_like of int
        At most :data:`HEADER` integers for each warp.

    Returns
    -------
    ndarray of int64, shape (warps, HEADER + lanes)
    """
    lanes = np.asarray(addresses, dtype=np.int64)
    takes_part = np.ones(lanes.shape, bool) if active is None else np.asarray(active, bool)
    takes_part = np.broadcast_to(takes_part, lanes.shape)
    leading = lanes.shape[:-1]
    rows = np.zeros((*leading, HEADER + lanes.shape[-1]), np.int64)
    for i, column in enumerate(header):
        rows[..., i] = column
    if lanes.size:
        first = np.take_along_axis(lanes, takes_part.argmax(axis=-1)[..., None], axis=-1)
        moved = lanes - first // np.asarray(period)[..., None] * np.asarray(period)[..., None]
        rows[..., HEADER:] = np.where(takes_part, moved, INACTIVE)
    return rows.reshape(-1, rows.shape[-1])


class Rows:
    """A function of one row of integers, over the rows of a table, each distinct row once.

    The first :data:`PATIENCE` distinct rows of the process are interpreted and remembered. With
    more, the loop is compiled. Both run the same lines on integers: nobody can tell the results
    apart.

    Parameters
    ----------
    function : callable
        A function of a row that returns three integers (see :func:`sweep.jit.compilable`).
    """

    def __init__(self, function: Callable[[Any], tuple[int, int, int]]) -> None:
        def interpreted(row: bytes) -> tuple[int, int, int]:
            return function(np.frombuffer(row, np.int64).tolist())

        def over_rows(rows: Any, results: Any) -> None:
            for i in range(len(rows)):
                results[i, 0], results[i, 1], results[i, 2] = function(rows[i])

        self.interpreted = lru_cache(maxsize=PATIENCE)(interpreted)
        self.compiled = compiled(over_rows)

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return three integers for each row."""
        results = np.zeros((len(rows), 3), np.int64)
        if not len(rows):
            return results
        # As bytes, rows are compared as a whole: sorting them by columns would take far longer.
        whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * 8)))[:, 0]
        distinct, inverse = np.unique(whole, return_inverse=True)
        found = results[: len(distinct)].copy()
        if self.interpreted.cache_info().misses + len(distinct) <= PATIENCE:
            for i, row in enumerate(distinct):
                found[i] = self.interpreted(row.tobytes())
        else:
            self.compiled(distinct.view(np.int64).reshape(len(distinct), -1), found)
        return found[inverse]

"""Summaries of chunks, with which queries can skip chunks.

A summary has an entry for each cell: the results of one model on one device. The results are read
right after the evaluation, in pieces that fit into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.evaluation.variables import Variable
from sweep.fields import Array
from sweep.fronts import front
from sweep.space import Box, Grid, Plan
from sweep.store.index import CODES, FRONT

PIECE = 1 << 17
"""Values per piece; a piece and its temporaries fit into a core's second-level cache."""

FRONT_POINTS = 64
"""Largest number of points of a cell's Pareto front in a summary."""

SMALL = 1 << 12  # number of codes below which one call counts all cells

Extremes = dict[str, Array]
"""The extremes of every row of numbers without NaN, in the order of a summary's columns."""

POSITIONS = ("low_at", "high_at")
ABSENT = (*[np.nan] * 4, -1, -1, 0)
"""The columns of a model that does not have the variable."""


def summarise(
    grid: Grid, plan: Plan, box: Box, found: Sequence[Variable], arrays: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the summary of a chunk, of JSON values.

    Parameters
    ----------
    grid : Grid
        The kernel's grid.
    plan : Plan
        The plan.
    box : Box
        The chunk's part of the grid.
    found : sequence of Variable
        The kernel's variables.
    arrays : mapping
        The chunk's results by variable. They are modified temporarily, but unchanged at the end.

    Returns
    -------
    dict
        ``points`` and ``valid`` of the chunk over all models; ``cells``, how many models and
        devices it covers. The rest has an entry per cell, models outside, devices inside:
        ``largest_status``; under ``numbers`` for each float variable minimum, maximum, the second
        smallest and the second largest number, the first positions of minimum and maximum in the
        kernel's whole grid with the model outside (-1 without any), and how many numbers there
        are; under ``codes`` how often each code of ``status`` and ``regime`` occurs, and of
        ``power_status`` where there is a time; ``front``, the times, energies and positions of
        the Pareto front, or None where it has more than :data:`FRONT_POINTS`.
    """
    shape = len(plan.models), box.shape[0]
    numbers, extremes = {}, {}
    for variable in found:
        if not variable.is_code:
            n_rows = (shape[0] if "model" in variable.dims else 1) * shape[1]
            extremes[variable.name] = _extremes(arrays[variable.name].reshape(n_rows, -1))
            numbers[variable.name] = _numbers(variable, grid, plan, box, extremes[variable.name])
    status = arrays["status"].reshape(math.prod(shape), -1)
    codes = {}
    for name in CODES:
        if name in arrays:
            rows = arrays[name].reshape(status.shape)
            counts = _counts(rows, status if name == "power_status" else None)
            codes[name] = {str(c): counts[:, c].tolist() for c in np.flatnonzero(counts.any(0))}
    occurring = [np.where(counts, int(code), 0) for code, counts in codes["status"].items()]
    summary: dict[str, Any] = {
        "points": int(status.size),
        "valid": sum(codes["status"].get("0", ())),
        "cells": list(shape),
        "largest_status": np.max(occurring, axis=0).tolist(),
        "numbers": numbers,
        "codes": codes,
    }
    if all(name in arrays for name in FRONT):
        x, y = (arrays[name].reshape(status.shape) for name in FRONT)
        ends = np.transpose([extremes[name]["low_at"] for name in FRONT])
        summary["front"] = [
            _front_of_cell(grid, box, divmod(cell, shape[1]), x[cell], y[cell], ends[cell])
            for cell in range(len(status))
        ]
    return summary


def _numbers(
    variable: Variable, grid: Grid, plan: Plan, box: Box, found: Extremes
) -> list[list[Any]]:
    """Return the seven summary values of one float variable, each with an entry per cell."""
    shape = len(plan.models), box.shape[0]
    # The cells of the models with this variable; variables without model are equal for all models.
    owners = slice(None) if variable.model is None else plan.models.index(variable.model)
    sizes = zip(grid.names, box.shape, strict=True)
    extent = tuple(n if name in variable.dims else 1 for name, n in sizes)
    models, devices = np.ogrid[: shape[0], : shape[1]]
    columns = []
    for (name, values), absent in zip(found.items(), ABSENT, strict=True):
        column = np.full(shape, absent)
        column[owners] = values.reshape(-1, shape[1])
        if name in POSITIONS:
            column = _positions(grid, box, extent, (models, devices), column)
        columns.append(_plain(column))
    return columns


def _positions(
    grid: Grid, box: Box, extent: tuple[int, ...], cell: tuple[Any, Any], local: Array
) -> Array:
    """Convert positions within cells of a box to positions in the whole grid, model outermost.

    ``cell`` is the number of the model and that of the device in the box, ``local`` is -1 for no
    position, and ``extent`` is the box with length 1 along the dimensions that the variable lacks.
    """
    index = np.unravel_index(np.maximum(local, 0), extent[1:]) if extent[1:] else ()
    position = cell[0] * grid.shape[0] + box.start[0] + cell[1]
    for part, start, length in zip(index, box.start[1:], grid.shape[1:], strict=True):
        position = position * length + start + part
    return np.where(local < 0, -1, position)


def _extremes(values: Array) -> Extremes:
    """Return the extremes of every row."""
    rows, size = values.shape
    width = max(min(size, PIECE), 1)
    step = max(1, PIECE // width)
    pieces = [slice(i, i + width) for i in range(0, size, width)]
    low, high = (np.empty((rows, len(pieces)), values.dtype) for _ in range(2))
    count = np.full(rows, size)
    for first in range(0, rows, step):
        some = slice(first, first + step)
        for number, piece in enumerate(pieces):
            part = values[some, piece]
            np.fmin.reduce(part, axis=1, out=low[some, number])
            np.fmax.reduce(part, axis=1, out=high[some, number])
            if np.isnan(part.min()):
                count[some] -= np.add.reduce(part != part, axis=1, dtype=np.int32)
    lowest, second_low, low_at = _extreme(values, low, pieces, np.fmin)
    highest, second_high, high_at = _extreme(values, high, pieces, np.fmax)
    return {"low": lowest, "high": highest, "second_low": second_low, "second_high": second_high,
            "low_at": low_at, "high_at": high_at, "amount": count}  # fmt: skip


def _extreme(
    values: Array, found: Array, pieces: Sequence[slice], reduce: np.ufunc
) -> tuple[Array, Array, Array]:
    """Return each row's extreme, the second one, and the position of the first, from pieces."""
    extreme = reduce.reduce(found, axis=1)
    piece = np.argmax(found == extreme[:, np.newaxis], axis=1)
    found[np.arange(len(values)), piece] = np.nan
    second = reduce.reduce(found, axis=1)
    at = np.full(len(values), -1)
    for number in np.unique(piece).tolist():
        mine = np.flatnonzero(piece == number) if len(pieces) > 1 else slice(None)
        part = values[mine, pieces[number]]
        inside = np.argmax(part == extreme[mine, np.newaxis], axis=1)
        first = np.arange(len(part)), inside
        kept = part[first]
        part[first] = np.nan
        second[mine] = reduce(second[mine], reduce.reduce(part, axis=1))
        part[first] = kept
        at[mine] = np.where(np.isnan(extreme[mine]), -1, pieces[number].start + inside)
    return extreme, second, at


def _plain(values: Array) -> list[Any]:
    """Return numbers as JSON values: None for NaN, infinities as text."""
    plain: list[Any] = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [None if v != v else v if math.isfinite(v) else str(v) for v in plain]
    return plain


def _counts(codes: Array, status: Array | None) -> Array:
    """Count each of 256 codes in each row; if ``status`` is given, only where it is valid."""
    rows, size = codes.shape
    if size <= SMALL:
        keys = codes + 256 * np.arange(rows)[:, np.newaxis]
        keys = keys.ravel() if status is None else keys[status == 0]
        return np.bincount(keys, minlength=256 * rows).reshape(rows, 256)
    counts = np.zeros((rows, 256), np.int64)
    likely: set[int] = set()
    for row in range(rows):
        for first in range(0, size, PIECE):
            part = codes[row, first : first + PIECE]
            if status is not None and (invalid := status[row, first : first + PIECE]).any():
                part = part[invalid == 0]
            counts[row] += _count(part, likely)
    return counts


def _count(codes: Array, likely: set[int]) -> Array:
    """Count each of 256 codes; ``likely`` collects codes to compare with, which is faster."""
    counts = np.zeros(256, np.int64)
    if codes.size:
        likely |= {int(codes.min()), int(codes.max())}
    for code in likely:
        counts[code] = np.count_nonzero(codes == code)
    if counts.sum() < codes.size:
        counts = np.bincount(codes, minlength=256)
        likely.update(np.flatnonzero(counts).tolist())
    return counts


def _front_of_cell(
    grid: Grid, box: Box, cell: tuple[int, int], x: Array, y: Array, ends: Sequence[int]
) -> list[Any] | None:
    """Return times, energies and positions of a cell's front; None if it is too long."""
    if ends[1] < 0:  # no energy
        return [[], [], []]
    at = _front(x, y, ends)
    if at.size > FRONT_POINTS:
        return None
    return [_plain(v) for v in (x[at], y[at], _positions(grid, box, box.shape, cell, at))]


def _front(x: Array, y: Array, ends: Sequence[int]) -> Array:
    """Return the indices of the non-dominated points, in ascending order.

    ``ends`` are the points with the smallest x and y, which often dominate nearly all others.
    """
    kept = []
    for first in range(0, x.size, PIECE):
        left = np.arange(first, min(first + PIECE, x.size))
        for end in ends:
            if not np.isnan(y[end]):
                # Points with an equal y stay, so that the first of equal points does.
                left = left[(x[left] < x[end]) | (y[left] <= y[end])]
        kept.append(left)
    left = np.concatenate(kept)
    return left[front([x[left], y[left]])]

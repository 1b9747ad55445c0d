"""Summaries of chunks, with which queries can skip chunks.

A summary has an entry for each cell: the results of one model on one device. The results are read
right after the evaluation, in pieces that fit into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.evaluation import Variable
from sweep.fronts import front
from sweep.space import Box, Grid, Plan

__all__ = ["FRONT_POINTS", "summarise"]

Array = NDArray[Any]

PIECE = 1 << 17
"""Values per piece; a piece and its temporaries fit into a core's second-level cache."""

FRONT_POINTS = 64
"""Largest number of points of a cell's Pareto front in a summary."""

FRONT = ("execution_time", "energy")
COUNTED = ("status", "power_status", "regime")
SMALL = 1 << 12  # number of codes below which one call counts all cells


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
        devices it covers. The rest is given cell by cell, models outside, devices inside:
        ``largest_status``; under ``numbers`` for each float variable minimum, maximum, the second
        smallest and the second largest number, the first positions of minimum and maximum in the
        kernel's whole grid with the model outside (-1 without any), and how many numbers there
        are; under ``codes`` how often each code of ``status`` and ``regime`` occurs, and of
        ``power_status`` where there is a time; ``front``, the times, energies and positions of
        the Pareto front, or None where it has more than :data:`FRONT_POINTS`.
    """
    n_models, n_devices = len(plan.models), box.shape[0]
    extremes = {v.name: _extremes(_rows(v, plan, box, arrays)) for v in found if not v.is_code}
    numbers = {
        v.name: _numbers(v, grid, plan, box, extremes[v.name]) for v in found if not v.is_code
    }
    codes = {}
    rows = {
        name: arrays[name].reshape(n_models * n_devices, -1) for name in COUNTED if name in arrays
    }
    status = rows["status"]
    for name, values in rows.items():
        counted = _counts(values, status if name == "power_status" else None)
        codes[name] = {str(c): counted[:, c].tolist() for c in np.flatnonzero(counted.any(axis=0))}
    counts = {int(code): np.array(n) for code, n in codes["status"].items()}
    largest = np.max([np.where(n > 0, code, 0) for code, n in counts.items()], axis=0)
    summary: dict[str, Any] = {
        "points": int(status.size),
        "valid": int(counts.get(0, np.zeros(1)).sum()),
        "cells": [n_models, n_devices],
        "largest_status": largest.tolist(),
        "numbers": numbers,
        "codes": codes,
    }
    if all(name in arrays for name in FRONT):
        summary["front"] = _fronts(grid, plan, box, arrays, extremes)
    return summary


# ---------------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class _Extremes:
    """The extremes of every row of numbers, ignoring NaN.

    ``low_at`` and ``high_at`` are the first positions of the lowest and highest number, and
    ``count`` is the number of numbers.
    """

    low: Array
    high: Array
    second_low: Array
    second_high: Array
    low_at: Array
    high_at: Array
    count: Array


def _rows(variable: Variable, plan: Plan, box: Box, arrays: Mapping[str, Array]) -> Array:
    """Return a float variable's results with one row per cell."""
    n_models = len(plan.models) if "model" in variable.dims else 1
    return arrays[variable.name].reshape(n_models * box.shape[0], -1)


def _numbers(
    variable: Variable, grid: Grid, plan: Plan, box: Box, found: _Extremes
) -> list[list[Any]]:
    """Return the seven summary values of one float variable, each with an entry per cell."""
    n_models, n_devices = len(plan.models), box.shape[0]
    extent = tuple(
        n if name in variable.dims else 1 for name, n in zip(grid.names, box.shape, strict=True)
    )
    # The cells of the models with this variable; variables without model are equal for all models.
    owners = range(n_models) if variable.model is None else [plan.models.index(variable.model)]
    shape = (n_models, n_devices)
    columns: list[Array] = []
    for part in (found.low, found.high, found.second_low, found.second_high):
        whole = np.full(shape, np.nan)
        whole[owners] = part.reshape(-1, n_devices)
        columns.append(whole)
    for part in (found.low_at, found.high_at):
        whole_at = np.full(shape, -1, np.int64)
        whole_at[owners] = part.reshape(-1, n_devices)
        columns.append(_positions(grid, box, extent, whole_at))
    number = np.zeros(shape, np.int64)
    number[owners] = found.count.reshape(-1, n_devices)
    return [_plain(column) for column in (*columns, number)]


def _positions(grid: Grid, box: Box, extent: tuple[int, ...], local: Array) -> Array:
    """Convert positions in the cells of a box to positions in the whole grid, model outermost.

    ``local`` has entries per model and device, -1 for none; ``extent`` is the box with length 1
    along the dimensions that the variable does not have.
    """
    shape = grid.shape
    index = np.unravel_index(np.maximum(local, 0), extent[1:]) if extent[1:] else ()
    models, devices = np.ogrid[tuple(slice(n) for n in local.shape)][:2]
    position = models * shape[0] + box.start[0] + devices
    for part, start, length in zip(index, box.start[1:], shape[1:], strict=True):
        position = position * length + start + part
    return np.where(local < 0, -1, position)


def _extremes(values: Array) -> _Extremes:
    """Return the extremes of every row."""
    rows, size = values.shape
    width = max(min(size, PIECE), 1)
    step = max(1, PIECE // width)
    pieces = [slice(i, i + width) for i in range(0, size, width)]
    low, high = (np.empty((rows, len(pieces)), values.dtype) for _ in range(2))
    count = np.zeros(rows, np.int64)
    for first in range(0, rows, step):
        some = slice(first, first + step)
        for number, piece in enumerate(pieces):
            part = values[some, piece]
            lowest = np.minimum.reduce(part, axis=1)
            if np.isnan(lowest).any():
                low[some, number] = np.fmin.reduce(part, axis=1)
                high[some, number] = np.fmax.reduce(part, axis=1)
                count[some] += np.count_nonzero(part == part, axis=1)
            else:
                low[some, number] = lowest
                high[some, number] = np.maximum.reduce(part, axis=1)
                count[some] += part.shape[1]
    lowest, second_low, low_at = _first(values, low, pieces, np.fmin)
    highest, second_high, high_at = _first(values, high, pieces, np.fmax)
    return _Extremes(lowest, highest, second_low, second_high, low_at, high_at, count)


def _first(
    values: Array, found: Array, pieces: Sequence[slice], reduce: np.ufunc
) -> tuple[Array, Array, Array]:
    """Return each row's extreme, the second one, and the position of the first, from pieces."""
    extreme = reduce.reduce(found, axis=1)
    piece = np.argmax(found == extreme[:, np.newaxis], axis=1)
    every = np.arange(len(values))
    found[every, piece] = np.nan
    second = reduce.reduce(found, axis=1)
    at = np.empty(len(values), np.int64)
    for number in np.unique(piece).tolist():
        mine = every[piece == number] if len(pieces) > 1 else slice(None)
        part = values[mine, pieces[number]]
        inside = np.argmax(part == extreme[mine, np.newaxis], axis=1)
        rows = np.arange(len(part))
        held = part[rows, inside]
        part[rows, inside] = np.nan
        second[mine] = reduce(second[mine], reduce.reduce(part, axis=1))
        part[rows, inside] = held
        at[mine] = pieces[number].start + inside
    return extreme, second, np.where(np.isnan(extreme), -1, at)


def _plain(values: Array) -> list[Any]:
    """Return numbers as JSON values: None for NaN, infinities as text."""
    plain: list[Any] = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [None if v != v else v if math.isfinite(v) else str(v) for v in plain]
    return plain


# ---------------------------------------------------------------------------- codes


def _counts(codes: Array, status: Array | None) -> Array:
    """Count each of 256 codes in each row; if ``status`` is given, only where it is valid."""
    rows, size = codes.shape
    if size <= SMALL:
        keys = codes + 256 * np.arange(rows)[:, np.newaxis]
        keys = keys.ravel() if status is None else keys[status == 0]
        return np.bincount(keys, minlength=256 * rows).reshape(rows, 256)
    counts = np.zeros((rows, 256), np.int64)
    seen: list[int] = []
    for row in range(rows):
        for first in range(0, size, PIECE):
            part = codes[row, first : first + PIECE]
            if status is not None:
                timed = status[row, first : first + PIECE] == 0
                part = part if timed.all() else part[timed]
            counts[row] += _count(part, seen)
    return counts


def _count(codes: Array, seen: list[int]) -> Array:
    """Count each of 256 codes, trying codes that were seen before first."""
    counts = np.zeros(256, np.int64)
    left = codes.size
    for code in seen:
        if not left:
            return counts
        counts[code] = np.count_nonzero(codes == code)
        left -= int(counts[code])
    if left:
        # Counting all codes takes as long as thirty comparisons, so try the likely ones first.
        for code in sorted({int(codes.min()), int(codes.max())} - set(seen)):
            counts[code] = np.count_nonzero(codes == code)
            left -= int(counts[code])
            seen.append(code)
    if left:
        counts = np.bincount(codes, minlength=256)
        seen += [c for c in np.flatnonzero(counts).tolist() if c not in seen]
    return counts


# ---------------------------------------------------------------------------- Pareto fronts


def _fronts(
    grid: Grid,
    plan: Plan,
    box: Box,
    arrays: Mapping[str, Array],
    extremes: Mapping[str, _Extremes],
) -> list[Any]:
    """Return the front of each cell; None if it is too long."""
    n_models, n_devices = len(plan.models), box.shape[0]
    times, energies = (arrays[name].reshape(n_models * n_devices, -1) for name in FRONT)
    x, y = (extremes[name] for name in FRONT)
    found: list[Any] = []
    for cell in range(len(times)):
        if not y.count[cell]:
            found.append([[], [], []])
            continue
        ends = x.low_at[cell], y.low_at[cell]
        at = _front(times[cell], energies[cell], ends)
        if at.size > FRONT_POINTS:
            found.append(None)
            continue
        local = np.full((len(times), at.size), -1, np.int64)
        local[cell] = at
        places = _positions(grid, box, box.shape, local.reshape(n_models, n_devices, -1))
        of_cell = places.reshape(local.shape)[cell]
        found.append([_plain(v) for v in (times[cell, at], energies[cell, at], of_cell)])
    return found


def _front(x: Array, y: Array, ends: Sequence[int]) -> Array:
    """Return the indices of the non-dominated points, in ascending order.

    ``ends`` are the points with the smallest x and y, which often dominate nearly all others.
    """
    points = [(x[i], y[i]) for i in ends if not np.isnan(y[i])]
    kept = [
        first + _not_beaten(x[first : first + PIECE], y[first : first + PIECE], points)
        for first in range(0, x.size, PIECE)
    ]
    left = np.concatenate(kept)
    return left[front([x[left], y[left]])]


def _not_beaten(x: Array, y: Array, points: Sequence[tuple[Any, Any]]) -> Array:
    """Return the indices of the points of a piece that none of ``points`` dominates."""
    at = np.arange(x.size)
    for limit_x, limit_y in points:
        # Keep points with an equal second objective, so that the first of equal points remains.
        keep = np.flatnonzero((x[at] < limit_x) | (y[at] <= limit_y))
        at = at[keep]
    return at

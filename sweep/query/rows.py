"""Rows of answers from positions: coordinates, results, and the codes that explain them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.fields import STACKED
from sweep.query.answer import Answer
from sweep.query.filters import those_that_fit
from sweep.query.grid import CLOCKS, Grid
from sweep.query.kernel_part import KernelPart
from sweep.query.question import Question

Array = NDArray[Any]

SHOWN = ("execution_time", "power", "energy", "occupancy")
"""Results in every row, if they are stored."""
EXPLAINING = ("regime", "bound")


def answer_of(
    question: Question,
    title: str,
    positions: Sequence[int],
    rows: Sequence[dict[str, Any]],
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    include: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Answer:
    """Return the answer with a complete row for every position.

    Parameters
    ----------
    question : Question
        The question.
    title : str
        What is asked for, in words.
    positions : sequence of int
        Positions over all kernels, in the order of the rows; -1 where there is no configuration.
    rows : sequence of dict
        What is known of each row without reading. The other columns are added.
    first, last : sequence of str
        Columns of ``rows`` that stand before the coordinates, and after the results.
    include : sequence of str
        Further variables to show.
    notes : sequence of str
        Notes besides those on assumed values.
    """
    grids = [part.grid for part in question.parts]
    coordinates = _coordinate_columns(grids, question.by)
    shown = _shown(question.parts, include)
    names = (*first, *coordinates, *shown, *last, "status", "rests_on_assumed")
    columns = tuple(dict.fromkeys(names))
    places = np.asarray(positions, np.int64)
    owners = np.where(places < 0, -1, np.searchsorted(question.offsets, places, side="right") - 1)
    for number, (part, _, offset) in enumerate(question.numbered):
        mine = np.flatnonzero(owners == number)
        if mine.size:
            found = _values(part, places[mine] - offset, shown)
            for i, values in zip(mine.tolist(), zip(*found.values(), strict=True), strict=True):
                rows[i].update(zip(found, values, strict=True))
    for row in rows:
        row.setdefault("rests_on_assumed", [])
    units = {"runner_up": "1"}
    for grid in reversed(grids):
        units |= {name: grid.units(name) for name in columns if _is_number(grid, name)}
    notes = (*question.notes, *notes, *_assumed_note(rows))
    return Answer.of(question.title(title), rows, coordinates, units, notes, columns)


def _coordinate_columns(grids: Sequence[Grid], by: Sequence[str]) -> list[str]:
    """Return kernel, device and model, the dimensions of groups, then the rest, clocks last."""
    names = dict.fromkeys(name for grid in grids for name in grid.coordinates)
    if STACKED not in by:  # the parameters say more than their number
        names.pop(STACKED, None)
    first = ["kernel", *(name for name in ("device", "model") if name in names), *by]
    others = [name for name in names if name not in CLOCKS]
    return list(dict.fromkeys([*first, *others, *(name for name in CLOCKS if name in names)]))


def _shown(parts: Sequence[KernelPart], include: Sequence[str]) -> list[str]:
    """Return the full names of the variables to show: objectives first, explanations last."""
    grids = [part.grid for part in parts]
    stored = {name for grid in grids for name in grid.variables}
    names = [name for part in parts for name in part.objectives]
    names += [name for name in SHOWN if name in stored]
    for wanted in include:
        names += those_that_fit(grids, lambda grid, name=wanted: grid.resolve(name))[0]  # type: ignore[misc]
    return list(dict.fromkeys(names + [name for name in EXPLAINING if name in stored]))


def _values(part: KernelPart, positions: Array, shown: Sequence[str]) -> dict[str, list[Any]]:
    """Return column to values at positions of one kernel's grid, as Python scalars."""
    grid = part.grid
    places = np.unravel_index(positions, grid.shape) if grid.dims else ()
    present = [name for name in shown if name in grid.variables]
    assumed = ["assumed", *(["power_assumed"] if part.uses_power else [])]
    assumed = [name for name in assumed if name in grid.variables]
    coordinates = [n for n in grid.coordinates if n != STACKED or n in part.by]
    gathered = grid.gather(
        [*coordinates, *present, *assumed], dict(zip(grid.dims, places, strict=True))
    )
    columns: dict[str, list[Any]] = {"kernel": [grid.kernel] * len(positions)}
    for name in (*coordinates, *present):
        columns[name] = _scalars(grid, name, gathered[name])
    for name in present:
        model = grid.model_of(name)
        if model is not None and "model" in grid.coordinates:  # others have no such quantity
            columns[name] = [
                value if of == model else None
                for value, of in zip(columns[name], columns["model"], strict=True)
            ]
    columns["status"] = ["valid"] * len(positions)
    texts = zip(*(gathered[name].tolist() for name in assumed), strict=True)
    columns["rests_on_assumed"] = [_split(t) for t in texts] if assumed else [[] for _ in positions]
    return columns


def _scalars(grid: Grid, name: str, values: Array) -> list[Any]:
    """Return Python scalars: meanings for codes, None for NaN."""
    if name in grid.variables and grid.kind(name) == "code":
        return grid.meanings(name)[values.astype(np.int64)].tolist()
    scalars: list[Any] = values.tolist()
    if values.dtype.kind == "f":
        return [None if value != value else value for value in scalars]
    return scalars


def _split(texts: Sequence[Any]) -> list[str]:
    """Return the names listed in texts, each once."""
    names = (name.strip() for text in texts for name in re.split(r"[,;]", str(text)))
    return list(dict.fromkeys(name for name in names if name))


def _is_number(grid: Grid, name: str) -> bool:
    if name in grid.variables:
        return grid.kind(name) == "float"
    return name in grid.coordinates and grid.coordinates[name].values.dtype.kind in "iuf"


def _device(row: Mapping[str, Any]) -> str:
    return str(row.get("device") or "any device")


def _assumed_note(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the note that says which values behind the answers are assumed."""
    devices: dict[str, dict[str, None]] = {}
    for row in rows:
        for name in row["rests_on_assumed"]:
            devices.setdefault(name, {})[_device(row)] = None
    if not devices:
        return []
    names: dict[tuple[str, ...], list[str]] = {}
    for name, of in devices.items():
        names.setdefault(tuple(of), []).append(name)
    everywhere = {_device(row) for row in rows if row.get("status") == "valid"}
    listed = [
        ("" if set(of) == everywhere else f"{', '.join(of)}: ") + ", ".join(several)
        for of, several in names.items()
    ]
    return [f"* rests on assumed values ({'; '.join(listed)})"]

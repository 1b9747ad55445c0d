"""Rows of answers from positions: coordinates, results, and the codes that explain them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fields import STACKED
from sweep.query.answer import Answer
from sweep.query.grid import CLOCKS, AbsentError, Grid
from sweep.query.kernel_part import KernelPart
from sweep.query.question import Question

__all__ = ["answer_of"]

Array = NDArray[Any]

SHOWN = ("execution_time", "power", "energy", "occupancy")
"""Results in every row, if they are stored."""

EXPLAINING = ("regime", "bound")


def answer_of(
    question: Question,
    title: str,
    positions: Array,
    extra: Mapping[str, Sequence[Any]],
    absent: Mapping[int, Mapping[str, Any]] | None = None,
    *,
    include: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Answer:
    """Return the answer with a complete row for every position.

    Parameters
    ----------
    question : Question
        The question.
    title : str
        The question in words.
    positions : array of int
        Positions over all kernels, in the order of the rows.
    extra : mapping
        Columns that need no reading: name to one value for each row.
    absent : mapping, optional
        For rows without a configuration, what is known of the group.
    include : sequence of str
        Further variables to show.
    notes : sequence of str
        Notes besides those on assumed values.
    """
    absent = absent or {}
    grids = [part.grid for part in question.parts]
    coordinates = _coordinate_columns(grids, question.by)
    shown = _shown(question.parts, include)
    first = [name for name in ("rank",) if name in extra]
    last = [name for name in extra if name not in first]
    columns = tuple(
        dict.fromkeys([*first, *coordinates, *shown, *last, "status", "rests_on_assumed"])
    )
    rows: list[dict[str, Any]] = [
        {**absent.get(i, {}), "rests_on_assumed": []} for i in range(len(positions))
    ]
    owners = np.searchsorted(question.offsets, positions, side="right") - 1
    owners[list(absent)] = -1
    for number, (part, _, offset) in enumerate(question.numbered()):
        mine = np.flatnonzero(owners == number)
        if mine.size:
            for name, column in _values(part, positions[mine] - offset, shown).items():
                for i, value in zip(mine.tolist(), column, strict=True):
                    rows[i][name] = value
    for name, known in extra.items():
        for row, value in zip(rows, known, strict=True):
            row[name] = value
    units = _units(grids, columns)
    return Answer.of(title, rows, coordinates, units, (*notes, *_assumed_note(rows)), columns)


def _coordinate_columns(grids: Sequence[Grid], by: Sequence[str]) -> list[str]:
    """Return kernel, device and model, the dimensions of groups, then the rest, clocks last."""
    names = dict.fromkeys(name for grid in grids for name in grid.coordinates)
    if STACKED not in by:  # the parameters say more than their number
        names.pop(STACKED, None)
    first = ["kernel", *(n for n in ("device", "model") if n in names)]
    first += [n for n in by if n not in first]
    rest = [n for n in names if n not in first]
    return [
        *first,
        *(n for n in rest if n not in CLOCKS),
        *(n for n in CLOCKS if n in rest),
    ]


def _shown(parts: Sequence[KernelPart], include: Sequence[str]) -> list[str]:
    """Return the full names of the variables to show: objectives first, explanations last."""
    names = dict.fromkeys(name for part in parts for name in part.objectives)
    names |= dict.fromkeys(n for n in SHOWN if any(n in part.grid.variables for part in parts))
    for wanted in include:
        names |= dict.fromkeys(_resolve_anywhere(parts, wanted))
    names |= dict.fromkeys(n for n in EXPLAINING if any(n in part.grid.variables for part in parts))
    return list(names)


def _resolve_anywhere(parts: Sequence[KernelPart], name: str) -> list[str]:
    """Return the full names that a name has in the kernels; an error if it has none anywhere."""
    found, refused = [], None
    for part in parts:
        try:
            found.append(part.grid.resolve(name))
        except AbsentError as error:
            refused = error
    if not found:
        raise refused or QueryError(f"nothing has a variable '{name}'")
    return found


def _values(part: KernelPart, positions: Array, shown: Sequence[str]) -> dict[str, list[Any]]:
    """Return column to values at positions of one kernel's grid, as Python scalars."""
    grid = part.grid
    points = part.points(positions)
    present = [name for name in shown if name in grid.variables]
    assumed = ["assumed", *(["power_assumed"] if part.uses_power else [])]
    assumed = [name for name in assumed if name in grid.variables]
    coordinates = [n for n in grid.coordinates if n != STACKED or n in part.by]
    gathered = grid.gather([*coordinates, *present, *assumed], points)
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


def _units(grids: Sequence[Grid], columns: Sequence[str]) -> dict[str, str]:
    units = {}
    for name in columns:
        for grid in grids:
            if _is_number(grid, name):
                units[name] = grid.units(name)
                break
    if "runner_up" in columns:
        units["runner_up"] = "1"
    return units


def _is_number(grid: Grid, name: str) -> bool:
    if name in grid.variables:
        return grid.kind(name) == "float"
    return name in grid.coordinates and grid.coordinates[name].values.dtype.kind in "iuf"


def _device(row: Mapping[str, Any]) -> str:
    return str(row.get("device") or "any device")


def _assumed_note(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the note that says which values behind the answers are assumed."""
    devices: dict[str, list[str]] = {}
    for row in rows:
        for name in row["rests_on_assumed"]:
            known = devices.setdefault(name, [])
            if _device(row) not in known:
                known.append(_device(row))
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

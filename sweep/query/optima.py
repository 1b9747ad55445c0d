"""The questions for single configurations: the best, the N best, the Pareto front."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.expressions import Expression
from sweep.fields import STACKED
from sweep.query.answer import Answer
from sweep.query.counts import why_empty
from sweep.query.filters import those_that_fit
from sweep.query.grid import CLOCKS, Array, Grid
from sweep.query.question import KernelPart, Question, ask, check_rows
from sweep.query.reduce import reduce
from sweep.reduction import BEST, FRONT, Keep, Kept

SHOWN = ("execution_time", "power", "energy", "occupancy")
"""Results in every row, if they are stored."""
EXPLAINING = ("regime", "bound")


def best(
    data: Any,
    objective: str = "execution_time",
    *,
    by: Sequence[str] | None = None,
    sense: str = "min",
    where: str | Expression | None = None,
    select: Mapping[str, Any] | None = None,
    include: Sequence[str] = (),
) -> Answer:
    """Return the best configuration of every group.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    objective : str
        Any variable that is a number; a model's own may be given without the model's name.
    by : sequence of str, optional
        Dimensions, and ``"kernel"``, that form groups; everything else is searched. By default
        kernel, device and model.
    sense : str
        ``"min"`` or ``"max"``.
    where : str, optional
        A condition on coordinates and variables, such as
        ``"occupancy > 0.5 and block_size % 64 == 0"``; codes compare as their meanings, device,
        model and kernel as strings, clocks are in MHz.
    select : mapping, optional
        Coordinate to value, list of values or range (a slice or a pair, both ends included).
    include : sequence of str
        Further variables to show.

    Returns
    -------
    Answer
        One row per group: every coordinate, the results, regime and bound, ``runner_up`` (how far
        the second best configuration is, relative to the best), ``status`` and
        ``rests_on_assumed``. Of equal configurations the first in dimension order is given. A group
        without a valid configuration has a row that gives the commonest status.

    Raises
    ------
    QueryError
        The question does not fit the results.
    """
    question = ask(data, [objective], [sense], by, where, select)
    kept, starts, reasons, missing = _by_group(question, BEST)
    values = kept.columns[0].tolist()
    positions: list[int] = []
    rows: list[dict[str, Any]] = []
    for number, labels in question.ordered():
        start, stop = starts[number : number + 2]
        if start < stop:
            positions.append(int(kept.positions[start]))
            rows.append({"runner_up": relative_distance(*values[start:stop])})
        elif number in reasons:
            positions.append(-1)
            rows.append({**question.shared, **labels, "status": reasons[number]})
    word = "smallest" if sense == "min" else "largest"
    return answer_of(
        question, f"{word} {objective}", positions, rows,
        last=("runner_up",), include=include, notes=missing,
    )  # fmt: skip


def _by_group(
    question: Question, keep: Keep
) -> tuple[Kept, list[int], dict[int, str], tuple[str, ...]]:
    """Return what is kept, where each group begins in it and the last ends, and why some are empty.

    Reasons and notes are those of :func:`why_empty`.
    """
    kept = reduce(question, keep)
    starts = np.searchsorted(kept.groups, np.arange(len(question.groups) + 1))
    empty = np.flatnonzero(np.diff(starts) == 0).tolist()
    return kept, starts.tolist(), *why_empty(question, empty)


def relative_distance(best: float, runner_up: float | None = None) -> float | None:
    """Return how far the runner-up is from the best, relative to the best.

    0.0 for a tie, None where there is no runner-up or the ratio has no meaning (the best is zero or
    infinite).
    """
    if runner_up is None or best == runner_up:
        return None if runner_up is None else 0.0
    if best == 0 or np.isinf(best) or np.isinf(runner_up):
        return None
    return abs(runner_up - best) / abs(best)


def top(
    data: Any,
    n: int,
    objective: str = "execution_time",
    *,
    by: Sequence[str] = (),
    sense: str = "min",
    where: str | Expression | None = None,
    select: Mapping[str, Any] | None = None,
    include: Sequence[str] = (),
) -> Answer:
    """Return the ``n`` best configurations, of everything or of every group.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    n : int
        How many rows at most, per group.
    objective, by, sense, where, select, include
        As in :func:`best`; without ``by`` there is one group.

    Returns
    -------
    Answer
        Rows in order, with their ``rank``; equal configurations in dimension order.

    Raises
    ------
    QueryError
        The question does not fit the results, or ``n`` is not a positive integer.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"the number of rows must be a positive integer, not {n!r}")
    question = ask(data, [objective], [sense], by, where, select)
    points = sum(part.grid.points for part in question.parts)
    check_rows(min(int(n), points) * len(question.groups), "ask for fewer")
    word = "smallest" if sense == "min" else "largest"
    return _listed(question, f"{n} {word} {objective}", Keep("smallest", int(n)), ["rank"], include)


def pareto(
    data: Any,
    objectives: Sequence[str] = ("execution_time", "energy"),
    senses: Sequence[str] | None = None,
    *,
    by: Sequence[str] | None = None,
    where: str | Expression | None = None,
    select: Mapping[str, Any] | None = None,
    include: Sequence[str] = (),
) -> Answer:
    """Return the configurations that no other one beats in every objective.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    objectives : sequence of str
        Two or three variables that are numbers.
    senses : sequence of str, optional
        ``"min"`` or ``"max"`` for each; by default all are minimised.
    by, where, select, include
        As in :func:`best`: one front per group, by default per kernel, device and model.

    Returns
    -------
    Answer
        The rows of a front are in the order of the first objective, best first. Of configurations
        equal in all objectives only the first in dimension order is given.

    Raises
    ------
    QueryError
        The question does not fit the results.
    """
    objectives = [objectives] if isinstance(objectives, str) else list(objectives)
    if len(objectives) not in (2, 3) or len(set(objectives)) != len(objectives):
        raise QueryError(f"a Pareto front has two or three objectives, not {objectives}")
    senses = ["min"] * len(objectives) if senses is None else list(senses)
    if len(senses) != len(objectives):
        raise QueryError(f"{len(objectives)} objectives need as many senses, not {senses}")
    question = ask(data, objectives, senses, by, where, select)
    named = " and ".join(
        objective if sense == "min" else f"{objective} (largest)"
        for objective, sense in zip(objectives, senses, strict=True)
    )
    return _listed(question, f"Pareto front of {named}", FRONT, [], include)


def _listed(
    question: Question, title: str, keep: Keep, first: Sequence[str], include: Sequence[str]
) -> Answer:
    """Return the answer that lists what is kept of each group in order."""
    kept, starts, reasons, missing = _by_group(question, keep)
    order = [(rank, starts[number] + rank - 1)
             for number, _ in question.ordered()
             for rank in range(1, starts[number + 1] - starts[number] + 1)]  # fmt: skip
    notes = [
        f"no valid configuration{question.named([n for n in reasons if reasons[n] == reason])}"
        f" ({reason})"
        for reason in dict.fromkeys(reasons.values())
    ]
    positions = kept.positions[[row for _, row in order]].tolist()
    rows = [{name: rank for name in first} for rank, _ in order]
    return answer_of(
        question, title, positions, rows, first=first, include=include, notes=(*notes, *missing)
    )


# ---------------------------------------------------------------------------- rows


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
        Columns of ``rows`` to show before the coordinates, and after the results.
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
    for part, _, offset in question.numbered:
        mine = np.flatnonzero((places >= offset) & (places < offset + part.grid.points))
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

"""The questions for single configurations: the best, the N best, the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweep.errors import QueryError, counted
from sweep.expressions import Expression
from sweep.fields import PROBLEM, STACKED, Array
from sweep.fronts import spread
from sweep.query.answer import Answer, Row
from sweep.query.counts import UNMET, why_empty
from sweep.query.filters import those_that_fit
from sweep.query.grid import CLOCKS, POWER_VARIABLES, Grid
from sweep.query.pictures import folded
from sweep.query.question import KernelPart, Question, ask, check_rows
from sweep.query.reduce import distinct_best, reduce, untied
from sweep.query.reduce import sample as sampled
from sweep.query.resting import names_in, resting_note, starred
from sweep.query.shown import absent_line, models_apart
from sweep.reduction import BEST, FRONT, Keep, Kept

SHOWN = ("execution_time", "power", "energy", "actual_core_clock", "occupancy")
"""Results in every row, if they are stored."""
EXPLAINING = ("regime", "bound")
TYING = ("execution_time", "energy")
"""Objectives that hardly ever have the same value by chance."""
NUMBERS = (STACKED, PROBLEM)
"""Coordinates that are shown only where they form groups."""


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
        ``rests_on_assumed``, the names of assumed and fitted values behind the row. Of equal
        configurations the first in dimension order is given. A group without a valid configuration
        has a row that gives the commonest status. A note says by how much models differ whose bests
        are further apart than :data:`sweep.query.shown.AGREEING`.

    Raises
    ------
    QueryError
        The question does not fit the results.
    """
    question = ask(data, [objective], [sense], by, where, select)
    word = "smallest" if sense == "min" else "largest"
    answer = _answer(question, f"{word} {objective}", BEST, include)
    return replace(answer, notes=(*models_apart(answer, question.by), *answer.notes))


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
    distinct: Sequence[str] = (),
    ties: bool = False,
) -> Answer:
    """Return the ``n`` best configurations, of everything or of every group.

    Configurations tie if they have the same time (or energy) for the same kernel, device, model,
    problem and clocks. Only the first of them in dimension order is given, unless ``ties``.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    n : int
        How many rows at most, per group.
    objective, by, sense, where, select, include
        As in :func:`best`; without ``by`` there is one group.
    distinct : sequence of str, optional
        Dimensions, and ``"kernel"``, in which the rows of a group differ: of all configurations
        with the same values there the best is given. ``distinct=["tile", "block_size"]`` leaves out
        those that differ from a better one in nothing but clocks or other parameters.
    ties : bool
        Give all configurations that tie. With ``distinct``, and with other objectives than time
        and energy, they are always given.

    Returns
    -------
    Answer
        Rows in order, with their ``rank``.

    Raises
    ------
    QueryError
        The question does not fit the results, ``n`` is not a positive integer, or there are too
        many distinct combinations.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"the number of rows must be a positive integer, not {n!r}")
    by, distinct = ((one,) if isinstance(one, str) else tuple(one) for one in (by, distinct))
    both = tuple(dict.fromkeys((*by, *distinct)))
    question = ask(data, [objective], [sense], both, where, select)
    points = sum(part.grid.points for part in question.parts)
    title = f"{n} {'smallest' if sense == 'min' else 'largest'} {objective}"
    keep, kept = Keep("smallest", int(n)), None
    if distinct:
        question, kept = distinct_best(question, tuple(dict.fromkeys(by)), int(n))
        title += f", distinct in {', '.join(distinct)}"
    check_rows(min(int(n), points) * question.n_groups, "ask for fewer")
    if distinct or ties:
        return _answer(question, title, keep, include, kept)
    kept = untied(question, int(n)) if objective in TYING else None
    answer = _answer(question, title, keep, include, kept)
    dims = {name for part in question.parts for name in (*part.grid.dims, *part.grid.stacked)}
    return replace(answer, picture=partial(folded, answer, by, dims))


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
        raise QueryError(f"a Pareto front has two or three objectives, each once, not {objectives}")
    senses = ["min"] * len(objectives) if senses is None else list(senses)
    if len(senses) != len(objectives):
        raise QueryError(f"{len(objectives)} objectives need as many senses, not {senses}")
    question = ask(data, objectives, senses, by, where, select)
    named = " and ".join(
        objective if sense == "min" else f"{objective} (largest)"
        for objective, sense in zip(objectives, senses, strict=True)
    )
    return _answer(question, f"Pareto front of {named}", FRONT, include)


def sample(
    data: Any,
    n: int,
    objective: str = "execution_time",
    *,
    where: str | Expression | None = None,
    select: Mapping[str, Any] | None = None,
    include: Sequence[str] = (),
) -> Answer:
    """Return at most ``n`` valid configurations, regularly spread over the space for a picture.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    n : int
        How many rows at most.
    objective : str
        The variable that must have a value.
    where, select, include
        As in :func:`best`.

    Returns
    -------
    Answer
        Rows in dimension order, always the same ones.
    """
    question = ask(data, [objective], ["min"], (), where, select)
    positions = spread(np.sort(sampled(question, 2 * n).positions), n)
    grids = [part.grid for part in question.parts]
    coordinates, shown = _coordinate_columns(grids, ()), _shown(question.parts, include)
    rows: list[dict[str, Any]] = [{} for _ in positions]
    _complete(rows, question, positions, shown)
    title = question.title(f"{counted(len(rows), 'configuration')}, regularly spread")
    columns = (*coordinates, *shown)
    return Answer.of(title, rows, coordinates, _units(grids, columns), question.notes, columns)


# ---------------------------------------------------------------------------- rows


def _answer(
    question: Question, title: str, keep: Keep, include: Sequence[str], kept: Kept | None = None
) -> Answer:
    """Return the answer: complete rows for the kept configurations of each group."""
    positions, rows, notes = _kept_rows(question, keep, kept or reduce(question, keep))
    grids = [part.grid for part in question.parts]
    coordinates = _coordinate_columns(grids, question.by)
    shown = _shown(question.parts, include)
    first = ["rank"] if keep.kind == "smallest" and not keep.value_only else []
    last = ["runner_up"] if keep.value_only else []
    names = (*first, *coordinates, *shown, *last, "status", "rests_on_assumed")
    columns = tuple(dict.fromkeys(names))
    _complete(rows, question, positions, shown)
    units = {"runner_up": "1", **_units(grids, columns)}
    notes = [*question.notes, *notes, *resting_note(rows)]
    full = [Row(row, (), row.pop("stars", ())) for row in rows]
    return Answer.of(question.title(title), full, coordinates, units, notes, columns)


def _complete(
    rows: Sequence[dict[str, Any]], question: Question, positions: Array, shown: Sequence[str]
) -> None:
    """Add coordinates and results to rows at positions, which count over all kernels."""
    for part, _, offset in question.numbered:
        mine = np.flatnonzero((positions >= offset) & (positions < offset + part.grid.points))
        if mine.size:
            found = _values(part, question.by, positions[mine] - offset, shown)
            for i, values in zip(mine.tolist(), zip(*found.values(), strict=True), strict=True):
                rows[i].update(zip(found, values, strict=True))


def _units(grids: Sequence[Grid], columns: Sequence[str]) -> dict[str, str]:
    """Return the units of columns with numbers; the first kernel's where they differ."""
    units: dict[str, str] = {}
    for grid in reversed(grids):
        units |= {name: grid.units(name) for name in columns if _is_number(grid, name)}
    return units


def _kept_rows(
    question: Question, keep: Keep, kept: Kept
) -> tuple[Array, list[dict[str, Any]], list[str]]:
    """Return positions of the kept configurations, the first columns of their rows, and notes.

    Positions count over all kernels. A group without a valid configuration has a row where one
    configuration is asked for (its position is -1), otherwise a note.
    """
    starts = np.searchsorted(kept.groups, np.arange(question.n_groups + 1))
    reasons = why_empty(question, np.flatnonzero(np.diff(starts) == 0).tolist())
    begins, values = starts.tolist(), kept.columns[0].tolist()
    places: list[int] = []
    rows: list[dict[str, Any]] = []
    for number, labels in question.ordered():
        start, stop = begins[number : number + 2]
        if not keep.value_only:
            places += range(start, stop)
            rows += ({"rank": rank} for rank in range(1, stop - start + 1))
        elif start < stop:
            places.append(start)
            rows.append({"runner_up": relative_distance(*values[start:stop])})
        elif number in reasons and reasons[number] != UNMET:
            places.append(-1)
            known = {"kernel": question.parts[0].grid.kernel} if len(question.parts) == 1 else {}
            rows.append(known | labels | {"status": reasons[number], "rests_on_assumed": []})
    positions = np.append(kept.positions, -1)[places]
    absent = {n: why for n, why in reasons.items() if why == UNMET or not keep.value_only}
    groups = [labels | {"status": absent.get(number)} for number, labels in question.ordered()]
    return positions, rows, [absent_line(groups, question.by)] if absent else []


def _coordinate_columns(grids: Sequence[Grid], by: Sequence[str]) -> list[str]:
    """Return kernel, device and model, the dimensions of groups, then the rest, clocks last."""
    names = dict.fromkeys(name for grid in grids for name in grid.coordinates)
    for number in NUMBERS:  # what a list gives says more than the number in it
        if number not in by:
            names.pop(number, None)
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


def _values(
    part: KernelPart, by: Sequence[str], positions: Array, shown: Sequence[str]
) -> dict[str, list[Any]]:
    """Return column to values at positions of one kernel's grid, as Python scalars."""
    grid = part.grid
    present = [name for name in shown if name in grid.variables]
    assumed = [name for name in ("assumed", "power_assumed") if name in grid.variables]
    coordinates = [n for n in grid.coordinates if n not in NUMBERS or n in by]
    gathered = grid.gather([*coordinates, *present, *assumed], part.places(positions))
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
    texts: list[list[Any]] = [
        gathered[name].tolist() if name in assumed else [""] * len(positions)
        for name in ("assumed", "power_assumed")
    ]
    numbers = [name for name in present if grid.kind(name) == "float"]
    rows = list(zip(*(columns[name] for name in numbers), strict=True)) or [()] * len(positions)
    resting, stars = [], []
    for time, power, values in zip(*texts, rows, strict=True):
        given = {name for name, value in zip(numbers, values, strict=True) if value is not None}
        has_power = part.uses_power or bool(given & POWER_VARIABLES)
        resting.append(names_in([time, power] if has_power else [time]))
        stars.append(starred(names_in([time]), names_in([power]), given))
    columns |= {"rests_on_assumed": resting, "stars": stars}
    return columns


def _scalars(grid: Grid, name: str, values: Array) -> list[Any]:
    """Return Python scalars: meanings for codes, None for NaN."""
    if name in grid.variables and grid.kind(name) == "code":
        return grid.meanings(name)[values.astype(np.int64)].tolist()
    scalars: list[Any] = values.tolist()
    if values.dtype.kind == "f":
        return [None if value != value else value for value in scalars]
    return scalars


def _is_number(grid: Grid, name: str) -> bool:
    if name in grid.variables:
        return grid.kind(name) == "float"
    return name in grid.coordinates and grid.coordinates[name].values.dtype.kind in "iuf"

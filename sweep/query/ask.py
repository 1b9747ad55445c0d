"""The questions: best, top and Pareto front over results in memory, in graphs or in a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.expressions import Expression
from sweep.query.answer import Answer
from sweep.query.cells import NEVER, Cells
from sweep.query.pruning import exact_minima, fronts_of_cells, unbeaten, undominated
from sweep.query.question import Question, ask, check_rows, title_of
from sweep.query.reasons import why_empty
from sweep.query.rows import Chosen, answer_of
from sweep.query.select import (
    Minima,
    first_min,
    front,
    merge_best,
    merge_fronts,
    merge_minima,
    n_best,
    no_minima,
    relative_distance,
    spread,
)
from sweep.query.view import Block, Slab

__all__ = ["best", "pareto", "top"]

Array = NDArray[Any]

KILLERS = 8  # points of the front so far that a new block is tested against first


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
    minima = _minima(question)
    empty = {int(number) for number in np.flatnonzero(np.isnan(minima.value))}
    reasons, missing = why_empty(question, empty)
    positions: list[int] = []
    distances: list[float | None] = []
    absent: list[dict[str, Any] | None] = []
    for number, labels in question.ordered():
        if number in empty:
            if number not in reasons:
                continue
            positions.append(-1)
            distances.append(None)
            absent.append({**question.shared, **labels, "status": reasons[number]})
        else:
            positions.append(int(minima.position[number]))
            distances.append(relative_distance(minima.value[number], minima.runner_up[number]))
            absent.append(None)
    word = "smallest" if sense == "min" else "largest"
    return answer_of(
        title_of(f"{word} {objective}", question.by, where, select),
        question.views,
        question.offsets,
        Chosen(positions, {"runner_up": distances}, absent),
        by=question.by,
        include=include,
        notes=(*question.notes, *missing),
    )


def _minima(question: Question) -> Minima:
    """Return the first minimum of every group and its runner-up."""
    minima = no_minima(len(question.groups))

    def reduce(slab: Slab, numbers: Array, offset: int) -> tuple[Array, Minima]:
        value, column, runner_up = first_min(slab.columns[0])
        rows = np.arange(len(value))
        position = offset + slab.positions(rows, np.maximum(column, 0))
        return numbers, Minima(value, position, runner_up)

    def merge(numbers: Array, found: Minima) -> None:
        merged = merge_minima(Minima(*(part[numbers] for part in minima)), found)
        for whole, part in zip(minima, merged, strict=True):
            whole[numbers] = part

    def blocks(cells: Cells, numbers: Array, offset: int) -> Iterable[Block]:
        known = exact_minima(cells)
        merge(numbers, known._replace(position=known.position + offset))

        def limits() -> tuple[Array, Array]:
            # A configuration matters as the runner-up, or as the best one of several equal.
            value, position, runner_up = (part[numbers] for part in minima)
            tied = np.where(value == runner_up, position - offset, -1)
            is_open = np.isnan(runner_up)
            return np.where(is_open, np.inf, runner_up), np.where(is_open, NEVER, tied)

        return unbeaten(cells, limits, exact=True)

    known, left = question.least()
    for numbers, found in chain(known, question.reduced(reduce, blocks, left)):
        merge(numbers, found)
    return minima


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
    points = sum(view.grid.points for view in question.views)
    check_rows(min(int(n), points) * len(question.groups), "ask for fewer")
    held: dict[int, tuple[Array, Array]] = {}
    bounds = np.full(len(question.groups), np.inf)  # the n-th best so far: no row lies above it
    last = np.full(len(question.groups), NEVER)  # and where it is: no equal row lies behind it

    def reduce(slab: Slab, numbers: Array, offset: int) -> list[tuple[int, Array, Array]]:
        found = []
        for row, number in enumerate(numbers.tolist()):
            values = slab.columns[0][row]
            columns = n_best(values, n, bounds[number])
            positions = offset + slab.positions(np.full(columns.shape, row), columns)
            found.append((number, values[columns], positions))
        return found

    def blocks(cells: Cells, numbers: Array, offset: int) -> Iterable[Block]:
        def limits() -> tuple[Array, Array]:
            is_open = last[numbers] == NEVER
            return bounds[numbers], np.where(is_open, NEVER, last[numbers] - offset)

        return unbeaten(cells, limits, exact=False)

    listed, left = question.kept(int(n))
    known = [[(number, columns[0], positions)] for number, columns, positions in listed]
    for parts in chain(known, question.reduced(reduce, blocks, left)):
        for number, values, positions in parts:
            if number in held:
                values = np.concatenate([held[number][0], values])
                positions = np.concatenate([held[number][1], positions])
            kept = merge_best(values, positions, n)
            held[number] = values[kept], positions[kept]
            if len(kept) == n:
                bounds[number], last[number] = values[kept[-1]], positions[kept[-1]]
    word = "smallest" if sense == "min" else "largest"
    title = title_of(f"{n} {word} {objective}", question.by, where, select)
    return _listed(question, title, {g: p for g, (_, p) in held.items()}, True, include)


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
    held: dict[int, tuple[list[Array], Array]] = {}

    def reduce(slab: Slab, numbers: Array, offset: int) -> list[Any]:
        found = []
        for row, number in enumerate(numbers.tolist()):
            columns = [column[row] for column in slab.columns]
            chosen = front(columns, _killers(held.get(number)))
            positions = offset + slab.positions(np.full(chosen.shape, row), chosen)
            found.append((number, [column[chosen] for column in columns], positions))
        return found

    def merge(number: int, columns: list[Array], positions: Array) -> None:
        if number in held:
            columns = [np.concatenate(pair) for pair in zip(held[number][0], columns, strict=True)]
            positions = np.concatenate([held[number][1], positions])
        kept = merge_fronts(columns, positions)
        held[number] = [column[kept] for column in columns], positions[kept]

    def blocks(cells: Cells, numbers: Array, offset: int) -> Iterable[Block]:
        for group, (columns, positions) in fronts_of_cells(cells).items():
            merge(int(numbers[group]), columns, positions + offset)

        def local() -> dict[int, tuple[list[Array], Array]]:
            mine = ((group, held.get(int(number))) for group, number in enumerate(numbers))
            return {group: (f[0], f[1] - offset) for group, f in mine if f is not None}

        return undominated(cells, local)

    known, left = question.kept(0)
    for parts in chain([known], question.reduced(reduce, blocks, left)):
        for number, columns, positions in parts:
            merge(number, columns, positions)
    ordered = {
        number: positions[np.lexsort((positions, *columns[::-1]))]
        for number, (columns, positions) in held.items()
    }
    named = " and ".join(
        objective if sense == "min" else f"{objective} (largest)"
        for objective, sense in zip(objectives, senses, strict=True)
    )
    title = title_of(f"Pareto front of {named}", question.by, where, select)
    return _listed(question, title, ordered, False, include)


def _killers(held: tuple[list[Array], Array] | None) -> list[Array]:
    """Return a few points of a group's front so far, spread along it."""
    if held is None:
        return []
    chosen = spread(np.argsort(held[0][0]), KILLERS)
    return [column[chosen] for column in held[0]]


def _listed(
    question: Question, title: str, found: Mapping[int, Array], ranked: bool, include: Sequence[str]
) -> Answer:
    """Return the answer that lists each group's positions in order."""
    ordered = [(number, found.get(number, ())) for number, _ in question.ordered()]
    positions = [int(p) for _, group in ordered for p in group]
    ranks = [rank for _, group in ordered for rank, _ in enumerate(group, 1)]
    reasons, missing = why_empty(question, {number for number, group in ordered if not len(group)})
    notes = [
        f"no valid configuration{question.named([n for n in reasons if reasons[n] == reason])}"
        f" ({reason})"
        for reason in dict.fromkeys(reasons.values())
    ]
    return answer_of(
        title,
        question.views,
        question.offsets,
        Chosen(positions, {"rank": ranks} if ranked else {}),
        by=question.by,
        include=include,
        notes=(*question.notes, *notes, *missing),
    )

"""The questions for single configurations: the best, the N best, the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.expressions import Expression
from sweep.query.answer import Answer
from sweep.query.counts import why_empty
from sweep.query.question import Question, check_rows, lay_out, title_of
from sweep.query.reduce import reduce
from sweep.query.rows import answer_of
from sweep.reduction import BEST, FRONT, Keep, Kept

__all__ = ["best", "pareto", "top"]


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
    question = lay_out(data, [objective], [sense], by, where, select)
    kept = reduce(question, BEST)
    values, firsts = kept.columns[0].tolist(), _firsts(kept)
    reasons, missing = why_empty(question, set(question.groups.values()) - set(firsts))
    positions: list[int] = []
    distances: list[float | None] = []
    absent: dict[int, dict[str, Any]] = {}
    for number, labels in question.ordered():
        if number in firsts:
            first = firsts[number]
            has_second = first + 1 < len(values) and kept.groups[first + 1] == number
            second = values[first + 1] if has_second else None
            positions.append(int(kept.positions[first]))
            distances.append(relative_distance(values[first], second))
        elif number in reasons:
            absent[len(positions)] = {**question.shared, **labels, "status": reasons[number]}
            positions.append(-1)
            distances.append(None)
    word = "smallest" if sense == "min" else "largest"
    return answer_of(
        question,
        title_of(f"{word} {objective}", question.by, where, select),
        np.array(positions, np.int64),
        {"runner_up": distances},
        absent,
        include=include,
        notes=(*question.notes, *missing),
    )


def _firsts(kept: Kept) -> dict[int, int]:
    """Return the row of each group's first configuration."""
    rows = np.flatnonzero(np.diff(kept.groups, prepend=-1))
    return dict(zip(kept.groups[rows].tolist(), rows.tolist(), strict=True))


def relative_distance(best: float, runner_up: float | None) -> float | None:
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
    question = lay_out(data, [objective], [sense], by, where, select)
    points = sum(part.grid.points for part in question.parts)
    check_rows(min(int(n), points) * len(question.groups), "ask for fewer")
    word = "smallest" if sense == "min" else "largest"
    title = title_of(f"{n} {word} {objective}", question.by, where, select)
    return _listed(question, title, reduce(question, Keep("smallest", int(n))), True, include)


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
    question = lay_out(data, objectives, senses, by, where, select)
    named = " and ".join(
        objective if sense == "min" else f"{objective} (largest)"
        for objective, sense in zip(objectives, senses, strict=True)
    )
    title = title_of(f"Pareto front of {named}", question.by, where, select)
    return _listed(question, title, reduce(question, FRONT), False, include)


def _listed(
    question: Question, title: str, kept: Kept, is_ranked: bool, include: Sequence[str]
) -> Answer:
    """Return the answer that lists what is kept of each group in order."""
    starts = np.searchsorted(kept.groups, np.arange(len(question.groups) + 1)).tolist()
    numbers = [number for number, _ in question.ordered()]
    rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in numbers])
    ranks = [i for n in numbers for i in range(1, starts[n + 1] - starts[n] + 1)]
    reasons, missing = why_empty(question, {n for n in numbers if starts[n] == starts[n + 1]})
    notes = [
        f"no valid configuration{question.named([n for n in reasons if reasons[n] == reason])}"
        f" ({reason})"
        for reason in dict.fromkeys(reasons.values())
    ]
    return answer_of(
        question,
        title,
        kept.positions[rows],
        {"rank": ranks} if is_ranked else {},
        include=include,
        notes=(*question.notes, *notes, *missing),
    )

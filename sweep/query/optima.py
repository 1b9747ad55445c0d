"""The questions for single configurations: the best, the N best, the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.expressions import Expression
from sweep.query.answer import Answer
from sweep.query.counts import why_empty
from sweep.query.question import Question, ask, check_rows
from sweep.query.reduce import reduce
from sweep.query.rows import answer_of
from sweep.reduction import BEST, FRONT, Keep, Kept


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

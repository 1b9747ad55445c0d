"""Validation by measured times of many problems: which configuration is chosen, what that costs.

Three kinds of tables are judged. Rows of a problem and a configuration say how much slower the
first of a ranking are than the best that was measured. Rows of configurations within some per cent
of the best, others being left out, say whether the first of the whole space are among them. Rows
without configurations, such as those of a library, are compared with the best predicted time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sweep.errors import QueryError, counted
from sweep.evaluation.problems import Problems, distinct_rows, times_of_rows
from sweep.evaluation.reducing import Progress
from sweep.fields import Array
from sweep.importers.tuners.problem_table import ProblemTable
from sweep.measurements.by_problem import hits, losses, rank_correlations
from sweep.measurements.problem_cases import Case, cases_of
from sweep.query import Answer
from sweep.query.agreement import match, or_none
from sweep.runs.record import Source, space_of
from sweep.space import Space

TOP = (1, 3, 10)
"""Numbers of configurations of a ranking that are judged."""

RANDOM = "(random)"
ALL = "all"

LEGEND = {
    "loss_K": "how much slower than the best measured one the best of the first K is",
    "hit_K": "share of the problems with a listed configuration among the first K of the space",
    "error": "absolute relative error of times",
    "scale": "median of measured over predicted times",
}


def validate_problems(
    source: Source,
    table: ProblemTable,
    *,
    by: Sequence[str] = (),
    by_group: str = "",
    listed_within: float | None = None,
    problems: int | None = None,
    select: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Answer:
    """Return how good the choices of a plan's models are for the problems of a table.

    Parameters
    ----------
    source : Plan, Space, str or path
        The kernel, devices, models and parameters.
    table : ProblemTable
        Measured times; its columns with names of the kernel's sizes and parameters, whatever their
        case, are these.
    by : sequence of str
        Further columns that tell problems apart.
    by_group : str
        An expression over columns whose values are groups of problems, or one followed by ``:N``
        for N groups of equally many problems, by its size: ``"m * n * k:4"``.
    listed_within : float, optional
        The table lists only configurations this near the best [%].
    problems : int, optional
        How many of the problems are judged, spread evenly over their order; all by default.
    select : mapping, optional
        As for :meth:`Problems.of`.
    progress : callable, optional
        Receives how many evaluations are done, of how many.

    Returns
    -------
    Answer
        For each device, ranking (a model, or a random choice) and group of problems: mean, median
        and 90 % quantile of ``loss_K`` of the first K = 1, 3 and 10, quartiles of Spearman's rank
        correlation, and errors of times; of listed configurations ``hit_K``; of a table without
        configurations errors only.

    Raises
    ------
    QueryError
        The table lacks the kernel's sizes or a parameter, or names something unknown.
    """
    space, wanted = space_of(source), dict(select or {})
    rows: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    for case in cases_of(space, table, by, by_group, problems, wanted):
        if listed_within is not None:
            judge: Any = partial(_listed, within=listed_within / 100.0, progress=progress)
        elif case.parameters:
            judge = _ranked
        else:
            judge = partial(_without_configurations, progress=progress)
        names = wanted.get("model", list(space.plan.models))
        for model in [names] if isinstance(names, str) else names:
            own = wanted | {"kernel": case.kernel.key, "device": case.device, "model": model}
            found, said = judge(space, case, own)
            keys = {"kernel": case.kernel.key, "device": case.device}
            rows += [keys | row for row in found if keys | row not in rows]  # random is once
            notes |= dict.fromkeys(said)
        notes |= dict.fromkeys(_notes(case))
    kind = (
        "measured times"
        if listed_within is None
        else f"lists within {listed_within:g} % of the best"
    )
    title = f"choices for {table.name} against {kind}, problem by problem"
    coordinates = ("kernel", "device", "ranking", "group")
    known = {name.partition("_")[0] for name in rows[0]}
    legend = {name: text for name, text in LEGEND.items() if name.partition("_")[0] in known}
    return Answer.of(title, rows, coordinates, notes=tuple(notes), legend=legend)


def tables(answer: Answer) -> list[Answer]:
    """Return an answer of :func:`validate_problems` as tables that fit a terminal's width."""
    if f"loss_{TOP[0]}_mean" not in answer.columns:
        return [answer]
    names = ("kernel", "device", "ranking", "group")
    of_losses = [
        {name: row[name] for name in names} | {f"first_{k}": _three(row, f"loss_{k}") for k in TOP}
        for row in answer
    ]
    others = [name for name in answer.columns if not name.startswith("loss_")]
    of_errors = [{name: row[name] for name in others} for row in answer if row["ranking"] != RANDOM]
    legend = {"first_K": f"mean / median / 90 % quantile of {LEGEND['loss_K']}"}
    return [
        Answer.of(answer.title, of_losses, names, notes=answer.notes, legend=legend),
        Answer.of("ranks and times", of_errors, names,
                  legend={key: text for key, text in LEGEND.items() if key in ("error", "scale")}),
    ]  # fmt: skip


def _three(row: Mapping[str, Any], key: str) -> str:
    values = (100.0 * row[f"{key}_{name}"] for name in ("mean", "median", "p90"))
    return " / ".join(f"{value:.2g}" if value < 99.5 else f"{value:.0f}" for value in values) + " %"


# ---------------------------------------------------------------------------- notes


def _notes(case: Case) -> Iterator[str]:
    """Yield what a reader must know of a case, first which rows do not count."""
    for why, rows in case.left_out.items():
        if rows:
            yield f"rows left out, {why}: {rows:,}"
    used = [*case.sizes, *case.parameters]
    yield (
        f"{case.kernel.key} on {case.device}: {counted(len(case.problem), 'row')} of"
        f" {counted(len(case.first), 'problem')}; columns used: {', '.join(used)}"
    )
    if values := ", ".join(f"{name}={value:g}" for name, value in case.fixed.items()):
        yield f"sizes that the table lacks: {values}"


# ---------------------------------------------------------------------------- judgements


Found = tuple[list[dict[str, Any]], list[str]]


def _ranked(space: Space, case: Case, select: dict[str, Any]) -> Found:
    """Judge a ranking of the measured configurations of each problem."""
    one = {name: column[:1] for name, column in case.sizes.items()}
    problems = Problems.of(space, one, select=select)
    predicted, configuration = times_of_rows(problems, case.sizes, case.parameters)
    first, pair = distinct_rows({"problem": case.problem, "configuration": configuration})
    measured = np.bincount(pair, case.table.time) / np.bincount(pair)
    problem, predicted = case.problem[first], predicted[first]
    timed = np.isfinite(predicted)
    score = np.where(timed, predicted, np.inf)
    columns: dict[str, Array] = {}
    random: dict[str, Array] = {}
    for k in TOP:
        columns[f"loss_{k}"] = losses(problem, score, measured, k)
        random[f"loss_{k}"] = losses(problem, np.zeros(len(score)), measured, k)
    columns["spearman"] = rank_correlations(problem, score, measured)
    random["spearman"] = np.zeros(len(case.first))
    rows = []
    for group, inside in _parts(case):
        chosen = inside[problem]
        counts = {"problems": int(inside.sum()), "configurations": int(chosen.sum())}
        errors = _errors(predicted[chosen & timed], measured[chosen & timed])
        for name, own, known in ((select["model"], columns, errors), (RANDOM, random, {})):
            row = {"ranking": name, "group": group} | counts
            for key in (f"loss_{k}" for k in TOP):
                row |= _spread(key, own[key][inside])
            rows.append(row | _quartiles(own["spearman"][inside]) | known)
    notes = []
    if len(first) < len(pair):
        notes.append(f"rows that repeat a configuration, means count: {len(pair) - len(first):,}")
    if not timed.all():
        notes.append(f"{select['model']}: rows that ran without a time: {int((~timed).sum()):,}")
    return rows, notes


def _listed(
    space: Space, case: Case, select: dict[str, Any], within: float, progress: Progress | None
) -> Found:
    """Judge whether the first of the whole space are among a problem's listed configurations."""
    problems = Problems.of(space, case.of_problems(), select=select)
    known = {name: problems.configurations.column(name) for name in case.parameters}
    if not known:
        raise QueryError(f"{case.table.name}: no column is a parameter of '{case.kernel.key}'")
    best = np.full(len(case.first), np.inf)
    np.minimum.at(best, case.problem, case.table.time)
    near = case.table.time <= (1.0 + within) * (1.0 + 1e-9) * best[case.problem]
    place, is_there = match(dict(case.parameters), known)
    if not is_there.any():
        raise QueryError(f"{case.table.name}: no listed configuration is among the plan's")
    use = np.flatnonzero(near & is_there)
    predicted = np.full(len(case.problem), np.nan)
    names = (select["model"], RANDOM)
    found = {(name, k): np.zeros(len(case.first)) for name in names for k in TOP}
    for part, times in problems.batches(progress):
        rows = use[(case.problem[use] >= part.start) & (case.problem[use] < part.stop)]
        line = case.problem[rows] - part.start
        listed = np.zeros(times.shape, bool)
        listed[line, place[rows]] = True
        predicted[rows] = times[line, place[rows]]
        score = np.where(np.isfinite(times), times, np.inf)
        for (name, k), column in found.items():
            ranked = np.where(np.isfinite(score), 0.0, np.inf) if name == RANDOM else score
            column[part] = hits(ranked, listed, k)
    answer = []
    for group, inside in _parts(case):
        chosen = inside[case.problem] & np.isfinite(predicted)
        errors = _errors(predicted[chosen], case.table.time[chosen])
        counts = {"problems": int(inside.sum()), "listed": int((inside[case.problem] & near).sum())}
        for name, more in ((select["model"], errors), (RANDOM, {})):
            shares = {f"hit_{k}": float(found[name, k][inside].mean()) for k in TOP}
            answer.append({"ranking": name, "group": group} | counts | shares | more)
    notes = [f"chosen from {counted(len(problems.configurations), 'configuration')} of the plan"]
    absent = int((near & ~is_there).sum())
    if absent:
        notes.append(f"{absent:,} of {int(near.sum()):,} listed rows are not among the plan's")
    if not near.all():
        notes.append(f"rows slower than the limit, which do not count: {int((~near).sum()):,}")
    return answer, notes


def _without_configurations(
    space: Space, case: Case, select: dict[str, Any], progress: Progress | None
) -> Found:
    """Compare measured times with the best predicted ones."""
    problems = Problems.of(space, case.of_problems(), select=select)
    best = np.empty(len(case.first))
    for part, times in problems.batches(progress):
        best[part] = np.where(np.isfinite(times), times, np.inf).min(axis=1)
    measured = np.bincount(case.problem, case.table.time) / np.bincount(case.problem)
    timed = np.isfinite(best)
    rows = []
    for group, inside in _parts(case):
        use = inside & timed
        row = {"ranking": select["model"], "group": group, "problems": int(inside.sum())}
        one = np.zeros(int(use.sum()), np.int64)
        rank = rank_correlations(one, best[use], measured[use])[0] if use.any() else np.nan
        rows.append(row | _errors(best[use], measured[use]) | {"spearman": or_none(float(rank))})
    notes = [f"the best of {len(problems.configurations):,} configurations of the plan is compared"]
    if not timed.all():
        notes.append(f"{select['model']}: no time for {counted(int((~timed).sum()), 'problem')}")
    return rows, notes


def _parts(case: Case) -> Iterator[tuple[str, Array]]:
    """Yield the groups with masks of their problems, all first."""
    yield ALL, np.ones(len(case.first), bool)
    yield from (case.groups or {}).items()


def _spread(key: str, values: Array) -> dict[str, float | None]:
    return {
        f"{key}_mean": float(values.mean()),
        f"{key}_median": float(np.median(values)),
        f"{key}_p90": float(np.quantile(values, 0.9)),
    }


def _quartiles(ranks: Array) -> dict[str, float | None]:
    known = ranks[np.isfinite(ranks)]
    found = np.quantile(known, (0.25, 0.5, 0.75)).tolist() if known.size else [None] * 3
    return dict(zip(("spearman_q25", "spearman", "spearman_q75"), found, strict=True))


def _errors(predicted: Array, measured: Array) -> dict[str, float | None]:
    names = ("error_median", "error_mean", "error_p90", "scale")
    if not predicted.size:
        return dict.fromkeys(names)
    error = np.abs(predicted - measured) / measured
    scale = np.median(measured / predicted)
    found = (np.median(error), error.mean(), np.quantile(error, 0.9), scale)
    return dict(zip(names, map(float, found), strict=True))

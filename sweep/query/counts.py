"""Counts of values and codes: summaries, histograms, and the reasons why groups are empty.

Counts are integers; they are the same whether they come from the index of a store, from blocks that
are read, or from the compiled passes of a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.fields import POWER_STATUS, Array
from sweep.query.answer import Answer
from sweep.query.filters import select_kernels
from sweep.query.grid import AbsentError, grids_of
from sweep.query.pictures import pictured
from sweep.query.question import SENSES, Question, ask, check_rows
from sweep.query.reduce import reduce
from sweep.query.shown import furthest
from sweep.reduction import BEST, CODES, Keep
from sweep.store.layout import UNWRITTEN_CODE

BINS = 30
MOST_BINS = 10_000
MINIMA = ("execution_time", "energy")
CODED = ("status", "regime")


def summary(
    data: Any,
    *,
    by: Sequence[str] | None = None,
    where: str | None = None,
    select: Mapping[str, Any] | None = None,
) -> Answer:
    """Return a summary of results, per kernel, device and model.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    by, where, select
        As in :func:`sweep.query.best`.

    Returns
    -------
    Answer
        Per group: ``points``, ``valid`` (how many have a time), ``statuses`` (invalid
        configurations per status), ``regimes`` (share of the valid ones) and the smallest execution
        time and energy.

    Raises
    ------
    QueryError
        The question does not fit the results.
    """
    question = ask(data, ["execution_time"], ["min"], by, where, select)
    minima = [_smallest(question), {}]
    with suppress(AbsentError):
        minima[1] = _smallest(ask(data, ["energy"], ["min"], question.by, where, select))
    grids = [part.grid for part in question.parts]
    # Codes mean the same in all kernels that have them.
    meanings = [
        next((grid.meanings(name) for grid in grids if name in grid.variables), None)
        for name in CODED
    ]
    counts = _counts(question, CODES, CODED)
    timed = counts[:, 0] if meanings[0] is not None else _counts(question, Keep("bins"))[:, 0]
    columns = ("points", "valid", *MINIMA, "statuses", "regimes")
    rows = []
    for number, labels in question.ordered():
        statuses, regimes = counts[number]
        points, valid = int(timed[number].sum()), int(timed[number, 0])
        # The statuses of configurations without a time, and the regimes of those with one.
        statuses[0] = regimes[UNWRITTEN_CODE] = 0
        regimes[0] = max(valid - int(regimes[1:].sum()), 0)
        why, shares = (
            _commonest_first(_named(*of)) for of in zip(meanings, counts[number], strict=True)
        )
        smallest = [found.get(tuple(labels.values())) for found in minima]
        values = points, valid, *smallest, dict(why), {name: n / valid for name, n in shares}
        rows.append(labels | dict(zip(columns, values, strict=True)))
    units = {name: grids[0].units(name) for name in MINIMA}
    title = question.title("points and smallest values")
    return Answer.of(title, rows, question.by, units, question.notes, (*question.by, *columns))


def _smallest(question: Question) -> dict[tuple[Any, ...], float]:
    """Return the smallest value of each group that has one, by the group's values of ``by``."""
    kept, keys = reduce(question, BEST), list(question.groups)
    backwards = zip(kept.groups[::-1].tolist(), kept.columns[0][::-1].tolist(), strict=True)
    return {keys[group]: value for group, value in backwards}  # the first of a group stays


def _commonest_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _named(meanings: Array | None, counts: Array) -> dict[str, int]:
    if meanings is None:
        return {}
    return {str(meanings[code]): int(counts[code]) for code in np.flatnonzero(counts)}


def _counts(question: Question, keep: Keep, names: Sequence[str] = ()) -> Array:
    """Return the counts of a question: an array over groups, names and codes, or bins."""
    found = np.zeros((question.n_groups, max(len(names), 1), keep.width), np.int64)
    kept = reduce(question, keep, names)
    found[kept.groups] = kept.columns[0]
    return found


# ---------------------------------------------------------------------------- histograms


def histogram(
    data: Any,
    variable: str = "execution_time",
    bins: int | Sequence[float] | None = None,
    *,
    within: tuple[float, float] | None = None,
    log: bool = False,
    by: Sequence[str] | None = None,
    where: str | None = None,
    select: Mapping[str, Any] | None = None,
) -> Answer:
    """Return how many configurations of every group have a variable in each bin, or each code.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    variable : str
        A number, which is sorted into bins, or a code such as ``regime``, ``status`` or ``bound``,
        each of whose meanings is counted.
    bins : int or sequence of float, optional
        How many bins (30 by default), or their borders in base units, ascending. A bin holds its
        lower border, the last one both.
    within : pair of float, optional
        Lower and upper end of the bins in base units; by default the smallest and the largest
        number of all groups.
    log : bool
        Whether bins are equally wide on a logarithmic axis.
    by, where, select
        As in :func:`sweep.query.best`.

    Returns
    -------
    Answer
        A row per group and bin: ``lowest`` and ``highest``, its borders (absent below the first and
        above the last), ``count``, and ``share`` of the group's configurations that have a number.
        A row without borders counts those that have none. For a code, a row per group and meaning,
        with the share of all the group's configurations. As a table it prints as bars.

    Raises
    ------
    QueryError
        The question does not fit the results, or the bins are wrong.
    """
    if not isinstance(variable, str):
        raise QueryError(f"the variable must be a name, not {variable!r}")
    grids = select_kernels(grids_of(data), dict(select or {}))
    known = [g for g in grids if variable in g.variables]
    if known and known[0].kind(variable) == "code":
        if bins is not None or within is not None or log:
            raise QueryError(f"'{variable}' is a code: its meanings are counted, without bins")
        question = ask(data, [], [], by, where, select, codes=[variable])
        counts, heads = _of_codes(question, variable)
        with_number, title = counts, f"shares of {variable}"
        columns: tuple[str, ...] = (variable,)
    else:
        borders = _borders(data, variable, bins, within, log, where, select)
        question = ask(data, [variable], ["min"], by, where, select)
        counts, heads = _of_bins(question, borders)
        with_number, columns = counts[:, :-1], ("lowest", "highest")
        title = f"histogram of {variable}"
    rows = []
    for number, labels in question.ordered():
        n = int(with_number[number].sum())
        for head, at in heads:
            share = counts[number, at] / n if n and at < with_number.shape[1] else None
            values = *head, int(counts[number, at]), share
            rows.append(labels | dict(zip((*columns, "count", "share"), values, strict=True)))
    first = question.parts[0]
    units = {name: first.grid.units(of) for of in first.objectives for name in columns}
    answer = Answer.of(question.title(title), rows, question.by, units, question.notes,
                       (*question.by, *columns, "count", "share"))  # fmt: skip
    return replace(answer, picture=partial(pictured, answer))


Heads = list[tuple[tuple[Any, ...], int]]
"""What the rows of a group begin with, and their places in its line of counts."""


def _of_codes(question: Question, name: str) -> tuple[Array, Heads]:
    """Return the counts of codes by group, and the meanings of those that occur."""
    counts = _counts(question, CODES, [name])[:, 0]
    meanings = question.parts[0].grid.meanings(name)
    codes = np.flatnonzero(counts.sum(axis=0)).tolist()
    return counts, [((str(meanings[code]),), code) for code in codes]


def _of_bins(question: Question, borders: Array) -> tuple[Array, Heads]:
    """Return the counts of bins by group, and both borders of those to show."""
    # The last bin holds its upper border too.
    cuts = np.append(borders[:-1], np.nextafter(borders[-1], np.inf))
    keep = Keep("bins", cuts=tuple(cuts.tolist()))
    check_rows(question.n_groups * keep.width, "name fewer dimensions in `by`, or bins")
    counts = _counts(question, keep)[:, 0]
    occurs = counts.sum(axis=0)
    ends = zip([None, *borders.tolist(), None], [*borders.tolist(), None, None], strict=True)
    shown = enumerate(ends)  # the last one has no number
    return counts, [(pair, at) for at, pair in shown if occurs[at] or 0 < at < len(cuts)]


def _borders(
    data: Any,
    variable: str,
    bins: int | Sequence[float] | None,
    within: tuple[float, float] | None,
    log: bool,
    where: str | None,
    select: Mapping[str, Any] | None,
) -> Array:
    """Return the borders of the bins."""
    if bins is not None and not isinstance(bins, int | np.integer):
        if within is not None or log:
            raise QueryError("bins that are given by their borders have neither range nor scale")
        borders = np.asarray(bins, np.float64)
        if borders.ndim != 1 or borders.size < 2 or not (np.diff(borders) > 0).all():
            raise QueryError(f"borders of bins must be two or more ascending numbers, not {bins!r}")
        return borders
    n = BINS if bins is None else int(bins)
    if isinstance(bins, bool) or not 1 <= n <= MOST_BINS:
        raise QueryError(f"the number of bins must be a whole number from 1 to {MOST_BINS:,}, "
                         f"not {bins!r}")  # fmt: skip
    low, high = _extremes(data, variable, where, select) if within is None else map(float, within)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise QueryError(f"bins need a lower end below a finite upper end, not {low:g} to {high:g}")
    if log and low <= 0:
        raise QueryError(f"logarithmic bins begin above 0, not at {low:g}; give a range")
    borders = np.geomspace(low, high, n + 1) if log else np.linspace(low, high, n + 1)
    if not (np.diff(borders) > 0).all():
        raise QueryError(f"{n} bins from {low:g} to {high:g} are narrower than numbers; take fewer")
    return borders


def _extremes(
    data: Any, variable: str, where: str | None, select: Mapping[str, Any] | None
) -> tuple[float, float]:
    """Return a variable's smallest and largest number; around it where there is only one."""
    ends = []
    for sense, sign in SENSES.items():
        question = ask(data, [variable], [sense], (), where, select)
        ends += [sign * float(value) for value in reduce(question, BEST).columns[0][:1]]
    if not ends:
        raise QueryError(f"no configuration has a number for '{variable}'")
    low, high = ends
    margin = (abs(low) or 1.0) / 2 if low == high else 0.0
    return low - margin, high + margin


# ---------------------------------------------------------------------------- empty groups


UNMET = "no configuration satisfies the condition"


def why_empty(question: Question, empty: Sequence[int]) -> dict[int, str]:
    """Return why groups have no valid configuration.

    Parameters
    ----------
    question : Question
        What was asked.
    empty : sequence of int
        Numbers of groups without an answer.

    Returns
    -------
    dict
        Number to what stopped those that selection and condition leave and that came furthest (see
        :func:`furthest`); where a condition on results leaves nothing because all are invalid,
        among all of them; :data:`UNMET` where it leaves nothing otherwise.
    """
    reasons = _reasons(question, empty)
    # Where a condition on results is never satisfied, the reason is that there are none.
    on_results = {
        number
        for part, numbers, _ in (question.numbered if empty else ())
        if part.condition and part.condition.variables
        for number in numbers.tolist()
    }
    nothing = [number for number in empty if not reasons[number] and number in on_results]
    for number, found in _reasons(question, nothing, keeps_condition=False).items():
        if "no value" not in found:
            reasons[number] = found
    return {n: furthest(dict(_commonest_first(of)), UNMET) for n, of in reasons.items()}


def _reasons(
    question: Question, numbers: Sequence[int], *, keeps_condition: bool = True
) -> dict[int, Counter[str]]:
    """Return how often each reason for having no value occurs in groups."""
    found: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    if not found:
        return found
    for part in question.narrowed(numbers):
        condition = part.condition if keeps_condition else None
        of_part = Question([replace(part, condition=condition)], question.by)
        names = part.status_names
        counts = _counts(of_part, CODES if names else Keep("bins"), names)
        for key, number in of_part.groups.items():
            known = found.get(question.groups[key])
            if known is not None:
                known.update(_reasons_of(part.grid.meanings, names, counts[number]))
    return found


def _reasons_of(meanings: Any, names: Sequence[str], counts: Array) -> dict[str, int]:
    """Return the reasons that a group's counts of codes stand for."""
    reasons: dict[str, int] = {}
    without = int(counts[0, 0 if names else -1])
    for name, of_code in zip(names, counts, strict=False):
        bad = of_code.copy()
        bad[0] = 0
        if name == "power_status":  # of those that have a time
            bad[[POWER_STATUS["no_time"], UNWRITTEN_CODE]] = 0
        prefix = "" if name == "status" else "power: "
        reasons |= {prefix + word: n for word, n in _named(meanings(name), bad).items()}
        without = int(of_code[0])
    return reasons | ({"no value": without} if without else {})

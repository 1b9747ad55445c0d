"""Intervals for predicted times: from numbers that may be off, or from measured times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.query import Answer, Row
from sweep.query.pairing import Paired
from sweep.query.question import DEFAULT_BY
from sweep.runs.record import Source, space_behind
from sweep.uncertainty.evaluating import TIME, Sampled, grouped
from sweep.uncertainty.indices import places

SAMPLES = 1024
"""Default number of samples behind an interval."""

MOST_ROWS = 1000
"""Most rows of an answer that get intervals from samples."""

GROUPS, IN_GROUP = 10, 100
"""Most groups of measured configurations by their predicted times, and how many each needs."""

LOW, HIGH = "time_low", "time_high"
"""The columns of an interval's ends."""


def with_intervals(
    answer: Answer,
    data: Source,
    level: float,
    *,
    ranges: Mapping[str, float] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Answer:
    """Return an answer whose times have intervals from the numbers behind them.

    Parameters
    ----------
    answer : Answer
        With execution times, such as that of :func:`sweep.best`, :func:`sweep.top` or
        :func:`sweep.pareto`.
    data : Plan, Space, str or path
        What it was asked of: a plan, its name or path, or a store's path.
    level : float
        Share of the samples inside the interval, above 0 and below 1; as many are below it as
        above.
    ranges, samples, seed
        As in :func:`sweep.robust`.

    Returns
    -------
    Answer
        With the columns ``time_low`` and ``time_high`` [s].

    Raises
    ------
    QueryError
        The answer has no times or too many rows, or a level, range or number is wrong.
    """
    _check(answer, level)
    if len(answer) > MOST_ROWS:
        raise QueryError(
            f"intervals for {len(answer)} rows, more than {MOST_ROWS}: ask for fewer, or give"
            " measured times"
        )
    ends, space = np.full((len(answer), 2), np.nan), space_behind(data)
    for _, numbers in grouped(answer):
        sampled = Sampled.of(space, [answer[i] for i in numbers], ranges)
        times = sampled.times(places(samples, len(sampled.parameters), seed))
        sides = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        for column, number in zip(times.T, numbers, strict=True):
            known = column[np.isfinite(column)]
            ends[number] = np.quantile(known, sides) if len(known) else np.nan
    note = (
        f"{LOW}, {HIGH}: {100 * level:.4g} % of the times in {samples:,} samples lie between them;"
        " samples vary the numbers of the files in their ranges; errors of the model come on top"
    )
    return _with_columns(answer, ends, note)


def with_measured_intervals(answer: Answer, pairs: Sequence[Paired], level: float) -> Answer:
    """Return an answer whose times have intervals from measured times of the same kernel.

    It covers the measured time of a configuration that is drawn as the measured ones were with the
    given probability, whatever the model and its errors (:func:`conformal`).

    Parameters
    ----------
    answer : Answer
        As in :func:`with_intervals`.
    pairs : sequence of Paired
        Predicted and measured times, from :func:`sweep.query.pairing.paired`.
    level : float
        The probability, above 0 and below 1.

    Returns
    -------
    Answer
        With the columns ``time_low`` and ``time_high`` [s], for kernels, devices and models that
        were measured.

    Raises
    ------
    QueryError
        The answer has no times, or there are too few measurements for the level.
    """
    _check(answer, level)
    found = {(one.kernel, one.device, one.model): one for one in pairs}
    ends, counts = np.full((len(answer), 2), np.nan), []
    for group, numbers in grouped(answer):
        if group in found:
            one = found[group]
            timed = np.isfinite(one.predicted)
            times = np.array([answer[i][TIME] for i in numbers])
            what = f"{one.kernel} on {one.device}"
            ends[numbers] = conformal(one.predicted[timed], one.measured[timed], times, level, what)
            counts.append(f"{' '.join(group)}: {np.count_nonzero(timed):,} measured")
    if not counts:
        raise QueryError("none of the rows' kernels, devices and models has measured times")
    note = (
        f"{LOW}, {HIGH}: {100 * level:.4g} % of the measured times lie between them where the"
        f" predicted time is about the same ({'; '.join(counts)})"
    )
    return _with_columns(answer, ends, note)


def conformal(
    predicted: Array, measured: Array, times: Array, level: float, what: str = ""
) -> Array:
    """Return intervals of predicted times by split conformal prediction.

    Models are not equally far off everywhere: the measured configurations form up to ten groups by
    their predicted times, and each group calibrates the times in its range (Mondrian conformal
    prediction: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World, 2005).

    Parameters
    ----------
    predicted, measured : array
        Times of the measured configurations [s].
    times : array
        Predicted times that get an interval [s].
    level, what
        As in :func:`conformal_ratios`.

    Returns
    -------
    array
        A row for each of ``times``: both ends [s].

    Raises
    ------
    QueryError
        There are too few measurements.
    """
    ordered, ratios = np.sort(predicted), measured / predicted
    for groups in range(max(1, min(GROUPS, len(predicted) // IN_GROUP)), 0, -1):
        edges = ordered[[len(ordered) * i // groups for i in range(1, groups)]]
        own = np.searchsorted(edges, predicted, side="right")
        # Equal times are in one group, which may leave too few for another.
        if groups == 1 or np.bincount(own, minlength=groups).min() >= IN_GROUP // 2:
            break
    factors = np.array([conformal_ratios(ratios[own == i], level, what) for i in range(groups)])
    return times[:, np.newaxis] * factors[np.searchsorted(edges, times, side="right")]


def conformal_ratios(ratios: Array, level: float, what: str = "") -> tuple[float, float]:
    """Return two ratios of measured to predicted times between which a new one lies.

    Nothing of the model was fitted to these measurements: all of them calibrate. Of ``n`` ratios
    and that of a new configuration each order is equally likely. So the new one is at most the
    ``k``-th smallest with a probability of ``k / (n + 1)`` or more.

    Parameters
    ----------
    ratios : array
        Measured over predicted times of the measured configurations.
    level : float
        The probability, above 0 and below 1.
    what : str
        What was measured, for the message.

    Raises
    ------
    QueryError
        There are too few of them.
    """
    n, side = len(ratios), (1.0 - level) / 2.0
    below = math.floor((n + 1) * side + 1e-9)
    if below < 1:
        least = math.ceil(1.0 / side - 1e-9) - 1
        raise QueryError(
            f"{what}: {n} measured times, but an interval of {100 * level:.4g} % needs {least}"
            " or more"
        )
    ordered = np.sort(ratios)
    return float(ordered[below - 1]), float(ordered[n - below])


def _check(answer: Answer, level: float) -> None:
    if not 0.0 < level < 1.0:
        raise QueryError(f"an interval of {level * 100:g} %: above 0 and below 100")
    if TIME not in answer.columns or not {*DEFAULT_BY, "status"} <= {*answer.columns}:
        raise QueryError(f"an interval belongs to a predicted {TIME}, and the answer has none")


def _with_columns(answer: Answer, ends: Array, note: str) -> Answer:
    """Return an answer with both ends behind the times."""
    at = answer.columns.index(TIME) + 1
    columns = (*answer.columns[:at], LOW, HIGH, *answer.columns[at:])
    rows = []
    for row, pair in zip(answer, ends.tolist(), strict=True):
        own = {
            name: end if end == end else None for name, end in zip((LOW, HIGH), pair, strict=True)
        }
        rows.append(Row({n: (row | own)[n] for n in columns}, answer.coordinates, row.stars))
    units = {**answer.units, LOW: "s", HIGH: "s"}
    return replace(answer, columns=columns, rows=rows, units=units, notes=(note, *answer.notes),
                   picture=None)  # fmt: skip

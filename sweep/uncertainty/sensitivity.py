"""Which uncertain numbers of device and kernel a predicted time depends on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweep import query
from sweep.errors import QueryError, counted
from sweep.fields import Array
from sweep.query import Answer
from sweep.query.question import DEFAULT_BY
from sweep.query.texts import percent, quantity
from sweep.runs.record import Source
from sweep.uncertainty.candidates import candidates
from sweep.uncertainty.evaluating import SAME, TIME, Sampled
from sweep.uncertainty.indices import design, indices, places
from sweep.uncertainty.parameters import Uncertain

STEPS = 64
"""Places at which each number is changed alone, to see whether it matters at all."""

LEAST, FIRST = 1e-3, 5
"""Share of the variance below which a table leaves a number out, but for the first few."""

SAMPLES = 4096
"""Default number of samples: the intervals of indices are then a few hundredths wide."""

LEGEND = {
    "total": "share of the variance that the number causes, alone and with others",
    "first": "share that it causes alone",
    "low": "time at the lower end of its range (high: at the upper), others as in the files",
}
_SHARES = ("range", "total", "total_low", "total_high", "first", "first_low", "first_high")
_COLUMNS = (TIME, "parameter", "source", *_SHARES, "low", "high")


def sensitivity(
    data: Source,
    *,
    select: Mapping[str, Any] | None = None,
    by: Sequence[str] = (),
    ranges: Mapping[str, float] | None = None,
    samples: int = SAMPLES,
    of_best: int = 1,
    seed: int = 0,
) -> Answer:
    """Return which numbers of device and kernel files a predicted time depends on.

    Parameters
    ----------
    data : Plan, Space, str or path
        A plan, its name or path, or a store's path.
    select : mapping, optional
        Coordinate to value, as in :func:`sweep.best`.
    by : sequence of str
        Dimensions, besides kernel, device and model, whose values each have a configuration.
    ranges : mapping, optional
        By the name of a number or the kind of its source: half the width of its range, as a share
        of it. Defaults are in ``sweep/uncertainty/ranges.toml``.
    samples : int
        Size of each of Saltelli's sets, a power of two. With ``k`` numbers, ``k + 2`` sets are
        evaluated.
    of_best : int
        1 for the time of the configuration that is the best with the files' numbers; more for the
        time of the best of so many that are the best ones then, whichever it is in each sample.
    seed : int
        Scrambles the Sobol sequence.

    Returns
    -------
    Answer
        A row for each number that matters, for each kernel, device and model: its range, Sobol
        indices of total effect and first order with 95 % bootstrap intervals, and the times with
        the number at either end of its range.

    Raises
    ------
    QueryError
        A name, a range or a number of samples is wrong, or no configuration has a time.
    """
    rows, notes = [], []
    space, groups = candidates(data, of_best, by=by, select=select)
    for own in groups:
        found, note = _of_group(Sampled.of(space, own, ranges), samples, seed)
        rows += found
        notes.append(note)
    what = "the best configuration" if of_best == 1 else f"the best of {of_best} configurations"
    coordinates = [n for n in dict.fromkeys(n for row in rows for n in row) if n not in _COLUMNS]
    title = f"what the {TIME} of {what} depends on, {samples:,} samples"
    units = dict.fromkeys((TIME, "low", "high"), "s") | dict.fromkeys(_SHARES, "1")
    units |= {f"{domain}_clock": "MHz" for domain in ("core", "memory")}
    answer = Answer.of(title, rows, coordinates, units, notes, (*coordinates, *_COLUMNS), LEGEND)
    return replace(answer, picture=partial(_shown, answer, (*DEFAULT_BY, *by)))


def _shown(answer: Answer, groups: Sequence[str], hint: str) -> Answer:
    """Return the numbers of some effect, in fewer columns, for a table."""
    rows: list[dict[str, Any]] = []
    ranks: Counter[tuple[Any, ...]] = Counter()
    for row in answer:
        group = tuple(row[name] for name in answer.coordinates)
        ranks[group] += 1
        if ranks[group] <= FIRST or row["total_high"] >= LEAST:
            of_95 = f"{row['total_low']:.3f} to {row['total_high']:.3f}"
            rows.append(
                dict(row)
                | {"range": f"+-{percent(row['range'])}", "of 95 %": of_95}
                | {name: f"{row[name]:.3f}" for name in ("total", "first")}
            )
    notes = list(answer.notes)
    if len(rows) < len(answer):
        fewer = f"less than {percent(LEAST)} of the variance ({hint})"
        notes.append(f"left out: {counted(len(answer) - len(rows), 'number')} with {fewer}")
    # A configuration that only some rows have would take the place of the indices.
    own = [n for n in answer.coordinates if n in groups or len(set(answer.column(n))) == 1]
    columns = (*own, "parameter", "range", "total", "of 95 %", "first", "low", "high", "source")
    return Answer.of(answer.title, rows, own, answer.units, notes, columns, LEGEND)


def _of_group(sampled: Sampled, samples: int, seed: int) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a group's numbers, the one of most effect first, and a note."""
    acting, low, high, nominal = _acting(sampled, seed)
    results = _best(sampled.only(acting).times(design(samples, len(acting), seed)))
    found = indices(results, len(acting), seed)
    kept = np.isfinite(results.reshape(len(acting) + 2, -1)).all(axis=0)
    first = sampled.rows[0]
    shared = first.configuration if isinstance(first, query.Row) else {}
    if len(sampled.rows) > 1:
        shared = {name: shared[name] for name in DEFAULT_BY}
    numbers = np.stack([found.total, *found.total_interval, found.first, *found.first_interval,
                        low, high], axis=1).tolist()  # fmt: skip
    rows = [
        shared
        | {TIME: nominal, "parameter": one.name, "source": one.kind, "range": one.share}
        | dict(zip((*_SHARES[1:], "low", "high"), own, strict=True))
        for one, own in zip(acting, numbers, strict=True)
    ]
    rows.sort(key=lambda row: -row["total"])
    once = results[: 2 * samples]
    part, mean = np.nanstd(once) / np.nanmean(once), np.nanmean(once) / nominal
    note = (
        f"{first['kernel']} on {first['device']}, {first['model']}: {quantity(nominal, 's')}; if"
        f" all numbers are off at once, {mean:.4g} times that on average, with a standard deviation"
        f" of {percent(part)}; {len(sampled.parameters) - len(acting)} other numbers have no effect"
    )
    if not kept.all():
        note += f"; {np.count_nonzero(~kept):,} of {samples:,} samples without a time left out"
    return rows, note


def _best(times: Array) -> Array:
    """Return the time of the best configuration in each sample, NaN where none has one."""
    return np.fmin.reduce(times, axis=1)


def _acting(sampled: Sampled, seed: int) -> tuple[list[Uncertain], Array, Array, float]:
    """Return the numbers that matter, the times at both ends of their ranges, and the nominal one.

    A number matters that changes the time by itself, at any of some places spread over the ranges
    of the others, or at an end of its range with all others as in the files.
    """
    numbers = len(sampled.parameters)
    base = places(STEPS, numbers, seed)
    steps = np.repeat(base[np.newaxis], numbers + 1, axis=0)
    ends = np.full((2 * numbers + 1, numbers), 0.5)
    for i in range(numbers):
        steps[i + 1, :, i] = (base[:, i] + 0.5) % 1.0
        ends[1 + 2 * i, i], ends[2 + 2 * i, i] = 0.0, 1.0
    times = _best(sampled.times(np.concatenate([ends, steps.reshape(-1, numbers)])))
    nominal, low, high = times[0], times[1 : len(ends) : 2], times[2 : len(ends) : 2]
    if not np.isfinite(nominal):
        raise QueryError("the configuration has no time with the numbers of the files")
    changed = times[len(ends) :].reshape(numbers + 1, -1)
    differ = ~np.isclose(changed[1:], changed[0], rtol=SAME, atol=0.0, equal_nan=True)
    differ_at_ends = ~np.isclose([low, high], nominal, rtol=SAME, atol=0.0, equal_nan=True)
    acts = np.flatnonzero(differ.any(axis=1) | differ_at_ends.any(axis=0))
    if not len(acts):
        raise QueryError("the time depends on none of the numbers that may be off")
    return [sampled.parameters[i] for i in acts], low[acts], high[acts], float(nominal)

"""Which configuration to choose, and which to measure, if numbers behind the times are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sweep.errors import counted
from sweep.fields import Array
from sweep.query import Answer, Row
from sweep.query.agreement import or_none
from sweep.query.question import DEFAULT_BY
from sweep.query.texts import percent
from sweep.runs.covering import regrets
from sweep.runs.record import Source
from sweep.uncertainty.candidates import candidates
from sweep.uncertainty.evaluating import SAME, TIME, Sampled
from sweep.uncertainty.indices import places

CANDIDATES = 200
"""Default number of configurations that are compared: the best with the files' numbers."""

SAMPLES = 1024
"""Default number of samples."""

NEAR, SURE = 0.05, 0.95
"""How near the optimum one of the configurations to measure must be, in which share of samples."""

LEGEND = {
    "regret_95": "in 95 % of samples at most so much slower than the best",
    "best_in": "share of samples in which this row is the best",
    "covered": f"share in which it or a row above is within {percent(NEAR)} of the best",
}
_COLUMNS = ("measure", "role", TIME, "regret_95", "best_in", "covered", "regret_mean")


def robust(
    data: Source,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    select: Mapping[str, Any] | None = None,
    ranges: Mapping[str, float] | None = None,
    n: int = CANDIDATES,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Answer:
    """Return the configuration of smallest regret over the ranges, and those worth measuring.

    Parameters
    ----------
    data, by, where, select, ranges
        As in :func:`sweep.sensitivity`; the condition ``where`` as in :func:`sweep.best`.
    n : int
        How many configurations are compared: the best of each group with the files' numbers.
    samples : int
        How many samples of all numbers, a power of two.
    seed : int
        Scrambles the Sobol sequence.

    Returns
    -------
    Answer
        For each kernel, device and model the configurations to measure, in this order: few of which
        one is within 5 % of the sample's best in 95 % of the samples. With them stand the best with
        the files' numbers (``nominal`` in ``role``) and that of smallest regret (``robust``): the
        smallest 95 % quantile of how much slower it is than the best of each sample.

    Raises
    ------
    QueryError
        A name, a range or a number of samples is wrong, or no configuration has a time.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    space, groups = candidates(data, n, by=by, where=where, select=select)
    for own in groups:
        sampled = Sampled.of(space, own, ranges)
        found, note = _of_group(own, sampled.times(places(samples, len(sampled.parameters), seed)))
        rows += found
        notes.append(note)
    coordinates = [n for n in dict.fromkeys(n for row in rows for n in row) if n not in _COLUMNS]
    notes.append(f"only the {n} that are best with the files' numbers are compared, in each group")
    units = {TIME: "s", **dict.fromkeys(("regret_95", "regret_mean", "best_in", "covered"), "1")}
    further = [name for name in coordinates if name not in DEFAULT_BY]
    columns = (*DEFAULT_BY, *_COLUMNS[:2], *further, *_COLUMNS[2:])
    title = f"configurations of small regret over {samples:,} samples of uncertain numbers"
    answer = Answer.of(title, rows, coordinates, units, notes, columns, LEGEND)
    return replace(answer, picture=partial(_shown, answer, (*DEFAULT_BY, *by)))


def _shown(answer: Answer, groups: Sequence[str], hint: str) -> Answer:
    """Return the answer with results first, for a table: of many groups, parameters do not fit."""
    own = [name for name in groups if name in answer.coordinates]
    last = [name for name in answer.coordinates if name not in own]
    columns = (*own, *_COLUMNS[:-1], *last, _COLUMNS[-1])
    return Answer.of(answer.title, answer, own, answer.units, answer.notes, columns, LEGEND)


def _of_group(rows: Sequence[Row], times: Array) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a group's chosen configurations, and a note."""
    regret = regrets(times)
    worst = np.quantile(regret, SURE, axis=0, method="higher")
    mean = regret.mean(axis=0)
    wins = regret <= SAME
    chosen = int(np.lexsort((mean, worst))[0])
    measured = cover(regret <= NEAR, SURE)
    shown = list(dict.fromkeys((*measured, 0, chosen)))
    covered = np.zeros(len(regret), bool)
    found = []
    for order, number in enumerate(shown):
        roles = [role for role, at in (("nominal", 0), ("robust", chosen)) if at == number]
        is_measured = order < len(measured)
        covered |= is_measured & (regret[:, number] <= NEAR)
        found.append(
            rows[number].configuration
            | {
                "measure": order + 1 if is_measured else None,
                "role": " and ".join(roles) or None,
                TIME: rows[number][TIME],
                "regret_95": or_none(worst[number].item()),
                "regret_mean": or_none(mean[number].item()),
                "best_in": or_none(wins[:, number].mean().item()),
                "covered": or_none(covered.mean().item()) if is_measured else None,
            }
        )
    first = rows[0]
    which = "it has the smallest regret, too" if chosen == 0 else "another has the smallest regret"
    note = (
        f"{first['kernel']} on {first['device']}, {first['model']}: the nominal best stays the best"
        f" in {np.count_nonzero(wins[:, 0]):,} of {len(regret):,} samples and is within"
        f" {percent(NEAR)} of the best in {100 * np.mean(regret[:, 0] <= NEAR):.1f} %; {which};"
        f" {counted(len(measured), 'configuration')} to measure"
    )
    if len(regret) < len(times):
        note += f"; left out without any time: {counted(len(times) - len(regret), 'sample')}"
    return found, note


def cover(within: Array, share: float) -> list[int]:
    """Return few columns of which one holds in at least a share of the rows.

    The next one is always that which holds in most of the rows that are left, the first of equals.
    So there are at most 1 + ln(rows) times as many as there need be (Chvatal, Mathematics of
    Operations Research 4, 1979).

    Parameters
    ----------
    within : array of bool
        Whether a column (configuration) holds in a row (sample).
    share : float
        The share of the rows, of those in which any column holds.

    Examples
    --------
    >>> cover(np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0]], bool), 1.0)
    [0, 1]
    """
    left = within[within.any(axis=1)]
    allowed = len(left) - int(np.ceil(share * len(left) - SAME))
    found: list[int] = []
    while len(left) > allowed:
        found.append(int(left.sum(axis=0).argmax()))
        left = left[~left[:, found[-1]]]
    return found

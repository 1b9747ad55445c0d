"""Validation of predictions by measured times: how well they rank, and how large errors are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import counted
from sweep.fields import Array
from sweep.query.agreement import errors, found_by, kendall, or_none, scale_factor, spearman
from sweep.query.answer import Answer
from sweep.query.pairing import Paired, paired
from sweep.query.resting import resting_note

TOP = (1, 10, 100)
"""Numbers of best predicted configurations for which recall and regret are given."""

LEGEND = {
    "recall_K": "share of the K fastest among the first K predicted",
    "regret_K": "how much slower than the optimum the best of the first K is",
    "mape": "mean relative error",
    "scale": "median of measured over predicted times",
}
ERRORS = ("mape", "accuracy", "scale", "scaled_mape", "scaled_accuracy")


def validate(
    predictions: Any, measurements: Any, *, select: Mapping[str, Any] | None = None
) -> Answer:
    """Return how well predictions rank measured configurations, and how far they are off.

    Parameters
    ----------
    predictions, measurements, select
        As in :func:`paired`.

    Returns
    -------
    Answer
        A row per kernel, device and ranking: each model, and two baselines, the order by occupancy
        and a random one. ``spearman`` and ``kendall`` (tau-b) are rank correlations with the
        measured times; ``recall_K`` is the share of the K fastest among the first K of the
        ranking; ``regret_K`` says by which share the fastest of the first K is slower than the
        fastest that was measured. Where configurations share a rank, both are expectations over
        their orders. ``mape`` is the mean absolute relative error, ``accuracy``
        the mean of Luo & Suda (14); the same after multiplication by ``scale``, the median ratio of
        measured and predicted times. A configuration without a predicted time comes last.
        ``rests_on_assumed`` names the assumed and fitted values behind a model's times, whose name
        then has a star.

    Raises
    ------
    QueryError
        As :func:`paired`.
    """
    return validation(paired(predictions, measurements, select=select))


def validation(pairs: Sequence[Paired]) -> Answer:
    """Return the answer of :func:`validate` for predictions that are already paired.

    Parameters
    ----------
    pairs : sequence of Paired
        From :func:`paired`.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    of_device: dict[tuple[str, str], list[Paired]] = {}
    for one in pairs:
        of_device.setdefault((one.kernel, one.device), []).append(one)
    for models in of_device.values():
        rows += [_model_row(one) for one in models]
        rows += _baselines(models[0])
        notes.append(_note(models))
    notes = [*resting_note(rows), *notes]  # placeholders first: a table shows three notes
    title = "predictions against measured times"
    return Answer.of(title, rows, ("kernel", "device"), notes=notes, legend=LEGEND)


def _model_row(one: Paired) -> dict[str, Any]:
    timed = np.isfinite(one.predicted)
    score = np.where(timed, one.predicted, np.inf)
    predicted, measured = one.predicted[timed], one.measured[timed]
    row = _ranking_row(one, one.model, score, timed) | {"rests_on_assumed": list(one.resting)}
    if timed.any():
        scale = scale_factor(predicted, measured)
        plain, scaled = errors(predicted, measured), errors(scale * predicted, measured)
        row |= dict(zip(ERRORS, (*plain, scale, *scaled), strict=True))
    return row


def _ranking_row(one: Paired, ranking: str, score: Array, known: Array) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kernel": one.kernel,
        "device": one.device,
        "ranking": ranking,
        "configurations": int(np.count_nonzero(known)),
        "spearman": or_none(spearman(score[known], one.measured[known])),
        "kendall": or_none(kendall(score[known], one.measured[known])),
    }
    found = {k: found_by(score, one.measured, k) for k in TOP}
    row |= {f"recall_{k}": recall for k, (recall, _) in found.items()}
    row |= {f"regret_{k}": smallest / one.optimum - 1.0 for k, (_, smallest) in found.items()}
    return row | dict.fromkeys(ERRORS) | {"rests_on_assumed": []}


def _baselines(one: Paired) -> Iterator[dict[str, Any]]:
    """Yield the rows of two rankings without a model: by occupancy, largest first, and random."""
    if one.occupancy is not None:
        known = np.isfinite(one.occupancy)
        score = np.where(known, -one.occupancy.astype(np.float64), np.inf)
        yield _ranking_row(one, "(occupancy)", score, known)
    every = np.ones(len(one.measured), bool)
    row = _ranking_row(one, "(random)", np.zeros(len(every)), every)
    yield row | {"spearman": 0.0, "kendall": 0.0}


def _note(models: Sequence[Paired]) -> str:
    """Return what a reader must know of one kernel on one device: what lacks either time."""
    first = models[0]
    total = counted(len(first.measured) + first.outside, "configuration")
    text = f"{first.kernel} on {first.device}: {total} with a measured time"
    if first.outside:
        text += f", {first.outside:,} of them not among the predictions"
    found: dict[str, list[str]] = {}
    for one in models:
        parts = []
        missing = ~np.isfinite(one.predicted)
        if missing.any():
            counts = Counter(one.statuses[missing].tolist()).most_common()
            why = ", ".join(f"{word} {n:,}" for word, n in counts)
            parts.append(f"no time for {int(missing.sum()):,} that ran ({why})")
        if one.failed:
            parts.append(f"a time for {one.failed:,} that failed")
        if parts:
            found.setdefault(", ".join(parts), []).append(one.model)
    return "; ".join([text, *(f"{', '.join(names)}: {what}" for what, names in found.items())])


def misses(pairs: Sequence[Paired], n: int = 5) -> Answer:
    """Return the configurations whose predictions are furthest off, after scaling.

    Parameters
    ----------
    pairs : sequence of Paired
        From :func:`paired`.
    n : int
        Number of configurations per kernel, device and model.

    Returns
    -------
    Answer
        Their parameters, both times, ``ratio`` (the scaled prediction over the measured time),
        regime and bound.
    """
    rows = []
    names: dict[str, None] = {}
    shown = ("measured", "predicted", "ratio", "regime", "bound")
    for one in pairs:
        timed = np.flatnonzero(np.isfinite(one.predicted))
        if not timed.size:
            continue
        scale = scale_factor(one.predicted[timed], one.measured[timed])
        ratio = np.full(len(one.predicted), np.nan)
        ratio[timed] = scale * one.predicted[timed] / one.measured[timed]
        worst = timed[np.argsort(-np.abs(np.log(ratio[timed])), kind="stable")[:n]]
        varied = {k: column for k, column in one.columns.items() if len(np.unique(column)) > 1}
        names |= dict.fromkeys(varied)
        found = (one.measured, one.predicted, ratio, one.regimes, one.bounds)
        known = {k: column for k, column in zip(shown, found, strict=True) if column is not None}
        columns = varied | known
        of = {"kernel": one.kernel, "device": one.device, "model": one.model}
        rows += [of | {k: column[at].item() for k, column in columns.items()} for at in worst]
    coordinates = ("kernel", "device", "model", *names)
    title = f"the {n} furthest off, after scaling"
    units = {"measured": "s", "predicted": "s"}
    return Answer.of(title, rows, coordinates, units, columns=(*coordinates, *shown))

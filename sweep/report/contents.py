"""What a report says: the answers to the questions that it asks of results, each asked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import Any, TypeVar

import numpy as np

from sweep import query
from sweep.errors import QueryError
from sweep.fronts import spread
from sweep.plot.maps import SMALLEST, Map
from sweep.plot.subject import Subject
from sweep.query import Answer, Row
from sweep.query.optima import sample
from sweep.query.pairing import Paired
from sweep.query.question import DEFAULT_BY
from sweep.query.tuning import PREFERRED

T = TypeVar("T")

SAMPLE = 1000
"""Configurations that are shown besides the best and the fronts."""
KERNELS = 12
"""Most kernels with maps and sensitivities."""
DEVICES = 8
"""Most devices on which models are compared: each comparison ranks all configurations."""
VALUES = 32
"""Most values of an axis of a map; of more, some evenly spread."""
CLOCKS = ("core_clock", "memory_clock")


@dataclass
class Contents:
    """The answers of a report; ``missing`` says why a part is not there.

    ``sensitivity`` is about one device and model of each kernel, and so are ``maps``.
    """

    best: Answer
    summary: Answer
    sample: Answer
    sensitivity: Answer
    fronts: Answer | None = None
    agreement: Answer | None = None
    validation: Answer | None = None
    misses: Answer | None = None
    pairs: Sequence[Paired] = ()
    maps: list[Map] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def gather(
    data: Any,
    select: Mapping[str, Any] | None = None,
    measured: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Contents:
    """Ask results all that a report says.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    select : mapping, optional
        As in :func:`sweep.query.best`.
    measured : optional
        Measured times, as :func:`sweep.query.validate` takes them.
    progress : callable, optional
        Receives how many questions are answered, of how many.

    Raises
    ------
    QueryError
        The selection does not fit the results, or nothing measured was predicted.
    """
    best = query.best(data, select=select)
    subjects = _subjects(data, best, select)
    done, total = count(1), 5 + 2 * len(subjects) + (measured is not None)

    def said(answer: T) -> T:
        if progress is not None:
            progress(next(done), total)
        return answer

    said(best)
    rows = [row for subject in subjects for row in said(_sensitivity(subject))]
    found = Contents(
        best,
        said(query.summary(data, select=select)),
        said(sample(data, SAMPLE, select=select)),
        Answer.of(
            "smallest execution_time at each value of one axis, over all others",
            rows,
            DEFAULT_BY,
            {"cost_of_worst": "1", "cost_of_median": "1"},
            columns=("kernel", "device", "model", "axis", "values", "best_value", "worst_value",
                     "cost_of_median", "cost_of_worst"),
        ),
    )  # fmt: skip
    found.fronts = said(_unless(found, "fronts", lambda: query.pareto(data, select=select)))
    found.agreement = said(_unless(found, "agreement", lambda: _agreement(data, best, select)))
    maps = [said(_maps(subject, rows)) for subject in subjects]
    # Where there is no room for all, each kernel keeps its first one.
    found.maps = [shown for turn in zip_longest(*maps) for shown in turn if shown is not None]
    if measured is not None:
        found.pairs = query.paired(data, measured, select=select)
        found.validation = query.validation(found.pairs)
        found.misses = said(query.misses(found.pairs))
    return found


def _unless(found: Contents, part: str, ask: Callable[[], T]) -> T | None:
    """Return an answer; None where the question does not fit, and why is then known."""
    try:
        return ask()
    except QueryError as error:
        found.missing[part] = str(error)
        return None


def fastest(rows: Sequence[Row], dim: str) -> dict[Any, Row]:
    """Return the row with the smallest time for each value of a column, the fastest first."""
    timed = [row for row in rows if row.get("execution_time") is not None]
    found: dict[Any, Row] = {}
    for row in sorted(timed, key=lambda row: row["execution_time"]):
        found.setdefault(row.get(dim), row)
    return found


def _subjects(data: Any, best: Answer, select: Mapping[str, Any] | None) -> list[Subject]:
    """Return each kernel on its fastest device, by the preferred or else the fastest model."""
    preferred = [row for row in best if row.get("model") == PREFERRED]
    of_kernel = fastest(best.rows, "kernel") | fastest(preferred, "kernel")
    kernels = [name for name in dict.fromkeys(best.column("kernel")) if name in of_kernel]
    found = []
    for kernel in kernels[:KERNELS]:
        row = of_kernel[kernel]
        place = {dim: row[dim] for dim in DEFAULT_BY if row.get(dim) is not None}
        chosen = {**(select or {}), **place}
        found.append(Subject(data, "a map", ["execution_time"], ["min"], chosen, None))
    return found


def _sensitivity(subject: Subject) -> list[dict[str, Any]]:
    """Return for each axis what its values do to the best time over all other axes."""
    rows = []
    for dim in subject.varied("device", "model"):
        answer = subject.best("execution_time", (dim,))
        times = {row[dim]: row["execution_time"] for row in answer}
        known = {value: time for value, time in times.items() if time is not None}
        row = {
            "kernel": subject.grid.kernel,
            "device": subject.select.get("device"),
            "model": subject.select.get("model"),
            "axis": dim,
            "values": len(times),
        }
        if known:
            least = min(known.values())
            row |= {
                "best_value": min(known, key=known.__getitem__),
                "worst_value": max(known, key=known.__getitem__),
                "cost_of_median": float(np.median(list(known.values()))) / least - 1.0,
                "cost_of_worst": max(known.values()) / least - 1.0,
            }
        rows.append(row)
    return sorted(rows, key=lambda row: -(row.get("cost_of_worst") or 0.0))


def _maps(subject: Subject, rows: Sequence[Mapping[str, Any]]) -> list[Map]:
    """Return a map over the two axes that decide most, and over the clocks if they were swept."""
    own = [row for row in rows if row["kernel"] == subject.grid.kernel]
    axes = [_in_mhz(subject, row["axis"]) for row in own]
    wanted = []
    if len(axes) >= 2 and not set(axes[:2]) == set(CLOCKS):
        wanted = [(axes[0], axes[1], "execution_time")]
    if set(CLOCKS) <= set(axes):
        wanted += [(*CLOCKS, variable) for variable in SMALLEST]
    maps = [_map(subject, *one) for one in wanted]
    return [shown for shown in maps if shown.best is not None]


def _in_mhz(subject: Subject, dim: str) -> str:
    """Return the clock in MHz that a ratio stands for, and every other axis as it is."""
    clock = dim.removesuffix("_ratio")
    return clock if clock in subject.grid.coordinates else dim


def _map(subject: Subject, x: str, y: str, variable: str) -> Map:
    """Return a map with at most some values on each axis."""
    select = dict(subject.select)
    for name in (x, y):
        axis = subject.axis(name)
        if len(axis.keys) > VALUES:
            select[axis.dim] = [axis.keys[i] for i in spread(np.arange(len(axis.keys)), VALUES)]
    if select != subject.select:
        subject = Subject(subject.data, "a map", [variable], ["min"], select, None)
    return Map(subject, x, y, variable)


def _agreement(data: Any, best: Answer, select: Mapping[str, Any] | None) -> Answer:
    """Return how far the models agree, on the fastest devices."""
    devices = list(fastest(best.rows, "device"))
    chosen = dict(select or {})
    if len(devices) > DEVICES:
        chosen["device"] = devices[:DEVICES]
    return query.compare_models(data, select=chosen)


# ---------------------------------------------------------------------------- what is shown


def first(answer: Answer, n: int) -> Answer:
    """Return at most about ``n`` rows of an answer: the fastest of each kernel, in their order."""
    if len(answer) <= n or "execution_time" not in answer.columns:
        return replace(answer, rows=answer.rows[:n])
    kernels = list(dict.fromkeys(answer.column("kernel")))
    chosen: set[int] = set()
    for kernel in kernels:
        own = [i for i, row in enumerate(answer) if row["kernel"] == kernel]
        own.sort(key=lambda i: (answer[i]["execution_time"] is None, answer[i]["execution_time"]))
        chosen.update(own[: max(1, n // len(kernels))])
    return replace(answer, rows=[answer[i] for i in sorted(chosen)])


def thinned(found: Contents, most: Mapping[str, int]) -> tuple[Answer, Answer | None]:
    """Return the best rows and fronts, with at most so many rows, in their order.

    Of the best the fastest of each kernel remain, of the fronts those of the same groups, evenly
    thinned; a front keeps its ends.
    """
    best = first(found.best, most["best"])
    if found.fronts is None or len(found.fronts) <= most["fronts"]:
        return best, found.fronts
    groups: dict[tuple[Any, ...], list[Row]] = {_group(row): [] for row in best}
    for row in found.fronts:
        if _group(row) in groups:
            groups[_group(row)].append(row)
    each = max(2, most["fronts"] // max(1, sum(map(bool, groups.values()))))
    rows = [own[i] for own in groups.values() for i in spread(np.arange(len(own)), each)]
    return best, replace(found.fronts, rows=rows[: most["fronts"]])


def _group(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(dim) for dim in DEFAULT_BY)


def points(like: Answer, best: list[Row], fronts: list[Row], sample: list[Row]) -> Answer:
    """Return the configurations to show, each once, the sample first, so that it lies below.

    Column ``shown_as`` says whether one is the ``best`` of its group, on its ``front``, or of the
    ``sample``.
    """
    shown: dict[tuple[Any, ...], dict[str, Any]] = {}
    for kind, rows in (("best", best), ("front", fronts), ("sample", sample)):
        for row in rows:
            key = tuple(row.get(name) for name in like.coordinates)
            if row.get("execution_time") is not None and key not in shown:
                shown[key] = {name: row.get(name) for name in like.columns} | {"shown_as": kind}
    columns = (*like.columns, "shown_as")
    return Answer.of("", list(shown.values())[::-1], like.coordinates, like.units, columns=columns)

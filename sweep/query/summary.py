"""What results hold, at a glance: points, statuses, regimes and minima."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.query._threads import each
from sweep.query.answer import Answer, Row
from sweep.query.ask import best
from sweep.query.cells import cells_of
from sweep.query.grid import AbsentError
from sweep.query.question import Question, ask, title_of
from sweep.query.view import Block, Slab, View

__all__ = ["summary"]

Array = NDArray[Any]

MINIMA = ("execution_time", "energy")
CODES = ("status", "regime")


def summary(
    data: Any,
    *,
    by: Sequence[str] | None = None,
    where: str | None = None,
    select: Mapping[str, Any] | None = None,
) -> Answer:
    """Return what results hold, per kernel, device and model.

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
    tallies = {number: Tally() for number, _ in question.ordered()}
    reduced = _from_source(question)
    for place, (view, numbers) in enumerate(zip(question.views, question.numbers, strict=True)):
        absent = view.grouping.absent() if view.condition is None else None
        for group, left_out in enumerate(absent if absent is not None else ()):
            if left_out:  # what a list leaves out, mostly since it violates a constraint
                why = Counter({view.grid.absent: int(left_out)})
                missing = Tally(int(left_out), statuses=why)
                tallies[int(numbers[group])].add(missing)
        if place in reduced:
            for group, part in reduced[place]:
                tallies[int(numbers[group])].add(part)
            continue
        known, blocks = _from_index(view)
        for parts in chain([known], each(partial(_tallies, view), blocks)):
            for group, part in parts:
                tallies[int(numbers[group])].add(part)
    energies = _smallest_energies(data, question.by, where, select)
    columns = (*question.by, "points", "valid", *MINIMA, "statuses", "regimes")
    rows = []
    for number, labels in question.ordered():
        energy = energies.get(tuple(labels.values()))
        rows.append(Row(labels | tallies[number].columns() | {"energy": energy}, question.by))
    units = {name: grid.units(name) for name in MINIMA for grid in [question.views[0].grid]}
    title = title_of("summary", question.by, where, select)
    return Answer(title, columns, rows, units, question.by, question.notes)


@dataclass
class Tally:
    """What a group of configurations holds."""

    points: int = 0
    valid: int = 0
    execution_time: float = math.inf
    statuses: Counter[str] = field(default_factory=Counter)
    regimes: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add another part of the same group."""
        self.points += other.points
        self.valid += other.valid
        self.execution_time = min(self.execution_time, other.execution_time)
        self.statuses.update(other.statuses)
        self.regimes.update(other.regimes)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a row; the commonest status and regime come first."""
        return {
            "points": self.points,
            "valid": self.valid,
            "execution_time": self.execution_time if self.valid else None,
            "statuses": dict(_commonest_first(self.statuses)),
            "regimes": {name: n / self.valid for name, n in _commonest_first(self.regimes)},
        }


def _commonest_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _from_source(question: Question) -> dict[int, list[tuple[int, Tally]]]:
    """Return what a source counts and reduces instead of being read, by the view's number."""
    source, found = question.source, {}
    for place, view in enumerate(question.views if source is not None else ()):
        names = [name for name in CODES if name in view.grid.variables]
        parts = view.counted(source, names, None) if source is not None else None
        if parts is not None:
            found[place] = [(group, _of_counts(view, names, lines)) for group, lines in parts]
    if not found:
        return {}
    minima, left = question.least()
    shortest = np.full(len(question.groups), np.inf)
    for numbers, part in minima:
        shortest[numbers] = np.fmin(shortest[numbers], part.value)
    for place, tallies in found.items():
        for group, tally in tallies:
            tally.execution_time = float(shortest[question.numbers[place][group]])
    return {place: tallies for place, tallies in found.items() if place not in left}


def _of_counts(view: View, names: Sequence[str], lines: Array) -> Tally:
    """Return what the counts of a group's codes tell."""
    counts = {name: line.copy() for name, line in zip(names, lines, strict=True)}
    points, valid = int(counts["status"].sum()), int(counts["status"][0])
    # A scan counts the statuses of what has no time, and the regimes of what has one.
    counts["status"][0] = 0
    if "regime" in counts:
        counts["regime"][0] -= points - valid
    named = (_meant(view, name, counts[name]) if name in counts else Counter() for name in CODES)
    return Tally(points, valid, math.inf, *named)


def _from_index(view: View) -> tuple[list[tuple[int, Tally]], Iterable[Block]]:
    """Return what the index of a store knows, group by group, and the blocks of the rest."""
    cells = cells_of(view)
    bounds = None if cells is None else cells.bounds(0)
    if cells is None or bounds is None or not cells.is_grouped:
        return [], view.blocks()
    whole = cells.is_exact(0)
    groups = cells.groups[whole]

    def summed(numbers: Array) -> Array:
        of_group = np.bincount(groups, numbers[whole], minlength=view.groups)
        return np.asarray(of_group.astype(np.int64))

    counts = {
        name: {code: summed(n) for code, n in cells.counts(name).items()}
        for name in CODES
        if name in view.grid.variables
    }
    points = summed(np.sum(list(cells.counts("status").values()), axis=0))
    valid = summed(cells.value_counts(0))
    # A scan counts the statuses of what has no time, and the regimes of what has one.
    for name, uncounted in (("status", valid), ("regime", points - valid)):
        if 0 in counts.get(name, ()):
            counts[name][0] = counts[name][0] - uncounted
    shortest = np.full(view.groups, np.inf)
    np.fmin.at(shortest, groups, bounds.lowest[whole])
    known = []
    for group in np.unique(groups).tolist():
        named = [
            Counter({str(view.grid.meanings(name)[code]): int(n[group])
                     for code, n in counts.get(name, {}).items() if n[group]})
            for name in CODES
        ]  # fmt: skip
        tally = Tally(int(points[group]), int(valid[group]), float(shortest[group]), *named)
        known.append((group, tally))
    open_cells = (cells.selected & ~whole).reshape(-1, cells.shape[-1]).any(axis=1)
    return known, [cells.block(int(i)) for i in np.flatnonzero(open_cells)]


def _tallies(view: View, block: Block) -> list[tuple[int, Tally]]:
    """Count a block, group by group."""
    slab = view.slab(block, tuple(name for name in CODES if name in view.grid.variables))
    if slab is None:
        return []
    return [(group, _tally(view, slab, row)) for row, group in enumerate(slab.groups.tolist())]


def _tally(view: View, slab: Slab, row: int) -> Tally:
    """Count one group's part of a block."""
    times, asked = slab.columns[0][row], slab.satisfied[row]
    valid = ~np.isnan(times)
    tally = Tally(int(np.count_nonzero(asked)), int(np.count_nonzero(valid)))
    if tally.valid:
        tally.execution_time = float(np.fmin.reduce(times))
    if "status" in slab.codes:
        tally.statuses = _count(view, "status", slab.codes["status"][row][asked & ~valid])
    if "regime" in slab.codes:
        tally.regimes = _count(view, "regime", slab.codes["regime"][row][valid])
    return tally


def _count(view: View, name: str, codes: Array) -> Counter[str]:
    return _meant(view, name, np.bincount(codes, minlength=1))


def _meant(view: View, name: str, counts: Array) -> Counter[str]:
    meanings = view.grid.meanings(name)
    return Counter({str(meanings[c]): int(counts[c]) for c in np.flatnonzero(counts)})


def _smallest_energies(
    data: Any, by: Sequence[str], where: Any, select: Mapping[str, Any] | None
) -> dict[tuple[Any, ...], float]:
    """Return each group's smallest energy; nothing where it is not stored."""
    try:
        answer = best(data, "energy", by=by, where=where, select=select)
    except AbsentError:
        return {}
    return {tuple(row[name] for name in by): row["energy"] for row in answer}

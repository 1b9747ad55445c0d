"""How often each value, or each code, is among results: histograms and shares per group.

Counts are integers and do not depend on who counts: the index of a store, blocks that are read, or
compiled passes that reduce a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.query._threads import each
from sweep.query.answer import Answer, Row
from sweep.query.ask import best
from sweep.query.cells import Cells, cells_of
from sweep.query.grid import grids_of
from sweep.query.question import Question, ask, check_rows, title_of
from sweep.query.selection import select_kernels
from sweep.query.view import Block, View

__all__ = ["counts_of", "histogram"]

Array = NDArray[Any]

CODES = 256
BINS = 30
MOST_BINS = 10_000
INDEXED = ("status", "regime")
"""Codes that the index of a store counts of all configurations."""


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
        Those that have none are a row without borders. Of a code a row per group and meaning, with
        the share of all the group's configurations.

    Raises
    ------
    QueryError
        The question does not fit the results, or the bins are none.
    """
    if not isinstance(variable, str):
        raise QueryError(f"the variable must be a name, not {variable!r}")
    grids = select_kernels(grids_of(data), dict(select or {}))
    known = [g for g in grids if variable in g.variables]
    if known and known[0].kind(variable) == "code":
        if bins is not None or within is not None or log:
            raise QueryError(f"'{variable}' is a code: its meanings are counted, without bins")
        question = ask(data, [], [], by, where, select, codes=[variable])
        return _codes_answer(question, variable, title_of(f"shares of {variable}", question.by,
                                                         where, select))  # fmt: skip
    borders = _borders(data, variable, bins, within, log, where, select)
    question = ask(data, [variable], ["min"], by, where, select)
    title = title_of(f"histogram of {variable}", question.by, where, select)
    return _bins_answer(question, variable, borders, title)


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
    if within is None:
        ends = [
            best(data, variable, by=(), sense=sense, where=where, select=select)
            for sense in ("min", "max")
        ]
        found = [answer[0][_column(answer, variable)] for answer in ends if len(answer)]
        if len(found) < 2 or None in found:
            raise QueryError(f"no configuration has a number for '{variable}'")
        low, high = (float(value) for value in found)
        if low == high:  # one value: a bin on either side
            low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    else:
        low, high = (float(end) for end in within)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise QueryError(f"bins need a lower end below a finite upper end, not {low:g} to {high:g}")
    if log and low <= 0:
        raise QueryError(f"logarithmic bins begin above 0, not at {low:g}; give a range")
    borders = np.geomspace(low, high, n + 1) if log else np.linspace(low, high, n + 1)
    if not (np.diff(borders) > 0).all():
        raise QueryError(f"{n} bins from {low:g} to {high:g} are narrower than numbers; take fewer")
    return borders


def _column(answer: Answer, variable: str) -> str:
    """Return the column of a variable that may have been given without its model's name."""
    return next(c for c in answer.columns if c == variable or c.endswith(f"_{variable}"))


# ---------------------------------------------------------------------------- counting


def counts_of(question: Question, names: Sequence[str], cuts: Array | None) -> dict[int, Array]:
    """Return the counts of each group of a question.

    Parameters
    ----------
    question : Question
        Of one number as objective, or of codes alone.
    names : sequence of str
        The variables.
    cuts : ndarray of float or None
        Borders of bins; a number lies above those that it equals. None counts codes.

    Returns
    -------
    dict
        Number of a group to an array with a line for each variable: of 256 codes, or of the bins,
        those below and above included, and what has no number at the end.
    """
    width = CODES if cuts is None else len(cuts) + 2
    found = {
        number: np.zeros((len(names), width), np.int64) for number in range(len(question.groups))
    }
    for view, numbers in zip(question.views, question.numbers, strict=True):
        for group, part in _counted(question, view, names, cuts):
            found[int(numbers[group])] += part
        left_out = view.grouping.absent() if view.condition is None else None
        for group, n in enumerate(left_out if left_out is not None else ()):
            for line, name in zip(found[int(numbers[group])], names, strict=True):
                line[_absent_place(view, name, cuts)] += int(n)
    return found


def _absent_place(view: View, name: str, cuts: Array | None) -> int:
    """Return where configurations are counted that a list leaves out."""
    if cuts is not None:
        return -1
    if name != "status":
        return 0
    return int(np.flatnonzero(view.grid.meanings(name) == view.grid.absent)[0])


def _counted(
    question: Question, view: View, names: Sequence[str], cuts: Array | None
) -> Iterator[tuple[int, Array]]:
    """Yield a group and a part of its counts."""
    if question.source is not None:
        parts = view.counted(question.source, names, cuts)
        if parts is not None:
            yield from parts
            return
    known, blocks = _from_index(view, names, cuts)
    for found in chain([known], each(partial(_of_block, view, names, cuts), blocks)):
        yield from found


def _of_block(
    view: View, names: Sequence[str], cuts: Array | None, block: Block
) -> list[tuple[int, Array]]:
    """Read a block and count it, group by group."""
    slab = view.slab(block, () if cuts is not None else tuple(names))
    if slab is None:
        return []
    found = []
    for row, group in enumerate(slab.groups.tolist()):
        asked = slab.satisfied[row]
        if cuts is None:
            lines = [np.bincount(slab.codes[n][row][asked], minlength=CODES) for n in names]
        else:
            lines = [_in_bins(column[row][asked], cuts) for column in slab.columns]
        found.append((group, np.array(lines)))
    return found


def _in_bins(values: Array, cuts: Array) -> Array:
    """Return how many values each bin holds; NaN is counted at the end."""
    kept = values[~np.isnan(values)].astype(np.float64)
    counts = np.bincount(np.searchsorted(cuts, kept, side="right"), minlength=len(cuts) + 2)
    counts[-1] = values.size - kept.size
    return counts


def _from_index(
    view: View, names: Sequence[str], cuts: Array | None
) -> tuple[list[tuple[int, Array]], Iterable[Block]]:
    """Return what the index of a store knows, and the blocks of the rest."""
    cells = cells_of(view)
    codes = () if cuts is not None else tuple(names)
    if cells is None or not cells.is_grouped:
        return [], view.blocks(codes)
    found = _codes_of_cells(cells, names) if cuts is None else _bins_of_cells(cells, cuts)
    if found is None:
        return [], view.blocks(codes)
    counts, is_known = found
    # A candidate is read whole: it is known only if all of its cells are.
    candidates = is_known | ~cells.selected
    is_whole = np.broadcast_to(candidates.all(axis=2, keepdims=True), cells.shape) & cells.selected
    known = []
    for group in np.unique(cells.groups[is_whole]).tolist():
        mine = is_whole & (cells.groups == group)
        known.append((group, counts[mine].sum(axis=0)))
    left = (cells.selected & ~is_whole).reshape(-1, cells.shape[-1]).any(axis=1)
    return known, [cells.block(int(i)) for i in np.flatnonzero(left)]


def _codes_of_cells(cells: Cells, names: Sequence[str]) -> tuple[Array, Array] | None:
    """Return the counts of each cell's codes, and which cells they are known of."""
    if not set(names) <= set(INDEXED):
        return None
    counts = np.zeros((*cells.shape, len(names), CODES), np.int64)
    for line, name in enumerate(names):
        known = cells.counts(name)
        if not known:
            return None
        for code, n in known.items():
            counts[..., line, code] = n
    return counts, cells.is_whole


def _bins_of_cells(cells: Cells, cuts: Array) -> tuple[Array, Array] | None:
    """Return the counts of the cells whose numbers all lie in one bin, and which these are."""
    name = cells.view.objectives[0]
    ends = [cells.index.number(f"chunk_{end}", name) for end in ("minimum", "maximum")]
    points = np.sum(list(cells.counts("status").values()), axis=0)
    if ends[0] is None or ends[1] is None or not np.ndim(points):
        return None
    low, high = (cells.take(end).astype(np.float64) for end in ends if end is not None)
    numbers = cells.value_counts(0)
    first, last = (np.searchsorted(cuts, end, side="right") for end in (low, high))
    is_known = cells.is_exact(0) & ((first == last) | (numbers == 0))
    counts = np.zeros((*cells.shape, 1, len(cuts) + 2), np.int64)
    at = np.where(numbers > 0, np.minimum(first, len(cuts)), 0)
    np.put_along_axis(counts[..., 0, :], at[..., np.newaxis], numbers[..., np.newaxis], axis=-1)
    counts[..., 0, -1] = points - numbers
    return counts, is_known


# ---------------------------------------------------------------------------- answers


def _codes_answer(question: Question, name: str, title: str) -> Answer:
    counts = counts_of(question, [name], None)
    meanings = question.views[0].grid.meanings(name)
    total = sum(line[0] for line in counts.values())
    codes = np.flatnonzero(total)
    rows = []
    for number, labels in question.ordered():
        line = counts[number][0]
        n = int(line.sum())
        for code in codes.tolist():
            share = line[code] / n if n else None
            own = {name: str(meanings[code]), "count": int(line[code]), "share": share}
            rows.append(Row(labels | own, question.by))
    columns = (*question.by, name, "count", "share")
    return Answer(title, columns, rows, {}, question.by, question.notes)


def _bins_answer(question: Question, name: str, borders: Array, title: str) -> Answer:
    # The last bin holds its upper border too.
    cuts = np.append(borders[:-1], np.nextafter(borders[-1], np.inf))
    check_rows(len(question.groups) * (len(cuts) + 2), "name fewer dimensions in `by`, or bins")
    counts = counts_of(question, [name], cuts)
    total: Array = np.sum([line[0] for line in counts.values()], axis=0)
    edges = [None, *borders.tolist(), None]
    shown = [i for i in range(len(cuts) + 1) if total[i] or 0 < i < len(cuts)]
    rows = []
    for number, labels in question.ordered():
        line = counts[number][0]
        n = int(line[:-1].sum())
        for i in shown:
            own = {"lowest": edges[i], "highest": edges[i + 1], "count": int(line[i]),
                   "share": line[i] / n if n else None}  # fmt: skip
            rows.append(Row(labels | own, question.by))
        if total[-1]:
            own = {"lowest": None, "highest": None, "count": int(line[-1]), "share": None}
            rows.append(Row(labels | own, question.by))
    units = question.views[0].grid.units(question.views[0].objectives[0])
    columns = (*question.by, "lowest", "highest", "count", "share")
    return Answer(title, columns, rows, {"lowest": units, "highest": units}, question.by,
                  question.notes)  # fmt: skip

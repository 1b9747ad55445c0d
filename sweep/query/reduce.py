"""Reduction of results to the part that a question keeps, in the quickest way.

A plan reduces its results without storing them. The index of a store answers for whole chunks and
says which of the others can matter. Everything else is read in blocks, a few at a time: NumPy,
decompression and dask release the interpreter while they work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from sweep.errors import QueryError
from sweep.fields import PROBLEM, PROBLEM_SIZE, Array
from sweep.fronts import front, spread
from sweep.query.blocks import Block, blocks_of
from sweep.query.chunk_index import Chunks
from sweep.query.grid import CLOCKS
from sweep.query.question import MAX_ROWS, KernelPart, Question, dims_of
from sweep.reduction import BEST, NOWHERE, Collected, Keep, Kept, smallest

T = TypeVar("T")
R = TypeVar("R")

KILLERS = 8
"""Points of the front so far that a new block is tested against first."""
MAX_BLOCKS = 64
"""Blocks, spread over the space, that are read of large results for a picture."""
APART = ("device", "model", PROBLEM, *CLOCKS)
"""Dimensions along which configurations do not tie, besides problem sizes."""
TIES = 64
"""Rows of a plan that are looked at first for each one asked for, as some may tie."""


def reduce(question: Question, keep: Keep, names: Sequence[str] = ()) -> Kept:
    """Return what is left of each group of a question.

    Parameters
    ----------
    question : Question
        The kernels' parts, and the groups that they share.
    keep : Keep
        What to keep of each group.
    names : sequence of str
        The codes to count; a kernel without one has none of it.

    Returns
    -------
    Kept
        In the order of groups, values and positions; groups without anything are absent.
        Positions count over all kernels.
    """
    _find_fastest(question)
    collected = Collected(keep, question.n_groups)
    for part, numbers, offset in question.numbered:
        collected.start(numbers, offset)
        for found in _parts(part, keep, names, collected):
            collected.add(found)
    none = np.empty(0, np.int64)
    columns = (np.empty((0, max(len(names), 1), keep.width), np.int64) if keep.is_count else none,)
    return collected.merge() or Kept(none, columns, none)


def _find_fastest(question: Question) -> None:
    """Give conditions the smallest execution times that they compare with."""
    for part in question.parts:
        condition, grid = part.condition, part.grid
        if condition is None or not condition.needs_fastest or condition.fastest is not None:
            continue
        sizes = {dim for dim in grid.dims if grid.long_name(dim).startswith(PROBLEM_SIZE)}
        by = tuple(dim for dim in grid.dims if dim in {"model", "device", *sizes})
        own = replace(part, objectives=("execution_time",), signs=(1,), by=by, condition=None,
                      uses_power=False)  # fmt: skip
        kept = reduce(Question([own], by), BEST)
        least = np.full(own.size, np.inf)
        np.minimum.at(least, kept.groups, kept.columns[0])
        table = np.full([len(grid.coordinates[dim].values) for dim in by], np.nan)
        table[np.ix_(*(part.selection.indices[dim] for dim in by))] = np.where(
            np.isinf(least), np.nan, least
        ).reshape(own.shape)
        condition.fastest = by, table


def _parts(part: KernelPart, keep: Keep, names: Sequence[str], so_far: Collected) -> Iterator[Kept]:
    """Yield parts of one kernel's kept results, with its own groups and positions."""
    present = [name for name in names if name in part.grid.variables]
    if keep.is_count and part.condition is None:
        yield from _absent(part, keep, names)
    is_empty = not all(len(chosen) for chosen in part.selection.indices.values())
    if is_empty or (names and not present):
        return
    reduction = part.reduction(keep, present)
    planned = part.grid.planned
    known = None if planned is None or reduction is None else planned.reduce(reduction)
    if known is None:
        index = part.grid.index
        if index is not None and part.grid.dims == ("model", *index.units.dims):
            found, blocks = Chunks(part, index).reduced(keep, present, so_far)
        else:
            found, blocks = [], iter(blocks_of(part, present))
        threads = None if planned is None else planned.threads
        read = each(partial(_of_block, keep, present, so_far), blocks, threads)
        known = chain(found, filter(None, read))
    for kept in known:
        if len(present) < len(names):  # a line for each name
            counts = np.zeros((len(kept.groups), len(names), keep.width), np.int64)
            counts[:, [names.index(name) for name in present]] = kept.columns[0]
            kept = Kept.counted(kept.groups, counts)
        yield kept


def _absent(part: KernelPart, keep: Keep, names: Sequence[str]) -> Iterator[Kept]:
    """Yield the counts of the configurations that a list leaves out, as a grid counts them."""
    absent = part.absent()
    if absent is None:
        return
    counts = np.zeros((len(absent), max(len(names), 1), keep.width), np.int64)
    if keep.kind == "bins":
        counts[:, 0, -1] = absent
    for line, name in enumerate(names):
        code = 0
        if name == "status":
            code = int(np.flatnonzero(part.grid.meanings(name) == part.grid.absent)[0])
        counts[:, line, code] = absent
    yield Kept.counted(np.arange(len(absent)), counts)


def _of_block(keep: Keep, names: Sequence[str], so_far: Collected, block: Block) -> Kept | None:
    """Read a block and reduce it."""
    read = block.read(names)
    if read is None:
        return None
    tables, mask = read
    if keep.is_count:
        return Kept.counted(block.groups, _counted(tables, block.rows(mask, False), keep))
    if keep.kind == "front":
        rows, columns = _fronts(block, tables, so_far)
        values = tuple(table[rows, columns] for table in tables)
    else:
        bounds = so_far.limits()[0][block.groups]
        rows, columns, least = smallest(tables[0], keep.n, bounds, value_only=keep.value_only)
        values = (least,)
    positions = block.positions(rows, np.maximum(columns, 0))
    return Kept(block.groups[rows], values, np.where(columns < 0, NOWHERE, positions))


def _counted(tables: Sequence[Array], satisfied: Array, keep: Keep) -> Array:
    """Return the counts of codes, or of numbers by bin, in each row of each table."""
    counts = np.zeros((len(satisfied), len(tables), keep.width), np.int64)
    for row, line in np.ndindex(*counts.shape[:2]):
        values = tables[line][row][satisfied[row]]
        if keep.kind == "bins":
            places = np.searchsorted(keep.cuts, values.astype(np.float64), side="right")
            places[np.isnan(values)] = keep.width - 1
            values = places
        counts[row, line] = np.bincount(values, minlength=keep.width)
    return counts


def _fronts(block: Block, tables: Sequence[Array], so_far: Collected) -> tuple[Array, Array]:
    """Return rows and columns of the points on each row's front."""
    rows, chosen = [], []
    for row, group in enumerate(block.groups.tolist()):
        known = so_far.front(group)
        killers: list[Array] = []
        if known is not None:  # a few points, spread along the front
            few = spread(np.arange(len(known[1])), KILLERS)
            killers = [column[few] for column in known[0]]
        chosen.append(front([table[row] for table in tables], killers))
        rows.append(np.full(len(chosen[-1]), row))
    return np.concatenate(rows), np.concatenate(chosen)


def each(function: Callable[[T], R], items: Iterable[T], n: int | None = None) -> Iterator[R]:
    """Yield ``function(item)`` in the order of the items, ``n`` of them in work at a time.

    Memory stays bounded: a new item begins only when a result has been taken and used. Which items
    are left may therefore depend on the results.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = min(n or max(2, available or 1), 8)
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="sweep-query") as pool:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) == workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


# ---------------------------------------------------------------------------- a sample


def cloud(question: Question, n: int) -> dict[tuple[Any, ...], tuple[Array, ...]]:
    """Return some valid configurations of each group for a picture, always the same ones.

    Parameters
    ----------
    question : Question
        What was asked; its objectives give the columns.
    n : int
        About how many in all.

    Returns
    -------
    dict
        The group's values of ``by`` to one array per objective, in the objectives' own sign.
    """
    found = sample(question, n)
    keys = {number: key for key, number in question.groups.items()}
    groups, starts = np.unique(found.groups, return_index=True)
    columns = zip(*(np.split(column, starts[1:]) for column in found.columns), strict=True)
    # Without any configuration there is still an empty part, of no group.
    return {keys[number]: own for number, own in zip(groups.tolist(), columns, strict=False)}


def sample(question: Question, n: int) -> Kept:
    """Return some valid configurations of each group, always the same ones.

    Parameters
    ----------
    question : Question
        What was asked; its objectives give the columns, in their own sign.
    n : int
        About how many in all; each group of a block that is read gives one at least.
    """
    _find_fastest(question)
    found: list[Kept] = []
    for part, numbers, offset in question.numbered:
        blocks = blocks_of(part)
        chosen = np.linspace(0, len(blocks) - 1, min(len(blocks), MAX_BLOCKS)).astype(int)
        share = max(1, n // (max(len(chosen), 1) * len(question.parts)))
        for thinned in each(partial(_thinned, share), [blocks[i] for i in chosen]):
            found += (
                Kept(numbers[kept.groups], kept.columns, kept.positions + offset)
                for kept in thinned
            )
    if not found:
        none = np.empty(0, np.int64)
        return Kept(none, (np.empty(0),) * len(question.parts[0].signs), none)
    groups = np.concatenate([kept.groups for kept in found])
    order = np.argsort(groups, kind="stable")
    columns = zip(*(kept.columns for kept in found), strict=True)
    positions = np.concatenate([kept.positions for kept in found])
    return Kept(
        groups[order], tuple(np.concatenate(own)[order] for own in columns), positions[order]
    )


def _thinned(share: int, block: Block) -> list[Kept]:
    """Return each group of a block with some of its valid configurations."""
    read = block.read()
    if read is None:
        return []
    found = []
    per_group = max(1, share // len(block.groups))
    for row, group in enumerate(block.groups.tolist()):
        columns = [table[row] for table in read[0]]
        valid = np.flatnonzero(~np.logical_or.reduce([np.isnan(c) for c in columns]))
        # An odd step, since axes often have an even number of values: it meets all of them.
        chosen = valid[:: max(1, valid.size // per_group) | 1]
        signed = zip(columns, block.part.signs, strict=True)
        values = tuple(sign * column[chosen] for column, sign in signed)
        positions = block.positions(np.full(chosen.size, row), chosen)
        found.append(Kept(np.full(chosen.size, group), values, positions))
    return found


# ---------------------------------------------------------------------------- combinations


def distinct_best(question: Question, by: Sequence[str], n: int) -> tuple[Question, Kept]:
    """Return the best configuration of each of the ``n`` best combinations.

    Parameters
    ----------
    question : Question
        Asked by the groups' dimensions and, after them, those that must differ.
    by : sequence of str
        The groups' dimensions alone.
    n : int
        How many combinations of each group.

    Returns
    -------
    question : Question
        Asked by the groups' dimensions alone.
    kept : Kept
        As :func:`sweep.query.reduce.reduce` for it: of equal combinations, and of equal
        configurations of one, the first in dimension order.

    Raises
    ------
    QueryError
        There are more combinations than :data:`sweep.query.question.MAX_ROWS`.
    """
    combinations = sum(part.size for part in question.parts)
    if combinations > MAX_ROWS:
        raise QueryError(
            f"{combinations:,} combinations of {', '.join(question.by)} are too many to compare:"
            " name fewer dimensions, or select some values"
        )
    parts = [replace(p, by=dims_of(p.grid, by)) for p in question.parts]
    outer = replace(question, parts=parts, by=tuple(by))
    found = reduce(question, Keep("smallest", 1))
    groups = np.array([outer.groups[key[: len(by)]] for key in question.groups], np.int64)
    return outer, Keep("smallest", n).merged([found._replace(groups=groups[found.groups])])


# ---------------------------------------------------------------------------- ties


def untied(question: Question, n: int) -> Kept:
    """Return the ``n`` best of each group, the first in dimension order of those that tie."""
    most = max(n, MAX_ROWS // max(question.n_groups, 1))
    is_stored = all(part.grid.planned is None for part in question.parts)
    asked = n if is_stored else min(TIES * n, most)  # to evaluate a plan once, not again for more
    while True:
        kept = reduce(question, Keep("smallest", asked))
        first = _first_of_ties(question, kept)
        found = np.bincount(kept.groups[first], minlength=question.n_groups)
        is_short = (found < n) & (np.bincount(kept.groups, minlength=len(found)) == asked)
        if asked >= most or not is_short.any():
            columns = tuple(column[first] for column in kept.columns)
            kept = Kept(kept.groups[first], columns, kept.positions[first])
            return Keep("smallest", n).merged([kept])
        asked = min(8 * asked, most)


def _first_of_ties(question: Question, kept: Kept) -> Array:
    """Return the rows with a value that no row before has of their kernel and :data:`APART`."""
    apart = np.zeros((2, len(kept.positions)))
    for number, (part, _, offset) in enumerate(question.numbered):
        mine = (kept.positions >= offset) & (kept.positions < offset + part.grid.points)
        code = np.zeros(mine.sum())
        for dim, place in part.places(kept.positions[mine] - offset).items():
            if dim in APART or part.grid.long_name(dim).startswith("problem size"):
                code = code * part.grid.sizes[dim] + place
        apart[0, mine], apart[1, mine] = number, code
    _, first = np.unique([kept.groups, *kept.columns, *apart], axis=1, return_index=True)
    return np.sort(first)

"""A question laid over all kernels that it fits, with the groups that kernels may share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.query._threads import each
from sweep.query.cells import Cells, cells_of
from sweep.query.grid import AbsentError, grids_of
from sweep.query.select import Minima, of_two
from sweep.query.selection import clearest, select_kernels
from sweep.query.source import Kept, Least, Source, group_numbers
from sweep.query.view import SENSES, Block, Slab, View

__all__ = ["Question", "ask", "check_rows", "title_of"]

Array = NDArray[Any]
T = TypeVar("T")

NAMED = 3  # groups that a note names; it counts the others
MAX_ROWS = 1_000_000
DEFAULT_BY = ("kernel", "device", "model")


@dataclass(frozen=True)
class Question:
    """A question laid over all kernels: views, and groups that they may share."""

    views: list[View]
    by: tuple[str, ...]
    notes: tuple[str, ...]
    source: Source | None = None

    @cached_property
    def offsets(self) -> Array:
        """Where each view's positions begin, so that positions order the kernels too."""
        return np.cumsum([0, *(view.grid.points for view in self.views)])[:-1]

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], int]:
        """Each group's values of ``by``, and its number."""
        found: dict[tuple[Any, ...], int] = {}
        check_rows(sum(view.groups for view in self.views), "name fewer dimensions in `by`")
        for view in self.views:
            for key in self._keys(view):
                found.setdefault(key, len(found))
        return found

    @cached_property
    def numbers(self) -> list[Array]:
        """For each view the number of each of its groups."""
        return [
            np.array([self.groups[key] for key in self._keys(view)], np.int64)
            for view in self.views
        ]

    def _keys(self, view: View) -> list[tuple[Any, ...]]:
        """Return the values of ``by`` for each group of a view."""
        keys = []
        for label in view.labels():
            known = dict(zip(view.by, label, strict=True)) | {"kernel": view.grid.kernel}
            keys.append(
                tuple(
                    known[n] if n in known else view.grid.coordinates[n].values.item()
                    for n in self.by
                )
            )
        return keys

    def ordered(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the groups' numbers and values, ordered by the values of ``by`` in turn."""
        ranks: list[dict[Any, int]] = [{} for _ in self.by]
        for key in self.groups:
            for rank, value in zip(ranks, key, strict=True):
                rank.setdefault(value, len(rank))
        keys = sorted(self.groups, key=lambda k: tuple(r[v] for r, v in zip(ranks, k, strict=True)))
        return [(self.groups[key], dict(zip(self.by, key, strict=True))) for key in keys]

    @property
    def shared(self) -> dict[str, Any]:
        """What is known of every group: the kernel, if there is only one."""
        return {"kernel": self.views[0].grid.kernel} if len(self.views) == 1 else {}

    def named(self, numbers: Sequence[int]) -> str:
        """Return the first of some groups in words, ready to follow a sentence."""
        labels = dict(self.ordered())
        words = [
            " ".join(str(v) if k in DEFAULT_BY else f"{k}={v}" for k, v in labels[n].items())
            for n in numbers[:NAMED]
        ]
        more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
        return f" for {'; '.join(words)}{more}" if any(words) else ""

    def _kept(self, n: int, least: bool) -> tuple[list[tuple[Array, Kept | Least]], list[int]]:
        """Return numbers of groups and what the source leaves of them; the views it cannot."""
        found: list[tuple[Array, Kept | Least]] = []
        left = []
        for i, (view, numbers, offset) in enumerate(
            zip(self.views, self.numbers, self.offsets, strict=True)
        ):
            parts = None if self.source is None else view.kept(self.source, n, least)
            if parts is None:
                left.append(i)
                continue
            for part in parts:
                keys = part.key if isinstance(part, Kept) else part.keys
                chosen = numbers[group_numbers(keys, view.grouping.shape)]
                found.append((chosen, part._replace(positions=part.positions + int(offset))))
        return found, left

    def kept(self, n: int) -> tuple[list[tuple[int, list[Array], Array]], list[int]]:
        """Ask the source of the results to reduce them.

        Parameters
        ----------
        n : int
            How many of the smallest to keep of each group; 0 for the Pareto front.

        Returns
        -------
        found : list of tuple
            Number of a group, columns and positions of some of its configurations; several for one
            group, in any order. None that can matter is missing.
        left : list of int
            The views that have to be read.
        """
        found, left = self._kept(n, least=False)
        return [
            (int(numbers[0]), list(part.columns), part.positions)
            for numbers, part in found
            if isinstance(part, Kept)
        ], left

    def least(self) -> tuple[list[tuple[Array, Minima]], list[int]]:
        """Ask the source for the minima: numbers of groups with their minima, and views to read."""
        found, left = self._kept(2, least=True)
        return [
            (numbers, of_two(part.columns[0], part.positions))
            if isinstance(part, Kept)
            else (numbers, Minima(part.value, part.positions, part.runner_up))
            for numbers, part in found
        ], left

    def reduced(
        self,
        function: Callable[[Slab, Array, int], T],
        blocks: Callable[[Cells, Array, int], Iterable[Block]],
        views: Sequence[int] | None = None,
    ) -> Iterator[T]:
        """Yield ``function(slab, numbers of its groups, view's offset)`` block by block.

        ``blocks(cells, numbers of the view's groups, view's offset)`` tells what to read of a store
        with an index; ``views`` are the numbers of those to read, by default all.
        """
        for i in range(len(self.views)) if views is None else views:
            view, numbers, offset = self.views[i], self.numbers[i], int(self.offsets[i])
            cells = cells_of(view)
            chosen = view.blocks() if cells is None else blocks(cells, numbers, offset)

            def work(
                block: Block, view: View = view, numbers: Array = numbers, offset: int = offset
            ) -> T | None:
                slab = view.slab(block)
                return None if slab is None else function(slab, numbers[slab.groups], int(offset))

            yield from (found for found in each(work, chosen) if found is not None)


def check_rows(rows: int, advice: str) -> None:
    """Refuse an answer that nobody reads and no memory holds.

    Raises
    ------
    QueryError
        There would be more than :data:`MAX_ROWS` rows.
    """
    if rows > MAX_ROWS:
        raise QueryError(f"the answer would have {rows} rows, more than {MAX_ROWS}: {advice}")


def ask(
    data: Any,
    objectives: Sequence[str],
    senses: Sequence[str],
    by: Sequence[str] | None,
    where: str | Expression | None,
    select: Mapping[str, Any] | None,
    codes: Sequence[str] = (),
) -> Question:
    """Return a question laid over all kernels that it fits; ``codes`` are those to count.

    Raises
    ------
    QueryError
        It fits none of them.
    """
    for sense in senses:
        if sense not in SENSES:
            raise QueryError(f"unknown sense '{sense}'{nearest(sense, SENSES)} (known: min, max)")
    select = dict(select or {})
    expression = Expression.parse(where) if isinstance(where, str) else where
    source = data if isinstance(data, Source) else None
    grids = select_kernels(grids_of(data), select)
    wanted = _names(by)
    views, refused, left_out = [], [], []
    for grid in grids:
        names = DEFAULT_BY if wanted is None else wanted
        if wanted is None:
            names = tuple(n for n in names if n == "kernel" or n in grid.coordinates)
        try:
            views.append(View(grid, objectives, senses, names, select, expression, codes))
        except AbsentError as error:
            refused.append(error)
            left_out.append(grid.kernel)
    if not views:
        raise clearest(refused)
    notes = (f"left out: {', '.join(left_out)} ({refused[0]})",) if refused else ()
    if wanted is None:
        wanted = tuple(
            n for n in DEFAULT_BY if n == "kernel" or all(n in v.grid.coordinates for v in views)
        )
    return Question(views, wanted, notes, source)


def _names(by: Sequence[str] | None) -> tuple[str, ...] | None:
    if by is None:
        return None
    return tuple(dict.fromkeys([by] if isinstance(by, str) else by))


def title_of(what: str, by: Sequence[str], where: Any, select: Mapping[str, Any] | None) -> str:
    """Return the question in words."""
    text = what + (f" by {', '.join(by)}" if by else "")
    if select:
        text += ", " + ", ".join(f"{name}={value}" for name, value in select.items())
    if where is not None:
        text += f", where {where if isinstance(where, str) else where.text}"
    return text

"""A question laid over all kernels that it fits, with the groups that kernels may share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.query.filters import clearest, select_kernels
from sweep.query.grid import AbsentError
from sweep.query.kernel_part import SENSES, KernelPart
from sweep.query.sources import grids_of

__all__ = ["Question", "check_rows", "lay_out", "title_of"]

Array = NDArray[Any]

NAMED = 3  # groups that a note names; it counts the others
MAX_ROWS = 1_000_000
DEFAULT_BY = ("kernel", "device", "model")


@dataclass(frozen=True)
class Question:
    """A question laid over all kernels: their parts, and the groups that they may share.

    ``notes`` name the kernels that it does not fit.
    """

    parts: list[KernelPart]
    by: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def offsets(self) -> Array:
        """Where each part's positions begin, so that positions order the kernels too."""
        return np.cumsum([0, *(part.grid.points for part in self.parts)])[:-1]

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], int]:
        """Each group's values of ``by``, and its number."""
        found: dict[tuple[Any, ...], int] = {}
        check_rows(sum(part.grouping.size for part in self.parts), "name fewer dimensions in `by`")
        for part in self.parts:
            for key in self._keys(part):
                found.setdefault(key, len(found))
        return found

    @cached_property
    def numbers(self) -> list[Array]:
        """For each part the number of each of its groups."""
        return [
            np.array([self.groups[key] for key in self._keys(part)], np.int64)
            for part in self.parts
        ]

    def numbered(self) -> Iterator[tuple[KernelPart, Array, int]]:
        """Yield each part with the numbers of its groups and where its positions begin."""
        yield from zip(self.parts, self.numbers, map(int, self.offsets), strict=True)

    def narrowed(self, numbers: Sequence[int], *, keeps_condition: bool = True) -> Question:
        """Return the question about some groups, without the kernels that have none of them."""
        found = []
        for part, own, _ in self.numbered():
            local = np.flatnonzero(np.isin(own, numbers))
            if local.size:
                found.append(part.narrowed(local, keeps_condition=keeps_condition))
        return replace(self, parts=found)

    def _keys(self, part: KernelPart) -> list[tuple[Any, ...]]:
        """Return the values of ``by`` for each group of a part."""
        keys = []
        for label in part.grouping.labels():
            known = dict(zip(part.by, label, strict=True)) | {"kernel": part.grid.kernel}
            keys.append(
                tuple(
                    known[n] if n in known else part.grid.coordinates[n].values.item()
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
        return {"kernel": self.parts[0].grid.kernel} if len(self.parts) == 1 else {}

    def named(self, numbers: Sequence[int]) -> str:
        """Return the first of some groups in words, ready to follow a sentence."""
        labels = dict(self.ordered())
        words = [
            " ".join(str(v) if k in DEFAULT_BY else f"{k}={v}" for k, v in labels[n].items())
            for n in numbers[:NAMED]
        ]
        more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
        return f" for {'; '.join(words)}{more}" if any(words) else ""


def check_rows(rows: int, advice: str) -> None:
    """Refuse an answer that nobody reads and no memory holds.

    Raises
    ------
    QueryError
        There would be more than :data:`MAX_ROWS` rows.
    """
    if rows > MAX_ROWS:
        raise QueryError(f"the answer would have {rows} rows, more than {MAX_ROWS}: {advice}")


def lay_out(
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
    grids = select_kernels(grids_of(data), select)
    wanted = None if by is None else tuple(dict.fromkeys([by] if isinstance(by, str) else by))
    parts, refused, left_out = [], [], []
    for grid in grids:
        names = DEFAULT_BY if wanted is None else wanted
        if wanted is None:
            names = tuple(n for n in names if n == "kernel" or n in grid.coordinates)
        try:
            parts.append(KernelPart(grid, objectives, senses, names, select, expression, codes))
        except AbsentError as error:
            refused.append(error)
            left_out.append(grid.kernel)
    if not parts:
        raise clearest(refused)
    notes = (f"left out: {', '.join(left_out)} ({refused[0]})",) if refused else ()
    if wanted is None:
        wanted = tuple(
            n for n in DEFAULT_BY if n == "kernel" or all(n in v.grid.coordinates for v in parts)
        )
    return Question(parts, wanted, notes)


def title_of(what: str, by: Sequence[str], where: Any, select: Mapping[str, Any] | None) -> str:
    """Return the question in words."""
    text = what + (f" by {', '.join(by)}" if by else "")
    if select:
        text += ", " + ", ".join(f"{name}={value}" for name, value in select.items())
    if where is not None:
        text += f", where {where if isinstance(where, str) else where.text}"
    return text

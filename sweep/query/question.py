"""A question asked of all kernels that it fits, with the groups that kernels may share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.query.filters import select_kernels, those_that_fit
from sweep.query.grid import Grid, grids_of
from sweep.query.kernel_part import SENSES, KernelPart

Array = NDArray[Any]

NAMED = 3  # groups that a note names; it counts the others
MAX_ROWS = 1_000_000
DEFAULT_BY = ("kernel", "device", "model")


@dataclass(frozen=True, eq=False)
class Question:
    """A question asked of all kernels: their parts, and the groups that they may share.

    ``filters`` describes selection and condition; ``notes`` name the kernels that it does not fit.
    """

    parts: list[KernelPart]
    by: tuple[str, ...]
    filters: str = ""
    notes: tuple[str, ...] = ()

    def title(self, what: str) -> str:
        """Return the question in words."""
        return what + (f" by {', '.join(self.by)}" if self.by else "") + self.filters

    @cached_property
    def offsets(self) -> Array:
        """Where each part's positions begin, so that positions order the kernels too."""
        return np.cumsum([0, *(part.grid.points for part in self.parts)])[:-1]

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], int]:
        """Each group's values of ``by``, and its number."""
        check_rows(sum(part.size for part in self.parts), "name fewer dimensions in `by`")
        keys = dict.fromkeys(key for part in self.parts for key in self._keys(part))
        return {key: number for number, key in enumerate(keys)}

    @cached_property
    def numbered(self) -> list[tuple[KernelPart, Array, int]]:
        """Each part with the numbers of its groups and where its positions begin."""
        found = []
        for part, offset in zip(self.parts, self.offsets.tolist(), strict=True):
            numbers = [self.groups[key] for key in self._keys(part)]
            found.append((part, np.array(numbers, np.int64), offset))
        return found

    def narrowed(self, numbers: Sequence[int], *, keeps_condition: bool = True) -> Question:
        """Return the question about some groups, without the kernels that have none of them."""
        found = []
        for part, own, _ in self.numbered:
            local = np.flatnonzero(np.isin(own, numbers))
            if local.size:
                found.append(part.narrowed(local, keeps_condition=keeps_condition))
        return replace(self, parts=found)

    def _keys(self, part: KernelPart) -> Iterator[tuple[Any, ...]]:
        """Yield the values of ``by`` for each group of a part."""
        fixed = {
            n: part.grid.kernel if n == "kernel" else part.grid.coordinates[n].values.item()
            for n in self.by
            if n not in part.by
        }
        for label in part.labels():
            known = fixed | dict(zip(part.by, label, strict=True))
            yield tuple(known[name] for name in self.by)

    def ordered(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the groups' numbers and values, ordered by the values of ``by`` in turn."""
        ranks = [
            {value: rank for rank, value in enumerate(dict.fromkeys(values))}
            for values in zip(*self.groups, strict=True)
        ]
        keys = sorted(self.groups, key=lambda k: [r[v] for r, v in zip(ranks, k, strict=True)])
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


def ask(
    data: Any,
    objectives: Sequence[str],
    senses: Sequence[str],
    by: Sequence[str] | None,
    where: str | Expression | None,
    select: Mapping[str, Any] | None,
    codes: Sequence[str] = (),
) -> Question:
    """Return a question asked of all kernels that it fits; ``codes`` are those to count.

    Raises
    ------
    QueryError
        It fits none of them.
    """
    for sense in senses:
        if sense not in SENSES:
            raise QueryError(f"unknown sense '{sense}'{nearest(sense, SENSES)} (known: min, max)")
    select = dict(select or {})
    condition = Expression.parse(where) if isinstance(where, str) else where
    wanted = (by,) if isinstance(by, str) else by

    def groups_of(grids: Sequence[Grid]) -> tuple[str, ...]:
        """Return what forms groups: by default the dimensions among kernel, device and model."""
        if wanted is not None:
            return tuple(dict.fromkeys(wanted))
        known = [{"kernel", *grid.coordinates} for grid in grids]
        return tuple(name for name in DEFAULT_BY if all(name in names for names in known))

    parts, refused = those_that_fit(
        select_kernels(grids_of(data), select),
        lambda grid: KernelPart.of(
            grid, objectives, senses, groups_of([grid]), select, condition, codes
        ),
    )
    filters = "".join(f", {name}={value}" for name, value in select.items())
    filters += "" if condition is None else f", where {condition.text}"
    notes = [f"left out: {', '.join(refused)} ({next(iter(refused.values()))})"] if refused else []
    return Question(parts, groups_of([part.grid for part in parts]), filters, tuple(notes))

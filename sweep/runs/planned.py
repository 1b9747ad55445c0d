"""A plan in place of a store: questions evaluate and reduce it, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from sweep.evaluation.opening import open_plan
from sweep.evaluation.reducing import Least as OfClocks
from sweep.evaluation.reducing import Reduction, clock_names, reducible
from sweep.query.source import Asked, Counted, Kept, Least
from sweep.runs.sharing import Progress, reduce_in_threads, reduce_on_cluster
from sweep.space import Plan, Space, resolve

__all__ = ["Planned"]


@dataclass(frozen=True, eq=False)
class Planned:
    """The results of a space that nobody has computed.

    Attributes
    ----------
    space : Space
        What is asked about.
    threads : int, optional
        Threads of this process; all cores by default.
    client : distributed.Client, optional
        A cluster to reduce on. What cannot be reduced is still read in this process.
    progress : callable, optional
        Told how far a question is.
    """

    space: Space
    threads: int | None = None
    client: Any = None
    progress: Progress | None = None

    @classmethod
    def of(cls, plan: Plan | Space, **options: Any) -> Planned:
        """Return the results of a plan, or of a space that is laid out already."""
        return cls(plan if isinstance(plan, Space) else resolve(plan), **options)

    def __getitem__(self, kernel: str) -> Any:
        """Return one kernel's lazy results."""
        return self.results[kernel]

    @cached_property
    def results(self) -> Any:
        """The results as a tree whose variables are evaluated as they are read."""
        return open_plan(self.space)

    def reduced(self, asked: Asked) -> Iterable[Kept | Least] | None:
        """Reduce one kernel's grid in compiled passes; None where they cannot answer."""
        kernel, plan = self.space[asked.kernel], self.space.plan
        clocks = clock_names(kernel)
        each = asked.least and bool(clocks) and set(clocks) <= set(asked.by)
        reduction = Reduction(
            asked.kernel, asked.objectives, asked.signs, asked.by, asked.indices, asked.n, each
        )
        if asked.dims != ("model", *kernel.grid.names) or not reducible(kernel, plan, reduction):
            return None
        found = self._results(reduction)
        if each:
            return [_spread(least, asked, clocks) for part in found for least in part]
        return [Kept(key, kept.columns, kept.positions) for part in found for key, kept in part]

    def counted(self, asked: Counted) -> Iterable[tuple[tuple[int, ...], Any]] | None:
        """Count in compiled passes; None where they cannot answer."""
        kernel, plan = self.space[asked.kernel], self.space.plan
        names = asked.names
        if asked.cuts is None and "status" not in names:
            names = (*names, "status")  # with it a pass looks at launches that cannot be, too
        reduction = Reduction(
            asked.kernel, names, (), asked.by, asked.indices, counts=True, cuts=asked.cuts
        )
        if asked.dims != ("model", *kernel.grid.names) or not reducible(kernel, plan, reduction):
            return None
        parts = chain.from_iterable(self._results(reduction))
        return ((key, counts[: len(asked.names)]) for key, counts in parts)

    def _results(self, reduction: Reduction) -> list[Any]:
        """Return what each thread, or each share of a cluster's work, has kept."""
        kernel, plan = self.space[reduction.kernel], self.space.plan
        if self.client is not None:
            return reduce_on_cluster(self.space, reduction, self.client, self.progress)
        threads, progress = self.threads, self.progress
        return [p.result() for p in reduce_in_threads(kernel, plan, reduction, threads, progress)]


def _spread(part: OfClocks, asked: Asked, clocks: tuple[str, ...]) -> Least:
    """Return the minima over the clocks as those of as many groups."""
    lengths = [len(asked.indices[name]) for name in clocks]
    places = dict(zip(clocks, np.indices(lengths).reshape(len(lengths), -1), strict=True))
    others = iter(part.key)
    keys = tuple(
        places[name] if name in places else np.full(part.value.size, next(others))
        for name in asked.by
    )
    return Least(keys, part.value, part.runner_up, part.positions)

"""Reduce a plan on a cluster: each task reduces a share of the pieces of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.evaluation.planned import Distribute
from sweep.evaluation.reducing import Accumulator, Progress, pieces, restricted
from sweep.reduction import Kept, Reduction
from sweep.runs.execute import execute
from sweep.runs.job import SpaceSource
from sweep.runs.record import record_of
from sweep.space import Space

__all__ = ["on_cluster", "shares"]

SHARES = 8
"""Shares of the work per thread of a cluster, so that all threads end at about the same time."""
SMALLEST = 1 << 24
"""Smallest number of evaluations for which a separate task pays off."""


def shares(n_pieces: int, slots: int, evaluations: int) -> int:
    """Return the number of tasks for a question's pieces.

    Parameters
    ----------
    n_pieces : int
        Pieces of one kernel's grid.
    slots : int
        Threads of all workers.
    evaluations : int
        Configurations times models.
    """
    return max(1, min(n_pieces, SHARES * slots, evaluations // SMALLEST))


@dataclass(frozen=True)
class Share:
    """Reduces one share of a question's pieces on a worker; picklable and small."""

    source: SpaceSource
    reduction: Reduction
    bounds: Sequence[int]
    _laid_out: list[Any] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the resolved space, because the worker creates its own."""
        return {**self.__dict__, "_laid_out": []}

    def __call__(self, unit: tuple[str, int]) -> tuple[tuple[str, int], dict[str, Any]]:
        """Reduce a share; return the kept results and the number of evaluations."""
        if not self._laid_out:
            space = self.source.space()
            whole = space[self.reduction.kernel]
            part = restricted(whole, self.reduction)
            shape = whole.grid.shape
            self._laid_out.append((space.plan, part, shape, pieces(part, self.reduction)))
        plan, part, shape, found = self._laid_out[0]
        mine = Accumulator(part, plan, self.reduction, shape)
        number = unit[1]
        points = sum(mine.add(p) for p in found[self.bounds[number] : self.bounds[number + 1]])
        return unit, {"evaluations": points, "kept": mine.kept()}


def on_cluster(client: Any) -> Distribute:
    """Return a function with which the workers of a Dask cluster reduce a kernel's grid.

    The function raises a SweepError if the cluster fails.
    """

    def distribute(whole: Space, reduction: Reduction, progress: Progress | None) -> list[Kept]:
        part = restricted(whole[reduction.kernel], reduction)
        total = part.n_points * len(reduction.indices["model"])
        n_pieces = len(pieces(part, reduction))
        n = shares(n_pieces, sum(client.nthreads().values()), total)
        bounds = [n_pieces * i // n for i in range(n + 1)]
        job = Share(SpaceSource.of(whole, record_of(whole)), reduction, bounds)
        found: list[Kept] = []
        done = 0

        def take(_: tuple[str, int], summary: dict[str, Any]) -> None:
            nonlocal done
            found.extend(summary["kept"])
            done += summary["evaluations"]
            if progress is not None:
                progress(done, total)

        units = [(reduction.kernel, number) for number in range(n)]
        execute(job, units, take, points=part.n_points, client=client)
        return found

    return distribute

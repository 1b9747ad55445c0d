"""Pieces of a reduction, shared among threads of this process or workers of a cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sweep.evaluation.reducing import Accumulator, Piece, Reduction, pieces
from sweep.runs.execute import execute
from sweep.runs.record import record_of, texts_of
from sweep.space import KernelSpace, Plan, Space, parse_plan, resolve

__all__ = ["Progress", "reduce_on_cluster", "reduce_in_threads", "shares"]

Progress = Callable[[int, int], None]
"""Told evaluations done and evaluations in all, from any thread."""

SHARES = 8
"""Shares of the work for each thread of a cluster, so that all end at about the same time."""
SMALLEST = 1 << 24
"""Evaluations below which a share is not worth a task."""


def shares(n_pieces: int, slots: int, evaluations: int) -> int:
    """Return into how many tasks of a cluster a question's pieces go.

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


def restricted(space: KernelSpace, reduction: Reduction) -> KernelSpace:
    """Return a kernel's grid with only what a question selects."""
    return space.restricted({n: reduction.indices[n].tolist() for n in space.grid.names})


def reduce_in_threads(
    space: KernelSpace,
    plan: Plan,
    question: Reduction,
    threads: int | None,
    progress: Progress | None,
) -> list[Accumulator]:
    """Let each thread take pieces until none is left; return what each has kept.

    Parameters
    ----------
    space : KernelSpace
        The kernel's whole grid.
    plan : Plan
        Models, variant, precision and options.
    question : Reduction
        What to keep.
    threads : int, optional
        How many; all cores by default.
    progress : callable, optional
        Told how far it is.
    """
    part = restricted(space, question)
    waiting, lock = iter(pieces(part, question)), threading.Lock()
    stopped = threading.Event()
    done, total = 0, part.n_points * len(question.indices["model"])

    def take() -> Iterator[Piece]:
        while not stopped.is_set():
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            yield piece

    def work(mine: Accumulator) -> None:
        nonlocal done
        for piece in take():
            points = mine.add(piece)
            with lock:
                done += points
                if progress is not None:
                    progress(done, total)

    shape = space.grid.shape
    found = [
        Accumulator(part, plan, question, shape) for _ in range(threads or os.cpu_count() or 1)
    ]
    with ThreadPoolExecutor(len(found), thread_name_prefix="sweep-reduce") as pool:
        futures = [pool.submit(work, mine) for mine in found]
        try:
            for future in futures:
                future.result()
        finally:
            stopped.set()
    return found


@dataclass(frozen=True)
class Share:
    """Reduces one share of a question's pieces on a worker; picklable and small."""

    plan: Mapping[str, Any]
    texts: Mapping[str, Mapping[str, str]]
    question: Reduction
    bounds: Sequence[int]
    digest: str
    _laid_out: list[Any] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the laid-out space behind: the other side makes its own."""
        return {**self.__dict__, "_laid_out": []}

    def __call__(self, unit: tuple[str, int]) -> tuple[tuple[str, int], dict[str, Any]]:
        """Reduce a share; return what it keeps and how many evaluations it took."""
        if not self._laid_out:
            space = _space_of(self)
            whole = space[self.question.kernel]
            part = restricted(whole, self.question)
            shape = whole.grid.shape
            self._laid_out.append((space.plan, part, shape, pieces(part, self.question)))
        plan, part, shape, found = self._laid_out[0]
        mine = Accumulator(part, plan, self.question, shape)
        number = unit[1]
        points = sum(mine.add(p) for p in found[self.bounds[number] : self.bounds[number + 1]])
        return unit, {"evaluations": points, "kept": mine.result()}


_SPACES: dict[str, Space] = {}
"""The space at hand in this process, by the digest of its plan and specs."""


def _space_of(share: Share) -> Space:
    """Return the space of a share, laid out once for all questions that follow each other."""
    found = _SPACES.get(share.digest)
    if found is None:
        found = resolve(parse_plan(share.plan), share.texts)
        _SPACES.clear()
        _SPACES[share.digest] = found
    return found


def reduce_on_cluster(
    whole: Space, question: Reduction, client: Any, progress: Progress | None
) -> list[Any]:
    """Let the workers of a cluster reduce shares; return what each share has kept.

    Parameters
    ----------
    whole : Space
        The space of the kernel.
    question : Reduction
        What to keep.
    client : distributed.Client
        The cluster.
    progress : callable, optional
        Told how far it is.

    Raises
    ------
    SweepError
        The cluster failed.
    """
    space = whole[question.kernel]
    part = restricted(space, question)
    total = part.n_points * len(question.indices["model"])
    n_pieces = len(pieces(part, question))
    slots = sum(client.nthreads().values())
    n = shares(n_pieces, slots, total)
    bounds = [n_pieces * i // n for i in range(n + 1)]
    record = record_of(whole)
    job = Share(record["plan"], texts_of(record), question, bounds, str(record["identity"]))
    found: list[Any] = []
    done = 0

    def take(unit: tuple[str, int], summary: dict[str, Any]) -> None:
        nonlocal done
        found.append(summary["kept"])
        done += summary["evaluations"]
        if progress is not None:
            progress(done, total)

    units = [(question.kernel, number) for number in range(n)]
    execute(job, units, take, points=part.n_points, client=client)
    return found

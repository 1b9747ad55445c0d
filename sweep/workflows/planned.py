"""A plan in place of a store: questions evaluate and reduce it, and nothing is written."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sweep.evaluation.opening import open_plan
from sweep.evaluation.reducing import (
    Accumulator,
    Piece,
    Reduction,
    clock_names,
    pieces,
    reducible,
)
from sweep.evaluation.reducing import Least as OfClocks
from sweep.query.source import Asked, Kept, Least
from sweep.space import Plan, Space, resolve

__all__ = ["Planned"]

Progress = Callable[[int, int], None]
"""Told evaluations done and evaluations in all, from any thread."""


@dataclass(frozen=True, eq=False)
class Planned:
    """The results of a space that nobody has computed.

    Attributes
    ----------
    space : Space
        What is asked about.
    threads : int, optional
        Threads of this process; all cores by default.
    progress : callable, optional
        Told how far a question is.
    """

    space: Space
    threads: int | None = None
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
        chosen = {name: asked.indices[name].tolist() for name in kernel.grid.names}
        part = kernel.restricted(chosen)
        found = [
            Accumulator(part, plan, reduction, kernel.grid.shape) for _ in range(self._n_threads)
        ]
        self._reduce(found, pieces(part, reduction), part.n_points * len(asked.indices["model"]))
        if each:
            return [_spread(part, asked, clocks) for a in found for part in a.least()]
        return [
            Kept(key, kept.columns, kept.positions)
            for accumulator in found
            for key, kept in accumulator.kept().items()
        ]

    @property
    def _n_threads(self) -> int:
        return self.threads or os.cpu_count() or 1

    def _reduce(self, accumulators: list[Accumulator], parts: list[Piece], total: int) -> None:
        """Let each thread take pieces until none is left."""
        waiting, lock = iter(parts), threading.Lock()
        stopped = threading.Event()
        done = 0

        def take() -> Iterator[Piece]:
            while not stopped.is_set():
                with lock:
                    piece = next(waiting, None)
                if piece is None:
                    return
                yield piece

        def work(accumulator: Accumulator) -> None:
            nonlocal done
            for piece in take():
                points = accumulator.add(piece)
                with lock:
                    done += points
                    if self.progress is not None:
                        self.progress(done, total)

        with ThreadPoolExecutor(len(accumulators), thread_name_prefix="sweep-reduce") as pool:
            futures = [pool.submit(work, accumulator) for accumulator in accumulators]
            try:
                for future in futures:
                    future.result()
            finally:
                stopped.set()


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

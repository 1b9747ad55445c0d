"""The unit of work of a run: evaluate one chunk and write it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from sweep.evaluation import Buffers, Variable, evaluate_box, variables, warm_up
from sweep.runs.summaries import summarise
from sweep.space import Space, parse_plan, resolve
from sweep.store import ChunkWriter, chunk_key

__all__ = ["Job", "Unit", "Work"]

Unit = tuple[str, int]
"""A kernel's name and the number of a chunk."""

Work = Callable[[Unit], tuple[Unit, dict[str, Any]]]
"""Does one unit and returns it with its summary; such as a :class:`Job`."""


@dataclass(frozen=True)
class Job:
    """What a worker needs: plan and specs as text, and how to write.

    Picklable and small; a worker lays the space out once per process.
    """

    plan: Mapping[str, Any]
    texts: Mapping[str, Mapping[str, str]]
    writer: ChunkWriter
    digest: str
    _local: list[Space] = field(default_factory=list, compare=False, repr=False)
    _spare: list[Buffers] = field(default_factory=list, compare=False, repr=False)
    _found: dict[str, tuple[Variable, ...]] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the laid-out space and buffers behind: the other side makes its own."""
        return {**self.__dict__, "_local": [], "_spare": [], "_found": {}}

    def __hash__(self) -> int:
        return hash(self.digest)

    def space(self) -> Space:
        """Return the space, laid out once per process."""
        return self._local[0] if self._local else _resolved(self)

    def warm_up(self) -> None:
        """Compile in this process what the units will need."""
        space = self.space()
        warm_up(space.kernels, space.plan)

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Evaluate and write one chunk; return its summary for the journal."""
        with self._buffers() as buffers:
            return unit, self._fill(unit, buffers)

    def _variables(self, kernel: str) -> tuple[Variable, ...]:
        if kernel not in self._found:
            space = self.space()
            self._found[kernel] = variables(space[kernel], space.plan)
        return self._found[kernel]

    @contextmanager
    def _buffers(self) -> Iterator[Buffers]:
        """Lend buffers that no other thread uses meanwhile."""
        try:
            held = self._spare.pop()
        except IndexError:
            held = Buffers()
        yield held
        self._spare.append(held)

    def _fill(self, unit: Unit, buffers: Buffers) -> dict[str, Any]:
        kernel, chunk = unit
        space = self.space()
        part = space[kernel]
        box = part.grid.box(chunk)
        arrays = evaluate_box(part, space.plan, box, self._variables(kernel), buffers)
        return self.store(unit, arrays)

    def store(
        self, unit: Unit, arrays: Mapping[str, Any], there: Collection[str] = ()
    ) -> dict[str, Any]:
        """Write a chunk's results, except for files that are there already.

        Parameters
        ----------
        unit : Unit
            The chunk.
        arrays : mapping
            All its variables.
        there : collection of str
            Keys of files that are not to be written.

        Returns
        -------
        dict
            The chunk's summary.
        """
        kernel, chunk = unit
        space = self.space()
        part = space[kernel]
        index = dict(zip(part.grid.names, part.grid.chunk_index(chunk), strict=True))
        found = self._variables(kernel)
        for variable in found:
            absent = [i for name, i in index.items() if name not in variable.dims]
            if any(absent):
                continue  # another chunk, first along what the variable does not depend on, has it
            values = arrays[variable.name]
            own = tuple(index[d] for d in variable.dims if d != "model")
            places = [own]
            if "model" in variable.dims:
                places = [(model, *own) for model in range(len(space.plan.models))]
            for place in places:
                if f"{kernel}/{variable.name}/{chunk_key(place)}" not in there:
                    of_model = values[place[0]][np.newaxis] if len(place) > len(own) else values
                    self.writer.write(kernel, variable.name, place, of_model)
        return summarise(part.grid, space.plan, part.grid.box(chunk), found, arrays)


def _resolved(job: Job) -> Space:
    with _RESOLVING:  # or every thread of a worker would do it at the start
        return _resolve(job)


_RESOLVING = Lock()


@lru_cache(maxsize=4)
def _resolve(job: Job) -> Space:
    return resolve(parse_plan(job.plan), job.texts)

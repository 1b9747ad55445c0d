"""What a worker needs: a space in text, and the unit of work of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, Self

import numpy as np

from sweep.evaluation import Buffers, Variable, evaluate_box, variables, warm_up
from sweep.runs.record import texts_of
from sweep.runs.summaries import summarise
from sweep.space import Space, parse_plan, resolve
from sweep.store import ChunkWriter, StoreLayout, chunk_key

__all__ = ["Job", "SpaceSource", "Unit", "Work"]

Unit = tuple[str, int]
"""A kernel's name and the number of a chunk."""

Work = Callable[[Unit], tuple[Unit, dict[str, Any]]]
"""A function that computes one unit and returns it with its summary, such as a :class:`Job`."""


@dataclass(frozen=True)
class SpaceSource:
    """A space as the text of its plan and specs: small, picklable, resolved once per process."""

    plan: Mapping[str, Any]
    texts: Mapping[str, Mapping[str, str]]
    identity: str
    _space: list[Space] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, space: Space, record: Any) -> SpaceSource:
        """Return the source of a space from its record."""
        return cls(record["plan"], texts_of(record), str(record["identity"]), [space])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the space: the other process resolves its own."""
        return {**self.__dict__, "_space": []}

    def __hash__(self) -> int:
        return hash(self.identity)

    def space(self) -> Space:
        """Return the space."""
        if self._space:
            return self._space[0]
        with _RESOLVING:  # else every thread of a worker would resolve it at the start
            return _resolve(self)


_RESOLVING = Lock()


@lru_cache(maxsize=4)
def _resolve(source: SpaceSource) -> Space:
    return resolve(parse_plan(source.plan), source.texts)


@dataclass(frozen=True)
class Job:
    """Evaluates chunks of a space and writes them; picklable and small."""

    source: SpaceSource
    writer: ChunkWriter
    _spare: list[Buffers] = field(default_factory=list, compare=False, repr=False)
    _variables: dict[str, tuple[Variable, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, space: Space, layout: StoreLayout, writer: ChunkWriter, **more: Any) -> Self:
        """Return the job of a space whose store has this layout."""
        return cls(SpaceSource.of(space, layout.record), writer, **more)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the buffers: the other process makes its own."""
        return {**self.__dict__, "_spare": [], "_variables": {}}

    def space(self) -> Space:
        """Return the space, resolved once per process."""
        return self.source.space()

    def warm_up(self) -> None:
        """Compile the passes of the units in this process."""
        space = self.space()
        warm_up(space.kernels, space.plan)

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Evaluate and write one chunk; return its summary for the journal."""
        kernel, chunk = unit
        space = self.space()
        part = space[kernel]
        try:
            buffers = self._spare.pop()  # no other thread uses these meanwhile
        except IndexError:
            buffers = Buffers()
        found = self._variables_of(kernel)
        arrays = evaluate_box(part, space.plan, part.grid.box(chunk), found, buffers)
        summary = self.store(unit, arrays)
        self._spare.append(buffers)
        return unit, summary

    def _variables_of(self, kernel: str) -> tuple[Variable, ...]:
        if kernel not in self._variables:
            space = self.space()
            self._variables[kernel] = variables(space[kernel], space.plan)
        return self._variables[kernel]

    def store(
        self, unit: Unit, arrays: Mapping[str, Any], there: Collection[str] = ()
    ) -> dict[str, Any]:
        """Write a chunk's results, except for existing files.

        Parameters
        ----------
        unit : Unit
            The chunk.
        arrays : mapping
            All variables of the chunk.
        there : collection of str
            Keys of existing files, which are not written.

        Returns
        -------
        dict
            The chunk's summary.
        """
        kernel, chunk = unit
        space = self.space()
        grid = space[kernel].grid
        index = dict(zip(grid.names, grid.chunk_index(chunk), strict=True))
        found = self._variables_of(kernel)
        for variable in found:
            if any(i for name, i in index.items() if name not in variable.dims):
                continue  # only the first chunk along absent dimensions writes the variable
            values = arrays[variable.name]
            own = tuple(index[d] for d in variable.dims if d != "model")
            parts = {own: values}
            if "model" in variable.dims:
                parts = {(m, *own): value[np.newaxis] for m, value in enumerate(values)}
            for place, part in parts.items():
                if f"{kernel}/{variable.name}/{chunk_key(place)}" not in there:
                    self.writer.write(kernel, variable.name, place, part)
        return summarise(grid, space.plan, grid.box(chunk), found, arrays)

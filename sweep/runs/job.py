"""Units of work for threads or a cluster: chunks of a run, and shares of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from sweep.evaluation.chunk import Buffers, evaluate_box, warm_up
from sweep.evaluation.reducing import Accumulator, Task
from sweep.evaluation.variables import Variable, variables
from sweep.reduction import Reduction
from sweep.runs.record import space_of
from sweep.runs.summaries import summarise
from sweep.space import Space
from sweep.store.writer import ChunkWriter

Unit = tuple[str, int]
"""A kernel's name and the number of a chunk or share."""

Work = Callable[[Unit], tuple[Unit, dict[str, Any]]]
"""A function that computes one unit and returns it with its summary, such as a :class:`Job`."""

_RESOLVING = Lock()
_resolved: dict[str, Space] = {}


@dataclass(frozen=True, kw_only=True)
class _SpaceWork:
    """Work on a space: picklable and small, because another process resolves the space itself.

    ``record`` is the part of the space's record that this needs.
    """

    record: Mapping[str, Any]
    _local: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, space: Space, record: Mapping[str, Any], **more: Any) -> Self:
        """Return the work on a space from its record and further attributes."""
        needed = {name: record[name] for name in ("identity", "plan", "devices", "kernels")}
        return cls(record=needed, _local={"space": space}, **more)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the space and buffers, because another process creates its own."""
        return {**self.__dict__, "_local": {}}

    def space(self) -> Space:
        """Return the space, resolved once per process."""
        if "space" not in self._local:
            with _RESOLVING:  # else every thread of a worker would resolve it at the start
                key = str(self.record["identity"])
                if key not in _resolved:
                    _resolved.clear()  # a worker serves one run after the other
                    _resolved[key] = space_of(self.record)
                self._local["space"] = _resolved[key]
        return self._local["space"]


@dataclass(frozen=True, kw_only=True)
class Job(_SpaceWork):
    """Evaluates chunks of a space and writes them."""

    writer: ChunkWriter

    def warm_up(self) -> None:
        """Compile the passes of the units in this process."""
        space = self.space()
        warm_up(space.kernels, space.plan)

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Evaluate and write one chunk; return its summary for the journal."""
        space = self.space()
        part = space[unit[0]]
        spare: list[Buffers] = self._local.setdefault("buffers", [])
        try:
            buffers = spare.pop()  # no other thread uses these meanwhile
        except IndexError:
            buffers = Buffers()
        found = variables(part, space.plan)
        arrays = evaluate_box(part, space.plan, part.grid.box(unit[1]), found, buffers)
        summary = self.store(unit, found, arrays)
        spare.append(buffers)
        return unit, summary

    def store(
        self,
        unit: Unit,
        found: Sequence[Variable],
        arrays: Mapping[str, Any],
        write: Callable[[Unit, Variable, tuple[int, ...], Any], None] | None = None,
    ) -> dict[str, Any]:
        """Write a chunk's results.

        Parameters
        ----------
        unit : Unit
            The chunk.
        found : sequence of Variable
            The kernel's variables.
        arrays : mapping
            All variables of the chunk.
        write : callable, optional
            Used instead of :meth:`write`.

        Returns
        -------
        dict
            The chunk's summary.
        """
        kernel, chunk = unit
        write = write or self.write
        space = self.space()
        grid = space[kernel].grid
        index = dict(zip(grid.names, grid.chunk_index(chunk), strict=True))
        for variable in found:
            if any(i for name, i in index.items() if name not in variable.dims):
                continue  # only the first chunk along absent dimensions writes the variable
            values = arrays[variable.name]
            own = tuple(index[d] for d in variable.dims if d != "model")
            if "model" not in variable.dims:
                write(unit, variable, own, values)
                continue
            for model in range(len(values)):
                write(unit, variable, (model, *own), values[model : model + 1])
        return summarise(grid, space.plan, grid.box(chunk), found, arrays)

    def write(self, unit: Unit, variable: Variable, place: tuple[int, ...], values: Any) -> None:
        """Write one variable of a chunk, of one model, at a position in its grid of chunks."""
        self.writer.write(unit[0], variable.name, place, values)


@dataclass(frozen=True, kw_only=True)
class Share(_SpaceWork):
    """Reduces shares of a question's pieces; ``bounds`` are the first pieces of the shares."""

    reduction: Reduction
    bounds: Sequence[int]

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Reduce a share; return the kept results and the number of evaluations."""
        if "task" not in self._local:
            space = self.space()
            self._local["task"] = Task(space[self.reduction.kernel], space.plan, self.reduction)
        task: Task = self._local["task"]
        kept = Accumulator(task)
        share = task.pieces[self.bounds[unit[1]] : self.bounds[unit[1] + 1]]
        return unit, {"evaluations": sum(map(kept.add, share)), "kept": kept.kept()}

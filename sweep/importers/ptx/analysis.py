"""Analyse one kernel: the contents of its kernel file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweep.importers.ptx.calls import expand_calls
from sweep.importers.ptx.control_flow import Graph, control_flow
from sweep.importers.ptx.counts import count_blocks
from sweep.importers.ptx.instructions import Shape
from sweep.importers.ptx.module import Address, Function, PtxError, Variable
from sweep.importers.ptx.registers import Block, Values, live_registers
from sweep.importers.ptx.stages import STAGES, K, Stage, Table, Unknown, cut_into_stages
from sweep.importers.ptx.trips import find_trips

__all__ = ["Analysis", "analyse"]

MOST_REGISTERS = 255
MOST_NOTES = 40
MOST_JUMPS = 20


@dataclass(frozen=True)
class Analysis:
    """The properties of one kernel, derived from its text.

    Attributes
    ----------
    function : Function
        The kernel.
    graph : Graph
        Execution count of each basic block, and the loops with their trip counts.
    stages : list of Stage
        The code in order.
    how : str
        How it was divided into stages: ``tasks``, ``barriers`` or ``none``.
    registers : int
        Largest number of 32-bit registers live at once: an estimate of the registers per thread.
    shared_bytes : int
        Shared memory that the text declares and the kernel uses [bytes].
    has_dynamic_shared : bool
        Whether the launch can add more.
    block : tuple of int or None
        Width, height and depth of a block, from the user or required by the text.
    unknown : tuple of Unknown
        Opcodes that PTX ISA 9.0 does not have.
    notes : tuple of str
        Further remarks, a sentence each.
    """

    function: Function
    graph: Graph
    stages: list[Stage] = field(repr=False)
    how: str
    registers: int
    shared_bytes: int
    has_dynamic_shared: bool
    block: Block | None
    unknown: tuple[Unknown, ...]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, float]:
        """Unknown trip counts by name, each with its default of one iteration."""
        return {loop.size: 1.0 for loop in self.graph.loops if loop.trips is None}

    def instructions(self, sizes: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return dynamic instructions per thread by class, including ``barrier``.

        Unknown trip counts are 1 unless ``sizes`` sets them.
        """
        return self._totals([stage.instructions for stage in self.stages], sizes)

    def accesses(self, sizes: Mapping[str, float] | None = None) -> dict[Shape, float]:
        """Return dynamic memory accesses per thread by shape, with the same ``sizes``."""
        return self._totals([stage.accesses for stage in self.stages], sizes)

    def _totals(
        self, tables: Sequence[Table[K]], sizes: Mapping[str, float] | None
    ) -> dict[K, float]:
        known = self.sizes | dict(sizes or {})
        result: dict[K, float] = {}
        for table in tables:
            for (key, passage), number in table.items():
                result[key] = result.get(key, 0.0) + number * self.graph.value(passage, known)
        return result


def analyse(
    function: Function,
    *,
    trips: Mapping[str, float] | None = None,
    branches: Mapping[str, float] | None = None,
    block: Block | None = None,
    stages: str = "tasks",
) -> Analysis:
    """Return the analysis of a kernel's execution by one thread.

    Parameters
    ----------
    function : Function
        A kernel.
    trips : mapping of str to float, optional
        Iterations per entry of a loop, by the label of its header, with or without ``$``.
    branches : mapping of str to float, optional
        The share of conditional branches to a label that are taken, by label. Without it, both
        sides are counted in full.
    block : tuple of int, optional
        Width, height and depth of a block, if known.
    stages : str
        How to divide the code: ``tasks`` (calculate periods), ``barriers`` or ``none``.

    Raises
    ------
    PtxError
        A value is out of range, a label is unknown, or loops are nested too deeply.
    """
    _check(trips or {}, branches or {}, block)
    if stages not in STAGES:
        raise PtxError(f"stages '{stages}': one of {', '.join(STAGES)}")
    outside = function.module.variables if function.module is not None else ()
    required = function.limits.get("reqntid")
    if block is None and required:
        x, y, z = (*required, 1, 1, 1)[:3]
        block = (x, y, z)
    expanded, not_followed = expand_calls(function)
    graph = control_flow(expanded)
    values = Values(expanded, outside, block)
    find_trips(graph, values)
    count_blocks(graph, trips or {}, branches or {})
    parts, how, unknown, remarks = cut_into_stages(graph, values, block, stages)
    shared_bytes, has_dynamic_shared = _shared_memory(expanded, outside)
    notes = [*_notes(graph, stages, how), *remarks, *not_followed]
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"{len(notes) - MOST_NOTES} more notes of this kind"]
    live = live_registers(graph)
    return Analysis(
        function=function,
        graph=graph,
        stages=parts,
        how=how,
        registers=max(1, min(live, MOST_REGISTERS, *function.limits.get("maxnreg", ()))),
        shared_bytes=shared_bytes,
        has_dynamic_shared=has_dynamic_shared,
        block=block,
        unknown=unknown,
        notes=tuple(notes),
    )


def _check(trips: Mapping[str, float], branches: Mapping[str, float], block: Block | None) -> None:
    for label, trip in trips.items():
        if not 0 <= trip <= 2**53:
            raise PtxError(f"trip count {label} = {trip:g}: outside the range 0 to 2**53")
    for label, share in branches.items():
        if not 0 <= share <= 1:
            raise PtxError(f"share of branch {label} = {share:g}: outside the range 0 to 1")
    if block is not None and not all(1 <= side <= 1024 for side in block):
        raise PtxError(f"a block of {' x '.join(map(str, block))}: sides are 1 to 1024 threads")
    if block is not None and math.prod(block) > 1024:
        raise PtxError(f"a block of {math.prod(block)} threads: 1024 at most")


def _shared_memory(function: Function, outside: tuple[Variable, ...]) -> tuple[int, bool]:
    """Return the bytes of a function's shared variables, and whether the launch can add more.

    Variables outside functions count if the function uses them.
    """
    operands = (o for instruction in function.instructions() for o in instruction.operands)
    named = {o.base if isinstance(o, Address) else o for o in operands}
    used = [variable for variable in outside if variable.name in named]
    shared = [variable for variable in (*used, *function.variables) if variable.space == "shared"]
    total = 0
    for variable in shared:
        if variable.bytes is not None:
            total = -(-total // variable.alignment) * variable.alignment + variable.bytes
    return total, any(variable.bytes is None for variable in shared)


def _notes(graph: Graph, wanted: str, how: str) -> list[str]:
    notes = []
    dead = sum(len(b.instructions) for b in graph.blocks if graph.rank[b.number] < 0)
    if dead:
        notes.append(f"{dead} instructions are never reached and not counted")
    for before, after in graph.irreducible[:MOST_JUMPS]:
        label = next((label.name for label in graph.blocks[after].labels), "a block")
        last = graph.blocks[before].instructions[-1:]
        line = f" in line {last[0].line}" if last else ""
        notes.append(f"the jump to {label}{line} repeats code with several entries: counted once")
    if how != wanted:
        notes.append(f"too many stages: the code is cut by '{how}', not by '{wanted}'")
    return notes

"""All that a kernel file needs to know of one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweep.importers.ptx.accesses import Block, Shape
from sweep.importers.ptx.addresses import values_of
from sweep.importers.ptx.calls import expand_calls
from sweep.importers.ptx.control_flow import Graph, control_flow
from sweep.importers.ptx.counts import Amount, Counts, count_blocks
from sweep.importers.ptx.liveness import live_registers
from sweep.importers.ptx.module import Address, Function, Module, PtxError, Variable
from sweep.importers.ptx.tasks import STAGES, Stage, Unknown, cut_into_stages
from sweep.importers.ptx.trips import Definitions, loop_test

__all__ = ["Analysis", "analyse"]

MOST_REGISTERS = 255
MOST_NOTES = 40


@dataclass(frozen=True)
class Analysis:
    """What the text of one kernel tells.

    Attributes
    ----------
    name : str
        The kernel, as written.
    version, target : str
        PTX ISA version and target of the text.
    counts : Counts
        How often each block is passed, with the loops and their trip counts.
    stages : list of Stage
        The code in order.
    how : str
        How it was cut: ``tasks``, ``barriers`` or ``none``.
    registers : int
        Most 32-bit registers that are live at once: an estimate of what a thread needs.
    shared_bytes : int
        Shared memory that the text declares and the kernel uses.
    has_dynamic_shared : bool
        Whether the launch adds more.
    block : tuple of int or None
        Width, height and depth of a block: given, or required by the text.
    max_threads : int or None
        Most threads of a block by ``.maxntid``.
    unknown : tuple of Unknown
        Opcodes that PTX ISA 9.0 does not have.
    notes : tuple of str
        What else a reader should know, a sentence each.
    """

    name: str
    version: str
    target: str
    counts: Counts
    stages: list[Stage] = field(repr=False)
    how: str
    registers: int
    shared_bytes: int
    has_dynamic_shared: bool
    block: Block | None
    max_threads: int | None
    unknown: tuple[Unknown, ...]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, float]:
        """Open trip counts by name, each with its default of one iteration."""
        return {loop.size: 1.0 for loop in self.counts.loops if loop.trips is None}

    def number(self, amount: Amount, sizes: Mapping[str, float] | None = None) -> float:
        """Return an amount as a number; open trip counts are 1 unless given."""
        known = self.sizes | dict(sizes or {})
        return sum(n * self.counts.value(passage, known) for passage, n in amount.items())

    def instructions(self, sizes: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return dynamic instructions of a thread by class, ``barrier`` among them."""
        result: dict[str, float] = {}
        for stage in self.stages:
            for kind, amount in stage.instructions.items():
                result[kind] = result.get(kind, 0.0) + self.number(amount, sizes)
        return result

    def accesses(self, sizes: Mapping[str, float] | None = None) -> dict[Shape, float]:
        """Return dynamic accesses of a thread to memory by shape."""
        result: dict[Shape, float] = {}
        for stage in self.stages:
            for shape, amount in stage.accesses.items():
                result[shape] = result.get(shape, 0.0) + self.number(amount, sizes)
        return result

    def memory_instructions(self, sizes: Mapping[str, float] | None = None) -> float:
        """Return dynamic accesses of a thread to global memory."""
        return sum(n for s, n in self.accesses(sizes).items() if s.space == "global")

    def computation_instructions(self, sizes: Mapping[str, float] | None = None) -> float:
        """Return all others: shared accesses, barriers and branches count as computation."""
        shared = sum(n for s, n in self.accesses(sizes).items() if s.space == "shared")
        return shared + sum(self.instructions(sizes).values())


def analyse(
    function: Function,
    *,
    trips: Mapping[str, float] | None = None,
    branches: Mapping[str, float] | None = None,
    block: Block | None = None,
    stages: str = "tasks",
) -> Analysis:
    """Return what the text of a kernel tells about its execution by one thread.

    Parameters
    ----------
    function : Function
        A kernel.
    trips : mapping of str to float, optional
        Trip counts of loops by the label of their header, with or without its ``$``: iterations
        for every time that the loop is entered.
    branches : mapping of str to float, optional
        By label, the share of the conditional branches to it that are taken. Where none is given
        both sides count in full.
    block : tuple of int, optional
        Width, height and depth of a block, where they are known.
    stages : str
        How the code is cut: ``tasks`` (calculate periods), ``barriers`` or ``none``.

    Raises
    ------
    PtxError
        For values out of range, labels that are not there, or loops nested too deeply.
    """
    module = function.module or Module("", "", {}, ())
    _check(trips or {}, branches or {}, block)
    if stages not in STAGES:
        raise PtxError(f"stages '{stages}': one of {', '.join(STAGES)}")
    required = function.limits.get("reqntid")
    if block is None and required:
        x, y, z = (*required, 1, 1, 1)[:3]
        block = (x, y, z)
    expanded, notes = expand_calls(function)
    graph = control_flow(expanded)
    values = values_of(expanded, module.variables, block)
    definitions = Definitions(graph, expanded.registers, values)
    tests = [loop_test(loop, definitions) for loop in graph.loops]
    counts = count_blocks(graph, tests, trips or {}, branches or {})
    cut = cut_into_stages(counts, values, block, stages)
    fixed, is_dynamic = _shared_memory(expanded, module.variables)
    most = function.limits.get("maxntid")
    return Analysis(
        name=function.name,
        version=module.version,
        target=module.target,
        counts=counts,
        stages=cut.stages,
        how=cut.how,
        registers=_registers(graph, expanded),
        shared_bytes=fixed,
        has_dynamic_shared=is_dynamic,
        block=block,
        max_threads=math.prod(most) if most else None,
        unknown=cut.unknown,
        notes=_limited([*_notes(graph, stages, cut.how), *cut.remarks, *notes]),
    )


def _limited(notes: list[str]) -> tuple[str, ...]:
    """Return the first notes and how many there are beyond them."""
    rest = len(notes) - MOST_NOTES
    return (*notes[:MOST_NOTES], *([f"{rest} more notes of this kind"] if rest > 0 else ()))


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


def _registers(graph: Graph, function: Function) -> int:
    """Return the estimate, within what the machine and the text allow."""
    most = min(MOST_REGISTERS, *function.limits.get("maxnreg", ()) or (MOST_REGISTERS,))
    return max(1, min(live_registers(graph, function.registers), most))


def _shared_memory(function: Function, outside: tuple[Variable, ...]) -> tuple[int, bool]:
    """Return the bytes of the shared variables of a function, and whether the launch adds some.

    Variables outside functions count where the function names them.
    """
    named: set[str] = set()
    for instruction in function.instructions():
        for operand in instruction.operands:
            if isinstance(operand, Address):
                named.add(operand.base)
            elif isinstance(operand, str):
                named.add(operand)
    own = [v for v in function.variables if v.space == "shared"]
    used = [v for v in outside if v.space == "shared" and v.name in named]
    total, is_dynamic = 0, False
    for variable in (*used, *own):
        if variable.bytes is None:
            is_dynamic = True
        else:
            total = -(-total // variable.alignment) * variable.alignment + variable.bytes
    return total, is_dynamic


def _notes(graph: Graph, wanted: str, how: str) -> list[str]:
    notes = []
    reached = set(graph.order)
    dead = sum(len(b.instructions) for b in graph.blocks if b.number not in reached)
    if dead:
        notes.append(f"{dead} instructions are never reached and not counted")
    for before, after in graph.irreducible:
        label = next((item.name for item in graph.blocks[after].labels), "a block")
        last = graph.blocks[before].instructions[-1:]
        line = f" in line {last[0].line}" if last else ""
        notes.append(f"the jump to {label}{line} repeats code with several entries: counted once")
        if len(notes) > 20:
            break
    if how != wanted:
        notes.append(f"too many stages: the code is cut by '{how}', not by '{wanted}'")
    return notes

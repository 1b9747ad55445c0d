"""Analyse one kernel: the contents of its kernel file, and its costs on a device.

Costs come from Luo & Suda's parameters in the device file (``[model.luo_suda]``):
``instruction_cost`` by opcode, kind of number and whether an operand is a constant
(``add.int_reg``), ``class_cost`` for instructions without a row, and ``t_mem_cycles`` for an access
to global memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sweep.errors import SweepError
from sweep.importers.ptx.calls import expand_calls
from sweep.importers.ptx.control_flow import Graph, control_flow
from sweep.importers.ptx.counts import Counts, count_blocks
from sweep.importers.ptx.instructions import Shape
from sweep.importers.ptx.module import Address, Function, Module, PtxError, Variable
from sweep.importers.ptx.registers import Block, Values, live_registers
from sweep.importers.ptx.stages import STAGES, Stage, Table, Unknown, cut_into_stages
from sweep.importers.ptx.trips import Definitions, loop_test
from sweep.specs import Device

__all__ = [
    "Analysis",
    "InstructionCosts",
    "Task",
    "analyse",
    "computation_proportion",
    "instruction_costs",
    "tasks_of",
]

MOST_REGISTERS = 255
MOST_NOTES = 40
K = TypeVar("K")


@dataclass(frozen=True)
class Analysis:
    """The properties of one kernel, derived from its text.

    Attributes
    ----------
    name : str
        The kernel's name as written.
    version, target : str
        PTX ISA version and target of the text.
    counts : Counts
        Execution count of each basic block, with the loops and their trip counts.
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
    max_threads : int or None
        Largest number of threads per block, from ``.maxntid``.
    unknown : tuple of Unknown
        Opcodes that PTX ISA 9.0 does not have.
    notes : tuple of str
        Further remarks, a sentence each.
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
        """Unknown trip counts by name, each with its default of one iteration."""
        return {loop.size: 1.0 for loop in self.counts.loops if loop.trips is None}

    def instructions(self, sizes: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return dynamic instructions per thread by class, including ``barrier``.

        Unknown trip counts are 1 unless ``sizes`` sets them; this applies to all methods.
        """
        return self._sums(sizes, [stage.instructions for stage in self.stages])

    def accesses(self, sizes: Mapping[str, float] | None = None) -> dict[Shape, float]:
        """Return dynamic memory accesses per thread by shape."""
        return self._sums(sizes, [stage.accesses for stage in self.stages])

    def _sums(
        self, sizes: Mapping[str, float] | None, tables: Sequence[Table[K]]
    ) -> dict[K, float]:
        known = self.sizes | dict(sizes or {})
        result: dict[K, float] = {}
        for table in tables:
            for key, amount in table.items():
                result[key] = result.get(key, 0.0) + self.counts.total(amount, known)
        return result

    def memory_instructions(self, sizes: Mapping[str, float] | None = None) -> float:
        """Return dynamic accesses per thread to global memory."""
        return sum(n for s, n in self.accesses(sizes).items() if s.space == "global")

    def computation_instructions(self, sizes: Mapping[str, float] | None = None) -> float:
        """Return all other instructions, including shared accesses, barriers and branches."""
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
    module = function.module or Module("", "", {}, ())
    _check(trips or {}, branches or {}, block)
    if stages not in STAGES:
        raise PtxError(f"stages '{stages}': one of {', '.join(STAGES)}")
    required = function.limits.get("reqntid")
    if block is None and required:
        x, y, z = (*required, 1, 1, 1)[:3]
        block = (x, y, z)
    expanded, not_followed = expand_calls(function)
    graph = control_flow(expanded)
    values = Values(expanded, module.variables, block)
    definitions = Definitions(graph, expanded.registers, values)
    tests = [loop_test(loop, definitions) for loop in graph.loops]
    counts = count_blocks(graph, tests, trips or {}, branches or {})
    cut = cut_into_stages(counts, values, block, stages)
    fixed, is_dynamic = _shared_memory(expanded, module.variables)
    notes = [*_notes(graph, stages, cut.how), *cut.remarks, *not_followed]
    rest = len(notes) - MOST_NOTES
    more = (f"{rest} more notes of this kind",) if rest > 0 else ()
    live = live_registers(graph, expanded.registers)
    most = function.limits.get("maxntid")
    return Analysis(
        name=function.name,
        version=module.version,
        target=module.target,
        counts=counts,
        stages=cut.stages,
        how=cut.how,
        registers=max(1, min(live, MOST_REGISTERS, *function.limits.get("maxnreg", ()))),
        shared_bytes=fixed,
        has_dynamic_shared=is_dynamic,
        block=block,
        max_threads=math.prod(most) if most else None,
        unknown=cut.unknown,
        notes=tuple(notes[:MOST_NOTES]) + more,
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


@dataclass(frozen=True)
class InstructionCosts:
    """The instruction table of one device.

    Attributes
    ----------
    device : str
        The device's key.
    rows : mapping of str to float
        Cycles by ``OPCODE.KIND_OPERAND`` (``mul.float_const``).
    classes : mapping of str to float
        Cycles by class of instruction, for opcodes without a row.
    memory : float
        Cycles of an access to global memory.
    """

    device: str
    rows: Mapping[str, float]
    classes: Mapping[str, float]
    memory: float

    def cost_of(
        self,
        opcode: str,
        *,
        kind: str = "computation",
        is_float: bool = False,
        has_constant: bool = False,
    ) -> float:
        """Return the cost of one instruction [cycle]; see :class:`CostKey`.

        Raises
        ------
        SweepError
            The table has neither a row for the opcode nor a cost for its class.
        """
        if kind == "global":
            return self.memory
        row = f"{opcode}.{'float' if is_float else 'int'}_{'const' if has_constant else 'reg'}"
        if kind not in ("shared", "barrier") and row in self.rows:
            return self.rows[row]
        for name in (kind, "computation"):
            if name in self.classes:
                return self.classes[name]
        raise SweepError(
            f"device {self.device}: [model.luo_suda] instruction_cost has no row {row}, and"
            f" class_cost none for {kind}"
        )


@dataclass(frozen=True)
class Task:
    """A computation task and the memory task after it, with their costs in one execution.

    Attributes
    ----------
    computation, memory : float
        Costs [cycle].
    executions : float
        How often a thread executes it.
    """

    computation: float
    memory: float
    executions: float


def instruction_costs(device: Device) -> InstructionCosts:
    """Return the instruction table of a device.

    Parameters
    ----------
    device : Device
        A device with the parameters of ``luo_suda``.

    Raises
    ------
    SweepError
        The device file has no such table.
    """
    table = device.model_parameters.get("luo_suda", {})
    memory = table.get("t_mem_cycles")
    classes = _rows(table.get("class_cost"))
    rows = _rows(table.get("instruction_cost"))
    if not isinstance(memory, float) or not (classes or rows):
        raise SweepError(
            f"device {device.key} has no table of instruction costs: its file needs t_mem_cycles"
            " and instruction_cost or class_cost in [model.luo_suda]"
        )
    return InstructionCosts(device.key, rows, classes, memory)


def _rows(table: object) -> dict[str, float]:
    """Return a table of names and cycles as a mapping."""
    rows = table if isinstance(table, tuple) else ()
    pairs = (row for row in rows if isinstance(row, tuple) and len(row) == 2)
    return {name: cycles for name, cycles in pairs if isinstance(cycles, float)}


def tasks_of(
    counts: Counts, stage: Stage, costs: InstructionCosts, sizes: Mapping[str, float]
) -> Task:
    """Return the tasks in one stage with their costs.

    Parameters
    ----------
    counts : Counts
        Execution count of each basic block.
    stage : Stage
        The stage.
    costs : InstructionCosts
        The device's table.
    sizes : mapping of str to float
        Values of the unknown trip counts.
    """
    computation = memory = 0.0
    for key, amount in stage.costs.items():
        cost = counts.total(amount, sizes) * costs.cost_of(**key._asdict())
        if key.kind == "global":
            memory += cost
        else:
            computation += cost
    executions = stage.share * counts.value(stage.passage, sizes)
    often = executions or 1.0
    return Task(computation / often, memory / often, executions)


def computation_proportion(tasks: Sequence[Task]) -> float:
    """Return P, the cost of computation over the cost of all instructions; NaN if that is 0.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks of a kernel.
    """
    computation = sum(task.computation * task.executions for task in tasks)
    memory = sum(task.memory * task.executions for task in tasks)
    return computation / (computation + memory) if computation + memory else float("nan")

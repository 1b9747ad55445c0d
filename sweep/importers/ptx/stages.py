"""Divide code into stages: calculate periods of Luo & Suda, or the code between barriers.

A calculate period is a computation task (instructions other than global accesses) and the memory
task that follows it (Luo & Suda 2011, Section 3.2). Stages also end where a loop begins or ends.
The rest of a loop's body after its last memory task belongs to the first period of the next
iteration, the code after a kernel's last memory task to the last period.

Costs of tasks come from a model's table that states them, that of the device file or derived
(:func:`sweep.models.stated_facts`): by opcode, kind of number and whether an operand is a constant
(``add.int_reg``), by class for instructions without a row, and for an access to global memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple, TypeVar

from sweep.errors import SweepError
from sweep.importers.ptx.accesses import Accesses, Shape, Shapes
from sweep.importers.ptx.control_flow import Amount, Block, Graph, Loop, Passage, executed, nest
from sweep.importers.ptx.copies import Pipeline, Waits, copying_loops, executions_of, product_of
from sweep.importers.ptx.instructions import UNSIZED_PRODUCT, Meaning, Product, meaning_of
from sweep.importers.ptx.module import Instruction
from sweep.importers.ptx.registers import Sides, Values
from sweep.models import stated_facts
from sweep.specs import Device

STAGES = ("tasks", "barriers", "loops", "none")
"""How code is divided: into calculate periods, at barriers, where loops begin and end, not at all.

A loop with asynchronous copies is always one stage, because they go on beside its work.
"""

MAX_STAGES = 100
"""Code that would have more stages is divided less finely."""


class Cost(NamedTuple):
    """The properties of an instruction that determine its cost in an instruction table.

    ``kind`` is its class, ``shared``, ``barrier`` or ``global``; opcodes without their own row have
    the cost of their class.
    """

    opcode: str
    kind: str = "computation"
    is_float: bool = False
    has_constant: bool = False


@dataclass
class Unknown:
    """An opcode that PTX ISA 9.0 does not have: its class, its first line, its occurrences.

    ``has_clue`` says whether types or state space determine the class.
    """

    name: str
    kind: str
    line: int
    has_clue: bool
    count: int = 0

    def remark(self) -> str:
        """Return one line about what is unknown and how it is counted."""
        doubt = "" if self.has_clue else ", though nothing tells its class"
        where = f"line {self.line}, {self.count} in the text"
        return f"Unknown instruction {self.name} ({where}) is counted as {self.kind}{doubt}"


Key = str | Shape | Product | Cost
"""What is counted: instructions by class, and ``barrier``; accesses by shape, in words; products of
matrices by size; all instructions by their cost."""

K = TypeVar("K", bound=Key)


def added(amounts: Iterable[tuple[K, Amount]]) -> dict[K, Amount]:
    """Return the sums of amounts by their keys."""
    result: dict[K, Amount] = defaultdict(lambda: defaultdict(float))
    for key, amount in amounts:
        for passage, number in amount.items():
            result[key][passage] += number
    return result


@dataclass
class Stage:
    """A part of the code with its instructions and accesses.

    Attributes
    ----------
    loop : Loop or None
        The innermost loop that contains it.
    passage : Passage
        The passage of its first instruction.
    counts : dict of Key to Amount
        Its instructions and accesses.
    lines : dict of Shape to list of int
        The lines of the accesses.
    share : float
        The largest share among its instructions.
    has_memory : bool
        Whether it has an access to global memory.
    pipeline : Pipeline or None
        The asynchronous copies beside the work of a loop.
    """

    loop: Loop | None
    passage: Passage
    counts: dict[Key, Amount] = field(default_factory=lambda: added(()))
    lines: dict[Shape, list[int]] = field(default_factory=lambda: defaultdict(list))
    share: float = 0.0
    has_memory: bool = False
    pipeline: Pipeline | None = None

    def of(self, kind: type[K]) -> dict[K, Amount]:
        """Return the counts of one kind: of classes (``str``), shapes, products or costs."""
        return {key: amount for key, amount in self.counts.items() if isinstance(key, kind)}

    def absorb(self, other: Stage) -> None:
        """Add the contents of another stage, which has no access to global memory."""
        self.counts = added([*self.counts.items(), *other.counts.items()])
        for shape, lines in other.lines.items():
            self.lines[shape] += lines
        self.share = max(self.share, other.share)


def counted(stages: Iterable[Stage], kind: type[K]) -> dict[K, Amount]:
    """Return the counts of one kind (see `Stage.of`) in all stages."""
    return added(pair for stage in stages for pair in stage.of(kind).items())


class _Cutter:
    def __init__(self, graph: Graph, values: Values, sides: Sides | None, how: str) -> None:
        self.values = values
        loops = copying_loops(graph, values, sides)
        self.loops = {} if how == "none" else loops
        self.executions = executions_of(graph, loops)
        self.graph = graph
        self.sides = sides
        self.how = how
        self.stages: list[Stage] = []
        self.waits = Waits()
        self.unknown: dict[str, Unknown] = {}
        self.remarks: dict[str, str] = {}
        self._known: dict[Loop, bool] = {}

    def add(self, instruction: Instruction, block: Block, shapes: Shapes) -> None:
        """Add an instruction of a block, with its accesses."""
        meaning = meaning_of(instruction)
        kind = meaning.kind
        if meaning.direction:
            kind = shapes[0].space if shapes else "move"
        elif shapes:  # a tile
            meaning, kind = replace(meaning, remark=""), shapes[0].space
        stage = self._stage(block, is_memory=kind == "global")
        stage.share = max(stage.share, block.share)
        stage.has_memory |= kind == "global"
        if stage.pipeline is None:
            self.waits.add(instruction, block, kind, shapes)
        for shape in shapes:
            stage.lines[shape].append(instruction.line)
        is_float = any(m[:1] == "f" and m[1:].isdigit() for m in instruction.modifiers)
        has_constant = any(
            isinstance(operand, str) and (operand[:1].isdigit() or operand[:1] == "-")
            for operand in instruction.operands[1:]
        )
        cost = Cost(instruction.opcode, kind, is_float, has_constant)
        product = meaning.product
        if meaning.remark == UNSIZED_PRODUCT:
            product = product_of(instruction, self.values, self.sides)
            meaning = replace(meaning, remark="") if product else meaning
        self._note(instruction, meaning, kind)
        own = {} if shapes else self.graph.machine.get(id(instruction), {kind: 1.0})
        once = *shapes, *([product] if product else ()), cost
        for key, times in (*own.items(), *((key, 1.0) for key in once)):
            for passage, share in self._shares(key, block):
                stage.counts[key][passage] += times * share
        if product and product.passes:  # which nobody waits for, so they are stores
            read = Shape("shared", "store", 4, product.passes, "measured", origin="product",
                         transactions=1.0)  # fmt: skip
            stage.counts[read][block.passage] += block.share * read.words
            stage.lines[read].append(instruction.line)

    def _shares(self, key: Key, block: Block) -> Iterator[tuple[Passage, float]]:
        """Yield how often something is executed: by passage, the share of its executions."""
        words = key.words if isinstance(key, Shape) else 1
        is_copy = isinstance(key, Shape) and key.is_copy
        amount = self.executions(block) if is_copy else {block.passage: block.share}
        for passage, share in amount.items():
            yield passage, share * words

    def _stage(self, block: Block, *, is_memory: bool) -> Stage:
        """Return the stage of the next instruction of a block."""
        loop = self._loop(block)
        pipeline = self.loops.get(loop) if loop else None
        last = self.stages[-1] if self.stages else None
        is_over = (
            last is not None
            and pipeline is None
            and (
                (self.how == "tasks" and last.has_memory and not is_memory)
                or (self.how == "barriers" and "barrier" in last.counts)
            )
        )
        if last is None or last.loop != loop or is_over:
            last = Stage(loop, block.passage, pipeline=pipeline)
            self.stages.append(last)
        return last

    def _loop(self, block: Block) -> Loop | None:
        """Return the loop whose stage a block belongs to."""
        around = list(nest(block.loop))
        if copying := [loop for loop in around if loop in self.loops]:
            return copying[0]
        if self.how == "loops":
            return next((loop for loop in reversed(around) if self._matters(loop)), None)
        return None if self.how == "none" else block.loop

    def _matters(self, loop: Loop) -> bool:
        """Return whether a loop is more than a few instructions: it accesses memory, or is open."""
        if loop not in self._known:
            found = map(meaning_of, self.graph.code(loop))
            self._known[loop] = loop.trips is None or any(m.direction or m.tile for m in found)
        return self._known[loop]

    def _note(self, instruction: Instruction, meaning: Meaning, kind: str) -> None:
        """Record that an instruction is unknown or not fully counted."""
        name, line = instruction.name, instruction.line
        if meaning.remark:
            self.remarks.setdefault(name, f"{name} in line {line} {meaning.remark}")
        if not meaning.is_known:
            first = Unknown(name, kind, line, meaning.has_clue)
            self.unknown.setdefault(name, first).count += 1


def cut_into_stages(
    graph: Graph, values: Values, sides: Sides | None, how: str, accesses: Accesses
) -> tuple[list[Stage], Waits, str, tuple[Unknown, ...], tuple[str, ...]]:
    """Return the code as a sequence of stages, and the unknown instructions.

    Parameters
    ----------
    graph : Graph
        The control-flow graph with the execution count of each block.
    values : Values
        The values of the registers.
    sides : tuple of int or None
        Width, height and depth of a block, if known.
    how : str
        One of `STAGES`.
    accesses : mapping of Block to sequence of tuple of Shape
        The accesses of each instruction of the blocks that are executed.

    Returns
    -------
    stages : list of Stage
        The stages in the order of the control flow; a single one for ``none``.
    waits : Waits
        Loads that are under way together, but in loops with asynchronous copies.
    how : str
        How the code was divided.
    unknown : tuple of Unknown
        The opcodes that PTX does not have.
    remarks : tuple of str
        The limits of the counts.
    """
    for attempt in STAGES[STAGES.index(how) :]:
        cutter = _Cutter(graph, values, sides, attempt)
        for block, found in accesses.items():
            if attempt != "none" and len(cutter.stages) > 2 * MAX_STAGES:
                break  # merging periods would leave more than half of them
            for instruction, shapes in zip(block.instructions, found, strict=True):
                cutter.add(instruction, block, shapes)
        stages = _close_periods(cutter.stages) if attempt == "tasks" else cutter.stages
        if len(stages) <= MAX_STAGES:
            break
    stages = stages or [Stage(None, (None, False))]
    unknown, remarks = tuple(cutter.unknown.values()), tuple(cutter.remarks.values())
    return stages, cutter.waits, attempt, unknown, remarks


def _close_periods(stages: list[Stage]) -> list[Stage]:
    """Add computation after the last memory task of a loop body to the period it belongs to."""
    sizes = Counter(stage.loop for stage in stages)
    result: list[Stage] = []
    for loop, group in groupby(stages, key=lambda stage: stage.loop):
        run = list(group)
        if len(run) > 1 and not run[-1].has_memory:
            is_whole = loop is not None and sizes[loop] == len(run)
            # Without inner loops, the end of a loop's body precedes the next iteration.
            (run[0] if is_whole else run[-2]).absorb(run.pop())
        result += run
    return result


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

    def cost_of(self, key: Cost) -> float:
        """Return the cost of one instruction [cycle].

        Raises
        ------
        SweepError
            The table has neither a row for the opcode nor a cost for its class.
        """
        if key.kind == "global":
            return self.memory
        kind, operand = "float" if key.is_float else "int", "const" if key.has_constant else "reg"
        row = f"{key.opcode}.{kind}_{operand}"
        if key.kind not in ("shared", "barrier") and row in self.rows:
            return self.rows[row]
        for name in (key.kind, "computation"):
            if name in self.classes:
                return self.classes[name]
        raise SweepError(
            f"device {self.device}: the table of instruction costs has no row {row}, and"
            f" that of classes none for {key.kind}"
        )

    def of_stage(self, stage: Stage) -> tuple[float, float]:
        """Return the costs of a stage's computation and memory task in all executions [cycle].

        Unknown trip counts are 1.
        """
        costs = {True: 0.0, False: 0.0}
        for key, amount in stage.of(Cost).items():
            costs[key.kind == "global"] += executed(amount, {}) * self.cost_of(key)
        return costs[False], costs[True]


def instruction_costs(device: Device) -> InstructionCosts:
    """Return the instruction table of a device.

    Parameters
    ----------
    device : Device
        A device with a model's table that states instruction costs; one that is derived will do.

    Raises
    ------
    SweepError
        The device has no such table.
    """
    facts = stated_facts(device.model_parameters)
    memory = facts.get("memory_cost")
    rows, classes = (_rows(facts.get(name)) for name in ("opcode_costs", "class_costs"))
    if memory is None or not (classes or rows):
        raise SweepError(
            f"device {device.key} has no table of instruction costs: its file needs"
            " dram_latency_cycles and fp32_latency_cycles in [microbenchmark], from which costs are"
            " derived, or the costs themselves as [model.luo_suda] has them"
        )
    return InstructionCosts(device.key, rows, classes, memory)


def _rows(table: object) -> dict[str, float]:
    """Return a table of names and cycles as a mapping."""
    rows = table if isinstance(table, tuple) else ()
    pairs = (row for row in rows if isinstance(row, tuple) and len(row) == 2)
    return {name: cycles for name, cycles in pairs if isinstance(cycles, float)}

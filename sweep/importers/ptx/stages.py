"""Divide code into stages: calculate periods of Luo & Suda, or the code between barriers.

A calculate period is a computation task (instructions other than global accesses) and the memory
task that follows it (Luo & Suda 2011, Section 3.2). Stages also end where a loop begins or ends.
The rest of a loop's body after its last memory task belongs to the first period of the next
iteration, the code after a kernel's last memory task to the last period.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from sweep.importers.ptx.counts import Amount, Counts, Passage
from sweep.importers.ptx.instructions import Meaning, Shape, meaning_of, shapes_of
from sweep.importers.ptx.module import Instruction
from sweep.importers.ptx.registers import Block, Values

__all__ = ["MAX_STAGES", "STAGES", "Cut", "Stage", "Table", "Unknown", "cut_into_stages"]

STAGES = ("tasks", "barriers", "none")
"""How code is divided: into calculate periods, at barriers, not at all."""

MAX_STAGES = 100
"""Code that would have more stages is divided less finely."""


class CostKey(NamedTuple):
    """The properties of an instruction that determine its cost in an instruction table.

    ``kind`` is its class, ``shared``, ``barrier`` or ``global``; opcodes without their own row have
    the cost of their class.
    """

    opcode: str
    is_float: bool
    has_constant: bool
    kind: str


@dataclass(frozen=True)
class Unknown:
    """An opcode that PTX ISA 9.0 does not have: its class, its occurrences, its first line.

    ``has_clue`` says whether types or state space determine the class.
    """

    name: str
    kind: str
    count: int
    line: int
    has_clue: bool

    def remark(self) -> str:
        """Return one line about what is unknown and how it is counted."""
        doubt = "" if self.has_clue else ", though nothing tells its class"
        where = f"line {self.line}, {self.count} in the text"
        return f"Unknown instruction {self.name} ({where}) is counted as {self.kind}{doubt}"


K = TypeVar("K")


class Table(defaultdict[K, Amount]):
    """Amounts by key."""

    def __init__(self) -> None:
        super().__init__(dict)

    def add(self, key: K, passage: Passage, number: float) -> None:
        """Add a number of instructions in one passage."""
        self[key][passage] = self[key].get(passage, 0.0) + number

    def absorb(self, other: Table[K]) -> None:
        """Add all entries of another table."""
        for key, amount in other.items():
            for passage, number in amount.items():
                self.add(key, passage, number)


@dataclass
class Stage:
    """A part of the code with its instructions and accesses.

    Attributes
    ----------
    loop : int or None
        The innermost loop that contains it.
    passage : Passage
        The passage of its first instruction.
    instructions : dict of str to Amount
        Instructions by class, and ``barrier``.
    accesses : dict of Shape to Amount
        Memory accesses in words per thread.
    costs : dict of CostKey to Amount
        All instructions by their key in an instruction table.
    lines : dict of Shape to list of int
        The lines of the accesses.
    share : float
        The largest share among its instructions.
    has_memory : bool
        Whether it has an access to global memory.
    has_barrier : bool
        Whether a barrier ends it.
    """

    loop: int | None
    passage: Passage
    instructions: Table[str] = field(default_factory=Table)
    accesses: Table[Shape] = field(default_factory=Table)
    costs: Table[CostKey] = field(default_factory=Table)
    lines: dict[Shape, list[int]] = field(default_factory=lambda: defaultdict(list))
    share: float = 0.0
    has_memory: bool = False
    has_barrier: bool = False

    def absorb(self, other: Stage) -> None:
        """Add the contents of another stage."""
        self.instructions.absorb(other.instructions)
        self.accesses.absorb(other.accesses)
        self.costs.absorb(other.costs)
        for shape, lines in other.lines.items():
            self.lines[shape] += lines
        self.share = max(self.share, other.share)
        self.has_memory |= other.has_memory
        self.has_barrier |= other.has_barrier


class Cut(NamedTuple):
    """Code divided into stages, how it was divided, unknown opcodes, and limits of the counts."""

    stages: list[Stage]
    how: str
    unknown: tuple[Unknown, ...]
    remarks: tuple[str, ...]


class _Cutter:
    def __init__(self, counts: Counts, values: Values, block: Block | None, how: str) -> None:
        self.counts = counts
        self.values = values
        self.block = block
        self.how = how
        self.stages: list[Stage] = []
        self.unknown: dict[str, Unknown] = {}
        self.remarks: dict[str, str] = {}

    def add(self, instruction: Instruction, number: int) -> None:
        """Add an instruction of a block."""
        meaning = meaning_of(instruction)
        shapes: tuple[Shape, ...] = ()
        kind = meaning.kind
        if meaning.direction:
            shapes = shapes_of(instruction, meaning, self.values, self.block)
            kind = shapes[0].space if shapes else "move"
        self._note(instruction, meaning, kind)
        stage = self._stage(number, is_memory=kind == "global")
        passage, share = self.counts.passages[number], self.counts.shares[number]
        stage.share = max(stage.share, share)
        if not shapes:
            stage.instructions.add(kind, passage, share)
        for shape in shapes:
            stage.accesses.add(shape, passage, share * shape.words)
            stage.lines[shape].append(instruction.line)
        is_float = any(m[:1] == "f" and m[1:].isdigit() for m in instruction.modifiers)
        has_constant = any(
            isinstance(operand, str) and (operand[:1].isdigit() or operand[:1] == "-")
            for operand in instruction.operands[1:]
        )
        key = CostKey(instruction.opcode, is_float, has_constant, kind)
        stage.costs.add(key, passage, share)
        stage.has_memory |= kind == "global"
        stage.has_barrier |= kind == "barrier"

    def _stage(self, number: int, *, is_memory: bool) -> Stage:
        """Return the stage of the next instruction of a block."""
        loop = None if self.how == "none" else self.counts.graph.blocks[number].loop
        last = self.stages[-1] if self.stages else None
        is_over = last is not None and (
            (self.how == "tasks" and last.has_memory and not is_memory)
            or (self.how == "barriers" and last.has_barrier)
        )
        if last is None or last.loop != loop or is_over:
            last = Stage(loop, self.counts.passages[number])
            self.stages.append(last)
        return last

    def _note(self, instruction: Instruction, meaning: Meaning, kind: str) -> None:
        """Record that an instruction is unknown or not fully counted."""
        name = instruction.name
        if meaning.remark:
            remark = f"{name} in line {instruction.line} {meaning.remark}"
            self.remarks.setdefault(name, remark)
        if not meaning.is_known:
            first = Unknown(name, kind, 0, instruction.line, meaning.has_clue)
            before = self.unknown.get(name, first)
            self.unknown[name] = replace(before, count=before.count + 1)


def cut_into_stages(counts: Counts, values: Values, block: Block | None, how: str) -> Cut:
    """Return the code as a sequence of stages, and the unknown instructions.

    Parameters
    ----------
    counts : Counts
        Execution count of each basic block.
    values : Values
        The values of the registers.
    block : tuple of int or None
        Width, height and depth of a block, if known.
    how : str
        One of `STAGES`.

    Returns
    -------
    Cut
        The stages in the order of the control flow; a single one for ``none``.
    """
    for attempt in STAGES[STAGES.index(how) :]:
        cutter = _Cutter(counts, values, block, attempt)
        for number in counts.graph.linear_order():
            if attempt != "none" and len(cutter.stages) > 2 * MAX_STAGES:
                break  # merging periods would leave more than half of them
            if counts.shares[number] > 0.0:
                for instruction in counts.graph.blocks[number].instructions:
                    cutter.add(instruction, number)
        stages = cutter.stages
        if attempt == "tasks":
            stages = _close_periods(stages)
        if len(stages) <= MAX_STAGES:
            break
    return Cut(
        stages or [Stage(None, (None, False))],
        attempt,
        tuple(cutter.unknown.values()),
        tuple(cutter.remarks.values()),
    )


def _close_periods(stages: list[Stage]) -> list[Stage]:
    """Add computation after the last memory task of a loop body to the period it belongs to."""
    loops = [stage.loop for stage in stages]
    sizes = Counter(loops)
    result: list[Stage] = []
    start = 0
    while start < len(stages):
        stop = start + 1
        while stop < len(stages) and loops[stop] == loops[start]:
            stop += 1
        run = stages[start:stop]
        if len(run) > 1 and not run[-1].has_memory:
            is_whole = loops[start] is not None and sizes[loops[start]] == len(run)
            # Without inner loops, the end of a loop's body precedes the next iteration.
            (run[0] if is_whole else run[-2]).absorb(run[-1])
            run.pop()
        result += run
        start = stop
    return result

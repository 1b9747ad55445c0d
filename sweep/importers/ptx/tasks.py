"""The code as a sequence of stages: calculate periods of Luo & Suda, or stretches between barriers.

A calculate period is a computation task, instructions that are no access to global memory, and the
memory task that follows it (Luo & Suda 2011, Section 3.2). Stages end where a loop begins or ends,
too. The rest of a loop's body after its last memory task belongs to the next iteration's first
period, and what follows a kernel's last memory task to the last one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from sweep.importers.ptx.accesses import Block, Shape, shapes_of
from sweep.importers.ptx.addresses import Values
from sweep.importers.ptx.classes import Meaning, meaning_of
from sweep.importers.ptx.counts import Amount, Counts, Passage
from sweep.importers.ptx.module import Instruction
from sweep.importers.ptx.operands import constant_of

__all__ = [
    "MAX_STAGES",
    "STAGES",
    "CostKey",
    "Cut",
    "Stage",
    "Unknown",
    "cut_into_stages",
]

STAGES = ("tasks", "barriers", "none")
"""How code is cut: into calculate periods, at barriers, not at all."""

MAX_STAGES = 100
"""Code that would make more stages is cut less finely."""


class CostKey(NamedTuple):
    """What the cost of an instruction depends on in an instruction table."""

    opcode: str
    is_float: bool
    has_constant: bool
    kind: str


@dataclass(frozen=True)
class Unknown:
    """Opcodes that PTX ISA 9.0 does not have: how they count, how many there are, the first line.

    ``is_told`` says whether types or state space tell the class.
    """

    name: str
    kind: str
    count: int
    line: int
    is_told: bool

    def remark(self) -> str:
        """Say in one line what is unknown and how it counts."""
        told = "" if self.is_told else ", though nothing tells its class"
        where = f"line {self.line}, {self.count} in the text"
        return f"Unknown instruction {self.name} ({where}) is counted as {self.kind}{told}"


@dataclass
class Stage:
    """A stretch of code with what it holds.

    Attributes
    ----------
    loop : int or None
        The innermost loop that it is part of.
    instructions : dict of str to Amount
        By class, and ``barrier``.
    accesses : dict of Shape to Amount
        Accesses to memory, words of a thread.
    costs : dict of CostKey to Amount
        All instructions by what their cost depends on.
    lines : dict of Shape to list of int
        Where accesses stand, the first few of them.
    passage : Passage
        The passage of its first instruction.
    share : float
        The largest share among its instructions.
    has_memory : bool
        Whether it holds an access to global memory.
    has_barrier : bool
        Whether a barrier ends it.
    """

    loop: int | None
    passage: Passage
    instructions: dict[str, Amount] = field(default_factory=dict)
    accesses: dict[Shape, Amount] = field(default_factory=dict)
    costs: dict[CostKey, Amount] = field(default_factory=dict)
    lines: dict[Shape, list[int]] = field(default_factory=dict)
    share: float = 0.0
    has_memory: bool = False
    has_barrier: bool = False

    def absorb(self, other: Stage) -> None:
        """Add all of another stage."""
        for mine, others in (
            (self.instructions, other.instructions),
            (self.accesses, other.accesses),
            (self.costs, other.costs),
        ):
            for key, amount in others.items():
                for passage, number in amount.items():
                    _add(mine, key, passage, number)
        for shape, lines in other.lines.items():
            self.lines.setdefault(shape, []).extend(lines)
        self.share = max(self.share, other.share)
        self.has_memory |= other.has_memory
        self.has_barrier |= other.has_barrier


class Cut(NamedTuple):
    """Code cut into stages, how that was done, unknown opcodes, and what counts leave out."""

    stages: list[Stage]
    how: str
    unknown: tuple[Unknown, ...]
    remarks: tuple[str, ...]


def _add(table: dict, key: object, passage: Passage, number: float) -> None:
    amount = table.setdefault(key, {})
    amount[passage] = amount.get(passage, 0.0) + number


class _Cutter:
    """Collects stages; ``is_memory`` and so on refer to the instruction that is being added."""

    def __init__(self, counts: Counts, values: Values, block: Block | None, how: str) -> None:
        self.counts = counts
        self.values = values
        self.block = block
        self.how = how
        self.stages: list[Stage] = []
        self.unknown: dict[str, Unknown] = {}
        self.remarks: dict[str, str] = {}

    def add(self, instruction: Instruction, number: int) -> None:
        meaning = meaning_of(instruction)
        shapes: tuple[Shape, ...] = ()
        kind = meaning.kind
        if meaning.is_access:
            shapes = shapes_of(instruction, meaning, self.values, self.block)
            kind = shapes[0].space if shapes else "move"
        self._note_unknown(instruction, meaning, kind)
        stage = self._stage(number, is_memory=kind == "global")
        passage, share = self.counts.passages[number], self.counts.shares[number]
        stage.share = max(stage.share, share)
        if not shapes:
            _add(stage.instructions, kind, passage, share)
        for shape in shapes:
            _add(stage.accesses, shape, passage, share * shape.words)
            stage.lines.setdefault(shape, []).append(instruction.line)
        is_float = any(m[:1] == "f" and m[1:].isdigit() for m in instruction.modifiers)
        key = CostKey(instruction.opcode, is_float, constant_of(instruction), kind)
        _add(stage.costs, key, passage, share)
        stage.has_memory |= kind == "global"
        stage.has_barrier |= kind == "barrier"

    def _stage(self, number: int, *, is_memory: bool) -> Stage:
        """Return the stage that the next instruction of a block belongs to."""
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

    def _note_unknown(self, instruction: Instruction, meaning: Meaning, kind: str) -> None:
        if meaning.remark:
            place = f"{instruction.name} in line {instruction.line}"
            self.remarks.setdefault(instruction.name, f"{place} {meaning.remark}")
        if meaning.is_known:
            return
        name = instruction.name
        before = self.unknown.get(name)
        count, line = (before.count, before.line) if before else (0, instruction.line)
        self.unknown[name] = Unknown(name, kind, count + 1, line, meaning.is_told)


def cut_into_stages(counts: Counts, values: Values, block: Block | None, how: str) -> Cut:
    """Return the code as a sequence of stages, and the unknown instructions.

    Parameters
    ----------
    counts : Counts
        How often each block is passed.
    values : Values
        What is known of the registers.
    block : tuple of int or None
        Width, height and depth of a block, where they are known.
    how : str
        One of `STAGES`.

    Returns
    -------
    Cut
        The stages, in the order of the flow; one with everything for ``none``.
    """
    for attempt in STAGES[STAGES.index(how) :]:
        cutter = _Cutter(counts, values, block, attempt)
        for number in counts.graph.linear_order():
            if attempt != "none" and len(cutter.stages) > 2 * MAX_STAGES:
                break  # closing periods leaves more than half of them
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
    """Give computation after the last memory task of a stretch to the period that it is part of."""
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
            # In a loop in one piece the end of its body precedes the next iteration's beginning.
            (run[0] if is_whole else run[-2]).absorb(run[-1])
            run.pop()
        result += run
        start = stop
    return result

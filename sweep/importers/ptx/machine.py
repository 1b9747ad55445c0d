"""What the machine executes for instructions of PTX that are not one of its own.

GPUs from compute capability 5.0 on have logic operations (LOP3) and sums (IADD3) of three operands,
sums of a product (IMAD, FFMA) or a shifted number (LEA), and comparisons that end with an operation
on predicates (ISETP.AND): CUDA Binary Utilities, instruction sets. For integers PTX has ``mad`` and
``lop3`` only, and it lets the assembler join a product and a sum that name no rounding (PTX ISA,
``add.f32``). So a result that only the next step needs takes no instruction. Others take several:
``isa.toml`` has what the assembler makes of them. Older GPUs are left as PTX has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sweep.importers.ptx.control_flow import Block, Graph
from sweep.importers.ptx.module import ISA, Instruction, Operand, Register, capability_of
from sweep.importers.ptx.tokens import integer_of

OLDEST, PACKS = 5.0, 8.0
"""Compute capabilities from which GPUs have LOP3 and IADD3, and from which they convert to half
precision on the lanes of integers, two numbers at once (F2FP; Nsight Compute, ALU pipeline)."""

MOST_OPERANDS = 3

Counts = Mapping[str, float]
"""Instructions of the machine by class."""

MACHINE, _AGAIN, _PARTS = (
    {name: entry for names, entry in ISA[table].items() for name in names.split()}
    for table in ("machine", "again", "parts")
)
_JOINS = {("logic", "logic"), ("test", "end"), ("sum", "sum"), ("product", "sum"),
          ("product", "result"), ("extension", "sum"), ("part", "pair")}  # fmt: skip


def _part(instruction: Instruction) -> list[str]:
    """Return an instruction's type and role; floating-point numbers have no sums of three."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "setp":
        return ["pred", "test"]
    if opcode == "mov" and isinstance(operands[-1], tuple):
        return ["half", "pair"]
    is_open = opcode == "shl" and integer_of(str(operands[-1])) is None
    return ["", ""] if is_open else _PARTS.get(instruction.name, ["", ""])


class _Made(NamedTuple):
    """A result in a block that a later instruction may take in, and what it is made of."""

    by: Instruction
    kind: str
    role: str
    leaves: set[Operand]


def machine_counts(graph: Graph, target: str) -> dict[int, Counts]:
    """Return what the machine executes for each instruction that is not one of its own.

    An instruction is a part of the one that needs its result, if that is the only one, in the same
    block, and neither has a predicate. A product may be a part of several sums.
    """
    machine = _Machine(graph, float(capability_of(target)))
    for block in graph.blocks if machine.capability >= OLDEST else ():
        machine.execute(block)
    return machine.counts


class _Machine:
    """Counts of a kernel's instructions, and how often the kernel needs each register."""

    def __init__(self, graph: Graph, capability: float) -> None:
        self.capability, self.counts = capability, dict[int, Counts]()
        code = [instruction for block in graph.blocks for instruction in block.instructions]
        self._reads: Counter[Operand] = Counter(r for i in code for r in i.reads_and_writes[0])
        self._writes: Counter[Operand] = Counter(r for i in code for r in i.reads_and_writes[1])
        self._places: Counter[Operand] = Counter(a.base for i in code for a in i.addresses)

    def execute(self, block: Block) -> None:
        """Count the instructions of a block, each alone and then as what it is a part of."""
        made, divisors = dict[Operand, _Made](), set[Operand]()
        for one in block.instructions:
            if (alone := _alone(one, divisors, self.capability)) is not None:
                self.counts[id(one)] = alone
            if not one.predicate and one.operands and self._writes[one.operands[0]] == 1:
                self._join(one, made)

    def _join(self, one: Instruction, made: dict[Operand, _Made]) -> None:
        """Take in the results of which an instruction is the next step."""
        (kind, role), leaves, result = _part(one), set[Operand](), one.operands[0]
        words = [w for x in one.operands[1:] for w in (x if isinstance(x, tuple) else (x,))]
        for operand in words:
            part = made.get(operand)
            if part is None or not self._is_joined(part, kind, role, words, leaves):
                leaves.add(operand)
            elif kind == "pred":  # the comparison does what follows it
                self.counts[id(one)] = {}
            else:
                leaves |= part.leaves
                role = "" if part.role == "product" else role
                self._reads[operand] -= 1
                if not self._reads[operand]:
                    self.counts[id(part.by)] = {"integer": 0.5} if part.role == "part" else {}
                if "wide" in part.by.modifiers:  # IMAD.WIDE
                    self.counts[id(one)] = {"integer": 1}
        if role == "pair" and leaves.isdisjoint(words):  # both halves at once
            self.counts[id(one)] = {}
        if self._reads[result] == 1 or role == "product":
            made[result] = _Made(one, kind, role, leaves)
        is_place = one.opcode == "add" and self._places[result] == self._reads[result] > 0
        if is_place and integer_of(str(one.operands[-1])) is not None:
            self.counts[id(one)] = {}  # an address takes a constant as it is

    def _is_joined(
        self, part: _Made, kind: str, role: str, operands: Sequence[Operand], leaves: set[Operand]
    ) -> bool:
        """Return whether the machine has one instruction for a result and the step after it."""
        fits = len(leaves | part.leaves) + (not leaves) <= MOST_OPERANDS
        if not fits or part.kind != kind or (part.role, role) not in _JOINS:
            return False
        if role == "logic":  # it takes one number besides -1
            return len({x for x in (*part.leaves, *operands) if isinstance(x, str)} - {"-1"}) <= 1
        return kind != "half" or self.capability >= PACKS


def _alone(one: Instruction, divisors: set[Operand], capability: float) -> Counts | None:
    """Return what the machine executes for an instruction alone, if not one of its class."""
    counts = MACHINE.get(one.name)
    if one.name.startswith("cvt.rn") and capability < PACKS:
        return None
    if "f32x2" in one.modifiers:  # of 10.0: one instruction, but no more numbers a cycle
        return {"fp32": 2}  # CUDA C++ Programming Guide
    if one.name == "mov.b64" and any(isinstance(x, tuple) and len(x) == 2 for x in one.operands):
        return {}  # 64 bits lie in two registers, side by side
    if one.opcode in ("div", "rem") and counts and one.operands:
        divisor = one.operands[-1]
        if "f32" in one.modifiers and not isinstance(divisor, Register):  # its inverse is known
            rounded = {name: n for name, n in counts.items() if name != "special"}
            return rounded if "rn" in one.modifiers else {"fp32": 1}
        if divisor in divisors:
            return _AGAIN.get(one.name, counts)
        divisors.add(divisor)
    return counts

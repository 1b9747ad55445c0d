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
from collections.abc import Iterator, Mapping

from sweep.importers.ptx.control_flow import Graph
from sweep.importers.ptx.module import ISA, Instruction, Operand, Register, capability_of
from sweep.importers.ptx.tokens import integer_of

OLDEST, PACKS = 5.0, 8.0
"""Compute capabilities from which GPUs have LOP3 and IADD3, and from which they convert to half
precision on the lanes of integers, two numbers at once (F2FP; Nsight Compute, ALU pipeline)."""

MOST_OPERANDS = 3

Counts = Mapping[str, float]
"""Instructions of the machine by class."""

MACHINE, _AGAIN = (
    {name: counts for names, counts in ISA[table].items() for name in names.split()}
    for table in ("machine", "again")
)
_PARTS = {name: kind.split() for kind, names in ISA["parts"].items() for name in names.split()}
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


def machine_counts(graph: Graph, target: str) -> dict[int, Counts]:
    """Return what the machine executes for each instruction that is not one of its own.

    An instruction is a part of the one that needs its result, if that is the only one, in the same
    block, and neither has a predicate. A product may be a part of several sums. A logic operation
    takes one number besides -1.
    """
    capability = float(capability_of(target))
    code = [instruction for block in graph.blocks for instruction in block.instructions]
    reads: Counter[Operand] = Counter(r for i in code for r in i.reads_and_writes[0])
    writes: Counter[Operand] = Counter(r for i in code for r in i.reads_and_writes[1])
    places: Counter[Operand] = Counter(a.base for i in code for a in i.addresses)
    counts: dict[int, Counts] = {}
    for block in graph.blocks if capability >= OLDEST else ():
        made: dict[Operand, tuple[Instruction, str, str, set[Operand]]] = {}
        divisors: set[Operand] = set()
        for one in block.instructions:
            if (alone := _alone(one, divisors, capability)) is not None:
                counts[id(one)] = alone
            if one.predicate or not one.operands or writes[one.operands[0]] != 1:
                continue
            (result, *operands), (of, role), leaves = one.operands, _part(one), set[Operand]()
            for operand in _words(operands):
                first, type_, part, before = made.get(operand, (one, "", "", {operand}))
                numbers = {x for x in (*before, *operands) if isinstance(x, str)} - {"-1"}
                is_joined = (
                    type_ == of
                    and (part, role) in _JOINS
                    and not (
                        of == "half" and capability < PACKS or role == "logic" and len(numbers) > 1
                    )
                )
                if not is_joined or len(leaves | before) + (not leaves) > MOST_OPERANDS:
                    leaves.add(operand)
                elif of == "pred":  # the comparison does what follows it
                    counts[id(one)] = {}
                else:
                    leaves |= before
                    role = "" if part == "product" else role
                    reads[operand] -= 1
                    if not reads[operand]:
                        counts[id(first)] = {"integer": 0.5} if part == "part" else {}
                    if "wide" in first.modifiers:  # IMAD.WIDE
                        counts[id(one)] = {"integer": 1}
            if role == "pair" and leaves.isdisjoint(_words(operands)):  # both halves at once
                counts[id(one)] = {}
            if reads[result] == 1 or role == "product":
                made[result] = one, of, role, leaves
            if one.opcode == "add" and places[result] == reads[result] > 0:
                # An address takes a constant as it is.
                if integer_of(str(operands[-1])) is not None:
                    counts[id(one)] = {}
    return counts


def _words(operands: list[Operand]) -> Iterator[Operand]:
    for operand in operands:
        yield from operand if isinstance(operand, tuple) else (operand,)


def _alone(one: Instruction, divisors: set[Operand], capability: float) -> Counts | None:
    """Return what the machine executes for an instruction alone, if not one of its class."""
    counts = MACHINE.get(one.name)
    if one.name.startswith("cvt.rn") and capability < PACKS:
        return None
    if one.opcode in ("div", "rem") and counts and one.operands:
        divisor = one.operands[-1]
        if "f32" in one.modifiers and not isinstance(divisor, Register):  # its inverse is known
            rounded = {name: n for name, n in counts.items() if name != "special"}
            return rounded if "rn" in one.modifiers else {"fp32": 1}
        if divisor in divisors:
            return _AGAIN.get(one.name, counts)
        divisors.add(divisor)
    return counts

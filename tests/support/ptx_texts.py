"""PTX for tests: the fixtures, texts around a body, and an interpreter for integer code."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import numpy as np

from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.control_flow import control_flow
from sweep.importers.ptx.module import Address, Instruction, Label, Register
from sweep.importers.ptx.parser import read_ptx

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "data" / "ptx"
CASES = tomllib.loads((TESTS / "importers" / "ptx_cases.toml").read_text(encoding="utf-8"))

HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u64 q)
{
    .reg .pred %p<100>;
    .reg .b16 %h<100>;
    .reg .b32 %r<100>;
    .reg .f32 %f<100>;
    .reg .b64 %rd<100>;
    .reg .f64 %fd<100>;
    .shared .align 16 .b8 tile[4096];
"""


def fixture(name):
    return read_ptx((FOLDER / f"{name}.ptx").read_text(encoding="utf-8"))


def kernel(body, **options):
    """Return the analysis of a kernel with this body and the usual declarations."""
    return analyse(function(body), **options)


def function(body):
    return read_ptx(f"{HEAD}{body}\n}}\n").entry()


def with_derived(file, sizes):
    """Return values of sizes and of the derived names of a kernel file."""
    values = dict(sizes)
    for name in file.derived:
        values[name] = value(file.derived[name], **values)
    return values


def memory_instructions(found, sizes=None):
    """Return accesses per thread to global memory."""
    return sum(n for s, n in found.accesses(sizes).items() if s.space == "global")


def computation_instructions(found, sizes=None):
    """Return all other instructions, including shared accesses, barriers and branches."""
    everything = [*found.instructions(sizes).values(), *found.accesses(sizes).values()]
    return sum(everything) - memory_instructions(found, sizes)


def written(operand):
    """Return an operand with its registers by name."""
    if isinstance(operand, tuple):
        return tuple(map(written, operand))
    if isinstance(operand, Address):
        return Address(written(operand.base), operand.offset, written(operand.parts))
    return operand.name if isinstance(operand, Register) else operand


def graph(body):
    return control_flow(function(body))


def value(expression, **sizes):
    """Return an expression of a kernel file as a number."""
    result, fault = expression.evaluate(sizes)
    assert not np.any(fault)
    return float(result)


_COMPARE = {"lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "eq": "__eq__",
            "ne": "__ne__"}  # fmt: skip
_STEP = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
}


def execute(function, most=200_000):
    """Execute a body of integer instructions; return how often each line was executed."""
    code = function.body
    place = {item: i for i, item in enumerate(code) if isinstance(item, Label)}
    state = {}
    executed = Counter()

    def value(operand):
        return state[operand] if operand in state else int(operand, 0)

    counter = 0
    while counter < len(code):
        item = code[counter]
        counter += 1
        if not isinstance(item, Instruction):
            continue
        executed[item.line] += 1
        assert executed.total() < most, "too long"
        if item.predicate and bool(state[item.predicate]) == item.negated:
            continue
        if item.opcode == "bra":
            counter = place[item.targets[0]]
        elif item.opcode == "ret":
            break
        elif item.opcode == "mov":
            state[item.operands[0]] = value(item.operands[1])
        elif item.opcode == "setp":
            first, second = (value(o) for o in item.operands[1:])
            state[item.operands[0]] = getattr(first, _COMPARE[item.modifiers[0]])(second)
        elif item.opcode in _STEP:
            state[item.operands[0]] = _STEP[item.opcode](*(value(o) for o in item.operands[1:]))
    return executed

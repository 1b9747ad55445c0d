"""PTX for tests: the fixtures, texts around a body, and an interpreter for integer code."""

import operator
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np

from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.control_flow import control_flow
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.module import Address, Label, Register
from sweep.importers.ptx.parser import read_ptx
from sweep.specs import parse_kernel

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "data" / "ptx"
CASES = tomllib.loads((TESTS / "importers" / "ptx_cases.toml").read_text(encoding="utf-8"))

A100 = {
    "l2_bytes": 40 * 2**20,
    "sm_count": 108,
    "max_threads_per_sm": 2048,
    "registers_per_sm": 65536,
    "shared_memory_per_sm": 164 * 2**10,
}
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


def file_of(found, **options):
    """Return the kernel file of an analysis."""
    return parse_kernel(kernel_text(found, **options), "k")


def with_derived(file, sizes):
    """Return values of sizes and of the derived names of a kernel file, on an A100 by default."""
    first = {name: values[0] for name, values in file.parameters.items()}
    values = {**A100, **first, **file.sizes, **sizes}
    for name in file.derived:
        values[name] = value(file.derived[name], **values)
    return values


def total(*accesses, **sizes):
    """Return how often a thread makes some accesses of a kernel file."""
    return sum(value(access.count, **sizes) for access in accesses)


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


_FUNCTIONS = {
    "mov": operator.pos, "shl": operator.lshift, "shr": operator.rshift, "and": operator.and_,
    "mad": lambda a, b, c: a * b + c,
}  # fmt: skip


def execute(function, most=200_000, **state):
    """Execute a body of integer instructions.

    Return how often each line was executed, and the values of the registers.
    """
    code, counter, executed = function.body, 0, Counter()
    place = {item: i for i, item in enumerate(code) if isinstance(item, Label)}
    while counter < len(code):
        item = code[counter]
        counter += 1
        if isinstance(item, Label):
            continue
        executed[item.line] += 1
        assert executed.total() < most, "too long"
        if item.predicate and state[item.predicate] == item.negated:
            continue
        if item.opcode == "ret":
            break
        if item.opcode == "bra":
            counter = place[item.targets[0]]
            continue
        target, *operands = item.operands
        values = [state[o] if o in state else int(o, 0) for o in operands]
        name = item.modifiers[0] if item.opcode == "setp" else item.opcode
        state[target] = (_FUNCTIONS.get(name) or getattr(operator, name))(*values)
    return executed, state

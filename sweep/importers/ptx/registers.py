"""Registers of a function: how values depend on the thread's index, and how many are live.

Every register gets one value that covers all writes to it:
``x * tid.x + y * tid.y + z * tid.z + rest``, where the rest is the same for all threads of a warp.
Any other value is unknown. PTX lacks some information, which is assumed: the width of a block and
integer arguments of a kernel (widths of matrices with aligned rows) are multiples of 32, and
pointers have the alignment of the driver's allocations.

PTX has an unlimited number of registers, which the assembler maps to machine registers. The maximum
number of live registers is therefore close to the number that the machine code needs, although the
assembler also reorders code, recomputes values instead of keeping them, reads kernel parameters in
place, and reserves some registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from sweep.importers.ptx.control_flow import Block, Graph
from sweep.importers.ptx.lanes import Lanes
from sweep.importers.ptx.module import Address, Function, Instruction, Operand, Register, Variable
from sweep.importers.ptx.tokens import integer_of

ALIGNED = 4096
"""Largest alignment that is tracked."""

LARGEST = 2**64
"""Larger numbers are not tracked, since no register can hold them."""

WARP = 32

MAX_STEPS = 10_000_000
"""Largest number of pairs of register and block in the estimate of live registers."""

Sides = tuple[int, int, int]
"""Threads of a block in x, y and z."""


class Value(NamedTuple):
    """The known properties of a register's value.

    ``x``, ``y``, ``z`` are the coefficients of the thread's indices, ``None`` if they are known
    only at run time; ``constant`` is the rest if it is a known number; ``alignment`` is a power of
    two that divides the rest; ``space`` is the state space of a pointer, ``""`` if unknown. If
    ``is_affine`` is false, only ``space`` is valid.
    """

    x: int | None = 0
    y: int | None = 0
    z: int | None = 0
    constant: int | None = None
    alignment: int = 1
    space: str = ""
    is_affine: bool = True

    @property
    def is_uniform(self) -> bool:
        """Whether the value is the same for all threads of a block."""
        return self.is_affine and self.x == 0 and self.y == 0 and self.z == 0


UNKNOWN = Value(is_affine=False)
_POINTED = ("global", "shared", "local", "const", "param")
_INDEX = {
    "%tid.x": Value(x=1, constant=0, alignment=ALIGNED),
    "%laneid": Value(x=1, constant=0, alignment=ALIGNED),
    "%tid.y": Value(y=1, constant=0, alignment=ALIGNED),
    "%tid.z": Value(z=1, constant=0, alignment=ALIGNED),
}


def number(value: int) -> Value:
    """Return the value of a literal."""
    return Value(constant=value, alignment=min(value & -value, ALIGNED) if value else ALIGNED)


def _uniform(*operands: Value) -> Value:
    """Return the value of a function of operands; it is uniform if all operands are."""
    return Value() if all(operand.is_uniform for operand in operands) else UNKNOWN


def _join(first: Value | None, second: Value) -> Value:
    """Return the properties that both values share."""
    if first is None or first == second:
        return second
    space = first.space if first.space == second.space else ""
    if not (first.is_affine and second.is_affine) or first[:3] != second[:3]:
        return UNKNOWN._replace(space=space)
    constant = first.constant if first.constant == second.constant else None
    return Value(*first[:3], constant, min(first.alignment, second.alignment), space)


def _sum(a: int | None, b: int | None, factor: int = 1) -> int | None:
    """Return ``a + factor * b``; ``None`` if one is unknown or the sum is too large."""
    total = None if a is None or b is None else a + factor * b
    return None if total is None or abs(total) > LARGEST else total


def _product(a: int | None, b: int | None) -> int | None:
    """Return ``a * b`` with the rules of `_sum`; zero times an unknown number is zero."""
    if a == 0 or b == 0:
        return 0
    return None if a is None else _sum(0, b, a)


def _add(a: Value, b: Value, sign: int = 1) -> Value:
    space = a.space or b.space
    if not (a.is_affine and b.is_affine):
        return UNKNOWN._replace(space=space)
    x, y, z, rest = (_sum(p, q, sign) for p, q in zip(a[:4], b[:4], strict=True))
    return Value(x, y, z, rest, min(a.alignment, b.alignment), space)


def _multiply(a: Value, b: Value) -> Value:
    if not (a.is_affine and b.is_affine) or not (a.is_uniform or b.is_uniform):
        return UNKNOWN
    if not b.is_uniform:
        a, b = b, a
    x, y, z, rest = (_product(p, b.constant) for p in a[:4])
    return Value(x, y, z, rest, min(a.alignment * b.alignment, ALIGNED))


def _mask(a: Value, b: Value) -> Value:
    """Return ``a & b``; a mask of five or more low bits keeps the lane within a warp."""
    if a.is_uniform and not b.is_uniform:
        a, b = b, a
    mask = b.constant
    if a.is_uniform and b.is_uniform:
        if a.constant is not None and mask is not None:
            return number(a.constant & mask)
        return Value(alignment=max(a.alignment, b.alignment))
    if not b.is_uniform or not _is_index(a) or mask is None:
        return UNKNOWN
    if mask >= WARP - 1 and mask & (mask + 1) == 0:
        return Value(x=1, alignment=WARP)
    return Value(alignment=WARP) if mask % WARP == 0 else UNKNOWN


def _is_index(a: Value) -> bool:
    """Return whether a value is an index in x plus a multiple of 32."""
    return a.is_affine and a[:3] == (1, 0, 0) and a.alignment >= WARP


def _divide(a: Value, b: Value, *, remainder: bool) -> Value:
    if a.is_uniform and b.is_uniform:
        if a.constant is None or b.constant is None or a.constant < 0 or b.constant <= 0:
            return Value()
        return number(a.constant % b.constant if remainder else a.constant // b.constant)
    if b.is_uniform and b.constant and b.constant % WARP == 0 and _is_index(a):
        return Value(x=1, alignment=WARP) if remainder else Value()
    return UNKNOWN


def _high(a: Value, b: Value, bits: int) -> Value:
    """Return the upper half of a product: compilers divide by a constant so."""
    first, second = (-1 if v.constant is None or not v.is_uniform else v.constant for v in (a, b))
    return number(first * second >> bits) if min(first, second) >= 0 else _uniform(a, b)


def _shift(a: Value, b: Value, *, left: bool) -> Value:
    if b.constant is None or not b.is_uniform or not 0 <= b.constant < 64:
        return _uniform(a, b)
    power = number(1 << b.constant)
    return _multiply(a, power) if left else _divide(a, power, remainder=False)


_TWO: dict[str, Callable[[Value, Value], Value]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, b, -1),
    "mul": _multiply,
    "mul24": _multiply,
    # Compilers use `or` for a sum if the operands have no common bit.
    "or": lambda a, b: Value() if a.is_uniform and b.is_uniform else _add(a, b),
    "and": _mask,
    "shl": lambda a, b: _shift(a, b, left=True),
    "shr": lambda a, b: _shift(a, b, left=False),
    "div": lambda a, b: _divide(a, b, remainder=False),
    "rem": lambda a, b: _divide(a, b, remainder=True),
}


def combined(instruction: Instruction, sources: Sequence[Value]) -> Value:
    """Return the value that an instruction other than a load makes of its operands' values."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "cvta":
        space = next((m for m in modifiers if m in _POINTED), "")
        return sources[0]._replace(space=space) if sources else UNKNOWN
    if opcode in ("mov", "cvt") and len(sources) == 1:
        is_float = not {"f32", "f64", "f16"}.isdisjoint(modifiers)
        return _uniform(*sources) if is_float else sources[0]
    if opcode in _TWO and len(sources) == 2 and "hi" not in modifiers:
        return _TWO[opcode](*sources)
    if opcode == "mul" and len(sources) == 2 and modifiers[-1] in ("u32", "u64"):
        return _high(sources[0], sources[1], int(modifiers[-1][1:]))
    if opcode in ("mad", "mad24", "fma") and len(sources) >= 3 and "hi" not in modifiers:
        return _add(_multiply(*sources[:2]), sources[2])
    if opcode == "neg" and len(sources) == 1:
        return _add(number(0), sources[0], -1)
    if opcode == "selp" and len(sources) == 3:
        return _join(*sources[:2])
    if opcode in ("atom", "shfl", "elect", "call", "clusterlaunchcontrol"):
        return UNKNOWN
    if opcode in ("vote", "activemask", "redux", "match"):
        return Value()
    return _uniform(*sources)


class Values:
    """The value of every register of a function.

    Parameters
    ----------
    function : Function
        A function with its calls inlined.
    variables : iterable of Variable
        Variables outside functions.
    block : tuple of int, optional
        Width, height and depth of a block, if known.
    arguments : mapping of int to int
        Known arguments of the kernel by position.
    grid : tuple of int, optional
        Blocks of the grid in x, y and z, if known.
    middle : bool
        Whether these are the values of the middle thread of the middle block, in place of all
        threads'.
    """

    def __init__(
        self,
        function: Function,
        variables: Iterable[Variable] = (),
        block: Sides | None = None,
        arguments: Mapping[int, int] | None = None,
        grid: Sides | None = None,
        middle: bool = False,
    ) -> None:
        self._parameters = {variable.name: variable for variable in function.parameters}
        names = list(self._parameters)
        self.arguments = {names[i]: number for i, number in (arguments or {}).items()}
        self._found: dict[Register, Value] = {}
        self._fixed = {
            variable.name: Value(alignment=variable.alignment, space=variable.space)
            for variable in (*variables, *function.variables)
        }
        self._function, self._block = function, block
        self._fixed["%ntid.x"] = Value(alignment=WARP)
        self._fixed |= _INDEX
        for name, sides in (("%ntid", block), ("%nctaid", grid)):
            for axis, size in zip("xyz", sides or (), strict=False):
                self._fixed[f"{name}.{axis}"] = number(size)
                if middle:
                    self._fixed[f"{name.replace('n', '')}.{axis}"] = number(size // 2)
        self._settle(list(function.instructions()))

    def of(self, operand: Operand) -> Value:
        """Return the value of an operand; a register that is never written is unknown."""
        if isinstance(operand, Address):
            base = self.of(operand.base) if operand.base else number(0)
            return _add(base, number(operand.offset))
        if isinstance(operand, tuple):
            return _uniform(*map(self.of, operand))
        if isinstance(operand, Register):
            return self._found.get(operand, UNKNOWN)
        if operand in self._fixed:
            return self._fixed[operand]
        literal = integer_of(operand)
        if literal is not None:
            return number(literal)
        return UNKNOWN if operand.startswith(("%tid", "%lane")) else Value()

    @cached_property
    def lanes(self) -> Lanes | None:
        """The registers thread by thread, if the block is known."""
        if self._block is None:
            return None
        return Lanes(self._function, self._block, self.arguments)

    def result(self, instruction: Instruction) -> Value:
        """Return the value that an instruction writes."""
        if instruction.opcode in ("ld", "ldu"):
            return self._loaded(instruction)
        return combined(instruction, [self.of(operand) for operand in instruction.operands[1:]])

    def _loaded(self, instruction: Instruction) -> Value:
        address = next(iter(instruction.addresses), None)
        if address is None:
            return UNKNOWN
        if "param" in {modifier.partition("::")[0] for modifier in instruction.modifiers}:
            parameter = self._parameters.get(str(address.base))
            if parameter is None:
                return UNKNOWN  # the result of a call
            if parameter.name in self.arguments and not address.offset:
                return number(self.arguments[parameter.name])
            is_pointer = (parameter.bytes or 0) >= 8
            return Value(alignment=256 if is_pointer else WARP, space=parameter.points_to)
        return _uniform(self.of(address))

    def _settle(self, code: list[Instruction]) -> None:
        """Evaluate instructions until nothing changes; values only lose properties.

        An instruction waits until all written registers that it reads have a value.
        """
        readers: dict[Register, list[int]] = {}
        uses = [_used(instruction) for instruction in code]
        for place, (read, written) in enumerate(uses):
            for name in read if written else ():
                readers.setdefault(name, []).append(place)
        defined = {name for _, written in uses for name in written}
        waiting = dict.fromkeys(reversed(range(len(code))))
        while waiting:
            place, _ = waiting.popitem()
            read, written = uses[place]
            if not written or any(name in defined and name not in self._found for name in read):
                continue
            value = self.result(code[place])
            for name in written:
                before = self._found.get(name)
                after = self._found[name] = _join(before, value)
                if after != before:
                    waiting |= dict.fromkeys(readers.get(name, ()))


def _used(instruction: Instruction) -> tuple[list[Register], list[Register]]:
    """Return the registers that an instruction reads and writes, without predicates."""
    reads, writes = instruction.reads_and_writes
    return [name for name in reads if name.width], [name for name in writes if name.width]


def live_registers(graph: Graph) -> int:
    """Return the most 32-bit registers that are live at once.

    A 64-bit register counts as two, one of 16 bits or less as one, a predicate as none. A register
    that is written under a predicate is live before the write too.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.

    Returns
    -------
    int
        The estimate; 0 for code without registers.
    """
    uses: dict[Block, list[tuple[list[Register], list[Register]]]] = {}
    written: dict[Block, set[Register]] = {}
    readers: dict[Register, list[Block]] = {}
    for block in graph.blocks:
        uses[block] = []
        above = written[block] = set()
        for instruction in block.instructions:
            read, writes = _used(instruction)
            if instruction.predicate:
                read += writes
            for name in read:
                if name not in above and readers.setdefault(name, [])[-1:] != [block]:
                    readers[name].append(block)
            above.update(writes)
            uses[block].append((read, writes))
    live = _live_at_end(readers, written)
    return max(_peak(uses[block], live[block]) for block in graph.blocks)


def _live_at_end(
    readers: dict[Register, list[Block]], written: dict[Block, set[Register]]
) -> dict[Block, list[Register]]:
    """Return for each block the registers that are live at its end.

    Each register is followed backwards from the blocks that read it to those that write it.
    """
    live: dict[Block, list[Register]] = {block: [] for block in written}
    steps = 0
    for name, waiting in readers.items():
        while waiting and steps < MAX_STEPS:
            for before in waiting.pop().predecessors:
                if live[before] and live[before][-1] is name:
                    continue
                live[before].append(name)
                steps += 1
                if name not in written[before]:
                    waiting.append(before)
    return live


def _peak(uses: list[tuple[list[Register], list[Register]]], at_end: list[Register]) -> int:
    """Return the largest number of live registers inside a block, scanning from its end."""
    live = set(at_end)
    peak = count = sum(name.width for name in live)
    for read, written in reversed(uses):
        dead = set(written) - live
        peak = max(peak, count + sum(name.width for name in dead))
        count -= sum(name.width for name in live.intersection(written))
        live.difference_update(written)
        count += sum(name.width for name in set(read) - live)
        live.update(read)
        peak = max(peak, count)
    return peak

"""How addresses depend on a thread's place in its block, as far as PTX tells.

Every register gets one value, the join of all that is ever written into it:
``x * tid.x + y * tid.y + z * tid.z + rest``, where the rest is the same for all threads of a warp.
What is neither such a sum nor the same for a warp is unknown. Two things are taken for granted
that PTX cannot tell: blocks are a multiple of 32 threads wide, and integer arguments of a kernel
are multiples of 32 (widths of matrices that keep rows aligned); pointers are aligned as the driver
allocates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sweep.importers.ptx.module import Address, Function, Instruction, Operand, Variable
from sweep.importers.ptx.operands import reads_and_writes
from sweep.importers.ptx.tokens import integer_of

__all__ = ["RUNTIME", "Value", "Values", "values_of"]

RUNTIME: None = None
"""A coefficient that is only known when the kernel runs."""

ALIGNED = 4096
"""Alignments are followed up to this power of two."""

LARGEST = 2**64
"""Larger numbers are not followed: no register holds them."""

WARP = 32

Coefficient = int | None


class Value(NamedTuple):
    """What is known of a register.

    ``x``, ``y``, ``z`` are the coefficients of the thread's indices; ``constant`` is the rest if it
    is a known number; ``alignment`` a power of two that divides the rest; ``space`` the state space
    that it points into, ``""`` if unknown. Where ``is_affine`` is false only the space holds.
    """

    x: Coefficient = 0
    y: Coefficient = 0
    z: Coefficient = 0
    constant: int | None = None
    alignment: int = 1
    space: str = ""
    is_affine: bool = True

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same for all threads of a block."""
        return self.is_affine and self.x == 0 and self.y == 0 and self.z == 0


UNKNOWN = Value(is_affine=False)
_POINTED = ("global", "shared", "local", "const", "param")
_INDEX = {"%tid.x": Value(x=1, constant=0), "%laneid": Value(x=1, constant=0)} | {
    "%tid.y": Value(y=1, constant=0),
    "%tid.z": Value(z=1, constant=0),
}
for _name, _value in list(_INDEX.items()):
    _INDEX[_name] = _value._replace(alignment=ALIGNED)


def number(value: int) -> Value:
    """Return the value of a literal."""
    return Value(constant=value, alignment=_power_of_two(value))


def _power_of_two(value: int) -> int:
    """Return the largest power of two that divides a number, up to `ALIGNED`."""
    return min(value & -value, ALIGNED) if value else ALIGNED


def join(first: Value | None, second: Value) -> Value:
    """Return what holds for both values."""
    if first is None or first == second:
        return second
    space = first.space if first.space == second.space else ""
    if not (first.is_affine and second.is_affine) or first[:3] != second[:3]:
        return UNKNOWN._replace(space=space)
    constant = first.constant if first.constant == second.constant else None
    return Value(*first[:3], constant, min(first.alignment, second.alignment), space)


def _sum(a: int | None, b: int | None, sign: int = 1) -> int | None:
    """Return a sum of two numbers; ``None`` where one is not known or the sum is too large."""
    total = None if a is None or b is None else a + sign * b
    return None if total is None or abs(total) > LARGEST else total


def _product(a: int | None, b: int | None) -> int | None:
    """Return a product as `_sum` does a sum; zero times anything is zero."""
    if a == 0 or b == 0:
        return 0
    total = None if a is None or b is None else a * b
    return None if total is None or abs(total) > LARGEST else total


def _add(a: Value, b: Value, sign: int = 1) -> Value:
    space = a.space or b.space
    if not (a.is_affine and b.is_affine):
        return UNKNOWN._replace(space=space)
    x, y, z = (_sum(p, q, sign) for p, q in zip(a[:3], b[:3], strict=True))
    rest = _sum(a.constant, b.constant, sign)
    return Value(x, y, z, rest, min(a.alignment, b.alignment), space)


def _multiply(a: Value, b: Value) -> Value:
    if not (a.is_affine and b.is_affine) or not (a.is_uniform or b.is_uniform):
        return UNKNOWN
    if not b.is_uniform:
        a, b = b, a
    x, y, z = (_product(p, b.constant) for p in a[:3])
    rest = _product(a.constant, b.constant)
    return Value(x, y, z, rest, min(a.alignment * b.alignment, ALIGNED))


def _mask(a: Value, b: Value) -> Value:
    """Return ``a & b``: the low five bits or more of an index count the lanes of a warp."""
    if a.is_uniform and not b.is_uniform:
        a, b = b, a
    if a.is_uniform and b.is_uniform:
        if a.constant is not None and b.constant is not None:
            return number(a.constant & b.constant)
        return Value(alignment=max(a.alignment, b.alignment))
    mask = b.constant
    is_low = mask is not None and mask >= WARP - 1 and mask & (mask + 1) == 0
    if b.is_uniform and _is_index(a) and is_low:
        return Value(x=a.x, alignment=WARP)
    if b.is_uniform and _is_index(a) and mask is not None and mask % WARP == 0:
        return Value(alignment=WARP)
    return UNKNOWN


def _is_index(a: Value) -> bool:
    """Whether a value is an index in x plus a multiple of 32."""
    return a.is_affine and a.x == 1 and a.y == 0 and a.z == 0 and a.alignment >= WARP


def _divide(a: Value, b: Value, *, remainder: bool) -> Value:
    if a.is_uniform and b.is_uniform:
        if a.constant is None or b.constant is None or a.constant < 0 or b.constant <= 0:
            return Value()
        return number(a.constant % b.constant if remainder else a.constant // b.constant)
    if b.is_uniform and b.constant and b.constant % WARP == 0 and _is_index(a):
        return Value(x=1, alignment=WARP) if remainder else Value()
    return UNKNOWN


def _shift_left(a: Value, b: Value) -> Value:
    if b.constant is not None and b.is_uniform and 0 <= b.constant < 64:
        return _multiply(a, number(1 << b.constant))
    return Value() if a.is_uniform and b.is_uniform else UNKNOWN


def _shift_right(a: Value, b: Value) -> Value:
    if b.constant is None or not b.is_uniform or not 0 <= b.constant < 64:
        return Value() if a.is_uniform and b.is_uniform else UNKNOWN
    return _divide(a, number(1 << b.constant), remainder=False)


_TWO: dict[str, Callable[[Value, Value], Value]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, b, -1),
    "mul": _multiply,
    "mul24": _multiply,
    # Compilers write `or` for a sum where no bit is set on both sides.
    "or": lambda a, b: Value() if a.is_uniform and b.is_uniform else _add(a, b),
    "and": _mask,
    "shl": _shift_left,
    "shr": _shift_right,
    "div": lambda a, b: _divide(a, b, remainder=False),
    "rem": lambda a, b: _divide(a, b, remainder=True),
}


class Values:
    """The value of every register of a function; see :func:`values_of`."""

    def __init__(
        self,
        function: Function,
        variables: Iterable[Variable],
        block: tuple[int, int, int] | None,
    ) -> None:
        self._found: dict[str, Value] = {}
        self._registers = function.registers
        self._parameters = {variable.name: variable for variable in function.parameters}
        self._symbols = {
            variable.name: Value(alignment=variable.alignment, space=variable.space)
            for variable in (*variables, *function.variables)
        }
        self._sizes: Mapping[str, Value] = {
            f"%ntid.{axis}": number(block[i]) for i, axis in enumerate("xyz")
        } if block else {"%ntid.x": Value(alignment=WARP)}  # fmt: skip

    def of(self, operand: Operand) -> Value:
        """Return the value of an operand; a register that nothing is written into is unknown."""
        if isinstance(operand, Address):
            base = self.of(operand.base) if operand.base else number(0)
            return _add(base, number(operand.offset))
        if isinstance(operand, tuple):
            is_uniform = all(self.of(name).is_uniform for name in operand)
            return Value() if is_uniform else UNKNOWN
        if operand in self._found:
            return self._found[operand]
        if operand in _INDEX:
            return _INDEX[operand]
        if operand in self._sizes:
            return self._sizes[operand]
        if operand in self._symbols:
            return self._symbols[operand]
        literal = integer_of(operand)
        if literal is not None:
            return number(literal)
        if self._registers.type_of(operand.partition(".")[0]):
            return UNKNOWN
        return UNKNOWN if operand.startswith(("%tid", "%lane")) else Value()

    def result(self, instruction: Instruction) -> Value:
        """Return the value that an instruction writes."""
        opcode, modifiers = instruction.opcode, instruction.modifiers
        sources = instruction.operands[1:]
        if opcode == "ld" or opcode == "ldu":
            return self._loaded(instruction)
        if opcode == "cvta":
            space = next((m for m in modifiers if m in _POINTED), "")
            return self.of(sources[0])._replace(space=space) if sources else UNKNOWN
        if opcode in ("mov", "cvt") and len(sources) == 1:
            if "f32" in modifiers or "f64" in modifiers or "f16" in modifiers:
                return Value() if self.of(sources[0]).is_uniform else UNKNOWN
            return self.of(sources[0])
        if opcode in _TWO and len(sources) == 2 and "hi" not in modifiers:
            return _TWO[opcode](self.of(sources[0]), self.of(sources[1]))
        if opcode in ("mad", "mad24", "fma") and len(sources) >= 3 and "hi" not in modifiers:
            return _add(_multiply(self.of(sources[0]), self.of(sources[1])), self.of(sources[2]))
        if opcode == "neg" and len(sources) == 1:
            return _add(number(0), self.of(sources[0]), -1)
        if opcode == "selp" and len(sources) == 3:
            return join(self.of(sources[0]), self.of(sources[1]))
        if opcode in ("atom", "shfl", "elect", "call", "clusterlaunchcontrol"):
            return UNKNOWN
        if opcode in ("vote", "activemask", "redux", "match"):
            return Value()
        return Value() if all(self.of(source).is_uniform for source in sources) else UNKNOWN

    def _loaded(self, instruction: Instruction) -> Value:
        address = next((o for o in instruction.operands if isinstance(o, Address)), None)
        if address is None:
            return UNKNOWN
        if "param" in {modifier.partition("::")[0] for modifier in instruction.modifiers}:
            parameter = self._parameters.get(address.base)
            if parameter is None:
                return UNKNOWN  # of a function that is called
            is_pointer = (parameter.bytes or 0) >= 8
            return Value(alignment=256 if is_pointer else WARP, space=parameter.points_to)
        return Value() if self.of(address).is_uniform else UNKNOWN

    def settle(self, code: list[Instruction]) -> None:
        """Evaluate instructions until nothing changes; each value can only become less known.

        An instruction waits until all that it reads has a value, if anything gives it one.
        """
        readers: dict[str, list[int]] = {}
        read: list[list[str]] = []
        written: list[list[str]] = []
        for place, instruction in enumerate(code):
            reads, writes = reads_and_writes(instruction)
            written.append([n for n in writes if self._registers.width(n)])
            read.append([n for n in reads if written[-1] and self._registers.width(n)])
            for name in read[-1]:
                readers.setdefault(name, []).append(place)
        given = {name for names in written for name in names}
        waiting = list(range(len(code)))[::-1]
        is_waiting = [True] * len(code)
        while waiting:
            place = waiting.pop()
            is_waiting[place] = False
            if not written[place]:
                continue
            if any(n in given and n not in self._found for n in read[place]):
                continue
            value = self.result(code[place])
            for name in written[place]:
                before = self._found.get(name)
                after = join(before, value)
                if after == before:
                    continue
                self._found[name] = after
                for reader in readers.get(name, ()):
                    if not is_waiting[reader]:
                        is_waiting[reader] = True
                        waiting.append(reader)


def values_of(
    function: Function,
    variables: Iterable[Variable] = (),
    block: tuple[int, int, int] | None = None,
) -> Values:
    """Return what is known of the registers of a function.

    Parameters
    ----------
    function : Function
        With its calls expanded.
    variables : iterable of Variable
        Variables outside functions.
    block : tuple of int, optional
        Width, height and depth of a block, where they are known.
    """
    values = Values(function, variables, block)
    values.settle(list(function.instructions()))
    return values

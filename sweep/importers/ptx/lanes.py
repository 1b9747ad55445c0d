"""Addresses that are no linear function of the thread's index, worked out thread by thread.

Compilers of tensor languages compute addresses with masks, shifts and exclusive ors of the thread's
index. Where the size of the block is known, each register gets the number that every thread of the
first block has in it when it is first written. Arguments that nobody gave are :data:`WIDE` and
more, and of the first 32 none is a multiple of another: pointers are aligned, rows of a matrix lie
apart, loops have something to do. A word that all threads load, such as the length of a sequence or
a pointer in a table, gets such a number, too; other words are unrelated numbers. The grid has as
many blocks in each direction. A selection by a number that changes while the kernel runs, as a
loop's counter does, is not followed.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.importers.ptx.control_flow import Block, Graph, Loop, nest
from sweep.importers.ptx.module import Address, Function, Instruction, Operand, Register
from sweep.importers.ptx.tokens import integer_of

Numbers = NDArray[np.int64]
Active = NDArray[np.bool_] | None

WIDE = 2**20 + 2**10
"""The least argument that is not known, such as a matrix's width; blocks in each direction. Its
factor 2**10 aligns rows, and leaves products of four arguments apart in 64 bits."""

APART = 2**15
"""How far such arguments differ."""

MOST_BLOCKS, GOLDEN = 4096, (5**0.5 - 1) / 2
"""Blocks of a grid that stand for all of it, and the step in which they are spread."""

MOST_STEPS = 10_000
"""Most instructions in all turns but the first of all loops that are followed, such as taps."""

WARP, SECTOR, BANK, BANKS = 32, 32, 4, 32
# MIX: an odd number without a pattern (of the golden ratio), which `_data` multiplies places by.
FAR, MIX = 2**48, 0x1E3779B97F4A7C15

UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
COMPARED: dict[str, Callable[[Any, Any], Any]] = UNSIGNED | {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "mul24": operator.mul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "min": np.minimum, "max": np.maximum,
    "shl": lambda a, b: a << np.clip(b, 0, 63), "shr": lambda a, b: a >> np.clip(b, 0, 63),
    "div": lambda a, b: a // np.where(b == 0, 1, b), "rem": lambda a, b: a % np.where(b == 0, 1, b),
}  # fmt: skip
_OF_THREAD = ("%tid", "%ntid", "%laneid", "%warpid")
_INTEGERS = {f"{kind}{bits}" for kind in "usb" for bits in (8, 16, 32, 64)}
FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f64"}


class Lanes:
    """The integer registers of the threads of one block.

    Parameters
    ----------
    function : Function
        A function with its calls inlined.
    block : tuple of int
        Width, height and depth of a block.
    arguments : mapping of str to int
        Known arguments by name.
    second : mapping of str to int or array
        Indices of another block than the first, such as ``%ctaid.x``. An array has those of many
        blocks: the numbers are then those of their first threads, a number a block.
    grid : tuple of int, optional
        Blocks in x, y and z. The numbers are then those of blocks spread over the grid, a number a
        block, and none of what depends on the thread or on an argument that nobody gave.
    """

    def __init__(
        self,
        function: Function,
        block: tuple[int, int, int],
        arguments: Mapping[str, int],
        second: Mapping[str, int | Numbers] = {},
        grid: tuple[int, int, int] | None = None,
    ) -> None:
        self._given = function, block, arguments
        x, y, z = grid or block
        linear = np.arange(min(x * y * z, MOST_BLOCKS) if grid else -(-x * y * z // WARP) * WARP)
        if x * y * z > MOST_BLOCKS:  # without a period
            linear = (linear * GOLDEN % 1 * (x * y * z)).astype(np.int64)
        if (n_blocks := max(map(np.size, second.values()), default=1)) > 1:
            linear = np.zeros(n_blocks, np.int64)
        own = linear % x, linear // x % y, linear // (x * y) % z
        self._fixed: dict[str, Numbers | None] = {
            f"%{name}.{axis}": np.full_like(linear, n)
            for name, sides in (("ntid", block), ("nctaid", grid or (WIDE,) * 3))
            for axis, n in zip("xyz", sides, strict=True)
        }
        names = "ctaid" if grid else "tid"
        self._fixed |= {f"%{names}.{axis}": n for axis, n in zip("xyz", own, strict=True)}
        thread = dict.fromkeys(("%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid"))
        here = {"%laneid": linear % WARP, "%warpid": linear // WARP}
        self._fixed |= thread if grid else here
        self._fixed |= {name: np.zeros_like(linear) + n for name, n in second.items()}
        places = enumerate(parameter.name for parameter in function.parameters)
        assumed = {} if grid else {name: WIDE + place % 32 * APART for place, name in places}
        self._arguments = {**assumed, **arguments}
        self.from_memory = set[Operand]()
        self._open = set[Register]()  # may be others in another block, or with other data
        self._n_wide, self._is_grid = len(function.parameters), grid is not None
        self._zero = np.zeros_like(linear)
        self._found: dict[Register, Numbers | None] = {}
        self._halves: dict[Operand, tuple[Operand, ...]] = {}
        writes = Counter(r for i in function.instructions() for r in i.reads_and_writes[1])
        self._changing = {register for register, n in writes.items() if n > 1}
        for one in function.instructions():  # a masked load's register has another number first
            if one.opcode == "ld" and not any(m.startswith("param") for m in one.modifiers):
                self._found |= dict.fromkeys(one.reads_and_writes[1])
        with np.errstate(all="ignore"):
            for instruction in function.instructions():
                self._write(instruction)

    def elsewhere(self, indices: Mapping[str, Any]) -> Lanes:
        """Return those of another block, or of the first threads of many."""
        return Lanes(*self._given, indices)

    @cached_property
    def _inside(self) -> Lanes:
        """Those of a block that is none of the grid's first ones."""
        return self.elsewhere({"%ctaid.x": 1, "%ctaid.y": 1, "%ctaid.z": 1})

    def active(self, instruction: Instruction) -> Active:
        """Return which threads execute an instruction, ``None`` if all do or that is not known.

        That none does is known if the predicate follows from the thread's index and from arguments
        that somebody gave: loaded words and the block's index may have other values elsewhere.
        """
        found = self._inside.holds(instruction)
        if found is None or found.all():
            return None
        return found if found.any() or instruction.predicate not in self._open else None

    def holds(self, instruction: Instruction) -> Active:
        """Return where an instruction's predicate holds, ``None`` if that is not known."""
        name = instruction.predicate
        known = self.of(name) if name and name not in self._changing else None
        return None if known is None else (known != 0) != instruction.negated

    def of(self, operand: Operand) -> Numbers | None:
        """Return the numbers of an operand, ``None`` if they are not known."""
        if isinstance(operand, Address):
            base = self.of(operand.base) if operand.base else self._zero
            return None if base is None else base + operand.offset
        if isinstance(operand, Register):
            return self._found.get(operand)
        if isinstance(operand, tuple):
            return None
        if operand in self._fixed:
            return self._fixed[operand]
        literal = integer_of(operand)
        if literal is not None:
            return self._zero + literal if abs(literal) < 2**62 else None
        return self._zero  # variables, and what is the same for all threads of a block

    def of_value(self, value: Any, known: Numbers | None) -> Numbers | None:
        """Return known numbers, else those of a linear function of the index, without its rest."""
        if known is not None or not value.is_affine or None in value[:3]:
            return known
        indices = (self._fixed[f"%tid.{axis}"] for axis in "xyz")
        return sum((n * i for n, i in zip(value[:3], indices, strict=True)), self._zero)

    def _write(self, instruction: Instruction) -> None:
        """Set the registers that an instruction is the first to write."""
        read, written = instruction.reads_and_writes
        if self._is_open(instruction) or not self._open.isdisjoint(read):
            self._open.update(written)
        if instruction.opcode == "ld" and self._is_of_all(instruction):
            places = range(self._n_wide, self._n_wide + len(written))
            numbers = (self._zero + WIDE + place * APART for place in places)
            self._found |= dict(zip(written, numbers, strict=True))
            self._n_wide += len(written)
        elif instruction.opcode == "ld" and (start := self._data_at(instruction)) is not None:
            bits = int(instruction.modifiers[-1][1:])
            words = (start + n * bits // 8 for n in range(len(written)))
            self._found |= {r: _data(word, bits) for r, word in zip(written, words, strict=True)}
            self._changing.update(written)  # decide nothing
            self.from_memory.update(written)
        if not self.from_memory.isdisjoint(read):
            self.from_memory.update(written)
        if not self._changing.isdisjoint(read):
            self._changing.update(written)
        new = [register for register in written if register not in self._found]
        if new:
            value = self._result(instruction) if len(written) == 1 else None
            self._found |= dict.fromkeys(new, value)
            to, by = instruction.operands[0], instruction.operands[-1]
            if instruction.opcode == "mov" and isinstance(by, tuple):  # a pair in one register
                self._halves[to] = by
            elif instruction.opcode == "mov" and isinstance(to, tuple):
                halves = zip(to, self._halves.get(by, ()), strict=False)
                self._found |= {half: self.of(source) for half, source in halves if half in new}

    def _is_open(self, one: Instruction) -> bool:
        """Return whether an instruction brings in what the block's threads do not determine."""
        if one.opcode in ("ld", "ldu"):
            return any(str(address.base) not in self._given[2] for address in one.addresses)
        special = (o.partition(".")[0] for o in one.operands if isinstance(o, str))
        return any(name[:1] == "%" and name not in _OF_THREAD for name in special)

    def _is_of_all(self, load: Instruction) -> bool:
        """Return whether all threads of a block load the same word, a number like an argument."""
        if self._is_grid or any(m.startswith("param") for m in load.modifiers):
            return False
        places = [self.of(address) for address in load.addresses]
        places += [self.of(load.predicate)] if load.predicate else []
        return all(place is not None and (place == place[0]).all() for place in places)

    def _data_at(self, load: Instruction) -> Numbers | None:
        """Return the addresses of a load of integers from memory by all threads, if known."""
        is_other = self._is_grid or any(m.startswith("param") for m in load.modifiers)
        if is_other or _INTEGERS.isdisjoint(load.modifiers[-1:]) or not load.addresses:
            return None
        if load.predicate and ((active := self.holds(load)) is None or not active.all()):
            return None
        return self.of(load.addresses[0])

    def _result(self, instruction: Instruction) -> Numbers | None:
        opcode, modifiers = instruction.opcode, instruction.modifiers
        if not FLOATS.isdisjoint(modifiers):
            return None
        if opcode in ("ld", "ldu"):
            return self._parameter(instruction)
        if opcode == "selp" and self._changing.intersection(instruction.operands[3:]):
            return None
        values = [self.of(operand) for operand in instruction.operands[1:]]
        known = [value for value in values if value is not None]
        if not values or len(known) < len(values):
            return None
        if opcode == "mul" and "u32" in modifiers and "lo" not in modifiers:
            known = [np.where(value < 0, value & 2**32 - 1, value) for value in known]
        if "hi" in modifiers:  # of 32 bits: compilers divide by a constant so
            is_short = opcode == "mul" and modifiers[-1] in ("s32", "u32")
            return known[0] * known[1] >> 32 if is_short else None
        return _computed(opcode, modifiers, known)

    def _parameter(self, instruction: Instruction) -> Numbers | None:
        address = next(iter(instruction.addresses), None)
        name = str(address.base) if address is not None else ""
        if name not in self._arguments or address is None or address.offset:
            return None
        return self._zero + self._arguments[name]


def shares_of_blocks(graph: Graph, lanes: Lanes) -> dict[Block, float]:
    """Return the shares of blocks of the grid that take branches which their indices decide.

    ``lanes`` are those of blocks of the grid. A branch that ends or repeats a loop is left out.
    """
    found = {}
    for block in graph.blocks:
        branch = None if ends_turn(block) else block.branch
        taken = lanes.holds(branch) if branch and branch.opcode == "bra" else None
        if taken is not None:
            found[block] = float(f"{taken.mean():.3g}")  # never 0 for a few of very many
    return found


def ends_turn(block: Block) -> bool:
    """Return whether a block decides about the end of a loop or its next turn."""
    return any(s.dominates(block) or s.loop is not block.loop for s in block.successors)


def runs_of(graph: Graph) -> tuple[list[list[Block]], set[Block]]:
    """Return basic blocks that are followed together: one, or all turns of loops of few turns.

    Of a longer loop inside one of few turns the first turn stands for all. The second result has
    the blocks in which such turns end.
    """
    runs = {block.number: [block] for block in graph.blocks}
    left, left_out, ends = float(MOST_STEPS), set[Loop | None](), set[Block]()
    for loop in reversed(graph.loops):  # inner ones before those around them
        first, times = loop.header.number, loop.trips or 0.5
        own = [number for number in range(first, first + loop.length) if number in runs]
        turn = [block for number in own for block in runs[number]]
        steps = sum(len(block.instructions) for block in turn)
        more = (times - 1) * steps
        if (times % 1 or more > left) and loop.parent and (loop.parent.trips or 0) > 1:
            times, more = 1, 0
            ends.update(loop.latches)
        if loop in left_out or times % 1 or more > left:
            left_out.add(loop.parent)
            continue
        for number in own[1:]:
            del runs[number]
        left, runs[first] = left - more, turn * int(times)
    return list(runs.values()), ends


def is_in_each_turn(block: Block) -> bool:
    """Return whether each turn of the loops around a block executes it; loops are entered."""
    for loop in nest(block.loop):
        block = _decision(block)
        if not all(map(block.dominates, loop.latches)):
            return False
        block = loop.header.idom or block
    return True


def _decision(block: Block) -> Block:
    """Return what decides whether a loop is entered, given the block just before the loop."""
    after = block.successors[0] if len(block.successors) == 1 else block
    is_entry = after.loop is not block.loop and after.loop and after.loop.header is after
    return block.idom or block if is_entry else block


def _computed(opcode: str, modifiers: Sequence[str], values: Sequence[Numbers]) -> Numbers | None:
    """Return the result of an integer instruction, ``None`` of one that is not followed."""
    first = values[0]
    if opcode in ("mov", "cvt", "cvta") and len(values) == 1:
        return first
    if opcode in _TWO and len(values) == 2:
        return np.asarray(_TWO[opcode](*values))
    if opcode in ("mad", "mad24") and len(values) == 3:
        return first * values[1] + values[2]
    if opcode == "neg":
        return -first
    if opcode == "not" and "pred" not in modifiers:  # compilers write a - b - 1 as a + ~b
        return ~first
    if opcode == "setp" and modifiers and modifiers[0] in COMPARED and len(values) == 2:
        return np.asarray(COMPARED[modifiers[0]](*values)).astype(np.int64)
    if opcode == "selp" and len(values) == 3:
        return np.where(values[2] != 0, first, values[1])
    if opcode == "bfe" and len(values) == 3:
        return (first >> values[1]) & ((1 << np.clip(values[2], 0, 62)) - 1)
    return None


def _data(places: Numbers, bits: int) -> Numbers:
    """Return numbers of words in memory: the same in one place, unrelated in others."""
    mixed = (places * MIX >> 29 ^ places) * MIX >> 20
    return (mixed & 2 ** min(bits, 30) - 1) << (10 if bits > 32 else 0)  # pointers are aligned


def touched_sectors(addresses: Numbers, size: int) -> Numbers:
    """Return the 32-byte sectors that each thread's access touches, a row for each thread."""
    ends = np.arange(0, size + SECTOR - 1, SECTOR).clip(max=size - 1)
    return (addresses[:, np.newaxis] + ends) // SECTOR


def sectors_by_warp(addresses: Numbers, size: int, active: Active = None) -> Numbers:
    """Return the sectors that each warp's access touches, plus the warp's number times `FAR`."""
    sectors = touched_sectors(addresses, size) % FAR
    sectors = sectors + np.arange(len(sectors))[:, np.newaxis] // WARP * FAR
    return np.unique(sectors if active is None else sectors[active])


def sectors_of(addresses: Numbers, size: int, active: Active = None) -> float:
    """Return the 32-byte sectors that a warp's access touches, as the mean over the warps."""
    return len(sectors_by_warp(addresses, size, active)) * WARP / len(addresses)


def wavefronts_of(addresses: Numbers, size: int, lanes: int = WARP) -> float:
    """Return the passes through 32 banks of a warp's access, as the mean over the warps.

    Words of 8 bytes are served for half a warp at a time, those of 16 for a quarter; lanes that
    access the same word share a pass. Only the first ``lanes`` of a warp access any.
    """
    served = WARP * BANK // max(size, BANK)
    counts = []
    active = addresses.reshape(-1, WARP)[:, :lanes]
    for together in active.reshape(-1, served):
        words = np.unique(together[:, np.newaxis] // BANK + np.arange(max(size // BANK, 1)))
        counts.append(np.bincount(words % BANKS).max())
    return float(np.sum(counts)) / len(active)

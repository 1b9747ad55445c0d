"""How often a wavefront executes each instruction of AMD's machine code, found by following it.

Only what decides branches and the mask of active lanes is followed: counters of loops, indices of
threads, arguments. Loaded data is unknown, and a branch that depends on it cannot be followed.
Registers hold 32 bits: scalar ones an integer or None (unknown), vector ones an array with a number
for each lane, `UNKNOWN` where it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from sweep.cuda.machine_code import LOAD, Code, Instruction, is_vector, registers
from sweep.cuda.nvrtc import CompileError
from sweep.cuda.wave_arithmetic import (
    AS,
    COMPARISONS,
    LOGIC,
    MASK,
    SCALAR,
    VECTOR,
    WIDE,
    lanes_of,
    signed_scalar,
)

UNKNOWN = -1
MOST_STEPS = 3_000_000
"""Stretches of code without a branch, and followed instructions, of a wavefront at most."""

DEPENDS = "a branch depends on loaded data"
_ARGUMENTS_AT = 1 << 40
"""Where the arguments lie: an address that no sum of small numbers makes."""

_NUMBER = re.compile(r"^-?(0x[0-9a-f]+|\d+)$")


@dataclass
class Wave:
    """A wavefront that executes code.

    Attributes
    ----------
    lanes : int
        32 or 64.
    scalars : dict
        Scalar registers, ``scc`` and halves of the masks ``vcc`` and ``exec``.
    vectors : dict
        Vector registers.
    kernarg : tuple
        Two scalar registers that hold the address of the arguments.
    arguments : mapping of int to int
        Words of the arguments by offset [byte].
    scratch : dict
        Vector registers in a thread's memory, by their place.
    waits : int
        How often the wavefront waited for loads.
    under_way : list of int
        Accesses that nobody waited for yet, in order: after how many waits a load came, or
        `UNKNOWN` for a store.
    """

    lanes: int
    scalars: dict[str, int | None]
    vectors: dict[str, Any]
    kernarg: tuple[str, str]
    arguments: Mapping[int, int]
    scratch: dict[str, Any] = field(default_factory=dict)
    waits: int = 0
    under_way: list[int] = field(default_factory=list)

    @property
    def active(self) -> Any:
        """Which lanes are active."""
        return lanes_of(self.mask("exec"), self.lanes)

    def mask(self, name: str) -> int:
        """Return a mask of lanes."""
        value = self.scalar(name if self.lanes == 64 else f"{name}_lo")
        if value is None:
            raise CompileError(DEPENDS)
        return value

    def scalar(self, operand: str) -> int | None:
        """Return an operand as an unsigned integer; None where it is unknown."""
        if _NUMBER.match(operand):
            return int(operand, 0)
        if operand == "null":
            return 0
        parts = [self.scalars.get(name) for name in registers(operand)]
        if not parts or None in parts:
            return None
        return sum(part << (32 * i) for i, part in enumerate(parts) if part is not None)

    def set_scalar(self, operand: str, value: int | None) -> None:
        """Write an operand."""
        for i, name in enumerate(registers(operand)):
            self.scalars[name] = None if value is None else (value >> (32 * i)) & MASK

    def vector(self, operand: str) -> Any:
        """Return an operand for each lane."""
        found = registers(operand)
        if operand.startswith(("-", "|")) and found:  # of a floating-point number
            value = self.vector(found[0])
            size = value & MASK >> 1 if "|" in operand else value
            return np.where(value == UNKNOWN, value, size ^ (operand[0] == "-") << 31)
        if found and is_vector(found[0]):
            return self.vectors.get(found[0], self._in_all_lanes(UNKNOWN))
        value = self.scalar(operand) if len(found) < 2 else None
        return self._in_all_lanes(UNKNOWN if value is None else value & MASK)

    def _in_all_lanes(self, value: int) -> Any:
        return np.full(self.lanes, value)

    def words(self, operand: str, n: int) -> list[Any]:
        """Return the words of an operand for each lane, the low one first."""
        pair = registers(operand) or [operand, "-1" if operand.startswith("-") else "0"]
        return [self.vector(word) for word in (pair if n == 2 else [operand])]

    def set_mask(self, operand: str, chosen: Any, known: Any) -> None:
        """Write a mask of the active lanes for which something holds."""
        active = self.active
        mask = sum(1 << int(lane) for lane in np.flatnonzero(chosen & active))
        self.set_scalar(operand, mask if np.all(known[active]) else None)

    def set_vector(self, name: str, value: Any, active: Any) -> None:
        """Write the active lanes of a register."""
        old = self.vectors.get(name, self._in_all_lanes(UNKNOWN))
        self.vectors[name] = np.where(active, value, old)

    def forget(self, one: Instruction) -> None:
        """Make the registers unknown that an instruction writes."""
        for name in one.writes:
            if is_vector(name):
                self.set_vector(name, UNKNOWN, self.active)
            else:
                self.scalars[name] = None

    def run(self, code: Code) -> np.ndarray:
        """Execute the code and return how often each line was executed.

        Raises
        ------
        CompileError
            A branch depends on data, or there is no end.
        """
        counts = np.zeros(len(code.lines), np.int64)
        place, followed = 0, code.followed
        for i, name in enumerate(self.kernarg):
            self.scalars[name] = _ARGUMENTS_AT >> (32 * i) & MASK
        for _ in range(MOST_STEPS):
            start = place
            while not followed[place] and code.lines[place][0].name not in ("s_branch", "s_endpgm"):
                place += 1
            counts[start : place + 1] += 1
            self._wait(code, start, place + 1)
            line, are_known = code.lines[place], followed[place]
            name = line[0].name
            place += 1
            if name == "s_endpgm":
                return counts
            if name == "s_branch":
                place = code.labels[line[0].operands[0]]
            elif name.startswith("s_cbranch"):
                place = code.labels[line[0].operands[0]] if self._branches(name) else place
            elif len(line) == 1:
                self._execute(line[0], *are_known)
            else:  # both of a pair read before either writes
                other = Wave(self.lanes, self.scalars, dict(self.vectors), self.kernarg, {})
                self._execute(line[0], are_known[0])
                other._execute(line[1], are_known[1])
                for written in line[1].writes:
                    if written in other.vectors:
                        self.vectors[written] = other.vectors[written]
        raise CompileError(f"no end after {MOST_STEPS} instructions")

    def _wait(self, code: Code, start: int, stop: int) -> None:
        """Follow accesses to memory and waits for them, which come in order.

        Loads that were under way during an earlier wait have had its time: they cost none of their
        own.
        """
        for kind in code.accesses(start, stop):
            if kind < 0:
                self.under_way.append(self.waits if kind == LOAD else UNKNOWN)
            elif len(self.under_way) > kind:
                done = len(self.under_way) - kind
                self.waits += self.waits in self.under_way[:done]
                del self.under_way[:done]

    def _branches(self, name: str) -> bool:
        what = name.removeprefix("s_cbranch_")
        if what.startswith("scc"):
            value = self.scalars.get("scc")
            if value is None:
                raise CompileError(DEPENDS)
            return bool(value) == (what == "scc1")
        return (self.mask(what.rstrip("zn")) == 0) == (not what.endswith("nz"))

    def _execute(self, one: Instruction, is_known: bool) -> None:
        is_scratch = "scratch" in one.writes or "scratch" in one.reads
        known = Wave._scratch if is_scratch else _method_for(one.name)
        (known if is_known else Wave.forget)(self, one)

    def _scratch(self, one: Instruction) -> None:
        """Store or load words of a thread's memory by their constant address."""
        offset = re.search(r"offset:(\d+)", one.text)
        base = int(offset[1]) if offset else 0
        whole = [o for o in one.operands if any(map(is_vector, registers(o)))]
        data = whole[-1] if one.name.startswith("scratch_store") else whole[0]
        address = " ".join(o for o in one.operands if o != data)
        for i, name in enumerate(registers(data)):
            key = f"{address} {base + 4 * i}"
            if "scratch" in one.writes:
                self.scratch[key] = self.vector(name)
            else:
                self.set_vector(name, self.scratch.get(key, UNKNOWN), self.active)

    def _wide(self, one: Instruction) -> None:
        sizes, operation = WIDE[one.name]
        words = [*map(self.words, one.operands[-len(sizes) :], sizes)]
        low = np.all([own[0] != UNKNOWN for own in words], axis=0)
        high = low & np.all([own[-1] != UNKNOWN for own in words], axis=0)
        numbers = (np.maximum(own, 0).astype(np.uint64) for own in words)
        result = operation(*(own[0] + (own[-1] << 32) * (len(own) - 1) for own in numbers))
        for name, known in zip(registers(one.operands[0]), (low, high), strict=True):
            word = np.where(known, (result & MASK).astype(np.int64), UNKNOWN)
            self.set_vector(name, word, self.active)
            result = result >> 32
        for name in one.writes[2:]:
            self.scalars[name] = None

    def _vector(self, one: Instruction) -> None:
        if (operation := VECTOR.get(one.name)) is None:
            self.forget(one)
            return
        values = [*map(self.vector, one.operands[1:])]
        known = np.all([value != UNKNOWN for value in values], axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = np.where(known, operation(*values) & MASK, UNKNOWN)
        self.set_vector(one.operands[0], result, self.active)

    def _select(self, one: Instruction) -> None:
        mask = one.operands[3] if len(one.operands) > 3 else "vcc"
        lanes = self.scalar(mask if mask != "vcc" or self.lanes == 64 else "vcc_lo")
        chosen = self._in_all_lanes(UNKNOWN)
        if lanes is not None:
            other, value = map(self.vector, one.operands[1:3])
            chosen = np.where(lanes_of(lanes, self.lanes), value, other)
        self.set_vector(one.operands[0], chosen, self.active)

    def _add(self, one: Instruction) -> None:
        """Add or subtract with a carry to a mask of lanes, and perhaps with one from a mask."""
        first, second = map(self.vector, one.operands[2:4])
        known = (first != UNKNOWN) & (second != UNKNOWN)
        if "rev" in one.name:
            first, second = second, first
        if len(one.operands) > 4:
            carry = self.scalar(one.operands[4])
            known &= carry is not None
            second = second + lanes_of(carry or 0, self.lanes)
        total = first - second if "sub" in one.name else first + second
        self.set_mask(one.operands[1], total >> 32 != 0, known)
        self.set_vector(one.operands[0], np.where(known, total & MASK, UNKNOWN), self.active)

    def _read_first_lane(self, one: Instruction) -> None:
        values = self.vector(one.operands[1])[self.active]
        same = len(values) > 0 and values[0] != UNKNOWN
        self.set_scalar(one.operands[0], int(values[0]) if same else None)

    def _read_lane(self, one: Instruction) -> None:
        lane = self.scalar(one.operands[2])
        value = UNKNOWN if lane is None else int(self.vector(one.operands[1])[lane])
        self.set_scalar(one.operands[0], None if value == UNKNOWN else value)

    def _write_lane(self, one: Instruction) -> None:
        written, lane = map(self.scalar, one.operands[1:3])
        where = np.arange(self.lanes) == lane if lane is not None else True
        self.set_vector(one.operands[0], UNKNOWN if written is None else written & MASK, where)

    def _compare(self, one: Instruction) -> None:
        found = re.match(r"v_cmpx?_(\w+)_(?:([iu])(16|32|64)|(f)32)$", one.name)
        chosen, known = np.zeros(self.lanes, bool), np.zeros(self.lanes, bool)
        if found and found[1] in COMPARISONS:
            read = AS[found[2] or found[4]]
            pairs = [self.words(o, 2 if found[3] == "64" else 1) for o in one.operands[-2:]]
            known = np.all([word != UNKNOWN for pair in pairs for word in pair], axis=0)
            # The high words may have a sign, and decide unless they are equal.
            highs, compare = [read(words[-1]) for words in pairs], COMPARISONS[found[1]]
            chosen = compare(*highs)
            if found[3] == "64":
                lows = compare(pairs[0][0], pairs[1][0])
                chosen = np.where(highs[0] == highs[1], lows, chosen)
        if len(one.operands) == 3:
            self.set_mask(one.operands[0], chosen, known)
        if one.name.startswith("v_cmpx"):
            self.set_mask("exec" if self.lanes == 64 else "exec_lo", chosen, known)

    def _load_arguments(self, one: Instruction) -> None:
        parts = [self.scalar(operand) for operand in one.operands[1:3]]
        start = sum(part or 0 for part in parts) - _ARGUMENTS_AT
        for i, word in enumerate(registers(one.operands[0])):
            self.scalars[word] = None if None in parts else self.arguments.get(start + 4 * i)

    def _save_mask(self, one: Instruction) -> None:
        wide = one.name.endswith("64")
        value, old = self.scalar(one.operands[1]), self.mask("exec")
        self.set_scalar(one.operands[0], old)
        operation = LOGIC[one.name.removeprefix("s_").split("_saveexec")[0]]
        new = None if value is None else operation(value, old) & (2 ** (64 if wide else 32) - 1)
        self.set_scalar("exec" if wide else "exec_lo", new)
        self.scalars["scc"] = None if new is None else int(new != 0)

    def _compare_scalars(self, one: Instruction) -> None:
        values = [*map(self.scalar, one.operands)]
        kind = re.match(r"s_cmpk?_(\w+)_([iu])(32|64)$", one.name)
        if None in values or kind is None or kind[1] not in COMPARISONS:
            self.forget(one)
            return
        size = int(kind[3])
        given = [value & (2**size - 1) for value in values if value is not None]
        pair = [signed_scalar(v, size) if kind[2] == "i" else v for v in given]
        self.scalars["scc"] = int(COMPARISONS[kind[1]](*pair))

    def _scalar(self, one: Instruction) -> None:
        name, size = one.name, 64 if one.name.endswith("64") else 32
        values = [*map(self.scalar, one.operands[1:])]
        if name.startswith(("s_cselect", "s_addc", "s_subb")):
            values.append(self.scalars.get("scc"))
        stem = re.sub(r"_[biu](32|64)$", "", name)
        operation = SCALAR.get(name) or SCALAR.get(stem)
        if None in values or operation is None:
            self.forget(one)
            return
        given = [value & (2**size - 1) for value in values if value is not None]
        result = operation(*given)
        self.set_scalar(one.operands[0], result & (2**size - 1))
        if "scc" in one.writes:
            says = result & (2**size - 1) != 0
            if stem in ("s_add", "s_sub", "s_addc", "s_subb"):
                says = result >> 32 != 0
            elif stem in ("s_min", "s_max"):
                says = result == given[0]
            overflows = name in ("s_add_i32", "s_sub_i32")  # of signed numbers: not followed
            self.scalars["scc"] = None if overflows else int(says)


_METHODS: tuple[tuple[str, Callable[[Wave, Instruction], None]], ...] = (
    ("s_(waitcnt|barrier|nop|delay|clause)", lambda wave, one: None),
    ("s_load", Wave._load_arguments),
    (r"s_\w*saveexec", Wave._save_mask),
    ("s_cmp", Wave._compare_scalars),
    ("s_", Wave._scalar),
    ("v_cmp", Wave._compare),
    ("v_cndmask_b32$", Wave._select),
    ("v_readfirstlane_b32$", Wave._read_first_lane),
    ("v_readlane_b32$", Wave._read_lane),
    ("v_writelane_b32$", Wave._write_lane),
    (rf"({'|'.join(WIDE)})$", Wave._wide),
    (r"v_(add|sub)\w*_co_", Wave._add),
    ("", Wave._vector),
)
"""How names of instructions begin, and what follows them: the first that fits."""


@cache
def _method_for(name: str) -> Callable[[Wave, Instruction], None]:
    return next(method for pattern, method in _METHODS if re.match(pattern, name))


def first_state(
    user: Sequence[str], thread: Sequence[Any], block: Sequence[int], *, packed: bool
) -> tuple[dict[str, int | None], dict[str, Any]]:
    """Return scalar and vector registers at the start of a wavefront.

    Parameters
    ----------
    user : sequence of str
        What the scalar registers hold, one name each; ``block_x``, ``block_y`` and ``block_z`` are
        the place of the block in the grid.
    thread : sequence of ndarray
        Places in the block of the lanes' threads.
    block : sequence of int
        The block's place.
    packed : bool
        Whether the places lie in one register, ten bits each.
    """
    places = dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
    scalars = {f"s{i}": places.get(name) for i, name in enumerate(user)}
    x, y, z = thread
    vectors = {"v0": x | y << 10 | z << 20} if packed else {"v0": x, "v1": y, "v2": z}
    return scalars, vectors

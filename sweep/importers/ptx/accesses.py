"""The memory accesses of an instruction: sizes, and patterns that follow from the addresses."""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from sweep.importers.ptx.control_flow import Block, Graph
from sweep.importers.ptx.instructions import LARGEST_WORD, Meaning, meaning_of
from sweep.importers.ptx.lanes import (
    FAR,
    FLOATS,
    SECTOR,
    WIDE,
    Numbers,
    is_in_each_turn,
    runs_of,
    sectors_by_warp,
    sectors_of,
    wavefronts_of,
)
from sweep.importers.ptx.module import Address, Instruction, Operand
from sweep.importers.ptx.registers import UNKNOWN, WARP, Sides, Value, Values
from sweep.importers.ptx.tokens import integer_of

LARGEST_TILE = 2**20
"""Most bytes that an ``mbarrier`` expects."""

# Most bytes of a thread that L1 keeps: 128 KiB for 2048 threads, the least of any compute
# capability from 7.0 on (sweep/hardware/occupancy_limits.csv).
MOST_KEPT = 64

_BESIDE_L1 = {"cg", "cv", "volatile", "relaxed", "acquire", "L1::no_allocate"}
_PRIME, _NEAR = 2**127 - 1, 2**62

# Sums and products by opcode and number of operands; `or` is a sum as in `registers`.
_SUMS: dict[tuple[str, int], Callable[..., int]] = {
    ("mov", 2): operator.pos, ("cvt", 2): operator.pos, ("cvta", 2): operator.pos,
    ("add", 3): operator.add, ("or", 3): operator.add, ("sub", 3): operator.sub,
    ("mul", 3): operator.mul, ("mad", 4): lambda a, b, c: a * b + c,
    ("shl", 3): lambda a, b: a * pow(2, b, _PRIME), ("neg", 2): operator.neg,
    ("not", 2): operator.invert,
}  # fmt: skip

_TILE = "one thread of a block copies for all of them, whole sectors"
_SHORT_ROWS = "a warp holds several rows, whose distance is only known at run time"


class Shape(NamedTuple):
    """One kind of access; accesses of the same shape are counted together.

    Attributes
    ----------
    space : str
        ``global`` (local memory and textures included) or ``shared``.
    direction : str
        ``load`` or ``store``.
    bytes : int
        Word size per thread; wider accesses consist of several words.
    words : float
        Words per thread in one instruction; of a block's copy, a thread's share.
    pattern : str
        The access pattern, as in kernel files.
    x, y, z : int
        Distances between threads for pattern ``affine``; for ``strided``, the one in x [words].
    assumed : str
        Why the pattern is assumed; ``""`` if it follows from the addresses.
    origin : str
        A special kind of memory: ``local memory``, ``texture``, ``atomic``, ``tile``; else
        ``""``.
    transactions : float
        Sectors, or passes through the banks, of a warp's word where no pattern says it; else 0.
    is_copy : bool
        Whether the words go to shared memory without a register, and a thread need not wait.
    hits : float
        The share of its sectors that accesses shortly before it touched too.
    """

    space: str
    direction: str
    bytes: int
    words: float
    pattern: str
    x: int = 0
    y: int = 0
    z: int = 0
    assumed: str = ""
    origin: str = ""
    transactions: float = 0.0
    is_copy: bool = False
    hits: float = 0.0


Shapes = tuple[Shape, ...]
Accesses = Mapping[Block, Sequence[Shapes]]
"""The accesses of each instruction, by basic block."""

Turns = Mapping[int, tuple[Address, Numbers]]
"""An address and how many bytes after it an access lies in each turn of loops, by the identity of
its instruction, if that is known in all."""


def shapes_of(
    instruction: Instruction, meaning: Meaning, values: Values, block: Sides | None
) -> tuple[Shape, ...]:
    """Return the accesses of an instruction; none if it reads constants.

    Parameters
    ----------
    instruction : Instruction
        A memory access.
    meaning : Meaning
        Its meaning.
    values : Values
        The values of the registers.
    block : tuple of int or None
        Width, height and depth of a block, if known.
    """
    found = [values.of(address) for address in instruction.addresses]
    known = values.lanes
    lanes = [known.of(address) if known else None for address in instruction.addresses]
    direction, size = meaning.direction, meaning.bytes
    if meaning.is_copy:  # what it writes is its pass through L1, the same memory
        copied = _plain("global", direction, size)._replace(is_copy=True)
        return (_shape(copied, (*found, UNKNOWN, UNKNOWN)[1], size, block, lanes[1:2]),)
    value = found[0] if found else UNKNOWN
    space = meaning.kind
    if space == "generic":
        space = value.space or "global"
    if space in ("const", "param"):
        return ()
    atomic = "atomic" if instruction.opcode in ("atom", "red") else ""
    origin = {"local": "local memory", "texture": "texture"}.get(space, atomic)
    shape = _plain("shared" if space == "shared" else "global", direction, size, origin)
    if space == "local":  # the words of a warp's threads are contiguous
        return (shape,)
    if space == "texture":
        return (shape._replace(assumed="the layout of a texture is not in the PTX"),)
    rows = lanes[0] if instruction.opcode in ("ldmatrix", "stmatrix") and lanes else None
    if rows is not None:
        return (_by_lanes(shape, rows, size, n_rows=min(2 * size, WARP)),)
    if instruction.opcode in ("wmma", "ldmatrix", "stmatrix"):
        # One address refers to a row of a matrix.
        shape = _shape(shape, value._replace(x=None), size, block)
        pattern = "strided" if space == "shared" else "coalesced"
        return (shape._replace(pattern=pattern, assumed="a warp accesses a matrix together"),)
    active = known.active(instruction) if known and size and space != "shared" else None
    of_all = _shape(shape, value, size, block, lanes[:1])
    if known and known.from_memory.intersection(a.base for a in instruction.addresses):
        of_all = of_all._replace(assumed="words in memory are taken to be unrelated numbers")
    if known is None or active is None or (there := known.of_value(value, lanes[0])) is None:
        return (of_all,)
    if not active.any():
        return ()
    shape = of_all if of_all.pattern == "broadcast" else shape
    return (shape._replace(transactions=sectors_of(there, size, active) / shape.words),)


def tile_shapes(
    instruction: Instruction, meaning: Meaning, values: Values, block: Sides | None
) -> tuple[Shape, ...]:
    """Return a thread's share of the accesses with which one thread copies a tile for its block.

    Parameters
    ----------
    instruction : Instruction
        A copy, whose third operand is the bytes, or its announcement, whose last is.
    meaning, values, block
        As for :func:`shapes_of`; none if the bytes or the block are not known.
    """
    places = instruction.operands[2:3] if meaning.tile == "store" else instruction.operands[-1:]
    size = values.of(places[0]).constant if places else None
    if block is None or size is None or not 0 < size <= LARGEST_TILE:
        return ()
    words = size / LARGEST_WORD / math.prod(block)
    moved = _plain("global", meaning.tile, LARGEST_WORD, "tile")
    moved = moved._replace(words=words, assumed=_TILE, is_copy=meaning.tile == "load")
    if moved.is_copy:
        return (moved,)
    return moved, _plain("shared", "load", LARGEST_WORD, "tile")._replace(words=words)


def _plain(space: str, direction: str, size: int, origin: str = "") -> Shape:
    """Return an access to contiguous words; 4 bytes if the opcode does not specify the size."""
    word = min(size or 4, LARGEST_WORD)
    pattern, x = ("strided", 1) if space == "shared" else ("coalesced", 0)
    return Shape(space, direction, word, -(-(size or 4) // word), pattern, x, origin=origin)


def _shape(
    shape: Shape, value: Value, size: int, block: Sides | None, lanes: Sequence[Any] = ()
) -> Shape:
    """Return an access with the pattern that follows from its address."""
    if not value.is_affine and size and lanes and lanes[0] is not None:
        return _by_lanes(shape, lanes[0], size)
    if not value.is_affine:
        return shape._replace(assumed="the address is no linear function of the thread's index")
    if not size:
        return shape._replace(assumed="the opcode does not tell how much is accessed")
    # A warp may contain several rows of a block.
    has_short_rows = block is not None and block[0] % WARP != 0 and block[1] * block[2] > 1
    if has_short_rows and shape.words == 1 and not value.is_uniform:
        distances = [d // shape.bytes for d in value[:3] if d is not None and not d % shape.bytes]
        if len(distances) == 3:
            x, y, z = distances
            return shape._replace(pattern="affine", x=x, y=y, z=z)
    found = _along_x(shape, value, size)
    if has_short_rows and None in (value.y, value.z) and not found.assumed:
        return found._replace(assumed=_SHORT_ROWS)
    return found


def _by_lanes(shape: Shape, addresses: Numbers, size: int, n_rows: int = 0) -> Shape:
    """Return an access with the transactions that its threads' addresses make.

    The first threads of a warp have the addresses of a matrix's rows, if there are any.
    """
    if shape.space == "shared":
        found = wavefronts_of(addresses, LARGEST_WORD if n_rows else size, n_rows or WARP)
        least = max(size / 4.0, 1.0)
    else:
        found, least = sectors_of(addresses, size), float(size)
        if (addresses == addresses[0]).all():
            return shape._replace(pattern="broadcast")
    return shape if found == least else shape._replace(transactions=found / shape.words)


def _along_x(shape: Shape, value: Value, size: int) -> Shape:
    """Return an access with the pattern of threads adjacent in x."""
    is_global = shape.space != "shared"
    if value.x is None:
        why = "the distance of two threads is only known at run time"
        return shape._replace(pattern="uncoalesced" if is_global else "strided", assumed=why)
    distance = abs(value.x)
    if is_global and value.x == -size:
        return shape._replace(assumed="the words run backwards: taken to end at a segment's end")
    if distance == size:
        is_aligned = value.alignment >= SECTOR  # segments of GPUs before 2.0 are larger
        return shape._replace(pattern="misaligned") if is_global and not is_aligned else shape
    if is_global and distance == 0:
        return shape._replace(pattern="broadcast")
    words, rest = -(-distance // shape.bytes), distance % shape.bytes
    why = f"{distance} bytes from thread to thread are no whole words" if rest else ""
    pattern = "coalesced" if is_global and rest and words == 1 else "strided"
    return shape._replace(pattern=pattern, x=words, assumed=why)


def accesses_of(graph: Graph, values: Values, block: Sides | None) -> tuple[Accesses, Turns]:
    """Return the accesses of all instructions that are executed, and which of them hit.

    Loops of few turns are followed through all of them: `Turns` has what their addresses do.
    """
    result: dict[Block, list[Shapes]] = {}
    runs, ends = runs_of(graph)
    neighbours = _Neighbours(graph, values, ends)
    for part in graph.blocks:
        for instruction in part.instructions if part.share > 0.0 else ():
            meaning = meaning_of(instruction)
            found: Shapes = ()
            if meaning.direction or meaning.tile:
                shapes = shapes_of if meaning.direction else tile_shapes
                found = shapes(instruction, meaning, values, block)
            result.setdefault(part, []).append(found)
    for run in runs:
        neighbours.follow([part for part in run if part in result], result)
    for part, shapes_there in result.items():
        result[part] = list(map(neighbours.with_hits, part.instructions, shapes_there))
    return result, neighbours.turns()


class _Neighbours:
    """Follows addresses through the code, to find the sectors that were touched just before.

    Where rows are not aligned, compilers read neighbouring words by several instructions, each of
    which touches the sectors of all. The first load brings them into L1 and the others hit; stores,
    also those of a block's other warps, meet in L2. Only accesses of one basic block are compared,
    or in all turns of loops of few turns: of code that each turn executes, and of any other block.

    Whatever is not followed (pointers, results of loads, registers that change, at the beginning
    of a basic block) is a random number of a large field, in which sums and products are computed:
    two addresses are in one array if they differ by a small number. Integer arguments are those of
    `Lanes`, so that rows that they part are compared, too.
    """

    def __init__(self, graph: Graph, values: Values, ends: Container[Block]) -> None:
        code = [i for block in graph.blocks for i in block.instructions]
        writes = Counter(register for i in code for register in i.reads_and_writes[1])
        self._changing = {register for register, n in writes.items() if n > 1}
        scaled = [i for i in code if i.opcode in ("mul", "mad", "shl", "neg")]
        self._factors = {o for i in scaled for o in i.operands[1:3]}  # which are no pointers
        self._values, self._random, self._first = values, Random(0), dict[int, Any]()
        self._halves = dict[int, list[int]]()
        self._ends = ends  # of what stands for many turns, which bring much else
        self._numbers: dict[Operand, int] = defaultdict(self._new)
        self._turns: dict[int, list[int]] = defaultdict(list)
        self._touched: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def follow(self, run: Sequence[Block], accesses: Accesses) -> None:
        """Follow basic blocks in the order in which they are executed, from the first one on."""
        self._brought = 0.0
        self._seen: dict[Hashable, tuple[Numbers, dict[int, float]]] = {}
        self._current: dict[Operand, int] = defaultdict(self._new)
        for part in run:
            always = len(run) == 1 or is_in_each_turn(part)
            place = None if always else part if part.share == 1.0 else object()  # of which turns?
            for instruction, shapes in zip(part.instructions, accesses[part], strict=True):
                if instruction.addresses and shapes and shapes[0].space == "global":
                    self._access(instruction, shapes[0], place)
                self._execute(instruction, always)
            if part in self._ends:
                self._seen = {}

    def turns(self) -> Turns:
        """Return how far each access lies from the first one of its array: registers change."""
        result: dict[int, tuple[Address, Numbers]] = {}
        for key, numbers in self._turns.items():
            if found := self._first.get(numbers[0] // _NEAR):
                steps = [(number - found[1] + _NEAR) % _PRIME - _NEAR for number in numbers]
                result |= {key: (found[0], np.array(steps))} if max(steps) < _NEAR else {}
        return result

    def with_hits(self, instruction: Instruction, shapes: Shapes) -> Shapes:
        """Return the accesses of an instruction with their `Shape.hits` in all turns."""
        if (found := self._touched.get(id(instruction))) is None:
            return shapes
        hits = 1.0 - sum(n_new for n_new, _ in found) / len(found) / found[0][1]
        return tuple(shape._replace(hits=max(0.0, hits)) for shape in shapes)

    def _execute(self, instruction: Instruction, always: bool) -> None:
        """Set the registers that an instruction writes."""
        (_, written), operands, number = instruction.reads_and_writes, instruction.operands, None
        lanes, opcode = self._values.lanes, instruction.opcode
        if not instruction.predicate and len(written) == 1:
            result = _SUMS.get((opcode, len(operands)))
            if result and {*FLOATS, "hi"}.isdisjoint(instruction.modifiers):
                number = result(*map(self._number, operands[1:])) % _PRIME
            elif lanes and opcode == "ld" and written[0] in self._factors:
                argument = lanes.of(written[0])  # not known of memory but parameters
                number = None if argument is None else int(argument[0])
        numbers: dict[Operand, int | None] = dict.fromkeys(written, number)
        moved = operands if opcode == "mov" else ()
        if moved and isinstance(moved[-1], tuple):  # a pair in one register
            numbers[moved[0]] = pair = self._new()
            self._halves[pair] = list(map(self._number, moved[-1]))
        elif moved and isinstance(moved[0], tuple):
            halves = self._halves.get(self._number(moved[-1]), ())
            numbers |= dict(zip(moved[0], halves, strict=False))
        for register in written:
            known, number = self._numbers, numbers[register]
            if register in self._changing:
                known, number = self._current, number if always else None
            known[register] = self._new() if number is None else number

    def _new(self) -> int:
        return self._random.getrandbits(126)

    def _number(self, operand: Operand) -> int:
        if isinstance(operand, Address):
            return ((self._number(operand.base) if operand.base else 0) + operand.offset) % _PRIME
        if isinstance(operand, tuple):
            return self._new()
        literal = integer_of(operand) if isinstance(operand, str) else None
        known = self._current if operand in self._changing else self._numbers
        return known[operand] if literal is None else literal

    def _access(self, instruction: Instruction, shape: Shape, place: object) -> None:
        """Find the sectors of an access that none in the same place, if any, has touched before."""
        lanes, number = self._values.lanes, self._number(address := instruction.addresses[-1])
        self._turns[id(instruction)].append(self._new() if type(place) is object else number)
        is_whole = instruction.opcode in ("ld", "ldu", "st") or "ca" in instruction.modifiers
        is_load = shape.direction == "load"  # stores meet in L2, with L1 or without
        is_kept = is_whole and not (is_load and _BESIDE_L1.intersection(instruction.modifiers))
        base, distance = divmod(number, _NEAR)
        key = shape.direction, base, place
        self._first.setdefault(base, (address, number))
        if shape.origin or not is_kept:
            return
        if key not in self._seen:
            value, addresses = self._values.of(address), lanes.of(address) if lanes else None
            if lanes is None and value.is_affine:
                addresses = np.arange(WARP) * (WIDE if value.x is None else value.x)
            if addresses is None:
                return
            self._seen[key] = addresses - distance, {}
        rest, seen = self._seen[key]
        active = lanes.active(instruction) if lanes else None
        by_warp = sectors_by_warp(rest + distance, int(shape.bytes * shape.words), active)
        touched = (by_warp if is_load else np.unique(by_warp % FAR)).tolist()
        least = self._brought - MOST_KEPT if is_load else -np.inf
        n_new = sum(sector not in seen or seen[sector] < least for sector in touched)
        seen |= dict.fromkeys(touched, self._brought)
        self._brought += n_new * SECTOR / len(rest)
        self._touched[id(instruction)].append((n_new, len(by_warp)))

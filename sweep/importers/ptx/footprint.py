"""What the blocks of a grid read from global memory: in all, and of it what is not read before.

A word is read again by a thread of the same block (found from the addresses of the first block's
threads), by a block in whose row or column of the grid addresses do not change, and by a later loop
that reads as much of the same array. Everything else counts as read once, tiles that one thread
copies too, so that the distinct bytes are an upper bound but for the last rule, which is assumed.
How much else is read in between differs: nothing but a turn of a loop by threads of one block, what
the blocks that run at once read by a later loop or where all blocks read alike, else all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sweep.importers.ptx.accesses import Accesses, Shape
from sweep.importers.ptx.control_flow import Amount, Passage, nest
from sweep.importers.ptx.instructions import meaning_of
from sweep.importers.ptx.lanes import SECTOR, Numbers, sectors_of, touched_sectors
from sweep.importers.ptx.module import Function, Register
from sweep.importers.ptx.registers import Values

AXES = frozenset({"%ctaid.x", "%ctaid.y", "%ctaid.z"})
MEMORY = "%memory"
"""What an address depends on that is read from memory itself."""

MAX_PASSES = 20
"""Most passes over the code to find what registers depend on; it takes three or four."""


class Read(NamedTuple):
    """Loads of one array in one loop, by a thread in one iteration.

    Attributes
    ----------
    passage : Passage
        The loop.
    share : float
        The share of its iterations that load.
    axes : frozenset of str
        The directions of the grid (``%ctaid.x``) in which addresses change.
    requested : float
        Bytes that a thread asks for, in whole sectors of its warp, but those that hit in L1.
    distinct : float
        Bytes of it that no thread of the block asks for too.
    is_again : bool
        Whether an earlier loop read the same.
    """

    passage: Passage
    share: float
    axes: frozenset[str]
    requested: float
    distinct: float
    is_again: bool = False


def reads_of(function: Function, values: Values, accesses: Accesses) -> list[Read]:
    """Return what a function loads from global memory, by array and loop.

    Parameters
    ----------
    function : Function
        A function with its calls inlined.
    values : Values
        The values of the registers.
    accesses : mapping of Block to sequence of tuple of Shape
        The accesses of each instruction of the blocks that are executed.
    """
    origins = _origins(function)
    result: list[Read] = []
    groups: dict[tuple[frozenset[str], Passage, float], list[tuple[Shape, Numbers | None]]]
    groups = defaultdict(list)
    for part, found_there in accesses.items():
        for instruction, found in zip(part.instructions, found_there, strict=True):
            addresses = instruction.addresses
            if found and meaning_of(instruction).tile == "load":
                tile = found[0].bytes * found[0].words
                result.append(Read(part.passage, part.share, AXES, tile, tile))
            elif found and addresses and found[0][:2] == ("global", "load") and not found[0].origin:
                is_whole = instruction.opcode in ("ld", "ldu", "cp")  # an address of each thread
                lanes = values.lanes.of(addresses[-1]) if values.lanes and is_whole else None
                base = addresses[-1].base
                origin = origins[base] if isinstance(base, Register) else frozenset({base})
                groups[origin, part.passage, part.share].append((found[0], lanes))
    seen = set()
    for (origin, passage, share), loads in groups.items():
        axes = AXES if MEMORY in origin else AXES & origin
        requested, distinct = _bytes(loads)
        often = tuple(loop.formula or loop.trips or loop.size for loop in nest(passage[0]))
        key = origin, share, requested, distinct, often
        result.append(Read(passage, share, axes, requested, distinct, key in seen))
        if often and MEMORY not in origin:
            seen.add(key)
    return result


def needs_grid(function: Function, reads: Iterable[Read]) -> bool:
    """Return whether it takes the grid to tell which of its blocks read the same."""
    operands = [o for i in function.instructions() for o in i.operands if isinstance(o, str)]
    used = AXES.intersection(operands)
    return any(read.axes and read.axes < used for read in reads)


class Footprint(NamedTuple):
    """Bytes that a thread reads.

    ``read`` is all but what hits in L1, ``turn`` what of it no thread of the block reads too in the
    same turn of a loop. Of that, for the first time, blocks read ``own``, or all alike ``common``;
    ``distinct`` is a block's share of its own where several blocks read the same.
    """

    read: Amount
    turn: Amount
    own: Amount
    distinct: Amount
    common: Amount

    @property
    def is_read_once(self) -> bool:
        """Whether no word is read twice, as far as is known."""
        same = all(math.isclose(self.distinct[p], self.read[p]) for p in self.read)
        return not self.common and same


def footprint_of(reads: Iterable[Read], grid: tuple[int, ...] | None) -> Footprint:
    """Return what a thread reads.

    Parameters
    ----------
    reads : iterable of Read
        What the kernel loads.
    grid : tuple of int or None
        Blocks in x, y and z; if not known, only what all blocks read alike is read again.
    """
    found = Footprint(*(defaultdict(float) for _ in Footprint._fields))
    for read in reads:
        sides = zip(sorted(AXES), grid or (), strict=False)
        repeats = math.prod(side for axis, side in sides if axis not in read.axes)
        found.read[read.passage] += read.share * read.requested
        found.turn[read.passage] += (new := read.share * read.distinct)
        if not read.is_again and read.axes:
            found.own[read.passage] += new
            found.distinct[read.passage] += new / repeats
        elif not read.is_again:
            found.common[read.passage] += new
    return found


def _bytes(loads: Iterable[tuple[Shape, Numbers | None]]) -> tuple[float, float]:
    """Return the bytes that a thread asks for, and those of them that are distinct in its block."""
    requested, distinct, sectors, n_threads = 0.0, 0.0, [], 1
    for shape, addresses in loads:
        size = shape.bytes * shape.words
        if addresses is None:
            requested, distinct = requested + size, distinct + size
        else:  # a sector of a warp is a byte of each of its 32 threads
            requested += sectors_of(addresses, int(size)) * (1.0 - shape.hits)
            n_threads = len(addresses)
            sectors.append(touched_sectors(addresses, int(size)).ravel())
    if sectors:
        distinct += len(np.unique(np.concatenate(sectors))) * SECTOR / n_threads
    return requested, distinct


def _origins(function: Function) -> dict[Register, frozenset[str]]:
    """Return what the value of every register depends on.

    That are `AXES`, `MEMORY`, and names of variables and of pointers among the parameters.
    """
    pointers = {p.name for p in function.parameters if (p.bytes or 0) >= 8}
    named = AXES.union(v.name for v in (*function.variables, *function.module.variables))
    found: dict[Register, frozenset[str]] = defaultdict(frozenset)
    code = list(function.instructions())
    for _ in range(MAX_PASSES):
        is_changing = False
        for instruction in code:
            read, written = instruction.reads_and_writes
            if not written:
                continue
            origin = frozenset().union(*(found[register] for register in read))
            origin |= {o for o in instruction.operands if isinstance(o, str) and o in named}
            if instruction.opcode in ("ld", "ldu", "atom", "tex", "shfl", "call"):
                names = {str(address.base) for address in instruction.addresses}
                is_parameter = "param" in instruction.modifiers
                origin |= names & pointers if is_parameter else {MEMORY}
            for register in written:
                if not origin <= found[register]:
                    found[register] |= origin
                    is_changing = True
        if not is_changing:
            return found
    return defaultdict(lambda: frozenset({MEMORY}))

"""What the blocks of a grid read from global memory: in all, and of it what is not read before.

A word is read again by a thread of the same block (found from the addresses of the first block's
threads, in all turns of a loop if they are few), by a block in whose row or column of the grid
addresses do not change (also if a kernel makes rows and columns of one index, `split_of`), and by a
later loop that reads as much of the same array. Everything else counts as read once, tiles that one
thread copies too, so that the distinct bytes are an upper bound but for the last rule, which is
assumed. How much else is read in between differs: nothing but a
turn of a loop by threads of one block, what the blocks that run at once read by a later loop, and
what the blocks of the grid between two that read the same do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sweep.hardware.memory_rules import HALF_WARP, LINE_BYTES
from sweep.importers.ptx.accesses import Accesses, Shape, Turns
from sweep.importers.ptx.control_flow import Amount, Block, Passage, nest
from sweep.importers.ptx.instructions import meaning_of
from sweep.importers.ptx.lanes import (
    SECTOR,
    WARP,
    Active,
    Lanes,
    Numbers,
    sectors_of,
    touched_sectors,
)
from sweep.importers.ptx.module import Address, Function, Operand, Register
from sweep.importers.ptx.registers import Values
from sweep.specs.kernel import Value

AXES = frozenset({"%ctaid.x", "%ctaid.y", "%ctaid.z"})
MEMORY = "%memory"
"""What an address depends on that is read from memory itself."""

SPLIT, MOST_FOLLOWED = "xuvw", 2**14
"""Directions into which a kernel splits its grid's x, and the most blocks that are compared."""

MAX_PASSES = 20
"""Most passes over the code to find what registers depend on; it takes three or four."""

_Load = tuple[Shape, Address | None, Numbers, Active]
_Known = tuple[Address, int, Numbers, Active]


class Read(NamedTuple):
    """Loads of one array in one loop, by a thread in one iteration.

    Attributes
    ----------
    amount : Amount
        How often the loads are executed, by passage.
    axes : frozenset of str
        The directions of the grid (``%ctaid.x``) in which addresses change.
    requested : float
        Bytes that a thread asks for, in whole sectors of its warp, but those that hit in L1.
    distinct : float
        Bytes of it that no thread of the block asks for too in the same turn.
    is_again : bool
        Whether an earlier loop read the same.
    parts : mapping of frozenset of str to float
        ``distinct``, without what another turn of the block reads if turns are few, by the
        directions in which the block beside it does not read the same: in part of ``axes``, where
        tiles overlap.
    """

    amount: Amount
    axes: frozenset[str]
    requested: float
    distinct: float
    is_again: bool = False
    parts: Mapping[frozenset[str], float] = {}


def reads_of(
    function: Function,
    values: Values,
    accesses: Accesses,
    turns: Turns,
    copies: Callable[[Block], Amount],
    split: Split,
) -> list[Read]:
    """Return what a function loads from global memory, by array and loop.

    Parameters
    ----------
    function : Function
        A function with its calls inlined.
    values : Values
        The values of the registers.
    accesses : mapping of Block to sequence of tuple of Shape
        The accesses of each instruction of the blocks that are executed.
    turns : mapping of int to array
        Where they are in each turn of loops of few turns.
    copies : callable
        Returns how often the copies of a block bring something, by passage.
    split : Split
        How the kernel splits the grid's x.
    """
    origins = _origins(function)
    of_x = frozenset(f"%ctaid.{d}" for d in split.steps)
    every = AXES | of_x
    result: list[Read] = []
    groups: dict[tuple[frozenset[str], tuple[tuple[Passage, float], ...], int], list[_Load]]
    groups = defaultdict(list)
    for part, found_there in accesses.items():
        for instruction, found in zip(part.instructions, found_there, strict=True):
            addresses = instruction.addresses
            is_copy = found and found[0].is_copy
            amount = copies(part) if is_copy else {part.passage: part.share}
            if found and meaning_of(instruction).tile == "load":
                tile = found[0].bytes * found[0].words
                result.append(Read(amount, every, tile, tile, parts={every: tile}))
            elif found and addresses and found[0][:2] == ("global", "load") and not found[0].origin:
                is_whole = instruction.opcode in ("ld", "ldu", "cp")  # an address of each thread
                base = addresses[-1].base
                origin = origins[base] if isinstance(base, Register) else frozenset({base})
                where = turns.get(id(instruction), (addresses[-1], np.zeros(1, np.int64)))
                address, steps = where if is_whole else (None, where[1])
                active = values.lanes.active(instruction) if values.lanes else None
                load = found[0], address, steps, active
                groups[origin, tuple(amount.items()), len(steps)].append(load)
    lanes = values.lanes
    used = AXES.intersection(axis for origin, *_ in groups for axis in origin)
    next_ones = {axis: {axis: 1} for axis in used}
    if "%ctaid.x" in used:
        next_ones |= {f"%ctaid.{d}": {"%ctaid.x": step} for d, step in split.steps.items()}
    beside = {axis: lanes.elsewhere(at) for axis, at in next_ones.items()} if lanes else {}
    seen = set()
    for (origin, amounts, _), loads in groups.items():
        axes = AXES if MEMORY in origin else AXES & origin
        if "%ctaid.x" in axes:
            own = (split.changing.get(address, of_x) for _, address, *_ in loads)
            axes = (axes - {"%ctaid.x"}).union(*own)
        requested, distinct, parts = _bytes(loads, lanes, beside, axes)
        (passage, share), *_ = amounts
        often = tuple(loop.formula or loop.trips or loop.size for loop in nest(passage[0]))
        key = origin, share, requested, distinct, often
        result.append(Read(dict(amounts), axes, requested, distinct, key in seen, parts))
        if often and MEMORY not in origin:
            seen.add(key)
    return result


def needs_grid(function: Function, reads: Iterable[Read]) -> bool:
    """Return whether it takes the grid to tell which of its blocks read the same."""
    operands = [o for i in function.instructions() for o in i.operands if isinstance(o, str)]
    used = AXES.intersection(operands)
    return any(read.axes and read.axes < used for read in reads)


class Split(NamedTuple):
    """How a kernel splits the grid's x into directions of its own, such as rows and columns.

    Attributes
    ----------
    steps : mapping of str to int
        How many blocks in x lie between neighbours in each direction. The outermost direction comes
        first and is named x, like the grid's own; the others have the further names of `SPLIT`.
    changing : mapping of Address to frozenset of str
        The directions in which an address changes, if that is known.
    """

    steps: Mapping[str, int]
    changing: dict[Address | None, frozenset[str]]


NO_SPLIT = Split({"x": 1}, {})


def split_of(function: Function, values: Values, n_blocks: int) -> tuple[Split, list[int]]:
    """Return how a kernel splits ``n_blocks`` in x, or which arguments by position tell how.

    Block by block, the address of a load may change for the first time, return to that of the first
    block, or stop to repeat itself. After so many blocks the next direction begins.
    """
    origins, names = _origins(function, 1), [parameter.name for parameter in function.parameters]
    code = list(function.instructions())
    divided = [i.operands[-2:] for i in code if i.opcode in ("div", "rem")]
    by = [origins[b] for a, b in divided if "%ctaid.x" in origins[a]]
    unknown = frozenset[str]().union(*by) - AXES - values.arguments.keys()
    if values.lanes is None or unknown or n_blocks < 2:
        can_tell = n_blocks > 1 and MEMORY not in unknown
        return NO_SPLIT, [i for i, name in enumerate(names) if can_tell and name in unknown]
    n = min(n_blocks, MOST_FOLLOWED)
    there = values.lanes.elsewhere({"%ctaid.x": np.arange(n), "%nctaid.x": n_blocks})
    loads = {i.addresses[-1] for i in code if i.opcode in ("ld", "ldu", "cp") and i.addresses}
    found = {load: numbers for load in loads if (numbers := there.of(load)) is not None}
    places = set[int]()
    for numbers in found.values():
        changed = int((numbers != numbers[0]).argmax()) or 1
        again = changed + int((numbers[changed:] == numbers[0]).argmax())
        ended = again + int((numbers[again:] != numbers[: n - again]).argmax())
        places |= {again, ended} if again > changed else set()
        if (numbers == numbers[np.arange(n) // changed * changed]).all():  # in runs of this length
            places.add(changed)
    steps = [1]
    for place in sorted(places):
        if place > steps[-1] and place % steps[-1] == 0 and len(steps) < len(SPLIT):
            steps.append(place)
    sides = [after // before for before, after in pairwise(steps)]
    split = Split(dict(zip(SPLIT, reversed(steps), strict=False)), {})
    for load, numbers in found.items() if sides else ():
        cube = numbers[: n // steps[-1] * steps[-1]].reshape(-1, *reversed(sides))
        moves = [(cube != cube.take([0], place)).any() for place in range(cube.ndim)]
        moves[0] |= n < n_blocks  # it goes on beyond what is followed
        split.changing[load] = frozenset(f"%ctaid.{SPLIT[i]}" for i in np.flatnonzero(moves))
    return split, []


class Footprint(NamedTuple):
    """Bytes that a thread reads.

    ``read`` is all but what hits in L1, ``turn`` what of it no thread of the block reads too in the
    same turn of a loop. ``first`` is what of that no earlier loop read, by the directions of the
    grid (``xy``) in which blocks read something else: along all others they read the same.
    """

    read: Amount
    turn: Amount
    first: dict[str, Amount]


def footprint_of(reads: Iterable[Read], directions: str) -> Footprint:
    """Return what a thread reads.

    Parameters
    ----------
    reads : iterable of Read
        What the kernel loads.
    directions : str
        Those of the grid, such as ``xy``; ``""`` if it is not known: blocks lie in x then, and
        read the same only where all do.
    """
    found = Footprint(
        defaultdict(float), defaultdict(float), defaultdict(lambda: defaultdict(float))
    )
    for read in reads:
        for passage, share in read.amount.items():
            found.read[passage] += share * read.requested
            found.turn[passage] += share * read.distinct
            for axes, part in read.parts.items() if not read.is_again else ():
                own = "".join(d for d in directions if f"%ctaid.{d}" in axes)
                own = own if directions or not read.axes else "x"
                found.first[own][passage] += share * part
    return found


def add_sharing(
    derived: dict[str, Value], first: Iterable[str], sides: Mapping[str, str], threads: str
) -> tuple[str, str]:
    """Return expressions of what a thread reads from DRAM, and of what the running blocks read.

    Blocks start in the order of the grid, x first. Along a direction in which they read the same,
    L2 serves all but the first, if it holds what the blocks read that come in between; else those
    that run at once, which go through their loops side by side.

    Parameters
    ----------
    derived : dict of str to str
        Gets the names that these expressions need; has the bytes and ``running``, the blocks that
        run at once.
    first : iterable of str
        The directions in which blocks read something else, of each of the `Footprint.first`.
    sides : mapping of str to str
        The blocks of the grid in each direction.
    threads : str
        Threads of a block.
    """
    names = {own: name_of(own) for own in first}
    before: list[str] = []
    for direction, side in sides.items():
        passed = "".join(f" / ({sides[d]})" for d in before)
        between = (
            " * ".join([name, *(f"({sides[d]})" for d in before if d in own)])
            for own, name in names.items()
        )
        derived[f"running_{direction}"] = f"max(1, min({side}, running{passed}))"
        derived[f"sharing_{direction}"] = (
            f"(({side}) if {threads} * ({' + '.join(between)}) <= l2_bytes"
            f" else running_{direction})"
        )
        before.append(direction)
    once, at_once = (
        " + ".join(
            " / ".join([name, *(f"{blocks}_{d}" for d in sides if d not in own)])
            for own, name in names.items()
        )
        for blocks in ("sharing", "running")
    )
    return once, f"{threads} * running * ({at_once})"


def name_of(own: str) -> str:
    """Return the name of the bytes that differ between the blocks in some directions."""
    return f"{own or 'common'}_bytes"


def _bytes(
    loads: Iterable[_Load],
    lanes: Lanes | None,
    beside: Mapping[str, Lanes],
    axes: frozenset[str],
) -> tuple[float, float, Mapping[frozenset[str], float]]:
    """Return the bytes that a thread asks for, those distinct in its block, and `Read.parts`."""
    requested, unknown, turn, n_threads = 0.0, 0.0, 0.0, 1
    known = list[_Known]()
    for shape, address, steps, active in loads:
        size = shape.bytes * shape.words
        addresses = lanes.of(address) if lanes and address else None
        whole = touched(shape) * shape.words  # a sector of a warp is a byte of each thread
        if address is None or addresses is None:  # neighbours share the sectors at their ends
            unknown += size if shape.pattern == "misaligned" else whole
            requested += whole
        else:
            if not shape.transactions:
                exact = sectors_of(addresses + steps[0], int(size))
                whole = max(exact, whole) if shape.pattern == "misaligned" else exact
            requested += whole * (1.0 - shape.hits)
            n_threads = len(addresses)
            known.append((address, int(size), steps, active))
    parts: dict[frozenset[str], float] = defaultdict(float, {axes: unknown} if unknown else {})
    if lanes and known:
        own = _sectors(known, lanes)
        shared = {
            a: np.isin(own, _sectors(known, other)) for a, other in beside.items() if a in axes
        }
        # Where the next block reads all the same but addresses change, some later block does not.
        edges = [(axis, same) for axis, same in shared.items() if not same.all()]
        kinds = sum((same << place for place, (_, same) in enumerate(edges)), own * 0)
        for kind, n in zip(*np.unique(kinds, return_counts=True), strict=True):
            others = axes.difference(a for place, (a, _) in enumerate(edges) if kind >> place & 1)
            parts[others] += float(n) * SECTOR / (n_threads * len(known[0][2]))
        own = _sectors(
            [(address, size, steps[:1], on) for address, size, steps, on in known], lanes
        )
        turn = unknown + len(own) * SECTOR / n_threads
    if (total := sum(parts.values())) > requested:  # where only some threads access
        parts = {others: n * requested / total for others, n in parts.items()}
    return requested, min(max(total, turn), requested), parts


def touched(shape: Shape) -> float:
    """Return how many sectors a warp touches with one word of each thread, by its pattern."""
    size = int(shape.bytes)
    in_line = max(LINE_BYTES // size, 1)
    steps = {"broadcast": 0, "strided": shape.x, "uncoalesced": in_line}
    if shape.transactions or shape.pattern not in ("coalesced", "misaligned", *steps):
        return shape.transactions or shape.bytes
    words = np.arange(WARP) * int(min(steps.get(shape.pattern, 1), in_line))
    starts = [0]
    if shape.pattern == "misaligned":
        starts = [start for start in range(in_line) if start % min(HALF_WARP, in_line)]
    return float(np.mean([sectors_of((start + words) * size, size) for start in starts]))


def _sectors(loads: Iterable[_Known], lanes: Lanes) -> Numbers:
    """Return the distinct sectors that the loads of a block touch in all turns."""
    found = ((lanes.of(address), size, steps, on) for address, size, steps, on in loads)
    moved = ((n if on is None else n[on], size, s) for n, size, s, on in found if n is not None)
    parts = (((n[:, None] + steps).ravel(), size) for n, size, steps in moved)
    sectors = np.concatenate([touched_sectors(*part).ravel() for part in parts])
    return np.unique(sectors, return_counts=True)[0]  # sorted: hashing takes much longer


def _origins(function: Function, least: int = 8) -> dict[Operand, frozenset[str]]:
    """Return what the value of every register depends on.

    That are `AXES`, `MEMORY`, and names of variables and of parameters of ``least`` bytes or more.
    """
    pointers = {p.name for p in function.parameters if (p.bytes or 0) >= least}
    named = AXES.union(v.name for v in (*function.variables, *function.module.variables))
    found: dict[Operand, frozenset[str]] = defaultdict(frozenset)
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

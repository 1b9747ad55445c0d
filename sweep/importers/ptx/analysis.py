"""Analyse one kernel: the contents of its kernel file.

The execution count of a block is its share (the fraction of executions of the surrounding code that
reach the block) times the trip counts of the loops around it. Unless the user gives a share, or a
thread block's index decides a branch, both sides of it count in full, which Hong & Kim (2009,
Section 3.5) call an upper bound for divergent warps; the code after the branch counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from sweep.errors import nearest
from sweep.importers.ptx.accesses import Shape, accesses_of
from sweep.importers.ptx.control_flow import Block, Graph, Loop, control_flow, executed, nest
from sweep.importers.ptx.copies import Waits, copying_loops, executions_of
from sweep.importers.ptx.footprint import NO_SPLIT, Read, needs_grid, reads_of, split_of
from sweep.importers.ptx.instructions import Product
from sweep.importers.ptx.lanes import Lanes, ends_turn, shares_of_blocks
from sweep.importers.ptx.machine import machine_counts
from sweep.importers.ptx.module import Address, Function, PtxError, Variable, expand_calls
from sweep.importers.ptx.registers import Sides, Values, live_registers
from sweep.importers.ptx.stages import STAGES, K, Stage, Unknown, counted, cut_into_stages
from sweep.importers.ptx.trips import find_trips

ANY = "*"
"""In trip counts: every loop whose count the text does not tell and that is not named."""

MAX_OPEN = 200
"""Largest number of loops with unknown trip counts; each becomes a problem size."""

MOST_THREADS = 1024
"""Most threads of a block on AMD's GPUs, and from compute capability 2.0 on (CUDA C++ Guide)."""

MOST_REGISTERS = 255
MOST_NOTES = 40
MOST_JUMPS = 20

_ATOMIC = (
    "atomic operations count as plain accesses: where many threads add to one word, they wait for"
    " each other, and times are too short"
)


@dataclass(frozen=True)
class Analysis:
    """The properties of one kernel, derived from its text.

    Attributes
    ----------
    function : Function
        The kernel.
    graph : Graph
        Execution count of each basic block, and the loops with their trip counts.
    stages : list of Stage
        The code in order.
    waits : Waits
        Loads from global memory that are under way together, but in loops with copies.
    how : str
        How it was divided into stages: ``tasks``, ``barriers`` or ``none``.
    registers : int
        Largest number of 32-bit registers live at once: an estimate of the registers per thread.
    shared_bytes : int
        Shared memory that the text declares and the kernel uses [bytes].
    has_dynamic_shared : bool
        Whether the launch can add more.
    block : tuple of int or None
        Width, height and depth of a block, from the user or required by the text.
    unknown : tuple of Unknown
        Opcodes that PTX ISA 9.0 does not have.
    reads : list of Read
        What it loads from global memory, and how much of that is distinct.
    steps : mapping of str to int
        Directions into which the kernel splits the grid's x (`Split.steps`).
    both_sides : tuple of str
        The labels of the branches ahead of which both sides count.
    notes : tuple of str
        Further remarks, a sentence each.
    """

    function: Function
    graph: Graph
    stages: list[Stage] = field(repr=False)
    waits: Waits = field(repr=False)
    how: str
    registers: int
    shared_bytes: int
    has_dynamic_shared: bool
    block: Sides | None
    unknown: tuple[Unknown, ...]
    reads: list[Read] = field(repr=False)
    steps: Mapping[str, int]
    both_sides: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, float]:
        """Unknown trip counts by name, each with its default of one iteration."""
        return {loop.size: 1.0 for loop in self.open_loops}

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that the text allocates (``tcgen05.alloc``) [1]."""
        taken = (i for i in self.function.instructions() if i.opcode == "tcgen05")
        sizes = [str(i.operands[-1]) for i in taken if i.modifiers[:1] == ("alloc",)]
        return sum(int(size) for size in sizes if size.isdigit())

    @property
    def open_loops(self) -> list[Loop]:
        """The loops whose trip counts neither the text nor the user tells."""
        return [x for x in self.graph.loops if x.trips is None and not x.formula]

    def instructions(self, sizes: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return dynamic instructions per thread by class, including ``barrier``.

        Unknown trip counts are 1 unless ``sizes`` sets them.
        """
        return self._totals(str, sizes)

    def accesses(self, sizes: Mapping[str, float] | None = None) -> dict[Shape, float]:
        """Return dynamic memory accesses per thread by shape, with the same ``sizes``."""
        return self._totals(Shape, sizes)

    def products(self) -> dict[Product, float]:
        """Return dynamic products of matrices of a thread's warp; unknown trip counts are 1."""
        return self._totals(Product)

    def _totals(self, kind: type[K], sizes: Mapping[str, float] | None = None) -> dict[K, float]:
        found = counted(self.stages, kind)
        return {key: executed(amount, sizes or {}) for key, amount in found.items()}


def analyse(
    function: Function,
    *,
    trips: Mapping[str, float | str] | None = None,
    branches: Mapping[str, float] | None = None,
    arguments: Mapping[str, float] | None = None,
    block: Sides | None = None,
    grid: Sides | None = None,
    stages: str = "tasks",
) -> Analysis:
    """Return the analysis of a kernel's execution by one thread.

    Parameters
    ----------
    function : Function
        A kernel.
    trips : mapping of str to float or str, optional
        Iterations per entry of a loop, by the label of its header, with or without ``$``, `ANY` for
        all others that the text does not tell: a number, or an expression over sizes.
    branches : mapping of str to float, optional
        The share of conditional branches to a label that are taken, by label. Without it, both
        sides are counted in full.
    arguments : mapping of str to float, optional
        Integers that the kernel is called with, by position (``"0"`` is the first). Loops and
        branches that depend on them alone are then known.
    block : tuple of int, optional
        Width, height and depth of a block, if known. A loop that starts at the thread's index has
        the middle thread's trip count then.
    grid : tuple of int, optional
        Blocks in x, y and z, if known, for loops that start at the thread's index in the grid.
    stages : str
        How to divide the code: ``tasks`` (calculate periods), ``barriers`` or ``none``.

    Raises
    ------
    PtxError
        A value is out of range, a label is unknown, or loops are nested too deeply.
    """
    _check(trips or {}, branches or {}, block)
    if stages not in STAGES:
        raise PtxError(f"stages '{stages}': one of {', '.join(STAGES)}")
    outside = function.module.variables
    required = function.limits.get("reqntid")
    if block is None and required:
        x, y, z = (*required, 1, 1, 1)[:3]
        block = (x, y, z)
    expanded, not_followed = expand_calls(function)
    graph = control_flow(expanded)
    graph.machine = machine_counts(graph, function.module.target)
    known = block, _positions(function, arguments or {}), grid
    values = Values(expanded, outside, *known)
    middle = partial(Values, expanded, outside, *known, middle=True)
    decided = find_trips(graph, values, middle if block else None)
    if grid and block:
        by_block = Lanes(expanded, block, values.arguments, grid=grid)
        decided = shares_of_blocks(graph, by_block) | decided
    decided |= _shares_of_branches(graph, branches or {})
    _set_shares(graph, decided)
    ahead = (n for b, n in branches_of(graph).items() if b not in decided and not ends_turn(b))
    both_sides = tuple(dict.fromkeys(label.name for to in ahead for label in to.labels))
    _complete_trips(graph, trips or {})
    accesses, turns = accesses_of(graph, values, block)
    parts, waits, how, unknown, remarks = cut_into_stages(graph, values, block, stages, accesses)
    notes = [*_notes(graph, stages, how, trips or ()), *remarks, *not_followed]
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"{len(notes) - MOST_NOTES} more notes of this kind"]
    live = live_registers(graph)
    registers = max(1, min(live, MOST_REGISTERS, *function.limits.get("maxnreg", ())))
    memory = _shared_memory(expanded, outside)
    copies = executions_of(graph, copying_loops(graph, values, block))
    split, asked = split_of(expanded, values, grid[0]) if grid else (NO_SPLIT, [])
    reads = reads_of(expanded, values, accesses, turns, copies, split)
    if any(i.opcode in ("atom", "red") for i in expanded.instructions()):
        notes.insert(0, _ATOMIC)
    if grid is None and needs_grid(expanded, reads):
        notes.insert(0, "no block reads what another does, since --grid X,Y is not given")
    if asked:
        given = ", ".join(f"--argument {place}=N" for place in asked)
        notes.insert(0, f"blocks may read the same: {given} tell rows and columns of the grid's x")
    return Analysis(function, graph, parts, waits, how, registers, *memory, block, unknown, reads,
                    split.steps, both_sides, tuple(notes))  # fmt: skip


def _check(
    trips: Mapping[str, float | str], branches: Mapping[str, float], block: Sides | None
) -> None:
    for label, trip in trips.items():
        if not isinstance(trip, str) and not 0 <= trip <= 2**53:
            raise PtxError(f"trip count {label} = {trip:g}: outside the range 0 to 2**53")
    for label, share in branches.items():
        if not 0 <= share <= 1:
            raise PtxError(f"share of branch {label} = {share:g}: outside the range 0 to 1")
    if block is not None and not all(1 <= side <= MOST_THREADS for side in block):
        sides = f"sides are 1 to {MOST_THREADS} threads"
        raise PtxError(f"a block of {' x '.join(map(str, block))}: {sides}")
    if block is not None and math.prod(block) > MOST_THREADS:
        raise PtxError(f"a block of {math.prod(block)} threads: {MOST_THREADS} at most")


def _positions(function: Function, arguments: Mapping[str, float]) -> dict[int, int]:
    """Return the kernel's known arguments by position."""
    found, n = {}, len(function.parameters)
    for position, value in arguments.items():
        if not (position.isascii() and position.isdigit() and int(position[:9]) < n):
            raise PtxError(f"argument {position}: the kernel has {n}, counted from 0")
        if not float(value).is_integer() or abs(value) > 2**53:
            raise PtxError(f"argument {position} = {value:g}: must be an integer up to 2**53")
        if (function.parameters[int(position)].bytes or 0) > 8:
            raise PtxError(f"argument {position}: is no integer")
        found[int(position)] = int(value)
    return found


def _shared_memory(function: Function, outside: Iterable[Variable]) -> tuple[int, bool]:
    """Return the bytes of a function's shared variables, and whether the launch can add more.

    Variables outside functions count if the function uses them.
    """
    operands = (o for instruction in function.instructions() for o in instruction.operands)
    named = {o.base if isinstance(o, Address) else o for o in operands}
    used = [variable for variable in outside if variable.name in named]
    shared = [variable for variable in (*used, *function.variables) if variable.space == "shared"]
    total = 0
    for variable in shared:
        if variable.bytes is not None:
            total = -(-total // variable.alignment) * variable.alignment + variable.bytes
    return total, any(variable.bytes is None for variable in shared)


def _notes(graph: Graph, wanted: str, how: str, trips: Iterable[str]) -> list[str]:
    notes = []
    named = set(map(_key, trips))
    given = {
        loop: loop.formula or f"{loop.trips or 0:g}"
        for loop in graph.loops
        if loop.origin == "given" and named.isdisjoint(_key(x.name) for x in loop.header.labels)
    }
    nested = [times for x, times in given.items() if x.parent and given.get(x.parent) == times]
    if nested and ANY in trips:
        why = f"as --trip '{ANY}' says: name each if that is wrong"
        notes.append(f"loops within each other repeat {nested[0]} times each, {why}")
    if graph.n_dead:
        notes.append(f"{graph.n_dead} instructions are never reached and not counted")
    for before, after in graph.irreducible[:MOST_JUMPS]:
        label = next((label.name for label in after.labels), "a block")
        last = before.instructions[-1:]
        line = f" in line {last[0].line}" if last else ""
        notes.append(f"the jump to {label}{line} repeats code with several entries: counted once")
    if how != wanted:
        notes.append(f"too many stages: the code is cut by '{how}', not by '{wanted}'")
    return notes


def _key(name: str) -> str:
    """Return a label without ``$``, which a shell would interpret."""
    return name.removeprefix("$")


def _shares_of_branches(graph: Graph, branches: Mapping[str, float]) -> dict[Block, float]:
    """Return the share of taken branches of each block for which the user gives it."""
    by_label = {_key(name): value for name, value in branches.items()}
    named = {
        block: label.name
        for block in graph.blocks
        for label in block.labels
        if _key(label.name) in by_label
    }
    result: dict[Block, float] = {}
    targets = branches_of(graph)
    for block, target in targets.items():
        if target not in named:
            continue
        if target.dominates(block):
            reason = f"the branch to '{named[target]}' repeats a loop: give its trip count"
            raise PtxError(reason, block.instructions[-1].line)
        result[block] = by_label[_key(named[target])]
    ahead = dict.fromkeys(to for block, to in targets.items() if not to.dominates(block))
    _refuse_unused(branches, "conditional branch to", ahead)
    return result


def branches_of(graph: Graph) -> dict[Block, Block]:
    """Return the blocks that end with a conditional branch, each with what it leads to."""
    ends = [block for block in graph.blocks if block.branch and block.branch.predicate]
    return {block: block.successors[0] for block in ends if len(block.successors) == 2}


def _refuse_unused(wanted: Iterable[str], place: str, blocks: Iterable[Block]) -> None:
    """Refuse labels from the user that do not belong to one of some blocks."""
    listed = list(dict.fromkeys(label.name for block in blocks for label in block.labels))
    keys = set(map(_key, listed))
    for name in wanted:
        if _key(name) not in keys:
            there_are = f" (there are {', '.join(listed[:12])})" if listed else " (there is none)"
            raise PtxError(f"no {place} '{name}'{nearest(name, listed)}{there_are}")


def _complete_trips(graph: Graph, trips: Mapping[str, float | str]) -> None:
    """Set the user's trip counts, and name those that are unknown."""
    _refuse_unused(set(trips) - {ANY}, "loop at", (loop.header for loop in graph.loops))
    by_label = {_key(name): value for name, value in trips.items()}
    names: dict[str, str] = {}
    for loop in graph.loops:
        labels = [_key(label.name) for label in loop.header.labels]
        found = [by_label[label] for label in labels if label in by_label]
        if not found and loop.trips is None and ANY in by_label:
            found = [by_label[ANY]]
        if found and isinstance(found[-1], str):
            loop.trips, loop.formula, loop.origin = None, found[-1], "given"
            loop.size = _size_name(loop, names)
        elif found:
            loop.trips, loop.origin = float(found[-1]), "given"
        elif loop.header.share == 0:
            loop.trips, loop.origin = 0.0, "constant"
        elif loop.trips is None:
            loop.size = _size_name(loop, names)
            if len(names) > MAX_OPEN:
                reason = f"more than {MAX_OPEN} loops have no constant trip count"
                raise PtxError(f"{reason}; this is one", loop.label.line)


def _size_name(loop: Loop, names: dict[str, str]) -> str:
    """Return ``trip_LABEL``; inlined copies of a loop share the name."""
    label = loop.label.name
    if label not in names:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in _key(label))
        name = f"trip_{plain[:60]}"
        while name in names.values():
            name += "_"
        names[label] = name
    return names[label]


def _set_shares(graph: Graph, taken: Mapping[Block, float]) -> None:
    """Set the share of each block, in the order of the control flow."""
    graph.blocks[0].share = 1.0
    for block in graph.blocks[1:]:
        total = 0.0
        for before in block.predecessors:
            if before.number < block.number:  # no jump back
                total += _share_of_edge(taken, before, block)
        # No block is executed more often than the code that leads to it.
        block.share = min(total, block.idom.share if block.idom else 1.0)


def _share_of_edge(taken: Mapping[Block, float], before: Block, after: Block) -> float:
    """Return the share of one block's executions that continue in another."""
    part = 1.0
    if before in taken:
        part = taken[before] if before.successors[0] is after else 1 - taken[before]
    source = before
    for loop in nest(before.loop):
        if after in loop:
            break
        # Every entry of a loop leaves it again, at this exit or another.
        source = loop.header
    return source.share * part

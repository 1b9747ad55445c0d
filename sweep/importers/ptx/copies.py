"""What is under way beside a thread's work: asynchronous copies, loads, products.

Loops work on one part while asynchronous copies bring the next ones.

A compiler lets the first copies start before the loop: as many as there are buffers that the loop
fills while it works on another. They come back for nothing in the last iterations, whose own copies
a predicate switches off. So of the copies before the loop, one step is waited for before the first
iteration, and the loop copies for one step less than it has iterations.

Of loads PTX has the order of a compiler's front end. What makes machine code of it moves them up as
far as data, barriers and stores let it: loads of a block that do not need one another's results are
under way together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sweep.importers.ptx.accesses import Shape, shapes_of, tile_shapes
from sweep.importers.ptx.control_flow import Amount, Block, Graph, Loop, nest
from sweep.importers.ptx.instructions import (
    PASS_BYTES,
    ROW_BYTES,
    Product,
    factors_of,
    meaning_of,
)
from sweep.importers.ptx.module import Address, Instruction, Register
from sweep.importers.ptx.registers import WARP, Sides, Values
from sweep.importers.ptx.tokens import integer_of

MOST_BUFFERS = 64
"""More are no buffers: the copies before a loop are then others than those in it."""


class Pipeline(NamedTuple):
    """The copies of a loop: buffers under way, and whether the first ones start before the loop."""

    buffers: float
    starts_before: bool


def copying_loops(graph: Graph, values: Values, sides: Sides | None) -> dict[Loop, Pipeline]:
    """Return the loops with asynchronous copies, innermost ones only, each with its buffers.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    values : Values
        The values of the registers.
    sides : tuple of int or None
        Width, height and depth of a block, if known.

    Returns
    -------
    dict of Loop to Pipeline
        Steps whose copies start before the loop; where none do, those that the loop leaves under
        way when it waits, at least one.
    """
    copied: dict[Loop | None, dict[int, float]] = defaultdict(dict)
    for block in graph.blocks:
        size = sum(_copied(instruction, values, sides) for instruction in block.instructions)
        if size:
            copied[block.loop][block.number] = size
    found = {}
    last: dict[Loop | None, int] = {}  # the end of the copying loop before, by the loop around
    for loop in sorted((x for x in copied if x), key=lambda x: x.header.number):
        if any(loop is not other and loop in nest(other) for other in copied):
            continue
        first, start = last.get(loop.parent, -1), loop.header.number
        before = sum(n for i, n in copied[loop.parent].items() if first < i < start)
        steps = round(before / sum(copied[loop].values()))
        starts_before = 0 < steps <= MOST_BUFFERS
        found[loop] = Pipeline(steps if starts_before else _under_way(graph, loop), starts_before)
        last[loop.parent] = start + loop.length - 1
    return found


def executions_of(graph: Graph, loops: Mapping[Loop, Pipeline]) -> Callable[[Block], Amount]:
    """Return a function that says how often the copies of a block bring something, by passage.

    Before a loop one step counts of those that start there, and of the loop's own one less.
    """
    steps: dict[Block, float] = {}
    for loop, pipeline in sorted(loops.items(), key=lambda item: -item[0].header.number):
        for block in graph.blocks[: loop.header.number] if pipeline.starts_before else ():
            if block.loop is loop.parent:
                steps[block] = pipeline.buffers

    def executions(block: Block) -> Amount:
        loop = next((loop for loop in nest(block.loop) if loop in loops), None)
        if loop is None:
            return {block.passage: block.share / steps.get(block, 1.0)}
        before = {loop.entered: -block.share} if loops[loop].starts_before else {}
        return {block.passage: block.share, **before}

    return executions


def _copied(instruction: Instruction, values: Values, sides: Sides | None) -> float:
    """Return the bytes that a thread copies asynchronously."""
    meaning = meaning_of(instruction)
    shapes = shapes_of(instruction, meaning, values, sides) if meaning.is_copy else ()
    if meaning.tile == "load":
        shapes = tile_shapes(instruction, meaning, values, sides)
    return math.fsum(shape.bytes * shape.words for shape in shapes if shape.is_copy)


def _under_way(graph: Graph, loop: Loop) -> float:
    """Return the steps under way where a loop waits for copies: groups that it leaves over."""
    code = list(graph.code(loop))
    groups = sum("commit_group" in x.modifiers for x in code if x.opcode == "cp")
    left = [
        integer_of(x.operands[0]) or 0
        for x in code
        if x.opcode == "cp" and "wait_group" in x.modifiers and isinstance(x.operands[0], str)
    ]
    return float(max(1, -(-min(left, default=0) // max(1, groups))))


class Waits:
    """Collects loads from global memory by how often a thread has waited before, in each block."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Block, int], int] = defaultdict(int)
        self._block: Block | None = None

    def add(
        self, instruction: Instruction, block: Block, kind: str, shapes: Iterable[Shape]
    ) -> None:
        """Add the next instruction of a block.

        A load comes after what a store before it waited for, since that may change what it reads
        (unless ``nc`` denies it), and after all loads before a barrier.
        """
        if block is not self._block:
            self._block, self._at_store, self._at_barrier, self._in_all = block, 0, 0, 0
            self._waits_for: dict[Register, int] = {}
        read, written = instruction.reads_and_writes
        needed = (*read, *written) if instruction.predicate else read
        waits = max((self._waits_for.get(register, 0) for register in needed), default=0)
        directions = {shape.direction for shape in shapes if shape.space == "global"}
        if "store" in directions or instruction.opcode == "atom":
            self._at_store = max(self._at_store, waits)
        if "load" in directions:
            floor = self._at_barrier if "nc" in instruction.modifiers else self._at_store
            waits = max(waits, floor)
            self._groups[block, waits] += sum(register.width for register in written)
            waits += 1
            self._in_all = max(self._in_all, waits)
        self._waits_for.update(dict.fromkeys(written, waits))
        if kind == "barrier":
            self._at_barrier = self._at_store = self._in_all

    def amount(self, registers: int) -> Amount:
        """Return how often a thread waits.

        The results of loads under way have their registers already, so that no more are under way
        together than fit in the registers that the kernel needs at once.
        """
        found: Amount = defaultdict(float)
        for (block, _), width in self._groups.items():
            found[block.passage] += block.share * max(1, -(-width // registers))
        return found


def goes_on_beside_products(graph: Graph) -> bool:
    """Return whether a loop of products (wgmma) never waits for all, but goes on to its next step.

    It leaves over those of the step just begun.
    """
    left: dict[Loop, list[int]] = defaultdict(list)
    for block in graph.blocks:
        for x in block.instructions:
            if block.loop and x.opcode == "wgmma" and "wait_group" in x.modifiers:
                left[block.loop].append(integer_of(str(x.operands[0])) or 0)
    return any(min(groups) > 0 for groups in left.values())


def product_of(instruction: Instruction, values: Values, block: Sides | None) -> Product | None:
    """Return a warp's part of a product whose matrices a descriptor describes (``tcgen05.mma``).

    One thread starts it for its block. The descriptor, the fourth operand, has the columns over 8
    in bits 17 to 22 and the rows over 16 in bits 24 to 28.
    """
    modifiers, operands = instruction.modifiers, instruction.operands
    kinds = [m.partition("::")[2] for m in modifiers if m.startswith("kind::")]
    descriptor = values.of(operands[3]).constant if len(operands) > 3 else None
    if not kinds or block is None or descriptor is None:
        return None
    rows, columns = (descriptor >> 24 & 31) * 16, (descriptor >> 17 & 63) * 8
    kind = factors_of(kinds[0])
    depth = ROW_BYTES // {"fp16": 2, "tf32": 4}.get(kind, 1)
    n_warps = -(-math.prod(block) // WARP)
    shared = columns if isinstance(operands[1], Address) else rows + columns
    n_blocks = 2 if "cta_group::2" in modifiers else 1
    passes = shared * ROW_BYTES / PASS_BYTES / n_warps / n_blocks
    return Product(kind, rows * columns * depth / n_warps / n_blocks, passes)

"""Loops that work on one part while asynchronous copies bring the next ones.

A compiler lets the first copies start before the loop: as many as there are buffers that the loop
fills while it works on another. They come back for nothing in the last iterations, whose own copies
a predicate switches off. So of the copies before the loop, one step is waited for before the first
iteration, and the loop copies for one step less than it has iterations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sweep.importers.ptx.accesses import shapes_of, tile_shapes
from sweep.importers.ptx.control_flow import Block, Graph, Loop, nest
from sweep.importers.ptx.instructions import meaning_of
from sweep.importers.ptx.module import Instruction
from sweep.importers.ptx.registers import Sides, Values
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


def prologues(graph: Graph, loops: Mapping[Loop, Pipeline]) -> dict[Block, float]:
    """Return the blocks before copying loops, each with the steps whose copies start there."""
    found: dict[Block, float] = {}
    for loop, pipeline in sorted(loops.items(), key=lambda item: -item[0].header.number):
        for block in graph.blocks[: loop.header.number] if pipeline.starts_before else ():
            if block.loop is loop.parent:
                found[block] = pipeline.buffers
    return found


def _copied(instruction: Instruction, values: Values, sides: Sides | None) -> float:
    """Return the bytes that a thread copies asynchronously."""
    meaning = meaning_of(instruction)
    shapes = shapes_of(instruction, meaning, values, sides) if meaning.is_copy else ()
    if meaning.tile == "load":
        shapes = tile_shapes(instruction, meaning, values, sides)
    return math.fsum(shape.bytes * shape.words for shape in shapes if shape.is_copy)


def _under_way(graph: Graph, loop: Loop) -> float:
    """Return the steps under way where a loop waits for copies: groups that it leaves over."""
    code = list(_code(graph, loop))
    groups = sum("commit_group" in x.modifiers for x in code if x.opcode == "cp")
    left = [
        integer_of(x.operands[0]) or 0
        for x in code
        if x.opcode == "cp" and "wait_group" in x.modifiers and isinstance(x.operands[0], str)
    ]
    return float(max(1, -(-min(left, default=0) // max(1, groups))))


def _code(graph: Graph, loop: Loop) -> Iterator[Instruction]:
    start = loop.header.number
    for block in graph.blocks[start : start + loop.length]:
        yield from block.instructions

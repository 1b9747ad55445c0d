"""Control-flow graph of a function: basic blocks, dominators, natural loops.

Dominators come from the iterative algorithm of Cooper, Harvey & Kennedy (2001); loops are found
from the innermost outwards, each block once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep.importers.ptx.module import Function, Instruction, Label, PtxError

__all__ = ["Block", "Graph", "Loop", "control_flow"]

MAX_DEPTH = 64
"""Largest depth of nested loops; a greater depth is a mistake or an attack."""

MAX_EDGES = 2_000_000
"""Largest number of edges: lists of branch targets could create far more edges than lines."""

MAX_STEPS = 20_000_000
"""Largest number of steps in the search for dominators; compiled code needs a few per edge."""

_LEAVING = frozenset({"ret", "exit", "trap"})


@dataclass
class Block:
    """A basic block: entered only at its first and left only at its last instruction.

    Attributes
    ----------
    number : int
        Its index, in the order of the text.
    labels : list of Label
        Labels at its beginning.
    instructions : list of Instruction
        The code; only the last may branch.
    successors, predecessors : list of int
        Numbers of blocks, each once; the target of a branch precedes the fall-through block.
    fall : int or None
        The fall-through block.
    loop : int or None
        The innermost loop that contains the block.
    """

    number: int
    labels: list[Label] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)
    fall: int | None = None
    loop: int | None = None

    @property
    def branch(self) -> Instruction | None:
        """The conditional or unconditional branch that ends the block."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.opcode in ("bra", "brx") else None


@dataclass
class Loop:
    """A natural loop: the blocks that lead to one of its latches without passing its header.

    Attributes
    ----------
    number : int
        Its index among the loops, in the order of the headers.
    label : str
        The label of its header, as written.
    names : tuple of str
        All labels of its header.
    line : int
        The line of the label.
    header : int
        The block with which every iteration begins.
    latches : list of int
        The blocks that jump back to it.
    parent : int or None
        The loop around it.
    depth : int
        1 for an outermost loop.
    span : (int, int)
        The first and the last of its latches in the preorder of the dominator tree.
    exits : list of (int, int)
        Edges (block, successor) that leave the loop.
    """

    number: int
    label: str
    names: tuple[str, ...]
    line: int
    header: int
    latches: list[int]
    span: tuple[int, int]
    parent: int | None = None
    depth: int = 1
    exits: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Graph:
    """Basic blocks with dominators and loops.

    Attributes
    ----------
    blocks : list of Block
        In the order of the text.
    loops : list of Loop
        In the order of the headers.
    order : list of int
        The reachable blocks in reverse postorder.
    rank : list of int
        Index of each block in ``order``; -1 for an unreachable block.
    idom : list of int
        Immediate dominators; -1 for the first block and unreachable ones.
    irreducible : list of (int, int)
        Edges that jump back to a block that does not dominate them.
    """

    blocks: list[Block]
    loops: list[Loop]
    order: list[int]
    rank: list[int]
    idom: list[int]
    irreducible: list[tuple[int, int]]
    _spans: list[tuple[int, int]] = field(repr=False)

    def dominates(self, first: int, second: int) -> bool:
        """Return whether ``first`` dominates ``second`` (a block dominates itself)."""
        begin, end = self._spans[first]
        return 0 <= begin <= self._spans[second][0] < end

    def is_on_every_path(self, block: int, loop: Loop) -> bool:
        """Return whether every iteration of a loop executes a block exactly once."""
        begin, end = self._spans[block]
        first, last = loop.span
        return self.blocks[block].loop == loop.number and begin <= first and last < end

    def is_inside(self, block: int, loop: int | None) -> bool:
        """Return whether a loop contains a block, at any depth; ``None`` is the whole function."""
        if loop is None:
            return True
        found = self.blocks[block].loop
        while found is not None and found != loop:
            found = self.loops[found].parent
        return found == loop

    def linear_order(self) -> list[int]:
        """Return the reachable blocks in topological order, ignoring back edges.

        The blocks of a loop are contiguous.
        """
        headers: list[list[int]] = []
        for loop in self.loops:  # a loop comes after the loops that contain it
            outer = headers[loop.parent] if loop.parent is not None else []
            headers.append([*outer, self.rank[loop.header]])

        def key(number: int) -> list[int]:
            loop = self.blocks[number].loop
            return [*(headers[loop] if loop is not None else ()), self.rank[number]]

        return sorted(self.order, key=key)

    def nest(self, loop: int | None) -> list[int]:
        """Return a loop and the loops that contain it, innermost first."""
        found = []
        while loop is not None:
            found.append(loop)
            loop = self.loops[loop].parent
        return found


def control_flow(function: Function) -> Graph:
    """Return the control-flow graph of a function.

    Parameters
    ----------
    function : Function
        A function with a body.

    Raises
    ------
    PtxError
        Loops are nested more than `MAX_DEPTH` deep, or the code has too many branches.
    """
    blocks = _blocks(function)
    _connect(function, blocks)
    order = _reverse_postorder(blocks)
    rank = [-1] * len(blocks)
    for place, number in enumerate(order):
        rank[number] = place
    idom = _immediate_dominators(blocks, order, rank)
    graph = Graph(blocks, [], order, rank, idom, [], _spans(order, idom))
    _find_loops(graph)
    return graph


def _blocks(function: Function) -> list[Block]:
    """Split the code at labels and after branches."""
    blocks = [Block(0)]
    for item in function.body:
        block = blocks[-1]
        if isinstance(item, Label):
            if block.instructions:
                block = Block(len(blocks))
                blocks.append(block)
            block.labels.append(item)
            continue
        if block.instructions and _ends_block(block.instructions[-1]):
            block = Block(len(blocks))
            blocks.append(block)
        block.instructions.append(item)
    return blocks


def _ends_block(instruction: Instruction) -> bool:
    return instruction.opcode in ("bra", "brx") or instruction.opcode in _LEAVING


def _connect(function: Function, blocks: Sequence[Block]) -> None:
    place = {label.key: block.number for block in blocks for label in block.labels}
    n_edges = 0
    for block in blocks:
        last = block.instructions[-1] if block.instructions else None
        following = block.number + 1 if block.number + 1 < len(blocks) else None
        targets: list[int] = []
        falls = True
        if last is not None and _ends_block(last):
            falls = bool(last.predicate)
            if last.opcode == "bra":
                targets = [place[str(last.operands[-1])]]
            elif last.opcode == "brx":
                targets = [place[key] for key in function.targets[str(last.operands[-1])]]
        if falls and following is not None:
            block.fall = following
            targets = [*targets, following]
        block.successors = list(dict.fromkeys(targets))
        n_edges += len(targets)
        if n_edges > MAX_EDGES and last is not None:
            raise PtxError(f"more than {MAX_EDGES} branch targets", last.line)
        for target in block.successors:
            blocks[target].predecessors.append(block.number)


def _reverse_postorder(blocks: Sequence[Block]) -> list[int]:
    """Return the reachable blocks in topological order, ignoring back edges.

    Later blocks of the text are visited first, so that the order follows the text where possible.
    """
    seen = {0}
    order: list[int] = []
    stack = [(0, iter(sorted(blocks[0].successors, reverse=True)))]
    while stack:
        number, rest = stack[-1]
        following = next((successor for successor in rest if successor not in seen), None)
        if following is None:
            order.append(number)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(sorted(blocks[following].successors, reverse=True))))
    return order[::-1]


def _immediate_dominators(
    blocks: Sequence[Block], order: Sequence[int], rank: Sequence[int]
) -> list[int]:
    """Return the immediate dominator of every block.

    It is -1 for the first block and unreachable ones.
    """
    idom = [-1] * len(blocks)
    idom[order[0]] = order[0]
    steps = 0
    is_changed = True
    while is_changed:
        is_changed = False
        for number in order[1:]:
            found = -1
            # Start with the last predecessor, so that long chains of early exits take few steps.
            for before in sorted(blocks[number].predecessors, key=rank.__getitem__, reverse=True):
                if idom[before] < 0:
                    continue
                first, second = before if found < 0 else found, before
                while first != second:
                    steps += 1
                    if rank[first] > rank[second]:
                        first = idom[first]
                    else:
                        second = idom[second]
                found = first
            if steps > MAX_STEPS:
                raise PtxError("the branches are too tangled to be followed", _line(blocks[number]))
            is_changed |= idom[number] != found
            idom[number] = found
    idom[order[0]] = -1
    return idom


def _line(block: Block) -> int:
    """Return the line of a block; only a block at the end of the code is empty."""
    items: list[Label | Instruction] = [*block.labels, *block.instructions]
    return items[0].line if items else 0


def _spans(order: Sequence[int], idom: Sequence[int]) -> list[tuple[int, int]]:
    """Return the interval of each block in a preorder of the dominator tree.

    One block dominates another if its interval contains the start of the other's. The interval of
    an unreachable block is (-1, -1).
    """
    weight = [1] * len(idom)
    for number in reversed(order[1:]):  # dominators precede the blocks that they dominate
        weight[idom[number]] += weight[number]
    spans = [(-1, -1)] * len(idom)
    spans[order[0]] = (0, weight[order[0]])
    free = [1] * len(idom)
    for number in order[1:]:
        begin = free[idom[number]]
        spans[number] = (begin, begin + weight[number])
        free[idom[number]] += weight[number]
        free[number] = begin + 1
    return spans


def _find_loops(graph: Graph) -> None:
    """Find the natural loops, innermost first; loops with the same header are merged."""
    blocks, rank = graph.blocks, graph.rank
    latches: dict[int, list[int]] = {}
    for number in graph.order:
        for successor in blocks[number].successors:
            if graph.dominates(successor, number):
                latches.setdefault(successor, []).append(number)
            elif rank[successor] <= rank[number]:
                graph.irreducible.append((number, successor))
    headers = sorted(latches, key=lambda header: rank[header])
    for number, header in enumerate(headers):
        labels = blocks[header].labels  # at least one, because a branch leads here
        named = {str(b.operands[-1]) for n in latches[header] if (b := blocks[n].branch)}
        label = next((label for label in labels if label.key in named), labels[0])
        places = [graph._spans[latch][0] for latch in latches[header]]
        span = (min(places), max(places))
        names = tuple(label.name for label in labels)
        graph.loops.append(
            Loop(number, label.name, names, label.line, header, latches[header], span)
        )
    # Headers of inner loops come later, so inner loops are found before the loops around them.
    containing = [0] * len(blocks)
    for loop in reversed(graph.loops):
        members = {loop.header}
        waiting = list(loop.latches)
        while waiting:
            block = waiting.pop()
            if block not in members:
                members.add(block)
                waiting += [p for p in blocks[block].predecessors if rank[p] >= 0]
        for block in sorted(members):
            containing[block] += 1
            inner = blocks[block].loop
            if inner is None:
                blocks[block].loop = loop.number
            elif containing[block] > MAX_DEPTH:
                reason = f"more than {MAX_DEPTH} loops within each other"
                raise PtxError(reason, graph.loops[inner].line)
            elif graph.loops[inner].header == block and graph.loops[inner].parent is None:
                graph.loops[inner].parent = loop.number
            loop.exits += [(block, s) for s in blocks[block].successors if s not in members]
    for loop in graph.loops:
        loop.depth = containing[loop.header]

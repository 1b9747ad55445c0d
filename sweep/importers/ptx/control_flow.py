"""The control-flow graph of a function: basic blocks, dominators, natural loops.

Dominators are Lengauer & Tarjan's (with path compression), loops are found from the innermost
outwards, each block once: both stay almost linear on any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep.importers.ptx.dominators import dominator_tree
from sweep.importers.ptx.module import Function, Instruction, Label, PtxError

__all__ = ["MAX_DEPTH", "Block", "Graph", "Loop", "control_flow"]

MAX_DEPTH = 64
"""Most loops within each other; more is a mistake, or meant as an attack."""

MAX_EDGES = 2_000_000
"""Most edges between blocks: lists of branch targets could make far more than there are lines."""

_LEAVING = frozenset({"ret", "exit", "trap"})


@dataclass
class Block:
    """A stretch of code that is entered at its top only and left at its bottom only.

    Attributes
    ----------
    number : int
        Its place in the text.
    labels : list of Label
        Labels at its top.
    instructions : list of Instruction
        The code; only the last may branch.
    successors, predecessors : list of int
        Blocks by number, each once; the target of a branch comes before what follows it.
    fall : int or None
        The block that follows without a branch.
    loop : int or None
        The innermost loop that it is part of.
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
    """A natural loop: all that reaches one of its latches without passing its header.

    Attributes
    ----------
    number : int
        Its place among the loops, in the order of the headers.
    label : str
        The label of its header as written.
    names : tuple of str
        All labels of its header.
    line : int
        Where the label stands.
    header : int
        The block that every iteration begins with.
    latches : list of int
        The blocks that jump back to it.
    parent : int or None
        The loop around it.
    depth : int
        1 for an outermost loop.
    span : (int, int)
        First and last place of its latches in the dominator tree.
    exits : list of (int, int)
        Edges (block, successor) that leave it.
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
        The blocks that can be reached, in reverse postorder.
    rank : list of int
        Place of each block in ``order``; -1 for one that cannot be reached.
    idom : list of int
        Immediate dominators; -1 for the first block and those that cannot be reached.
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
        """Whether every path to ``second`` passes ``first`` (a block dominates itself)."""
        begin, end = self._spans[first]
        return 0 <= begin <= self._spans[second][0] < end

    def is_on_every_path(self, block: int, loop: Loop) -> bool:
        """Whether every iteration of a loop passes a block, once."""
        begin, end = self._spans[block]
        first, last = loop.span  # of the latches; between them they all lie
        return self.blocks[block].loop == loop.number and begin <= first and last < end

    def is_inside(self, block: int, loop: int | None) -> bool:
        """Whether a block is part of a loop, at any depth; ``None`` is the whole function."""
        if loop is None:
            return True
        found = self.blocks[block].loop
        while found is not None and found != loop:
            found = self.loops[found].parent
        return found == loop

    def linear_order(self) -> list[int]:
        """Return the blocks that can be reached, each after its predecessors, loops in one piece.

        (But for edges back.)
        """
        members: dict[int | None, list[tuple[int, int | None]]] = {}
        for rank, number in enumerate(self.order):
            members.setdefault(self.blocks[number].loop, []).append((rank, None))
        for loop in self.loops:
            members.setdefault(loop.parent, []).append((self.rank[loop.header], loop.number))
        result: list[int] = []
        stack = [iter(sorted(members[None], key=lambda member: member[0]))]
        while stack:
            member = next(stack[-1], None)
            if member is None:
                stack.pop()
            elif member[1] is None:
                result.append(self.order[member[0]])
            else:
                stack.append(iter(sorted(members[member[1]], key=lambda member: member[0])))
        return result

    def nest(self, loop: int | None) -> list[int]:
        """Return a loop and those around it, the innermost first."""
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
        For loops that are nested more than `MAX_DEPTH` deep.
    """
    blocks = _blocks(function)
    _connect(function, blocks)
    order = _reverse_postorder([block.successors for block in blocks])
    rank = [-1] * len(blocks)
    for place, number in enumerate(order):
        rank[number] = place
    idom, spans = dominator_tree(
        order, rank, [b.successors for b in blocks], [b.predecessors for b in blocks]
    )
    graph = Graph(blocks, [], order, rank, idom, [], spans)
    _find_loops(graph)
    return graph


def _blocks(function: Function) -> list[Block]:
    """Cut the code at labels and after branches."""
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


def _reverse_postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return the blocks that can be reached from the first, each after its predecessors.

    (But for edges back.) Later blocks of the text are visited first, so that the order keeps to
    the text where it can.
    """
    seen = [False] * len(successors)
    seen[0] = True
    order: list[int] = []
    stack = [(0, iter(sorted(successors[0], reverse=True)))]
    while stack:
        number, rest = stack[-1]
        for successor in rest:
            if not seen[successor]:
                seen[successor] = True
                stack.append((successor, iter(sorted(successors[successor], reverse=True))))
                break
        else:
            order.append(number)
            stack.pop()
    return order[::-1]


def _find_loops(graph: Graph) -> None:
    """Find the natural loops, from the innermost outwards; loops of one header are one."""
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
        labels = blocks[header].labels  # one at least: it is jumped to
        named = {str(b.operands[-1]) for n in latches[header] if (b := blocks[n].branch)}
        label = next((label for label in labels if label.key in named), labels[0])
        places = [graph._spans[latch][0] for latch in latches[header]]
        span = (min(places), max(places))
        names = tuple(label.name for label in labels)
        graph.loops.append(
            Loop(number, label.name, names, label.line, header, latches[header], span)
        )
    # What belongs to a loop is represented by its header from then on.
    representative = list(range(len(blocks)))

    def find(block: int) -> int:
        root = block
        while representative[root] != root:
            root = representative[root]
        while representative[block] != root:
            representative[block], block = root, representative[block]
        return root

    for loop in reversed(graph.loops):
        blocks[loop.header].loop = loop.number
        waiting = [find(latch) for latch in loop.latches]
        while waiting:
            block = find(waiting.pop())
            if block == loop.header:
                continue
            representative[block] = loop.header
            inner = blocks[block].loop
            if inner is None:
                blocks[block].loop = loop.number
            else:
                graph.loops[inner].parent = loop.number
            back = set(latches.get(block, ()))
            waiting += [p for p in blocks[block].predecessors if rank[p] >= 0 and p not in back]
    _describe(graph)


def _describe(graph: Graph) -> None:
    """Set depths and exits of the loops."""
    for loop in graph.loops:  # a parent's header comes before its loops' headers
        if loop.parent is not None:
            loop.depth = graph.loops[loop.parent].depth + 1
        if loop.depth > MAX_DEPTH:
            raise PtxError(f"more than {MAX_DEPTH} loops within each other", loop.line)
    for number in graph.order:
        block = graph.blocks[number]
        for successor in block.successors:
            inside = set(graph.nest(graph.blocks[successor].loop))
            for loop_number in graph.nest(block.loop):
                if loop_number in inside:
                    break
                graph.loops[loop_number].exits.append((number, successor))

"""Control-flow graph of a function: basic blocks, dominators, natural loops.

Dominators come from the iterative algorithm of Cooper, Harvey & Kennedy (2001); loops are found
from the innermost outwards, each block once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sweep.importers.ptx.module import ISA, Function, Instruction, Label, PtxError

MAX_DEPTH = 64
"""Largest depth of nested loops; a greater depth is a mistake or an attack."""

MAX_EDGES = 2_000_000
"""Largest number of edges: lists of branch targets could create far more edges than lines."""

MAX_STEPS = 20_000_000
"""Largest number of steps in the search for dominators; compiled code needs a few per edge."""

_BRANCHES = ("bra", "brx")
_ENDS = frozenset({*_BRANCHES, *ISA["opcodes"]["leaving"]})

Passage = tuple[int | None, bool]
"""Code with one execution count: the innermost loop, and whether the code belongs to the loop's
test, which is executed once more than the rest of an iteration."""

Amount = dict[Passage, float]
"""Number of instructions in one execution of each passage."""


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
    loop : int or None
        The innermost loop that contains the block.
    share : float
        The fraction of executions of the surrounding code that reach the block; 0 if none does.
    passage : Passage
        The passage that it belongs to.
    """

    number: int
    labels: list[Label] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)
    loop: int | None = None
    share: float = 0.0
    passage: Passage = (None, False)

    @property
    def branch(self) -> Instruction | None:
        """The conditional or unconditional branch that ends the block."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.opcode in _BRANCHES else None


@dataclass
class Loop:
    """A natural loop: the blocks that lead to one of its latches without passing its header.

    Attributes
    ----------
    number : int
        Its index among the loops, in the order of the headers.
    label : Label
        A label of its header.
    header : int
        The block with which every iteration begins.
    latches : list of int
        The blocks that jump back to it.
    span : (int, int)
        The first and the last of its latches in the preorder of the dominator tree.
    parent : int or None
        The loop around it.
    depth : int
        1 for an outermost loop.
    exits : list of (int, int)
        Edges (block, successor) that leave the loop.
    test : int or None
        The block up to which the last iteration is executed, if that is not the end of the loop.
    trips : float or None
        Iterations per entry of the loop; ``None`` if unknown.
    origin : str
        ``constant`` (from the text), ``most`` (an upper bound from the text, since the loop has
        other exits), ``given`` (by the user) or ``open`` (unknown).
    size : str
        The name of an unknown trip count in the kernel file, else ``""``.
    entered : Passage
        The passage that its header would belong to without the loop.
    """

    number: int
    label: Label
    header: int
    latches: list[int]
    span: tuple[int, int]
    parent: int | None = None
    depth: int = 1
    exits: list[tuple[int, int]] = field(default_factory=list)
    test: int | None = None
    trips: float | None = None
    origin: str = "open"
    size: str = ""
    entered: Passage = (None, False)


@dataclass
class Graph:
    """Basic blocks with dominators and loops.

    Attributes
    ----------
    blocks : list of Block
        In the order of the text.
    order : list of int
        The reachable blocks in reverse postorder.
    rank : list of int
        Index of each block in ``order``; -1 for an unreachable block.
    idom : list of int
        Immediate dominators; -1 for the first block and unreachable ones.
    spans : list of (int, int)
        The interval of each block in a preorder of the dominator tree; (-1, -1) if unreachable.
    loops : list of Loop
        In the order of the headers.
    irreducible : list of (int, int)
        Edges that jump back to a block that does not dominate them.
    """

    blocks: list[Block]
    order: list[int]
    rank: list[int]
    idom: list[int]
    spans: list[tuple[int, int]] = field(repr=False)
    loops: list[Loop] = field(default_factory=list)
    irreducible: list[tuple[int, int]] = field(default_factory=list)

    def dominates(self, first: int, second: int) -> bool:
        """Return whether ``first`` dominates ``second`` (a block dominates itself)."""
        begin, end = self.spans[first]
        return 0 <= begin <= self.spans[second][0] < end

    def is_on_every_path(self, block: int, loop: Loop) -> bool:
        """Return whether every iteration of a loop executes a block exactly once."""
        begin, end = self.spans[block]
        first, last = loop.span
        return self.blocks[block].loop == loop.number and begin <= first and last < end

    def nest(self, loop: int | None) -> Iterator[int]:
        """Yield a loop and the loops that contain it, innermost first."""
        while loop is not None:
            yield loop
            loop = self.loops[loop].parent

    def is_inside(self, block: int, loop: int | None) -> bool:
        """Return whether a loop contains a block, at any depth; ``None`` is the whole function."""
        return loop is None or loop in self.nest(self.blocks[block].loop)

    @cached_property
    def linear_order(self) -> list[int]:
        """The reachable blocks in topological order, ignoring back edges.

        The blocks of a loop are contiguous.
        """

        def key(number: int) -> list[int]:
            headers = [self.loops[loop].header for loop in self.nest(self.blocks[number].loop)]
            return [self.rank[block] for block in (*reversed(headers), number)]

        return sorted(self.order, key=key)

    @property
    def sizes(self) -> dict[str, float]:
        """Unknown trip counts by name, each with its default of one iteration."""
        return {loop.size: 1.0 for loop in self.loops if loop.trips is None}

    def value(self, passage: Passage, sizes: Mapping[str, float]) -> float:
        """Return the execution count of a passage for values of the unknown trip counts."""
        result = 1.0
        number, is_test = passage
        while number is not None:
            loop = self.loops[number]
            result *= (sizes[loop.size] if loop.trips is None else loop.trips) + is_test
            number, is_test = loop.entered
        return result


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
    _connect(blocks)
    order = _reverse_postorder(blocks)
    rank = [-1] * len(blocks)
    for place, number in enumerate(order):
        rank[number] = place
    idom = _immediate_dominators(blocks, order, rank)
    graph = Graph(blocks, order, rank, idom, _spans(order, idom))
    _find_loops(graph)
    return graph


def _blocks(function: Function) -> list[Block]:
    """Split the code at labels and after branches."""
    blocks = [Block(0)]
    for item in function.body:
        code = blocks[-1].instructions
        if code and (isinstance(item, Label) or code[-1].opcode in _ENDS):
            blocks.append(Block(len(blocks)))
        if isinstance(item, Label):
            blocks[-1].labels.append(item)
        else:
            blocks[-1].instructions.append(item)
    return blocks


def _connect(blocks: Sequence[Block]) -> None:
    place = {label: block.number for block in blocks for label in block.labels}
    n_edges = 0
    for block in blocks:
        last = block.instructions[-1] if block.instructions else None
        targets = [place[label] for label in last.targets] if last is not None else []
        falls = last is None or last.opcode not in _ENDS or last.predicate
        if falls and block.number + 1 < len(blocks):
            targets.append(block.number + 1)
        n_edges += len(targets)
        if n_edges > MAX_EDGES and last is not None:
            raise PtxError(f"more than {MAX_EDGES} branch targets", last.line)
        block.successors = list(dict.fromkeys(targets))
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
                items = blocks[number].labels or blocks[number].instructions
                reason = "the branches are too tangled to be followed"
                raise PtxError(reason, items[0].line if items else 0)
            is_changed |= idom[number] != found
            idom[number] = found
    idom[order[0]] = -1
    return idom


def _spans(order: Sequence[int], idom: Sequence[int]) -> list[tuple[int, int]]:
    """Return the interval of each block in a preorder of the dominator tree.

    One block dominates another if its interval contains the start of the other's.
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
    for number, header in enumerate(sorted(latches, key=rank.__getitem__)):
        labels = blocks[header].labels  # at least one, because a branch leads here
        branches = (blocks[latch].branch for latch in latches[header])
        named = {b.targets[0] for b in branches if b is not None and b.opcode == "bra"}
        label = next((label for label in labels if label in named), labels[0])
        places = [graph.spans[latch][0] for latch in latches[header]]
        span = (min(places), max(places))
        graph.loops.append(Loop(number, label, header, latches[header], span))
    # Headers of inner loops come later, so inner loops are found before the loops around them.
    containing = [0] * len(blocks)
    for loop in reversed(graph.loops):
        members = {loop.header}
        waiting = list(loop.latches)
        while waiting:
            number = waiting.pop()
            if number not in members:
                members.add(number)
                waiting += [p for p in blocks[number].predecessors if rank[p] >= 0]
        for number in sorted(members):
            containing[number] += 1
            inner = blocks[number].loop
            if inner is None:
                blocks[number].loop = loop.number
            elif containing[number] > MAX_DEPTH:
                reason = f"more than {MAX_DEPTH} loops within each other"
                raise PtxError(reason, graph.loops[inner].label.line)
            elif graph.loops[inner].header == number and graph.loops[inner].parent is None:
                graph.loops[inner].parent = loop.number
            loop.exits += [(number, s) for s in blocks[number].successors if s not in members]
    for loop in graph.loops:
        loop.depth = containing[loop.header]

"""Control-flow graph of a function: basic blocks, dominators, natural loops.

Dominators come from the iterative algorithm of Cooper, Harvey & Kennedy (2001); loops are found
from the innermost outwards, each block once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from sweep.importers.ptx.module import ISA, Function, Instruction, Label, PtxError

MAX_DEPTH = 64
"""Largest depth of nested loops; a greater depth is a mistake or an attack."""

MAX_EDGES = 2_000_000
"""Largest number of edges: lists of branch targets could create far more edges than lines."""

MAX_STEPS = 20_000_000
"""Largest number of steps in the search for dominators; compiled code needs a few per edge."""

_BRANCHES = ("bra", "brx")
_ENDS = frozenset({*_BRANCHES, *ISA["opcodes"]["leaving"]})


@dataclass(eq=False, repr=False)
class Block:
    """A basic block: entered only at its first and left only at its last instruction.

    Attributes
    ----------
    labels : list of Label
        Labels at its beginning.
    instructions : list of Instruction
        The code; only the last may branch.
    successors, predecessors : list of Block
        Each once; the target of a branch precedes the fall-through block. Blocks that cannot be
        reached are no predecessors.
    number : int
        Its index in `Graph.blocks`.
    idom : Block or None
        Its immediate dominator, ``None`` for the first block.
    span : (int, int)
        Its interval in a preorder of the dominator tree.
    loop : Loop or None
        The innermost loop that contains it.
    depth : int
        The number of loops that contain it.
    share : float
        The fraction of executions of the surrounding code that reach it.
    """

    labels: list[Label] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    predecessors: list[Block] = field(default_factory=list)
    number: int = 0
    idom: Block | None = None
    span: tuple[int, int] = (-1, -1)
    loop: Loop | None = None
    depth: int = 0
    share: float = 0.0

    @property
    def branch(self) -> Instruction | None:
        """The conditional or unconditional branch that ends the block."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.opcode in _BRANCHES else None

    @cached_property
    def passage(self) -> Passage:
        """The passage that it belongs to, once the tests of the loops are known."""
        return _passage(self, self.loop)

    def dominates(self, other: Block) -> bool:
        """Return whether every path to another block passes this one; a block dominates itself."""
        return self.span[0] <= other.span[0] < self.span[1]


@dataclass(eq=False, repr=False)
class Loop:
    """A natural loop: the blocks that lead to one of its latches without passing its header.

    Attributes
    ----------
    header : Block
        The block with which every iteration begins.
    latches : list of Block
        The blocks that jump back to it.
    parent : Loop or None
        The loop around it.
    length : int
        The number of its blocks, which follow each other in `Graph.blocks`.
    exits : list of Block
        The blocks from which an edge leaves the loop.
    test : Block or None
        The block up to which the last iteration is executed, if that is not the end of the loop.
    trips : float or None
        Iterations per entry of the loop; ``None`` if unknown.
    origin : str
        ``constant`` (from the text), ``most`` (an upper bound from the text, since the loop has
        other exits), an assumption (`trips.REST`, `trips.WAITS`), ``given`` (by the user) or
        ``open`` (unknown).
    size : str
        The name of an unknown trip count in the kernel file, else ``""``.
    formula : str
        What the user says of an unknown trip count: an expression over sizes.
    """

    header: Block
    latches: list[Block]
    parent: Loop | None = None
    length: int = 0
    exits: list[Block] = field(default_factory=list)
    test: Block | None = None
    trips: float | None = None
    origin: str = "open"
    size: str = ""
    formula: str = ""

    def __contains__(self, block: Block) -> bool:
        return 0 <= block.number - self.header.number < self.length

    @cached_property
    def label(self) -> Label:
        """A label of its header. There is at least one, because a branch leads here."""
        branches = (latch.branch for latch in self.latches)
        named = {branch.targets[0] for branch in branches if branch and branch.opcode == "bra"}
        labels = self.header.labels
        return next((label for label in labels if label in named), labels[0])

    @cached_property
    def entered(self) -> Passage:
        """The passage that its header would belong to without the loop."""
        return _passage(self.header, self.parent)

    def executes_once(self, block: Block) -> bool:
        """Return whether every iteration executes a block exactly once."""
        places = self._places
        return block.loop is self and block.span[0] <= places[0] and places[1] < block.span[1]

    @cached_property
    def _places(self) -> tuple[int, int]:
        """The first and the last of its latches in the preorder of the dominator tree."""
        places = [latch.span[0] for latch in self.latches]
        return min(places), max(places)


Passage = tuple[Loop | None, bool]
"""Code with one execution count: the innermost loop, and whether the code belongs to the loop's
test, which is executed once more than the rest of an iteration."""

Amount = dict[Passage, float]
"""Number of instructions in one execution of each passage."""


_number = attrgetter("number")


def _passage(block: Block, loop: Loop | None) -> Passage:
    """Return the passage of a block of a loop."""
    test = loop.test if loop is not None else None
    return loop, test is not None and (block is test or not test.dominates(block))


def nest(loop: Loop | None) -> Iterator[Loop]:
    """Yield a loop and the loops that contain it, innermost first."""
    while loop is not None:
        yield loop
        loop = loop.parent


def executions(passage: Passage, sizes: Mapping[str, float]) -> float:
    """Return the execution count of a passage; an unknown trip count is 1 unless in ``sizes``."""
    result = 1.0
    loop, is_test = passage
    while loop is not None:
        result *= (sizes.get(loop.size, 1.0) if loop.trips is None else loop.trips) + is_test
        loop, is_test = loop.entered
    return result


def executed(amount: Amount, sizes: Mapping[str, float]) -> float:
    """Return an amount in all executions."""
    return sum(number * executions(passage, sizes) for passage, number in amount.items())


@dataclass(repr=False)
class Graph:
    """Basic blocks with dominators and loops.

    Attributes
    ----------
    blocks : list of Block
        The blocks that can be reached, in topological order without regard to jumps back. The
        blocks of a loop follow each other.
    loops : list of Loop
        In the order of the headers.
    irreducible : list of (Block, Block)
        Edges that jump back to a block that does not dominate them.
    n_dead : int
        Number of instructions that are never reached.
    machine : mapping of int to mapping
        Instructions of the machine by class, by the identity of an instruction that is not one.
    """

    blocks: list[Block]
    loops: list[Loop]
    irreducible: list[tuple[Block, Block]]
    n_dead: int
    machine: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    def code(self, loop: Loop) -> Iterator[Instruction]:
        """Yield the instructions of a loop, in order."""
        start = loop.header.number
        for block in self.blocks[start : start + loop.length]:
            yield from block.instructions


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
    text = _numbered(_blocks(function))
    _connect(text)
    blocks = _reverse_postorder(text)
    reached = set(blocks)
    for block in text:
        for successor in block.successors if block in reached else ():
            successor.predecessors.append(block)
    _find_dominators(_numbered(blocks))
    loops, irreducible = _find_loops(blocks)

    def place(block: Block) -> list[int]:
        return [*reversed([loop.header.number for loop in nest(block.loop)]), block.number]

    n_dead = sum(len(block.instructions) for block in text if block not in reached)
    return Graph(_numbered(sorted(blocks, key=place)), loops, irreducible, n_dead)


def _numbered(blocks: list[Block]) -> list[Block]:
    """Return blocks whose numbers are their places."""
    for number, block in enumerate(blocks):
        block.number = number
    return blocks


def _blocks(function: Function) -> list[Block]:
    """Split the code after branches and at labels that a branch leads to; debuggers have others."""
    targets = {label for instruction in function.instructions() for label in instruction.targets}
    blocks, waiting = [Block()], list[Label]()
    for item in function.body:
        if isinstance(item, Label):
            waiting.append(item)
            continue
        code = blocks[-1].instructions
        if code and (targets.intersection(waiting) or code[-1].opcode in _ENDS):
            blocks.append(Block())
        if not blocks[-1].instructions:
            blocks[-1].labels += waiting
        blocks[-1].instructions.append(item)
        waiting = []
    if waiting:
        blocks.append(Block(waiting))
    return blocks


def _connect(blocks: Sequence[Block]) -> None:
    """Find the successors of the blocks."""
    place = {label: block for block in blocks for label in block.labels}
    n_edges = 0
    for block in blocks:
        last = block.instructions[-1] if block.instructions else None
        targets = [place[label] for label in last.targets] if last is not None else []
        falls = last is None or last.opcode not in _ENDS or last.predicate
        targets += blocks[block.number + 1 : block.number + 2] if falls else []
        n_edges += len(targets)
        if n_edges > MAX_EDGES and last is not None:
            raise PtxError(f"more than {MAX_EDGES} branch targets", last.line)
        block.successors = list(dict.fromkeys(targets))


def _reverse_postorder(blocks: Sequence[Block]) -> list[Block]:
    """Return the reachable blocks in topological order, ignoring back edges.

    Later blocks of the text are visited first, so that the order follows the text where possible.
    """

    def latest_first(block: Block) -> Iterator[Block]:
        return iter(sorted(block.successors, key=_number, reverse=True))

    seen = {blocks[0]}
    order: list[Block] = []
    stack = [(blocks[0], latest_first(blocks[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((successor for successor in rest if successor not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, latest_first(following)))
    return order[::-1]


def _find_dominators(blocks: Sequence[Block]) -> None:
    """Set the immediate dominator and the span of every block."""
    idom = [0] + [-1] * (len(blocks) - 1)
    steps = 0
    is_changed = True
    while is_changed:
        is_changed = False
        for block in blocks[1:]:
            found = -1
            # Start with the last predecessor, so that long chains of early exits take few steps.
            for before in sorted(map(_number, block.predecessors), reverse=True):
                if idom[before] < 0:
                    continue
                first, second = before if found < 0 else found, before
                while first != second:
                    steps += 1
                    if first > second:
                        first = idom[first]
                    else:
                        second = idom[second]
                found = first
            if steps > MAX_STEPS:
                items = block.labels or block.instructions
                reason = "the branches are too tangled to be followed"
                raise PtxError(reason, items[0].line if items else 0)
            is_changed |= idom[block.number] != found
            idom[block.number] = found
    _set_spans(blocks, idom)


def _set_spans(blocks: Sequence[Block], idom: Sequence[int]) -> None:
    weight = [1] * len(blocks)
    for number in range(len(blocks) - 1, 0, -1):  # dominators precede what they dominate
        weight[idom[number]] += weight[number]
    blocks[0].span = (0, len(blocks))
    free = [1] * len(blocks)
    for number in range(1, len(blocks)):
        above = idom[number]
        begin = free[above]
        blocks[number].idom = blocks[above]
        blocks[number].span = (begin, begin + weight[number])
        free[above] += weight[number]
        free[number] = begin + 1


def _find_loops(blocks: Sequence[Block]) -> tuple[list[Loop], list[tuple[Block, Block]]]:
    """Return the natural loops, and the edges that jump back without making one.

    Loops with the same header are merged.
    """
    latches: dict[Block, list[Block]] = {}
    irreducible = []
    for block in blocks:
        for successor in block.successors:
            if successor.dominates(block):
                latches.setdefault(successor, []).append(block)
            elif successor.number <= block.number:
                irreducible.append((block, successor))
    loops = [Loop(header, latches[header]) for header in sorted(latches, key=_number)]
    # Headers of inner loops come later, so inner loops are found before the loops around them.
    for loop in reversed(loops):
        members = {loop.header}
        waiting = list(loop.latches)
        while waiting:
            block = waiting.pop()
            if block not in members:
                members.add(block)
                waiting += block.predecessors
        loop.length = len(members)
        for block in sorted(members, key=_number):
            block.depth += 1
            inner = block.loop
            if inner is None:
                block.loop = loop
            elif block.depth > MAX_DEPTH:
                raise PtxError(f"more than {MAX_DEPTH} loops within each other", inner.label.line)
            elif inner.header is block and inner.parent is None:
                inner.parent = loop
            if not members.issuperset(block.successors):
                loop.exits.append(block)
    return loops, irreducible

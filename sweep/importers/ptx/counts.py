"""How often a thread passes each block: as a number, or as an expression of trip counts.

The count of a block is its share (the part of the passages through the code around it that reach
it) times the trip counts of the loops around it. Both sides of a branch count in full, which Hong &
Kim (2009, Section 3.5) call an upper bound for divergent warps, unless the user gives the share;
where the sides meet again, they count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sweep.errors import nearest
from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import PtxError
from sweep.importers.ptx.trips import LoopTest

__all__ = ["Amount", "Counts", "LoopCount", "Passage", "count_blocks"]

MAX_OPEN = 200
"""Most loops without a trip count: each makes a problem size."""

Passage = tuple[int | None, bool]
"""Code that is passed equally often: innermost loop, and whether the loop's last test is passed
once more than the rest of an iteration."""

Amount = dict[Passage, float]
"""A number of instructions: per passage, how many there are in one."""


@dataclass(frozen=True)
class LoopCount:
    """The trip count of a loop.

    Attributes
    ----------
    loop : Loop
        The loop.
    trips : float or None
        Iterations for every time the loop is entered; ``None`` where it is open.
    origin : str
        ``constant`` (in the text), ``most`` (the text has a bound, and other reasons to leave),
        ``given`` (by the user) or ``open``.
    size : str
        The name that an open count has in the kernel file, else ``""``.
    """

    loop: Loop
    trips: float | None
    origin: str
    size: str = ""


@dataclass(frozen=True)
class Counts:
    """Shares and trip counts of a function's blocks.

    Attributes
    ----------
    graph : Graph
        The control-flow graph.
    shares : list of float
        Per block, 0 for what cannot be reached.
    passages : list of Passage
        Per block.
    loops : list of LoopCount
        Per loop.
    entered : list of Passage
        Per loop, the passage that its header would be part of without the loop.
    """

    graph: Graph
    shares: list[float]
    passages: list[Passage]
    loops: list[LoopCount]
    entered: list[Passage]

    def value(self, passage: Passage, sizes: Mapping[str, float]) -> float:
        """Return how often a passage is passed with given values of the open trip counts."""
        result = 1.0
        loop, is_test = passage
        while loop is not None:
            trips = self.loops[loop].trips
            count = sizes[self.loops[loop].size] if trips is None else trips
            result *= count + is_test
            loop, is_test = self.entered[loop]
        return result

    def total(self, amount: Amount, sizes: Mapping[str, float]) -> float:
        """Return a number of instructions with given values of the open trip counts."""
        return sum(number * self.value(passage, sizes) for passage, number in amount.items())


def count_blocks(
    graph: Graph,
    tests: list[LoopTest | None],
    trips: Mapping[str, float],
    branches: Mapping[str, float],
) -> Counts:
    """Return how often every block of a function is passed.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    tests : list of LoopTest or None
        Per loop, where it decides to continue.
    trips : mapping of str to float
        Trip counts from the user, by the label of the loop's header.
    branches : mapping of str to float
        The shares of the branches to a label that are taken, from the user.

    Raises
    ------
    PtxError
        For a label that is no loop's, or that no branch leads to.
    """
    taken = _shares_by_block(graph, branches)
    loops = _loop_counts(graph, tests, trips)
    passages = [
        (block.loop, _is_tested(graph, tests, block.number, block.loop)) for block in graph.blocks
    ]
    # The header of an inner loop tells how often the loop is entered.
    entered = [
        (loop.parent, _is_tested(graph, tests, loop.header, loop.parent)) for loop in graph.loops
    ]
    return Counts(graph, _shares(graph, taken), passages, loops, entered)


def _is_tested(graph: Graph, tests: list[LoopTest | None], block: int, loop: int | None) -> bool:
    """Whether a block of a loop comes before the end of the loop's last test."""
    test = tests[loop] if loop is not None else None
    if test is None or test.is_last:
        return False
    return block == test.block or not graph.dominates(test.block, block)


def _key(name: str) -> str:
    """Return a label without the sign that a shell would take for a variable."""
    return name.removeprefix("$")


def _shares_by_block(graph: Graph, branches: Mapping[str, float]) -> dict[int, float]:
    """Return the share of each block's branch that is taken, where the user gives it."""
    by_label = {_key(name): value for name, value in branches.items()}
    named = {
        block.number: label.name
        for block in graph.blocks
        for label in block.labels
        if _key(label.name) in by_label
    }
    headers = {loop.header for loop in graph.loops}
    result: dict[int, float] = {}
    targets: dict[int, None] = {}
    for number in graph.order:
        block = graph.blocks[number]
        if block.branch is None or len(block.successors) != 2 or block.fall is None:
            continue
        target = block.successors[0]
        is_back = target in headers and graph.dominates(target, number)
        if is_back and target in named:
            reason = f"the branch to '{named[target]}' repeats a loop: give its trip count"
            raise PtxError(reason, block.branch.line)
        if not is_back:
            targets[target] = None
            if target in named:
                result[number] = by_label[_key(named[target])]
    known = (label.name for target in targets for label in graph.blocks[target].labels)
    _refuse_unused(branches, "conditional branch to", known)
    return result


def _refuse_unused(wanted: Iterable[str], what: str, known: Iterable[str]) -> None:
    """Refuse labels that the user names but the code does not have."""
    listed = list(dict.fromkeys(known))
    keys = set(map(_key, listed))
    for name in wanted:
        if _key(name) not in keys:
            there_are = f" (there are {', '.join(listed[:12])})" if listed else " (there is none)"
            raise PtxError(f"no {what} '{name}'{nearest(name, listed)}{there_are}")


def _loop_counts(
    graph: Graph, tests: list[LoopTest | None], trips: Mapping[str, float]
) -> list[LoopCount]:
    by_label = {_key(name): value for name, value in trips.items()}
    _refuse_unused(trips, "loop at", (name for loop in graph.loops for name in loop.names))
    result = []
    names: dict[str, str] = {}
    for loop, test in zip(graph.loops, tests, strict=True):
        found = [by_label[key] for key in map(_key, loop.names) if key in by_label]
        if found:
            result.append(LoopCount(loop, found[-1], "given"))
        elif test is not None and test.trips is not None:
            origin = "constant" if test.is_exact else "most"
            result.append(LoopCount(loop, float(test.trips), origin))
        else:
            result.append(LoopCount(loop, None, "open", _size_name(loop.label, names)))
            if len(names) > MAX_OPEN:
                reason = f"more than {MAX_OPEN} loops have no constant trip count"
                raise PtxError(f"{reason}; this is one", loop.line)
    return result


def _size_name(label: str, names: dict[str, str]) -> str:
    """Return ``trip_LABEL``; copies of a called function's loop share it."""
    if label not in names:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in _key(label))
        name = f"trip_{plain[:60]}"
        while name in names.values():
            name += "_"
        names[label] = name
    return names[label]


def _shares(graph: Graph, taken: Mapping[int, float]) -> list[float]:
    """Return the share of each block, from the first to the last in the flow."""
    shares = [0.0] * len(graph.blocks)
    shares[graph.order[0]] = 1.0
    for number in graph.order[1:]:
        total = 0.0
        for before in graph.blocks[number].predecessors:
            if graph.rank[before] < 0 or graph.rank[before] >= graph.rank[number]:
                continue  # jumps back
            total += _along(graph, shares, taken, before, number)
        # Nothing is passed more often than the code that leads to it.
        shares[number] = min(total, shares[graph.idom[number]])
    return shares


def _along(
    graph: Graph, shares: list[float], taken: Mapping[int, float], before: int, after: int
) -> float:
    """Return the share that flows from one block to another."""
    part = 1.0
    if before in taken:
        part = taken[before] if graph.blocks[before].successors[0] == after else 1 - taken[before]
    source = before
    for loop in graph.nest(graph.blocks[before].loop):
        if graph.is_inside(after, loop):
            break
        # Everything that enters a loop leaves it, here or elsewhere.
        source = graph.loops[loop].header
    return shares[source] * part

"""How often a thread passes each block: as a number, or as an expression of trip counts.

A block's count is its share (what part of the passages through the code around it come by here)
times the trip counts of the loops around it. Both sides of a branch count in full, which Hong &
Kim (2009, Section 3.5) call an upper bound for divergent warps, unless the share is given; where
the sides meet again, they count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sweep.errors import nearest
from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import PtxError
from sweep.importers.ptx.trips import LoopTest

__all__ = ["Amount", "Counts", "LoopCount", "Passage", "count_blocks"]

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

    def is_open(self, passage: Passage) -> bool:
        """Whether a passage depends on an open trip count."""
        loop = passage[0]
        while loop is not None:
            if self.loops[loop].trips is None:
                return True
            loop = self.entered[loop][0]
        return False


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
        Per loop, where it decides to go on.
    trips : mapping of str to float
        Given trip counts by the label of the loop's header.
    branches : mapping of str to float
        The shares of the branches to a label that are taken.

    Raises
    ------
    PtxError
        For a label that is no loop's, or that no branch leads to.
    """
    given = _trips_by_loop(graph, trips)
    taken = _shares_by_block(graph, branches)
    loops = _loop_counts(graph, tests, given)
    shares = _shares(graph, taken)
    passages: list[Passage] = []
    for block in graph.blocks:
        passages.append((block.loop, _is_tested(graph, tests, block.number, block.loop)))
    entered: list[Passage] = [
        (loop.parent, _is_tested(graph, tests, loop.header, loop.parent)) for loop in graph.loops
    ]
    # A block of an inner loop is passed as often as the inner loop's header says.
    return Counts(graph, shares, passages, loops, entered)


def _is_tested(graph: Graph, tests: list[LoopTest | None], block: int, loop: int | None) -> bool:
    """Whether a block of a loop comes before the end of the loop's last test."""
    test = tests[loop] if loop is not None else None
    if test is None or test.is_last:
        return False
    return block == test.block or not graph.dominates(test.block, block)


def label_key(name: str) -> str:
    """Return a label without the sign that a shell would take for a variable."""
    return name.removeprefix("$")


def _trips_by_loop(graph: Graph, trips: Mapping[str, float]) -> dict[int, float]:
    by_label = {label_key(name): value for name, value in trips.items()}
    result = {}
    used = set()
    for loop in graph.loops:
        for name in map(label_key, loop.names):
            if name in by_label:
                result[loop.number] = by_label[name]
                used.add(name)
    _refuse_unused(trips, used, "loop", [loop.label for loop in graph.loops])
    return result


def _shares_by_block(graph: Graph, branches: Mapping[str, float]) -> dict[int, float]:
    """Return the given share of each block's branch that is taken."""
    by_label = {label_key(name): value for name, value in branches.items()}
    headers = {loop.header for loop in graph.loops}
    result, used, known = {}, set(), []
    for number in graph.order:
        block = graph.blocks[number]
        if block.branch is None or len(block.successors) != 2 or block.fall is None:
            continue
        target = block.successors[0]
        is_back = target in headers and graph.dominates(target, number)
        names = [label.name for label in graph.blocks[target].labels]
        if is_back:
            for name in names:
                if label_key(name) in by_label:
                    reason = f"the branch to '{name}' repeats a loop: give its trip count"
                    raise PtxError(reason, block.branch.line)
            continue
        known += names
        for name in map(label_key, names):
            if name in by_label:
                result[number] = by_label[name]
                used.add(name)
    _refuse_unused(branches, used, "conditional branch", known)
    return result


def _refuse_unused(
    given: Mapping[str, float], used: set[str], what: str, known: Iterable[str]
) -> None:
    listed = list(dict.fromkeys(known))
    for name in given:
        if label_key(name) not in used:
            there_are = f" (there are {', '.join(listed[:12])})" if listed else " (there is none)"
            place = f"no {what} {'to' if 'branch' in what else 'at'} '{name}'"
            raise PtxError(f"{place}{nearest(name, listed)}{there_are}")


MAX_OPEN = 200
"""Most loops without a trip count: each makes a problem size."""


def _loop_counts(
    graph: Graph, tests: list[LoopTest | None], given: Mapping[int, float]
) -> list[LoopCount]:
    result = []
    names: dict[str, str] = {}
    for loop in graph.loops:
        test = tests[loop.number]
        if loop.number in given:
            result.append(LoopCount(loop, given[loop.number], "given"))
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
    """Return ``trip_LABEL``; loops of one label, copies of a called function's, share it."""
    if label not in names:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in label_key(label))
        name = f"trip_{plain}"
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
    """Return what comes from one block to another, for every passage through the code around."""
    part = 1.0
    if before in taken:
        part = taken[before] if graph.blocks[before].successors[0] == after else 1 - taken[before]
    source = before
    for loop in graph.nest(graph.blocks[before].loop):
        if graph.is_inside(after, loop):
            break
        # What enters a loop leaves it; a share says how much of it leaves here.
        source = graph.loops[loop].header
    return shares[source] * part

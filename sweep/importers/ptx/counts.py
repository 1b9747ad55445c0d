"""Execution count of each basic block per thread: a number, or an expression of trip counts.

The count of a block is its share (the fraction of executions of the surrounding code that reach the
block) times the trip counts of the loops around it. Unless the user gives a share, both sides of a
branch count in full, which Hong & Kim (2009, Section 3.5) call an upper bound for divergent warps;
the code after the branch counts once.
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
"""Largest number of loops with unknown trip counts; each becomes a problem size."""

Passage = tuple[int | None, bool]
"""Code with one execution count: the innermost loop, and whether the code belongs to the loop's
test, which is executed once more than the rest of an iteration."""

Amount = dict[Passage, float]
"""Number of instructions in one execution of each passage."""


@dataclass(frozen=True)
class LoopCount:
    """The trip count of a loop.

    Attributes
    ----------
    loop : Loop
        The loop.
    trips : float or None
        Iterations per entry of the loop; ``None`` if unknown.
    origin : str
        ``constant`` (from the text), ``most`` (an upper bound from the text, since the loop has
        other exits), ``given`` (by the user) or ``open`` (unknown).
    size : str
        The name of an unknown count in the kernel file, else ``""``.
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
        The share of each block, 0 for unreachable ones.
    passages : list of Passage
        The passage of each block.
    loops : list of LoopCount
        The trip count of each loop.
    entered : list of Passage
        For each loop, the passage that its header would belong to without the loop.
    """

    graph: Graph
    shares: list[float]
    passages: list[Passage]
    loops: list[LoopCount]
    entered: list[Passage]

    def value(self, passage: Passage, sizes: Mapping[str, float]) -> float:
        """Return the execution count of a passage for values of the unknown trip counts."""
        result = 1.0
        loop, is_test = passage
        while loop is not None:
            trips = self.loops[loop].trips
            count = sizes[self.loops[loop].size] if trips is None else trips
            result *= count + is_test
            loop, is_test = self.entered[loop]
        return result

    def total(self, amount: Amount, sizes: Mapping[str, float]) -> float:
        """Return a number of instructions for values of the unknown trip counts."""
        return sum(number * self.value(passage, sizes) for passage, number in amount.items())


def count_blocks(
    graph: Graph,
    tests: list[LoopTest | None],
    trips: Mapping[str, float],
    branches: Mapping[str, float],
) -> Counts:
    """Return the execution count of every block of a function.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    tests : list of LoopTest or None
        The test of each loop that decides whether to continue.
    trips : mapping of str to float
        Trip counts from the user, by the label of the loop's header.
    branches : mapping of str to float
        The share of branches to a label that are taken, from the user.

    Raises
    ------
    PtxError
        A label belongs to no loop, or no branch leads to it.
    """
    taken = _shares_by_block(graph, branches)
    loops = _loop_counts(graph, tests, trips)
    passages = [
        (block.loop, _is_tested(graph, tests, block.number, block.loop)) for block in graph.blocks
    ]
    # The passage of its header determines how often a loop is entered.
    entered = [
        (loop.parent, _is_tested(graph, tests, loop.header, loop.parent)) for loop in graph.loops
    ]
    return Counts(graph, _shares(graph, taken), passages, loops, entered)


def _is_tested(graph: Graph, tests: list[LoopTest | None], block: int, loop: int | None) -> bool:
    """Return whether a block of a loop is executed before the loop's last test ends."""
    test = tests[loop] if loop is not None else None
    if test is None or test.is_last:
        return False
    return block == test.block or not graph.dominates(test.block, block)


def _key(name: str) -> str:
    """Return a label without ``$``, which a shell would interpret."""
    return name.removeprefix("$")


def _shares_by_block(graph: Graph, branches: Mapping[str, float]) -> dict[int, float]:
    """Return the share of taken branches of each block for which the user gives it."""
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
    """Refuse labels from the user that are not in the code."""
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
    """Return ``trip_LABEL``; inlined copies of a loop share the name."""
    if label not in names:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in _key(label))
        name = f"trip_{plain[:60]}"
        while name in names.values():
            name += "_"
        names[label] = name
    return names[label]


def _shares(graph: Graph, taken: Mapping[int, float]) -> list[float]:
    """Return the share of each block, in the order of the control flow."""
    shares = [0.0] * len(graph.blocks)
    shares[graph.order[0]] = 1.0
    for number in graph.order[1:]:
        total = 0.0
        for before in graph.blocks[number].predecessors:
            if graph.rank[before] < 0 or graph.rank[before] >= graph.rank[number]:
                continue  # a back edge
            total += _along(graph, shares, taken, before, number)
        # No block is executed more often than the code that leads to it.
        shares[number] = min(total, shares[graph.idom[number]])
    return shares


def _along(
    graph: Graph, shares: list[float], taken: Mapping[int, float], before: int, after: int
) -> float:
    """Return the share of one block's executions that continue in another."""
    part = 1.0
    if before in taken:
        part = taken[before] if graph.blocks[before].successors[0] == after else 1 - taken[before]
    source = before
    for loop in graph.nest(graph.blocks[before].loop):
        if graph.is_inside(after, loop):
            break
        # Every entry of a loop leaves it again, at this exit or another.
        source = graph.loops[loop].header
    return shares[source] * part

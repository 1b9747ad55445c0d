"""Execution count of each basic block per thread: a number, or an expression of trip counts.

The count of a block is its share (the fraction of executions of the surrounding code that reach the
block) times the trip counts of the loops around it. Unless the user gives a share, both sides of a
branch count in full, which Hong & Kim (2009, Section 3.5) call an upper bound for divergent warps;
the code after the branch counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sweep.errors import nearest
from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import PtxError

__all__ = ["count_blocks"]

MAX_OPEN = 200
"""Largest number of loops with unknown trip counts; each becomes a problem size."""


def count_blocks(graph: Graph, trips: Mapping[str, float], branches: Mapping[str, float]) -> None:
    """Set the execution count of every block: shares, passages and sizes of unknown trip counts.

    Parameters
    ----------
    graph : Graph
        The control-flow graph, in which loops have their tests and known trip counts.
    trips : mapping of str to float
        Trip counts from the user, by the label of the loop's header.
    branches : mapping of str to float
        The share of branches to a label that are taken, from the user.

    Raises
    ------
    PtxError
        A label belongs to no loop, or no branch leads to it.
    """
    taken = _shares_of_branches(graph, branches)
    _complete_trips(graph, trips)
    _set_shares(graph, taken)
    for block in graph.blocks:
        block.passage = block.loop, _is_tested(graph, block.number, block.loop)
    for loop in graph.loops:
        # The passage of its header determines how often a loop is entered.
        loop.entered = loop.parent, _is_tested(graph, loop.header, loop.parent)


def _is_tested(graph: Graph, block: int, loop: int | None) -> bool:
    """Return whether a block of a loop is executed before the loop's last test ends."""
    test = graph.loops[loop].test if loop is not None else None
    return test is not None and (block == test or not graph.dominates(test, block))


def _key(name: str) -> str:
    """Return a label without ``$``, which a shell would interpret."""
    return name.removeprefix("$")


def _shares_of_branches(graph: Graph, branches: Mapping[str, float]) -> dict[int, float]:
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
        if block.branch is None or not block.branch.predicate or len(block.successors) != 2:
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
    _refuse_unused(graph, branches, "conditional branch to", targets)
    return result


def _refuse_unused(graph: Graph, wanted: Iterable[str], what: str, blocks: Iterable[int]) -> None:
    """Refuse labels from the user that do not belong to one of some blocks."""
    listed = list(dict.fromkeys(label.name for n in blocks for label in graph.blocks[n].labels))
    keys = set(map(_key, listed))
    for name in wanted:
        if _key(name) not in keys:
            there_are = f" (there are {', '.join(listed[:12])})" if listed else " (there is none)"
            raise PtxError(f"no {what} '{name}'{nearest(name, listed)}{there_are}")


def _complete_trips(graph: Graph, trips: Mapping[str, float]) -> None:
    """Set the user's trip counts, and name those that are unknown."""
    _refuse_unused(graph, trips, "loop at", (loop.header for loop in graph.loops))
    by_label = {_key(name): value for name, value in trips.items()}
    names: dict[str, str] = {}
    for loop in graph.loops:
        labels = [_key(label.name) for label in graph.blocks[loop.header].labels]
        found = [by_label[label] for label in labels if label in by_label]
        if found:
            loop.trips, loop.origin = found[-1], "given"
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


def _set_shares(graph: Graph, taken: Mapping[int, float]) -> None:
    """Set the share of each block, in the order of the control flow."""
    graph.blocks[graph.order[0]].share = 1.0
    for number in graph.order[1:]:
        block = graph.blocks[number]
        total = 0.0
        for before in block.predecessors:
            if 0 <= graph.rank[before] < graph.rank[number]:  # no back edge
                total += _share_of_edge(graph, taken, before, number)
        # No block is executed more often than the code that leads to it.
        block.share = min(total, graph.blocks[graph.idom[number]].share)


def _share_of_edge(graph: Graph, taken: Mapping[int, float], before: int, after: int) -> float:
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
    return graph.blocks[source].share * part

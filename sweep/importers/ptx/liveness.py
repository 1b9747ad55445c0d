"""How many 32-bit registers of a thread are live at once: an estimate of what it needs.

PTX has as many registers as a program likes; the assembler later maps those that are live at the
same time onto the registers of the machine. The most that are live at once is therefore near what
the machine code takes, though the assembler also reorders code, computes values twice rather than
keep them, reads kernel parameters where they lie, and keeps some registers for itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from sweep.importers.ptx.control_flow import Graph
from sweep.importers.ptx.module import Instruction, Registers
from sweep.importers.ptx.operands import reads_and_writes

__all__ = ["live_registers"]

GROUP = 4096
"""Registers that are followed together, one bit each: bounds the memory of long programs."""

MAX_PASSES = 136
"""Loops nested n deep take about n + 2 passes over their blocks; what jumps into loops from aside
may take more, and is then cut off: the result is an estimate anyway."""

Uses = list[tuple[list[str], list[str]]]


def live_registers(graph: Graph, registers: Registers) -> int:
    """Return the most 32-bit registers that are live at once.

    A 64-bit register counts as two, one of 16 bits or less as one, a predicate as none. A value
    that is written under a predicate is taken to live before, too.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    registers : Registers
        The types of the registers.

    Returns
    -------
    int
        The estimate; 0 for code without registers.
    """
    widths: dict[str, int] = {}
    uses: dict[int, Uses] = {}
    for number in graph.order:
        uses[number] = [_uses(i, registers, widths) for i in graph.blocks[number].instructions]
    exposed, killed, shared = _summary(uses)
    base, live = _live_out(graph, exposed, killed, shared, widths)
    return max((_peak(uses[n], base[n], live[n], widths) for n in graph.order), default=0)


def _uses(
    instruction: Instruction, registers: Registers, widths: dict[str, int]
) -> tuple[list[str], list[str]]:
    reads, writes = reads_and_writes(instruction)
    for name in (*reads, *writes):
        if name not in widths:
            widths[name] = registers.width(name)
    kept = [name for name in reads if widths[name]]
    written = [name for name in writes if widths[name]]
    if instruction.predicate:
        kept += written
    return kept, written


def _summary(uses: dict[int, Uses]) -> tuple[dict[int, set[str]], dict[int, set[str]], list[str]]:
    """Return per block what it reads from before, what it overwrites, and all names so read."""
    exposed: dict[int, set[str]] = {}
    killed: dict[int, set[str]] = {}
    for number, listed in uses.items():
        above: set[str] = set()
        below: set[str] = set()
        for reads, writes in listed:
            above.update(name for name in reads if name not in below)
            below.update(writes)
        exposed[number], killed[number] = above, below
    crossing = sorted(set().union(*exposed.values()))
    return exposed, killed, crossing


def _live_out(
    graph: Graph,
    exposed: dict[int, set[str]],
    killed: dict[int, set[str]],
    crossing: list[str],
    widths: dict[str, int],
) -> tuple[dict[int, int], dict[int, set[str]]]:
    """Return per block how many registers are live at its end, and which of those it names."""
    base = dict.fromkeys(graph.order, 0)
    named: dict[int, set[str]] = {number: set() for number in graph.order}
    for width in sorted({widths[name] for name in crossing}):
        alike = [name for name in crossing if widths[name] == width]
        for start in range(0, len(alike), GROUP):
            group = {name: bit for bit, name in enumerate(alike[start : start + GROUP])}
            gen = {n: _bits(exposed[n], group) for n in graph.order}
            keep = {n: ~_bits(killed[n], group) for n in graph.order}
            out = _solve(graph, gen, keep)
            for number, bits in out.items():
                base[number] += bits.bit_count() * width
                if bits:
                    names = exposed[number] | killed[number]
                    named[number].update(n for n in names if n in group and bits >> group[n] & 1)
    return base, named


def _bits(names: Iterable[str], group: dict[str, int]) -> int:
    bits = 0
    for name in names:
        bit = group.get(name)
        if bit is not None:
            bits |= 1 << bit
    return bits


def _solve(graph: Graph, gen: dict[int, int], keep: dict[int, int]) -> dict[int, int]:
    """Return what is live at the end of each block; the last waiting block is always the next."""
    live_in = dict(gen)
    out = dict.fromkeys(graph.order, 0)
    heap = [-rank for rank in range(len(graph.order))]
    heapq.heapify(heap)
    waiting = set(heap)
    for _ in range(MAX_PASSES * len(graph.order)):
        if not heap:
            break
        key = heapq.heappop(heap)
        waiting.discard(key)
        number = graph.order[-key]
        after = 0
        for successor in graph.blocks[number].successors:
            after |= live_in[successor]
        out[number] = after
        before = gen[number] | (after & keep[number])
        if before == live_in[number]:
            continue
        live_in[number] = before
        for predecessor in graph.blocks[number].predecessors:
            key = -graph.rank[predecessor]
            if key <= 0 and key not in waiting:
                waiting.add(key)
                heapq.heappush(heap, key)
    return out


def _peak(uses: Uses, base: int, named: set[str], widths: dict[str, int]) -> int:
    """Return the most registers live inside one block, going up from its end."""
    live = set(named)
    count = peak = base
    for reads, writes in reversed(uses):
        dead = {name for name in writes if name not in live}
        peak = max(peak, count + sum(widths[name] for name in dead))
        for name in set(writes) & live:
            live.discard(name)
            count -= widths[name]
        for name in reads:
            if name not in live:
                live.add(name)
                count += widths[name]
        peak = max(peak, count)
    return peak

"""What was found in a kernel's PTX and what was assumed, in ten lines; and what must be said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from textwrap import shorten, wrap

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import ANY, Analysis
from sweep.importers.ptx.control_flow import Loop
from sweep.importers.ptx.module import PtxError

MOST_LINES, WIDTH = 10, 100
MOST_LOOPS = MOST_LABELS = 4
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_NEAR = 12
"""Lines of PTX after a label in which its source line may stand."""


def check_complete(analysis: Analysis, text: str) -> None:
    """Refuse a kernel about which the text does not tell enough.

    Parameters
    ----------
    analysis : Analysis
        The kernel.
    text : str
        The PTX, which may name lines of the source.

    Raises
    ------
    PtxError
        A loop has no trip count, or the shape of a block matters and is not known.
    """
    read = (o for instruction in analysis.function.instructions() for o in instruction.operands)
    further = (index for index in read if index in ("%tid.y", "%tid.z"))
    if analysis.block is None and (name := next(further, "")):
        raise PtxError(f"the kernel reads {name}: give its block, such as --block 32,8")
    if loops := analysis.open_loops:
        named = list({x.label.name: x for x in loops}.values())
        listed = [f"--trip '{x.label.name}=N' ({_where(x, text)})" for x in named[:MOST_LOOPS]]
        if any(x.parent in loops for x in loops):
            listed[-1] += ", loops within each other"
        elif len(named) > 1:
            more = f", one of {len(named)}" if len(named) > MOST_LOOPS else ""
            listed = [f"--trip '{ANY}=N' for all of them, or {listed[0]}", *listed[1:]]
            listed[-1] += more
        raise PtxError(
            f"the text does not tell how often loops repeat: give {', '.join(listed)}; "
            "N is a number, or an expression over sizes, such as n/16 with --size n=4096"
        )


def _where(loop: Loop, text: str) -> str:
    """Return the line of a loop, in the source if the PTX names it."""
    line = loop.label.line
    lines = text.splitlines()
    files = {found[1]: found[2] for found in map(_FILE.match, lines) if found}
    around = [*range(line - 1, min(line + _NEAR, len(lines))), *range(line - 2, -1, -1)]
    found = next((m for i in around if (m := _PLACE.match(lines[i]))), None)
    if found is None or found[1] not in files:
        return f"line {line}"
    return f"{files[found[1]].rpartition('/')[2]}, line {found[2]}"


def summary(analysis: Analysis, registers: int | None = None, before: int = 0) -> list[str]:
    """Return what was found and what was assumed, in at most ten lines of 100 columns.

    Parameters
    ----------
    analysis : Analysis
        The kernel.
    registers : int, optional
        Registers per thread, instead of the estimate.
    before : int
        Columns of what stands before the first line.
    """
    first, *others = _facts(analysis, registers)
    first = shorten(first, max(WIDTH - before, WIDTH // 2), placeholder=" ...")
    rest = WIDTH - len("sweep:   ")
    wrapped = [wrap(line, rest, subsequent_indent="  ", break_on_hyphens=False) for line in others]
    for place in reversed(range(len(wrapped))):
        if sum(map(len, wrapped)) + 1 > MOST_LINES:
            wrapped[place] = [shorten(others[place], rest, placeholder=" ...")]
    return [first, *(f"  {line}" for line in chain.from_iterable(wrapped))][:MOST_LINES]


def _facts(analysis: Analysis, registers: int | None) -> list[str]:
    """Return what was found and what was assumed, in at most ten sentences."""
    function, module = analysis.function, analysis.function.module
    block = "x".join(map(str, analysis.block)) if analysis.block else "any size"
    memory = f"{analysis.shared_bytes:,} B shared"
    lines = [
        f"{function.plain_name}, PTX {module.version} for {module.target}, blocks of {block}",
        f"{registers or analysis.registers} registers a thread"
        f"{'' if registers else ' (estimated)'}, {memory}"
        f"{' and what the launch adds' if analysis.has_dynamic_shared else ''}",
        *_counts(analysis),
        *product_lines(analysis),
        *_loops(analysis),
    ]
    assumed = Counter(shape.assumed for shape in analysis.accesses() if shape.assumed)
    lines += [f"assumed of {n} kinds of access: {why}" for why, n in assumed.most_common(2)]
    labels = analysis.both_sides
    named = ", ".join(labels[:MOST_LABELS])
    more = f" and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    both = f"both sides count of branches to {named}{more} (--branch), " if labels else ""
    lines.append(f"assumed: {both}L2 serves repeated reads that fit (l2_hit_rate)")
    notes = [unknown.remark() for unknown in analysis.unknown] + list(analysis.notes)
    left = MOST_LINES - len(lines)
    if len(notes) > left:
        notes[left - 1 :] = [f"{len(notes) - left + 1} more notes are in the file"]
    return lines + notes


def _counts(analysis: Analysis) -> Iterator[str]:
    """Yield what a thread executes, and what it accesses; once each loop of unknown length."""
    counts = sorted(analysis.instructions().items(), key=lambda item: -item[1])
    yield "instructions of a thread: " + ", ".join(f"{n:g} {kind}" for kind, n in counts)
    kinds: Counter[str] = Counter()
    for shape, n in analysis.accesses().items():
        kinds[_of(shape)] += n / shape.words  # type: ignore[assignment]
    words = ", ".join(f"{n:g} {kind}" for kind, n in kinds.most_common())
    yield f"accesses of a thread: {words or 'none'}"


def product_lines(analysis: Analysis) -> Iterator[str]:
    """Yield how much a thread's matrix instructions calculate, in one line; none without them."""
    found = analysis.products()
    if found:
        words = (f"{n:g} of {p.multiply_adds:,g} {p.kind}" for p, n in found.items())
        yield f"matrix instructions: {', '.join(words)} multiply-adds a warp"


def _of(shape: Shape) -> str:
    """Return an access in words."""
    words = f"{shape.origin or shape.space} {shape.direction}s of {shape.bytes * shape.words:g} B"
    if shape.transactions:
        return f"{words} with {shape.transactions * shape.words:g} transactions a warp"
    if shape.pattern == "strided":
        steps = f"{words} in steps of {shape.x} words"
        return {0: f"broadcast {words}", 1: words}.get(shape.x, steps)
    return f"{shape.pattern} {words}"


def _loops(analysis: Analysis) -> Iterator[str]:
    """Yield how often loops repeat, in one line; equal ones together."""
    loops = list({loop.label.name: loop for loop in analysis.graph.loops}.values())
    equal: dict[str, list[str]] = {}
    for loop in sorted(loops, key=lambda loop: loop.trips == 0):
        origin = f" ({loop.origin})" if loop.origin != "constant" else ""
        if loop.formula or loop.trips is not None:
            times = f"{loop.formula or f'{loop.trips:g}'} times{origin}"
            equal.setdefault(times, []).append(loop.label.name)
    words = [
        f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)} {times}"
        for times, names in equal.items()
    ]
    if words:
        yield f"loops: {', '.join(words)}"

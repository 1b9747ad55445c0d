"""What was found in a kernel's PTX and what was assumed, in ten lines; and what must be said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Loop
from sweep.importers.ptx.module import PtxError

MOST_LINES = 10
MOST_LOOPS = 4
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
    if analysis.block is None and (name := _further_index(analysis)):
        raise PtxError(f"the kernel reads {name}: give its block, such as --block 32,8")
    if loops := analysis.open_loops:
        listed = [
            f"--trip '{x.label.name}=N' ({_where(x, text)})"
            for x in {x.label.name: x for x in loops}.values()
        ]
        raise PtxError(
            f"the text does not tell how often loops repeat: give {', '.join(listed)}; "
            "N is a number, or an expression over sizes, such as n/16 with --size n=4096"
        )


def _further_index(analysis: Analysis) -> str | None:
    """Return the name of an index in y or z that the kernel reads."""
    for instruction in analysis.function.instructions():
        for operand in instruction.operands:
            if operand in ("%tid.y", "%tid.z"):
                return str(operand)
    return None


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


def summary(analysis: Analysis, registers: int | None = None) -> list[str]:
    """Return what was found and what was assumed, in at most ten lines."""
    function, module = analysis.function, analysis.function.module
    block = "x".join(map(str, analysis.block)) if analysis.block else "any size"
    memory = f"{analysis.shared_bytes:,} B of shared memory"
    lines = [
        f"{function.name}, PTX {module.version} for {module.target}, blocks of {block}: "
        f"{registers or analysis.registers} registers a thread"
        f"{'' if registers else ' (estimated)'}, {memory}"
        f"{' and what the launch adds' if analysis.has_dynamic_shared else ''}",
        *_counts(analysis),
        *product_lines(analysis),
        *_loops(analysis),
    ]
    assumed = Counter(shape.assumed for shape in analysis.accesses() if shape.assumed)
    lines += [f"assumed of {n} accesses: {why}" for why, n in assumed.most_common(2)]
    lines.append(
        "assumed: nothing hits in L2 (cache.l2_hit_rate), and both sides of branches are taken"
    )
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
        words = [f"{n:g} of {product.multiply_adds:,}" for product, n in found.items()]
        kinds = " or ".join(dict.fromkeys(product.kind for product in found))
        yield (
            f"matrix instructions: {', '.join(words)} multiply-adds a warp; "
            f"models count each as one {kinds} instruction"
        )


def _of(shape: Shape) -> str:
    """Return an access in words."""
    words = f"{shape.origin or shape.space} {shape.direction}s of {shape.bytes * shape.words:g} B"
    if shape.transactions:
        return f"{words} with {shape.transactions * shape.words:g} transactions a warp"
    if shape.pattern == "strided":
        return words if shape.x == 1 else f"{words} in steps of {shape.x} words"
    return f"{shape.pattern} {words}"


def _loops(analysis: Analysis) -> Iterator[str]:
    """Yield how often loops repeat, in one line."""
    loops = list({loop.label.name: loop for loop in analysis.graph.loops}.values())
    words = [
        f"{loop.label.name} {loop.formula or f'{loop.trips:g}'} times"
        f"{' (' + loop.origin + ')' if loop.origin != 'constant' else ''}"
        for loop in loops[:MOST_LOOPS]
        if loop.formula or loop.trips is not None
    ]
    if words:
        more = f", and {len(loops) - MOST_LOOPS} more" if len(loops) > MOST_LOOPS else ""
        yield f"loops: {', '.join(words)}{more}"

"""The parts of a kernel's code that are the same in the texts of its configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, executed
from sweep.importers.ptx.stages import Stage, added


def parts_of(analysis: Analysis) -> Iterator[Stage]:
    """Yield the code before the first loop, the loop, the code after it, and so on."""
    part = Stage(None, (None, False), share=1.0)
    for stage in analysis.stages:
        if stage.loop is None:
            part.absorb(stage)
        else:
            yield from (part, stage)
            part = Stage(None, (None, False), share=1.0)
    yield part


def accesses_of(part: Stage) -> dict[Hashable, tuple[Shape, Amount]]:
    """Return the accesses of a stage by what they share with those of other texts.

    What differs in transactions only is one access, in the mean.
    """
    merged: dict[tuple[Shape, int, int, int], list[tuple[Shape, Amount]]] = {}
    for shape, amount in part.of(Shape).items():
        pattern = "measured" if shape.transactions else shape.pattern
        common = shape._replace(words=1, pattern=pattern, x=0, y=0, z=0, assumed="", transactions=0)
        merged.setdefault((common, shape.x, shape.y, shape.z), []).append((shape, amount))
    numbers: Counter[Shape] = Counter()
    result: dict[Hashable, tuple[Shape, Amount]] = {}
    for (common, *_), found in merged.items():
        numbers[common] += 1
        weights = [executed(amount, {}) for _, amount in found]
        total = sum(shape.transactions * n for (shape, _), n in zip(found, weights, strict=True))
        mean = total / sum(weights) if sum(weights) else found[0][0].transactions
        shape = found[0][0]._replace(transactions=mean)
        amount = added(("", amount) for _, amount in found)[""]
        result[common, numbers[common]] = shape, amount
    return result


def weight_of(part: Stage) -> float:
    """Return the instructions of a stage, once each loop of unknown length."""
    return sum(executed(amount, {}) for amount in part.of(str).values())

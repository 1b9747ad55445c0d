"""The parts of a kernel's code that are the same in the texts of its configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.analysis import Analysis
from sweep.importers.ptx.control_flow import Amount, executed
from sweep.importers.ptx.stages import Stage, added


class Access(NamedTuple):
    """What accesses of different texts have in common if they are one access of the file."""

    space: str
    direction: str
    origin: str
    pattern: str
    bytes: int
    is_copy: bool
    number: int = 1


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


def accesses_of(part: Stage) -> Iterator[tuple[Access, tuple[Shape, Amount]]]:
    """Yield the accesses of a stage; what differs in transactions only is one, in the mean."""
    merged: dict[tuple[Access, tuple[int, ...]], list[tuple[Shape, Amount]]] = {}
    for shape, amount in part.of(Shape).items():
        pattern = "measured" if shape.transactions else shape.pattern
        common = Access(
            shape.space, shape.direction, shape.origin, pattern, shape.bytes, shape.is_copy
        )
        key = common, (shape.x, shape.y, shape.z)
        merged.setdefault(key, []).append((shape, amount))
    numbers: Counter[Access] = Counter()
    for (common, _), found in merged.items():
        numbers[common] += 1
        weights = [executed(amount, {}) for _, amount in found]
        total = sum(shape.transactions * n for (shape, _), n in zip(found, weights, strict=True))
        mean = total / sum(weights) if sum(weights) else found[0][0].transactions
        amount = added(("", amount) for _, amount in found)[""]
        yield (
            common._replace(number=numbers[common]),
            (found[0][0]._replace(transactions=mean), amount),
        )


def weight_of(part: Stage) -> float:
    """Return the instructions of a stage, once each loop of unknown length."""
    return sum(executed(amount, {}) for amount in part.of(str).values())


def multiply_adds_of(analysis: Analysis, sizes: Mapping[str, float]) -> dict[str, float]:
    """Return the multiply-adds of a matrix instruction by type, in the mean over the code."""
    found: dict[str, float] = {}
    products = analysis.products(sizes)
    total = sum(products.values())
    for product, n in products.items():
        for kind, factor in product.numbers:
            found[kind] = found.get(kind, 0.0) + n * factor
    return {kind: n / total for kind, n in found.items() if total}

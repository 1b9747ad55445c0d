"""Power of kernels whose instructions and bytes are known, over the clocks.

No kernels of its own: those of other procedures that run with power (``powered``) do so at all
pairs of clocks. Activities are shares of the best rate of a class: instructions of a multiprocessor
in a cycle, bytes in a second and MHz of the memory clock. ``sweep/measurements/power.py`` fits
power to them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sweep.microbenchmarks.case import Sample, Samples


@dataclass(frozen=True)
class Drawn:
    """Power of a kernel at a pair of clocks [MHz], with its time [s] and its activities [1]."""

    name: str
    core: float
    memory: float
    seconds: float
    watts: float
    computing: float
    moving: float


def drawn(samples: Samples) -> list[Drawn]:
    """Return the power of all kernels that ran with it at clocks that were held."""
    found: list[Drawn] = []
    best: dict[str, float] = {}
    for sample in samples.found:
        kind, rate = _rate(sample)
        if kind:
            best[kind] = max(rate, best.get(kind, 0.0))
    for sample in samples.found:
        if not sample.watts or not sample.locked:
            continue
        kind, rate = _rate(sample)
        share = rate / best[kind] if kind else 0.0
        found.append(
            Drawn(f"{sample.procedure}, {sample.name}", sample.core, sample.memory,
                  sample.seconds, statistics.median(sample.watts),
                  0.0 if kind == "dram" else share, share if kind == "dram" else 0.0)
        )  # fmt: skip
    return found


def _rate(sample: Sample) -> tuple[str, float]:
    """Return the class of a kernel, and the rate at which it executes or moves; "" for others.

    What comes from L2 keeps the core's domain busy, not DRAM.
    """
    kind = sample.name.split()[0]
    if sample.procedure == "lemeire_2016" and "instructions" in sample.counts:
        return kind, sample.counts["instructions"] * sample.counts["warps"] / sample.cycle
    if sample.procedure == "zhang_owens_2011" and kind == "dram":
        return kind, sample.counts["bytes"] / sample.seconds / sample.memory
    if sample.procedure == "zhang_owens_2011" and kind == "l2":
        return kind, sample.counts["bytes"] / sample.seconds / sample.core
    return "", 0.0

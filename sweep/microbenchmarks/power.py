"""Power of kernels whose instructions and bytes are known, over the clocks.

No kernels of its own: those of other procedures that run with power (``powered``) do so at all
pairs of clocks. Activities are shares of the best rate of a class: instructions of a multiprocessor
in a cycle, bytes in a second and MHz of the memory clock. ``sweep/measurements/power.py`` fits
power to them.
"""

from __future__ import annotations

from sweep.microbenchmarks.case import Sample, Samples


def drawn(samples: Samples) -> list[tuple[Sample, tuple[float, float]]]:
    """Return all samples with power at clocks that were held, and activities of core and memory."""
    rated = [(sample, *_rate(sample)) for sample in samples.found]
    best: dict[str, float] = {}
    for _, kind, rate in rated:
        best[kind] = max(rate, best.get(kind, 0.0))
    found = []
    for sample, kind, rate in rated:
        if sample.watts and sample.locked:
            share = rate / best[kind] if kind else 0.0
            found.append((sample, (0.0, share) if kind == "dram" else (share, 0.0)))
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

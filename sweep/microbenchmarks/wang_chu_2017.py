"""Latency and service time of DRAM over the clocks (Wang & Chu, Section IV; Tables II and III).

The chain of loads and the kernel that reads DRAM run at several pairs of clocks. (4) is a line
through the latencies over the ratio of the clocks; the service time of a sector is that of one
multiprocessor's share of the bandwidth, by memory clock.
"""

from __future__ import annotations

import numpy as np

from sweep.hardware.derived import SECTOR
from sweep.microbenchmarks.case import Case, Facts, Sample, Samples, Value, rounded

LEAST_RATIOS = 3
"""A line through fewer ratios of the clocks shows nothing about itself."""


def cases(facts: Facts) -> list[Case]:
    """Return nothing of its own: chains and reads of DRAM run over the clocks in any case."""
    return []


def values(samples: Samples) -> list[Value]:
    """Return (4) from at least three ratios of the clocks, and the table of service times."""
    found: list[Value] = []
    nominal = samples.facts.core_nominal / samples.facts.memory_nominal
    steady = [s for s in samples.found if not s.fell_from]
    chains = [s for s in steady if s.procedure == "latencies" and s.name == "dram"]
    ratios = [s.core / s.memory / nominal for s in chains]
    if len({round(ratio, 3) for ratio in ratios}) >= LEAST_RATIOS:
        latencies = [s.cycle / s.counts["loads"] for s in chains]
        (slope, intercept), left = np.polyfit(ratios, latencies, 1), np.var(latencies)
        errors = np.polyval((slope, intercept), ratios) - latencies
        fit = 1.0 - float(np.mean(errors**2) / left) if left else 1.0
        if slope >= 0 and intercept >= 0:
            note = f"(4) of Wang & Chu over {len(chains)} pairs of clocks, R2 {fit:.4f}"
            found += [
                Value(f"model.wang_chu.dm_lat_{name}_cycles", rounded(number, 5), "",
                      "fit", tuple(chains), note=note)
                for name, number in (("slope", slope), ("intercept", intercept))
            ]  # fmt: skip
    reads = [s for s in steady
             if s.procedure == "zhang_owens_2011" and s.name.startswith("dram read")]  # fmt: skip
    by_memory = {sample.memory: sample for sample in sorted(reads, key=_rate)}  # the fastest
    if by_memory:
        rows = tuple(
            (memory, rounded(_service(s, samples.facts) * memory * nominal * 1e6))
            for memory, s in sorted(by_memory.items())
        )
        found.append(Value("model.wang_chu.dm_del_table", rows, "", "plateau",
                           tuple(by_memory.values()), note="cycles at the nominal ratio of the"
                           " clocks, of a sector on one multiprocessor"))  # fmt: skip
    return found


def _rate(sample: Sample) -> float:
    return sample.counts["bytes"] / sample.seconds


def _service(sample: Sample, facts: Facts) -> float:
    """Return the time of a sector on one multiprocessor [s]."""
    return SECTOR * facts.sm_count / _rate(sample)

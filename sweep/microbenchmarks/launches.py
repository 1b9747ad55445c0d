"""Overhead of launching a kernel: many empty ones, one after the other."""

from __future__ import annotations

from sweep.microbenchmarks.case import HEAD, RECORDED, TIMED, Case, Facts, Samples, Value

LAUNCHES = 500


def cases(facts: Facts) -> list[Case]:
    """Return the empty kernel."""
    source = f"{HEAD}{TIMED}{RECORDED}}}\n"
    return [Case("launches", "empty", source, 1, 32, 0, launches=LAUNCHES)]


def values(samples: Samples) -> list[Value]:
    """Return the time from one launch to the next."""
    sample = samples.one("launches", "empty")
    if sample is None:
        return []
    overhead = sample.seconds / LAUNCHES * 1e6
    return [Value("microbenchmark.kernel_launch", overhead, "us", "plateau", (sample,),
                  sample.time_spread * overhead)]  # fmt: skip

"""Overhead of launching a kernel: many empty ones, one after the other."""

from __future__ import annotations

from sweep.microbenchmarks.case import Case, Facts, Samples, Value, kernel

LAUNCHES = 500


def cases(facts: Facts) -> list[Case]:
    """Return the empty kernel."""
    return [Case("launches", "empty", kernel("", "", "0"), 1, 32, 0, launches=LAUNCHES)]


def values(samples: Samples) -> list[Value]:
    """Return the time from one launch to the next."""
    sample = samples.one("launches", "empty")
    if sample is None:
        return []
    overhead = sample.seconds / LAUNCHES * 1e6
    return [Value("microbenchmark.kernel_launch", overhead, "us", "plateau", (sample,),
                  sample.time_spread * overhead)]  # fmt: skip

"""Overhead of launching a kernel: kernels of a known length, one after the other.

They take longer than the host takes to launch one, so that the next one always waits already, and
have a block for each multiprocessor, as kernels that fill the GPU. A line through the times of two
lengths over their cycles has the overhead as its intercept, whatever the clock.
"""

from __future__ import annotations

from sweep.microbenchmarks.case import Case, Facts, Samples, Value, kernel

LAUNCHES = 200
CYCLES = (80_000, 160_000)

_WAIT = kernel("", f"while (clock64() - begin < {CYCLES[0]} * (i + 1ll));", "0")


def cases(facts: Facts) -> list[Case]:
    """Return the two lengths."""
    return [
        Case("launches", f"cycles {cycles}", _WAIT, facts.sm_count, 256, cycles // CYCLES[0],
             launches=LAUNCHES)
        for cycles in CYCLES
    ]  # fmt: skip


def values(samples: Samples) -> list[Value]:
    """Return the time of a launch without its cycles."""
    pair = samples.of("launches", "cycles ")
    if len(pair) < 2:
        return []
    (few, short), (many, long) = sorted((s.cycle, s.seconds / LAUNCHES * 1e6) for s in pair)
    overhead = (short * many - long * few) / (many - few)
    if overhead <= 0.0:  # less than what the clock moved by
        return []
    spread = max(s.time_spread * s.seconds for s in pair) / LAUNCHES * 1e6
    return [Value("microbenchmark.kernel_launch", overhead, "us", "plateau", tuple(pair), spread)]

"""Overhead of launching a kernel, and the rate at which blocks start.

Kernels of a known length follow one another. They take longer than the host takes to launch one, so
that the next one always waits already, and have a block for each multiprocessor, as kernels that
fill the GPU. A line through the times of two lengths over their cycles has the overhead as its
intercept, whatever the clock.

Blocks of one warp that end almost at once start one after the other: of many on each multiprocessor
the time grows by that of a start for each further one.
"""

from __future__ import annotations

from sweep.microbenchmarks.case import WARP, Case, Facts, Samples, Value, kernel

LAUNCHES = 200
CYCLES = (80_000, 160_000)
BLOCKS = (64, 512)
"""Short blocks on each multiprocessor."""

_SHORT = kernel("", "while (clock64() - begin < 100);", "0")
_WAIT = kernel("", f"while (clock64() - begin < {CYCLES[0]} * (i + 1ll));", "0")


def cases(facts: Facts) -> list[Case]:
    """Return the two lengths, and the two numbers of short blocks."""
    return [
        Case("launches", f"cycles {cycles}", _WAIT, facts.sm_count, 256, cycles // CYCLES[0],
             launches=LAUNCHES)
        for cycles in CYCLES
    ] + [
        Case("launches", f"blocks {count}", _SHORT, count * facts.sm_count, WARP, 1,
             {"blocks": count * facts.sm_count})
        for count in BLOCKS
    ]  # fmt: skip


def values(samples: Samples) -> list[Value]:
    """Return a launch's time without its cycles, and that from a block's start to the next's."""
    return _overhead(samples) + _start(samples)


def _overhead(samples: Samples) -> list[Value]:
    pair = samples.of("launches", "cycles ")
    if len(pair) < 2:
        return []
    (few, short), (many, long) = sorted((s.cycle, s.seconds / LAUNCHES * 1e6) for s in pair)
    overhead = (short * many - long * few) / (many - few)
    if overhead <= 0.0:  # less than what the clock moved by
        return []
    spread = max(s.time_spread * s.seconds for s in pair) / LAUNCHES * 1e6
    return [Value("microbenchmark.kernel_launch", overhead, "us", "plateau", tuple(pair), spread)]


def _start(samples: Samples) -> list[Value]:
    pair = samples.of("launches", "blocks ")
    if len(pair) < 2:
        return []
    few, many = sorted(pair, key=lambda sample: sample.counts["blocks"])
    blocks = many.counts["blocks"] - few.counts["blocks"]
    cycles = (many.seconds - few.seconds) * many.core * 1e6 / blocks
    if cycles <= 0.0:
        return []
    spread = many.time_spread * many.seconds * many.core * 1e6 / blocks
    return [Value("microbenchmark.block_start", cycles, "cycles", "plateau", tuple(pair), spread)]

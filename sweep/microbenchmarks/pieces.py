"""How fast DRAM serves short contiguous pieces, which no paper here has.

Warps read all pieces of a large buffer in random order, each once, so that L2 has none of them;
16 bytes a thread, 4 KiB a warp and round whatever the size of the pieces. Where the TLB does not
reach over the buffer, short pieces miss it more often, and that counts as DRAM's time. Pieces of 32
bytes are left out: they take an H100 and an H200 as long as those of 64, whose other half a
kernel's next step then finds in L2.
"""

from __future__ import annotations

import math

from sweep.hardware.paths import PIECES
from sweep.microbenchmarks.case import Case, Facts, Samples, Value, kernel
from sweep.microbenchmarks.zhang_owens_2011 import MOST_BLOCKS, MOST_BYTES, UNROLLED, WIDE

BETWEEN, LONG = 512, UNROLLED * 32 * WIDE
"""Sizes beside those that a device file knows [byte]; both should take a byte equally long."""

ORDER = (0x9E3779B1, 0x85EBCA77)
"""Odd factors that make a permutation of the numbers below a power of two; xxHash's primes."""


def scattered(size: int) -> str:
    """Return the kernel that reads pieces of some size in random order."""
    mix = "".join(f" x = x * {factor}u & mask; x ^= x >> half;" for factor in ORDER)
    before = f"""unsigned mask = (unsigned)(bytes / {size}) - 1u, half = (33 - __clz(mask)) / 2;
unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) / 32u * {UNROLLED * 32}u + threadIdx.x % 32u;
float sum = (float)never;"""
    inside = f"""#pragma unroll
for (int k = 0; k < {UNROLLED}; ++k) {{
  unsigned word = at + 32u * k, x = word / {size // WIDE}u & mask;
 {mix}
  float4 v = __ldcg((float4*)(data + (unsigned long long)x * {size}u) + word % {size // WIDE}u);
  sum += v.x + v.y + v.z + v.w;
}}
at += {UNROLLED}u * gridDim.x * blockDim.x;"""
    return kernel(before, inside, "sum")


def cases(facts: Facts) -> list[Case]:
    """Return the sizes of pieces; all read the same bytes."""
    buffer = 1 << (min(facts.memory_bytes // 4, MOST_BYTES).bit_length() - 1)
    grid = min(facts.max_threads_per_sm // 256, MOST_BLOCKS) * facts.sm_count
    step = grid * 256 * WIDE * UNROLLED
    steps = max(1, buffer // step)
    return [
        Case("pieces", f"piece {size}", scattered(size), grid, 256, steps,
             {"bytes": step * steps}, buffer=buffer)
        for size in (*PIECES, BETWEEN, LONG)
    ]  # fmt: skip


def values(samples: Samples) -> list[Value]:
    """Return what short pieces take over long ones; a little less than 1 is noise, and is 1."""
    found = []
    for size in PIECES:
        pair = [one for length in (size, LONG) if (one := samples.one("pieces", f"piece {length}"))]
        if len(pair) == 2:
            short, long = (one.seconds / one.counts["bytes"] for one in pair)
            factor = max(1.0, short / long)
            spread = math.hypot(*(one.time_spread for one in pair)) * factor
            found.append(Value(f"microbenchmark.dram_piece_{size}_factor", factor, "", "plateau",
                               tuple(pair), spread))  # fmt: skip
    return found

"""Throughput over warps and blocks (Zhang & Owens, Sections 4.1 to 4.3).

Instructions: the samples of Lemeire et al.'s chains without instruction-level parallelism are what
Figure 2 (left) shows. Shared memory (Figure 2, right): words are moved from one region to another
without bank conflicts. Global memory (Figure 3): a synthetic kernel over the number of blocks,
threads and transactions of a thread. Reads, writes and both are also what a device file knows as
bandwidths. Clusters of multiprocessors that share a pipeline to memory (Section 4.3) show in the
time of few blocks: it rises by steps, one for as many blocks as there are clusters.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from sweep.microbenchmarks import lemeire_2016
from sweep.microbenchmarks.case import WARP, Case, Facts, Sample, Samples, Value, kernel, rounded

STEPS, MOVES, UNROLLED, WIDE = 512, 16, 8, 16
CACHE_STEPS, L1_BYTES = 256, 8 << 10
MOST_BLOCKS = 4
"""Blocks of 256 threads a multiprocessor: with at most 64 registers a thread it holds them all."""

L2_SHARES = (1 / 15, 2 / 15, 1 / 4, 5 / 12)
MOST_BYTES = 1 << 32
FEWEST_FEW, CLOSE = 6, 0.03
"""Numbers of blocks, and error of the steps through their times, that tell the clusters."""

_MOVE = (
    'asm volatile("{ .reg .u32 w; ld.shared.u32 w, [%0]; st.shared.u32 [%1], w; }"'
    ' :: "r"(from), "r"(to) : "memory");\n'
)
_SHARED = kernel(
    """extern __shared__ unsigned words[];
words[threadIdx.x] = threadIdx.x; words[blockDim.x + threadIdx.x] = 0;
unsigned from = (unsigned)__cvta_generic_to_shared(words + threadIdx.x);
unsigned to = from + 4u * blockDim.x;""",
    _MOVE * MOVES,
    "words[never]",
)

_KINDS = {
    "read": ("float4 v = __ldcg(from + p); sum += v.x + v.y + v.z + v.w;", "", 1),
    "write": ("from[p] = make_float4(sum, sum, sum, sum);", "", 1),
    "scale": ("float4 v = __ldcg(from + p); v.x += sum; to[p] = v;", "n /= 2;", 2),
}


def stream(kind: str) -> str:
    """Return the kernel that reads, writes or copies a buffer, 16 bytes a thread.

    Where the buffer is too small for all threads, as L2's is, several read the same words.
    """
    each, half, _ = _KINDS[kind]
    before = f"""typedef unsigned long long place;
float4* from = (float4*)data; place n = bytes / {WIDE}; {half}
float4* to = from + n; float sum = (float)never;
place all = min(gridDim.x * (place)blockDim.x, n / {UNROLLED});
place first = (blockIdx.x * (place)blockDim.x + threadIdx.x) % all, at = first;"""
    inside = f"""if (at + {UNROLLED - 1} * all >= n) at = first;
#pragma unroll
for (int k = 0; k < {UNROLLED}; ++k) {{ place p = at + k * all; {each} }}
at += {UNROLLED} * all;"""
    return kernel(before, inside, "sum")


# ptxas does a load whose address stays the same once, before the loop, volatile or not.
_L1 = kernel(
    f"float sum = 0; unsigned at = {WIDE} * threadIdx.x % {L1_BYTES};",
    f"""#pragma unroll
for (int k = 0; k < {UNROLLED}; ++k) {{
  float x, y, z, w;
  asm volatile("ld.global.ca.v4.f32 {{%0, %1, %2, %3}}, [%4];"
               : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(data + at + {WIDE * WARP} * k));
  sum += x + y + z + w;
}}
at = (at + {WIDE * WARP}) % {L1_BYTES};""",
    "sum",
)


def divisors(count: int) -> list[int]:
    """Return the numbers of clusters that are possible: those that divide the multiprocessors."""
    return [c for c in range(1, count + 1) if count % c == 0]


def few(count: int) -> list[int]:
    """Return numbers of blocks at which the time rises for each number of clusters, or stays."""
    steps = {n * c + more for c in divisors(count) for n in (1, 2, 3) for more in (0, 1)}
    return sorted(blocks for blocks in steps if blocks <= count)


def clusters(samples: Samples) -> Value | None:
    """Return the number of clusters, if the times of few blocks rise by steps that tell it.

    A line through the times, or steps of one other number, must be at least twice as far off.
    """
    own = samples.of("zhang_owens_2011", "few ")
    blocks, times = np.array([(s.counts["blocks"], s.seconds) for s in own]).reshape(-1, 2).T
    if len(own) < FEWEST_FEW:
        return None
    shapes = {c: np.ceil(blocks / c) for c in divisors(samples.facts.sm_count)}
    shapes[0] = blocks  # no steps: bandwidth is shared by all
    off = {}
    for c, shape in shapes.items():
        columns = np.stack([np.ones_like(shape), shape], axis=-1) / times[:, np.newaxis]
        off[c] = float(nnls(columns, np.ones_like(times))[1] / np.sqrt(len(times)))
    best, second, *_ = sorted(off, key=off.__getitem__)
    if best in (0, 1) or off[best] > CLOSE or off[second] < 2.0 * off[best]:
        return None
    note = f"steps of {best} blocks, {off[best]:.1%} off over {len(own)} numbers of blocks"
    return Value("model.zhang_owens.cluster_count", float(best), "", "fit", tuple(own), note=note)


def _streams(facts: Facts) -> list[Case]:
    """Return the kernels of global memory: over blocks, and at full occupancy over clocks."""
    few_of = min(max(8 * facts.l2_bytes, 256 << 20), facts.memory_bytes // 2)
    dram = min(facts.memory_bytes // 4, MOST_BYTES)
    most = min(facts.max_threads_per_sm // 256, MOST_BLOCKS)
    found = []
    for kind, (_, _, arrays) in _KINDS.items():
        for blocks in sorted({1, 2, 3, most}) if kind == "read" else [most]:
            grid, is_powered = blocks * facts.sm_count, blocks in (1, most)
            step = grid * 256 * WIDE * UNROLLED * arrays
            steps = max(8, 4 * dram // step)
            found.append(
                Case("zhang_owens_2011", f"dram {kind} blocks {blocks}", stream(kind), grid, 256,
                     steps, {"bytes": step * steps, "warps": 8 * blocks}, buffer=dram,
                     over_clocks=is_powered, powered=is_powered)
            )  # fmt: skip
    grid = most * facts.sm_count
    moved = grid * 256 * WIDE * UNROLLED * CACHE_STEPS
    for share in L2_SHARES:
        size, is_powered = int(share * facts.l2_bytes), share == 1 / 4
        found.append(
            Case("zhang_owens_2011", f"l2 read {size >> 10} KiB", stream("read"), grid, 256,
                 CACHE_STEPS, {"bytes": moved, "warps": 8 * most}, buffer=size,
                 over_clocks=is_powered, powered=is_powered)
        )  # fmt: skip
    for blocks in few(facts.sm_count):  # Figure 3, left: too few blocks
        step = blocks * 256 * WIDE * UNROLLED
        found.append(
            Case("zhang_owens_2011", f"few {blocks}", stream("read"), blocks, 256, 64,
                 {"bytes": step * 64, "blocks": blocks}, buffer=few_of, cold=True)
        )  # fmt: skip
    return found


def cases(facts: Facts) -> list[Case]:
    """Return the kernels of shared memory, L1, L2 and DRAM."""
    found = []
    for warps in facts.fitting(lemeire_2016.WARPS):
        moved = 2 * 4 * warps * WARP * MOVES * STEPS  # read and written
        found.append(
            Case("zhang_owens_2011", f"shared warps {warps}", _SHARED, facts.sm_count,
                 warps * WARP, STEPS, {"warps": warps, "bytes": moved},
                 shared=facts.alone)
        )  # fmt: skip
    threads = min(1024, facts.max_threads_per_sm)
    found.append(
        Case("zhang_owens_2011", "l1 read", _L1, facts.sm_count, threads, STEPS,
             {"bytes": threads * WIDE * UNROLLED * STEPS})
    )  # fmt: skip
    return [*found, *_streams(facts)]


def values(samples: Samples) -> list[Value]:
    """Return curves over warps, and the highest bandwidths.

    L2 is the faster the less of it is read at once, as by blocks that run side by side.
    No load is faster than one of a whole warp's widest words in a cycle: then it was not done.
    """
    found, total = [], samples.facts.sm_count * 1e-3  # to thousands of millions a second at MHz
    shared = samples.of("zhang_owens_2011", "shared warps ")
    for key, side, timed, rate_of in (
        ("instruction_throughput", "left", samples.of("lemeire_2016", "fp32 ilp 1 "),
         lambda s: 1.0 / lemeire_2016.cycles_per_instruction(s)),
        ("shared_bandwidth", "right", shared, _per_cycle),
    ):  # fmt: skip
        rows = [(s.counts["warps"], rounded(rate_of(s) * s.core * total, 5)) for s in timed]
        if len(rows) > 1:
            found.append(Value(f"model.zhang_owens.{key}", _rising(rows), "", "saturated",
                               tuple(timed), note=f"Figure 2, {side}"))  # fmt: skip
    for key, timed in (("shared", shared), ("l1_read", samples.of("zhang_owens_2011", "l1 read"))):
        if done := [sample for sample in timed if _per_cycle(sample) <= WARP * WIDE]:
            best = max(done, key=_per_cycle)
            rate, unit = _per_cycle(best), "bytes_per_cycle"
            found.append(Value.of_cycles(f"{key}_bandwidth", rate, unit, "saturated", best))
    if (count := clusters(samples)) is not None:
        found.append(count)
    for kind in _KINDS:
        if timed := samples.of("zhang_owens_2011", f"dram {kind}"):
            best = max(timed, key=_rate)
            found.append(Value.of_rate(f"dram_{kind}", _rate(best), best))
    if l2 := samples.of("zhang_owens_2011", "l2 read"):
        best = max(l2, key=_rate)
        found.append(Value.of_rate("l2_read", _rate(best), best))
    return found


def _per_cycle(sample: Sample) -> float:
    """Return the bytes of a multiprocessor in a cycle."""
    return sample.counts["bytes"] / sample.cycle


def _rate(sample: Sample) -> float:
    """Return the rate of the device [GB/s]."""
    return sample.counts["bytes"] / sample.seconds * 1e-9


def _rising(rows: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return rows by their number of warps; a dip between them is noise of the measurement."""
    best, found = 0.0, []
    for warps, rate in sorted(rows):
        best = max(best, rate)
        found.append((warps, best))
    return tuple(found)

"""Costs of instructions, and a, b, c, d of the computation parallel degree (Luo & Suda).

Costs are those of Table 1's procedure: two kernels that repeat their instructions 10,000 times and
differ in one instruction; the difference of their times is its cost. The paper says that a
micro-benchmark gives a, b, c and d, but not which. Here warps alternate between a computation task
and a dependent load from DRAM, with several proportions P of computation. The degree that is
measured for N warps is N times the time of one warp over the time of all N, from (6); (3) to (5)
are fitted to it. ``m`` is the number of warps that a multiprocessor holds; beyond 32 they are two
blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from sweep.microbenchmarks import lemeire_2016
from sweep.microbenchmarks.case import WARP, Case, Facts, Sample, Samples, Value, kernel, rounded
from sweep.microbenchmarks.fitting import POOR, deviations
from sweep.models.luo_suda_2011 import corrected_cpd, degrees

REPEATED, COPIES = lemeire_2016.SHORT_STEPS, lemeire_2016.SHORT
WARPS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
LARGEST_BLOCK = 32
COMPUTED = (32, 64, 128, 256, 512, 2048)
PERIODS, JOINED = 256, 8
ASSUMED = {"computation": "fp32", "conversion": "integer", "control": "integer",
           "move": "integer", "shared": "integer", "barrier": "integer"}  # fmt: skip
"""Classes that take the cost of another one: no pair of kernels is made for them."""


def task(computed: int) -> str:
    """Return the kernel of periods: some dependent multiply-adds, then a load that all wait for."""
    fma = 'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));\n'
    before = (
        "float x = threadIdx.x, a = never + 1, b = never; unsigned zero;\n"
        "unsigned mask = (unsigned)bytes - 1u, stride = gridDim.x * blockDim.x * 4u;\n"
        "unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 4u;"
    )
    inside = (
        f"#pragma unroll 1\nfor (int j = 0; j < {computed // JOINED}; ++j) {{\n{fma * JOINED}}}\n"
        'asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(zero) : "l"(data + at));\n'
        "at = (at + zero + stride) & mask; x += (float)zero;"
    )
    return kernel(before, inside, "x")


def cases(facts: Facts) -> list[Case]:
    """Return the pairs of kernels, and the tasks over proportions and warps."""
    found = []
    for kind in lemeire_2016.CLASSES:
        step = len(lemeire_2016.CLASSES[kind][2])
        for copies in (COPIES, COPIES + step):
            source = lemeire_2016.chains(kind, 1, copies)
            found.append(
                Case("luo_suda_2011", f"cost {kind} {copies}", source, 1, WARP, REPEATED,
                     {"instructions": copies})
            )  # fmt: skip
    for computed in COMPUTED:
        for warps in facts.fitting(WARPS):
            blocks = -(-warps // LARGEST_BLOCK)  # of a multiprocessor
            shared = facts.alone if blocks == 1 else facts.shared_bytes_per_sm // blocks - 2048
            found.append(
                Case("luo_suda_2011", f"task {computed} warps {warps}", task(computed),
                     facts.sm_count * blocks, warps // blocks * WARP, PERIODS,
                     {"computed": computed, "warps": warps},
                     shared=min(shared, facts.shared_bytes_per_block), buffer=facts.beyond_l2,
                     cold=True)
            )  # fmt: skip
    return found


def costs(samples: Samples) -> dict[str, tuple[float, tuple[Sample, ...]]]:
    """Return the cost of an instruction by class [cycle], and the samples that it follows from."""
    found: dict[str, tuple[float, tuple[Sample, ...]]] = {}
    for kind in lemeire_2016.CLASSES:
        pair = samples.of("luo_suda_2011", f"cost {kind} ")
        if len(pair) == 2:
            few, more = sorted(pair, key=lambda s: s.counts["instructions"])
            added = more.counts["instructions"] - few.counts["instructions"]
            found[kind] = (more.cycle - few.cycle) / REPEATED / added, (few, more)
    return found


def degree(
    parameters: Sequence[float], points: Sequence[tuple[float, float, float]], m: float
) -> list[float]:
    """Return CPD of (3) to (5) at points of P, N and a measured value, which is not used."""
    a, b, c, d = (float(number) for number in parameters)
    return [corrected_cpd(p, c, *degrees(p, a, b, c, d, m, n)) for p, n, _ in points]


def values(samples: Samples) -> list[Value]:
    """Return costs by class, the warps, and the four parameters unless the model is far off."""
    found, own = [], costs(samples)
    known = {kind: rounded(cost) for kind, (cost, _) in own.items() if cost > 0}
    if "fp32" in known and "integer" in known:
        rows = [*known.items(), *((name, known[kind]) for name, kind in ASSUMED.items())]
        used = tuple(s for _, pair in own.values() for s in pair)
        note = "two kernels that differ in one instruction; " + ", ".join(ASSUMED)
        found.append(Value("model.luo_suda.class_cost", tuple(rows), "", "dependent_chain", used,
                           note=f"{note} as what resembles them"))  # fmt: skip
    memory = samples.one("latencies", "dram")
    tasks = samples.of("luo_suda_2011", "task ")
    if memory is None or "fp32" not in known:
        return found
    t_mem = memory.cycle / memory.counts["loads"]
    alone = {s.counts["computed"]: s.cycle for s in tasks if s.counts["warps"] == 1}
    points = []
    for s in (s for s in tasks if s.counts["warps"] > 1 and s.counts["computed"] in alone):
        cost = s.counts["computed"] * known["fp32"]
        reached = s.counts["warps"] * alone[s.counts["computed"]] / s.cycle
        points.append((cost / (cost + t_mem), s.counts["warps"], reached))
    if len(points) < 12:
        return found
    measured = np.array([point[2] for point in points])
    m = samples.facts.max_threads_per_sm / WARP
    fits = [
        optimize.least_squares(
            lambda x: np.array(degree(x, points, m)) / measured - 1.0, (3.0, b, c, 80.0),
            bounds=([-50.0, -32.0, 0.01, 0.0], [50.0, 64.0, 0.99, 5000.0]), diff_step=1e-4,
        )
        for b in (0.0, 11.0, 20.0) for c in (0.3, 0.5, 0.7, 0.9)
    ]  # fmt: skip
    best = min(fits, key=lambda fit: float(fit.cost))
    off = float(np.mean(np.abs(best.fun)))
    note = f"fitted to {len(points)} degrees, {off:.1%} off on average"
    found.append(Value("model.luo_suda.m", m, "", "query", tuple(tasks),
                       note="all warps that a multiprocessor holds"))  # fmt: skip
    found += [
        Value(f"model.luo_suda.{name}", rounded(number), "", "fit", tuple(tasks),
              rounded(spread, 3) if np.isfinite(spread) else None, note)
        for name, number, spread in zip("abcd", best.x, deviations(best), strict=True)
        if off < POOR
    ]  # fmt: skip
    return found

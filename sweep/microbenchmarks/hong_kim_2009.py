"""Latency and departure delays that fit loops of loads and computation (Hong & Kim, Section 5.1).

Mb1 to Mb7 of Table 4 repeat a loop 1000 times, with coalesced and with uncoalesced loads. As in the
paper the three parameters are those with which the model meets their times best; the model is that
of :mod:`sweep.models.hong_kim_2009`, with all errata mended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from sweep.microbenchmarks import lemeire_2016
from sweep.microbenchmarks.case import WARP, Case, Facts, Sample, Samples, Value, kernel, rounded
from sweep.microbenchmarks.fitting import POOR, UNKNOWN, deviations
from sweep.models.hong_kim_2009 import body

LOOPS = 1000
MEMORY = (0, 1, 1, 2, 2, 4, 6)
COMPUTATION = (23, 17, 29, 27, 35, 47, 59)
FLOATING = (20, 8, 20, 12, 20, 20, 20)
"""Table 4: instructions in a loop of Mb1 to Mb7; 3 of the loop and 6 of each load are integer."""

WARPS = 8
FAR = 128
"""Bytes between the words of neighbouring threads that no transaction joins."""


def loop(memory: int, floating: int, step: int) -> str:
    """Return the kernel of one loop; ``step`` are the bytes between neighbouring threads' words.

    A load's address takes six instructions, of which the 64-bit addition is two.
    """
    loads = [
        'asm volatile("add.u32 %0, %0, %1; and.b32 %0, %0, %2; add.u32 %0, %0, %3;'
        ' xor.b32 %0, %0, %4;" : "+r"(at) : "r"(stride), "r"(mask), "r"(never), "r"(never));\n'
        f'asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(loaded{i}) : "l"(data + at));'
        for i in range(memory)
    ]
    used = [f"x += loaded{i};" for i in range(memory)]  # each is a floating-point instruction
    rest = floating - memory
    compute = ['asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));'] * rest
    declared = "".join(f"float loaded{i};" for i in range(memory))
    before = (
        f"float x = threadIdx.x, a = never + 1, b = never; {declared}\n"
        f"unsigned mask = (unsigned)bytes - 1u, stride = gridDim.x * blockDim.x * {step}u;\n"
        f"unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * {step}u;"
    )
    return kernel(before, "\n".join([*loads, *compute, *used]), "x")


def cases(facts: Facts) -> list[Case]:
    """Return Mb1 to Mb7, coalesced and uncoalesced, eight warps a multiprocessor."""
    found = []
    for number, counts in enumerate(zip(MEMORY, COMPUTATION, FLOATING, strict=True), start=1):
        memory, computation, floating = counts
        for kind, step in (("C", 4), ("UC", FAR)):
            if memory == 0 and kind == "UC":
                continue
            found.append(
                Case("hong_kim_2009", f"Mb{number}_{kind}", loop(memory, floating, step),
                     facts.sm_count, WARPS * WARP, LOOPS,
                     {"memory": memory, "computation": computation, "warps": WARPS,
                      "uncoalesced": float(kind == "UC")}, shared=facts.alone,
                     buffer=facts.beyond_l2, cold=True)
            )  # fmt: skip
    return found


def predicted(
    sample: Sample, facts: Facts, issue: float, bandwidth: float, parameters: Sequence[float]
) -> float:
    """Return the model's cycles of a loop.

    Parameters
    ----------
    sample : Sample
        Gives counts and clock.
    facts : Facts
        Gives the number of multiprocessors.
    issue : float
        Cycles to issue a warp's instruction.
    bandwidth : float
        Of DRAM [B/s].
    parameters : sequence of float
        Mem_LD, Departure_del_uncoal and Departure_del_coal [cycle].
    """
    loads, apart = sample.counts["memory"] * LOOPS, sample.counts["uncoalesced"]
    warps, sms = sample.counts["warps"], float(facts.sm_count)
    numbers = {
        "n": warps, "active_blocks_per_sm": 1.0, "active_sm": sms, "n_sm": sms, "blocks": sms,
        "threads_per_block": warps * WARP, "threads_per_warp": WARP,
        "comp_insts": sample.counts["computation"] * LOOPS, "uncoal_mem_insts": loads * apart,
        "coal_mem_insts": loads * (1.0 - apart), "synch_insts": 0.0, "uncoal_per_mw": WARP,
        "load_bytes_per_warp": 4.0 * WARP, "issue_cycles": issue, "core_freq": sample.core * 1e6,
        "mem_bandwidth": bandwidth, "mem_ld": parameters[0], "departure_del_uncoal": parameters[1],
        "departure_del_coal": parameters[2],
    }  # fmt: skip
    with np.errstate(all="ignore"):  # Mb1 has no loads
        given = {name: np.float64(number) for name, number in numbers.items()}
        found = body(**given, corrected=True, revised=False)
    return float(found["execution_cycles"])


def values(samples: Samples) -> list[Value]:
    """Return those of the three parameters that the loops determine, none if the model is far off.

    Where bandwidth limits coalesced loads their departure delay changes nothing and is left out.
    """
    facts = samples.facts
    loops = [s for s in samples.of("hong_kim_2009") if s.counts["memory"]]
    pair = lemeire_2016.latencies(samples, "fp32", 1)
    if len({s.counts["uncoalesced"] for s in loops}) < 2 or len(loops) < 6 or pair is None:
        return []
    issue = lemeire_2016.cycles_per_instruction(pair[0])
    bandwidth = 2e6 * facts.memory_nominal * facts.bus_width_bits / 8.0

    def errors(logarithms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
        given = [float(number) for number in np.exp(logarithms)]
        return [np.log(predicted(s, facts, issue, bandwidth, given) / s.cycle) for s in loops]

    best = min(
        (optimize.least_squares(errors, np.log(start), diff_step=1e-3)
         for start in ((450.0, 10.0, 4.0), (700.0, 40.0, 40.0), (250.0, 2.0, 2.0))),
        key=lambda found: float(found.cost),
    )  # fmt: skip
    off = float(np.exp(np.mean(np.abs(best.fun))) - 1.0)
    names = ("mem_ld", "departure_del_uncoal", "departure_del_coal")
    note = f"fitted to {len(loops)} loops, {off:.1%} off on average"
    return [
        Value(f"model.hong_kim.{name}_cycles", rounded(value), "", "fit", tuple(loops),
              rounded(value * spread, 3), note)
        for name, value, spread in zip(names, np.exp(best.x), deviations(best), strict=True)
        if spread < UNKNOWN and off < POOR
    ]  # fmt: skip

"""A GPU that answers as the papers' models say, with known parameters and some noise."""

from __future__ import annotations

import numpy as np

from sweep.microbenchmarks import hong_kim_2009, lemeire_2016, luo_suda_2011
from sweep.microbenchmarks.case import CLOCKS, LOCK, POWER, Case, Facts, Sample
from sweep.microbenchmarks.latencies import STEPS
from sweep.microbenchmarks.launches import CYCLES, LAUNCHES

FACTS = Facts(
    name="NVIDIA A100-SXM4-40GB", capability="8.0", driver="580.1", sm_count=108,
    max_threads_per_sm=2048, shared_bytes_per_sm=167936, shared_bytes_per_block=166912,
    l2_bytes=40 << 20, memory_bytes=40 << 30, bus_width_bits=5120, core_nominal=1410.0,
    memory_nominal=1215.0, core_clocks=tuple(range(210, 1411, 15)), memory_clocks=(810.0, 1215.0),
)  # fmt: skip

LATENCIES = {"l1": 33.0, "l2": 205.0, "l2 far": 400.0, "dram": 480.0, "shared": 23.0}
START = 1.3
PIECES = {"64": 1.7, "128": 1.2, "256": 1.05}  # a piece's time over a long one's
COPIED = {"l2": 330.0, "dram": 760.0}
SLOPE, INTERCEPT = 200.0, 280.0  # of the DRAM's latency over the ratio of the clocks
COMPLETION = {"fp32": 4.0, "integer": 4.5, "fp64": 8.0, "special": 18.0}
ISSUE = {"fp32": 0.5, "integer": 0.5, "fp64": 1.0, "special": 2.0}
MEM_LD, UNCOALESCED, COALESCED = 480.0, 24.0, 6.0
DEGREE = (3.0, 11.0, 0.5, 80.0)
CLUSTERS = 27
LOOP = 9.0  # cycles of a round beside the chain
DRAM_GBPS, L2_GBPS = 1400.0, 4000.0
WATTS = (40.0, 50.0, 90.0, 15.0, 45.0)
"""Static [W]; core without activity and what full activity adds, the same of memory [W/GHz]."""

VOLTAGE = ((600.0, 0.8), (900.0, 0.8), (1410.0, 1.0))


class SimulatedGpu:
    """Answers at clocks that can be set, unless that is not permitted."""

    facts = FACTS

    def __init__(self, *refused: str, noise: float = 0.01) -> None:
        self.random, self.noise = np.random.default_rng(7), noise
        self.refused = dict.fromkeys(refused, "NVML: Not Supported")
        self.at = (FACTS.core_nominal, FACTS.memory_nominal)
        self.calls: list[str] = []
        self.ran: list[tuple[Case, tuple[float, float]]] = []

    def ready(self, case: Case) -> None:
        self.case = case
        self.ran.append((case, self.at))

    def lock(self, core: float, memory: float) -> bool:
        self.calls.append("lock")
        if LOCK not in self.refused:
            self.at = core, memory
        return LOCK not in self.refused

    def unlock(self) -> None:
        self.calls.append("unlock")

    def is_alive(self) -> bool:
        return True

    def clocks(self) -> tuple[float, float]:
        return (FACTS.core_nominal, FACTS.memory_nominal) if CLOCKS in self.refused else self.at

    def watch(self, seconds: float) -> tuple[float, ...]:
        if POWER in self.refused:
            return ()
        core, memory = (clock / 1e3 for clock in self.at)
        busy, moving = self.activities()
        volts = np.interp(core * 1e3, *np.array(VOLTAGE).T)
        static, idle, full, resting, moved = WATTS
        watts = (
            static + volts**2 * core * (idle + busy * full) + memory * (resting + moving * moved)
        )
        return tuple(watts * (1.0 + self.noise * self.random.standard_normal(10)))

    def activities(self) -> tuple[float, float]:
        """Core and memory activity of the case; units differ by what they draw."""
        counts, (kind, *_) = self.case.counts, self.case.name.split()
        if kind == "dram":
            return 0.0, min(1.0, counts["warps"] / 24.0)
        if kind == "l2":
            return 1.1, 0.0
        hidden = max(COMPLETION[kind] / counts["parallelism"] / counts["warps"], ISSUE[kind])
        return {"fp32": 1.0, "integer": 0.9, "special": 0.8}[kind] * ISSUE[kind] / hidden, 0.0

    def run(self) -> tuple[float, float]:
        factor = 1.0 + self.noise * self.random.standard_normal()
        cycles, seconds = self.answer()
        return cycles * factor, seconds * factor * 1e3

    def answer(self) -> tuple[float, float]:
        """Cycles and seconds of the case without noise."""
        core, memory = self.at
        counts, name, procedure = self.case.counts, self.case.name, self.case.procedure
        if "bytes" in counts and procedure == "zhang_owens_2011" and "cycle" not in name:
            if name.startswith(("dram", "l2", "few")):
                of_l2, of_dram = L2_GBPS * core / 1410.0, DRAM_GBPS * memory / 1215.0
                if name.startswith("few"):
                    turns = np.ceil(counts["blocks"] / CLUSTERS)
                    return 1.0, 1e-6 + turns * counts["bytes"] / counts["blocks"] / 50e9
                peak = of_l2 if name.startswith("l2") else of_dram
                rate = peak * 1e9 * min(1.0, counts.get("warps", 64.0) / 24.0)
                seconds = counts["bytes"] / rate
                return seconds * core * 1e6, seconds
            cycles = counts["bytes"] / (128.0 * min(1.0, counts.get("warps", 32.0) / 12.0))
        elif procedure == "launches" and "blocks" in counts:
            return 100.0, 5e-6 + counts["blocks"] * START / (core * 1e6)
        elif procedure == "launches":
            cycles = CYCLES[0] * self.case.steps
            return cycles, LAUNCHES * (2e-6 + cycles / (core * 1e6))
        else:
            cycles = getattr(self, procedure)(name, counts, core / memory / (1410.0 / 1215.0))
        return cycles, cycles / (core * 1e6)

    def latencies(self, name, counts, ratio):
        dram = SLOPE * ratio + INTERCEPT
        return STEPS * (dram if name == "dram" else LATENCIES[name])

    def copies(self, name, counts, ratio):
        return counts["rounds"] * COPIED[name]

    def pieces(self, name, counts, ratio):
        cycles = counts["bytes"] / (DRAM_GBPS * 1e9) * FACTS.core_nominal * 1e6 * ratio
        return cycles * PIECES.get(name.split()[1], 1.0)

    def lemeire_2016(self, name, counts, ratio):
        kind, warps = name.split()[0], counts["warps"]
        if "loads" in counts:
            chains, width = int(name.split()[3]), counts["width"]
            of_dram = DRAM_GBPS * 1e3 / FACTS.core_nominal / FACTS.sm_count  # bytes in a cycle
            served = 32 * width / (of_dram if kind == "global" else 128.0)
            one = LATENCIES["dram" if kind == "global" else "shared"] / chains / warps
            return counts["loads"] * warps * max(one, served)
        per_warp = max(COMPLETION[kind] / counts["parallelism"] / warps, ISSUE[kind])
        return counts["instructions"] * warps * per_warp + lemeire_2016.STEPS * LOOP

    def hong_kim_2009(self, name, counts, ratio):
        sample = Sample("hong_kim_2009", name, counts, 1410.0, 1215.0, True, (1.0,), (1.0,))
        bandwidth = 2e6 * FACTS.memory_nominal * FACTS.bus_width_bits / 8
        parameters = (MEM_LD, UNCOALESCED, COALESCED)
        return hong_kim_2009.predicted(sample, FACTS, ISSUE["fp32"], bandwidth, parameters)

    def luo_suda_2011(self, name, counts, ratio):
        if name.startswith("cost"):
            return luo_suda_2011.REPEATED * (
                counts["instructions"] * COMPLETION[name.split()[1]] + LOOP
            )
        cost = counts["computed"] * COMPLETION["fp32"]
        share, alone = cost / (cost + LATENCIES["dram"]), 256 * (cost + LATENCIES["dram"])
        if counts["warps"] == 1:
            return alone
        (degree,) = luo_suda_2011.degree(DEGREE, [(share, counts["warps"], 0.0)], 64.0)
        return counts["warps"] * alone / degree

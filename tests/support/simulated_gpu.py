"""A GPU that answers as the papers' models say, with known parameters and some noise."""

from __future__ import annotations

import numpy as np

from sweep.microbenchmarks import hong_kim_2009, luo_suda_2011
from sweep.microbenchmarks.case import Case, Facts, Sample
from sweep.microbenchmarks.latencies import STEPS

FACTS = Facts(
    name="NVIDIA A100-SXM4-40GB", capability="8.0", driver="580.1", sm_count=108,
    max_threads_per_sm=2048, shared_bytes_per_sm=167936, shared_bytes_per_block=166912,
    l2_bytes=40 << 20, memory_bytes=40 << 30, bus_width_bits=5120, core_nominal=1410.0,
    memory_nominal=1215.0, core_clocks=tuple(range(210, 1411, 15)), memory_clocks=(810.0, 1215.0),
)  # fmt: skip

LATENCIES = {"l1": 33.0, "l2": 205.0, "dram": 480.0, "shared": 23.0}
SLOPE, INTERCEPT = 200.0, 280.0  # of the DRAM's latency over the ratio of the clocks
COMPLETION = {"fp32": 4.0, "integer": 4.5, "fp64": 8.0, "special": 18.0}
ISSUE = {"fp32": 0.5, "integer": 0.5, "fp64": 1.0, "special": 2.0}
MEM_LD, UNCOALESCED, COALESCED = 480.0, 24.0, 6.0
DEGREE = (3.0, 11.0, 0.5, 80.0)
DRAM_GBPS, L2_GBPS = 1400.0, 4000.0


class SimulatedGpu:
    """Answers at clocks that can be set, unless that is not permitted."""

    facts = FACTS

    def __init__(self, noise: float = 0.01, permits: bool = True, power: bool = True) -> None:
        self.random = np.random.default_rng(7)
        self.noise, self.permits, self.power = noise, permits, power
        self.at = (FACTS.core_nominal, FACTS.memory_nominal)
        self.calls: list[str] = []
        self.ran: list[tuple[Case, tuple[float, float]]] = []

    def ready(self, case: Case) -> None:
        self.case = case
        self.ran.append((case, self.at))

    def lock(self, core: float, memory: float) -> bool:
        self.calls.append("lock")
        if self.permits:
            self.at = core, memory
        return self.permits

    def unlock(self) -> None:
        self.calls.append("unlock")

    def clocks(self) -> tuple[float, float]:
        return self.at

    def watch(self, seconds: float) -> tuple[float, ...]:
        return (250.0, 251.0) if self.power else ()

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
                peak = L2_GBPS if name.startswith("l2") else DRAM_GBPS * memory / 1215.0
                rate = peak * 1e9 * min(1.0, counts.get("warps", 64.0) / 24.0)
                seconds = counts["bytes"] / rate
                return seconds * core * 1e6, seconds
            cycles = counts["bytes"] / (128.0 * min(1.0, counts.get("warps", 32.0) / 12.0))
        else:
            cycles = getattr(self, procedure)(name, counts, core / memory / (1410.0 / 1215.0))
        return cycles, cycles / (core * 1e6)

    def latencies(self, name, counts, ratio):
        dram = SLOPE * ratio + INTERCEPT
        return STEPS * (dram if name == "dram" else LATENCIES[name])

    def lemeire_2016(self, name, counts, ratio):
        kind, warps = name.split()[0], counts["warps"]
        per_warp = max(COMPLETION[kind] / counts["parallelism"] / warps, ISSUE[kind])
        return counts["instructions"] * warps * per_warp

    def launches(self, name, counts, ratio):
        return 500 * 2e-6 * 1410e6

    def hong_kim_2009(self, name, counts, ratio):
        sample = Sample("hong_kim_2009", name, counts, 1410.0, 1215.0, True, (1.0,), (1.0,))
        bandwidth = 2e6 * FACTS.memory_nominal * FACTS.bus_width_bits / 8
        parameters = (MEM_LD, UNCOALESCED, COALESCED)
        return hong_kim_2009.predicted(sample, FACTS, ISSUE["fp32"], bandwidth, parameters)

    def luo_suda_2011(self, name, counts, ratio):
        if name.startswith("cost"):
            return luo_suda_2011.REPEATED * (
                counts["instructions"] * COMPLETION[name.split()[1]] + 9
            )
        cost = counts["computed"] * COMPLETION["fp32"]
        share, alone = cost / (cost + LATENCIES["dram"]), 256 * (cost + LATENCIES["dram"])
        if counts["warps"] == 1:
            return alone
        (degree,) = luo_suda_2011.degree(DEGREE, [(share, counts["warps"], 0.0)])
        return counts["warps"] * alone / degree

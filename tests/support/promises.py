"""What a device does, and which variants of which models do not: with a counter-example for each.

More bandwidth and a higher clock are never slower, a higher latency is never faster. A table of
docs/models/index.md is made from this list; ``tests/models/test_models_monotone.py`` holds
every model to what is not in it, and every counter-example to failing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from support import golden

# Inputs that more bandwidth, or a higher latency of DRAM, changes: by which power of a factor.
# Service times are the reciprocal of bandwidth.
WIDER = {
    "hong_kim": {"mem_bandwidth": 1},
    "wang_chu": {"dm_del": -1},
    "luo_suda": {"gpu_bw": 1},
    "zhang_owens": {"peak_global": 1},
    "lemeire": {"memory_issue": -1},
    "combined": {"dram_bandwidth": 1, "l2_cycles": -1, "l1_cycles": -1, "shared_cycles": -1,
                 "link_time": -1},
}  # fmt: skip
LATER = {
    "hong_kim": {"mem_ld": 1},
    "wang_chu": {"dm_lat": 1, "dm_lat_slope": 1, "dm_lat_intercept": 1},
    "luo_suda": {"t_mem_cycles": 1, "m_i": 1, "m_previous": 1},
    "zhang_owens": {"global_latency": 1},
    "lemeire": {"memory_completion": 1},
    "combined": {
        "dram_latency": 1, "cache_wait": 1, "matrix_chain": 1, "shared_latency": 1,
        "alu_latency": 1, "link_wait": 1,
    },
}  # fmt: skip
# What a higher core clock raises: core cycles of DRAM's latency and service, and the clock itself.
QUICKER = {
    "hong_kim": {"core_freq": 1, "mem_ld": 1, "departure_del_uncoal": 1, "departure_del_coal": 1},
    "wang_chu": {"frequency_ratio": 1},
    "luo_suda": {"core_freq": 1, "t_mem_cycles": 1, "m_i": 1, "m_previous": 1},
    "zhang_owens": {"frequency": 1, "core_clock": 1, "global_latency": 1},
    "lemeire": {"memory_issue": 1, "memory_completion": 1},
    "combined": {"core_clock": 1, "dram_latency": 1},
}
PROMISES = {
    "bandwidth": "more bandwidth is never slower",
    "latency": "a higher latency is never faster",
    "core clock": "a higher core clock is never slower",
}
CHANGES = {"bandwidth": WIDER, "latency": LATER, "core clock": QUICKER}
PRINTED_CLOCKS = {"wang_chu": {"frequency_ratio"}}
"""The paper that says what a clock does; as printed, the others have it in seconds only."""


def changed(model: str, variant: str, change: str, inputs: Mapping[str, Any], factor: float) -> Any:
    """Return inputs after a change: more bandwidth, a higher latency or a higher clock."""
    by = CHANGES[change][model]
    if change == "core clock" and variant == "printed":
        known = PRINTED_CLOCKS.get(model, {"core_freq", "core_clock"})
        by = {name: power for name, power in by.items() if name in known}
    return {**inputs} | {
        name: tuple(v * factor**power for v in inputs[name])
        if isinstance(inputs[name], tuple) else inputs[name] * factor**power
        for name, power in by.items()
    }  # fmt: skip


class Broken(NamedTuple):
    """A promise that variants of a model do not keep, and where."""

    model: str
    variants: tuple[str, ...]
    change: str
    words: str
    inputs: Mapping[str, Any]
    factor: float


HK = golden.columns("hong_kim_2009")
WC = golden.ROUND | {"uses_fit": 0}
SHARED = {"uses_shared": 1, "i_itrs": 16, "aw": 8, "dm_del": 8.001}
ONE_IN_TEN = {"coal_mem_insts": 0.1, "comp_insts": 49.9, "n": 24, "threads_per_block": 768}


def _period(n: float, latency: float, c: float, c_before: float, m_before: float) -> dict[str, Any]:
    """Return one period of ``n`` warps on the GTX 260."""
    return {
        "n_act": n, "n_sm": 24.0, "active_sm": 24.0, "active_blocks_per_sm": 1.0, "blocks": 24.0,
        "warps_per_block": n, "instructions": 10.0, "warp_bytes": 128.0, "moved_last": 0.0,
        "p": 0.2623, "a": 3.0, "b": 11.0, "c": 0.5, "d": 80.0, "m": 32.0, "n_thread": 32.0,
        "core_freq": 1.242e9, "gpu_bw": 111.9e9, "t_mem_cycles": latency, "c_i": (c,),
        "c_previous": (c_before,), "d_mem": (4.0,), "n_trans": (2.0,), "weight": (1.0,),
        "m_i": (latency,), "m_previous": (m_before,), "moved_previous": (128.0,),
    }  # fmt: skip


BOTH = ("printed", "corrected")
BROKEN = (
    Broken("hong_kim", BOTH, "bandwidth",
           "2 warps, MWP 1.97 and then 2: (22) adds the computation (HK-7)", HK["hk7"], 1.1),
    Broken("hong_kim", BOTH, "bandwidth",
           "a block that meets at 500 barriers: (26) grows with MWP (HK-8)", HK["hk8"], 2.0),
    Broken("hong_kim", ("printed",), "latency",
           "one access in ten warps: (24) takes over from (23) and is shorter (HK-1)",
           HK["few_warps"] | ONE_IN_TEN, 8.0),
    Broken("hong_kim", ("printed",), "core clock",
           "MWP 0.39: (23) subtracts computation, less at the higher clock (HK-4)",
           HK["few_warps"] | {"core_freq": 1e9, "mem_bandwidth": 10e9, "mem_ld": 20, "n": 5,
                              "threads_per_block": 160, "load_bytes_per_warp": 32,
                              "comp_insts": 100, "coal_mem_insts": 1}, 4.0),
    Broken("wang_chu", ("printed",), "bandwidth",
           "8 warps of 4 in a block, 16 shared accesses: (21) takes over from (17) (WC-11)",
           WC | SHARED | {"comp_inst": 2}, 1.001),
    Broken("wang_chu", ("corrected",), "bandwidth",
           "8 warps of 4 in a block, 16 shared accesses: (21) takes over from (17) (WC-11)",
           WC | SHARED | {"comp_inst": 12}, 1.001),
    Broken("wang_chu", ("printed",), "latency",
           "62 warps, latency 604 and then 606: (11) takes over from (13) and is shorter (WC-1)",
           WC | {"comp_inst": 5, "aw": 62, "dm_lat": 604}, 606 / 604),
    Broken("wang_chu", ("corrected",), "latency",
           "62 warps, latency 604 and then 606: (13) takes over from (11) and is shorter (WC-10)",
           WC | {"comp_inst": 30, "aw": 62, "dm_lat": 604}, 606 / 604),
    Broken("wang_chu", ("printed",), "core clock",
           "4 warps that compute as long as memory serves: (11) takes over from (9) (WC-10)",
           WC | {"comp_inst": 20, "aw": 4, "dm_lat": 50, "dm_del": 20}, 2.0),
    Broken("wang_chu", ("corrected",), "core clock",
           "4 warps of long latency: (15) takes over from (9) (WC-10)",
           WC | {"issue_cycles": 0.25, "inst_latency": 4, "comp_inst": 120, "aw": 4, "dm_lat": 12,
                 "dm_del": 5}, 1.1),
    Broken("luo_suda", ("printed",), "latency",
           "11 warps: a period becomes one of type 4, and (13) is negative (LS-1)",
           _period(11.0, 1000.0, 300.0, 100.0, 100.0), 2.0),
    Broken("luo_suda", ("corrected",), "latency",
           "16 warps, latency 100 and then 200: MPD doubles, one waiting period less (LS-5)",
           _period(16.0, 100.0, 10.0, 100.0, 400.0), 2.0),
    Broken("luo_suda", ("printed",), "core clock",
           "4 warps: MPD falls from 2 to 1, two waiting periods more (LS-5)",
           _period(4.0, 200.0, 300.0, 2.0, 1000.0), 1.5),
    Broken("luo_suda", ("corrected",), "core clock",
           "32 warps: a period that does not wait begins to (LS-7)",
           _period(32.0, 100.0, 2.0, 100.0, 100.0) | {"gpu_bw": 20e9}, 1.5),
)  # fmt: skip


def broken(variant: str) -> Iterator[tuple[str, str]]:
    """Yield model and change of what a variant does not promise."""
    return ((case.model, case.change) for case in BROKEN if variant in case.variants)

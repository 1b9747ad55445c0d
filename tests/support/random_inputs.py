"""Random inputs of each model in the ranges of devices and kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


def numbers(low, high):
    return st.floats(low, high)


def counts(low, high):
    return st.integers(low, high).map(float)


SM = {"n_sm": counts(1, 130), "blocks": counts(1, 5000)}


@st.composite
def hong_kim(draw):
    """Draw any launch; accesses of only some warps are fractions of an instruction."""
    threads, active = draw(counts(1, 1024)), draw(counts(1, 16))
    given = {name: draw(values) for name, values in SM.items()}
    memory = draw(st.tuples(numbers(0, 50), numbers(0, 50)).filter(any))
    return given | {
        "threads_per_block": threads, "threads_per_warp": 32.0, "active_blocks_per_sm": active,
        "n": active * np.ceil(threads / 32), "active_sm": min(given["n_sm"], given["blocks"]),
        "comp_insts": draw(numbers(0, 20000)), "uncoal_mem_insts": memory[0],
        "coal_mem_insts": memory[1], "synch_insts": draw(counts(0, 500)),
        "uncoal_per_mw": draw(counts(1, 32)), "load_bytes_per_warp": draw(numbers(1, 512)),
        "issue_cycles": draw(numbers(0.25, 32)), "core_freq": draw(numbers(1e8, 3e9)),
        "mem_bandwidth": draw(numbers(1e9, 5e12)), "mem_ld": draw(numbers(50, 2000)),
        "departure_del_uncoal": draw(numbers(0.1, 100)),
        "departure_del_coal": draw(numbers(0.1, 100)),
    }  # fmt: skip


@st.composite
def wang_chu(draw):
    """Draw inputs with and without shared memory, caches and the fit of (4)."""
    wpb, active = draw(counts(1, 32)), draw(counts(1, 16))
    given = {name: draw(values) for name, values in SM.items()}
    return given | {
        "aw": wpb * active, "wpb": wpb, "active_sm": min(given["n_sm"], given["blocks"]),
        "comp_inst": draw(numbers(1, 1e5)), "gld_trans": draw(numbers(0.1, 300)),
        "o_itrs": draw(counts(1, 100)), "i_itrs": draw(counts(0, 300)),
        "transactions_per_request": draw(counts(1, 32)), "l2_hr": draw(numbers(0, 1)),
        "uses_shared": draw(st.sampled_from([0.0, 1.0])), "issue_cycles": draw(numbers(0.2, 4)),
        "inst_latency": draw(numbers(1, 30)), "sh_lat": draw(numbers(1, 100)),
        "l2_lat": draw(numbers(50, 300)), "l2_del": draw(numbers(0.1, 10)),
        "dm_lat": draw(numbers(100, 1000)), "dm_lat_slope": draw(numbers(0, 500)),
        "dm_lat_intercept": draw(numbers(0, 500)), "uses_fit": draw(st.sampled_from([0.0, 1.0])),
        "dm_del": draw(numbers(0.1, 100)), "frequency_ratio": draw(numbers(0.2, 5)),
    }  # fmt: skip


@st.composite
def luo_suda(draw):
    """Draw any sequence of periods."""
    warps, active = draw(counts(1, 8)), draw(counts(1, 8))
    given = {name: draw(values) for name, values in SM.items()}
    length = draw(st.integers(1, 4))

    def sequence(values):
        return tuple(draw(values) for _ in range(length))

    return given | {
        "n_act": warps * active, "active_sm": min(given["n_sm"], given["blocks"]),
        "active_blocks_per_sm": active, "warps_per_block": warps,
        "instructions": draw(numbers(1, 1e4)), "warp_bytes": draw(numbers(1, 1e4)),
        "p": draw(numbers(0, 1)), "a": 3.0, "b": 11.0, "c": 0.5, "d": 80.0, "m": 32.0,
        "n_thread": draw(counts(1, 32)), "core_freq": draw(numbers(1e8, 3e9)),
        "gpu_bw": draw(numbers(1e9, 5e12)), "t_mem_cycles": draw(numbers(50, 2000)),
        "c_i": sequence(numbers(0, 2000)), "c_previous": sequence(numbers(0, 2000)),
        "m_i": sequence(numbers(0, 5000)), "m_previous": sequence(numbers(0, 5000)),
        "d_mem": sequence(numbers(1, 16)), "n_trans": sequence(counts(1, 32)),
        "moved_previous": sequence(numbers(0, 1e5)), "moved_last": draw(numbers(0, 1e5)),
        "weight": (1.0, *sequence(numbers(0, 50))[1:]),
    }  # fmt: skip


@st.composite
def zhang_owens(draw):
    """Draw any stages, serial and overlapped."""
    warps, active = draw(counts(1, 32)), draw(counts(1, 8))
    given = {name: draw(values) for name, values in SM.items()}
    length = draw(st.integers(1, 4))

    def sequence(values):
        return tuple(draw(values) for _ in range(length))

    types = ("i", "ii", "iii", "iv")
    return {
        "number_sm": given["n_sm"], "blocks": given["blocks"], "active_blocks_per_sm": active,
        "active_sm": min(given["n_sm"], given["blocks"]), "warps_per_block": warps,
        "threads_per_block": 32 * warps, "warp_size": 32.0, "cluster_count": draw(counts(1, 10)),
        "global_share": draw(numbers(0.1, 1)), "barriers": sequence(st.sampled_from([0.0, 1.0])),
        "executions": sequence(counts(1, 50)), "shared_transactions": sequence(numbers(0, 1e3)),
        "shared_bandwidth": sequence(numbers(1e9, 1e13)), "global_bytes": sequence(numbers(0, 1e4)),
        "global_transactions": sequence(numbers(0.1, 100)),
        "frequency_measured": draw(numbers(5e8, 2e9)), "frequency": draw(numbers(1e8, 3e9)),
        "core_clock": draw(numbers(1e8, 3e9)), "peak_global": draw(numbers(1e9, 5e12)),
        "global_latency": draw(numbers(50, 2000)),
        **{f"units_{t}": draw(counts(1, 16)) for t in types},
        **{f"n_{t}": sequence(numbers(t == "ii", 1e4)) for t in types},
        **{f"throughput_{t}": sequence(numbers(1e8, 1e11)) for t in types},
    }  # fmt: skip


@st.composite
def lemeire(draw):
    """Draw any mix of instruction types."""
    warps, active = draw(counts(1, 32)), draw(counts(1, 8))
    given = {name: draw(values) for name, values in SM.items()}
    length = draw(st.integers(1, 4))

    def sequence(values):
        return tuple(draw(values) for _ in range(length))

    return {
        "n_cu": given["n_sm"], "active_cu": min(given["n_sm"], given["blocks"]),
        "max_conc_wg": active, "conc_wg": active, "active_wg": active, "max_conc_warps": 64.0,
        "wg": given["blocks"], "wg_size": 32 * warps, "warp_size": 32.0,
        "instructions": draw(numbers(1, 1e5)), "count": sequence(numbers(1, 1e4)),
        "issue": sequence(numbers(0.1, 32)), "completion": sequence(numbers(1, 50)),
        "local_count": draw(numbers(0, 1e3)), "local_issue": draw(numbers(0.5, 32)),
        "local_completion": draw(numbers(10, 100)), "memory_count": draw(numbers(0, 1e3)),
        "memory_issue": draw(numbers(0.5, 100)), "memory_completion": draw(numbers(50, 2000)),
    }  # fmt: skip


@st.composite
def combined(draw):
    """Draw any stages, with and without barriers."""
    given = {name: draw(values) for name, values in SM.items()}
    length = draw(st.integers(1, 4))

    def sequence(values):
        return tuple(draw(values) for _ in range(length))

    counted = ("fp32", "integer", "special", "fp64", "accesses", "wavefronts", "l1_sectors",
               "l2_sectors", "dram_sectors", "chain", "shared_loads", "dram_loads")  # fmt: skip
    cycles = ("issue", "fp32", "integer", "special", "fp64", "load_store", "shared", "l1", "l2")
    return given | {
        "active_blocks": draw(counts(1, 16)), "warps_per_block": draw(counts(1, 32)),
        "active_sm": min(given["n_sm"], given["blocks"]), "instructions": sequence(numbers(1, 1e4)),
        **{name: sequence(numbers(0, 1e3)) for name in counted},
        "cache_wait": sequence(numbers(0, 1e5)), "barriers": sequence(st.sampled_from([0.0, 1.0])),
        **{f"{name}_cycles": draw(numbers(0.1, 32)) for name in cycles},
        "unified": draw(st.sampled_from([0.0, 1.0])), "alu_latency": draw(numbers(1, 30)),
        "shared_latency": draw(numbers(1, 100)), "launch_cycles": draw(numbers(1, 1000)),
        "schedulers": draw(st.sampled_from([1.0, 2.0, 4.0])), "parallelism": draw(numbers(1, 32)),
        "dram_bandwidth": draw(numbers(1e9, 5e12)),
        "dram_latency": draw(numbers(50, 2000)), "core_clock": draw(numbers(1e8, 3e9)),
    }  # fmt: skip


KERNELS = {f.__name__: f for f in (hong_kim, wang_chu, luo_suda, zhang_owens, lemeire, combined)}

"""The corrected equations of models with sequences in plain NumPy, as in ``numpy_models``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Tables = Mapping[str, Array]
Found = tuple[Array, Array, Array, Array]

__all__ = ["combined", "lemeire", "luo_suda", "zhang_owens"]


def parts(t: Tables, name: str) -> list[Array]:
    """Return the elements of a sequence input, in order."""
    found = []
    while f"{name}_{len(found)}" in t:
        found.append(t[f"{name}_{len(found)}"])
    return found


def luo_suda(t: Tables) -> Found:
    """Return cycles, cycles per instruction, core and memory activity of Luo & Suda 2011."""
    n, n_sm, active = t["n_act"], t["n_sm"], t["active_sm"]
    p, a, c, m = t["p"], t["a"], t["c"], t["m"]
    cpd1 = (c - p) * (n - t["b"]) + a  # (3)
    height = t["d"] * (p - c) ** 2  # (5)
    cpd2 = height / (m - 1.0) * np.sqrt((m - 1.0) ** 2 - (n - m) ** 2) + a  # (4)
    smaller = np.where(np.isnan(cpd2), cpd2, np.minimum(cpd1, cpd2))
    cpd = np.where(p >= c, cpd2, smaller)
    cpd = np.where(np.isnan(cpd), cpd, np.maximum(cpd, 1.0))
    types: list[Any] = [0.0, 0.0, 0.0, 0.0]
    busy: Any = 0.0
    share = n_sm * t["core_freq"] / t["gpu_bw"]
    names = ("c_i", "nominal_m_i", "moved_previous", "weight")
    for c_i, m_nominal, moved, weight in zip(*(parts(t, name) for name in names), strict=True):
        m_i = m_nominal * t["t_mem_factor"]
        work, hidden = np.ceil(n * c_i / cpd), c_i / cpd  # (6)
        t_p = np.maximum(n * (moved * share) - (n - 1.0) * hidden, 0.0)  # (10)
        before, after = t_p > 0.0, (n - 1.0) * hidden < m_i
        t_c = np.where(
            before,
            np.maximum(m_i - ((n - 1.0) * hidden + t_p), 0.0),  # (13)
            np.maximum(m_i - (n - 1.0) * hidden, 0.0),  # (8)
        )
        period = work + np.where(before, t_p, 0.0) + np.where(after, t_c, 0.0)
        period = np.where(weight > 0.0, period * weight, 0.0)
        busy = busy + work * weight
        for i, where in enumerate(
            (~(before | after), after & ~before, before & ~after, before & after)
        ):
            types[i] = types[i] + np.where(where, period, 0.0)
    types[2] = types[2] + n * (t["moved_last"] * share)  # (10) at the end
    cycles = types[0] + types[1] + types[2] + types[3]
    total = cycles * np.maximum(1.0, t["blocks"] / (t["active_blocks_per_sm"] * active))
    cpi = total / (t["instructions"] * t["warps_per_block"] * (t["blocks"] / active))
    used = active / n_sm
    drawn = t["warp_bytes"] * n * n_sm * t["core_freq"] / (t["gpu_bw"] * cycles)
    return total, cpi, np.minimum(1.0, busy / cycles * used), np.minimum(1.0, drawn * used)


def lemeire(t: Tables) -> Found:
    """Return cycles, cycles per instruction, core and memory activity of Lemeire et al. 2016."""
    warps_wg = np.ceil(t["wg_size"] / t["warp_size"])
    size = t["wg_size"] / warps_wg
    w = np.minimum(t["max_conc_warps"], warps_wg * t["active_wg"])
    total = t["wg"] * t["wg_size"] / size
    runs = np.ceil(total / t["n_cu"] / w)
    computation: Any = 0.0
    chain = t["local_count"] * t["local_completion"]
    memory_completion = t["nominal_memory_completion"] * t["completion_factor"]
    chain = chain + t["memory_count"] * memory_completion
    names = ("count", "issue", "completion")
    for count, issue, completion in zip(*(parts(t, name) for name in names), strict=True):
        computation = computation + count * issue * w
        chain = chain + count * completion
    memory = t["memory_count"] * (t["nominal_memory_issue"] * t["issue_factor"]) * w
    served = t["local_count"] * t["local_issue"] * w + memory
    run = np.maximum(np.maximum(computation, served), chain)
    cycles = run * runs
    cpi = cycles / (t["instructions"] * total / t["active_cu"])
    used = t["active_cu"] / t["n_cu"] / run
    return cycles, cpi, np.minimum(1.0, computation * used), np.minimum(1.0, memory * used)


def zhang_owens(t: Tables) -> Found:
    """Return cycles, cycles per instruction and activities of Zhang & Owens 2011."""
    types = ("i", "ii", "iii", "iv")
    blocks, active, frequency = t["blocks"], t["active_blocks_per_sm"], t["frequency"]
    sms = np.minimum(t["number_sm"], blocks / active)
    factor = frequency / t["frequency_measured"] * (sms / t["number_sm"])
    peaks = [t[f"units_{k}"] * frequency * t["number_sm"] / t["warp_size"] for k in types]
    serial = active <= 1.0
    warps = t["warps_per_block"] * blocks
    n = [parts(t, f"n_{k}") for k in types]
    throughput = [parts(t, f"throughput_{k}") for k in types]
    shared, shared_bw = parts(t, "shared_transactions"), parts(t, "shared_bandwidth")
    bytes_, requests_ = parts(t, "global_bytes"), parts(t, "global_transactions")
    executions, barriers = parts(t, "executions"), parts(t, "barriers")
    instructions = issued = transferred = total = t_i = t_s = requests = moved = np.zeros(1)
    for k in range(len(bytes_)):
        instructions = instructions + (n[0][k] + n[1][k] + n[2][k] + n[3][k])
        at_peak = n[0][k] / peaks[0] + n[1][k] / peaks[1] + n[2][k] / peaks[2]
        issued = issued + warps * (at_peak + n[3][k] / peaks[3])
        first = n[0][k] / throughput[0][k] + n[1][k] / throughput[1][k]
        linear = first + n[2][k] / throughput[2][k] + n[3][k] / throughput[3][k]
        t_i = t_i + linear * warps / factor
        t_s = t_s + shared[k] * (4.0 * t["warp_size"]) * warps / (shared_bw[k] * factor)
        moved = moved + bytes_[k] * warps
        requests = requests + requests_[k] / np.where(serial, executions[k], 1.0)
        of_block = 4.0 * t["threads_per_block"] * requests
        sustained = t["peak_global"] * t["global_share"]
        cluster = np.ceil(blocks / t["cluster_count"]) * of_block / sustained
        waiting = t["global_latency"] / frequency + cluster * t["cluster_count"]
        t_g = np.where(moved > 0.0, moved / (blocks * of_block / waiting), 0.0)
        last = k == len(bytes_) - 1
        ends = 1.0 if last else np.where(serial & (barriers[k] > 0.0), 1.0, 0.0)
        total = total + ends * np.maximum(np.maximum(t_i, t_s), t_g)
        transferred = transferred + ends * moved
        left = 1.0 - ends
        t_i, t_s, moved, requests = t_i * left, t_s * left, moved * left, requests * left
    cycles = total * t["core_clock"]
    cpi = cycles / (instructions * warps / t["active_sm"])
    drawn = np.minimum(1.0, transferred / t["peak_global"] / total)
    return cycles, cpi, np.minimum(1.0, issued / total), drawn


def combined(t: Tables) -> Found:
    """Return cycles, cycles per instruction, core and memory activity of the model combined."""
    blocks, active, n_sm, width = (
        t[k] for k in ("blocks", "active_blocks", "n_sm", "warps_per_block")
    )
    t_dram = t["active_sm"] * (32.0 * t["core_clock"] / t["dram_bandwidth"])  # (3)
    rounds = np.floor(blocks / (active * n_sm))  # (10)
    left = np.ceil((blocks - rounds * active * n_sm) / n_sm)  # (11)
    least = np.maximum(left, 1.0)
    warps = (active * width, least * width)  # (7), of all rounds but the last, and of that
    m = t["schedulers"]
    issue = np.maximum(t["issue_cycles"], 1.0 / t["parallelism"] / m)  # (1a)

    def cycles_of(n: Array, alone: Array, sums: list[Array]) -> Array:  # (8)
        issued, fp32, integer, special, fp64, s, c, h = sums
        more, less = np.maximum(fp32, integer), np.minimum(fp32, integer) * (1.0 - t["unified"])
        apart = 1.0 - t["one_pipe"]
        longer, shorter = (f(special, fp64) * apart for f in (np.maximum, np.minimum))
        first, second = np.maximum(np.maximum(more, longer), issued), np.minimum(more, longer)
        lanes = (first, second, np.maximum(less, shorter))
        on_lanes, on_sm = np.maximum(n - m, 0.0), n - 1.0
        stations = [(m * d, on_lanes * d) for d in lanes] + [(d, on_sm * d) for d in (s, c, h)]
        most = functools.reduce(np.maximum, [p for _, p in stations])
        alone, queued = alone + 1e-20, sum(d * p for d, p in stations)
        root = np.sqrt((alone - most) * (alone - most) + 4.0 * queued)
        upper = 0.5 * (alone + most + root)  # (8c)
        q = [d * p * (most - p) / (upper - p) for d, p in stations]
        slope = root - sum(own / (upper - p) for own, (_, p) in zip(q, stations, strict=True))
        return upper - sum(q) / slope

    names = ("instructions", "fp32", "integer", "special", "fp64", "accesses", "wavefronts",
             "l1_sectors", "l2_sectors", "dram_sectors", "chain", "shared_loads", "cache_wait",
             "dram_loads", "link_time", "link_wait", "barriers")  # fmt: skip
    stages = [dict(zip(names, row, strict=True)) for row in zip(*(parts(t, n) for n in names),
                                                                strict=True)]  # fmt: skip
    executed = np.zeros(1)
    sums, whole_sums = [np.zeros(1)] * 8, [np.zeros(1)] * 8
    serial = [np.zeros(1), np.zeros(1)]
    one = all_one = t["launch_cycles"]
    for k, x in enumerate(stages):
        special, fp64 = x["special"] * t["special_cycles"], x["fp64"] * t["fp64_cycles"]
        fp32 = (x["fp32"] + t["unified"] * x["integer"]) * t["fp32_cycles"]
        fp32 = fp32 + t["one_pipe"] * (special + fp64)  # (1b)
        integer, issued = x["integer"] * t["integer_cycles"], x["instructions"] * issue
        a_k = functools.reduce(np.maximum, (issued, fp32, integer, special, fp64))  # (1)
        data = x["wavefronts"] * t["shared_cycles"] + x["l1_sectors"] * t["l1_cycles"]
        s_k = np.maximum(x["accesses"] * t["load_store_cycles"], data)  # (2)
        c_k, on_link = x["l2_sectors"] * t["l2_cycles"], x["link_time"] * t["active_sm"]
        h_k = np.maximum(x["dram_sectors"] * t_dram, on_link * t["core_clock"])  # (3a)
        z_k = np.maximum(x["chain"] * t["alu_latency"] / t["parallelism"] - m * a_k, 0.0)
        z_k = z_k + x["shared_loads"] * t["shared_latency"] / t["parallelism"]
        z_k = z_k + x["barriers"] * t["shared_latency"] + x["cache_wait"]
        z_k = z_k + x["dram_loads"] * t["dram_latency"] + x["link_wait"] * t["core_clock"]  # (6)
        one_k = z_k + m * a_k + s_k + np.maximum(c_k, h_k)  # (8a)
        own = (issued, fp32, integer, special, fp64, s_k, c_k, h_k)
        sums, whole_sums = (
            [a + b for a, b in zip(before, own, strict=True)] for before in (sums, whole_sums)
        )
        one, all_one, executed = one + one_k, all_one + one_k, executed + x["instructions"]
        ends = 1.0 if k == len(stages) - 1 else np.where(x["barriers"] > 0.0, 1.0, 0.0)
        if len(stages) > 1:
            serial = [
                b + ends * cycles_of(n, one, sums) for b, n in zip(serial, warps, strict=True)
            ]
        one, sums = one * (1.0 - ends), [part * (1.0 - ends) for part in sums]
    whole, tail = (
        together + np.maximum(stagewise - together, 0.0) / resident  # (9)
        for together, stagewise, resident in zip(
            (cycles_of(n, all_one, whole_sums) for n in warps), serial, (active, least),
            strict=True)
    )  # fmt: skip
    all_a, all_dram = functools.reduce(np.maximum, whole_sums[:5]), whole_sums[-1]
    cycles = rounds * whole + np.where(left > 0.0, 1.0, 0.0) * tail  # (12)
    cycles = cycles + t["kernel_launch"] * t["core_clock"]
    per_sm = blocks * width / t["active_sm"]
    cpi = cycles / (executed * per_sm)
    core_activity = np.minimum(1.0, all_a * per_sm / cycles)
    return cycles, cpi, core_activity, np.minimum(1.0, all_dram * per_sm / cycles)

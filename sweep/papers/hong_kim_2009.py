"""Hong & Kim 2009: the parts of Tables 2 to 6 and Figures 14 to 20 that the paper's data allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from sweep.evaluation.planned import evaluate
from sweep.models import hong_kim_2009 as hk
from sweep.papers.report import declared
from sweep.space import Plan

DEVICES = ("gt_8800", "quadro_fx_5600", "gtx_8800", "gtx_280")
# The Merge benchmarks, and the upper end of Figure 15's time axis on the FX 5600 [ms]
MERGE = {"mat_naive": 15489, "mat_tiled": 2808, "svm": 60, "sepia": 330, "linear": 1395,
         "blackscholes_merge": 78}  # fmt: skip
# Figures over the benchmarks: title and variable
FIGURES = {
    "figure_17": ("CPI on the Merge benchmarks", "cycles_per_instruction"),
    "figure_18": ("CWP on the Merge benchmarks", "hong_kim_computation_warp_parallelism"),
    "figure_19": ("MWP on the Merge benchmarks", "hong_kim_memory_warp_parallelism"),
    "figure_20": ("Occupancy on the Merge benchmarks", "occupancy"),
}
MOSTLY_THE_SAME = 1.5
"""Times of Figure 15 up to this ratio are called the same."""
COLUMNS = ("cycles_per_instruction", "hong_kim_memory_warp_parallelism",
           "hong_kim_computation_warp_parallelism", "occupancy")  # fmt: skip


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's worked example and benchmark figures."""
    outputs = ("execution_time", *(name.removeprefix("hong_kim_") for name in COLUMNS))
    results = _evaluate(tuple(MERGE), DEVICES, outputs)

    def mean(kernel: str, name: str, device: str) -> float:
        return float(np.nanmean(results[kernel][name].sel(device=device).values))

    yield ("figures_17_to_20", [
        [kernel, device, 1e3 * mean(kernel, "execution_time", device),
         *(mean(kernel, name, device) for name in COLUMNS)]
        for kernel in MERGE for device in DEVICES
    ])  # fmt: skip
    panels, words = _figure_15(results)
    yield ("figure_15", panels, (), words)
    for figure, (title, name) in FIGURES.items():
        bars = {d: (np.arange(len(MERGE)), np.array([mean(k, name, d) for k in MERGE]))
                for d in DEVICES}  # fmt: skip
        yield (figure, {title: bars}, list(MERGE))
    marks = [f"Mb{i}_{kind}" for kind in ("C", "UC") for i in range(1, 8)]
    curves, words = _figure_14()
    yield ("figure_14", {"micro-benchmarks": curves}, marks, words)


def _evaluate(kernels: tuple[str, ...], devices: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """Return the results of kernels by name, without the dimension of the model."""
    plan = Plan(kernels, devices, ("hong_kim",), precision="float64", outputs=outputs)
    tree = evaluate(plan).load()
    return {kernel: tree[kernel].to_dataset().isel(model=0) for kernel in kernels}


def _given(group: str) -> Any:
    return SimpleNamespace(**declared("hong_kim_2009")["inputs"][group])


def _table_2() -> list[float]:
    """Return Table 2: the tiled matrix product of Figure 12 on 16 SMs at 1 GHz and 80 GB/s."""
    own = _given("table_2")
    n = own.threads_per_block / own.warp_size * own.active_blocks_per_sm
    mem_insts = own.uncoal_mem_insts + own.coal_mem_insts
    uncoal, coal = own.uncoal_mem_insts / mem_insts, own.coal_mem_insts / mem_insts
    mem_l_uncoal = hk.mem_l_uncoal(own.mem_ld, own.uncoal_per_mw, own.departure_del_uncoal)
    mem_l_coal = hk.mem_l_coal(own.mem_ld)
    mem_l = hk.mem_l(mem_l_uncoal, uncoal, mem_l_coal, coal)
    delay = hk.departure_delay(own.departure_del_uncoal, own.uncoal_per_mw, uncoal,
                               own.departure_del_coal, coal)  # fmt: skip
    full = hk.mwp_without_bw_full(mem_l, delay)
    per_warp = hk.bw_per_warp(own.core_freq, own.load_bytes_per_warp, mem_l)
    peak = hk.mwp_peak_bw(own.mem_bandwidth, per_warp, own.active_sms)
    mwp = hk.mwp(hk.mwp_without_bw(full, n), peak, n)
    comp = hk.comp_cycles(own.issue_cycles, own.comp_insts + mem_insts)
    mem = hk.mem_cycles(mem_l_uncoal, own.uncoal_mem_insts, mem_l_coal, own.coal_mem_insts)
    cwp_full = hk.cwp_full(mem, comp)
    cwp, rep = hk.cwp(cwp_full, n), hk.rep(own.blocks, own.active_blocks_per_sm, own.active_sms)
    app = hk.exec_cycles_app_23(mem, n, mwp, comp, mem_insts, mwp - 1.0, rep)
    synch = hk.synch_cost(delay, mwp - 1.0, own.synch_insts, own.active_blocks_per_sm, rep)
    total = hk.exec_cycles_with_synch(app, synch)
    return [delay, mem_l, full, per_warp / 1e9, peak, mwp, comp, mem, cwp_full, cwp, rep, app,
            synch, total]  # fmt: skip


def _section_3_2() -> list[float]:
    """Return the cycles of Section 3.2's cases, and the example beside (21)."""
    own = _given("section_3_2")
    return [
        hk.exec_cycles_cwp_greater(1.0, own.n, own.mwp, 0.0),
        hk.exec_cycles_cwp_greater(own.mem_p, own.n, own.mwp, own.comp_p),
        hk.exec_cycles_mwp_greater(own.mem_p, own.comp_p, own.n),
        hk.exec_cycles_few_warps(own.mem_p, own.comp_p, 1.0, 1.0, own.comp_p),
        hk.rep(own.blocks, own.active_blocks_per_sm, own.active_sms),
    ]


NUMBERS = {"table_2": _table_2, "section_3_2": _section_3_2}
"""What stands beside printed numbers, by its table."""


def _figure_15(results: Any) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return time over threads per block, with the end of the printed axis, and what it shows."""
    panels, ratios = {}, {}
    for kernel, end in MERGE.items():
        values = results[kernel]["execution_time"].sel(device="quadro_fx_5600")
        (dim,) = values.dims
        x = values[dim].values.astype(float)
        x = x**2 if dim == "tile" else x
        panels[kernel] = {
            "predicted": (x, 1e3 * values.values),
            "end of the paper's axis": (x, np.full_like(x, float(end))),
        }
        whole = values.values[x >= 32]
        ratios[kernel] = float(np.nanmax(whole) / np.nanmin(whole))
    others = {name: ratio for name, ratio in ratios.items() if ratio > MOSTLY_THE_SAME}
    steady = max((r for name, r in ratios.items() if name not in others), default=1.0)
    words = ", ".join(f"{name} ({ratio:.2f} times)" for name, ratio in others.items())
    return panels, {"steady": f"{steady:.2f}", "others": words or "none"}


def _figure_14() -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return the CPI of the micro-benchmarks, coalesced and uncoalesced, and its ranges."""
    kernels, devices = ("micro_coalesced", "micro_uncoalesced"), ("quadro_fx_5600", "gtx_280")
    results = _evaluate(kernels, devices, ("cycles_per_instruction",))
    curves, ranges = {}, []
    for device in devices:
        parts = []
        for kernel in kernels:
            values = results[kernel]["cycles_per_instruction"].sel(device=device)
            parts.append(values.max([d for d in values.dims if d != "benchmark"]).values)
        both = np.concatenate(parts)
        curves[device] = (np.arange(both.size), both)
        ranges.append(parts)
    shown = [
        " to ".join(f"{f(np.concatenate(of_kind)):.3g}" for f in (np.nanmin, np.nanmax))
        for of_kind in zip(*ranges, strict=True)
    ]
    highest = " and ".join(f"{np.nanmax(parts[1]):.3g}" for parts in ranges)
    return curves, {"coalesced": shown[0], "uncoalesced": highest}

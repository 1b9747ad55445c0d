"""Hong & Kim 2009: the parts of Tables 2 to 6 and Figures 14 to 20 that the paper's data allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sweep.evaluation.planned import evaluate
from sweep.models import hong_kim_2009 as hk
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
COLUMNS = ("cycles_per_instruction", "hong_kim_memory_warp_parallelism",
           "hong_kim_computation_warp_parallelism", "occupancy")  # fmt: skip


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's worked example and benchmark figures."""
    yield ("table_2", _table_2())
    yield ("section_3_2", [
        hk.exec_cycles_cwp_greater(3.0, 8.0, 2.0, 1.0),
        hk.exec_cycles_mwp_greater(3.0, 1.0, 8.0),
        hk.exec_cycles_few_warps(3.0, 1.0, 1.0, 1.0, 1.0),
        hk.rep(40.0, 2.0, 4.0),
    ])  # fmt: skip
    outputs = ("execution_time", *(name.removeprefix("hong_kim_") for name in COLUMNS))
    results = _evaluate(tuple(MERGE), DEVICES, outputs)

    def mean(kernel: str, name: str, device: str) -> float:
        return float(np.nanmean(results[kernel][name].sel(device=device).values))

    yield ("figures_17_to_20", [
        [kernel, device, 1e3 * mean(kernel, "execution_time", device),
         *(mean(kernel, name, device) for name in COLUMNS)]
        for kernel in MERGE for device in DEVICES
    ])  # fmt: skip
    yield ("figure_15", _figure_15(results))
    for figure, (title, name) in FIGURES.items():
        curves = {d: (np.arange(len(MERGE)), np.array([mean(k, name, d) for k in MERGE]))
                  for d in DEVICES}  # fmt: skip
        yield (figure, {title: curves}, list(MERGE))
    marks = [f"Mb{i}_{kind}" for kind in ("C", "UC") for i in range(1, 8)]
    yield ("figure_14", {"micro-benchmarks": _figure_14()}, marks)


def _evaluate(kernels: tuple[str, ...], devices: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """Return the results of kernels by name, without the dimension of the model."""
    plan = Plan(kernels, devices, ("hong_kim",), precision="float64", outputs=outputs)
    tree = evaluate(plan).load()
    return {kernel: tree[kernel].to_dataset().isel(model=0) for kernel in kernels}


def _table_2() -> list[float]:
    """Return Table 2: the tiled matrix product of Figure 12 on 16 SMs at 1 GHz and 80 GB/s."""
    mem_l_uncoal = hk.mem_l_uncoal(420.0, 32.0, 10.0)
    mem_l = hk.mem_l(mem_l_uncoal, 1.0, hk.mem_l_coal(420.0), 0.0)
    delay = hk.departure_delay(10.0, 32.0, 1.0, 4.0, 0.0)
    full = hk.mwp_without_bw_full(mem_l, delay)
    per_warp = hk.bw_per_warp(1e9, 128.0, mem_l)
    peak = hk.mwp_peak_bw(80e9, per_warp, 16.0)
    mwp = hk.mwp(hk.mwp_without_bw(full, 20.0), peak, 20.0)
    comp, mem = hk.comp_cycles(4.0, 33.0), hk.mem_cycles(mem_l_uncoal, 6.0, 420.0, 0.0)
    cwp_full = hk.cwp_full(mem, comp)
    cwp, rep = hk.cwp(cwp_full, 20.0), hk.rep(80.0, 5.0, 16.0)
    app = hk.exec_cycles_app_23(mem, 20.0, mwp, comp, 6.0, mwp - 1.0, rep)
    synch = hk.synch_cost(delay, mwp - 1.0, 6.0, 5.0, rep)
    total = hk.exec_cycles_with_synch(app, synch)
    return [delay, mem_l, full, per_warp / 1e9, peak, mwp, comp, mem, cwp_full, cwp, rep, app,
            synch, total]  # fmt: skip


def _figure_15(results: Any) -> Mapping[str, Any]:
    """Return time over threads per block, with the end of the printed axis as a line."""
    panels = {}
    for kernel, end in MERGE.items():
        values = results[kernel]["execution_time"].sel(device="quadro_fx_5600")
        (dim,) = values.dims
        x = values[dim].values.astype(float)
        x = x**2 if dim == "tile" else x
        panels[kernel] = {
            "predicted": (x, 1e3 * values.values),
            "end of the paper's axis": (x, np.full_like(x, float(end))),
        }
    return panels


def _figure_14() -> Mapping[str, Any]:
    """Return the CPI of the micro-benchmarks, coalesced and uncoalesced."""
    kernels, devices = ("micro_coalesced", "micro_uncoalesced"), ("quadro_fx_5600", "gtx_280")
    results = _evaluate(kernels, devices, ("cycles_per_instruction",))
    curves = {}
    for device in devices:
        parts = []
        for kernel in kernels:
            values = results[kernel]["cycles_per_instruction"].sel(device=device)
            parts.append(values.max([d for d in values.dims if d != "benchmark"]).values)
        both = np.concatenate(parts)
        curves[device] = (np.arange(both.size), both)
    return curves

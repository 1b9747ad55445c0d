"""Hong & Kim 2009: the parts of Tables 2 to 6 and Figures 14 to 20 that the paper's data allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.evaluation import evaluate
from sweep.models import get_model
from sweep.models import hong_kim_2009 as hk
from sweep.papers.report import Figure, Quantity, Reproduction, Table
from sweep.plot import line_plot
from sweep.space import Plan

__all__ = ["build"]

DEVICES = ("gt_8800", "quadro_fx_5600", "gtx_8800", "gtx_280")
MERGE = ("mat_naive", "mat_tiled", "svm", "sepia", "linear", "blackscholes_merge")
# The upper end of Figure 15's time axis on the FX 5600 [ms]
AXES = {"mat_naive": 15489, "mat_tiled": 2808, "svm": 60, "sepia": 330, "linear": 1395,
        "blackscholes_merge": 78}  # fmt: skip


def build() -> Reproduction:
    """Return the paper's worked example and benchmark figures."""
    model = get_model("hong_kim")
    found = Reproduction(
        "hong_kim_2009",
        "Hong & Kim 2009",
        model.reference,
        remarks=[
            "The measured curves of Figures 14 to 17 are printed as pictures only; the axes' ends "
            "are given beside the predictions.",
            "The GTX 280's transactions of an uncoalesced access are not printed; here they follow "
            "from the access pattern.",
        ],
    )
    found.tables.append(_table_2())
    found.tables.append(_section_3_2())
    times, cpi, mwp, cwp, occupancy = _merge()
    found.tables.append(_benchmark_table("figures_17_to_20", times, cpi, mwp, cwp, occupancy))
    found.figures.append(_figure_15(times))
    found.figures += [
        _bars("figure_17", "CPI on the Merge benchmarks", cpi, "cycles per instruction [cycle]"),
        _bars("figure_18", "CWP on the Merge benchmarks", cwp, "CWP [1]"),
        _bars("figure_19", "MWP on the Merge benchmarks", mwp, "MWP [1]"),
        _bars("figure_20", "Occupancy on the Merge benchmarks", occupancy, "occupancy [1]"),
        _figure_14(),
    ]
    return found


def _table_2() -> Table:
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
    rep = hk.rep(80.0, 5.0, 16.0)
    app = hk.exec_cycles_app_23(mem, 20.0, mwp, comp, 6.0, mwp - 1.0, rep)
    synch = hk.synch_cost(delay, mwp - 1.0, 6.0, 5.0, rep)
    rounded = "the paper rounds MWP to 2.28"
    rows = [
        Quantity("Departure_delay (15)", "cycle", delay, "320"),
        Quantity("Mem_L (10), (12)", "cycle", mem_l, "730"),
        Quantity("MWP_without_BW_full (16)", "1", full, "2.28"),
        Quantity("BW_per_warp (7)", "GB/s", per_warp / 1e9, "0.175"),
        Quantity("MWP_peak_BW (6)", "1", peak, "28.57", "the paper rounds BW_per_warp to 0.175"),
        Quantity("MWP (5)", "1", mwp, "2.28"),
        Quantity("Comp_cycles (19)", "cycle", comp, "132"),
        Quantity("Mem_cycles (18)", "cycle", mem, "4380"),
        Quantity("CWP_full (8)", "1", cwp_full, "34.18"),
        Quantity("CWP (9)", "1", hk.cwp(cwp_full, 20.0), "20"),
        Quantity("#Rep (21)", "1", rep, "1"),
        Quantity("Exec_cycles_app (23)", "cycle", app, "38450", rounded),
        Quantity("Synch_cost (26)", "cycle", synch, "12288", rounded),
        Quantity("Final time (27)", "cycle", hk.exec_cycles_with_synch(app, synch), "50738",
                 rounded),
    ]  # fmt: skip
    return Table("table_2", "Table 2: applying the model to Figure 12", rows)


def _section_3_2() -> Table:
    rows = [
        Quantity("Cases 1 and 2, (1)", "period",
                 hk.exec_cycles_cwp_greater(3.0, 8.0, 2.0, 1.0), "14"),
        Quantity("Cases 3 and 4, (3)", "period", hk.exec_cycles_mwp_greater(3.0, 1.0, 8.0), "11"),
        Quantity("Case 6, (4)", "period", hk.exec_cycles_few_warps(3.0, 1.0, 1.0, 1.0, 1.0), "4"),
        Quantity("#Rep of 40 blocks on 4 SMs, 2 active (21)", "1", hk.rep(40.0, 2.0, 4.0), "5"),
    ]  # fmt: skip
    return Table("section_3_2", "Section 3.2: cases with a computation period of 1 and a memory "
                 "period of 3", rows)  # fmt: skip


def _merge() -> tuple[dict[str, Any], ...]:
    """Evaluate the Merge benchmarks over block sizes on the paper's GPUs."""
    outputs = ("execution_time", "cycles_per_instruction", "memory_warp_parallelism",
               "computation_warp_parallelism", "occupancy")  # fmt: skip
    plan = Plan(MERGE, DEVICES, ("hong_kim",), precision="float64", outputs=outputs)
    tree = evaluate(plan).load()
    results: tuple[dict[str, Any], ...] = ({}, {}, {}, {}, {})
    names = ("execution_time", "cycles_per_instruction", "hong_kim_memory_warp_parallelism",
             "hong_kim_computation_warp_parallelism", "occupancy")  # fmt: skip
    for kernel in MERGE:
        for result, name in zip(results, names, strict=True):
            values = tree[kernel][name]
            result[kernel] = values.isel(model=0) if "model" in values.dims else values
    return results


def _mean(values: Any, device: str) -> float:
    return float(np.nanmean(values.sel(device=device).values))


def _benchmark_table(name: str, *quantities: dict[str, Any]) -> Table:
    rows = []
    times, *others = quantities
    for kernel in MERGE:
        for device in DEVICES:
            row = [kernel, device, 1e3 * _mean(times[kernel], device)]
            rows.append(row + [_mean(values[kernel], device) for values in others])
    columns = ("benchmark", "device", "time [ms]", "CPI", "MWP", "CWP", "occupancy")
    return Table(name, "Figures 15 to 20: means over block sizes", rows, columns)


def _figure_15(times: dict[str, Any]) -> Figure:
    """Plot time over threads per block, with the end of the printed axis as a line."""
    panels = []
    for kernel in MERGE:
        values = times[kernel].sel(device="quadro_fx_5600")
        x = values[values.dims[0]].values.astype(float)
        x = x**2 if values.dims[0] == "tile" else x
        end = np.full_like(x, float(AXES[kernel]))
        series = {"predicted": (x, 1e3 * values.values), "end of the paper's axis": (x, end)}
        panels.append((kernel, series))
    return Figure(
        "figure_15",
        "Figure 15: execution time on the Quadro FX 5600 over threads per block. As in the paper "
        "it hardly depends on the block size from one warp on, except for the tiled product.",
        line_plot(panels, "threads per block [1]", "time [ms]", columns=3),
    )


def _bars(name: str, title: str, values: dict[str, Any], label: str) -> Figure:
    series = {
        device: (np.arange(len(MERGE)), np.array([_mean(values[k], device) for k in MERGE]))
        for device in DEVICES
    }
    picture = line_plot([(title, series)], "", label, columns=1, marks=list(MERGE))
    caption = f"Figure {name.split('_')[1]}: {title}, means over block sizes."
    return Figure(name, caption, picture)


def _figure_14() -> Figure:
    """Plot the CPI of the micro-benchmarks, coalesced and uncoalesced."""
    outputs = ("cycles_per_instruction",)
    devices = ("quadro_fx_5600", "gtx_280")
    kernels = ("micro_coalesced", "micro_uncoalesced")
    tree = evaluate(Plan(kernels, devices, ("hong_kim",), precision="float64",
                         outputs=outputs)).load()  # fmt: skip
    series = {}
    for device in devices:
        parts = []
        for kernel in kernels:
            found: Any = tree[kernel]["cycles_per_instruction"]
            values = found.isel(model=0).sel(device=device)
            others = [d for d in values.dims if d != "benchmark"]
            parts.append(values.max(others).values)
        both = np.concatenate(parts)
        series[device] = (np.arange(both.size), both)
    marks = [f"Mb{i}_{kind}" for kind in ("C", "UC") for i in range(1, 8)]
    return Figure(
        "figure_14",
        "Figure 14: CPI of the micro-benchmarks. Coalesced loads are almost hidden; uncoalesced "
        "ones grow linearly with the number of loads.",
        line_plot([("micro-benchmarks", series)], "", "cycles per instruction [cycle]",
                  columns=1, marks=marks),
    )  # fmt: skip

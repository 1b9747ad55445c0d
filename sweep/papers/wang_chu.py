"""Wang & Chu 2017: Tables II and III, equation (4), and the scaling of Figure 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.evaluation import evaluate
from sweep.models import get_model
from sweep.models import wang_chu_2017 as wc
from sweep.papers.report import Figure, Quantity, Reproduction, Table
from sweep.plot import line_plot
from sweep.space import Plan
from sweep.specs import load_device

__all__ = ["build"]

CLOCKS = tuple(range(400, 1001, 100))
# Table II: minimum DRAM latency [cycle]; Table III: read delay [cycle], bandwidth efficiency [%]
TABLE_2 = ("500", "455.5", "425.8", "404.6", "388.7", "376.3", "366.4")
TABLE_3 = ("10.06", "9.76", "9.54", "9.31", "9.19", "9.06", "9.0")
EFFICIENCY = ("76", "78.13", "79.8", "81.83", "83.42", "84.51", "85")
SERVICE = 7.65  # cycles per sector on one SM at the printed efficiency: 9.0 x 85 %
KERNELS = {"transpose": "TR", "blackscholes": "BS", "vector_add": "VA", "matrixmul_global": "MMG",
           "matrixmul_shared": "MMS"}  # fmt: skip


def build() -> Reproduction:
    """Return the paper's memory measurements and the predicted scaling with both clocks."""
    model = get_model("wang_chu")
    found = Reproduction(
        "wang_chu_2017",
        "Wang & Chu 2017",
        model.reference,
        remarks=[
            "The paper's profiles of its kernels (transactions, hit rates) are not printed: the "
            "scaling below uses the shipped kernel files, counted from the samples' source.",
            "Table II's core-frequency column repeats the memory one; equation (4) gives its "
            "latencies only with the core fixed at 400 MHz.",
        ],
    )
    device: Any = load_device("gtx_980").model_parameters["wang_chu"]
    slope, intercept = (float(device[f"dm_lat_{k}_cycles"]) for k in ("slope", "intercept"))
    rows = [
        Quantity(f"dm_lat at 400 / {mhz} MHz", "cycle",
                 wc.dm_lat_fit(slope, 400.0 / mhz, intercept), printed)
        for mhz, printed in zip(CLOCKS, TABLE_2, strict=True)
    ]  # fmt: skip
    found.tables.append(Table("table_2", "Table II by equation (4), core at 400 MHz", rows))
    table: Any = device["dm_del_table"]
    cycles = dict((int(mhz), float(value)) for mhz, value in table)
    rows = [
        Quantity(f"dm_del at {mhz} MHz", "cycle", cycles[mhz], printed)
        for mhz, printed in zip(CLOCKS, TABLE_3, strict=True)
    ]
    note = "dm_del times efficiency is 7.61 to 7.67 cycles at all clocks; here 7.65"
    rows += [
        Quantity(f"efficiency at {mhz} MHz", "%", 100 * SERVICE / cycles[mhz], printed, note)
        for mhz, printed in zip(CLOCKS, EFFICIENCY, strict=True)
    ]
    found.tables.append(Table("table_3", "Table III", rows))
    found.figures.append(_memory_figure(slope, intercept, cycles))
    speedups = _speedups()
    found.tables.append(speedups[0])
    found.figures.append(speedups[1])
    return found


def _memory_figure(slope: float, intercept: float, cycles: dict[int, float]) -> Figure:
    """Plot Tables II and III over the memory clock, with equations (4) and (5a)."""
    mhz = np.array(CLOCKS, float)
    at_base = wc.dm_lat_fit(slope, 1.0, intercept)
    latency = {
        "printed (Table II)": (mhz, np.array([float(v) for v in TABLE_2])),
        "equation (4)": (mhz, np.array([wc.dm_lat_fit(slope, 400.0 / m, intercept) for m in mhz])),
        "as (5a) scales it": (mhz, np.array([at_base * 400.0 / m for m in mhz])),
    }
    delay = {"dm_del (Table III)": (mhz, np.array([cycles[m] for m in CLOCKS]))}
    return Figure(
        "tables_2_3",
        "DRAM latency with the core at 400 MHz: equation (4) meets Table II, while (5a) scales the "
        "whole latency and puts DRAM below the L2 cache's 222 cycles at 1000 MHz.",
        line_plot([("latency", latency), ("service time", delay)], "memory clock [MHz]",
                  "core cycles [cycle]"),
    )  # fmt: skip


def _speedups() -> tuple[Table, Figure]:
    """Return Figure 2: speed-up over one clock with the other at 400 and 1000 MHz."""
    plan = Plan(tuple(KERNELS), ("gtx_980",), ("wang_chu",), precision="float64",
                axes={"core_clock": CLOCKS, "memory_clock": CLOCKS},
                outputs=("execution_time",))  # fmt: skip
    tree = evaluate(plan)
    panels: list[tuple[str, dict[str, Any]]] = []
    curves: dict[tuple[str, int], dict[str, Any]] = {}
    rows = []
    for kernel, short in KERNELS.items():
        found: Any = tree[kernel]["execution_time"]
        times = found.isel(model=0, device=0)
        free = [d for d in times.dims if d not in ("core_clock", "memory_clock")]
        best = times.min(free).compute()
        for moving, fixed in (("memory_clock", "core_clock"), ("core_clock", "memory_clock")):
            for mhz in (400, 1000):
                line = best.sel({fixed: mhz})
                gain = (line.isel({moving: 0}) / line).values
                curves.setdefault((moving, mhz), {})[short] = (np.array(CLOCKS, float), gain)
                rows.append([short, moving.replace("_", " "), mhz, float(gain[-1])])
    for (moving, mhz), lines in curves.items():
        fixed = "core" if moving == "memory_clock" else "memory"
        panels.append((f"{fixed} clock at {mhz} MHz, {moving.replace('_', ' ')} moving", lines))
    table = Table(
        "figure_2",
        "Figure 2: speed-up of 2.5 times the clock, each kernel's best configuration",
        rows,
        ("kernel", "clock raised from 400 to 1000 MHz", "other clock [MHz]", "speed-up"),
    )
    picture = line_plot(panels, "moving clock [MHz]", "speed-up over 400 MHz [1]")
    caption = (
        "Figure 2: predicted speed-up of each kernel's best configuration. Memory-bound kernels "
        "follow the memory clock, compute-bound ones the core clock."
    )
    return table, Figure("figure_2", caption, picture)

"""Wang & Chu 2017: Tables II and III, equation (4), and the scaling of Figure 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sweep.evaluation.planned import evaluate
from sweep.models import wang_chu_2017 as wc
from sweep.papers.report import declared
from sweep.space import Plan
from sweep.specs import load_device

CLOCKS = tuple(range(400, 1001, 100))
SERVICE = 7.65  # cycles per sector on one SM at the printed efficiency: 9.0 x 85 %
KERNELS = {"transpose": "TR", "blackscholes": "BS", "vector_add": "VA", "matrixmul_global": "MMG",
           "matrixmul_shared": "MMS"}  # fmt: skip


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's memory measurements and the predicted scaling with both clocks."""
    device: Any = load_device("gtx_980").model_parameters["wang_chu"]
    slope, intercept = (float(device[f"dm_lat_{k}_cycles"]) for k in ("slope", "intercept"))
    latency = np.array([wc.dm_lat_fit(slope, 400.0 / mhz, intercept) for mhz in CLOCKS])
    cycles = {int(mhz): float(value) for mhz, value in device["dm_del_table"]}
    delay = np.array([cycles[mhz] for mhz in CLOCKS])
    yield ("table_2", latency)
    yield ("table_3", [*delay, *(100 * SERVICE / delay)])
    mhz = np.array(CLOCKS, float)
    printed = [
        float(words[2]) for words in declared("wang_chu_2017")["tables"]["table_2"]["quantities"]
    ]
    latencies = {
        "printed (Table II)": (mhz, np.array(printed)),
        "equation (4)": (mhz, latency),
        "as (5a) scales it": (mhz, wc.dm_lat_fit(slope, 1.0, intercept) * 400.0 / mhz),
    }
    delays = {"dm_del (Table III)": (mhz, delay)}
    yield ("tables_2_3", {"latency": latencies, "service time": delays})
    yield from _speedups()


def _speedups() -> Iterator[tuple[Any, ...]]:
    """Yield Figure 2: speed-up over one clock with the other at 400 and 1000 MHz."""
    plan = Plan(tuple(KERNELS), ("gtx_980",), ("wang_chu",), precision="float64",
                axes={"core_clock": CLOCKS, "memory_clock": CLOCKS},
                outputs=("execution_time",))  # fmt: skip
    tree = evaluate(plan)
    panels: dict[str, dict[str, Any]] = {}
    rows = []
    for kernel, short in KERNELS.items():
        times: Any = tree[kernel]["execution_time"].isel(model=0, device=0)
        free = [d for d in times.dims if d not in ("core_clock", "memory_clock")]
        best = times.min(free).compute()
        for moving, fixed in (("memory", "core"), ("core", "memory")):
            for mhz in (400, 1000):
                line = best.sel({f"{fixed}_clock": mhz})
                gain = (line.isel({f"{moving}_clock": 0}) / line).values
                title = f"{fixed} clock at {mhz} MHz, {moving} clock moving"
                panels.setdefault(title, {})[short] = (np.array(CLOCKS, float), gain)
                rows.append([short, f"{moving} clock", mhz, float(gain[-1])])
    yield ("figure_2", rows)
    yield ("figure_2", panels)

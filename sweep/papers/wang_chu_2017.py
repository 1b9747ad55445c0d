"""Wang & Chu 2017: Tables II and III, equation (4), and the scaling of Figure 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sweep.evaluation.planned import evaluate
from sweep.models import wang_chu_2017 as wc
from sweep.papers.report import declared, workload
from sweep.space import Plan
from sweep.specs import load_device

CLOCKS = tuple(range(400, 1001, 100))
LEAST_GAIN = 1.5  # of 2.5 times the clock, in Figure 2's caption
KERNELS = {"transpose": "TR", "blackscholes": "BS", "vector_add": "VA", "matrixmul_global": "MMG",
           "matrixmul_shared": "MMS"}  # fmt: skip


def _of_gtx_980() -> Any:
    return load_device("gtx_980_paper").model_parameters["wang_chu"]


def _table_2() -> list[float]:
    """Return the DRAM latencies of (4)."""
    core, device = declared("wang_chu_2017")["inputs"]["core_MHz"], _of_gtx_980()
    slope, intercept = (float(device[f"dm_lat_{k}_cycles"]) for k in ("slope", "intercept"))
    return [wc.dm_lat_fit(slope, core / mhz, intercept) for mhz in CLOCKS]


def _table_3() -> list[float]:
    """Return the service times, and the efficiencies that one of them implies."""
    given = declared("wang_chu_2017")["inputs"]
    cycles = {int(mhz): float(value) for mhz, value in _of_gtx_980()["dm_del_table"]}
    service = cycles[given["efficiency_at_MHz"]] * given["efficiency_percent"]
    delay = [cycles[mhz] for mhz in CLOCKS]
    return [*delay, *(service / each for each in delay)]


def _l2() -> list[float]:
    """Return the L2 hit rate of MatMul(G)."""
    product = workload("matrixmul_global", "gtx_980_paper", "wang_chu", block_x=32, block_y=32)
    return [100.0 * product.l2_hit_rate.item()]


NUMBERS = {"table_2": _table_2, "table_3": _table_3, "l2": _l2}
"""What stands beside printed numbers, by its table."""


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's memory measurements and the predicted scaling with both clocks."""
    latency, delay = np.array(_table_2()), np.array(_table_3()[: len(CLOCKS)])
    mhz = np.array(CLOCKS, float)
    printed = [
        float(row[3]) for row in declared("wang_chu_2017")["tables"]["table_2"]["quantities"]
    ]
    latencies = {
        "printed (Table II)": (mhz, np.array(printed)),
        "equation (4)": (mhz, latency),
        "as (5a) scales it": (mhz, latency[0] * mhz[0] / mhz),
    }
    delays = {"dm_del (Table III)": (mhz, delay)}
    words = {
        "scaled": f"{latency[0] * mhz[0] / mhz[-1]:.0f}",
        "l2": f"{_of_gtx_980()['l2_lat_cycles']:g}",
    }
    yield ("tables_2_3", {"latency": latencies, "service time": delays}, (), words)
    yield from _speedups()


def _speedups() -> Iterator[tuple[Any, ...]]:
    """Yield Figure 2: speed-up over one clock with the other at 400 and 1000 MHz."""
    plan = Plan(tuple(KERNELS), ("gtx_980_paper",), ("wang_chu",), precision="float64",
                axes={"core_clock": CLOCKS, "memory_clock": CLOCKS},
                outputs=("execution_time",))  # fmt: skip
    tree = evaluate(plan)
    panels: dict[str, dict[str, Any]] = {}
    rows: list[Any] = []
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
    gaining = {
        moving: [short for short, clock, other, gain in rows
                 if (clock, other) == (f"{moving} clock", 1000) and gain >= LEAST_GAIN]
        for moving in ("memory", "core")
    }  # fmt: skip
    words = {moving: ", ".join(names) or "none" for moving, names in gaining.items()}
    yield ("figure_2", panels, (), words)

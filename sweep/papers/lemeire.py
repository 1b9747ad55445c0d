"""Lemeire et al. 2016: Tables II and III, Figures 3, 5 and 7, the occupancy roofline."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.models import get_model
from sweep.models import lemeire_2016 as le
from sweep.papers.report import Figure, Quantity, Reproduction, Table
from sweep.plot import line_plot
from sweep.specs import load_device

__all__ = ["build"]

GENERATIONS = ("kepler", "fermi", "tesla", "southern_islands", "northern_islands")
# Table III, Quadro K620: Gop/s at ILP 1, 2, 4
PERFORMANCE = {"sp": ("249", "363", "388"), "int": ("125", "130", "130"), "sf": ("27", "27", "27")}
RIDGES = {"sp": "1536", "int": "1536", "sf": "512"}
LOWER_BOUND = "the forward ridge is a lower bound of the measured one"


def build() -> Reproduction:
    """Return the tables and figures that follow from the printed latencies."""
    model = get_model("lemeire")
    k620 = load_device("quadro_k620")
    given: Any = k620.model_parameters["lemeire"]
    found = Reproduction(
        "lemeire_2016",
        "Lemeire, Cornelis & Segers 2016",
        model.reference,
        remarks=[
            "Performance follows from the issue latency alone, at full occupancy; the paper prints "
            "latencies to two digits.",
            "361.2 Gop/s for the GT 640 does not follow from 2 x 192 x 900 MHz (345.6); the "
            "printed 691 GFLOP/s does.",
        ],
    )
    clock, n_cu = k620.values["clocks.core_nominal"], k620.values["chip.sm_count"]
    latency = {(row[0], int(row[1])): (float(row[2]), float(row[3])) for row in given["latencies"]}
    rows = []
    for kind, printed in PERFORMANCE.items():
        for ilp, value in zip((1, 2, 4), printed, strict=True):
            issue, _ = latency[kind, ilp]
            rate = le.throughput(clock, issue) * 32 * n_cu / 1e9
            rows.append(Quantity(f"{kind}, ILP {ilp}", "Gop/s", rate, value,
                                 "from lambda, printed to two digits"))  # fmt: skip
    for kind, value in RIDGES.items():
        issue, completion = latency[kind, 1]
        rows.append(Quantity(f"ridge point of {kind}, ILP 1", "work items",
                             le.ridge_point(completion, issue, 32.0), value,
                             LOWER_BOUND))  # fmt: skip
    found.tables.append(Table("table_3", "Table III: Quadro K620", rows))
    found.tables.append(_run_table())
    found.tables.append(_table_2())
    found.figures += [_roofline(), _figure_3(latency), _figure_5(), _figure_7(given)]
    return found


def _run_table() -> Table:
    rows = [
        Quantity("peak of the GT 640, multiply-add (1)", "GFLOP/s",
                 2 * le.peak(2.0, 192.0, 900e6) / 1e9, "691"),
        Quantity("peak of the GT 640 (1)", "Gop/s", le.peak(2.0, 192.0, 900e6) / 1e9, "361.2",
                 "LE-1: not a consequence of the printed clock and elements"),
        Quantity("CPMR at twice the constant cache (6)", "cycle",
                 le.cpmr(48.0, 90.6, 8192.0, 16384.0)),
        Quantity("floor of lambda, Tesla", "cycle", 32 / 8, "4"),
    ]  # fmt: skip
    return Table("equations", "Equations (1) and (6)", rows)


def _rows_of(generation: str) -> dict[str, tuple[float, float]]:
    rows: Any = load_device(f"lemeire_{generation}").model_parameters["lemeire"]["latencies"]
    return {row[0]: (float(row[2]), float(row[3])) for row in rows}


def _table_2() -> Table:
    rows = []
    for generation in GENERATIONS:
        for kind, (issue, completion) in _rows_of(generation).items():
            ridge = le.ridge_point(completion, issue, 32.0)
            rows.append([generation, kind.upper(), completion, issue, ridge])
    columns = ("generation", "type", "Lambda [cycle]", "lambda [cycle]",
               "ridge point [work items a compute unit]")  # fmt: skip
    return Table("table_2", "Table II, with the ridge points that follow", rows, columns)


def _roofline() -> Figure:
    """Plot the occupancy roofline: throughput over concurrent warps for every generation."""
    warps = np.arange(1.0, 65.0)
    panels = []
    for kind in ("sp", "dp", "sf"):
        curves = {}
        for generation in GENERATIONS:
            rows = _rows_of(generation)
            if kind in rows:
                issue, completion = rows[kind]
                cpi = np.array([le.cpi_warp_at(completion, w, issue) for w in warps])
                curves[generation.replace("_", " ")] = (warps, 1.0 / cpi)
        panels.append((kind.upper(), curves))
    return Figure(
        "occupancy_roofline",
        "Occupancy roofline of Table II's generations: throughput rises with the concurrent warps "
        "until the issue latency limits it.",
        line_plot(panels, "concurrent warps [1]", "warp instructions per cycle [1]", columns=3),
    )


def _figure_3(latency: dict[Any, tuple[float, float]]) -> Figure:
    """Plot CPI over concurrency for 1, 2 and 4 independent instructions."""
    items = np.arange(1.0, 65.0) * 32
    panels = []
    for kind in ("sp", "int", "sf"):
        curves = {}
        for ilp in (1, 2, 4):
            issue, completion = latency[kind, ilp]
            cpi = [le.cpi_warp_at(completion, w / 32, issue) for w in items]
            curves[f"ILP {ilp}"] = (items, np.array(cpi))
        panels.append((f"{kind.upper()}, Quadro K620", curves))
    return Figure(
        "figure_3",
        "As Figure 3, for the Quadro K620: cycles per instruction over the concurrent work items. "
        "Independent instructions help while there are few warps and hardly in the limit.",
        line_plot(panels, "concurrent work items [1]", "CPI of a warp [cycle]", columns=3),
    )


def _figure_5() -> Figure:
    """Plot performance under divergence with 4 branches."""
    conv = np.arange(1.0, 129.0)
    share = [np.mean([1.0 / le.branches_issued(c, 4.0, 32.0, w) for w in np.arange(64.0)])
             for c in conv]  # fmt: skip
    curves = {"4 branches": (conv, np.array(share))}
    return Figure(
        "figure_5",
        "Figure 5: performance of a kernel with 4 branches, relative to full speed, over the "
        "consecutive work items that take one branch. Full speed at multiples of the warp size.",
        line_plot([("divergence", curves)], "consecutive work items of a branch [1]",
                  "relative performance [1]", columns=1),
    )  # fmt: skip


def _figure_7(given: Any) -> Figure:
    """Plot cycles per request of the random walk over constant memory."""
    size = np.geomspace(1024, 65536, 200)
    first = float(given["constant_memory"][0][2])
    second = float(given["constant_miss_latency_cycles"])
    cache = 1024.0 * float(given["constant_cache_KiB"])
    walk = np.array([le.cpmr(first, second, cache, s) for s in size])
    curves = {"equation (6)": (size / 1024, walk)}
    return Figure(
        "figure_7",
        "Figure 7: the random walk over constant memory of the Quadro K620, a rounded step at the "
        "size of its cache.",
        line_plot([("constant memory", curves)], "array size [KiB]", "cycles per request [cycle]",
                  columns=1),
    )  # fmt: skip

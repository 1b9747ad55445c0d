"""Lemeire et al. 2016: Tables II and III, Figures 3, 5 and 7, the occupancy roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sweep.models import lemeire_2016 as le
from sweep.specs import load_device

GENERATIONS = ("kepler", "fermi", "tesla", "southern_islands", "northern_islands")
KINDS = ("sp", "int", "sf")
ILP = (1, 2, 4)  # independent instructions


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the tables and figures that follow from the printed latencies."""
    k620 = load_device("quadro_k620")
    own: Any = k620.model_parameters["lemeire"]
    clock, n_cu = k620.values["clocks.core_nominal"], k620.values["chip.sm_count"]
    latency = {(row[0], int(row[1])): (float(row[2]), float(row[3])) for row in own["latencies"]}
    rates = [
        le.throughput(clock, latency[kind, ilp][0]) * 32 * n_cu / 1e9
        for kind in KINDS for ilp in ILP
    ]  # fmt: skip
    ridges = [le.ridge_point(completion, issue, 32.0)
              for issue, completion in (latency[kind, 1] for kind in KINDS)]  # fmt: skip
    yield ("table_3", [*rates, *ridges])
    yield ("equations", [
        2 * le.peak(2.0, 192.0, 900e6) / 1e9,
        le.peak(2.0, 192.0, 900e6) / 1e9,
        le.cpmr(48.0, 90.6, 8192.0, 16384.0),
        32 / 8,
    ])  # fmt: skip
    yield ("table_2", [
        [generation, kind.upper(), completion, issue, le.ridge_point(completion, issue, 32.0)]
        for generation in GENERATIONS
        for kind, (issue, completion) in _latencies(generation).items()
    ])  # fmt: skip
    yield ("occupancy_roofline", _roofline())
    warps = np.arange(1.0, 65.0)
    curves = {
        f"{kind.upper()}, Quadro K620": {
            f"ILP {ilp}": (32 * warps, _cpi(warps, *latency[kind, ilp])) for ilp in ILP
        }
        for kind in KINDS
    }
    yield ("figure_3", curves)
    yield ("figure_5", {"divergence": {"4 branches": _divergence()}})
    size = np.geomspace(1024, 65536, 200)
    first, second = own["constant_memory"][0][2], own["constant_miss_latency_cycles"]
    cache = 1024.0 * float(own["constant_cache_KiB"])
    walk = np.array([le.cpmr(float(first), float(second), cache, s) for s in size])
    yield ("figure_7", {"constant memory": {"equation (6)": (size / 1024, walk)}})


def _latencies(generation: str) -> dict[str, tuple[float, float]]:
    """Return the issue and completion latency of each type of instruction."""
    rows: Any = load_device(f"lemeire_{generation}").model_parameters["lemeire"]["latencies"]
    return {row[0]: (float(row[2]), float(row[3])) for row in rows}


def _cpi(warps: Any, issue: float, completion: float) -> Any:
    """Return the cycles per instruction of a warp over the concurrent warps."""
    return np.array([le.cpi_warp_at(completion, w, issue) for w in warps])


def _roofline() -> Mapping[str, Any]:
    """Return the occupancy roofline: throughput over concurrent warps for every generation."""
    warps = np.arange(1.0, 65.0)
    rows = {generation.replace("_", " "): _latencies(generation) for generation in GENERATIONS}
    return {
        kind.upper(): {
            name: (warps, 1.0 / _cpi(warps, *own[kind]))
            for name, own in rows.items()
            if kind in own
        }
        for kind in ("sp", "dp", "sf")
    }


def _divergence() -> tuple[Any, Any]:
    """Return performance with 4 branches over the work items that take one branch in a row."""
    conv = np.arange(1.0, 129.0)
    share = [np.mean([1.0 / le.branches_issued(c, 4.0, 32.0, w) for w in np.arange(64.0)])
             for c in conv]  # fmt: skip
    return conv, np.array(share)

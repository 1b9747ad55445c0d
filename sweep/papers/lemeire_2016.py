"""Lemeire et al. 2016: Tables II and III, Figures 3, 5 and 7, the occupancy roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sweep.models import lemeire_2016 as le
from sweep.papers.report import declared
from sweep.specs import load_device

GENERATIONS = ("kepler", "fermi", "tesla", "southern_islands", "northern_islands")
KINDS = ("sp", "int", "sf")
ILP = (1, 2, 4)  # independent instructions
RIDGES = (("sp", 1), *((kind, ilp) for kind in ("int", "sf") for ilp in ILP))  # as printed
CHIP = ("clocks.core_nominal", "chip.sm_count", "chip.warp_size")


def _chip(device: str) -> tuple[Any, tuple[float, ...]]:
    """Return a device's own parameters, and its clock, compute units and warp size."""
    found = load_device(device)
    return found.model_parameters["lemeire"], tuple(found.values[name] for name in CHIP)


def _table_3() -> list[float]:
    """Return rates from the issue latencies, and ridge points."""
    own, (clock, n_cu, warp) = _chip("quadro_k620")
    latency = _by_ilp(own)
    rates = [
        le.throughput(clock, latency[kind, ilp][0]) * warp * n_cu / 1e9
        for kind in KINDS
        for ilp in ILP
    ]
    return [*rates, *(le.ridge_point(latency[k][1], latency[k][0], warp) for k in RIDGES)]


def _memory() -> list[float]:
    """Return the bandwidths that the issue latencies of requests imply."""
    own, (clock, _, warp) = _chip("quadro_k620")
    rows = (row[:2] for kind in ("global", "local", "constant") for row in own[f"{kind}_memory"])
    return [
        le.bandwidth(le.bytes_comm(warp, 1.0, float(size)), float(issue) / clock) / 1e9
        for size, issue in rows
    ]


def _equations() -> list[float]:
    """Return peaks of the GT 640, (6) beyond the cache, and what a warp takes by the elements."""
    own, (clock, n_cu, _) = _chip("gt_640")
    peak = le.peak(n_cu, float(dict(own["processing_elements"])["sp"]), clock) / 1e9
    first, second, cache = _constant(_chip("quadro_k620")[0])
    array = cache * declared("lemeire_2016")["inputs"]["array_over_cache"]
    tesla, kepler = (load_device(f"lemeire_{name}").values for name in ("tesla", "kepler"))
    return [
        2 * peak,
        peak,
        le.cpmr(first, second, cache, array),
        tesla["chip.warp_size"] / tesla["chip.lanes_per_sm"],
        kepler["chip.lanes_per_sm"] / kepler["chip.warp_size"],
    ]


NUMBERS = {"table_3": _table_3, "memory": _memory, "equations": _equations}
"""What stands beside printed numbers, by its table."""


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the tables and figures that follow from the printed latencies."""
    own, _ = _chip("quadro_k620")
    latency = _by_ilp(own)
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
    words = {
        name: ", ".join(f"{ends[0][1][at] / ends[-1][1][at]:.2g} times" for ends in
                        (list(of.values()) for of in curves.values()))
        for name, at in (("one", 0), ("full", -1))
    }  # fmt: skip
    yield ("figure_3", curves, (), words)
    conv, share = _divergence()
    words = {"full": ", ".join(f"{c:g}" for c in conv[share == 1.0])}
    yield ("figure_5", {"divergence": {"4 branches": (conv, share)}}, (), words)
    size = np.geomspace(1024, 65536, 200)
    first, second, cache = _constant(own)
    walk = np.array([le.cpmr(first, second, cache, s) for s in size])
    words = {"first": f"{first:g}", "second": f"{second:g}", "cache": f"{cache / 1024:g}"}
    yield ("figure_7", {"constant memory": {"equation (6)": (size / 1024, walk)}}, (), words)


def _by_ilp(own: Any) -> dict[tuple[str, int], tuple[float, float]]:
    """Return issue and completion latency by type and independent instructions."""
    return {(row[0], int(row[1])): (float(row[2]), float(row[3])) for row in own["latencies"]}


def _constant(own: Any) -> tuple[float, float, float]:
    """Return the latencies of constant memory, in its cache and beyond, and the cache's bytes."""
    within, beyond = own["constant_memory"][0][2], own["constant_miss_latency_cycles"]
    return float(within), float(beyond), 1024.0 * float(own["constant_cache_KiB"])


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

"""Luo & Suda 2011: CPD and MPD on the GTX 260, Tables 1 and 3, and the shape of Figure 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sweep.models import get_model
from sweep.models import luo_suda_2011 as ls
from sweep.papers.report import workload
from sweep.specs import load_device

# Table 3: computation proportion, which the paper prints in %
BENCHMARKS = {"svm": 0.2623, "matrix": 0.282, "linear": 0.4584, "sepia": 0.5297,
              "blackscholes-7": 0.7662, "blackscholes": 0.8697}  # fmt: skip
WARPS = np.arange(1.0, 33.0)


# The kernels with Hong & Kim's counts of the same benchmarks
COUNTED = ("svm", "linear", "sepia", "blackscholes_merge")


def _proportions() -> list[float]:
    """Return P of benchmarks from the counts of Hong & Kim's kernel files."""
    model = get_model("luo_suda")
    works = [workload(kernel, "gtx_260", "luo_suda") for kernel in COUNTED]
    return [100.0 * np.asarray(model.prepare(work, "corrected")["p"]).item() for work in works]


def _table_2() -> list[float]:
    """Return the peak of the GTX 260: three operations a processor and clock."""
    chip = load_device("gtx_260").values
    processors = chip["chip.sm_count"] * chip["chip.lanes_per_sm"]
    return [3.0 * processors * chip["clocks.core_nominal"] / 1e9]


NUMBERS = {"table_3": lambda: [100.0 * p for p in BENCHMARKS.values()],
           "proportions": _proportions, "table_2": _table_2}  # fmt: skip
"""What stands beside printed numbers, by its table."""


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's parallel degrees and predictions over the number of warps."""
    device: Any = load_device("gtx_260").model_parameters["luo_suda"]
    a, b, c, d, m = (float(device[k]) for k in ("a", "b", "c", "d", "m"))
    yield ("table_1", [[name, cycles] for name, cycles in device["instruction_cost"]])
    yield ("cpd", [
        [name, p, n, ls.cpd1(c, p, n, b, a), ls.cpd2(ls.n(d, p, c), m, n, a)]
        for name, p in BENCHMARKS.items() for n in (8.0, 16.0, 32.0)
    ])  # fmt: skip
    warp_bw = ls.warp_bw(32.0, 4.0, 2.0, float(device["t_mem_cycles"]) / 1.242e9)
    degrees = {
        variant: (WARPS, np.array([mpd(n, 111.9e9, 24.0, warp_bw) for n in WARPS]))
        for variant, mpd in (("corrected", ls.mpd), ("printed", ls.mpd_printed))
    }
    zero = WARPS[degrees["printed"][1] == 0].min()
    words = {"zero": f"{zero:g}", "settled": f"{degrees['corrected'][1][-1]:g}"}
    yield ("mpd", {"MPD": degrees}, (), words)
    times = {
        name: {v: (WARPS, _times(p, v, device)) for v in ("corrected", "printed")}
        for name, p in BENCHMARKS.items()
    }
    ends = [of["corrected"][1][-1] for of in times.values()]
    missing = [name for name, of in times.items() if np.isnan(of["printed"][1]).any()]
    words = {
        "falls": f"{min(ends):.2f} to {max(ends):.2f}",
        "missing": ", ".join(missing) or "none",
    }
    yield ("figure_8", times, (), words)


def _times(p: float, variant: str, device: Any) -> np.ndarray:
    """Return time over warps of a kernel of equal periods with proportion p, NaN where none.

    The warps share the same work; times are relative to one warp.
    """
    model = get_model("luo_suda")
    memory = float(device["t_mem_cycles"])
    computation = p / (1.0 - p) * memory
    periods = 3200.0
    times = []
    for n in WARPS:
        each = periods / n
        values = {
            "n_act": n, "n_sm": 24.0, "active_sm": 24.0, "active_blocks_per_sm": 1.0,
            "blocks": 24.0, "warps_per_block": n, "instructions": 1.0, "warp_bytes": 128.0, "p": p,
            **{k: float(device[k]) for k in "abcdm"}, "n_thread": 32.0,
            "c_i": (computation, computation), "c_previous": (0.0, computation),
            "d_mem": (4.0, 4.0), "n_trans": (2.0, 2.0), "weight": (1.0, max(each - 1.0, 0.0)),
            "core_freq": 1.242e9, "gpu_bw": 111.9e9, "t_mem_cycles": memory,
            "m_i": (memory, memory), "m_previous": (0.0, memory),
            "moved_previous": (0.0, 128.0), "moved_last": 128.0,
        }  # fmt: skip
        cycles = model.evaluate(variant, values)["execution_cycles"]
        times.append(cycles if 0 < cycles < np.inf else np.nan)
    return np.array(times) / times[0]

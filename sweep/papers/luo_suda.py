"""Luo & Suda 2011: CPD and MPD on the GTX 260, Tables 1 and 3, and the shape of Figure 8."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.models import get_model
from sweep.models import luo_suda_2011 as ls
from sweep.papers.report import Figure, Quantity, Reproduction, Table
from sweep.plot import line_plot
from sweep.specs import load_device

__all__ = ["build"]

# Table 3: computation proportion; Table 4: arithmetic mean of the accuracy [%]
BENCHMARKS = {"svm": (0.2623, "95.6"), "matrix": (0.282, "90.7"), "linear": (0.4584, "91"),
              "sepia": (0.5297, "93.9"), "blackscholes-7": (0.7662, "82.6"),
              "blackscholes": (0.8697, "88.4")}  # fmt: skip
WARPS = np.arange(1.0, 33.0)


def build() -> Reproduction:
    """Return the paper's parallel degrees and predictions over the number of warps."""
    model = get_model("luo_suda")
    device = load_device("gtx_260")
    given: Any = device.model_parameters["luo_suda"]
    a, b, c, d, m = (float(given[k]) for k in ("a", "b", "c", "d", "m"))
    found = Reproduction(
        "luo_suda_2011",
        "Luo & Suda 2011",
        model.reference,
        remarks=[
            "The measured times of Figure 8 are printed as pictures only, so Table 4's accuracies "
            "cannot be computed again; they are listed for reference.",
            "The paper prints no instruction sequences of its benchmarks: the curves below repeat "
            "one period whose computation cost follows from the printed proportion P.",
        ],
    )
    rows = [Quantity(f"P of {name}, accuracy printed {acc} %", "1", p, str(p))
            for name, (p, acc) in BENCHMARKS.items()]  # fmt: skip
    found.tables.append(Table("table_3", "Tables 3 and 4: proportions and printed accuracy", rows))
    costs = [[name, cycles] for name, cycles in given["instruction_cost"]]
    found.tables.append(
        Table("table_1", "Table 1: cost of PTX instructions [cycle]", costs,
              ("instruction", "cycles"))
    )  # fmt: skip
    degrees = [[name, p, n, ls.cpd1(c, p, n, b, a), ls.cpd2(ls.n(d, p, c), m, n, a)]
               for name, (p, _) in BENCHMARKS.items() for n in (8.0, 16.0, 32.0)]  # fmt: skip
    found.tables.append(
        Table("cpd", "CPD1 (3) and CPD2 (4) as printed", degrees,
              ("benchmark", "P", "warps", "CPD1", "CPD2"))
    )  # fmt: skip
    warp_bw = ls.warp_bw(32.0, 4.0, 2.0, float(given["t_mem_cycles"]) / 1.242e9)
    curves = {
        "printed": (WARPS, np.array([ls.mpd_printed(n, 111.9e9, 24.0, warp_bw) for n in WARPS])),
        "corrected": (WARPS, np.array([ls.mpd(n, 111.9e9, 24.0, warp_bw) for n in WARPS])),
    }
    found.figures.append(
        Figure("mpd", "MPD (2) of a coalesced load on the GTX 260: as printed it is 0 from 12 "
               "warps on, though the paper reports 32; corrected it settles at 11.",
               line_plot([("MPD", curves)], "active warps [1]", "MPD [1]", columns=1))
    )  # fmt: skip
    found.figures.append(_figure_8(given))
    return found


def _figure_8(given: Any) -> Figure:
    """Predicted time over the number of warps, the same work shared among them."""
    panels = [(name, {v: (WARPS, _times(p, v, given)) for v in ("corrected", "printed")})
              for name, (p, _) in BENCHMARKS.items()]  # fmt: skip
    return Figure(
        "figure_8",
        "Figure 8: predicted time of a fixed amount of work over the warps that share it, relative "
        "to one warp. It falls until the memory bandwidth is used up; as printed there is no time "
        "from 12 warps on where a period waits for memory.",
        line_plot(panels, "active warps [1]", "relative time [1]", columns=3),
    )


def _times(p: float, variant: str, given: Any) -> np.ndarray:
    """Return time over warps of a kernel of equal periods with proportion p, NaN where none."""
    model = get_model("luo_suda")
    memory = float(given["t_mem_cycles"])
    computation = p / (1.0 - p) * memory
    periods = 3200.0
    times = []
    for n in WARPS:
        each = periods / n
        values = {
            "n_act": n, "n_sm": 24.0, "active_sm": 24.0, "active_blocks_per_sm": 1.0,
            "blocks": 24.0, "warps_per_block": n, "instructions": 1.0, "warp_bytes": 128.0, "p": p,
            **{k: float(given[k]) for k in "abcdm"}, "n_thread": 32.0,
            "c_i": (computation, computation), "c_previous": (0.0, computation),
            "d_mem": (4.0, 4.0), "n_trans": (2.0, 2.0), "weight": (1.0, max(each - 1.0, 0.0)),
            "core_freq": 1.242e9, "gpu_bw": 111.9e9, "t_mem_cycles": memory,
            "m_i": (memory, memory), "m_previous": (0.0, memory),
            "moved_previous": (0.0, 128.0), "moved_last": 128.0,
        }  # fmt: skip
        cycles = model.evaluate(variant, values)["execution_cycles"]
        times.append(cycles if 0 < cycles < np.inf else np.nan)
    return np.array(times) / times[0]

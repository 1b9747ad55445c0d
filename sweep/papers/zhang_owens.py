"""Zhang & Owens 2011: peaks, Section 5.1's sustained rates, and the three case studies."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.evaluation.launch import build_launch, build_workload
from sweep.models import zhang_owens_2011 as zo
from sweep.models.workload import Workload
from sweep.models.zhang_owens_causes import breakdown
from sweep.papers.report import Figure, Quantity, Reproduction, Table
from sweep.plot import line_plot
from sweep.space import Plan, resolve
from sweep.specs import load_device, load_kernel

__all__ = ["build"]

TILES = (8, 16, 32)
COMPONENTS = zo.COMPONENTS


def build() -> Reproduction:
    """Return the paper's rates and the component times of its case studies."""
    found = Reproduction(
        "zhang_owens_2011",
        "Zhang & Owens 2011",
        zo.MODEL.reference,
        remarks=[
            "Micro-benchmark curves (Figures 2 and 3) are printed as pictures: throughput is "
            "linear between the values that the text gives at 6, 16 and 32 warps.",
            "Instruction counts of the case studies are derived from the code that the paper "
            "describes; measured times are not reproduced.",
        ],
    )
    found.tables += [_peaks(), _matmul_table(), _reduction_table(), _spmv_table()]
    found.figures += [_rates(), _figure_4b(), _figure_6()]
    return found


def _workload(kernel: str, **parameters: float) -> Workload:
    """Return one configuration of a shipped kernel on the GTX 285."""
    first = {name: values[0] for name, values in load_kernel(kernel).parameters.items()}
    axes = {name: (value,) for name, value in (first | parameters).items()}
    plan = Plan((kernel,), ("gtx_285",), ("zhang_owens",), kernel_axes={kernel: axes})
    (space,) = resolve(plan).kernels
    launch = build_launch(space, space.grid.whole)
    return build_workload(launch, zo.MODEL, {})


def _inputs(work: Workload) -> dict[str, Any]:
    return dict(zo.MODEL.prepare(work, "corrected"))


def _results(work: Workload) -> dict[str, float]:
    """Return the model's results for one configuration, with its time in seconds."""
    inputs = _inputs(work)
    found = zo.MODEL.evaluate("corrected", inputs)
    found["time"] = found["execution_cycles"] / float(np.ravel(inputs["core_clock"])[0])
    return found


def _bottleneck(result: dict[str, float], name: str = "bottleneck") -> str:
    return zo.BOTTLENECK.meaning(int(result[name])).replace("_", " ")


def _peaks() -> Table:
    peak = zo.peak_instruction(8.0, 1.48e9, 30.0, 32.0)
    rows = [
        Quantity("peak of type II instructions", "Ginst/s", peak / 1e9, "11.1"),
        Quantity("peak of multiply-adds", "GFLOP/s", zo.peak_flops(peak, 32.0) / 1e9, "710.4"),
        Quantity("peak of shared memory", "GB/s", zo.peak_shared(8.0, 30.0, 1.48e9) / 1e9,
                 "1420.8"),
        Quantity("peak of global memory", "GB/s", zo.peak_global(2.484e9, 512.0) / 1e9, "160",
                 "2.484 GHz x 512 bit / 8 is 158.98, which the paper rounds to 160"),
    ]  # fmt: skip
    device: Any = load_device("gtx_285").model_parameters["zhang_owens"]
    instruction, shared = device["instruction_throughput"], device["shared_bandwidth"]
    printed = {6: ("8.39", "870"), 16: ("9.05", "1112"), 32: ("9.33", "1165")}
    for warps, (rate, bandwidth) in printed.items():
        at = np.array([float(warps)])
        rows.append(Quantity(f"instruction throughput at {warps} warps", "Ginst/s",
                             float(zo.sustained(instruction, at)[0]), rate))  # fmt: skip
        rows.append(Quantity(f"shared bandwidth at {warps} warps", "GB/s",
                             float(zo.sustained(shared, at)[0]), bandwidth))  # fmt: skip
    return Table("rates", "Sections 4 and 5.1: peaks and sustained rates of the GTX 285", rows)


def _loads(tile: int) -> float:
    work = _workload("dense_matmul", tile=tile)
    count = sum(a.count.item() for a in work.global_accesses if a.name in ("a", "b"))
    return float(count * work.blocks.item() * work.occupancy.warps_per_block.item())


def _matmul_table() -> Table:
    loads = {tile: _loads(tile) for tile in TILES}
    work = {tile: _workload("dense_matmul", tile=tile) for tile in TILES}
    inputs = _inputs(work[16])
    warps = float((inputs["blocks"] * inputs["warps_per_block"]).item())
    instructions = float(np.ravel(inputs["n_ii"][0])[0]) * warps
    rows = [
        Quantity(f"active warps, tile {tile}", "1",
                 work[tile].occupancy.active_warps_per_sm.item(), printed)
        for tile, printed in zip(TILES, ("16", "16", "6"), strict=True)
    ]  # fmt: skip
    rows += [
        Quantity("fall of global transactions, tile 8 to 16", "%",
                 100 * (1 - loads[16] / loads[8]), "45", "the counted loads fall by 4/9"),
        Quantity("fall of global transactions, tile 16 to 32", "%",
                 100 * (1 - loads[32] / loads[16]), "40"),
        Quantity("multiply-adds of all instructions, tile 16", "%",
                 100 * 1024**3 / 32 / instructions, "80"),
        Quantity("instruction throughput of the peak, 16 warps", "%",
                 100 * 9.05e9 / zo.peak_instruction(8.0, 1.48e9, 30.0, 32.0), "81",
                 "9.05 of 11.1 is 81.5"),
    ]  # fmt: skip
    return Table("matrix_multiply", "Section 5.1: dense matrix multiply, 1024 x 1024", rows)


def _reduction_table() -> Table:
    work = {padding: _workload("cyclic_reduction", padding=padding) for padding in (0, 1)}
    degrees = {
        padding: [s.shared_accesses[0].degree.item() for s in w.stages[1:]]
        for padding, w in work.items()
    }
    printed = ("2", "4", "8", "16", "16", "8", "4", "2", "1")
    rows = [
        Quantity(f"bank conflicts of step {i}", "ways", degree, text)
        for i, (degree, text) in enumerate(zip(degrees[0], printed, strict=True), 1)
    ]
    rows += [
        Quantity(f"bank conflicts of step {i}, padded", "ways", degree, "1",
                 "ZO-2: one word in 16 leaves two-way conflicts" if degree > 1 else "")
        for i, degree in enumerate(degrees[1], 1)
    ]  # fmt: skip
    slow, fast = _results(work[0]), _results(work[1])
    rows.append(
        Quantity("speed-up without conflicts", "1", slow["time"] / fast["time"], "1.6",
                 "measured on both phases; this is the forward phase")
    )  # fmt: skip
    return Table("cyclic_reduction", "Section 5.2: cyclic reduction, 512 systems of 512", rows)


def _spmv_table() -> Table:
    entries = 39.0
    rows = []
    for size, printed in ((32, "6.69"), (16, "4.55"), (4, "4.0")):
        work = _workload("spmv_ell", block_size=128, transaction_bytes=size)
        moved = sum((a.count * a.moved_bytes).item() for a in work.global_accesses
                    if a.name.startswith("vector"))  # fmt: skip
        rows.append(Quantity(f"bytes of a vector entry, {size}-byte transactions", "B",
                             moved / work.lanes.item() / entries, printed))  # fmt: skip
    blocked = _results(_workload("spmv_blocked_ell", block_size=128))["time"]
    interleaved = _results(_workload("spmv_interleaved", block_size=128))["time"]
    gain = 100 * (blocked / interleaved - 1)
    rows.append(Quantity("gain by interleaving", "%", gain, "18"))
    return Table("spmv", "Section 5.3: sparse matrix-vector multiply (QCD)", rows)


def _rates() -> Figure:
    device: Any = load_device("gtx_285").model_parameters["zhang_owens"]
    warps = np.arange(0.0, 33.0)
    panels = [
        (title, {"GTX 285": (warps, zo.sustained(device[key], warps))})
        for title, key in (("type II, 1e9 warp instructions a second", "instruction_throughput"),
                           ("shared memory, GB/s", "shared_bandwidth"))
    ]  # fmt: skip
    caption = (
        "Figure 2: throughput over the warps on an SM, linear between the printed 6, 16 and 32 "
        "warps; the instruction pipeline is nearly full at 6, shared memory needs more."
    )
    return Figure("figure_2", caption, line_plot(panels, "warps on an SM [1]", "throughput"))


def _times(results: list[dict[str, float]]) -> dict[str, Any]:
    place = np.arange(len(results))
    return {
        name.replace("_", " "): (place, 1e3 * np.array([r[f"{name}_time"] for r in results]))
        for name in COMPONENTS
    }


def _figure_4b() -> Figure:
    results = [_results(_workload("dense_matmul", tile=tile)) for tile in TILES]
    marks = [f"{tile}x{tile}\n{_bottleneck(r)}" for tile, r in zip(TILES, results, strict=True)]
    picture = line_plot([("dense matrix multiply", _times(results))], "", "time of the component "
                        "[ms]", columns=1, marks=marks)  # fmt: skip
    return Figure(
        "figure_4b",
        "Figure 4b: component times of the dense matrix product. 16x16 is best; 32x32 has too few "
        "warps to use shared memory's bandwidth.",
        picture,
    )


def _figure_6() -> Figure:
    panels = []
    for padding, title in ((0, "with bank conflicts"), (1, "without (padded)")):
        work = _workload("cyclic_reduction", padding=padding)
        panels.append((title, _times(breakdown(work))))
    marks = [f"step {i}" for i in range(10)]
    return Figure(
        "figure_6",
        "Figure 6: component times of cyclic reduction, step by step. With conflicts shared memory "
        "binds from step 2 on; without them the instruction pipeline does.",
        line_plot(panels, "", "time of the component [ms]", marks=marks),
    )

"""Zhang & Owens 2011: peaks, Section 5.1's sustained rates, and the three case studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sweep.evaluation.launch import build_launch, build_workload
from sweep.models import zhang_owens_2011 as zo
from sweep.models.workload import Workload
from sweep.models.zhang_owens_causes import BOTTLENECK, CAUSES, breakdown
from sweep.space import Plan, resolve
from sweep.specs import load_device, load_kernel

TILES = (8, 16, 32)


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's rates and the component times of its case studies."""
    yield ("rates", _rates())
    products = [workload("dense_matmul", tile=tile) for tile in TILES]
    yield ("matrix_multiply", _products(products))
    reductions = [workload("cyclic_reduction", padding=padding) for padding in (0, 1)]
    yield ("cyclic_reduction", _reductions(reductions))
    yield ("spmv", _sparse_products())
    device: Any = load_device("gtx_285").model_parameters["zhang_owens"]
    warps = np.arange(0.0, 33.0)
    yield ("figure_2", {
        title: {"GTX 285": (warps, zo.sustained(device[key], warps))}
        for title, key in (("type II, 1e9 warp instructions a second", "instruction_throughput"),
                           ("shared memory, GB/s", "shared_bandwidth"))
    })  # fmt: skip
    results = [results_of(work) for work in products]
    words = [BOTTLENECK.meaning(int(r["bottleneck"])).replace("_", " ") for r in results]
    marks = [f"{tile}x{tile}\n{word}" for tile, word in zip(TILES, words, strict=True)]
    yield ("figure_4b", {"dense matrix multiply": _times(results)}, marks)
    titles = ("with bank conflicts", "without (padded)")
    panels = {t: _times(breakdown(work)) for t, work in zip(titles, reductions, strict=True)}
    yield ("figure_6", panels, [f"step {i}" for i in range(10)])


def workload(kernel: str, clocks: Mapping[str, Any] | None = None, **parameters: float) -> Workload:
    """Return one configuration of a shipped kernel on the GTX 285.

    Parameters
    ----------
    kernel : str
        Its name.
    clocks : mapping, optional
        Axes of the plan, one value each; by default the nominal clocks.
    **parameters : float
        Tuning parameters; the others have their first value.
    """
    first = {name: values[0] for name, values in load_kernel(kernel).parameters.items()}
    own = {name: (value,) for name, value in (first | parameters).items()}
    plan = Plan((kernel,), ("gtx_285",), ("zhang_owens",), axes=clocks or {},
                kernel_axes={kernel: own})  # fmt: skip
    (space,) = resolve(plan).kernels
    return build_workload(build_launch(space), zo.MODEL, {})


def results_of(work: Workload) -> dict[str, float]:
    """Return the model's results for one configuration, with its time in seconds."""
    inputs: Any = zo.MODEL.prepare(work, "corrected")
    found = zo.MODEL.evaluate("corrected", inputs)
    found["time"] = found["execution_cycles"] / float(np.ravel(inputs["core_clock"])[0])
    return found


def _rates() -> list[float]:
    """Return the peaks, and the sustained rates at 6, 16 and 32 warps."""
    peak = zo.peak_instruction(8.0, 1.48e9, 30.0, 32.0)
    device: Any = load_device("gtx_285").model_parameters["zhang_owens"]
    return [
        peak / 1e9,
        zo.peak_flops(peak, 32.0) / 1e9,
        zo.peak_shared(8.0, 30.0, 1.48e9) / 1e9,
        zo.peak_global(2.484e9, 512.0) / 1e9,
        *(zo.sustained(device[key], np.array(warps)) for warps in (6.0, 16.0, 32.0)
          for key in ("instruction_throughput", "shared_bandwidth")),
    ]  # fmt: skip


def _products(works: list[Workload]) -> list[float]:
    """Return the numbers of the dense matrix product, 1024 x 1024, over the tiles."""
    small, middle, large = (
        sum(a.count.item() for a in work.global_accesses if a.name in ("a", "b"))
        * work.blocks.item() * work.occupancy.warps_per_block.item()
        for work in works
    )  # fmt: skip
    inputs: Any = zo.MODEL.prepare(works[1], "corrected")
    warps = float((inputs["blocks"] * inputs["warps_per_block"]).item())
    instructions = float(np.ravel(inputs["n_ii"][0])[0]) * warps
    return [
        *(work.occupancy.active_warps_per_sm.item() for work in works),
        100 * (1 - middle / small),
        100 * (1 - large / middle),
        100 * 1024**3 / 32 / instructions,
        100 * 9.05e9 / zo.peak_instruction(8.0, 1.48e9, 30.0, 32.0),
    ]


def _reductions(works: list[Workload]) -> list[float]:
    """Return the conflicts of 512 cyclic reductions of 512, without and with padding."""
    degrees = [
        stage.shared_accesses[0].degree.item() for work in works for stage in work.stages[1:]
    ]
    slow, fast = (results_of(work)["time"] for work in works)
    return [*degrees, slow / fast]


def _sparse_products() -> list[float]:
    """Return the bytes of a vector entry of the QCD matrix, and the gain by interleaving."""
    entries = 39.0
    moved = []
    for size in (32, 16, 4):
        work = workload("spmv_ell", block_size=128, transaction_bytes=size)
        total = sum((a.count * a.moved_bytes).item() for a in work.global_accesses
                    if a.name.startswith("vector"))  # fmt: skip
        moved.append(total / work.lanes.item() / entries)
    blocked, interleaved = (
        results_of(workload(kernel, block_size=128))["time"]
        for kernel in ("spmv_blocked_ell", "spmv_interleaved")
    )
    return [*moved, 100 * (blocked / interleaved - 1)]


def _times(results: list[dict[str, float]]) -> dict[str, Any]:
    """Return the times of the components [ms] over the place of each result."""
    place = np.arange(len(results))
    return {
        name.replace("_", " "): (place, 1e3 * np.array([r[f"{name}_time"] for r in results]))
        for name in CAUSES
    }

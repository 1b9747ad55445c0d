"""Zhang & Owens 2011: peaks, Section 5.1's sustained rates, and the three case studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from sweep.hardware.affine_accesses import Affine, affine_transactions
from sweep.models import zhang_owens_2011 as zo
from sweep.models.workload import Workload
from sweep.models.zhang_owens_causes import BOTTLENECK, CAUSES, breakdown
from sweep.papers import report
from sweep.papers.report import declared
from sweep.specs import load_device

TILES = (8, 16, 32)
STEPS = range(1, 10)
# Figure 2: title and key in the device file
CURVES = {"type II instructions [1e9 warp instructions/s]": "instruction_throughput",
          "shared memory [GB/s]": "shared_bandwidth"}  # fmt: skip


def build() -> Iterator[tuple[Any, ...]]:
    """Yield the paper's rates and the component times of its case studies."""
    warps = np.arange(0.0, 33.0)
    curves = {key: zo.sustained(_of_gtx_285(key), warps) for key in CURVES.values()}
    panels = {title: {"GTX 285": (warps, curves[key])} for title, key in CURVES.items()}
    at_6 = (f"{curve[6] / curve[32]:.0%}" for curve in curves.values())
    yield ("figure_2", panels, (), dict(zip(("pipeline", "shared"), at_6, strict=True)))
    results = [results_of(workload("dense_matmul", tile=tile)) for tile in TILES]
    marks = [f"{t}x{t}\n{_bottleneck(r)}" for t, r in zip(TILES, results, strict=True)]
    best = TILES[int(np.argmin([r["time"] for r in results]))]
    words = {"best": f"{best}x{best}"}
    yield ("figure_4b", {"dense matrix multiply": _times(results)}, marks, words)
    steps = [breakdown(workload("cyclic_reduction", padding=padding)) for padding in (0, 1)]
    titles = ("with bank conflicts", "padded")
    panels = {t: _times(of) for t, of in zip(titles, steps, strict=True)}
    words = dict(zip(("with", "without"), map(_binding, steps), strict=True))
    yield ("figure_6", panels, [f"step {i}" for i in range(10)], words)


def workload(kernel: str, clocks: Mapping[str, Any] | None = None, **parameters: float) -> Workload:
    """Return one configuration of a shipped kernel on the GTX 285, see :func:`report.workload`."""
    return report.workload(kernel, "gtx_285", "zhang_owens", clocks, **parameters)


def results_of(work: Workload) -> dict[str, float]:
    """Return the model's results for one configuration, with its time in seconds."""
    inputs: Any = zo.MODEL.prepare(work, "corrected")
    found = zo.MODEL.evaluate("corrected", inputs)
    found["time"] = found["execution_cycles"] / float(np.ravel(inputs["core_clock"])[0])
    return found


def _rates() -> list[float]:
    """Return the peaks, and the sustained rates at 6, 16 and 32 warps."""
    own = SimpleNamespace(**_given("rates"))
    peak = zo.peak_instruction(own.units, own.core_freq, own.n_sm, own.warp_size)
    reached = float(zo.sustained(_of_gtx_285("instruction_throughput"), np.array(16.0)))
    return [
        peak / 1e9,
        zo.peak_flops(peak, own.warp_size) / 1e9,
        zo.peak_shared(own.units, own.n_sm, own.core_freq) / 1e9,
        zo.peak_global(own.memory_freq, own.bus_width) / 1e9,
        *(zo.sustained(_of_gtx_285(key), np.array(warps)) for warps in (6.0, 16.0, 32.0)
          for key in CURVES.values()),
        100 * reached / (peak / 1e9),
    ]  # fmt: skip


def _products() -> list[float]:
    """Return the numbers of the dense matrix product over the tiles."""
    own, rates = SimpleNamespace(**_given("matrix_multiply")), _rates()
    n = own.n
    works = [workload("dense_matmul", tile=tile) for tile in TILES]
    counted = [
        sum(a.count.item() for a in work.global_accesses if a.name in ("a", "b"))
        * work.blocks.item()
        * work.occupancy.warps_per_block.item()
        for work in works
    ]
    simulated = [_transactions(n, tile, own.threads, own.word_bytes) for tile in own.tiles]
    falls = [100 * (1 - after / before) for of in (simulated, counted)
             for before, after in pairwise(of)]  # fmt: skip
    inputs: Any = zo.MODEL.prepare(works[1], "corrected")
    warps = float((inputs["blocks"] * inputs["warps_per_block"]).item())
    instructions = float(np.ravel(inputs["n_ii"][0])[0]) * warps
    return [
        *(work.occupancy.active_warps_per_sm.item() for work in works),
        *falls,
        100 * n**3 / 32 / instructions,
        100 * 2 * n**3 / results_of(works[1])["time"] / (1e9 * rates[1]),
    ]


def _given(group: str) -> dict[str, Any]:
    return dict(declared("zhang_owens_2011")["inputs"][group])


def _of_gtx_285(key: str) -> Any:
    return load_device("gtx_285").model_parameters["zhang_owens"][key]


def _transactions(n: int, tile: int, threads: int, word_bytes: int) -> float:
    """Return the transactions of all loads of the dense product, by the rule of 1.3.

    Threads of a block load consecutive words of the first matrix, and the second matrix's
    sub-matrix in rows of ``tile`` words.
    """
    first = Affine(0, 1, 0, 0, threads, 1, threads)
    second = Affine(0, 1, n, 0, tile, threads // tile, threads)
    for_a, for_b = (
        float(affine_transactions(loaded, word_bytes, "segment").transactions)
        for loaded in (first, second)
    )
    loads = for_a * n + for_b * n * tile / threads
    return loads * (threads / 32) * (n / threads) * (n / tile)


def _reductions() -> list[float]:
    """Return bank conflicts of each step, without and with padding, and the most with it."""
    own = SimpleNamespace(**_given("cyclic_reduction"))
    banks = int(load_device("gtx_285").values["chip.shared_banks"])
    degrees = []
    for every in (0, own.padded_every):
        for step in STEPS:
            # Thread t renews equation 2^step * (t + 1) - 1, and 1 word follows `every` others.
            place = 2**step * np.arange(1, own.equations // 2**step + 1) - 1
            words = padded(place, every)[: own.half_warp]
            degrees.append(float(np.bincount(words % banks).max()))
    return [*degrees, max(degrees[len(STEPS) :])]


def _reduction_times() -> list[float]:
    """Return the mean bandwidth of the shared memory, and what padding gains."""
    works = [workload("cyclic_reduction", padding=padding) for padding in (0, 1)]
    slow, fast = (results_of(work)["time"] for work in works)
    inputs: Any = zo.MODEL.prepare(works[0], "corrected")
    warps = (inputs["blocks"] * inputs["warps_per_block"]).item()
    moved = sum(np.ravel(t)[0] for t in inputs["shared_transactions"][1:]) * 32 * 4 * warps
    taken = sum(step["shared_memory_time"] for step in breakdown(works[0])[1:])
    return [moved / taken / 1e9, slow / fast]


def padded(place: Any, every: int) -> Any:
    """Return where words lie if an unused one follows every so many; with 0, none does."""
    return place + (place // every if every else 0)


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


def _bottleneck(results: Mapping[str, float]) -> str:
    return BOTTLENECK.meaning(int(results["bottleneck"])).replace("_", " ")


def _binding(steps: Sequence[Mapping[str, float]]) -> str:
    """Return which component binds which steps, in words."""
    found: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        found.setdefault(_bottleneck(step), []).append(str(place))
    return ", ".join(f"{name} (step {', '.join(at)})" for name, at in found.items())


def _times(results: list[dict[str, float]]) -> dict[str, Any]:
    """Return the times of the components [ms] over the place of each result."""
    place = np.arange(len(results))
    return {
        name.replace("_", " "): (place, 1e3 * np.array([r[f"{name}_time"] for r in results]))
        for name in CAUSES
    }


NUMBERS = {
    "rates": _rates,
    "matrix_multiply": _products,
    "cyclic_reduction": _reductions,
    "reduction_times": _reduction_times,
    "spmv": _sparse_products,
}
"""What stands beside printed numbers, by its table."""

"""Compare reductions of a billion configurations with C++: ``python -m benchmarks.limit``.

Ours is a whole question (pieces, tables, threads). Theirs is the same loop in C++ over the same
tables (:mod:`benchmarks.cpp`) on as many threads, without the computation of the tables: at nominal
clocks it reads every argument of the equations from memory, and the kernel's expressions, occupancy
and the model's ``prepare`` are not included. Both alternate in each round; the table gives medians
of elapsed time and of CPU time, which is more reliable on a shared machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpp import compiled_loop, compiler
from benchmarks.peak import own_peak
from benchmarks.spaces import KINDS, space
from benchmarks.storing import THREADS
from sweep.evaluation import limits
from sweep.evaluation.chunk import blocks
from sweep.evaluation.reducing import Task, reduce_in_threads
from sweep.evaluation.tables import form_of, pack, tables_of
from sweep.models import get_model, model_names
from sweep.reduction import Reduction
from sweep.space import KernelSpace, Plan, Space, cut_box

__all__ = ["limit_row"]

Array = np.ndarray[Any, Any]


def seconds(function: Callable[[], Any]) -> Array:
    """Return the elapsed time of a call and the CPU time of all threads."""
    started = np.array([time.perf_counter(), time.process_time()])
    function()
    return np.array([time.perf_counter(), time.process_time()]) - started


def question(kernel: KernelSpace) -> Reduction:
    """Return the question for the smallest execution time of all configurations."""
    lengths = zip(("model", *kernel.grid.names), (1, *kernel.grid.shape), strict=True)
    indices = {name: np.arange(n) for name, n in lengths}
    return Reduction(kernel.kernel.key, ("execution_time",), (1,), ("model", "device"), indices)


def ours(whole: Space) -> float:
    """Return the smallest time from a question."""
    kernel = whole.kernels[0]
    found = reduce_in_threads(Task(kernel, whole.plan, question(kernel)), THREADS)
    return min(float(kept.columns[0][0]) for kept in found)


def packed_parts(kernel: KernelSpace, plan: Plan, model: str) -> Iterator[Any]:
    """Yield the packed tables of every piece."""
    whole = kernel.clocked.whole
    limit = limits.PIECE if form_of(whole.shape) == "clocks" else limits.LAUNCHES // 2
    for box in cut_box(whole, limit):
        tables = tables_of(kernel, box)
        inputs = tables.inputs(plan, model)
        for block in blocks(box):
            yield pack(get_model(model), inputs, tables.box, block)


def theirs(loop: Any, parts: Sequence[Any], repeats: int) -> float:
    """Return the smallest time from the C++ loop on two threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        return min(best for best, _ in pool.map(loop, list(parts) * repeats))


def limit_row(kind: str, model: str, points: int, rounds: int, place: Path) -> tuple[str, ...]:
    """Return a row of the table for one model and kind of grid."""
    whole = space(kind, points, (model,))
    # C++ repeats a part of a large grid, because all tables would not fit into memory.
    few = space(kind, min(points, 10_000_000), (model,))
    kernel = few.kernels[0]
    parts = list(packed_parts(kernel, few.plan, model))
    repeats = max(1, round(whole.n_points / few.n_points))
    loop = compiled_loop(parts[0].read_by(model, "corrected", ("execution_time",)), place)
    if ours(few) != theirs(loop, parts, 1):
        raise AssertionError(f"{model}: C++ gives another number")
    times = np.empty((rounds, 2, 2))  # by round; ours, theirs; as it passed, of the CPU
    for row in times:
        row[0] = seconds(lambda: ours(whole)) / whole.n_points
        row[1] = seconds(lambda: theirs(loop, parts, repeats)) / (repeats * few.n_points)
    passed, spent = np.moveaxis(np.median(times, axis=0), -1, 0)
    ratios = np.median(times[:, 1] / times[:, 0], axis=0)
    what = f"smallest time, {model}, {kind}, {whole.n_points / 1e6:.3g} M"
    return (what, *(f"{1e-6 / t:.3g} M/s" for t in passed), f"{ratios[0]:.2f}",
            *(f"{1e9 * t:.2f} ns" for t in spent), f"{ratios[1]:.2f}")  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=float, default=1e9, help="configurations of a grid")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(model_names()))
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    given = parser.parse_args()
    if compiler() is None:
        sys.exit("benchmarks.limit: no C++ compiler on this machine")
    heads = ("what", "ours", "C++", "ratio", "ours, CPU", "C++, CPU", "ratio")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    with tempfile.TemporaryDirectory(prefix="sweep-limit-") as place:
        for kind in given.kinds:
            for model in given.models:
                row = limit_row(kind, model, int(given.points), given.rounds, Path(place))
                print(f"| {' | '.join(row)} |", flush=True)
    print(f"\n{own_peak() / 2**20:.0f} MiB at the most, C++'s tables included")


if __name__ == "__main__":
    sys.exit(main())

"""Measure ratios in one run and print a Markdown table: ``python -m benchmarks.ratios``.

The candidates alternate in each round, on the same grid and with the same number of threads; the
table shows medians over the rounds. Absolute numbers depend on the machine; ratios are portable.
Compilation and imports are not included. The default of 50 million configurations takes about ten
minutes, 14 GB of memory and 3 GB of disk. ``--only large`` writes stores of 10⁹ model evaluations,
which takes ten more minutes and 8 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import evaluation, numpy_models
from benchmarks.numpy_models import blocks, restricted
from benchmarks.peak import peak_bytes
from benchmarks.querying import scan_best
from benchmarks.spaces import EVALUATED, KINDS, MODELS, kernel_space, space
from benchmarks.storing import (
    PLAIN,
    THREADS,
    TOLD,
    again_and_again,
    finished_arrays,
    plain_by_chunk,
    run_fresh,
)
from sweep.query import best, pareto, top
from sweep.query.grid import grids_of_store

BLOCK_SIZES = (4096, 8192, 16384, 32768, 65536)
"""Candidates for the points of a NumPy block, around the sizes of the first two caches."""

LARGE = 1_000_000_000
"""Model evaluations of a large store."""

HEADER = ("what", "ours", "against", "theirs", "ratio", "at least")
Row = tuple[str, ...]


def seconds(function: Callable[[], Any]) -> float:
    """Return the elapsed time of a call [s]."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def in_turn(
    functions: Mapping[str, Callable[[], Any]],
    rounds: int,
    before: Callable[[], Any] = lambda: None,
) -> dict[str, list[float]]:
    """Return the seconds of each function in each round."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            before()
            found[name].append(seconds(function))
    return found


def ratio(theirs: list[float], ours: list[float]) -> float:
    """Return our speed-up as the median over the rounds."""
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def rate(points: int, times: list[float]) -> str:
    """Return points per second as text."""
    return f"{points / statistics.median(times) / 1e6:.3g} M/s"


def evaluation_rows(kind: str, points: int, rounds: int, threads: Executor) -> list[Row]:
    """Compare evaluation of five outputs into arrays whose memory is already mapped."""
    kernel, plan = kernel_space(kind, points)
    shape = evaluation.grid_shape(kernel)
    ours, theirs = evaluation.touched(shape), evaluation.touched(shape)
    rows = []
    for model in EVALUATED:
        t = evaluation.tables(kernel, plan, model)
        block = best_block(model, t, theirs, threads)
        evaluation.compiled(model, t, ours, threads)
        found = in_turn(
            {
                "compiled": partial(evaluation.compiled, model, t, ours, threads),
                "blocked NumPy": partial(numpy_models.in_blocks, model, t, theirs, block, threads),
                "whole-grid NumPy": partial(numpy_models.whole_grid, model, t, theirs),
            },
            rounds,
        )
        if not evaluation.same(ours, theirs):
            raise AssertionError(f"{model}: NumPy gives other numbers")
        what = f"evaluate {model}, {kind}, {kernel.n_points / 1e6:.3g} M"
        blocked = f"NumPy in blocks of {block // 1024}k, two threads"
        for name, label, least in (
            ("whole-grid NumPy", "NumPy on the whole grid", 20),
            ("blocked NumPy", blocked, 10),
        ):
            rows.append(
                (
                    what,
                    rate(kernel.n_points, found["compiled"]),
                    label,
                    rate(kernel.n_points, found[name]),
                    f"{ratio(found[name], found['compiled']):.3g}",
                    str(least) if kind == "clocks" else "",
                )
            )
    return rows


def best_block(
    model: str, t: evaluation.Tables, out: list[evaluation.Array], threads: Executor
) -> int:
    """Return the fastest block size for NumPy, tried on a part of the grid."""
    index = next(blocks(out[0].shape, 1 << 22))
    part = {name: restricted(table, index) for name, table in t.items()}
    views = [array[index] for array in out]
    found = in_turn(
        {
            str(size): partial(numpy_models.in_blocks, model, part, views, size, threads)
            for size in BLOCK_SIZES
        },
        3,
    )
    return int(min(found, key=lambda size: statistics.median(found[size])))


class Places:
    """A new directory for every store; the last store is emptied outside the measured time.

    The next store reuses its memory. The files stay until the end, because for some seconds after
    files were removed ext4 takes ten times as long to create one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = count()
        self._last: Path | None = None

    def writing(self, write: Callable[[Path], None]) -> Callable[[], None]:
        """Return a function that writes to a new directory."""

        def call() -> None:
            self._last = self._directory / f"{next(self._number)}.zarr"
            write(self._last)

        return call

    def settle(self) -> None:
        """Empty the last store, and wait for the disk."""
        if self._last is not None:
            for file in self._last.rglob("*"):
                if file.is_file():
                    os.truncate(file, 0)
        os.sync()


def store_rows(kind: str, points: int, rounds: int, directory: Path) -> list[Row]:
    """Compare a run into a store with zarr writing the finished arrays; leaves ``run.zarr``.

    One row uses the fastest of zarr's ways with default settings, the other the fastest of all.
    """
    whole = space(kind, points)
    store = directory / "run.zarr"
    run_fresh(space(kind, 1), store)  # compiles
    run_fresh(whole, store)
    finished = finished_arrays(store, whole.kernels[0].kernel.key)
    ways = {name: partial(write, finished) for name, write in (PLAIN | TOLD).items()}
    places = Places(directory)
    functions = {"run": partial(run_fresh, whole), **ways}
    found = in_turn({n: places.writing(f) for n, f in functions.items()}, rounds, places.settle)
    places.settle()
    rows = []
    for ways, least in ((PLAIN, "1.3" if kind == "clocks" else "0.9"), (PLAIN | TOLD, "")):
        quicker = min(ways, key=lambda name: statistics.median(found[name]))
        rows.append(store_row(kind, whole.n_evaluations, found, quicker, least))
    return rows


def store_row(kind: str, n: int, found: Mapping[str, list[float]], way: str, least: str) -> Row:
    """Return the row that compares a run with one way to write with zarr."""
    return (
        f"run to a store, {kind}, {n / 1e6:.3g} M model evaluations",
        rate(n, found["run"]),
        f"zarr writing the finished arrays, {way}",
        rate(n, found[way]),
        f"{ratio(found[way], found['run']):.2f}",
        least,
    )


def large_rows(kind: str, rounds: int, directory: Path) -> list[Row]:
    """Compare stores of 10⁹ model evaluations, whose arrays do not fit into memory.

    zarr writes the chunks of a tenth of them repeatedly.
    """
    small, store = space(kind, LARGE // 10 // len(MODELS)), directory / "run.zarr"
    run_fresh(small, store)
    finished = finished_arrays(store, small.kernels[0].kernel.key)
    times, n = again_and_again(finished, LARGE)
    whole = space(kind, n // len(MODELS))
    told = next(iter(TOLD))
    ways = {
        "chunk by chunk": partial(plain_by_chunk, finished, times=times),
        told: partial(TOLD[told], finished, times=times),
    }
    places = Places(directory)
    functions = {"run": partial(run_fresh, whole), **ways}
    found = in_turn({n: places.writing(f) for n, f in functions.items()}, rounds, places.settle)
    places.settle()
    found["run"] = [t * n / whole.n_evaluations for t in found["run"]]
    return [store_row(kind, n, found, way, "") for way in ways]


def query_rows(kind: str, points: int, rounds: int, store: Path) -> list[Row]:
    """Compare questions with a full scan of the same store; each call opens the store again."""
    n, kernel = space(kind, points).n_evaluations, space(kind, points).kernels[0].kernel.key
    questions: dict[str, tuple[Callable[[], Any], str]] = {
        "best by device": (partial(best, store, by=["device"]), "50"),
        "best under a condition": (partial(best, store, where="occupancy > 0.5"), ""),
        "100 best": (partial(top, store, 100), ""),
        "Pareto front": (partial(pareto, store), ""),
    }
    functions = {name: question for name, (question, _) in questions.items()}
    functions["scan"] = partial(scan_best, store, kernel)
    in_turn(functions, 1)  # imports
    found = in_turn(functions, rounds, before=grids_of_store.cache_clear)
    scan = f"{statistics.median(found['scan']):.2g} s"
    rows = [
        (
            f"{name}, store of {n / 1e6:.3g} M",
            f"{statistics.median(found[name]):.2g} s",
            "best by model and device, xarray and Dask, all chunks",
            scan,
            f"{ratio(found['scan'], found[name]):.3g}",
            least,
        )
        for name, (_, least) in questions.items()
    ]
    start = "import sys; from sweep.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "best", str(store), "--by", "device"]
    run = partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
    took = f"{statistics.median(in_turn({'command': run}, rounds)['command']):.2g} s"
    return [*rows, ("best by device as a command, from start to end", took, "", "", "", "")]


def memory_rows(points: int, directory: Path) -> list[Row]:
    """Compare the peak memory of a run with that of a run five times smaller."""
    small, large = (peak_bytes(n, directory) for n in (points // 5, points))
    return [
        (
            f"peak memory of a run, {points / 1e6:.3g} M configurations",
            f"{large / 2**20:.0f} MiB",
            f"the same of {points / 5e6:.3g} M",
            f"{small / 2**20:.0f} MiB",
            f"{large / small:.2f}",
            "(1)",
        )
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=50_000_000, help="configurations of a grid")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where stores are written and removed")
    parts = ("evaluation", "store", "memory")
    parser.add_argument("--only", choices=(*parts, "large"), nargs="+", default=parts)
    given = parser.parse_args()
    print("| " + " | ".join(HEADER) + " |")
    print("|" + " --- |" * len(HEADER))

    def show(rows: list[Row]) -> None:
        for row in rows:
            print("| " + " | ".join(row) + " |", flush=True)

    if "evaluation" in given.only:
        with ThreadPoolExecutor(THREADS) as threads:
            for kind in KINDS:
                show(evaluation_rows(kind, given.points, given.rounds, threads))
    with tempfile.TemporaryDirectory(prefix="sweep-benchmarks-", dir=given.directory) as place:
        if "store" in given.only:
            for kind in reversed(KINDS):
                show(store_rows(kind, given.points, given.rounds, Path(place)))
            show(query_rows(kind, given.points, given.rounds, Path(place) / "run.zarr"))
        if "large" in given.only:
            for kind in reversed(KINDS):
                show(large_rows(kind, given.rounds, Path(place)))
        if "memory" in given.only:
            show(memory_rows(given.points, Path(place)))
    print()
    for kind, described in KINDS.items():
        print(f"{kind}: {described}. All configurations are valid.")


if __name__ == "__main__":
    sys.exit(main())

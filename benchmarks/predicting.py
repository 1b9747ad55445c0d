"""Compare predictions of `sweep plan` with measured times: ``python -m benchmarks.predicting``.

Plans of growing size are sampled and predicted, then run as whole commands: into a store with
different numbers of workers, and as a question without a store. All processes share the cores of
this machine, which should be idle otherwise. A store of 10⁹ configurations takes 12 GB of disk and
some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.spaces import KINDS, space
from sweep.runs.predicting import predict
from sweep.runs.sampling import calibrate
from sweep.runs.workers import Workers
from sweep.space import resolve
from sweep.space.plan import load_plan

__all__ = ["write_plan"]

START = "import sys; from sweep.cli import main; sys.exit(main())"
CORES = os.cpu_count() or 1
HEADER = (
    "what",
    "workers",
    "predicted",
    "measured",
    "ratio",
    "CPU predicted",
    "CPU measured",
    "ratio",
    "bottleneck",
)


def write_plan(kind: str, points: int, path: Path) -> Path:
    """Write the plan of a benchmark's grid to a file."""
    data = space(kind, points).plan.as_dict()
    axes: dict[str, Any] = data.pop("axes")
    kept = ("schema", "kernels", "devices", "models", "outputs")
    lines = [f"{key} = {json.dumps(data[key])}" for key in kept]
    lines += ["[axes]", *(f"{name} = {_spelled(list(v))}" for name, v in axes.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _spelled(values: list[Any]) -> str:
    """Return an axis as text for a plan; evenly spaced numbers become a range."""
    steps = {b - a for a, b in pairwise(values)} if len(values) > 2 else set()
    if len(steps) != 1:
        return json.dumps(values)
    return f"{{ start = {values[0]}, stop = {values[-1]}, step = {steps.pop()} }}"


def seconds(command: Sequence[str], rounds: int, store: Path | None = None) -> tuple[float, float]:
    """Return the medians of a command's elapsed time and CPU time."""
    taken, spent = [], []
    for _ in range(rounds):
        if store is not None:
            shutil.rmtree(store, ignore_errors=True)
        os.sync()
        started, before = time.perf_counter(), os.times()
        words = [sys.executable, "-c", START, *command]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
        after = os.times()
        spent.append(after.children_user + after.children_system
                     - before.children_user - before.children_system)  # fmt: skip
    return statistics.median(taken), statistics.median(spent)


def row(what: str, workers: int | None, cost: dict[str, Any], measured: tuple[float, float]) -> str:
    """Return a line of the table."""
    cpu = sum(cost["cpu_s"].values())
    cells = (
        what,
        str(workers or f"{CORES} threads"),
        f"{cost['seconds']:.3g} s",
        f"{measured[0]:.3g} s",
        f"{cost['seconds'] / measured[0]:.2f}",
        f"{cpu:.3g} s",
        f"{measured[1]:.3g} s",
        f"{cpu / measured[1]:.2f}",
        cost["bottleneck"],
    )
    return f"| {' | '.join(cells)} |"


def rows(kind: str, points: int, workers: Sequence[int], rounds: int, place: Path):
    """Yield the lines of one plan: a run with each number of workers, and a question."""
    file = write_plan(kind, points, place / f"{kind}-{points}.toml")
    whole, store = resolve(load_plan(file)), place / "measured.zarr"
    rates = calibrate(whole)
    number = f"{whole.n_points:.2g}".replace("e+0", "e")
    for count in (None, *workers):
        cost = predict(whole, rates, Workers(processes=count), cores=CORES)
        command = ["run", str(file), "--no-report", "--store", str(store)]
        command += [] if count is None else ["--workers", str(count)]
        yield row(f"run, {kind}, {number}", count, cost, seconds(command, rounds, store))
    shutil.rmtree(store, ignore_errors=True)
    cost = predict(whole, rates, Workers(), cores=CORES, stores=False)
    measured = seconds(["best", str(file)], rounds)
    yield row(f"best, {kind}, {number}", None, cost, measured)


def main() -> None:
    """Calibrate, predict, run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=float, nargs="+", default=[1e6, 1e7, 1e8, 1e9])
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where stores are written and removed")
    given = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    with tempfile.TemporaryDirectory(prefix="sweep-benchmarks-", dir=given.directory) as name:
        for kind in given.kinds:
            for points in given.points:
                for line in rows(kind, int(points), given.workers, given.rounds, Path(name)):
                    print(line, flush=True)
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

"""What a cluster costs and gives: ``python -m benchmarks.cluster``.

Four figures, each from processes on this machine alone:

- what the scheduler and the network take for each chunk, measured with chunks in which nothing is
  computed, as many as a large plan has, of the size that a plan's chunks have;
- what such a chunk takes to be evaluated and written, hence the share of scheduling;
- how much faster two worker processes of one thread are than one, with a store;
- the same without one: a question to a plan, asked again of workers that have compiled its passes,
  with the workers' CPU time, which tells the loss also where others use the machine.

It also prints by how much the client's memory grows from a tenth of the chunks to all of them.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.spaces import space
from sweep import query
from sweep.space.grid import CHUNK_POINTS
from sweep.workflows import run
from sweep.workflows.execute import batch_size, execute
from sweep.workflows.job import Unit
from sweep.workflows.planned import Planned
from sweep.workflows.workers import Workers, cluster


@dataclass(frozen=True)
class Nothing:
    """A job that returns a summary at once."""

    def warm_up(self) -> None:
        """Do nothing."""

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Return a summary of the usual size."""
        numbers = {"execution_time": [[1e-3, 2e-3, 1.5e-3, 1.9e-3, 12345, 54321, CHUNK_POINTS]]}
        return unit, {"points": CHUNK_POINTS, "valid": CHUNK_POINTS, "numbers": numbers}


def overhead(chunks: int, workers: int) -> tuple[float, int]:
    """Return the seconds that scheduling takes for a chunk, and how many tasks there were."""
    units = [("kernel", i) for i in range(chunks)]
    points = chunks * CHUNK_POINTS
    seen = 0

    def done(unit: Unit, summary: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1

    with cluster(Workers(processes=workers)) as client:
        job: Any = Nothing()
        execute(job, units[:100], done, points=100 * CHUNK_POINTS, client=client)
        started = time.perf_counter()
        execute(job, units, done, points=points, client=client)
        seconds = time.perf_counter() - started
    assert seen == chunks + 100
    return seconds / chunks, -(-chunks // batch_size(chunks, points, workers))


def written(points: int, workers: int, directory: Path) -> float:
    """Return the seconds of a run into a fresh store, without compilation."""
    path = directory / "run.zarr"
    shutil.rmtree(path, ignore_errors=True)
    return run(space("clocks", points), path, workers=workers).seconds


def asked(points: int, workers: int) -> tuple[float, float]:
    """Return the seconds of a question without a store, and the workers' CPU time in it."""
    with cluster(Workers(processes=workers)) as client:

        def busy() -> float:
            return float(sum(client.run(time.process_time).values()))

        query.best(Planned(space("clocks", 1 << 26), client=client))  # compiles on every worker
        planned = Planned(space("clocks", points), client=client)
        query.best(planned)
        spent, started = busy(), time.perf_counter()
        query.best(planned)
        return time.perf_counter() - started, busy() - spent


def memory() -> float:
    """Return the most memory that this process held so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=40_000_000, help="of the stores")
    parser.add_argument("--asked", type=float, default=1e9, help="configurations of the question")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where stores are written and removed")
    given = parser.parse_args()
    overhead(given.chunks // 10, 2)
    before = memory()
    seconds, tasks = overhead(given.chunks, 2)
    print(f"scheduling: {given.chunks:,} chunks in {tasks:,} tasks, {seconds * 1e3:.3g} ms a chunk")
    print(
        f"memory of the client: {before:.0f} MB at a tenth of the chunks, {memory():.0f} MB at all"
    )
    times: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="sweep-benchmarks-", dir=given.directory) as place:
        for _ in range(given.rounds):
            for workers, found in times.items():
                found.append(written(given.points, workers, Path(place)))
    one = statistics.median(times[1])
    chunk = one / (given.points / CHUNK_POINTS)
    # All workers compute at once; scheduling is one after the other.
    print(
        f"a chunk of {CHUNK_POINTS / 1e6:.3g} M configurations: {chunk * 1e3:.3g} ms on one worker"
    )
    print(f"share of scheduling, two workers: {100 * seconds / (chunk / 2 + seconds):.3g} %")
    ratio = statistics.median(a / b for a, b in zip(times[1], times[2], strict=True))
    print(f"two workers against one: {ratio:.3g} times as fast")
    ratios = []
    for _ in range(given.rounds):
        (one, cpu_one), (two, cpu_two) = (asked(int(given.asked), n) for n in (1, 2))
        ratios.append((one / two, 2 * cpu_one / cpu_two))
    ratio, of_cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"without a store: {ratio:.3g} times as fast, {of_cpu:.3g} by the workers' CPU time")


if __name__ == "__main__":
    main()

"""Cost and speed-up of a cluster: ``python -m benchmarks.cluster``.

All processes run on this machine. It measures

- the CPU time of scheduler and client per chunk, for a plan of 100,000 chunks of the usual size: a
  whole run with tasks, summaries, journal and index, whose workers return summaries without
  evaluating or writing;
- the CPU time to evaluate and write such a chunk, hence the share of scheduling and the number of
  workers that one scheduler can keep busy;
- the speed-up of two worker processes of one thread over one, with a store;
- the same without a store: a question to a plan, repeated by workers that have compiled its passes,
  with the share of scheduling and the workers' CPU time.

It also prints how much more memory the client uses for all chunks than for a tenth of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.spaces import space
from sweep import query
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.planned import Planned
from sweep.evaluation.variables import variables
from sweep.runs.execute import batch_size, execute, on_cluster
from sweep.runs.job import Unit
from sweep.runs.record import layout_of
from sweep.runs.running import run
from sweep.runs.summaries import summarise
from sweep.runs.workers import Workers, cluster
from sweep.space import Space
from sweep.space.grid import CHUNK_POINTS
from sweep.store.writer import open_or_create


@dataclass(frozen=True)
class Spent:
    """CPU seconds of a cluster's processes, and elapsed time."""

    client: float
    scheduler: float
    workers: float
    wall: float

    @property
    def scheduling(self) -> float:
        """CPU seconds of scheduler and client."""
        return self.client + self.scheduler


@dataclass(frozen=True)
class Summary:
    """A job that returns a given summary (JSON) without computing anything."""

    text: str

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Return a new summary for each unit, as a worker does."""
        return unit, json.loads(self.text)


@contextmanager
def processes(workers: int) -> Iterator[Any]:
    """Yield the client of a scheduler with worker processes of one thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    paths = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    lines = [["dask_scheduler", "--host", address]]
    lines += [["dask_worker", address, "--nthreads", "1", "--no-nanny"]] * workers
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{line[0]}", *line[1:], "--no-dashboard"],
            env={**os.environ, "PYTHONPATH": paths}, **quiet,
        )
        for line in lines
    ]  # fmt: skip
    try:
        with cluster(Workers(scheduler=address)) as client:
            client.wait_for_workers(workers)
            yield client
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def measured(client: Any) -> Iterator[list[Spent]]:
    """Yield a list, to which the cost of the block is appended at its end."""

    def now() -> tuple[float, ...]:
        return (
            time.process_time(),
            client.run_on_scheduler(time.process_time),
            sum(client.run(time.process_time).values()),
            time.perf_counter(),
        )

    found: list[Spent] = []
    before = now()
    yield found
    found.append(Spent(*(b - a for a, b in zip(before, now(), strict=True))))


def summary_of(plan: Space) -> str:
    """Return the summary of a plan's first chunk as JSON."""
    (part,) = plan.kernels
    box = part.grid.box(0)
    arrays = evaluate_box(part, plan.plan, box)
    found = summarise(part.grid, plan.plan, box, variables(part, plan.plan), arrays)
    return json.dumps(found, default=lambda value: value.tolist())


def scheduled(chunks: int, workers: int, directory: Path) -> tuple[Spent, int, int]:
    """Return the cost of scheduling a run, and its numbers of chunks and tasks."""
    plan = space("clocks", chunks * CHUNK_POINTS)
    job = Summary(summary_of(plan))
    path = directory / "scheduled.zarr"
    shutil.rmtree(path, ignore_errors=True)
    with processes(workers) as client:
        execute(job, [("warm", i) for i in range(100)], lambda *_: None, client=client)
        with measured(client) as spent, open_or_create(path, layout_of(plan)) as store:
            units = store.missing()

            def done(unit: Unit, summary: dict[str, Any]) -> None:
                store.mark_finished([(*unit, summary)])

            execute(job, units, done, points=plan.n_points, client=client)
            store.complete()
    return spent[0], len(units), -(-len(units) // batch_size(len(units), plan.n_points, workers))


def written(points: int, workers: int, directory: Path) -> Spent:
    """Return the cost of a run into a new store, without compilation."""
    path = directory / "run.zarr"
    shutil.rmtree(path, ignore_errors=True)
    with processes(workers) as client:
        address = client.scheduler.address
        run(space("clocks", 8 * CHUNK_POINTS), directory / "first.zarr", overwrite=True,
            scheduler=address)  # fmt: skip
        with measured(client) as spent:
            seconds = run(space("clocks", points), path, scheduler=address).seconds
    return replace(spent[0], wall=seconds)


def asked(points: int, workers: int) -> Spent:
    """Return the cost of a question without a store."""
    with processes(workers) as client:
        query.best(
            Planned(first := space("clocks", 1 << 26), execute=partial(on_cluster, client, first))
        )  # compiles on every worker
        whole = space("clocks", points)
        planned = Planned(whole, execute=partial(on_cluster, client, whole))
        query.best(planned)
        with measured(client) as spent:
            query.best(planned)
    return spent[0]


def memory() -> float:
    """Return the peak memory of this process [MB]."""
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
    with tempfile.TemporaryDirectory(prefix="sweep-benchmarks-", dir=given.directory) as name:
        place = Path(name)
        each = print_scheduling(given.chunks, place)
        print_stores(given.points, given.rounds, place, each)
    print_questions(int(given.asked), given.rounds)


def print_scheduling(chunks: int, place: Path) -> float:
    """Measure and print the cost of scheduling; return its CPU seconds per chunk."""
    scheduled(chunks // 10, 2, place)
    before = memory()
    spent, chunks, tasks = scheduled(chunks, 2, place)
    each = spent.scheduling / chunks
    print(
        f"scheduling: {chunks:,} chunks in {tasks:,} tasks, {1e3 * each:.3g} ms of CPU time a "
        f"chunk (client {spent.client:.3g} s, scheduler {spent.scheduler:.3g} s)"
    )
    print(f"memory of the client: {before:.0f} MB at a tenth of the chunks, {memory():.0f} at all")
    return each


def print_stores(points: int, rounds: int, place: Path, scheduling: float) -> None:
    """Measure and print runs into stores; ``scheduling`` is in CPU seconds per chunk."""
    spent: dict[int, list[Spent]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, found in spent.items():
            found.append(written(points, workers, place))
    (part,) = space("clocks", points).kernels
    chunk = statistics.median(s.workers for s in spent[1]) / part.grid.n_chunks
    print(
        f"a chunk of {points / part.grid.n_chunks / 1e6:.3g} M configurations, evaluated and "
        f"written: {1e3 * chunk:.3g} ms of a worker's CPU time"
    )
    print(
        f"share of scheduling: {100 * scheduling / (chunk + scheduling):.3g} %; "
        f"one scheduler keeps {chunk / scheduling:.0f} workers busy"
    )
    pairs = zip(spent[1], spent[2], strict=True)
    ratio = statistics.median(one.wall / two.wall for one, two in pairs)
    print(f"two workers against one: {ratio:.3g} times as fast")


def print_questions(points: int, rounds: int) -> None:
    """Measure and print questions without a store."""
    ratios = []
    for _ in range(rounds):
        one, two = (asked(points, n) for n in (1, 2))
        share = two.scheduling / (two.workers + two.scheduling)
        ratios.append((one.wall / two.wall, 2 * one.workers / two.workers, 100 * share))
    ratio, of_cpu, share = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(
        f"without a store: {ratio:.3g} times as fast, {of_cpu:.3g} by the workers' CPU time; "
        f"share of scheduling {share:.2g} %"
    )


if __name__ == "__main__":
    main()

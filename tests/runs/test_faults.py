"""Kill the run, a worker or the scheduler fifty times: equal bytes, and no chunk twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import fault_processes
from support.clusters import free_address
from support.fault_processes import CHUNKS, SPACE, run_child, scheduler_child, worker_child
from support.runs import finished_chunks, journal
from support.store_samples import digest

from sweep.runs.running import run
from sweep.store.root import inspect

pytestmark = pytest.mark.slow

KILLS = 50


@pytest.fixture(scope="module")
def forked() -> Iterator[Any]:
    """Provide ``forked(function, *arguments)``, which starts a process; end remaining ones."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fault_processes"])
    processes = []

    def start(function: Any, *arguments: Any) -> Any:
        process = context.Process(target=function, args=arguments, daemon=True)
        process.start()
        processes.append(process)
        return process

    folder = str(Path(fault_processes.__file__).parents[1])
    before = dict(os.environ)
    paths = [folder, *filter(None, [before.get("PYTHONPATH")])]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "SWEEP_FAULTS": "1"}
    try:
        yield start
    finally:
        os.environ.clear()
        os.environ.update(before)
        for process in processes:
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("reference") / "many.zarr"
    run(SPACE, path)
    return digest(path)


class Cluster:
    """Provide a scheduler and two workers, which are restarted when they are killed."""

    def __init__(self, forked: Any) -> None:
        self.forked = forked
        self.start()

    def start(self) -> None:
        self.address = free_address()
        self.scheduler = self.forked(scheduler_child, self.address)
        self.workers = [self.forked(worker_child, self.address) for _ in range(2)]

    def kill_worker(self, index: int) -> None:
        self.workers[index].kill()
        self.workers[index].join()
        self.workers[index] = self.forked(worker_child, self.address)

    def kill_scheduler(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.join()
        self.start()


def reaches(store: Path, chunks: int, process: Any) -> None:
    """Wait until the journal has this many chunks, or the run ends."""
    end = time.monotonic() + 120
    while process.is_alive() and finished_chunks(store) < chunks:
        assert time.monotonic() < end, "the run stands still"
        time.sleep(0.001)


def check(store: Path, reference: dict[str, str]) -> None:
    entries = [(entry["group"], entry["chunk"]) for entry in journal(store)]
    assert len(entries) == len(set(entries)) == CHUNKS  # entered twice, if computed again
    assert inspect(store).is_finished
    for partial in store.rglob("*.partial"):  # of a killed worker, after the last run began
        partial.unlink()
    assert digest(store) == reference


def test_run_killed_fifty_times(forked, reference, tmp_path):
    chance = random.Random(50)
    store, number, kills = tmp_path / "0.zarr", 0, 0
    while kills < KILLS:
        process = forked(run_child, store, None)
        reaches(store, finished_chunks(store) + chance.randrange(60), process)
        time.sleep(chance.random() * 0.01)
        process.kill()
        process.join()
        if process.exitcode == 0:
            check(store, reference)
            number += 1
            store = tmp_path / f"{number}.zarr"
        else:
            kills += 1
    process = forked(run_child, store, None)
    process.join(120)
    assert process.exitcode == 0
    check(store, reference)


def test_run_workers_and_scheduler_killed_fifty_times(forked, reference, tmp_path):
    chance = random.Random(51)
    store, number, kills = tmp_path / "0.zarr", 0, 0
    cluster = Cluster(forked)
    process = forked(run_child, store, cluster.address)
    while True:
        if not process.is_alive():
            process.join()
            if process.exitcode == 0:
                check(store, reference)
                if kills >= KILLS:
                    break
                number += 1
                store = tmp_path / f"{number}.zarr"
            process = forked(run_child, store, cluster.address)
        more = chance.randrange(80) if kills < KILLS else CHUNKS
        reaches(store, finished_chunks(store) + more, process)
        if kills >= KILLS or not process.is_alive():
            continue
        kills += 1
        victim = chance.choice([*["run"] * 4, *["worker"] * 4, "scheduler"])
        if victim == "run":
            process.kill()
            process.join()
        elif victim == "worker":
            cluster.kill_worker(chance.randrange(2))
        else:
            cluster.kill_scheduler()
            process.join(60)
            assert process.exitcode in (0, 2), process.exitcode

"""Runs on a Dask cluster of other processes: the same bytes, and clear words when it fails."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import CHUNKS, POINTS, environment, journal, plan, sweep, write_plan
from store_samples import digest

from sweep.errors import StoreError, SweepError
from sweep.workflows import run

pytestmark = pytest.mark.slow


def dask(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    """Start a scheduler or worker in a process of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
        cwd=cwd, env=environment(), start_new_session=True, **quiet,
    )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def started(workers: int, cwd: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield the address of a scheduler and its worker processes, which see nothing of this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    processes = [dask("scheduler", "--host", address, "--no-dashboard", cwd=cwd)]
    try:
        for _ in range(workers):
            options = ["--nthreads", "1", "--no-dashboard", "--no-nanny"]
            processes.append(dask("worker", address, *options, cwd=cwd))
        _wait_for(address, workers)
        yield address, processes[1:]
    finally:
        for process in processes:
            end(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two worker processes."""
    with started(2, tmp_path_factory.mktemp("cluster")) as (address, _):
        yield address


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a run in this process."""
    path = tmp_path_factory.mktemp("local") / "small.zarr"
    run(plan(), path)
    return digest(path)


def _wait_for(address: str, workers: int) -> None:
    from distributed import Client

    end_of_patience = time.monotonic() + 120
    while time.monotonic() < end_of_patience:
        try:
            with Client(address, timeout="5s", set_as_default=False) as client:
                if workers:
                    client.wait_for_workers(workers, timeout=60)
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail("the cluster did not start")


def test_bytes_are_those_of_a_local_run(cluster, local, tmp_path):
    seen: list[int] = []
    finished = run(
        plan(), tmp_path / "a.zarr", scheduler=cluster, progress=lambda n, *_: seen.append(n)
    )
    assert (finished.computed, finished.resumed) == (POINTS, 0)
    assert (seen[0], seen[-1], len(seen)) == (0, POINTS, CHUNKS + 1)
    assert digest(tmp_path / "a.zarr") == local


def test_command_line_and_relative_paths(cluster, local, tmp_path):
    """The workers have another working directory."""
    write_plan(tmp_path / "small.toml")
    done = sweep("run", "small.toml", "--scheduler", cluster, "--no-report", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(journal(tmp_path / "small.zarr")) == CHUNKS
    assert digest(tmp_path / "small.zarr") == local


def test_interrupted_run_is_continued_elsewhere(cluster, local, tmp_path):
    class Stop(BaseException):
        pass

    def progress(done: int, *_: int) -> None:
        if done > POINTS // 3:
            raise Stop

    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", scheduler=cluster, progress=progress)
    assert POINTS // 3 < 2 * len(journal(tmp_path / "a.zarr")) < POINTS
    finished = run(plan(), tmp_path / "a.zarr", threads=1)
    assert finished.resumed > POINTS // 3
    assert digest(tmp_path / "a.zarr") == local


def test_error_on_a_worker_is_one_line(cluster, tmp_path, monkeypatch):
    """A worker that cannot write, as one without the shared file system."""
    path = tmp_path / "a.zarr"

    def progress(done: int, *_: int) -> None:
        if not done:
            path.rename(tmp_path / "b.zarr")

    with pytest.raises(StoreError, match=r"^cannot write '.*/a.zarr/.*': No such file or directo"):
        run(plan(), path, scheduler=cluster, progress=progress)


def test_scheduler_without_workers(tmp_path):
    with (
        started(0, tmp_path) as (address, _),
        pytest.raises(SweepError, match=f"the Dask scheduler at '{address}' has no workers"),
    ):
        run(plan(), tmp_path / "a.zarr", scheduler=address)
    assert not (tmp_path / "a.zarr").exists()


def test_worker_that_dies(local, tmp_path):
    """The other one takes over its chunks."""
    with started(2, tmp_path) as (address, workers):

        def progress(done: int, *_: int) -> None:
            if done:
                workers[0].kill()

        run(plan(), tmp_path / "a.zarr", scheduler=address, progress=progress)
    assert digest(tmp_path / "a.zarr") == local

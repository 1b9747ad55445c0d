"""Dask clusters of independent processes on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.runs import environment

SLOW_WRITES = """
import os, time
real, log, calls = os.replace, {log!r}, 0
def replace(source, target):
    global calls
    if "/c." in str(target):
        calls += 1
        if calls == {at}:
            open(log, "w").close()
            time.sleep({seconds})
    real(source, target)
os.replace = replace
"""


def dask(
    *arguments: str, cwd: Path, path: Path | None = None, prefix: Sequence[str] = (), **more: str
) -> subprocess.Popen[bytes]:
    """Start a scheduler or worker; modules in ``path`` precede all others."""
    surroundings = environment(**more)
    if path is not None:
        surroundings["PYTHONPATH"] = os.pathsep.join([str(path), surroundings["PYTHONPATH"]])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
        cwd=cwd, env=surroundings, start_new_session=True, **quiet,
    )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def free_address(host: str = "127.0.0.1") -> str:
    with socket.socket() as free:
        free.bind((host, 0))
        return f"tcp://{host}:{free.getsockname()[1]}"


def scheduler(address: str, cwd: Path, *options: str, **given) -> subprocess.Popen[bytes]:
    return dask("scheduler", "--host", address, "--no-dashboard", *options, cwd=cwd, **given)


def worker(address: str, cwd: Path, threads: int = 1, **given) -> subprocess.Popen[bytes]:
    options = ["--nthreads", str(threads), "--no-dashboard", "--no-nanny"]
    return dask("worker", address, *options, cwd=cwd, **given)


@contextmanager
def started(
    workers: int, cwd: Path, **given
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield the address of a scheduler, and its process followed by those of the workers."""
    address = free_address()
    processes = [scheduler(address, cwd)]
    try:
        processes += [worker(address, cwd, **given) for _ in range(workers)]
        wait_for(address, workers)
        yield address, processes
    finally:
        for process in processes:
            end(process)


def slow_writes(folder: Path, at: int, seconds: float) -> tuple[Path, Path]:
    """Return a module path that makes a process sleep before it renames its ``at``-th chunk.

    The second path is a file that is created at that moment.
    """
    folder.mkdir()
    log = folder / "reached"
    code = SLOW_WRITES.format(log=str(log), at=at, seconds=seconds)
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return folder, log


def wait_for(address: str, workers: int) -> None:
    from distributed import Client

    end_of_patience = time.monotonic() + 120
    while time.monotonic() < end_of_patience:
        try:
            with Client(address, timeout="5s", set_as_default=False) as client:
                if workers:
                    client.wait_for_workers(workers, timeout=60)
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("the cluster did not start")


def appears(path: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a file exists."""
    end_of_patience = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end_of_patience, f"{path} never came"
        assert process is None or process.poll() is None
        time.sleep(0.01)

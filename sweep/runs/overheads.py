"""What a run costs besides evaluating and writing: start, scheduling, a store's files, the disk."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweep.errors import PlanError
from sweep.runs.execute import execute
from sweep.runs.job import Job, Unit
from sweep.runs.record import layout_of, texts_of
from sweep.runs.workers import Workers, cluster
from sweep.space import Box, KernelSpace, Space, cut_box
from sweep.store import open_or_create

__all__ = [
    "command_seconds",
    "compiler_seconds",
    "cpu_seconds",
    "disk_rates",
    "file_seconds",
    "resident_bytes",
    "restricted",
    "scheduling_seconds",
]

FEW = 48
"""Chunks, and tasks, that a fixed cost is measured with."""
DISK_BYTES = 1 << 29
"""What is written to see a disk's bandwidth: more than small files leave lying ready."""
WRITTEN_BYTES = 1 << 23
"""What a call writes of it."""


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU seconds that a call takes in this thread."""
    started = time.thread_time()
    function()
    return time.thread_time() - started


def restricted(kernel: KernelSpace, box: Box) -> KernelSpace:
    """Return a part of a kernel's grid as a grid of its own, of one chunk."""
    parts = zip(kernel.grid.names, box.slices, strict=True)
    found = kernel.restricted({name: range(part.start, part.stop) for name, part in parts})
    return replace(found, grid=replace(found.grid, chunk_points=box.n_points))


def compiler_seconds() -> float:
    """Return the CPU seconds to compile next to nothing: what a process pays once."""
    from numba import njit

    def nothing(x: float) -> float:
        return x + 1.0

    return cpu_seconds(lambda: njit(nothing)(1.0))


def file_seconds(space: Space, place: Path) -> tuple[float, float, float]:
    """Return the seconds of a file without its bytes, of a chunk in the journal, and of a store."""
    file_s, many_s, journal_s, chunks = _tiny_store(space, place / "many.zarr", FEW)
    _, one_s, _, _ = _tiny_store(space, place / "one.zarr", 1)
    if chunks > 1:
        journal_s += max(many_s - one_s, 0.0) / (chunks - 1)
    return file_s, journal_s, one_s


def _tiny_store(space: Space, path: Path, points: int) -> tuple[float, float, float, int]:
    """Return the seconds of a file, of creating and completing, of a journal's entry; chunks."""
    kernel = space.kernels[0]
    part = restricted(kernel, next(cut_box(kernel.grid.whole, points)))
    part = replace(part, grid=replace(part.grid, chunk_points=1))
    small = replace(space, kernels=(part,))
    job_s = journal_s = 0.0
    started = time.thread_time()
    layout = layout_of(small)
    with open_or_create(path, layout) as store:
        whole_s = time.thread_time() - started
        record: Any = layout.record
        job = Job(record["plan"], texts_of(record), store.writer, "calibration", [small])
        units = store.missing()
        job(units[0])  # tables and passes
        for unit in units:
            started = time.thread_time()
            _, summary = job(unit)
            job_s += time.thread_time() - started
            started = time.thread_time()
            store.mark_finished([(*unit, summary)])
            journal_s += time.thread_time() - started
        files = sum(1 for found in (path / part.kernel.key).rglob("c*") if found.is_file())
        whole_s += cpu_seconds(lambda: store.complete({"configurations": part.n_points}))
    n = len(units)
    return job_s / max(files, n), whole_s, journal_s / n, n


def disk_rates(place: Path) -> tuple[float, float, float]:
    """Return what stores of gigabytes meet and a small file does not.

    Parameters
    ----------
    place : Path
        A directory of the disk, where it has room; else that of temporary files is taken.

    Returns
    -------
    bandwidth : float
        At which the disk takes a file [B/s].
    fresh_s : float
        CPU seconds that a byte costs the system in memory that it has not used lately, more than in
        memory that it just let go: much on virtual machines, next to nothing on others [s].
    held : float
        What the system keeps in memory before writers have to wait for the disk [B].

    Raises
    ------
    PlanError
        Neither has room.
    """
    try:
        first_s, again_s, elapsed = _written_twice(place)
    except OSError:
        try:
            first_s, again_s, elapsed = _written_twice(None)
        except OSError as error:
            raise PlanError(
                f"the disk cannot be measured: {error.strerror or error}; {DISK_BYTES >> 20} MiB "
                f"must be free for a moment, in '{place}' or where temporary files are"
            ) from None
    return DISK_BYTES / elapsed, max(first_s - again_s, 0.0) / DISK_BYTES, _held_bytes()


def _written_twice(place: Path | None) -> tuple[float, float, float]:
    """Return the CPU seconds to write a file and to write it again, and until the disk has it."""
    with tempfile.TemporaryFile(dir=place) as file:
        first_s, _ = _written(file.fileno())
        return (first_s, *_written(file.fileno()))


def _written(descriptor: int) -> tuple[float, float]:
    """Return the CPU seconds to write a file anew, and the seconds until the disk has it."""
    data = secrets.token_bytes(WRITTEN_BYTES)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    started, spent = time.perf_counter(), time.thread_time()
    for _ in range(max(DISK_BYTES // len(data), 1)):
        os.write(descriptor, data)
    spent = time.thread_time() - spent
    os.fsync(descriptor)
    return spent, time.perf_counter() - started


def _held_bytes() -> float:
    """Return how many bytes Linux lets writers be ahead of the disk; 0 where it is not known.

    Between the share of memory at which it begins to write and the one that nobody may exceed it
    slows writers down, from the middle on.
    """
    try:
        system = Path("/proc/sys/vm")
        names = ("dirty_background_ratio", "dirty_ratio")
        shares = [int((system / name).read_text(encoding="ascii")) / 100 for name in names]
        memory = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(line.split()[1] for line in memory if line.startswith("MemAvailable"))
        return sum(shares) / 2 * int(available) * 1024
    except (OSError, ValueError, StopIteration, IndexError):
        return 0.0


def command_seconds() -> float:
    """Return the CPU seconds that a command takes before it begins to work."""
    return _children_seconds(_command)


def _command() -> None:
    """Do all that a command does before it begins to work."""
    code = "import sys; from sweep.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "run", "quickstart", "--dry-run"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _children_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU seconds of processes that a call starts and waits for."""

    def spent() -> float:
        found = os.times()
        return found.children_user + found.children_system

    started = spent()
    function()
    return spent() - started


@dataclass(frozen=True)
class _Idle:
    """A job that has a summary of the usual size at once."""

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        numbers = {"execution_time": [[1e-3, 2e-3, 1.5e-3, 1.9e-3, 12345, 54321, 10**6]]}
        return unit, {"points": 10**6, "valid": 10**6, "numbers": numbers}


def scheduling_seconds() -> tuple[float, float, float, float]:
    """Return seconds: to start a cluster, per further worker, per task, and per chunk in it.

    Client and scheduler, which all tasks pass through, are this process.
    """
    started = time.perf_counter()
    with cluster(Workers(processes=1)) as client:
        cluster_s = time.perf_counter() - started
        started = time.perf_counter()
        client.cluster.scale(2)
        client.wait_for_workers(2)
        worker_s = time.perf_counter() - started
        single = _scheduled(8 * FEW, 10**9, client)
        # Chunks of a few configurations: eight tasks for each worker hold them all.
        together = _scheduled(64 * FEW, 1, client)
    task_s = single / (8 * FEW)
    chunk_s = max(together - 16 * task_s, 0.0) / (64 * FEW)
    return cluster_s, worker_s, max(task_s - chunk_s, 0.0), chunk_s


def _scheduled(chunks: int, points: int, client: Any) -> float:
    """Return the CPU seconds to schedule so many chunks in which nothing is computed."""
    units = [("kernel", number) for number in range(chunks)]
    job: Any = _Idle()
    execute(job, units[:FEW], lambda *_: None, points=points, client=client)
    started = time.process_time()
    execute(job, units, lambda *_: None, points=points, client=client)
    return time.process_time() - started


def resident_bytes() -> float:
    """Return this process's memory [B]."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else peak * 1024)

"""Measure the cost of a plan on this machine within seconds.

Separate processes, like those of commands, run some chunks of the plan into a temporary store and
query parts of it for their best configurations. Work is measured in CPU seconds, so that other
processes on the machine have little influence. The start of a cluster, which is mostly waiting, is
measured in elapsed time.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sweep import __version__
from sweep.errors import PlanError
from sweep.evaluation.chunk import warm_up
from sweep.runs import best
from sweep.runs.execute import execute
from sweep.runs.job import Job, Unit
from sweep.runs.rates import Rates, Sample, clock_pairs, processor, settings_of
from sweep.runs.record import layout_of, record_of, space_of
from sweep.runs.workers import Workers, cluster
from sweep.space import KernelSpace, Plan, Space
from sweep.store.buckets import files_of
from sweep.store.writer import open_or_create

Measured = tuple[dict[str, float], list[Sample]]

CHILD = "import sweep.cli.running; from sweep.runs.sampling import main; main()"
"""Source of the child process: it imports the modules of the command, to measure its start."""

PLACES = (0.5, 0.0, 0.9, 0.25)
"""Positions in a kernel's grid at which chunks are sampled, as fractions."""
SECONDS = 1.0
"""Elapsed time after which no other position is sampled."""
CONFIGURATIONS = (1 << 23, 1 << 26)
"""Approximate number of configurations of the two questions about a kernel."""
COMPILED_S = 1.5
"""CPU seconds above which passes were compiled instead of loaded from disk."""
TASKS = (10, 20, 320)


def calibrate(space: Space) -> Rates:
    """Measure the cost of a plan on this machine.

    Parameters
    ----------
    space : Space
        The plan; each of its kernels is sampled.

    Returns
    -------
    Rates
        The rates of this machine, with two samples per kernel: of a run and of a question.

    Raises
    ------
    SweepError
        The sample failed, or processes cannot be started.
    """
    load = os.getloadavg()[0]
    rates: dict[str, float] = {}
    samples: list[Sample] = []
    for kind in ("question", "run", "cluster"):
        numbers, measured = _in_child(space, kind)
        if any(sample.first_s > COMPILED_S for sample in measured):
            # The passes are on disk now, as they will be for later commands.
            numbers, measured = _in_child(space, kind)
        rates |= numbers
        samples += measured
    return Rates(__version__, processor(), load, **rates, samples=tuple(samples))


def _in_child(space: Space, kind: str) -> Measured:
    request = pickle.dumps((kind, record_of(space)))
    done = subprocess.run([sys.executable, "-c", CHILD], input=request, capture_output=True)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise PlanError(f"the plan cannot be sampled: {lines[-1] if lines else done.returncode}")
    return pickle.loads(done.stdout)


def main() -> None:
    """Run the measurement requested on standard input; write the results to standard output."""
    kind, record = pickle.load(sys.stdin.buffer)
    space = space_of(record)
    start_s = time.process_time()
    measure = {"run": _run_samples, "question": _question_samples, "cluster": _cluster_rates}[kind]
    numbers, samples = measure(space)
    sys.stdout.buffer.write(pickle.dumps(({"start_s": start_s, **numbers}, samples)))


def _sample(kind: str, kernel: KernelSpace, plan: Plan, **numbers: float) -> Sample:
    """Return a sample with the peak memory of this process."""
    key, sha256, clocks = kernel.kernel.key, kernel.kernel.sha256, clock_pairs(kernel)
    numbers["process_bytes"] = float(_peak_bytes())
    settings, points = settings_of(plan), kernel.n_points
    return Sample(kind, key, sha256, plan.models, settings, clocks, points, **numbers)


def _peak_bytes() -> int:
    """Return the most memory that this process has had [B]."""
    try:
        # What getrusage tells begins with the peak of the process that started this one.
        status = Path("/proc/self/status").read_text("utf-8")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError, ValueError):  # no Linux
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


class _TimedJob(Job):
    """A job whose summaries also have the time for writing, and the number of bytes."""

    def store(self, unit: Unit, *given: Any, **options: Any) -> dict[str, Any]:
        started = time.thread_time()
        summary = super().store(unit, *given, **options)
        spent = time.thread_time() - started
        return summary | {"write_s": spent, "bytes": sum(a.nbytes for a in given[1].values())}


def _run_samples(space: Space) -> Measured:
    """Run some chunks of every kernel with all threads."""
    place = os.getcwd() if os.access(".", os.W_OK) else None
    started, layout = time.process_time(), layout_of(space)
    with (
        tempfile.TemporaryDirectory(prefix=".sweep-sample-", dir=place) as name,
        open_or_create(path := Path(name) / "sample.zarr", layout) as store,
    ):
        store_s = time.process_time() - started
        job = _TimedJob.of(space, layout.record, writer=store.writer)
        finished: dict[Unit, dict[str, Any]] = {}
        samples = [_run_sample(job, kernel, finished, path) for kernel in space.kernels]
        entries = [[(*unit, summary)] for unit, summary in finished.items()]
        journal_s = _cpu_seconds(lambda: list(map(store.mark_finished, entries)))
    return {"store_s": store_s, "journal_s": journal_s / len(entries)}, samples


def _run_sample(
    job: _TimedJob, kernel: KernelSpace, finished: dict[Unit, dict[str, Any]], path: Path
) -> Sample:
    """Run some chunks of a kernel: at each position adjacent chunks, which share tables."""
    key, grid, plan = kernel.kernel.key, kernel.grid, job.space().plan
    cores, before = os.cpu_count() or 1, files_of(path).total_bytes()

    def run(units: list[Unit]) -> float:
        return _cpu_seconds(lambda: execute(job, units, finished.__setitem__, threads=cores))

    first_s = _cpu_seconds(lambda: warm_up([kernel], plan)) + run([(key, 0)])
    n_taken = min(4 * cores, grid.n_chunks)
    cpu_s, taken = 0.0, []
    end = time.monotonic() + SECONDS
    for share in PLACES:
        first = min(int(share * grid.n_chunks), grid.n_chunks - n_taken)
        taken += (units := [(key, first + i) for i in range(n_taken)])
        cpu_s += run(units)
        if time.monotonic() > end:
            break
    write_s = sum(finished[unit]["write_s"] for unit in taken)
    on_disk = files_of(path).total_bytes() - before
    return _sample(
        "run", kernel, plan,
        first_s=max(first_s - cpu_s / len(taken), 0.0),
        point_s=max(cpu_s - write_s, 0.0) / sum(grid.box(i).n_points for _, i in taken),
        byte_s=write_s / sum(finished[unit]["bytes"] for unit in taken),
        stored=on_disk / sum(s["bytes"] for unit, s in finished.items() if unit[0] == key),
    )  # fmt: skip


def _question_samples(space: Space) -> Measured:
    """Query a smaller and a larger part of every kernel's grid for the best configurations."""
    samples = []
    for kernel in space.kernels:
        few, many = (_part(kernel, limit) for limit in CONFIGURATIONS)
        seconds = []
        for part in (few, few, few, many):
            gc.collect()  # a process that asks once does not hold what questions before it left
            seconds.append(_cpu_seconds(partial(best, replace(space, kernels=(part,)))))
        first_s, few_s, again_s, many_s = seconds
        few_s = min(few_s, again_s)
        point_s = few_s / few.n_points
        if many.n_points > 2 * few.n_points:
            point_s = max(many_s - few_s, 0.0) / (many.n_points - few.n_points)
        first_s = max(first_s - point_s * few.n_points, 0.0)
        samples.append(_sample("question", kernel, space.plan, first_s=first_s, point_s=point_s))
    return {}, samples


def _part(kernel: KernelSpace, limit: int) -> KernelSpace:
    """Return about ``limit`` configurations of a kernel, with all clocks if possible."""
    lengths = zip(kernel.grid.dimensions, kernel.grid.shape, strict=True)
    for dimension, n in sorted(lengths, key=lambda d: (d[0].kind in ("core", "memory"), -d[1])):
        if kernel.n_points > limit:
            kept = max(n * limit // kernel.n_points, 1)
            kernel = kernel.restricted({dimension.name: range(kept)})
    return kernel


def _idle(unit: Unit) -> tuple[Unit, dict[str, Any]]:
    """Do nothing; used to measure the cost of a task."""
    return unit, {"points": 0, "valid": 0}


def _cluster_rates(_: Space) -> Measured:
    """Measure the time to start worker processes, and the cost of tasks in this process."""
    started, before, in_tasks = time.perf_counter(), sum(os.times()[:4]), []
    with cluster(Workers(processes=1)) as client:
        cluster_s = time.perf_counter() - started
        started = time.perf_counter()
        client.cluster.scale(2)
        client.wait_for_workers(2)
        worker_s = time.perf_counter() - started
        for n_tasks in TASKS:
            units = [("kernel", number) for number in range(n_tasks)]
            points = 10**7 * n_tasks**2
            work = partial(execute, _idle, units, lambda *_: None, points=points, client=client)
            in_tasks.append(_cpu_seconds(work))
    task_s = max(in_tasks[-1] - in_tasks[-2], 0.0) / (TASKS[-1] - TASKS[-2])
    dask_s = max(sum(os.times()[:4]) - before - sum(in_tasks), 0.0) / 2
    return {"cluster_s": cluster_s, "worker_s": worker_s, "dask_s": dask_s, "task_s": task_s}, []


def _cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU seconds of this process, including all threads, while a function runs."""
    started = time.process_time()
    function()
    return time.process_time() - started

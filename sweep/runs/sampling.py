"""Measure in some seconds what a plan costs on this machine.

Processes of their own, as commands are, run some chunks of the plan into a temporary store and ask
parts of it for their best configurations. Work is measured in CPU seconds, so that other processes
on the machine disturb little; starting a cluster, which is mostly waiting, in elapsed time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep import __version__
from sweep.errors import PlanError
from sweep.evaluation import warm_up
from sweep.runs.asking import best
from sweep.runs.execute import execute
from sweep.runs.job import Job, Unit
from sweep.runs.rates import Rates, Sample, clock_pairs, processor, settings_of
from sweep.runs.record import layout_of, texts_of
from sweep.runs.workers import Workers, cluster
from sweep.space import KernelSpace, Space, parse_plan, resolve
from sweep.store import open_or_create, stored_bytes

__all__ = ["calibrate"]

CHILD = "import sweep.cli.running; from sweep.runs.sampling import main; main()"
"""Imports what the command imports, so that its start is measured too."""

PLACES = (0.5, 0.0, 0.9, 0.25)
"""Where in a kernel's grid chunks are sampled, as shares of it."""
SECONDS = 1.0
"""Elapsed time after which no further place is sampled."""
CONFIGURATIONS = (1 << 23, 1 << 26)
"""Configurations, about, of the two questions to a kernel."""
COMPILED_S = 1.5
"""CPU seconds beyond which passes were compiled, not loaded from disk."""
TASKS = (10, 20, 320)


def calibrate(space: Space) -> Rates:
    """Measure what a plan costs on this machine.

    Parameters
    ----------
    space : Space
        The plan; each of its kernels is sampled.

    Returns
    -------
    Rates
        Of this machine, with two samples of each kernel: of a run, and of a question.

    Raises
    ------
    SweepError
        The sample failed, or processes cannot be started.
    """
    load = os.getloadavg()[0]
    found: dict[str, Any] = {}
    samples: list[Sample] = []
    for kind in ("question", "run"):
        measured = _in_child(space, kind)
        if any(sample["first_s"] > COMPILED_S for sample in measured["samples"]):
            measured = _in_child(space, kind)  # the passes are on disk now, as for later commands
        samples += [
            Sample(**{**sample, "models": tuple(sample["models"])})
            for sample in measured.pop("samples")
        ]
        found |= measured
    found |= _in_child(space, "cluster")
    return Rates(__version__, processor(), load, **found, samples=tuple(samples))


def _in_child(space: Space, kind: str) -> dict[str, Any]:
    record: Any = layout_of(space).record
    request = {"plan": record["plan"], "texts": texts_of(record), "kind": kind}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(request), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PlanError(f"the plan cannot be sampled: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure what the standard input asks for; write the numbers as JSON."""
    request = json.load(sys.stdin)
    kind = request["kind"]
    sys.stdout.write(json.dumps(_cluster_rates() if kind == "cluster" else _samples(request, kind)))


def _samples(request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Sample every kernel of a plan."""
    space = resolve(parse_plan(request["plan"]), request["texts"])
    found: dict[str, Any] = {"start_s": time.process_time()}
    if kind == "question":
        measured = [_question_sample(space, kernel) for kernel in space.kernels]
    else:
        place = os.getcwd() if os.access(".", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix=".sweep-sample-", dir=place) as name:
            rates, measured = _run_samples(space, Path(name) / "sample.zarr")
        found |= rates
    found["samples"] = [
        {
            "kind": kind,
            "kernel": kernel.kernel.key,
            "sha256": kernel.kernel.sha256,
            "models": space.plan.models,
            "settings": settings_of(space.plan),
            "clocks": clock_pairs(kernel),
            **numbers,
        }
        for kernel, numbers in zip(space.kernels, measured, strict=True)
    ]
    return found


class _TimedJob(Job):
    """A job that also returns how long writing took, and how many bytes it wrote."""

    def store(self, unit: Unit, arrays: Mapping[str, Any], there: Any = ()) -> dict[str, Any]:
        started = time.thread_time()
        summary = super().store(unit, arrays, there)
        spent = time.thread_time() - started
        n_bytes = sum(array.nbytes for array in arrays.values())
        return {"summary": summary, "write_s": spent, "bytes": n_bytes}


def _run_samples(space: Space, path: Path) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Sample a run of every kernel with all threads."""
    started = time.process_time()
    layout = layout_of(space)
    journal: list[float] = []
    with open_or_create(path, layout) as store:
        store_s = time.process_time() - started
        record: Any = layout.record
        job = _TimedJob(record["plan"], texts_of(record), store.writer, "sample", [space])
        found = [_run_sample(job, kernel, store, path, journal) for kernel in space.kernels]
    return {"store_s": store_s, "journal_s": sum(journal) / len(journal)}, found


def _run_sample(
    job: _TimedJob, kernel: KernelSpace, store: Any, path: Path, journal: list[float]
) -> dict[str, float]:  # fmt: skip
    """Run some chunks of a kernel: at each place neighbours, which threads share."""
    threads, grid, key = os.cpu_count() or 1, kernel.grid, kernel.kernel.key
    found: list[tuple[int, dict[str, Any]]] = []

    def done(unit: Unit, result: dict[str, Any]) -> None:
        started = time.thread_time()
        store.mark_finished([(*unit, result["summary"])])
        journal.append(time.thread_time() - started)
        found.append((unit[1], result))

    def spent(chunks: Sequence[int]) -> float:
        started = time.process_time()
        execute(job, [(key, chunk) for chunk in chunks], done, threads=threads)
        return time.process_time() - started

    started, before = time.process_time(), stored_bytes(path)
    warm_up([kernel], job.space().plan)
    loading_s, base = time.process_time() - started, _peak_bytes()
    first_chunk_s = spent([0])
    written = {0: found.pop()[1]["bytes"]}
    cpu_s, end = 0.0, time.monotonic() + SECONDS
    taken = min(4 * threads, grid.n_chunks)
    for share in PLACES:
        first = min(int(share * grid.n_chunks), grid.n_chunks - taken)
        cpu_s += spent(range(first, first + taken))
        if time.monotonic() > end:
            break
    written |= {chunk: result["bytes"] for chunk, result in found}
    write_s = sum(result["write_s"] for _, result in found)
    return {
        "first_s": loading_s + max(first_chunk_s - cpu_s / len(found), 0.0),
        "point_s": max(cpu_s - write_s, 0.0) / sum(grid.box(chunk).n_points for chunk, _ in found),
        "byte_s": write_s / sum(result["bytes"] for _, result in found),
        "stored": (stored_bytes(path) - before) / sum(written.values()),
        "process_bytes": base,
        "thread_bytes": max(_peak_bytes() - base, 0.0) / min(threads, taken),
    }


def _question_sample(space: Space, kernel: KernelSpace) -> dict[str, float]:
    """Ask a smaller and a larger part of a kernel's grid for its best configurations."""

    def spent(part: KernelSpace) -> float:
        started = time.process_time()
        best(replace(space, kernels=(part,)))
        return time.process_time() - started

    few, many = (_part(kernel, limit) for limit in CONFIGURATIONS)
    first_s, base = spent(few), _peak_bytes()
    few_s, many_s = (min(spent(part), spent(part)) for part in (few, many))
    point_s = few_s / few.n_points
    if many.n_points > 2 * few.n_points:
        point_s = max(many_s - few_s, 0.0) / (many.n_points - few.n_points)
    return {
        "first_s": max(first_s - point_s * few.n_points, 0.0),
        "point_s": point_s,
        "byte_s": 0.0,
        "stored": 0.0,
        "process_bytes": base,
        "thread_bytes": max(_peak_bytes() - base, 0.0) / (os.cpu_count() or 1),
    }


def _part(kernel: KernelSpace, limit: int) -> KernelSpace:
    """Return about so many of a kernel's configurations, with all clocks if possible."""
    while kernel.n_points > limit:
        lengths = {
            d.name: (d.kind not in ("core", "memory"), n)
            for d, n in zip(kernel.grid.dimensions, kernel.grid.shape, strict=True)
            if n > 1
        }
        name = max(lengths, key=lambda name: lengths[name])
        kept = max(lengths[name][1] * limit // kernel.n_points, 1)
        kernel = kernel.restricted({name: range(kept)})
    return kernel


def _peak_bytes() -> float:
    """Return the most memory that this process has used [B]."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def _idle(unit: Unit) -> tuple[Unit, dict[str, Any]]:
    """Do nothing, as a task."""
    return unit, {"points": 0, "valid": 0}


def _cluster_rates() -> dict[str, float]:
    """Measure how long worker processes take to start, and what tasks cost this process."""
    started, before, in_tasks = time.perf_counter(), _cpu_seconds(), []
    with cluster(Workers(processes=1)) as client:
        cluster_s = time.perf_counter() - started
        started = time.perf_counter()
        client.cluster.scale(2)
        client.wait_for_workers(2)
        worker_s = time.perf_counter() - started
        for n_tasks in TASKS:
            units = [("kernel", number) for number in range(n_tasks)]
            spent = time.process_time()
            execute(_idle, units, lambda *_: None, points=10**7 * n_tasks**2, client=client)
            in_tasks.append(time.process_time() - spent)
    task_s = max(in_tasks[-1] - in_tasks[-2], 0.0) / (TASKS[-1] - TASKS[-2])
    dask_s = max(_cpu_seconds() - before - sum(in_tasks), 0.0) / 2
    return {"cluster_s": cluster_s, "worker_s": worker_s, "dask_s": dask_s, "task_s": task_s}


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of its children that have ended."""
    return sum(os.times()[:4])

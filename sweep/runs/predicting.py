"""Predict the time of a run, or of a question to a plan, from measured rates.

The CPU time of all computation is divided among the workers, as far as there are tasks for them.
Scheduling in one process and writing at the bandwidth of the store happen at the same time; the
longest of the three counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sweep.errors import PlanError, counted
from sweep.evaluation import limits
from sweep.runs.execute import batch_size
from sweep.runs.rates import Rates, Sample, clock_pairs
from sweep.runs.run_size import Forecast, forecast
from sweep.runs.workers import Workers
from sweep.space import Space

BUSY = 0.5
"""Load average above which a machine counts as busy."""


def predict(
    space: Space,
    rates: Rates,
    workers: Workers,
    *,
    cores: int | None = None,
    bandwidth: float | None = None,
    stores: bool = True,
) -> dict[str, Any]:
    """Predict the cost of a run or a question.

    Parameters
    ----------
    space : Space
        The plan.
    rates : Rates
        Rates from a calibration.
    workers : Workers
        The threads of this process, or worker processes, here or of a cluster.
    cores : int, optional
        Cores that all threads share, as on one machine; by default each thread has its own.
    bandwidth : float, optional
        Bandwidth of the store's file system or bucket [B/s]; unlimited by default.
    stores : bool
        Whether results are written. If not, the cost is that of a question for the best
        configurations, which stores nothing.

    Returns
    -------
    dict
        ``plan``, its name, and ``kind``: ``"run"``, or ``"question"`` that stores nothing.
        Exact numbers: ``configurations``, ``evaluations`` (configurations times models),
        ``result_bytes`` before compression [B], ``chunks``, a scheduler's ``tasks`` and ``files``
        (all 0 for a question), ``processes`` and ``slots``, the threads that compute.
        Predictions: ``stored_bytes`` of the store's chunks [B], ``worker_bytes``, the memory of a
        process [B], ``cpu_s``, CPU seconds of all processes by part, ``elapsed_s``, elapsed seconds
        by part, of which ``"computing"``, ``"scheduler"`` and ``"bandwidth"`` happen at the same
        time, ``bottleneck``, the part that takes most of the time, ``enough``, the number of
        threads beyond which more do not help, and ``seconds`` from the command's start to its end.
        ``notes`` are reservations about the prediction.

    Raises
    ------
    PlanError
        The plan's models were not calibrated on a kernel with, or without, clocks.
    """
    expected, cost = _exact(space, workers, stores)
    samples, cost["notes"] = _samples(space, rates, cost["kind"])
    pairs = list(zip(expected.kernels, samples, strict=True))

    def total(amount: str, rate: str) -> float:
        return sum(getattr(kernel, amount) * getattr(sample, rate) for kernel, sample in pairs)

    in_tasks = cost["tasks"] * rates.task_s if workers.processes else 0.0
    cpu = {
        "start": rates.start_s + (rates.store_s if stores else 0.0),
        "compilation": sum(sample.first_s for sample in samples),
        "evaluation": total("n_points", "point_s"),
        "writing": total("n_bytes", "byte_s"),
        "scheduler": expected.n_chunks * rates.journal_s + in_tasks,
    }
    cost["stored_bytes"] = total("n_bytes", "stored")
    in_memory = expected.memory_bytes * workers.slots // cost["processes"]
    cost["worker_bytes"] = max(sample.process_bytes for sample in samples) + in_memory
    transfer = cost["stored_bytes"] / bandwidth if bandwidth else 0.0
    cost |= _elapsed(cpu, cost["tasks"], transfer, rates, workers, cores)
    # Each worker loads Dask, this package and the passes.
    cpu["start"] += (rates.start_s + rates.dask_s) * (workers.processes or 0)
    cpu["compilation"] *= cost["processes"]
    return cost | {"cpu_s": cpu}


def _exact(space: Space, workers: Workers, stores: bool) -> tuple[Forecast, dict[str, Any]]:
    """Return the size of a run or a question, and the entries of a cost that follow from it."""
    expected = forecast(space)
    if not stores:
        kernels = tuple(k._replace(chunk_bytes=0, n_bytes=0) for k in expected.kernels)
        expected = replace(expected, kernels=kernels, n_bytes=0, n_chunks=0, n_files=0)
    tasks = expected.n_chunks
    if tasks and workers.processes:
        tasks = math.ceil(tasks / batch_size(tasks, expected.n_points, workers.slots))
    return expected, {
        "plan": expected.plan,
        "kind": "run" if stores else "question",
        "configurations": space.n_points,
        "evaluations": space.n_evaluations,
        "chunks": expected.n_chunks,
        "tasks": tasks,
        "files": expected.n_files,
        "result_bytes": expected.n_bytes,
        "processes": workers.processes or 1,
        "slots": workers.slots,
    }


def _samples(space: Space, rates: Rates, kind: str) -> tuple[list[Sample], tuple[str, ...]]:
    """Return a sample for each kernel, and notes about samples of other kernels or clocks."""
    found, notes = [], []
    for kernel in space.kernels:
        name, clocks = kernel.kernel.key, clock_pairs(kernel)
        sample = rates.find(kind, kernel, space.plan)
        if sample is None:
            raise PlanError(
                f"{name}: {', '.join(space.plan.models)} {'over' if clocks > 1 else 'without'} "
                "clocks not calibrated on this machine: run `sweep plan PLAN --calibrate` with it"
            )
        if sample.sha256 != kernel.kernel.sha256:
            notes.append(f"{name} was not calibrated: rates of {sample.kernel}")
        elif not 0.5 <= sample.clocks / clocks <= 2.0:
            notes.append(f"{name} was calibrated with {counted(sample.clocks, 'pair')} of clocks")
        if sample.is_compiled != (kernel.n_points > limits.UNCOMPILED):
            way = "with" if sample.is_compiled else "without"
            notes.append(f"{name} was calibrated on {sample.points:,} points, {way} compilation")
        found.append(sample)
    if rates.load > BUSY:
        notes.append(f"calibrated while the machine was busy (load {rates.load:.1f})")
    return found, tuple(dict.fromkeys(notes))


def _elapsed(
    cpu: Mapping[str, float],
    tasks: int,
    transfer: float,
    rates: Rates,
    workers: Workers,
    cores: int | None,
) -> dict[str, Any]:
    """Return elapsed seconds, the bottleneck, and how many threads help."""
    slots, available = workers.slots, cores or workers.slots
    crowded = max(1.0, (workers.processes or 1) / available)  # starting processes share the cores
    start = cpu["start"]
    if workers.processes:
        start += rates.start_s * crowded
        if cores or slots <= (os.cpu_count() or 1):  # the command starts them on this machine
            start += rates.cluster_s + (workers.processes - 1) * rates.worker_s
    work, scheduler = cpu["evaluation"] + cpu["writing"], cpu["scheduler"]
    computing = work / min(slots, available, tasks or available)
    if cores:  # client and scheduler share the cores too
        computing = max(computing, (work + scheduler) / cores)
    serial = {"start": start, "compilation": cpu["compilation"] * crowded}
    parallel = {"computing": computing, "scheduler": scheduler, "bandwidth": transfer}
    elapsed = serial | parallel
    bottleneck = max(elapsed, key=elapsed.__getitem__)
    if bottleneck == "computing":
        bottleneck = max(("evaluation", "writing"), key=cpu.__getitem__)
    enough, longest = tasks or slots, max(scheduler, transfer)
    if longest:
        enough = min(enough, max(1, math.ceil(work / longest)))
    seconds = sum(serial.values()) + max(parallel.values())
    return {"elapsed_s": elapsed, "bottleneck": bottleneck, "enough": enough, "seconds": seconds}

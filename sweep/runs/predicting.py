"""Predict the time of a run, or of a question to a plan, from measured rates.

The CPU time of all computation is divided among the workers, as far as there are tasks for them.
Scheduling in one process and writing at the bandwidth of the store happen at the same time; the
longest of the three counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sweep.errors import PlanError
from sweep.runs.execute import batch_size
from sweep.runs.forecasting import forecast
from sweep.runs.rates import Rates, Sample, clock_pairs
from sweep.space import Space

__all__ = ["Cost", "Resources", "predict"]

BUSY = 0.5
"""Load average above which a machine counts as busy."""


@dataclass(frozen=True)
class Resources:
    """Who computes, and how fast results can be stored.

    Parameters
    ----------
    workers : int, optional
        Worker processes; by default this process alone.
    threads : int, optional
        Threads of each; by default one per worker, or all cores for this process.
    cores : int, optional
        Cores that all threads share, as on one machine; by default each thread has its own.
    bandwidth : float, optional
        Bandwidth of the store's file system or bucket [B/s]; unlimited by default.
    """

    workers: int | None = None
    threads: int | None = None
    cores: int | None = None
    bandwidth: float | None = None

    @property
    def processes(self) -> int:
        """Processes that compute."""
        return self.workers or 1

    @property
    def slots(self) -> int:
        """Threads that compute."""
        own = 1 if self.workers else os.cpu_count() or 1
        return self.processes * (self.threads or own)

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes that the command starts on this machine."""
        return self.cores is not None or self.slots <= (os.cpu_count() or 1)


@dataclass(frozen=True)
class Cost:
    """The predicted cost of a run or a question.

    Attributes
    ----------
    plan : str
        The plan's name.
    kind : str
        ``"run"`` into a store, or ``"question"`` that stores nothing.
    configurations, evaluations : int
        Size of the plan; an evaluation is a configuration with one model.
    chunks, tasks, files : int
        Chunks of the store, tasks of a scheduler, and files written; 0 for a question.
    result_bytes : int
        Results before compression [B].
    stored_bytes, worker_bytes : float
        Predicted size of the store's chunks, and memory of a process [B].
    processes, slots : int
        Processes, and threads, that compute.
    cpu_s : mapping
        CPU seconds of all processes in total: ``"start"``, ``"compilation"``, ``"evaluation"``,
        ``"writing"`` and ``"scheduler"``.
    elapsed_s : mapping
        Elapsed seconds: ``"start"``, ``"compilation"``, and, at the same time, ``"computing"``,
        ``"scheduler"`` and ``"bandwidth"``.
    bottleneck : str
        The part that takes most of the time.
    enough : int
        Number of threads beyond which more do not help.
    notes : tuple of str
        Reservations about the prediction.
    """

    plan: str
    kind: str
    configurations: int
    evaluations: int
    chunks: int
    tasks: int
    files: int
    result_bytes: int
    stored_bytes: float
    worker_bytes: float
    processes: int
    slots: int
    cpu_s: Mapping[str, float]
    elapsed_s: Mapping[str, float]
    bottleneck: str
    enough: int
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Predicted time from the command's start to its end [s]."""
        parallel = ("computing", "scheduler", "bandwidth")
        serial = sum(s for name, s in self.elapsed_s.items() if name not in parallel)
        return serial + max(self.elapsed_s[name] for name in parallel)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**asdict(self), "seconds": self.seconds}


def predict(space: Space, rates: Rates, resources: Resources, *, stores: bool = True) -> Cost:
    """Predict the cost of a run or a question.

    Parameters
    ----------
    space : Space
        The plan.
    rates : Rates
        Rates from a calibration.
    resources : Resources
        The processes and threads that compute, and the bandwidth.
    stores : bool
        Whether results are written. If not, the cost is that of a question for the best
        configurations, which stores nothing.

    Returns
    -------
    Cost
        The cost. Bytes, chunks, tasks and files are exact; seconds and memory are predicted.

    Raises
    ------
    PlanError
        The plan's models were not calibrated on a kernel with, or without, clocks.
    """
    expected, kind = forecast(space), "run" if stores else "question"
    samples, notes = _samples(space, rates, kind)
    pairs = list(zip(expected.kernels, samples, strict=True))
    n_bytes = [kernel.n_bytes if stores else 0 for kernel in expected.kernels]
    stored = sum(n * s.stored for n, s in zip(n_bytes, samples, strict=True))
    chunks = tasks = expected.n_chunks if stores else 0
    if chunks and resources.workers:
        tasks = math.ceil(chunks / batch_size(chunks, space.n_points, resources.slots))
    cpu = {
        "start": rates.start_s + (rates.store_s if stores else 0.0),
        "compilation": sum(s.first_s for s in samples),
        "evaluation": sum(k.n_points * s.point_s for k, s in pairs),
        "writing": sum(n * s.byte_s for n, s in zip(n_bytes, samples, strict=True)),
        "scheduler": chunks * rates.journal_s
        + (tasks * rates.task_s if resources.workers else 0.0),
    }
    elapsed, enough = _elapsed(cpu, tasks, stored, rates, resources)
    bottleneck = max(elapsed, key=lambda name: elapsed[name])
    if bottleneck == "computing":
        bottleneck = max(("evaluation", "writing"), key=lambda name: cpu[name])
    # Each worker loads Dask, this package and the passes.
    cpu["start"] += (rates.start_s + rates.dask_s) * (resources.workers or 0)
    cpu["compilation"] *= resources.processes
    return Cost(
        plan=expected.plan,
        kind=kind,
        configurations=space.n_points,
        evaluations=space.n_evaluations,
        chunks=chunks,
        tasks=tasks,
        files=expected.n_files if stores else 0,
        result_bytes=sum(n_bytes),
        stored_bytes=stored,
        worker_bytes=max(s.process_bytes for s in samples)
        + (expected.memory_bytes * resources.slots // resources.processes if stores else 0),
        processes=resources.processes,
        slots=resources.slots,
        cpu_s=cpu,
        elapsed_s=elapsed,
        bottleneck=bottleneck,
        enough=enough,
        notes=notes,
    )


def _samples(space: Space, rates: Rates, kind: str) -> tuple[list[Sample], tuple[str, ...]]:
    """Return a sample for each kernel, and notes about samples of other kernels or clocks."""
    found, notes = [], []
    for kernel in space.kernels:
        name, clocks = kernel.kernel.key, clock_pairs(kernel)
        sample = rates.find(kind, kernel, space.plan)
        if sample is None:
            raise PlanError(
                f"{name}: {', '.join(space.plan.models)} {'with' if clocks > 1 else 'without'} "
                "clocks is not calibrated: run `sweep plan PLAN --calibrate` on this plan"
            )
        if sample.sha256 != kernel.kernel.sha256:
            notes.append(f"{name} was not calibrated: rates of {sample.kernel}")
        elif not 0.5 <= sample.clocks / clocks <= 2.0:
            notes.append(f"{name} was calibrated with {sample.clocks:,} pairs of clocks")
        found.append(sample)
    if rates.load > BUSY:
        notes.append(f"calibrated while the machine was busy (load {rates.load:.1f})")
    return found, tuple(dict.fromkeys(notes))


def _elapsed(
    cpu: Mapping[str, float], tasks: int, stored: float, rates: Rates, resources: Resources
) -> tuple[dict[str, float], int]:
    """Return elapsed seconds, and the number of threads beyond which more do not help."""
    workers, cores = resources.workers or 0, resources.cores or resources.slots
    crowded = max(1.0, resources.processes / cores)  # starting processes share the cores
    start = cpu["start"]
    if workers:
        start += rates.start_s * crowded
        if resources.is_local:
            start += rates.cluster_s + (workers - 1) * rates.worker_s
    work, scheduler = cpu["evaluation"] + cpu["writing"], cpu["scheduler"]
    computing = work / min(resources.slots, cores, tasks or cores)
    if resources.cores:  # client and scheduler share the cores too
        computing = max(computing, (work + scheduler) / cores)
    transfer = stored / resources.bandwidth if resources.bandwidth else 0.0
    serial = max(scheduler, transfer)
    enough = tasks or resources.slots
    if serial:
        enough = min(enough, max(1, math.ceil(work / serial)))
    elapsed = {
        "start": start,
        "compilation": cpu["compilation"] * crowded,
        "computing": computing,
        "scheduler": scheduler,
        "bandwidth": transfer,
    }
    return elapsed, enough

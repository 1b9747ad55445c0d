"""Who computes, and what a run, or a question to a plan, takes then."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sweep.errors import PlanError

__all__ = ["Cost", "Resources"]


@dataclass(frozen=True)
class Resources:
    """Who computes, and what carries the results away.

    Parameters
    ----------
    workers : int, optional
        Worker processes; without, this process alone.
    threads : int, optional
        Threads of each; by default one of a worker, and all cores of this process.
    cores : int, optional
        Cores that all of them share, as on one machine; by default each thread has its own.
    bandwidth : float, optional
        Of the store's file system or bucket [B/s]; no limit by default.

    Raises
    ------
    PlanError
        A number is below one.
    """

    workers: int | None = None
    threads: int | None = None
    cores: int | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("workers", "threads", "cores"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise PlanError(f"--{name} {number}: at least 1")
        if self.bandwidth is not None and not self.bandwidth > 0:
            raise PlanError(f"--bandwidth {self.bandwidth:g} B/s: must be above 0")

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

    def sharing(self, n: int) -> float:
        """Return how many times slower ``n`` things at once are than one by itself."""
        return max(1.0, n / self.cores) if self.cores else 1.0


@dataclass(frozen=True)
class Cost:
    """What a run takes.

    Attributes
    ----------
    plan : str
        The plan's name.
    kind : str
        ``"run"`` into a store, or ``"question"`` that stores nothing.
    configurations, evaluations : int
        Of the plan; an evaluation is a configuration with one model.
    chunks, tasks, files : int
        Units of work (chunks, or pieces of a question), what a scheduler hands out, and files that
        are written.
    result_bytes : int
        Results before compression [B].
    stored_bytes : float
        Predicted size of the store's chunks [B].
    worker_bytes : float
        Predicted memory of a process [B].
    processes, slots : int
        Processes, and threads, that compute.
    cpu_s : mapping
        Seconds of one core, of all processes together, by what takes them: ``"start"``,
        ``"compilation"``, ``"tables"``, ``"evaluation"``, ``"writing"`` and ``"scheduler"``.
    elapsed_s : mapping
        Elapsed seconds: ``"start"``, ``"compilation"``, and of what happens at once
        ``"computing"``, ``"scheduler"`` and ``"bandwidth"``.
    bottleneck : str
        What takes most of the time.
    enough : int
        Threads beyond which more do not help.
    notes : tuple of str
        What the prediction rests on.
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
        at_once = ("computing", "scheduler", "bandwidth")
        others = sum(s for name, s in self.elapsed_s.items() if name not in at_once)
        return others + max(self.elapsed_s[name] for name in at_once)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**asdict(self), "seconds": self.seconds}

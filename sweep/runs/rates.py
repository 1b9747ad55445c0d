"""Measured rates of plans on this machine, and the file that keeps them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]

from sweep import __version__
from sweep.disk_cache import cache_directory
from sweep.errors import PlanError
from sweep.evaluation import limits
from sweep.space import KernelSpace, Plan

NAME = "calibration.json"
SCHEMA = 4
ADVICE = "run `sweep plan PLAN --calibrate`"


@dataclass(frozen=True)
class Sample:
    """The cost of a plan's models in total on one kernel, in CPU seconds.

    Attributes
    ----------
    kind : str
        ``"run"`` into a store, or ``"question"`` that stores nothing.
    kernel, sha256 : str
        Key of the kernel file and hash of its text.
    models : tuple of str
        The plan's models.
    settings : str
        Variant, precision, outputs and options of the plan, as text.
    clocks : int
        Pairs of clocks with which each launch is evaluated.
    points : int
        Configurations of the kernel in the plan: few are evaluated without compilation.
    first_s : float
        Time to load or compile the passes and to create the tables of a process [s].
    point_s : float
        Time to evaluate a configuration [s].
    process_bytes : float
        Memory of a process after some chunks or questions [B].
    byte_s : float
        Time to summarise, encode and write a byte of results [s]; 0 for a question.
    stored : float
        Bytes on disk per byte of results [1]; 0 for a question.
    """

    kind: str
    kernel: str
    sha256: str
    models: tuple[str, ...]
    settings: str
    clocks: int
    points: int
    first_s: float
    point_s: float
    process_bytes: float
    byte_s: float = 0.0
    stored: float = 0.0

    @property
    def is_compiled(self) -> bool:
        """Whether compiled passes evaluated it."""
        return self.points > limits.UNCOMPILED


@dataclass(frozen=True)
class Rates:
    """The rates measured on this machine.

    Attributes
    ----------
    version, processor : str
        Version of this package; name of the processor and number of cores.
    load : float
        Load average before the measurement; the machine should have been idle.
    start_s, store_s, journal_s : float
        CPU time to start a command, to create a store, and per chunk to write the journal [s].
    cluster_s, worker_s : float
        Elapsed time to start a scheduler with the first worker process, and each other worker [s].
    dask_s, task_s : float
        Dask's CPU time per worker process and per task [s].
    samples : tuple of Sample
        Samples of kinds, kernels, models, settings and clocks.
    """

    version: str
    processor: str
    load: float
    start_s: float
    store_s: float
    journal_s: float
    cluster_s: float
    worker_s: float
    dask_s: float
    task_s: float
    samples: tuple[Sample, ...]

    def find(self, kind: str, kernel: KernelSpace, plan: Plan) -> Sample | None:
        """Return the sample of a plan's models that is most similar to a kernel of the plan.

        Parameters
        ----------
        kind : str
            ``"run"`` or ``"question"``.
        kernel : KernelSpace
            One of the plan's kernels.
        plan : Plan
            The plan.
        """
        settings, clocks = settings_of(plan), clock_pairs(kernel)
        wanted = kind, set(plan.models), clocks > 1

        def difference(sample: Sample) -> tuple[Any, ...]:
            apart = abs(math.log(sample.clocks / clocks))
            is_other = sample.is_compiled != (kernel.n_points > limits.UNCOMPILED)
            is_foreign = sample.sha256 != kernel.kernel.sha256
            return is_other, is_foreign, apart, sample.settings != settings

        alike = (s for s in self.samples if (s.kind, set(s.models), s.clocks > 1) == wanted)
        return min(alike, key=difference, default=None)


def clock_pairs(kernel: KernelSpace) -> int:
    """Return the number of pairs of clocks per launch of a grid."""
    return math.prod(len(d.values) for d in kernel.grid.dimensions if d.kind in ("core", "memory"))


def settings_of(plan: Plan) -> str:
    """Return the settings of a plan, besides its models, that affect rates."""
    data = plan.as_dict()
    names = ("variant", "precision", "outputs", "options")
    return json.dumps({name: data.get(name) for name in names}, sort_keys=True)


def processor() -> str:
    """Return the processor's name with the number of its cores."""
    return f"{llvm.get_host_cpu_name()} x {os.cpu_count()}"


def calibration_path() -> Path:
    """Return the file of the rates, beside compiled passes or where they are by default."""
    return (cache_directory() or Path.home() / ".cache" / "sweep") / NAME


def save_rates(rates: Rates) -> Path:
    """Save rates together with older samples of other plans; return the file.

    Raises
    ------
    PlanError
        The directory cannot be written.
    """

    def identity(sample: Sample) -> tuple[Any, ...]:
        """Return the values that a newer sample shares with the one that it replaces."""
        return (sample.kind, sample.kernel, {*sample.models}, sample.settings, sample.clocks,
                sample.is_compiled)  # fmt: skip

    with suppress(PlanError):  # no rates, or those of another machine
        own = list(map(identity, rates.samples))
        older = [sample for sample in load_rates().samples if identity(sample) not in own]
        rates = replace(rates, samples=(*rates.samples, *older))
    path = calibration_path()
    beside = path.with_name(f"{NAME}.{os.getpid()}")
    text = json.dumps({"schema": SCHEMA, **asdict(rates)}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise PlanError(
            f"the calibration cannot be kept in '{path}': {error.strerror or error}; "
            "$SWEEP_CACHE_DIR names another directory"
        ) from None
    return path


def load_rates() -> Rates:
    """Return the rates of this machine.

    Raises
    ------
    PlanError
        There are no rates, or they are damaged or belong to another version or processor. The
        message says how to measure them.
    """
    path = calibration_path()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError("another format")
        samples = tuple(
            _checked(Sample, {**sample, "models": tuple(sample["models"])})
            for sample in data["samples"]
        )
        rates: Rates = _checked(Rates, {**data, "samples": samples})
    except FileNotFoundError:
        raise PlanError(f"this machine is not calibrated (no '{path}'): {ADVICE}") from None
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        raise PlanError(f"calibration '{path}' is damaged or of another format: {ADVICE}") from None
    if rates.version != __version__:
        raise PlanError(
            f"calibration '{path}' is of sweep {rates.version}, this is {__version__}: {ADVICE}"
        )
    if rates.processor != processor():
        raise PlanError(
            f"calibration '{path}' is of another processor ({rates.processor}), this is "
            f"{processor()}: {ADVICE}"
        )
    return rates


def _checked(kind: Any, data: Mapping[str, Any]) -> Any:
    """Return a dataclass with checked fields: texts, finite numbers from 0, integers from 1."""
    values = {}
    for field in fields(kind):
        value = values[field.name] = data[field.name]
        if field.type == "str" and not isinstance(value, str):
            raise TypeError(field.name)
        if field.type in ("float", "int") and not (field.type == "int") <= value < math.inf:
            raise ValueError(field.name)
    return kind(**values)

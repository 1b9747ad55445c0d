"""Rates of this machine, as a calibration measured them, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from sweep import __version__
from sweep.errors import PlanError

__all__ = [
    "CACHE",
    "PassRates",
    "Rates",
    "calibration_path",
    "load_rates",
    "processor",
    "save_rates",
]

CACHE = "SWEEP_CACHE"
"""Environment variable that names the directory in which calibrations are kept."""
NAME = "calibration.json"
SCHEMA = 2
HOW = "run `sweep plan PLAN --calibrate`"


@dataclass(frozen=True)
class PassRates:
    """What one model costs on one kernel, in seconds of one core.

    Attributes
    ----------
    kernel, sha256 : str
        The kernel file that was evaluated: its key and hash.
    model, form : str
        The model, and whether the inner loop runs over ``"clocks"`` or over ``"rows"``.
    length : int
        Stages of the kernel, where the model follows them; else 0.
    compile_s, compile_reducing_s : float
        To compile the pass into a store, and the one of a reduction [s].
    launch_call_s, launch_s : float
        Tables of the launch: for each box, and for each launch in it [s].
    inputs_call_s, inputs_s : float
        Tables of the model: for each box, and for each launch in it [s].
    evaluate_s, reduce_s : float
        Evaluation of a configuration into memory, and in a reduction [s].
    point_bytes : float
        Results of a configuration that ``evaluate_s`` was measured with [B].
    write_s : float
        To summarise, encode and write a byte of results [s].
    stored : float
        Bytes on disk for each byte of results [1].
    launch_bytes : float
        Tables of the model for each launch [B].
    """

    kernel: str
    sha256: str
    model: str
    form: str
    length: int
    compile_s: float
    compile_reducing_s: float
    launch_call_s: float
    launch_s: float
    inputs_call_s: float
    inputs_s: float
    evaluate_s: float
    reduce_s: float
    point_bytes: float
    write_s: float
    stored: float
    launch_bytes: float


@dataclass(frozen=True)
class Rates:
    """What a calibration measured, in seconds of one core where nothing else is said.

    Attributes
    ----------
    version : str
        Of this package.
    processor : str
        Name and number of cores.
    measured : str
        When, in ISO 8601.
    load : float
        Load average of the machine before the calibration: it should have been idle.
    start_s : float
        From a command's start until work begins, without compilation [s].
    compiler_s : float
        To load the compiler, once for each process [s].
    cluster_s : float
        To start a scheduler and a first worker process, in elapsed time [s].
    worker_s : float
        For each further worker process [s].
    task_s, chunk_s : float
        Client and scheduler, for each task of a cluster and for each chunk in it [s].
    journal_s : float
        What the process that gathers a run's summaries does for each chunk [s].
    store_s : float
        To create and to complete a store [s].
    file_s : float
        What a file of a store costs besides its bytes [s].
    disk : float
        Bandwidth of the disk at the current directory [B/s].
    held_bytes : float
        What the system keeps in memory before writers have to wait for the disk [B].
    fresh_s : float
        What a byte on disk costs in memory that the system has not used lately, besides [s].
    process_bytes, pass_bytes : float
        Memory of a process before it computes, and what each compiled pass adds [B].
    passes : tuple of PassRates
        By kernel, model and form.
    """

    version: str
    processor: str
    measured: str
    load: float
    start_s: float
    compiler_s: float
    cluster_s: float
    worker_s: float
    task_s: float
    chunk_s: float
    journal_s: float
    store_s: float
    file_s: float
    disk: float
    held_bytes: float
    fresh_s: float
    process_bytes: float
    pass_bytes: float
    passes: tuple[PassRates, ...]

    def pass_rates(self, kernel: str, sha256: str, model: str, form: str) -> PassRates | None:
        """Return the rates of a model on this very kernel, or else on another one.

        Parameters
        ----------
        kernel, sha256 : str
            The kernel's key and the hash of its file.
        model, form : str
            The pass.
        """
        found = [p for p in self.passes if (p.model, p.form) == (model, form)]
        same = [p for p in found if (p.kernel, p.sha256) == (kernel, sha256)]
        return next(iter(same or found), None)

    def merged(self, older: Rates | None) -> Rates:
        """Return these rates with the passes that only an older calibration knows."""
        if older is None or older.stale():
            return self
        mine = {_identity(p) for p in self.passes}
        kept = tuple(p for p in older.passes if _identity(p) not in mine)
        return Rates(**{**_shallow(self), "passes": self.passes + kept})

    def stale(self) -> str:
        """Return why these rates are not those of this package on this machine; ``""`` if so."""
        if self.version != __version__:
            return f"of sweep {self.version}, this is {__version__}"
        if self.processor != processor():
            return f"of another processor ({self.processor}), this is {processor()}"
        return ""


def _identity(rates: PassRates) -> tuple[str, str, str]:
    return rates.kernel, rates.model, rates.form


def _shallow(rates: Rates) -> dict[str, Any]:
    return {f.name: getattr(rates, f.name) for f in fields(rates)}


@cache
def processor() -> str:
    """Return the processor's name with the number of its cores."""
    name = platform.processor() or platform.machine()
    try:
        if sys.platform == "darwin":
            import subprocess

            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            name = done.stdout.strip()
        else:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            named = [line.partition(":")[2].strip() for line in lines if "model name" in line]
            name = named[0] if named else name
    except (OSError, ValueError):
        pass  # the architecture's name is better than none
    return f"{name} x {os.cpu_count()}"


def calibration_path() -> Path:
    """Return the file of the calibration: in ``$SWEEP_CACHE``, or in the user's cache directory."""
    if given := os.environ.get(CACHE):
        return Path(given) / NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sweep" / NAME
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The standard has relative paths ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "sweep" / NAME


def save_rates(rates: Rates, path: Path | None = None) -> Path:
    """Keep a calibration, whole or not at all.

    Parameters
    ----------
    rates : Rates
        What was measured.
    path : Path, optional
        Where to; by default :func:`calibration_path`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    PlanError
        The directory cannot be written.
    """
    path = calibration_path() if path is None else path
    text = json.dumps({"schema": SCHEMA, **asdict(rates)}, indent=1)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise PlanError(
            f"the calibration cannot be kept in '{path}': {error.strerror or error}; "
            f"${CACHE} names another directory"
        ) from None
    return path


def load_rates(path: Path | None = None) -> Rates:
    """Return the calibration of this machine.

    Parameters
    ----------
    path : Path, optional
        The file; by default :func:`calibration_path`.

    Raises
    ------
    PlanError
        There is none, or it is of another version or processor, or damaged. The message says how
        to make one.
    """
    path = calibration_path() if path is None else path
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"this machine is not calibrated (no '{path}'): {HOW}") from None
    except (OSError, ValueError) as error:
        raise PlanError(f"calibration '{path}' cannot be read ({error}): {HOW}") from None
    rates = _parsed(data)
    if rates is None:
        raise PlanError(f"calibration '{path}' is damaged or of another format: {HOW}")
    if reason := rates.stale():
        raise PlanError(f"calibration '{path}' is {reason}: {HOW}")
    return rates


def _parsed(data: Any) -> Rates | None:
    """Return the rates of a parsed file; None where it is not one."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        return None
    given = {key: value for key, value in data.items() if key != "schema"}
    try:
        passes = tuple(_typed(PassRates, p) for p in given.pop("passes"))
        return _typed(Rates, {**given, "passes": passes})
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _typed(kind: Any, given: Mapping[str, Any]) -> Any:
    """Return a dataclass of numbers and words, refusing others."""
    words: Mapping[str, Any] = {"str": str, "float": (int, float), "int": int}
    for f in fields(kind):
        value = given[f.name]
        is_right = f.type not in words or isinstance(value, words[str(f.type)])
        if not is_right or isinstance(value, bool) or (isinstance(value, float) and value != value):
            raise TypeError(f.name)
    return kind(**given)

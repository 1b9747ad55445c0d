"""Threads of this process, local worker processes, or a Dask cluster."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sweep.errors import SweepError

MUST_AGREE = ("kernel-sweep", "numba", "llvmlite", "numpy", "numcodecs")
"""Packages that affect the bits of results and the bytes of chunks."""

# A terminal sends Ctrl-C to all its processes; only the command itself must react.
IGNORE_INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@dataclass(frozen=True)
class Workers:
    """What computes the chunks; by default the threads of this process.

    Parameters
    ----------
    scheduler : str or distributed.deploy.Cluster, optional
        Address of a Dask scheduler, or a Dask cluster object. An address that begins with
        ``tls://`` needs certificates in Dask's configuration (``distributed.comm.tls``).
    scheduler_file : path, optional
        File in which a Dask scheduler wrote its address.
    processes : int, optional
        Worker processes on this machine, started and stopped with the run.
    threads : int, optional
        Threads of this process (all cores by default), or of each of ``processes`` (one by
        default).

    Raises
    ------
    SweepError
        The arguments exclude each other, or a number is below one.
    """

    scheduler: Any = None
    scheduler_file: str | os.PathLike[str] | None = None
    processes: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check the combination of arguments."""
        places = {"--scheduler": self.scheduler, "--scheduler-file": self.scheduler_file,
                  "--workers": self.processes}  # fmt: skip
        named = [name for name, value in places.items() if value is not None]
        if len(named) > 1:
            raise SweepError(f"{' and '.join(named)} exclude each other: give one of them")
        for name, number in (("--workers", self.processes), ("--threads", self.threads)):
            if number is not None and number < 1:
                raise SweepError(f"{name} {number}: at least 1")
        if self.threads is not None and self.is_cluster and self.processes is None:
            raise SweepError(
                f"--threads {self.threads}: the workers of a cluster have their own number, "
                "given by `dask worker --nthreads`"
            )

    @property
    def is_cluster(self) -> bool:
        """Whether other processes compute the chunks."""
        return (self.scheduler, self.scheduler_file, self.processes) != (None, None, None)

    @property
    def slots(self) -> int:
        """Threads that compute, of this process or of ``processes``."""
        own = 1 if self.processes else os.cpu_count() or 1
        return (self.processes or 1) * (self.threads or own)


def cluster(workers: Workers) -> AbstractContextManager[Any]:
    """Connect to a Dask cluster, or start one; its client is the context.

    That is ``None`` if the threads of this process compute. Dask's setting
    ``distributed.comm.timeouts.connect`` limits the time to wait for an address, a file and the
    first worker.

    Raises
    ------
    SweepError
        The scheduler does not answer or has no workers, a worker has other versions, or a worker
        process ended during its start.
    """
    if not workers.is_cluster:
        return nullcontext()
    return _connected(workers) if workers.processes is None else _started(workers)


def patience() -> float:
    """Return the time to wait for a cluster [s], from Dask's configuration."""
    import dask
    from dask.utils import parse_timedelta

    return float(parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))


@contextmanager
def _started(workers: Workers) -> Iterator[Any]:
    """Start a scheduler and workers with TLS and temporary keys that only this process has."""
    import dask
    from distributed import Client, LocalCluster, Security

    # By default Dask workers return freed memory at once, but the next chunk needs as much again.
    environment = dict(dask.config.get("distributed.nanny.pre-spawn-environ"))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    options = {
        "n_workers": workers.processes,
        "threads_per_worker": workers.threads or 1,
        "security": Security.temporary(),
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
        # The size of chunks bounds the memory; a restarted worker would need as much again.
        "memory_limit": None,
        "preload": [IGNORE_INTERRUPTS],
    }
    with dask.config.set(settings):
        try:
            local = LocalCluster(**options)
        except (RuntimeError, OSError, TimeoutError) as error:
            raise SweepError(
                f"a worker process ended while it started ({error}): give fewer --workers if the "
                "memory is short; a script needs `if __name__ == '__main__':`"
            ) from None
        with local, Client(local, set_as_default=False) as client:
            client.wait_for_workers(workers.processes)
            yield client


@contextmanager
def _connected(workers: Workers) -> Iterator[Any]:
    from distributed import Client

    target = workers.scheduler or _address_in(str(workers.scheduler_file))
    place = target if isinstance(target, str) else target.scheduler_address
    try:
        client = Client(target, timeout=patience(), set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError, TimeoutError) as error:
        raise SweepError(f"no Dask scheduler answers at '{place}': {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=patience())
        except TimeoutError:
            raise SweepError(
                f"the Dask scheduler at '{place}' has no workers after {patience():g} s"
            ) from None
        found = client.get_versions(packages=MUST_AGREE)
        for address, worker in sorted(found["workers"].items()):
            if isinstance(worker, Mapping):
                check_same_versions(found["client"]["packages"], worker["packages"], address)
        yield client


def _address_in(path: str) -> str:
    """Return the address in a scheduler's file; wait for the file if necessary."""
    end = time.monotonic() + patience()
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except FileNotFoundError:
            reason = "it does not exist"
        except OSError as error:
            reason = str(error.strerror)
        except (ValueError, KeyError, TypeError, RecursionError):
            reason = "a scheduler did not write it"
        if time.monotonic() > end:
            raise SweepError(f"--scheduler-file '{path}': {reason} (waited {patience():g} s)")
        time.sleep(0.1)


def package_versions() -> dict[str, Any]:
    """Return this process's versions of Python and of the packages that must agree."""
    from distributed.versions import get_package_info

    return {k: v for k, v in get_package_info(MUST_AGREE).items() if k in ("python", *MUST_AGREE)}


def check_same_versions(mine: Mapping[str, Any], theirs: Mapping[str, Any], address: str) -> None:
    """Refuse a worker with other versions than this process.

    Parameters
    ----------
    mine, theirs : mapping
        Version by package, and Python's as ``python``; ``None`` for a package that is missing.
    address : str
        The worker.

    Raises
    ------
    SweepError
        The versions differ; the message names the worker, the package and both versions.
    """
    for name in ("python", *MUST_AGREE):
        one, other = (str(versions.get(name) or "") for versions in (mine, theirs))
        if name == "python":  # only the minor version matters for pickled functions and for Numba
            one, other = (".".join(version.split(".")[:2]) for version in (one, other))
        if one != other:
            difference = f"has {name} {other}" if other else f"lacks {name}"
            raise SweepError(
                f"the Dask worker at '{address}' {difference}, this process has {one}: "
                "its results could differ; install the same versions"
            )

"""Who computes: threads of this process, processes started for the run, or a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sweep.errors import SweepError

__all__ = ["Workers", "check_same", "cluster", "patience"]

MUST_AGREE = ("sweep", "numba", "llvmlite", "numpy", "numcodecs")
"""What the bits of results and the bytes of chunks depend on."""


@dataclass(frozen=True)
class Workers:
    """Who computes the chunks; this process's threads, if nothing is given.

    Parameters
    ----------
    scheduler : str, optional
        Address of a Dask scheduler.
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
        They exclude each other, or a number is below one.
    """

    scheduler: str | None = None
    scheduler_file: str | os.PathLike[str] | None = None
    processes: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        given = {
            "--scheduler": self.scheduler,
            "--scheduler-file": self.scheduler_file,
            "--workers": self.processes,
        }
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise SweepError(f"{' and '.join(named)} exclude each other: give one of them")
        for name, number in (("--workers", self.processes), ("--threads", self.threads)):
            if number is not None and number < 1:
                raise SweepError(f"{name} {number}: at least 1")
        if self.threads is not None and named in (["--scheduler"], ["--scheduler-file"]):
            raise SweepError(
                f"--threads {self.threads}: the workers of a cluster have their own number, "
                "given by `dask worker --nthreads`"
            )

    @property
    def is_cluster(self) -> bool:
        """Whether other processes compute."""
        named: tuple[object, ...] = (self.scheduler, self.scheduler_file, self.processes)
        return any(given is not None for given in named)


@contextmanager
def cluster(workers: Workers) -> Iterator[Any]:
    """Connect to a Dask cluster that has workers, or start one; yield its client.

    Yields ``None`` where the threads of this process compute. Waits for an address, a file and a
    first worker as long as Dask's own setting ``distributed.comm.timeouts.connect`` says.

    Raises
    ------
    SweepError
        The scheduler does not answer, has no workers, or a worker has other versions.
    """
    if not workers.is_cluster:
        yield None
    elif workers.processes is not None:
        with _started(workers.processes, workers.threads or 1) as client:
            yield client
    else:
        with _connected(workers) as client:
            yield client


def patience() -> float:
    """Return how long to wait for a cluster [s], as Dask is configured."""
    import dask
    from dask.utils import parse_timedelta

    return float(parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))


@contextmanager
def _started(processes: int, threads: int) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    options = {
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
        # Chunks bound the memory; a worker that is ended for its size would be ended again.
        "memory_limit": None,
        "preload": [_IGNORE_INTERRUPTS],
    }
    # Dask has a worker give all freed memory back; but each chunk takes as much as the last.
    environment = dict(dask.config.get(_ENVIRONMENT))
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)
    with (
        dask.config.set({_ENVIRONMENT: environment}),
        LocalCluster(n_workers=processes, threads_per_worker=threads, **options) as local,
        Client(local, set_as_default=False) as client,
    ):
        client.wait_for_workers(processes)
        yield client


_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"

# A terminal sends Ctrl-C to every process in it; this one alone has to end the others.
_IGNORE_INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@contextmanager
def _connected(workers: Workers) -> Iterator[Any]:
    from distributed import Client

    address = workers.scheduler or _address_in(str(workers.scheduler_file))
    place = f"the Dask scheduler at '{address}'"
    try:
        client = Client(address, timeout=patience(), set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise SweepError(f"no Dask scheduler answers at '{address}': {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=patience())
        except TimeoutError:
            raise SweepError(f"{place} has no workers after {patience():g} s") from None
        _check_versions(client)
        yield client


def _address_in(path: str) -> str:
    """Return the address that a scheduler wrote, or is about to write."""
    import json
    import time

    end = time.monotonic() + patience()
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except FileNotFoundError:
            reason = "it does not exist"
        except OSError as error:
            reason = str(error.strerror)
        except (ValueError, KeyError, TypeError):
            reason = "a scheduler did not write it"
        if time.monotonic() > end:
            raise SweepError(f"--scheduler-file '{path}': {reason} (waited {patience():g} s)")
        time.sleep(0.1)


def _check_versions(client: Any) -> None:
    """Refuse workers whose results could differ."""
    found = client.get_versions(packages=MUST_AGREE)
    for address, worker in sorted(found["workers"].items()):
        if isinstance(worker, Mapping):
            check_same(found["client"]["packages"], worker["packages"], address)


def check_same(mine: Mapping[str, Any], theirs: Mapping[str, Any], address: str) -> None:
    """Refuse a worker with other versions than this process.

    Parameters
    ----------
    mine, theirs : mapping
        Version by package, and Python's as ``python``; ``None`` for what is missing.
    address : str
        The worker.

    Raises
    ------
    SweepError
        Naming worker, package and both versions.
    """
    for name in ("python", *MUST_AGREE):
        one, other = (_told(name, versions.get(name)) for versions in (mine, theirs))
        if one != other:
            told = f"has {name} {other}" if other else f"lacks {name}"
            raise SweepError(
                f"the Dask worker at '{address}' {told}, this process has {one}: "
                "its results could differ; install the same versions"
            )


def _told(name: str, version: Any) -> str:
    # Of Python the minor version alone matters: to exchange functions, and to have Numba agree.
    return ".".join(str(version).split(".")[:2]) if name == "python" else str(version or "")

"""Who computes the chunks: threads of this process, or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from sweep.errors import SweepError
from sweep.workflows.job import Job, Unit

__all__ = ["cluster", "execute"]

Done = Callable[[Unit, dict[str, Any]], None]

IN_FLIGHT = 3  # units per worker thread that a cluster holds: one computes, the next are there


def execute(
    job: Job,
    units: Sequence[Unit],
    done: Done,
    *,
    client: Any = None,
    threads: int | None = None,
) -> None:
    """Run all units of work; ``done`` is called in this thread as each is finished.

    Parameters
    ----------
    job : Job
        Evaluates and writes one unit.
    units : sequence of Unit
        What is missing.
    done : callable
        Told the unit and its summary; it alone writes the journal.
    client : distributed.Client, optional
        From :func:`cluster`; by default this process's threads.
    threads : int, optional
        Threads of this process, all cores by default.

    Raises
    ------
    SweepError
        The cluster failed. What ``done`` was told is finished all the same.
    """
    if not units:
        return
    if client is None:
        _in_threads(job, units, done, threads or os.cpu_count() or 1)
    else:
        _on_cluster(job, units, done, client)


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster, or to none without an address.

    Raises
    ------
    SweepError
        The scheduler does not answer, or has no workers.
    """
    if address is None:
        yield None
        return
    from distributed import Client

    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise SweepError(f"no Dask scheduler answers at '{address}': {error}") from None
    with client:
        if not any(client.nthreads().values()):
            raise SweepError(f"the Dask scheduler at '{address}' has no workers")
        yield client


def _in_threads(job: Job, units: Sequence[Unit], done: Done, threads: int) -> None:
    """Run on Dask's threaded scheduler: a raw graph without edges, one task a chunk."""
    from dask.callbacks import Callback
    from dask.threaded import get

    def finished(key: Any, value: Any, *_: Any) -> None:
        if isinstance(value, tuple):
            done(*value)

    graph: dict[Any, Any] = {("unit", i): (job, unit) for i, unit in enumerate(units)}
    with Callback(posttask=finished):
        get(graph, list(graph), num_workers=threads)


def _on_cluster(job: Job, units: Sequence[Unit], done: Done, client: Any) -> None:
    """Run on a Dask cluster: a window of tasks in flight, summaries come back."""
    from distributed import CancelledError, KilledWorker, as_completed

    slots = sum(client.nthreads().values())
    waiting = iter(units)

    def submit(unit: Unit) -> Any:
        return client.submit(_apply, shared, unit, pure=False)

    try:
        shared = client.scatter(job, broadcast=True, hash=False)
        first = [submit(unit) for unit in islice(waiting, IN_FLIGHT * slots)]
        futures = as_completed(first, loop=client.loop)
        for future in futures:
            done(*future.result())
            future.release()
            for unit in islice(waiting, 1):
                futures.add(submit(unit))
    except (KilledWorker, CancelledError, OSError, TimeoutError) as error:
        raise SweepError(f"the Dask cluster failed: {error}; the same command continues") from error


def _apply(job: Job, unit: Unit) -> Any:
    return job(unit)

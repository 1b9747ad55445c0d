"""Have the units of a run computed, and hear of each one that is finished."""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from sweep.errors import SweepError
from sweep.runs.job import Job, Unit, Work
from sweep.runs.workers import check_same_versions, package_versions, patience

__all__ = ["batch_size", "execute", "prepare"]

Done = Callable[[Unit, dict[str, Any]], None]

MAX_TASKS = 20_000
"""Tasks of a whole run, about: each costs the scheduler some milliseconds and some memory."""
TASK_POINTS = 16_000_000
"""Configurations that a task takes: half a second of work or more, of which its some milliseconds
are a small part."""
TASKS_PER_SLOT = 8
"""Tasks that every worker thread gets at least, so that all end at about the same time."""
IN_FLIGHT = 3
"""Tasks per worker thread that a cluster holds: one computes, the next are there."""
LOOK_S = 2.0
"""How often to look who has joined or left."""


def prepare(job: Job, client: Any = None) -> None:
    """Compile on every worker what the run needs, before the clock starts.

    Parameters
    ----------
    job : Job
        What will be run.
    client : distributed.Client, optional
        A cluster; by default this process alone.

    Raises
    ------
    SweepError
        The cluster failed.
    """
    if client is None:
        job.warm_up()
        return
    with _explained(), _shared(job, client) as shared:
        # Tasks, because what a worker runs outside of them stops its heart for the time.
        options = {"allow_other_workers": True, "pure": False}
        addresses = list(client.nthreads())
        futures = [client.submit(_warm, shared, workers=a, **options) for a in addresses]
        client.gather(futures)


def execute(
    job: Work,
    units: Sequence[Unit],
    done: Done,
    *,
    points: int = 0,
    client: Any = None,
    threads: int | None = None,
) -> None:
    """Run all units of work; ``done`` is called in this thread as each is finished.

    Parameters
    ----------
    job : Work
        Evaluates and writes one unit.
    units : sequence of Unit
        What is missing.
    done : callable
        Told the unit and its summary; it alone writes the journal.
    points : int
        Configurations of all units together: small ones share a task of a cluster.
    client : distributed.Client, optional
        From :func:`sweep.runs.workers.cluster`; by default this process's threads.
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
        return
    size = batch_size(len(units), points, _slots(client))
    with _explained(), _shared(job, client) as shared:
        _on_cluster(shared, units, size, done, client)


def batch_size(n_units: int, points: int, slots: int) -> int:
    """Return how many units one task of a cluster takes.

    Parameters
    ----------
    n_units : int
        Units of the run.
    points : int
        Configurations of all units together.
    slots : int
        Threads of all workers.

    Returns
    -------
    int
        As many as are worth a task; fewer where each thread would get too few tasks, more of very
        many.
    """
    enough = TASK_POINTS * n_units // max(points, 1)
    balanced = n_units // (max(slots, 1) * TASKS_PER_SLOT)
    return max(1, min(enough, balanced), math.ceil(n_units / MAX_TASKS))


def _in_threads(job: Work, units: Sequence[Unit], done: Done, threads: int) -> None:
    """Run in a pool of threads, in the order of the units: neighbours share tables."""
    waiting = iter(units)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sweep-run")
    try:
        running = {pool.submit(job, unit) for unit in islice(waiting, 2 * threads)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(job, unit) for unit in islice(waiting, len(finished))}
            for future in finished:
                done(*future.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _on_cluster(shared: Any, units: Sequence[Unit], size: int, done: Done, client: Any) -> None:
    """Run on a Dask cluster: a window of tasks in flight, summaries come back."""
    batches = (units[i : i + size] for i in range(0, len(units), size))
    versions = package_versions()
    finished: SimpleQueue[Any] = SimpleQueue()
    flying: set[Any] = set()
    slots, looked = _slots(client), time.monotonic()
    seen = looked  # when there was a worker
    while True:
        for batch in islice(batches, max(IN_FLIGHT * slots - len(flying), 0)):
            future = client.submit(_apply, shared, list(batch), versions, pure=False)
            flying.add(future)
            future.add_done_callback(finished.put)
        if slots and not flying:
            return
        try:
            future = finished.get(timeout=LOOK_S)
        except Empty:
            pass
        else:
            if future.done() and (results := _fetched(future)) is not None:
                for unit, summary in results:
                    done(unit, summary)
                flying.discard(future)
                future.release()
            else:  # its worker died with the result: another one computes it again
                future.add_done_callback(finished.put)
        if time.monotonic() > looked + LOOK_S:
            slots, looked = _slots(client), time.monotonic()
            seen = looked if slots else seen
            if looked > seen + patience():
                raise SweepError(
                    f"the Dask cluster has had no workers for {patience():g} s; "
                    "the same command continues"
                )


@contextmanager
def _shared(job: Work, client: Any) -> Iterator[Any]:
    """Lend the job to all workers: as a task's result, which outlives those who hold it."""
    future = client.submit(_same, job, pure=False)
    client.replicate([future])
    yield future
    future.release()


@contextmanager
def _explained() -> Iterator[None]:
    """Say in one line that a cluster failed."""
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except (KilledWorker, CancelledError, OSError, TimeoutError) as error:
        reason = " ".join(str(error).split())
        raise SweepError(
            f"the Dask cluster failed: {reason}; the same command continues"
        ) from error
    except (ImportError, AttributeError) as error:
        raise SweepError(
            f"a Dask worker cannot load this package: {error}; install the same versions"
        ) from error


def _fetched(future: Any) -> list[tuple[Unit, dict[str, Any]]] | None:
    """Return a task's result, or ``None`` where it is lost or does not come."""
    from distributed import TimeoutError as NotYet

    try:
        found: list[tuple[Unit, dict[str, Any]]] = pickle.loads(future.result(timeout=LOOK_S))
    except NotYet:
        return None
    return found


def _slots(client: Any) -> int:
    return sum(client.nthreads().values())


def _same(job: Work) -> Work:
    return job


def _warm(job: Job) -> None:
    job.warm_up()


def _apply(job: Work, units: Sequence[Unit], versions: Mapping[str, Any]) -> bytes:
    """Compute a batch on a worker, which may have joined after the others were looked at.

    Returned pickled: of a nest of lists Dask measures and packs every part, which takes it longer
    than all else that it does for a task.
    """
    if versions != (own := package_versions()):
        from distributed import get_worker

        check_same_versions(versions, own, get_worker().address)
    return pickle.dumps([job(unit) for unit in units], pickle.HIGHEST_PROTOCOL)

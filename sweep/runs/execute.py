"""Compute the chunks of a run, or the shares of a question, in threads or on a Dask cluster."""

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
from sweep.evaluation.reducing import Progress, Task
from sweep.reduction import Kept
from sweep.runs.job import Job, Share, Unit, Work
from sweep.runs.record import record_of
from sweep.runs.workers import check_same_versions, package_versions, patience
from sweep.space import Space

Done = Callable[[Unit, dict[str, Any]], None]

MAX_TASKS = 20_000
"""Approximate largest number of tasks in a run: each costs the scheduler time and memory."""
TASK_POINTS = 16_000_000
"""Configurations per task: half a second of work or more, so that the milliseconds for scheduling
are a small part."""
TASKS_PER_SLOT = 8
"""Smallest number of tasks per worker thread, so that all threads end at about the same time."""
IN_FLIGHT = 3
"""Submitted tasks per worker thread: one runs, the others are ready to start."""
CHECK_S = 2.0
"""Time between two checks for workers that joined or left [s]."""
SMALLEST_SHARE = 1 << 24
"""Smallest number of evaluations of a question for which a separate task pays off."""


def prepare(job: Job, client: Any = None) -> None:
    """Compile the passes of a run on every worker, before its time is measured.

    Parameters
    ----------
    job : Job
        The run.
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
    with _errors_explained(), _shared(job, client) as shared:
        # Compilation is submitted as tasks, because other work blocks a worker's heartbeat.
        options = {"allow_other_workers": True, "pure": False}
        client.gather(
            [client.submit(Job.warm_up, shared, workers=a, **options) for a in client.nthreads()]
        )


def execute(
    job: Work,
    units: Sequence[Unit],
    done: Done,
    *,
    points: int = 0,
    client: Any = None,
    threads: int | None = None,
) -> None:
    """Run all units of work; call ``done`` in this thread for each finished unit.

    Parameters
    ----------
    job : Work
        Computes one unit.
    units : sequence of Unit
        The missing units.
    done : callable
        Called with each unit and its summary; only this function writes the journal.
    points : int
        Configurations of all units in total; several small units share a task of a cluster.
    client : distributed.Client, optional
        From :func:`sweep.runs.workers.cluster`; by default the threads of this process compute.
    threads : int, optional
        Threads of this process, all cores by default.

    Raises
    ------
    SweepError
        The cluster failed. Units for which ``done`` was called are finished.
    """
    if not units:
        return
    if client is None:
        _in_threads(job, units, done, threads or os.cpu_count() or 1)
        return
    size = batch_size(len(units), points, _slots(client))
    with _errors_explained(), _shared(job, client) as shared:
        _on_cluster(shared, units, size, done, client)


def on_cluster(
    client: Any, space: Space, task: Task, threads: int | None, progress: Progress | None
) -> list[Kept]:
    """Reduce a kernel's grid on the workers of a Dask cluster, whose threads are their own.

    With a client and the space bound, it takes the place of
    :func:`sweep.evaluation.reducing.reduce_in_threads`.

    Raises
    ------
    SweepError
        The cluster failed.
    """
    total, n_pieces, kernel = task.n_evaluations, len(task.pieces), task.reduction.kernel
    n = max(1, min(n_pieces, TASKS_PER_SLOT * _slots(client), total // SMALLEST_SHARE))
    bounds = [n_pieces * i // n for i in range(n + 1)]
    share = Share.of(space, record_of(space), reduction=task.reduction, bounds=bounds)
    found: list[Kept] = []
    done = 0

    def take(_: Unit, result: dict[str, Any]) -> None:
        nonlocal done
        found.extend(result["kept"])
        done += result["evaluations"]
        if progress is not None:
            progress(done, total)

    units = [(kernel, number) for number in range(n)]
    execute(share, units, take, points=task.selected.n_points, client=client)
    return found


def batch_size(n_units: int, points: int, slots: int) -> int:
    """Return the number of units per task of a cluster.

    Parameters
    ----------
    n_units : int
        Units of the run.
    points : int
        Configurations of all units in total.
    slots : int
        Threads of all workers.

    Returns
    -------
    int
        Enough units to justify a task; fewer if each thread would get too few tasks, more if there
        would be too many tasks.
    """
    enough = TASK_POINTS * n_units // max(points, 1)
    balanced = n_units // (max(slots, 1) * TASKS_PER_SLOT)
    return max(1, min(enough, balanced), math.ceil(n_units / MAX_TASKS))


def _in_threads(job: Work, units: Sequence[Unit], done: Done, threads: int) -> None:
    """Run in a pool of threads, in the order of the units, because neighbours share tables."""
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
    """Run on a Dask cluster with a bounded number of submitted tasks, which return summaries."""
    batches = (units[i : i + size] for i in range(0, len(units), size))
    versions = package_versions()
    finished: SimpleQueue[Any] = SimpleQueue()
    in_flight: set[Any] = set()
    slots, checked = _slots(client), time.monotonic()
    last_with_workers = checked
    while True:
        for batch in islice(batches, max(IN_FLIGHT * slots - len(in_flight), 0)):
            future = client.submit(_compute_batch, shared, list(batch), versions, pure=False)
            in_flight.add(future)
            future.add_done_callback(finished.put)
        if slots and not in_flight:
            return
        try:
            future = finished.get(timeout=CHECK_S)
        except Empty:
            pass
        else:
            if future.done() and (results := _result(future)) is not None:
                for unit, summary in results:
                    done(unit, summary)
                in_flight.discard(future)
                future.release()
            else:  # the worker died with the result, so another one computes it again
                future.add_done_callback(finished.put)
        if time.monotonic() > checked + CHECK_S:
            slots, checked = _slots(client), time.monotonic()
            last_with_workers = checked if slots else last_with_workers
            if checked > last_with_workers + patience():
                raise SweepError(
                    f"the Dask cluster has had no workers for {patience():g} s; "
                    "the same command continues"
                )


@contextmanager
def _shared(job: Work, client: Any) -> Iterator[Any]:
    """Send the job to all workers as the result of a task, which survives the loss of a worker."""
    future = client.submit(_unchanged, job, pure=False)
    client.replicate([future])
    yield future
    future.release()


@contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn errors of the cluster into one line."""
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


def _result(future: Any) -> list[tuple[Unit, dict[str, Any]]] | None:
    """Return a task's result, or ``None`` if it is lost or does not arrive."""
    from distributed import TimeoutError as NotYet

    try:
        return pickle.loads(future.result(timeout=CHECK_S))
    except NotYet:
        return None


def _slots(client: Any) -> int:
    return sum(client.nthreads().values())


def _unchanged(job: Work) -> Work:
    return job


def _compute_batch(job: Work, units: Sequence[Unit], versions: Mapping[str, Any]) -> bytes:
    """Compute a batch on a worker, which may have joined after the versions were compared.

    The result is pickled here, because Dask would measure and pack every part of nested lists,
    which takes longer than all its other work for a task.
    """
    if versions != (own := package_versions()):
        from distributed import get_worker

        check_same_versions(versions, own, get_worker().address)
    return pickle.dumps([job(unit) for unit in units], pickle.HIGHEST_PROTOCOL)

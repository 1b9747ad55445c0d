"""Run a plan into a store, continue, repeat, verify and repair it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.errors import PlanError, StoreError
from sweep.runs.execute import execute, prepare
from sweep.runs.job import Job, Unit
from sweep.runs.record import Source, layout_of, recorded_space, space_of
from sweep.runs.run_size import Forecast, check_fits, check_valid, forecast
from sweep.runs.verifying import verify
from sweep.runs.workers import Workers, cluster
from sweep.space import Plan, Space
from sweep.store import open_store
from sweep.store.buckets import files_of, is_url, place_of
from sweep.store.root import inspect
from sweep.store.verify import Damage, noted, repair_files, repair_root
from sweep.store.writer import ChunkWriter, Store, open_or_create

if TYPE_CHECKING:
    import xarray as xr

    from sweep.evaluation.planned import Planned

Progress = Callable[[int, int, int], None]
"""Called with the points done, all points, and the points that an earlier run had done."""


@dataclass(frozen=True)
class Finished:
    """A finished run.

    Attributes
    ----------
    space : Space
        The space of the plan.
    path : Path or None
        The store; ``None`` if the plan has none.
    forecast : Forecast
        The size of the run.
    computed : int
        Configurations computed now, including those of chunks that ``verify`` found damaged.
    resumed : int
        Configurations that an earlier run had computed.
    seconds : float
        Elapsed time of the computation, without compilation [s].
    """

    space: Space
    path: Path | None
    forecast: Forecast
    computed: int
    resumed: int
    seconds: float

    @property
    def results(self) -> xr.DataTree | Planned:
        """The results for questions: the store as a lazy tree, or the plan if there is no store."""
        if self.path is not None:
            return open_store(self.path)
        from sweep.evaluation.planned import Planned  # imports xarray

        return Planned(self.space)


def store_path(plan: Plan, store: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of a plan's store: the argument, the plan's setting, or ``./NAME.zarr``."""
    if store is None:
        if plan.store is False:
            return None
        store = plan.store if isinstance(plan.store, str) else f"{plan.name}.zarr"
    return place_of(store) if is_url(store) else Path(store)


def run(
    plan: Source,
    store: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    break_lock: bool = False,
    scheduler: Any = None,
    scheduler_file: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    threads: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Evaluate a plan and write its results, continuing an interrupted run.

    Chunks that :func:`~sweep.runs.verify` found damaged are computed again.

    Parameters
    ----------
    plan : Plan, Space, str or path
        A plan, or the name or path of one.
    store : path, optional
        The store, or its URL (``s3://BUCKET/NAME.zarr``); by default that of the plan.
    overwrite : bool
        Replace the store of another run.
    break_lock : bool
        Take over the store's lock from a run of another machine that is surely gone.
    scheduler : str or distributed.deploy.Cluster, optional
        Address of a Dask scheduler, or a Dask cluster, whose workers have access to the store.
        Everyone who can connect to it can run code as the owner of this process.
    scheduler_file : path, optional
        File in which such a scheduler wrote its address (``dask scheduler --scheduler-file``).
    workers : int, optional
        Number of processes to start on this machine. A script then needs the usual
        ``if __name__ == "__main__":``, because each process imports it.
    threads : int, optional
        Threads of this process, all cores by default; with ``workers``, threads of each, one by
        default.
    limit : int, optional
        Most bytes of results, before compression.
    progress : callable, optional
        Called with the progress of the run.

    Returns
    -------
    Finished
        The outcome; ``.results`` opens the results.

    Raises
    ------
    SweepError
        The plan is wrong, none of its configurations can be valid, the results do not fit, or the
        store cannot be used. Nothing is left half-written; an interrupted store can be continued.
    """
    space = space_of(plan)
    path = store_path(space.plan, store)
    computing = Workers(scheduler, scheduler_file, workers, threads)
    if computing.is_cluster and path is None:
        raise PlanError(f"{space.plan.origin}: a run on a cluster needs a store")
    if computing.is_cluster and str(path).startswith("memory:"):
        raise PlanError(f"'{path}' is in the memory of this process: other processes cannot see it")
    expected = forecast(space)
    is_new = path is None or overwrite or not files_of(path).exists("zarr.json")
    if is_new:
        check_fits(expected, path, limit)
        check_valid(space)
    if path is None:
        return Finished(space, None, expected, 0, 0, 0.0)
    layout = layout_of(space)
    repaired = 0
    if not is_new and (found := noted(path)) and inspect(path).layout_sha256 == layout.fingerprint:
        repaired = _repair(path, space, found, threads, break_lock)
    # Connect first, so that a wrong address leaves no store behind.
    with (
        cluster(computing) as client,
        open_or_create(path, layout, overwrite=overwrite, break_lock=break_lock) as target,
    ):
        job = Job.of(space, layout.record, writer=target.writer)
        computed, seconds = compute_missing(
            target, space, job, client=client, threads=threads, progress=progress
        )
    resumed = space.n_points - computed - repaired
    return Finished(space, path, expected, computed + repaired, resumed, seconds)


def compute_missing(
    store: Store,
    space: Space,
    job: Job,
    *,
    client: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    run: Mapping[str, Any] | None = None,
) -> tuple[int, float]:
    """Compute the chunks that a store lacks and complete it.

    Parameters
    ----------
    store : Store
        The store, open.
    space : Space
        What it is to hold.
    job : Job
        Computes and writes one chunk.
    client : distributed.Client, optional
        A cluster; by default this process computes.
    threads : int, optional
        Threads of this process.
    progress : callable, optional
        Called with the points that are done.
    run : mapping, optional
        Further entries of the store's root attribute ``run``.

    Returns
    -------
    computed : int
        Configurations that were computed.
    seconds : float
        Wall time without the compilation before it [s].
    """
    units = store.missing()
    if not units and store.is_finished:
        return 0, 0.0
    sizes = {(name, i): space[name].grid.box(i).n_points for name, i in units}
    total, todo = space.n_points, sum(sizes.values())
    count = before = total - todo
    report = progress or (lambda *_: None)

    def done(unit: Unit, summary: dict[str, Any]) -> None:
        nonlocal count
        store.mark_finished([(*unit, summary)])
        count += sizes[unit]
        report(count, total, before)

    if units:
        prepare(job, client)
    report(before, total, before)
    started = time.perf_counter()
    execute(job, units, done, points=todo, client=client, threads=threads)
    store.complete({"configurations": total, **(run or {})})
    return todo, time.perf_counter() - started


def rerun(
    store: str | os.PathLike[str], target: str | os.PathLike[str], **options: Any
) -> Finished:
    """Compute a store's results again from the store's own record.

    Plan, device files and kernel files come from the store's record, not from disk.

    Parameters
    ----------
    store : path
        A store, finished or not.
    target : path
        The new store.
    **options
        As in :func:`run`.

    Raises
    ------
    SweepError
        The store cannot be read, or the target is the store itself, or as in :func:`run`.
    """
    if place_of(store) == place_of(target):
        raise StoreError(f"'{target}' is the store itself; give another path for the new results")
    return run(recorded_space(store), target, **options)


def repair(
    store: str | os.PathLike[str], damages: Sequence[Damage], *, threads: int | None = None
) -> int:
    """Compute damaged chunks again from the store's own record, and write only those.

    Parameters
    ----------
    store : path
        A store.
    damages : sequence of Damage
        From :func:`verify`.
    threads : int, optional
        Threads of this process; all cores by default.

    Returns
    -------
    int
        Configurations that were computed again.

    Raises
    ------
    SweepError
        A run is writing the store, the store is not writable, another version computed it, or its
        root is damaged in a part of which there is no copy.
    """
    if any(damage.key == "zarr.json" for damage in damages):
        repair_root(store)
        damages = verify(store)
    record = inspect(store).record
    if not damages:
        return 0
    return _repair(store, space_of(record), damages, threads)


def _repair(
    store: str | os.PathLike[str],
    space: Space,
    damages: Sequence[Damage],
    threads: int | None,
    break_lock: bool = False,
) -> int:
    """Compute the damaged chunks of a store of this space again."""
    layout = layout_of(space)

    def compute(writer: ChunkWriter, units: Sequence[Unit]) -> dict[Unit, dict[str, Any]]:
        summaries: dict[Unit, dict[str, Any]] = {}
        job = Job.of(space, layout.record, writer=writer)
        if units:
            prepare(job)
        execute(job, units, summaries.__setitem__, threads=threads)
        return summaries

    keys = [damage.key for damage in damages]
    units = repair_files(store, layout, keys, compute, break_lock=break_lock)
    return sum(space[kernel].grid.box(chunk).n_points for kernel, chunk in units)

"""``sweep extend``: extend a finished store to a larger plan, computing only new results."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.evaluation import warm_up
from sweep.runs.execute import execute
from sweep.runs.extension_job import ExtensionJob
from sweep.runs.forecasting import check_fits, forecast
from sweep.runs.job import Job, Unit
from sweep.runs.record import layout_of, plan_of, texts_of
from sweep.runs.reuse import Reuse, reuse_of
from sweep.runs.running import Finished, Progress
from sweep.space import Plan, Space, load_plan, resolve
from sweep.store import (
    Store,
    StoreLayout,
    acquire_lock,
    exchange,
    extension_path,
    files_of,
    inspect,
    is_url,
    open_or_create,
    place_of,
    recovered,
)

__all__ = ["extend"]


def extend(
    store: str | os.PathLike[str],
    plan: Plan | Space | str | os.PathLike[str],
    *,
    break_lock: bool = False,
    threads: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Grow a finished store to a larger plan, without computing again what it has.

    The larger store is built beside the old one and replaces it at the end; after an interruption
    the same call continues. The result equals the store of a run of the larger plan, to the bit.
    The root attribute ``run`` contains a history.

    Objects in a bucket cannot be renamed, so they are copied one by one. Meanwhile there is no
    store at the old place; if the process is killed then, the same call completes the replacement.

    Parameters
    ----------
    store : path
        A finished store, or its URL.
    plan : Plan, Space, str or path
        A plan with all values of the store's plan and additional devices, models, kernels, sizes,
        tuning parameters or clocks.
    break_lock : bool
        Take over the store's lock from a run of another machine that is surely gone.
    threads : int, optional
        Threads of this process; all cores by default.
    limit : int, optional
        Most bytes of results, before compression.
    progress : callable, optional
        Called with the progress of the extension.

    Returns
    -------
    Finished
        The outcome; ``computed`` counts new configurations, ``resumed`` those of the old store.

    Raises
    ------
    SweepError
        The plan lacks values of the store, its results would differ, the disk is too small, or the
        store is unfinished or in use.
    """
    space = plan if isinstance(plan, Space) else resolve(
        plan if isinstance(plan, Plan) else load_plan(plan))  # fmt: skip
    path = place_of(store)
    recovered(path, break_lock=break_lock)  # from an interrupted replacement
    info = inspect(store)
    if not info.is_finished:
        raise StoreError(f"'{store}' is unfinished: complete it with `sweep run` first")
    expected, layout, total = forecast(space), layout_of(space), space.n_points
    if info.record["identity"] == layout.record["identity"]:
        return Finished(space, _named(store), expected, 0, total, 0.0)
    old = resolve(plan_of(info.record), texts_of(info.record))
    reuse = reuse_of(old, space, info.record, str(store))
    check_fits(expected, path, limit)
    past = {**info.run, "plan": info.record["plan"]}
    history = [*past.pop("history", []), past]
    new = total - old.n_points
    beside = extension_path(path)
    lock = acquire_lock(path, store, break_lock)  # nobody may replace the store meanwhile
    try:
        if inspect(store) != info:
            raise StoreError(f"'{store}' was replaced meanwhile; try again")
        with _larger(beside, layout, break_lock) as larger:
            seconds = _build(space, reuse, path, larger, layout, history, threads, progress)
        exchange(path, beside, lock)
    finally:
        lock.release()
    return Finished(space, _named(store), expected, new, old.n_points, seconds)


def _named(store: str | os.PathLike[str]) -> Path:
    """Return a store's path as the user wrote it."""
    return place_of(store) if is_url(store) else Path(store)


def _larger(beside: Path, layout: StoreLayout, break_lock: bool) -> Store:
    """Return the larger store, either new or from an interrupted extension."""
    there = files_of(beside).exists("zarr.json")
    overwrite = there and inspect(beside).layout_sha256 != layout.fingerprint()
    return open_or_create(beside, layout, overwrite=overwrite, break_lock=break_lock)


def _build(
    space: Space,
    reuse: Reuse,
    path: Path,
    larger: Store,
    layout: StoreLayout,
    history: list[Any],
    threads: int | None,
    progress: Progress | None,
) -> float:
    """Compute the missing chunks of the larger store; return the time without compilation [s].

    As of a run, the compiler's time does not count.
    """
    grids = {k.kernel.key: k.grid for k in space.kernels}
    total = space.n_points
    units = larger.missing()
    if larger.is_finished:
        return 0.0
    record = layout.record
    job = Job(record["plan"], texts_of(record), larger.writer, str(record["identity"]), [space])
    before = total - sum(grids[kernel].box(chunk).n_points for kernel, chunk in units)
    count = before

    def done(unit: Unit, summary: dict[str, Any]) -> None:
        nonlocal count
        kernel, chunk = unit
        larger.mark_finished([(kernel, chunk, summary)])
        count += grids[kernel].box(chunk).n_points
        if progress is not None:
            progress(count, total, before)

    warm_up(space.kernels, space.plan)
    started = time.perf_counter()
    if progress is not None:
        progress(count, total, before)
    execute(ExtensionJob(job, path, reuse), units, done, threads=threads)
    larger.complete({"configurations": total, "history": history})
    return time.perf_counter() - started

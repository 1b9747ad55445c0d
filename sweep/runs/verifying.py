"""``sweep verify``: whether a store is what was written, and mending it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sweep.evaluation import warm_up
from sweep.runs.execute import execute
from sweep.runs.job import Job, Unit
from sweep.runs.record import layout_of, plan_of, texts_of
from sweep.space import Space, resolve
from sweep.store import Damage, StoreLayout, inspect, mending, noted, read_record
from sweep.store import verify as look

__all__ = ["mend_noted", "repair", "verify"]


def verify(store: str | os.PathLike[str]) -> list[Damage]:
    """Return the files of a store that are missing, truncated or changed.

    Parameters
    ----------
    store : path
        A store, finished or not. What is found is noted in it, if it can be written.

    Returns
    -------
    list of Damage
        Each with the file's place in the store (``key``) and what is wrong (``problem``); empty
        for a sound store.

    Raises
    ------
    StoreError
        There is no store, or its root is damaged.
    """
    if inspect(store).is_finished:
        return look(store)
    record = read_record(store)
    return look(store, layout_of(resolve(plan_of(record), texts_of(record))))


def repair(
    store: str | os.PathLike[str], damages: Sequence[Damage], *, threads: int | None = None
) -> int:
    """Compute damaged chunks again, from what the store itself keeps, and write just those.

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
        A run writes the store, it cannot be written, or another version computed it.
    """
    record = read_record(store)
    space = resolve(plan_of(record), texts_of(record))
    return _mend(store, space, layout_of(space), damages, threads)


def mend_noted(
    store: str | os.PathLike[str],
    space: Space,
    layout: StoreLayout,
    threads: int | None,
    break_lock: bool = False,
) -> int:
    """Mend what the last :func:`verify` found in a store of this very space; see :func:`repair`."""
    damages = noted(store)
    if not damages or inspect(store).layout_sha256 != layout.fingerprint():
        return 0
    return _mend(store, space, layout, damages, threads, break_lock)


def _mend(
    store: str | os.PathLike[str],
    space: Space,
    layout: StoreLayout,
    damages: Sequence[Damage],
    threads: int | None,
    break_lock: bool = False,
) -> int:
    record: Any = layout.record
    grids = {k.kernel.key: k.grid for k in space.kernels}
    keys = [damage.key for damage in damages]
    with mending(store, layout, keys, break_lock=break_lock) as place:
        place.restore()
        units = place.units()
        summaries: dict[Unit, dict[str, Any]] = {}

        def done(unit: Unit, summary: dict[str, Any]) -> None:
            summaries[unit] = summary

        if units:
            warm_up(space.kernels, space.plan)
        job = Job(record["plan"], texts_of(record), place.writer, str(record["identity"]), [space])
        execute(job, units, done, threads=threads)
        place.complete((*unit, summaries[unit]) for unit in units)
    return sum(grids[kernel].box(chunk).n_points for kernel, chunk in units)

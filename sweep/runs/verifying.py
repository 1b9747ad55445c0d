"""``sweep verify``: check that a store is unchanged, and repair it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from sweep.runs.execute import execute, prepare
from sweep.runs.job import Job, Unit
from sweep.runs.record import layout_of, plan_of, texts_of
from sweep.space import Space, resolve
from sweep.store import Damage, StoreLayout, inspect, noted, read_record, repair_root, repairing
from sweep.store import verify as look
from sweep.store.root import DamagedRootError

__all__ = ["repair", "repair_noted", "verify"]

ROOT = "zarr.json"


def verify(store: str | os.PathLike[str]) -> list[Damage]:
    """Return the files of a store that are missing, truncated or changed.

    Parameters
    ----------
    store : path
        A store, finished or not. Findings are recorded in it, if it is writable.

    Returns
    -------
    list of Damage
        The path of each damaged file in the store (``key``) and the damage (``problem``); empty for
        a sound store.

    Raises
    ------
    StoreError
        There is no store.
    """
    layout = None
    with contextlib.suppress(DamagedRootError):  # the check reports it
        info = inspect(store)
        if not info.is_finished:
            layout = layout_of(resolve(plan_of(info.record), texts_of(info.record)))
    return look(store, layout)


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
    if any(damage.key == ROOT for damage in damages):
        repair_root(store)
        damages = verify(store)
    record = read_record(store)
    if not damages:
        return 0
    space = resolve(plan_of(record), texts_of(record))
    return _repair(store, space, layout_of(space), damages, threads)


def repair_noted(
    store: str | os.PathLike[str],
    space: Space,
    layout: StoreLayout,
    threads: int | None,
    break_lock: bool = False,
) -> int:
    """Repair the damages that the last :func:`verify` found in a store of this space."""
    damages = noted(store)
    if not damages or inspect(store).layout_sha256 != layout.fingerprint():
        return 0
    return _repair(store, space, layout, damages, threads, break_lock)


def _repair(
    store: str | os.PathLike[str],
    space: Space,
    layout: StoreLayout,
    damages: Sequence[Damage],
    threads: int | None,
    break_lock: bool = False,
) -> int:
    grids = {k.kernel.key: k.grid for k in space.kernels}
    keys = [damage.key for damage in damages]
    with repairing(store, layout, keys, break_lock=break_lock) as place:
        place.restore()
        units = place.units()
        summaries: dict[Unit, dict[str, Any]] = {}

        job = Job.of(space, layout, place.writer)
        if units:
            prepare(job)
        execute(job, units, summaries.__setitem__, threads=threads)
        place.complete((*unit, summaries[unit]) for unit in units)
    return sum(grids[kernel].box(chunk).n_points for kernel, chunk in units)

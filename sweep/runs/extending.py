"""``sweep extend``: extend a finished store to a larger plan, computing only new results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import StoreError
from sweep.evaluation import Variable, evaluate_box, variables
from sweep.runs.forecasting import check_fits, forecast
from sweep.runs.job import Job, Unit
from sweep.runs.record import layout_of, plan_of, texts_of
from sweep.runs.reuse import Reuse, reuse_of
from sweep.runs.running import Finished, Progress, compute_missing
from sweep.space import Box, Dimension, Grid, KernelSpace, Plan, Space, load_plan, resolve
from sweep.store import (
    Store,
    StoredArray,
    StoredGroup,
    StoreLayout,
    acquire_lock,
    chunk_key,
    exchange,
    extension_path,
    files_of,
    inspect,
    is_url,
    open_groups,
    open_or_create,
    place_of,
    recovered,
)

__all__ = ["extend"]

Array = NDArray[Any]


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
            job = ExtensionJob.of(space, layout, larger.writer, extended=path, reuse=reuse)
            _, seconds = compute_missing(
                larger, space, job, threads=threads, progress=progress, run={"history": history}
            )
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


@dataclass(frozen=True, kw_only=True)
class ExtensionJob(Job):
    """Writes chunks of a larger store: reads what the old store has and evaluates the rest.

    Attributes
    ----------
    extended : Path
        The old store.
    reuse : Reuse
        Which points it has.
    """

    extended: Path
    reuse: Reuse
    _stored: dict[str, StoredGroup] = field(default_factory=dict, compare=False, repr=False)

    def _arrays(self, kernel: str) -> dict[str, StoredArray]:
        """Return the old store's arrays, opened once; the extension holds the store's lock."""
        if not self._stored:
            self._stored.update(open_groups(self.extended))
        return self._stored[kernel].variables

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Write one chunk; return its summary for the journal."""
        kernel, chunk = unit
        space = self.space()
        places = self.reuse.places.get(kernel)
        if places is None:
            return super().__call__(unit)
        part = space[kernel]
        box = part.grid.box(chunk)
        at = [places[n][s] for n, s in zip(part.grid.names, box.slices, strict=True)]
        known = [np.flatnonzero(a >= 0) for a in at]
        if any(not k.size for k in known) or (self.reuse.models < 0).all():
            return super().__call__(unit)
        found = variables(part, space.plan)
        n_models = len(space.plan.models)
        arrays = {
            v.name: np.empty(((n_models,) if "model" in v.dims else ()) + tuple(
                n for name, n in zip(part.grid.names, box.shape, strict=True) if name in v.dims
            ), v.dtype)
            for v in found
        }  # fmt: skip
        self._evaluate(part, space.plan, box, known, found, arrays)
        self._read(kernel, part.grid.names, at, known, found, arrays)
        linked = self._link(unit, part.grid, at, found)
        return unit, self.store(unit, arrays, linked)

    def _evaluate(
        self,
        part: KernelSpace,
        plan: Plan,
        box: Box,
        known: Sequence[Array],
        found: Sequence[Variable],
        arrays: Mapping[str, Array],
    ) -> None:
        """Evaluate the results that the old store lacks."""
        everything = np.arange(len(plan.models))
        for inside in _rest(known, box.shape):
            got = _evaluated(part, plan, box, inside, found)
            _put(arrays, got, found, part.grid.names, everything, inside)
        fresh = np.flatnonzero(self.reuse.models < 0)
        if fresh.size:
            names = tuple(plan.models[i] for i in fresh)
            options = {m: o for m, o in plan.options.items() if m in names}
            own = [v for v in found if "model" in v.dims or v.model in names]
            got = _evaluated(part, replace(plan, models=names, options=options), box, known, own)
            _put(arrays, got, own, part.grid.names, fresh, known)

    def _read(
        self,
        kernel: str,
        names: Sequence[str],
        at: Sequence[Array],
        known: Sequence[Array],
        found: Sequence[Variable],
        arrays: Mapping[str, Array],
    ) -> None:
        """Read the results that the old store has."""
        stored = self._arrays(kernel)
        old = np.flatnonzero(self.reuse.models >= 0)
        inside = {"model": old, **dict(zip(names, known, strict=True))}
        places = {"model": self.reuse.models[old]}
        places |= {n: a[k] for n, a, k in zip(names, at, known, strict=True)}
        for variable in found:
            if variable.name not in stored:
                continue  # a variable of a new model
            array = stored[variable.name]
            values = _taken(array, [places[d] for d in array.dims])
            # Sizes and clocks that are fixed in the old store are not dimensions there.
            values = values.reshape([len(inside[n]) for n in variable.dims])
            arrays[variable.name][np.ix_(*(inside[n] for n in variable.dims))] = values

    def _link(
        self, unit: Unit, grid: Grid, at: Sequence[Array], found: Sequence[Variable]
    ) -> frozenset[str]:
        """Copy chunk files of the old store with the same content; return their keys."""
        kernel, chunk = unit
        stored = self._arrays(kernel)
        index = dict(zip(grid.names, grid.chunk_index(chunk), strict=True))
        places = dict(zip(grid.names, at, strict=True))
        extents = dict(zip(grid.names, grid.chunk_shape, strict=True))
        linked = set()
        for variable in found:
            absent = [i for name, i in index.items() if name not in variable.dims]
            if variable.name not in stored or any(absent):
                continue
            array = stored[variable.name]
            own = [n for n in variable.dims if n != "model"]
            if array.dims != tuple(variable.dims):
                continue
            models = [-1]
            if "model" in variable.dims:
                models = np.flatnonzero(self.reuse.models >= 0).tolist()
            cut = array.chunking
            sizes = zip(own, cut.shape[-len(own) :], cut.chunks[-len(own) :], strict=True)
            old = [_chunk_at(places[n], extents[n], size, extent) for n, size, extent in sizes]
            before = tuple(i for i in old if i is not None)
            if len(before) < len(old):
                continue
            for model in models:
                lead = (int(self.reuse.models[model]),) if model >= 0 else ()
                now = ((model,) if model >= 0 else ()) + tuple(index[n] for n in own)
                key = f"{kernel}/{variable.name}/{chunk_key(now)}"
                held = f"{kernel}/{variable.name}/{chunk_key((*lead, *before))}"
                files: Any = self.writer.files
                if files.link(key, files_of(self.extended), held):
                    linked.add(key)
        return frozenset(linked)


def _chunk_at(places: Array, extent: int, size: int, old_extent: int) -> int | None:
    """Return the older chunk with exactly these indices along a dimension, or None."""
    first = int(places[0])
    whole = min(old_extent, size - first) if first >= 0 else -1
    if extent != old_extent or first % old_extent or whole != len(places):
        return None
    return first // old_extent if (places == np.arange(first, first + whole)).all() else None


def _rest(known: Sequence[Array], shape: Sequence[int]) -> Iterator[list[Array]]:
    """Yield products of indices that cover a box except for the product of ``known``."""
    for axis, (mine, size) in enumerate(zip(known, shape, strict=True)):
        missing = np.setdiff1d(np.arange(size), mine)
        if missing.size:
            yield [*known[:axis], missing, *(np.arange(n) for n in shape[axis + 1 :])]


def _put(
    arrays: Mapping[str, Array],
    got: Mapping[str, Array],
    found: Sequence[Variable],
    names: Sequence[str],
    models: Array,
    inside: Sequence[Array],
) -> None:
    """Copy evaluated parts into the arrays of the chunk."""
    at = {"model": models, **dict(zip(names, inside, strict=True))}
    for variable in found:
        arrays[variable.name][np.ix_(*(at[n] for n in variable.dims))] = got[variable.name]


def _evaluated(
    part: KernelSpace, plan: Plan, box: Box, inside: Sequence[Array], found: Sequence[Variable]
) -> dict[str, Array]:
    """Evaluate a product of indices of a box, as a box if the indices are consecutive."""
    absolute = [start + i for start, i in zip(box.start, inside, strict=True)]
    if all(i[-1] - i[0] + 1 == len(i) for i in absolute):
        start, stop = zip(*((int(i[0]), int(i[-1]) + 1) for i in absolute), strict=True)
        return evaluate_box(part, plan, Box(start, stop), found)
    pairs = zip(part.grid.dimensions, absolute, strict=True)
    dimensions = tuple(_cut(dimension, at) for dimension, at in pairs)
    devices = tuple(part.devices[i] for i in absolute[0])
    cut = replace(part, devices=devices, grid=replace(part.grid, dimensions=dimensions))
    return evaluate_box(cut, plan, cut.grid.whole, found)


def _cut(dimension: Dimension, at: Array) -> Dimension:
    """Return a dimension restricted to some of its values."""
    if dimension.stacked is None:
        return replace(dimension, values=tuple(dimension.values[i] for i in at))
    indices = {name: places[at] for name, places in dimension.stacked.indices.items()}
    stacked = replace(dimension.stacked, indices=indices)
    values: Any = range(len(at))
    return replace(dimension, values=values, stacked=stacked)


def _taken(array: StoredArray, places: Sequence[Array]) -> Array:
    """Return a product of indices of a stored array; reads the range that contains them."""
    ranges = [slice(int(p.min()), int(p.max()) + 1) for p in places]
    slab = array.read(dict(zip(array.dims, ranges, strict=True)))
    return slab[np.ix_(*(p - p.min() for p in places))]

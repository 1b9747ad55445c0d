"""``sweep extend``: extend a finished store to a larger plan, computing only new results."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sweep import __version__
from sweep.errors import StoreError
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.variables import Variable, variables
from sweep.fields import PROBLEM, Array
from sweep.runs.job import Job, Unit
from sweep.runs.record import Source, layout_of, space_of
from sweep.runs.run_size import check_fits, forecast
from sweep.runs.running import Finished, Progress, compute_missing
from sweep.space import Dimension, KernelSpace, Space
from sweep.store.buckets import extension_path, files_of, is_url, place_of
from sweep.store.codec import chunk_key
from sweep.store.creation import exchange, recovered
from sweep.store.layout import StoreLayout
from sweep.store.lock import holding
from sweep.store.reader import StoredArray, open_groups
from sweep.store.root import inspect
from sweep.store.writer import Store, open_or_create

Indices = Mapping[str, Array]
"""Indices along each dimension, the models among them; together their product."""

SETTINGS = ("variant", "precision", "outputs", "derive", "constraints")
"""Keys of a plan that affect its results, besides the swept values."""


def extend(
    store: str | os.PathLike[str],
    plan: Source,
    *,
    break_lock: bool = False,
    threads: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Extend a finished store to a larger plan, computing only new results.

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
    space, path = space_of(plan), place_of(store)
    named = path if is_url(store) else Path(store)  # as the user wrote it
    recovered(path, break_lock=break_lock)  # from an interrupted replacement
    info = inspect(store)
    if not info.is_finished:
        raise StoreError(f"'{store}' is unfinished: complete it with `sweep run` first")
    expected, layout, total = forecast(space), layout_of(space), space.n_points
    if info.record["identity"] == layout.record["identity"]:
        return Finished(space, named, expected, 0, total, 0.0)
    _check_versions(store, info.record["identity"], layout.record["identity"])
    old = space_of(info.record)
    indices = _Growth(old, space, str(store)).indices()
    check_fits(expected, path, limit)
    past = {**info.run, "plan": info.record["plan"]}
    history = [*past.pop("history", []), past]
    beside = extension_path(path)
    with holding(path, store, break_lock) as lock:  # nobody may replace the store meanwhile
        if inspect(store) != info:
            raise StoreError(f"'{store}' was replaced meanwhile; try again")
        with _larger(beside, layout, break_lock) as larger:
            more = {"writer": larger.writer, "extended": path, "indices": indices}
            job = ExtensionJob.of(space, layout.record, **more)
            run = {"history": history}
            _, seconds = compute_missing(
                larger, space, job, threads=threads, progress=progress, run=run
            )
        exchange(path, beside, lock)
    return Finished(space, named, expected, total - old.n_points, old.n_points, seconds)


def _check_versions(
    store: str | os.PathLike[str], made: Mapping[str, Any], here: Mapping[str, Any]
) -> None:
    """Refuse a store of another version of this package, or of one with a model, by identities."""
    before, now = ({"sweep": identity.get("sweep_version", __version__),
                    **identity.get("packages", {})} for identity in (made, here))  # fmt: skip
    for name, version in before.items():
        if now.get(name) != version:
            raise StoreError(
                f"'{store}' was computed by {name} {version}, which is "
                f"{now.get(name, 'missing')} here: results of two versions do not go into one "
                "store; run the larger plan into a new one"
            )


def _larger(beside: Path, layout: StoreLayout, break_lock: bool) -> Store:
    """Return the larger store, either new or from an interrupted extension."""
    there = files_of(beside).exists("zarr.json")
    overwrite = there and inspect(beside).layout_sha256 != layout.fingerprint
    return open_or_create(beside, layout, overwrite=overwrite, break_lock=break_lock)


@dataclass(frozen=True, kw_only=True)
class ExtensionJob(Job):
    """Writes chunks of a larger store: reads what the old store has and evaluates the rest.

    Attributes
    ----------
    extended : Path
        The old store.
    indices : mapping
        From :meth:`_Growth.indices`.
    """

    extended: Path
    indices: Mapping[str, Indices]

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Write one chunk; return its summary for the journal."""
        kernel, chunk = unit
        space = self.space()
        part, of_kernel = space[kernel], self.indices.get(kernel)
        if of_kernel is None:
            return super().__call__(unit)
        cut = zip(part.grid.names, part.grid.box(chunk).slices, strict=True)
        old = {name: of_kernel[name][inside] for name, inside in cut}
        old["model"] = of_kernel["model"]
        known = {name: np.flatnonzero(at >= 0) for name, at in old.items()}
        if not all(inside.size for inside in known.values()):
            return super().__call__(unit)
        found = variables(part, space.plan)
        arrays = {v.name: np.empty([len(old[d]) for d in v.dims], v.dtype) for v in found}
        for missing in _rest(known, old):
            self._evaluate(unit, missing, found, arrays)
        stored = self._stored(kernel)
        for variable in found:
            if variable.name in stored:
                array = stored[variable.name]
                values = _product(array, [old[d][known[d]] for d in array.dims])
                # Sizes and clocks that are fixed in the old store are not dimensions there.
                _put(arrays, variable, known, values)
        return unit, self.store(unit, found, arrays, partial(self._link_or_write, old))

    def _stored(self, kernel: str) -> dict[str, StoredArray]:
        """Return the old store's arrays, opened once; the extension holds the store's lock."""
        if "stored" not in self._local:
            self._local["stored"] = open_groups(self.extended)
        return self._local["stored"][kernel].variables

    def _evaluate(
        self, unit: Unit, inside: Indices, found: Sequence[Variable], arrays: Mapping[str, Array]
    ) -> None:
        """Evaluate a product of indices of a chunk."""
        space, part = self.space(), self.space()[unit[0]]
        starts = zip(part.grid.names, part.grid.box(unit[1]).start, strict=True)
        cut = part.restricted({name: (start + inside[name]).tolist() for name, start in starts})
        models = tuple(space.plan.models[i] for i in inside["model"])
        options = {m: o for m, o in space.plan.options.items() if m in models}
        plan = replace(space.plan, models=models, options=options)
        own = [v for v in found if v.model is None or v.model in models]
        values = evaluate_box(cut, plan, cut.grid.whole, own)
        for variable in own:
            _put(arrays, variable, inside, values[variable.name])

    def _link_or_write(
        self, old: Indices, unit: Unit, variable: Variable, place: tuple[int, ...], values: Array
    ) -> None:
        """Take over the old store's chunk file with the same content, or write a new one."""
        array, array_key = self._stored(unit[0]).get(variable.name), f"{unit[0]}/{variable.name}"
        if array is not None and array.dims == variable.dims:
            extents, cut = self.writer.arrays[array_key].chunks, array.chunking
            at = [old[d][i : i + 1] if d == "model" else old[d]
                  for d, i in zip(variable.dims, place, strict=True)]  # fmt: skip
            found = [
                _chunk_at(*one) for one in zip(at, extents, cut.shape, cut.chunks, strict=True)
            ]
            before = [chunk for chunk in found if chunk is not None]
            if len(before) == len(found):
                key, old_key = (f"{array_key}/{chunk_key(p)}" for p in (place, before))
                files: Any = self.writer.files
                with contextlib.suppress(OSError, NotImplementedError):  # there are no links here
                    files.link(key, files_of(self.extended), old_key)
                    return
        self.write(unit, variable, place, values)


def _chunk_at(places: Array, extent: int, size: int, old_extent: int) -> int | None:
    """Return the older chunk with exactly these indices along a dimension, or None."""
    first = int(places[0])
    whole = min(old_extent, size - first) if first >= 0 else -1
    if extent != old_extent or first % old_extent or whole != len(places):
        return None
    return first // old_extent if (places == np.arange(first, first + whole)).all() else None


def _rest(known: Indices, old: Indices) -> Iterator[dict[str, Array]]:
    """Yield products of indices that cover a chunk except for the product of ``known``."""
    inside = {name: np.arange(len(at)) for name, at in old.items()}
    for name, at in old.items():
        missing = np.flatnonzero(at < 0)
        if missing.size:
            yield {**inside, name: missing}
        inside[name] = known[name]


def _put(arrays: Mapping[str, Array], variable: Variable, inside: Indices, values: Array) -> None:
    """Copy a variable's values into its array of the chunk."""
    at = [inside[name] for name in variable.dims]
    arrays[variable.name][np.ix_(*at)] = values.reshape([len(i) for i in at])


def _product(array: StoredArray, places: Sequence[Array]) -> Array:
    """Return a product of indices of a stored array; reads the range that contains them."""
    ranges = [slice(int(p.min()), int(p.max()) + 1) for p in places]
    slab = array.read(dict(zip(array.dims, ranges, strict=True)))
    return slab[np.ix_(*(p - p.min() for p in places))]


@dataclass(frozen=True)
class _Growth:
    """An older space within a larger one.

    Attributes
    ----------
    old, new : Space
        The space of the store, and the larger space.
    store : str
        The store, for messages.
    """

    old: Space
    new: Space
    store: str

    def indices(self) -> dict[str, Indices]:
        """Return the older index of each index of each dimension, -1 if missing, by kernel.

        The models are a dimension, too. If the older space lacks a dimension, its fixed value has
        index 0.

        Raises
        ------
        StoreError
            The larger space lacks values of the older one, or its results would differ.
        """
        self._check_settings()
        models = self._indices("model", self.old.plan.models, self.new.plan.models)
        known = {kernel.kernel.key: kernel for kernel in self.new.kernels}
        found: dict[str, Indices] = {}
        for kernel in self.old.kernels:
            key = kernel.kernel.key
            if key not in known:
                raise self._lack("kernel", key)
            if known[key].kernel.sha256 != kernel.kernel.sha256:
                raise self._error(f": the file of kernel '{key}' has changed since its run")
            found[key] = {**self._of_kernel(kernel, known[key]), "model": models}
        return found

    def _error(self, problem: str) -> StoreError:
        return StoreError(f"'{self.store}'{problem}")

    def _lack(self, name: str, value: Any) -> StoreError:
        return self._error(
            f" has {name} = {value!r}, which {self.new.plan.origin} lacks: "
            "an extension keeps everything that the store has"
        )

    def _check_settings(self) -> None:
        """Refuse a plan that differs in more than the swept values."""
        old, new = self.old.plan, self.new.plan
        for name in SETTINGS:
            one, other = getattr(old, name), getattr(new, name)
            if one != other:
                raise self._error(
                    f" has {name} = {_setting(one)}, {new.origin} has {_setting(other)}: "
                    "an extension changes what is swept, nothing else"
                )
        for model in old.models:
            if dict(old.options.get(model, {})) != dict(new.options.get(model, {})):
                raise self._error(f" and {new.origin} give model '{model}' other options")

    def _indices(self, name: str, old: Sequence[Any], new: Sequence[Any]) -> Array:
        """Return for each new value its index among the old ones, -1 if missing."""
        index = {value: i for i, value in enumerate(old)}
        found = np.array([index.pop(value, -1) for value in new], np.int64)
        if index:
            raise self._lack(name, next(iter(index)))
        return found

    def _of_kernel(self, old: KernelSpace, new: KernelSpace) -> dict[str, Array]:
        """Return the older indices for the dimensions of one kernel."""
        known = {d.name: d for d in old.grid.dimensions}
        before = dict(known)
        found: dict[str, Array] = {}
        for dimension in new.grid.dimensions:
            name = dimension.name
            if name in before:
                labels = _labels(before.pop(name))
                one, other = ([axis.name for axis in d.axes] for d in (known[name], dimension))
                if name == PROBLEM and one != other:
                    raise self._error(
                        f" has problems of {', '.join(one)}, {self.new.plan.origin} of"
                        f" {', '.join(other)}: an extension adds problems"
                    )
            elif name in old.fixed:
                labels = [old.fixed[name]]
            elif dimension.kind in ("core", "memory") and name.endswith("_ratio"):
                labels = [1.0]  # the store has the nominal clock
            else:
                raise self._error(
                    f" has no dimension '{name}' of kernel '{new.kernel.key}': an extension "
                    "adds values, sizes, or ratios of clocks that hold 1.0"
                )
            found[name] = self._indices(name, labels, _labels(dimension))
        for name, dimension in before.items():
            if name not in new.fixed or [new.fixed[name]] != list(dimension.values):
                raise self._lack(name, dimension.values[0])
            raise self._error(f" sweeps {name}, which {self.new.plan.origin} does not")
        for name, value in old.fixed.items():
            if new.fixed.get(name, value) != value:
                raise self._lack(name, value)
        hashes = {device.key: device.sha256 for device in new.devices}
        for device in old.devices:
            if hashes.get(device.key, device.sha256) != device.sha256:
                raise self._error(f": the file of device '{device.key}' has changed")
        return found


def _setting(value: Any) -> str:
    return "nothing" if value is None else repr(list(value) if isinstance(value, tuple) else value)


def _labels(dimension: Dimension) -> Sequence[Any]:
    """Return the labels of a dimension; for a list of configurations, the parameters' values."""
    if dimension.stacked is None:
        return dimension.values
    columns = (dimension.stacked.column(name).tolist() for name in dimension.stacked.axes)
    return list(zip(*columns, strict=True))

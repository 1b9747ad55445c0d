"""Unit of work of an extension: read existing results, evaluate the others, write one chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.evaluation import Variable, evaluate_box, variables
from sweep.runs.job import Job, Unit
from sweep.runs.reuse import Reuse
from sweep.space import Box, Dimension, Grid, KernelSpace, Plan
from sweep.store import StoredArray, StoredGroup, chunk_key, files_of, open_groups

__all__ = ["ExtensionJob"]

Array = NDArray[Any]


@dataclass(frozen=True)
class ExtensionJob:
    """Everything that a worker needs to write a chunk of the larger store.

    Attributes
    ----------
    job : Job
        Evaluates and writes chunks of the larger plan.
    source : Path
        The store that is extended.
    reuse : Reuse
        The results that it has.
    """

    job: Job
    source: Path
    reuse: Reuse
    _stored: dict[str, StoredGroup] = field(default_factory=dict, compare=False, repr=False)

    def _arrays(self, kernel: str) -> dict[str, StoredArray]:
        """Return the older store's arrays, opened once; the extension holds the store's lock."""
        if not self._stored:
            self._stored.update(open_groups(self.source))
        return self._stored[kernel].variables

    def __call__(self, unit: Unit) -> tuple[Unit, dict[str, Any]]:
        """Write one chunk; return its summary for the journal."""
        kernel, chunk = unit
        space = self.job.space()
        places = self.reuse.places.get(kernel)
        if places is None:
            return self.job(unit)
        part = space[kernel]
        box = part.grid.box(chunk)
        at = [places[n][s] for n, s in zip(part.grid.names, box.slices, strict=True)]
        known = [np.flatnonzero(a >= 0) for a in at]
        if any(not k.size for k in known) or (self.reuse.models < 0).all():
            return self.job(unit)
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
        return unit, self.job.store(unit, arrays, linked)

    def _evaluate(
        self,
        part: KernelSpace,
        plan: Plan,
        box: Box,
        known: Sequence[Array],
        found: Sequence[Variable],
        arrays: Mapping[str, Array],
    ) -> None:
        """Evaluate the results that the older store lacks."""
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
        """Read the results that the older store has."""
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
            # Sizes and clocks that are fixed in the older store are not dimensions there.
            values = values.reshape([len(inside[n]) for n in variable.dims])
            arrays[variable.name][np.ix_(*(inside[n] for n in variable.dims))] = values

    def _link(
        self, unit: Unit, grid: Grid, at: Sequence[Array], found: Sequence[Variable]
    ) -> frozenset[str]:
        """Copy chunk files of the older store with the same content; return their keys."""
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
                files: Any = self.job.writer.files
                if files.link(key, files_of(self.source), held):
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

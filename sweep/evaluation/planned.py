"""A plan's results without computing all: evaluated as they are read, or reduced at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sweep.errors import PlanError
from sweep.evaluation import limits
from sweep.evaluation.chunk import Buffers, evaluate_box, evaluate_points
from sweep.evaluation.reducing import Progress, Task, reduce_in_threads
from sweep.evaluation.variables import (
    Variable,
    assumptions,
    coordinates,
    group_attributes,
    variables,
)
from sweep.fields import VARIANTS, Array
from sweep.reduction import Kept, Reduction
from sweep.space import Box, KernelSpace, Plan, Space, laid_out

if TYPE_CHECKING:
    import os

    import xarray as xr


Key = tuple[Any, ...]

KEPT_READS = 2
"""Reads whose results a thread keeps: variables are read one after the other."""

Execute = Callable[[Task, int | None, Progress | None], list[Kept]]
"""Reduces a kernel's grid with some threads of this process, or elsewhere."""


@dataclass(frozen=True, eq=False)
class Planned:
    """The results of a space that nobody has computed: questions evaluate and reduce it.

    Attributes
    ----------
    space : Space
        What is asked about.
    threads : int, optional
        Threads of this process; all cores by default.
    execute : callable
        Reduces in this process or on a cluster. What passes cannot reduce is read in this process.
    progress : callable, optional
        Receives how far a question is.
    """

    space: Space
    threads: int | None = None
    execute: Execute = reduce_in_threads
    progress: Progress | None = None

    @classmethod
    def of(cls, plan: Plan | Space, **options: Any) -> Planned:
        """Return the results of a plan, or of a space that is laid out already."""
        return cls(laid_out(plan), **options)

    def __getitem__(self, kernel: str) -> Any:
        """Return one kernel's lazy results."""
        return self.results[kernel]

    @cached_property
    def results(self) -> xr.DataTree:
        """The results as a tree whose variables are evaluated as they are read."""

        def dataset(own: KernelSpace, plan: Plan) -> xr.Dataset:
            reader = self._readers[own.kernel.key]
            return _labelled(own, plan, lambda v: indexing.LazilyIndexedArray(_Lazy(reader, v)))

        return _tree(self.space, dataset)

    @cached_property
    def _readers(self) -> dict[str, _Reader]:
        return {own.kernel.key: _Reader(own, self.space.plan) for own in self.space.kernels}

    def expect(self, kernel: str, names: Sequence[str]) -> None:
        """Say which variables will be read of each block: no others are evaluated with them."""
        reader = self._readers[kernel]
        reader.expected = tuple(v for v in reader.wanted if v.name in names)

    def reduce(self, reduction: Reduction) -> list[Kept] | None:
        """Reduce one kernel's grid in compiled passes; None where they cannot answer."""
        keep, names = reduction.keep, reduction.variables
        if keep.kind == "codes" and "status" not in names:
            # With it a pass looks at launches that cannot be, too.
            reduction = replace(reduction, variables=(*names, "status"))
        task = Task(self.space[reduction.kernel], self.space.plan, reduction)
        if not task.is_reducible:
            return None
        kept = self.execute(task, self.threads, self.progress)
        if not keep.is_count:
            return kept
        groups, (counts,), _ = keep.merged(kept)
        if keep.kind == "bins":  # not every configuration without a number was looked at
            points = math.prod(map(len, reduction.indices.values())) // math.prod(reduction.shape)
            counts[..., -1] = points - counts[..., :-1].sum(axis=-1)
        return [Kept.counted(groups, counts[:, : len(names)])]


def open_plan(plan: Plan | Space | str | os.PathLike[str]) -> xr.DataTree:
    """Open a plan's results without computing them.

    However large the space, this takes no longer than to lay out its axes. Configurations are
    evaluated when they are read, and only those that are: select first, then load.

    Parameters
    ----------
    plan : Plan, Space, str or path
        What to evaluate; a plan, or the name or path of one.

    Returns
    -------
    xarray.DataTree
        One dataset per kernel, as a store of the plan would have it, with lazily indexed arrays
        (no Dask; ``.chunk()`` makes it so).

    Raises
    ------
    PlanError, SpecError
        The plan, or a spec that it names, is wrong. A read of more than 16 GiB raises PlanError.
    """
    return Planned(laid_out(plan)).results


def evaluate(plan: Plan | Space) -> xr.DataTree:
    """Return a plan's results without computing them: chunks are evaluated when they are read.

    Parameters
    ----------
    plan : Plan or Space
        What to evaluate.

    Returns
    -------
    xarray.DataTree
        One dataset per kernel, with Dask arrays.

    Raises
    ------
    PlanError, SpecError
        The plan, or a spec that it names, is wrong.
    """
    space = laid_out(plan)
    return _tree(space, lambda own, plan: _labelled(own, plan, _in_boxes(own, plan)))


def _tree(space: Space, dataset: Callable[[KernelSpace, Plan], xr.Dataset]) -> xr.DataTree:
    """Return a tree with a kernel's dataset each, and what is known of the plan."""
    import xarray as xr

    tree = xr.DataTree.from_dict({k.kernel.key: dataset(k, space.plan) for k in space.kernels})
    tree.attrs.update(
        plan=space.plan.name,
        variant=space.plan.variant,
        variant_meaning=VARIANTS[space.plan.variant],
    )
    return tree


def _labelled(space: KernelSpace, plan: Plan, array: Callable[[Variable], Any]) -> xr.Dataset:
    """Return one kernel's arrays with their coordinates and attributes."""
    import xarray as xr

    data = {
        v.name: xr.Variable(v.dims, array(v), dict(v.attributes)) for v in variables(space, plan)
    }
    coords = {c.name: xr.Variable(c.dims, c.values, c.attributes) for c in coordinates(space, plan)}
    for item in assumptions(space, plan):
        texts = item.values.astype(np.dtypes.StringDType())
        coords[item.name] = xr.Variable(item.dims, texts, item.attributes)
    return xr.Dataset(data, coords, group_attributes(space, plan))


# ---------------------------------------------------------------------------- Dask


def _in_boxes(space: KernelSpace, plan: Plan) -> Callable[[Variable], Any]:
    """Return a function from a variable of one kernel to its Dask array with the grid's chunks.

    A task evaluates a box, and every variable takes its part from it: what is computed together
    evaluates each box once.
    """
    import dask.array as da
    from dask.array.core import normalize_chunks
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    grid = space.grid
    if grid.n_chunks > limits.MAX_CHUNKS:
        raise PlanError(
            f"{plan.origin}: {space.kernel.key} has {grid.n_chunks:,} chunks, more than "
            f"{limits.MAX_CHUNKS:,}; raise chunk_points or sweep fewer values"
        )
    specs = [space.kernel.sha256, *(device.sha256 for device in space.devices)]
    token = tokenize(plan.digest(), space.kernel.key, specs)
    boxes, wanted = f"{space.kernel.key}-{token}", variables(space, plan)

    def evaluated(chunk: int) -> dict[str, Array]:
        return evaluate_box(space, plan, grid.box(chunk), wanted)

    tasks = {(boxes, chunk): (evaluated, chunk) for chunk in range(grid.n_chunks)}
    lengths = dict(zip(grid.names, normalize_chunks(grid.chunk_shape, grid.shape), strict=True))
    lengths["model"] = (len(plan.models),)
    numbers = np.arange(grid.n_chunks).reshape(1, *grid.chunk_grid)

    def array(variable: Variable) -> Any:
        # The first chunk along what the variable does not depend on.
        first = (slice(None) if d in variable.dims else 0 for d in ("model", *grid.names))
        name = f"{variable.name}-{token}"
        graph = {
            (name, *index): (getitem, (boxes, chunk.item()), variable.name)
            for index, chunk in np.ndenumerate(numbers[tuple(first)])
        }
        parts: dict[str, Any] = {boxes: tasks, name: graph}
        layers = HighLevelGraph(parts, {boxes: set(), name: {boxes}})
        chunks = tuple(lengths[d] for d in variable.dims)
        return da.Array(layers, name, chunks, dtype=variable.dtype)

    return array


# ---------------------------------------------------------------------------- reads


class _Lazy(BackendArray):
    """One variable; indexed with slices, arrays per dimension, or arrays of points."""

    def __init__(self, reader: _Reader, variable: Variable) -> None:
        self.reader, self.variable = reader, variable
        self.shape = tuple(reader.sizes[d] for d in variable.dims)
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> Any:
        has_slices = any(isinstance(k, slice) for k in key.tuple)
        if isinstance(key, indexing.VectorizedIndexer) and not has_slices:
            return self._at_points(key.tuple)
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._at_product)

    def _at_product(self, key: Key) -> Array:
        """Read a product of indices; a single integer drops its dimension."""
        indices = {
            dim: np.arange(n)[k] if isinstance(k, slice) else np.atleast_1d(k)
            for dim, n, k in zip(self.variable.dims, self.shape, key, strict=True)
        }
        shape = [len(index) for index in indices.values()]
        if 0 in shape:
            values = np.empty(shape, self.dtype)
        else:
            values = self.reader.read(self.variable, "product", indices, 1)
            values = values[indices["model"]] if "model" in indices else values.reshape(shape)
        dropped = tuple(i for i, k in enumerate(key) if not isinstance(k, slice) and not np.ndim(k))
        return values.squeeze(dropped)

    def _at_points(self, key: Key) -> Array:
        """Read single points, given by an array of indices per dimension."""
        arrays = np.broadcast_arrays(*key)
        points = {d: a.ravel() for d, a in zip(self.variable.dims, arrays, strict=True)}
        values = self.reader.read(self.variable, "points", points, arrays[0].size)
        if "model" in points:
            values = values[points["model"], np.arange(arrays[0].size)]
        return values.reshape(arrays[0].shape)


class _Reader:
    """Evaluates parts of one kernel's grid and keeps the last few, thread by thread."""

    def __init__(self, space: KernelSpace, plan: Plan) -> None:
        self.space, self.plan, self.wanted = space, plan, variables(space, plan)
        self.expected: tuple[Variable, ...] = ()
        grid = space.grid
        self.sizes = {"model": len(plan.models), **dict(zip(grid.names, grid.shape, strict=True))}
        self._kept = threading.local()

    def __deepcopy__(self, memo: Any) -> _Reader:
        """Return itself: a copy of the dataset evaluates the same."""
        return self

    def __reduce__(self) -> Any:
        """Leave what was kept behind, for another process."""
        return _Reader, (self.space, self.plan)

    def read(
        self, variable: Variable, how: str, indices: Mapping[str, Array], absent: int
    ) -> Array:
        """Return a variable at points, or at a product of indices, unless just evaluated.

        The indices along dimensions that the variable does not have are ``absent`` zeros.
        """
        zeros = np.zeros(absent, np.int64)
        names = self.space.grid.names
        full = {name: np.asarray(indices.get(name, zeros), np.int64) for name in names}
        kept: dict[Any, dict[str, Array]] = self._kept.__dict__.setdefault("results", {})
        of_block = how == "product" and variable in self.expected
        wanted = self.expected if of_block else self.wanted
        key = (how, *(v.name for v in wanted), *(index.tobytes() for index in full.values()))
        if key not in kept:
            self._check(absent if how == "points" else math.prod(map(len, full.values())))
            if len(kept) >= KEPT_READS:
                kept.pop(next(iter(kept)))
            if how == "points":
                kept[key] = evaluate_points(self.space, self.plan, full, wanted)
            else:
                kept[key] = self._at_product(full, wanted)
        return kept[key][variable.name]

    def _at_product(
        self, indices: Mapping[str, Array], wanted: Sequence[Variable]
    ) -> dict[str, Array]:
        if all((np.diff(index) == 1).all() for index in indices.values()):
            ranges = ((int(index[0]), int(index[-1]) + 1) for index in indices.values())
            box = Box(*zip(*ranges, strict=True))
            buffers = Buffers()
            if wanted is self.expected:  # A question's blocks are alike, and its threads end soon.
                buffers.steps = self._kept.__dict__.setdefault("steps", buffers.steps)
            return evaluate_box(self.space, self.plan, box, wanted, buffers)
        part = self.space.restricted(indices)
        return evaluate_box(part, self.plan, part.grid.whole, wanted)

    def _check(self, points: int) -> None:
        size = points * sum(v.dtype.itemsize for v in self.wanted) * len(self.plan.models)
        if size > limits.MOST_BYTES:
            raise PlanError(
                f"{self.plan.origin}: {self.space.kernel.key}: {points:,} configurations take "
                f"{size / 2**30:,.0f} GiB; select fewer before reading, or run the plan to a store"
            )

"""A plan's results without computing all: evaluated as they are read, or reduced at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sweep.errors import PlanError
from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box, fill_model, launch_values
from sweep.evaluation.dataset import labelled, tree_of
from sweep.evaluation.reducing import Progress, reduce_in_threads, reducible
from sweep.evaluation.tables import canonical_parts, is_small, tables_of
from sweep.evaluation.variables import Variable, variables
from sweep.reduction import Kept, Reduction
from sweep.space import Box, KernelSpace, Plan, Space, load_plan, resolve

if TYPE_CHECKING:
    import os

    import xarray as xr

__all__ = ["Distribute", "Planned", "evaluate_points", "open_plan"]

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]
Indices = Mapping[str, Array]

REMEMBERED = 2
"""Reads whose results a thread keeps: variables are read one after the other."""

Distribute = Callable[[Space, Reduction, Progress | None], list[Kept]]
"""Has a kernel's grid reduced elsewhere."""


@dataclass(frozen=True, eq=False)
class Planned:
    """The results of a space that nobody has computed: questions evaluate and reduce it.

    Attributes
    ----------
    space : Space
        What is asked about.
    threads : int, optional
        Threads of this process; all cores by default.
    distribute : callable, optional
        Reduces on a cluster. What passes cannot reduce is still read in this process.
    progress : callable, optional
        Told how far a question is.
    """

    space: Space
    threads: int | None = None
    distribute: Distribute | None = None
    progress: Progress | None = None

    @classmethod
    def of(cls, plan: Plan | Space, **options: Any) -> Planned:
        """Return the results of a plan, or of a space that is laid out already."""
        return cls(plan if isinstance(plan, Space) else resolve(plan), **options)

    def __getitem__(self, kernel: str) -> Any:
        """Return one kernel's lazy results."""
        return self.results[kernel]

    @cached_property
    def results(self) -> Any:
        """The results as a tree whose variables are evaluated as they are read."""
        return open_plan(self.space)

    def reduce(self, reduction: Reduction) -> list[Kept] | None:
        """Reduce one kernel's grid in compiled passes; None where they cannot answer."""
        kernel, plan, keep = self.space[reduction.kernel], self.space.plan, reduction.keep
        names = reduction.variables
        if keep.kind == "codes" and "status" not in names:
            # With it a pass looks at launches that cannot be, too.
            reduction = replace(reduction, variables=(*names, "status"))
        if not reducible(kernel, plan, reduction):
            return None
        if self.distribute is not None:
            kept = self.distribute(self.space, reduction, self.progress)
        else:
            kept = reduce_in_threads(kernel, plan, reduction, self.threads, self.progress)
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
    if not isinstance(plan, Plan | Space):
        plan = load_plan(plan)
    return tree_of(plan if isinstance(plan, Space) else resolve(plan), _dataset)


def _dataset(space: KernelSpace, plan: Plan) -> xr.Dataset:
    found = variables(space, plan)
    evaluator = _Evaluator(space, plan, found)
    arrays = {v.name: indexing.LazilyIndexedArray(_Lazy(evaluator, v)) for v in found}
    return labelled(space, plan, arrays)


class _Lazy(BackendArray):
    """One variable; indexed with slices, arrays per dimension, or arrays of points."""

    def __init__(self, evaluator: _Evaluator, variable: Variable) -> None:
        self.evaluator, self.variable = evaluator, variable
        sizes = evaluator.sizes
        self.shape = tuple(sizes[d] for d in variable.dims)
        self.dtype = variable.dtype

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            if not any(isinstance(k, slice) for k in key.tuple):
                return self.evaluator.at_points(self.variable, key.tuple)
            support = indexing.IndexingSupport.OUTER
            return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)
        return self._read(key.tuple)

    def _read(self, key: Key) -> Array:
        """Read a product of indices; a single integer drops its dimension."""
        sizes = self.evaluator.sizes
        indices = {
            dim: np.arange(sizes[dim])[k] if isinstance(k, slice) else np.atleast_1d(k)
            for dim, k in zip(self.variable.dims, key, strict=True)
        }
        dropped = tuple(i for i, k in enumerate(key) if not isinstance(k, slice) and not np.ndim(k))
        return self.evaluator.at_product(self.variable, indices).squeeze(dropped)


class _Evaluator:
    """Evaluates parts of one kernel's grid and remembers the last few, thread by thread."""

    def __init__(self, space: KernelSpace, plan: Plan, found: tuple[Variable, ...]) -> None:
        self.space, self.plan, self.found = space, plan, found
        grid = space.grid
        self.sizes = {"model": len(plan.models), **dict(zip(grid.names, grid.shape, strict=True))}
        self._bytes = sum(v.dtype.itemsize for v in found)
        self._held = threading.local()

    def __deepcopy__(self, memo: Any) -> _Evaluator:
        """Return itself: a copy of the dataset evaluates the same."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was remembered behind, for another process."""
        return {**self.__dict__, "_held": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin with nothing remembered."""
        self.__dict__.update(state, _held=threading.local())

    def _remembered(self, how: str, indices: Indices, points: int) -> dict[str, Array]:
        """Evaluate all variables at points, or at a product of indices, unless just done."""
        if not hasattr(self._held, "results"):
            self._held.results = {}
        held: dict[Any, dict[str, Array]] = self._held.results
        names = self.space.grid.names
        key = (how, *(np.asarray(indices[name], np.int64).tobytes() for name in names))
        if key not in held:
            self._check(points)
            if len(held) >= REMEMBERED:
                held.pop(next(iter(held)))
            if how == "points":
                held[key] = evaluate_points(self.space, self.plan, indices, self.found)
            else:
                held[key] = self._evaluated(indices)
        return held[key]

    def _evaluated(self, indices: Indices) -> dict[str, Array]:
        grid = self.space.grid
        ranges = [indices[name] for name in grid.names]
        start, stop = zip(*((int(i.min()), int(i.max()) + 1) for i in ranges), strict=True)
        box = Box(start, stop)
        if all(
            len(i) == n and (np.diff(i) == 1).all() for i, n in zip(ranges, box.shape, strict=True)
        ):
            return evaluate_box(self.space, self.plan, box, self.found)
        part = self.space.restricted({n: indices[n].tolist() for n in grid.names})
        return evaluate_box(part, self.plan, part.grid.whole, self.found)

    def _check(self, points: int) -> None:
        size = points * self._bytes * len(self.plan.models)
        if size > limits.MOST_BYTES:
            raise PlanError(
                f"{self.plan.origin}: {self.space.kernel.key}: {points:,} configurations take "
                f"{size / 2**30:,.0f} GiB; select fewer before reading, or run the plan to a store"
            )

    def at_product(self, variable: Variable, indices: Indices) -> Array:
        """Return a variable at a product of indices along its dimensions."""
        first = np.zeros(1, np.int64)
        wanted = {name: indices.get(name, first) for name in self.space.grid.names}
        if any(not len(index) for index in indices.values()):
            return np.empty([len(indices[d]) for d in variable.dims], variable.dtype)
        points = math.prod(map(len, wanted.values()))
        values = self._remembered("product", wanted, points)[variable.name]
        return values[indices["model"]] if "model" in variable.dims else values.reshape(
            [len(indices[d]) for d in variable.dims])  # fmt: skip

    def at_points(self, variable: Variable, key: Key) -> Array:
        """Return a variable at single points, given by an array of indices per dimension."""
        arrays = np.broadcast_arrays(*(np.asarray(k) for k in key))
        given = {d: a.ravel() for d, a in zip(variable.dims, arrays, strict=True)}
        zeros = np.zeros(arrays[0].size, np.int64)
        points = {name: given.get(name, zeros) for name in self.space.grid.names}
        results = self._remembered("points", points, zeros.size)[variable.name]
        values = results[given["model"], np.arange(zeros.size)] if "model" in given else results
        return values.reshape(arrays[0].shape)


# ---------------------------------------------------------------------------- single points


def evaluate_points(
    space: KernelSpace, plan: Plan, points: Indices, wanted: Sequence[Variable]
) -> dict[str, Array]:
    """Evaluate all models of a plan at single points of a grid.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant, precision and options.
    points : mapping
        The points' index along every dimension of the grid, arrays of one length.
    wanted : sequence of Variable
        What to compute.

    Returns
    -------
    dict
        Variable name to an array over the points; with the model first for what all models give.
    """
    size = len(next(iter(points.values())))
    models = (len(plan.models),)
    found = {
        v.name: np.empty((*(models if "model" in v.dims else ()), size), v.dtype) for v in wanted
    }
    for chosen, box in _together(space, points):
        local = [
            points[name][chosen] - start
            for name, start in zip(space.grid.names, box.start, strict=True)
        ]
        index = canonical_parts(space, local, np.zeros(len(chosen), np.int64))
        for name, model, values in _results(space, plan, box, index, wanted):
            if model is None:
                found[name][chosen] = values
            else:
                found[name][model, chosen] = values
    return found


def _together(space: KernelSpace, points: Indices) -> Iterator[tuple[Array, Box]]:
    """Yield points that share tables, and the box that the tables cover."""
    size = len(next(iter(points.values())))
    if is_small(space):
        yield np.arange(size), space.grid.whole
        return
    dimensions = space.grid.dimensions
    launches = np.stack(
        [points[d.name] for d in dimensions if d.kind not in ("core", "memory")], axis=1
    )
    unique, inverse = np.unique(launches, axis=0, return_inverse=True)
    for number, launch in enumerate(unique.tolist()):
        indices = iter(launch)
        ranges = [
            (0, len(d)) if d.kind in ("core", "memory") else (i := next(indices), i + 1)
            for d in dimensions
        ]
        start, stop = zip(*ranges, strict=True)
        yield np.flatnonzero(inverse.ravel() == number), Box(start, stop)


def _results(
    space: KernelSpace,
    plan: Plan,
    box: Box,
    index: tuple[Array, ...],
    wanted: Sequence[Variable],
) -> Iterator[tuple[str, int | None, Array]]:
    """Yield name, model (where the variable has that dimension) and values at points of a box."""
    tables = tables_of(space, box)
    size = len(index[0])
    shape = (1,) * (len(index) - 1) + (size,)
    launched = [v for v in wanted if v.is_launch]
    for variable in launched:
        values, status = (_at(table, index) for table in launch_values(variable, tables.launch))
        yield variable.name, None, np.where(status == 0, values, 0 if variable.is_code else np.nan)
    for i, name in enumerate(plan.models):
        own = [v for v in wanted if v.model in (None, name) and v not in launched]
        if not own:
            continue
        whole = tables.inputs(plan, name)
        inputs = {key: _at(table, index).reshape(shape) for key, table in whole.items()}
        arrays = [np.empty(size, v.dtype) for v in own]
        sources = tuple(v.source for v in own)
        fill_model(inputs, plan, name, shape, sources, arrays, "rows", size > limits.FEW_POINTS)
        for variable, array in zip(own, arrays, strict=True):
            yield variable.name, None if variable.model else i, array


def _at(table: Array, index: tuple[Array, ...]) -> Array:
    """Return a table, with length 1 along what it does not depend on, at points."""
    return table[
        tuple(0 if extent == 1 else part for extent, part in zip(table.shape, index, strict=True))
    ] * np.ones(len(index[0]))

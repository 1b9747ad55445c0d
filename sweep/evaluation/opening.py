"""A plan's results without computing them: evaluated where they are indexed, chunk or no chunk."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from sweep.errors import PlanError
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.dataset import labelled, tree_of
from sweep.evaluation.points import evaluate_points
from sweep.evaluation.variables import Variable, variables
from sweep.space import Box, KernelSpace, Plan, Space, load_plan, resolve

if TYPE_CHECKING:
    import os

    import xarray as xr

__all__ = ["open_plan"]

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]
Indices = Mapping[str, Array]

MOST_BYTES = 16 << 30
"""Most bytes of results that one read evaluates; who wants more has forgotten to select."""
REMEMBERED = 2
"""Reads whose results a thread keeps: variables are read one after the other."""


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
        if size > MOST_BYTES:
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

"""Results as lazy xarray objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import PlanError
from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.coordinates import assumptions, coordinates, group_attributes
from sweep.evaluation.variables import Variable, variables
from sweep.space import KernelSpace, Plan, Space, resolve

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["evaluate", "kernel_dataset", "labelled", "tree_of"]


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
    return tree_of(plan if isinstance(plan, Space) else resolve(plan), kernel_dataset)


def tree_of(space: Space, dataset_of: Callable[[KernelSpace, Plan], xr.Dataset]) -> xr.DataTree:
    """Return a dataset for each kernel of a space, as a tree that says what it is of."""
    import xarray as xr

    children = {k.kernel.key: dataset_of(k, space.plan) for k in space.kernels}
    tree = xr.DataTree.from_dict(children)
    tree.attrs.update(plan=space.plan.name, variant=space.plan.variant)
    return tree


def kernel_dataset(space: KernelSpace, plan: Plan) -> xr.Dataset:
    """Return the lazy dataset of one kernel (see :func:`evaluate`)."""
    found = variables(space, plan)
    boxes = _Boxes(space, plan, found)
    return labelled(space, plan, {v.name: boxes.array(v) for v in found})


def labelled(space: KernelSpace, plan: Plan, arrays: Mapping[str, Any]) -> xr.Dataset:
    """Return one kernel's arrays, by variable, with their coordinates and attributes."""
    import xarray as xr

    data = {
        v.name: xr.Variable(v.dims, arrays[v.name], dict(v.attributes))
        for v in variables(space, plan)
    }
    coords = {c.name: xr.Variable(c.dims, c.values, c.attributes) for c in coordinates(space, plan)}
    for item in assumptions(space, plan):
        texts = item.values.astype(np.dtypes.StringDType())
        coords[item.name] = xr.Variable(item.dims, texts, item.attributes)
    return xr.Dataset(data, coords, group_attributes(space, plan))


class _Boxes:
    """The graph of one kernel: a task evaluates a box, every variable takes its part from it.

    What is computed together therefore evaluates each box once.
    """

    def __init__(self, space: KernelSpace, plan: Plan, found: tuple[Variable, ...]) -> None:
        from dask.base import tokenize

        if space.grid.n_chunks > limits.MAX_CHUNKS:
            raise PlanError(
                f"{plan.origin}: {space.kernel.key} has {space.grid.n_chunks:,} chunks, more than "
                f"{limits.MAX_CHUNKS:,}; raise chunk_points or sweep fewer values"
            )
        self.grid = space.grid
        self.n_models = len(plan.models)
        specs = [space.kernel.sha256, *(device.sha256 for device in space.devices)]
        self.token = tokenize(plan.digest(), space.kernel.key, specs)
        self.name = f"{space.kernel.key}-{self.token}"

        def evaluated(chunk: int) -> dict[str, np.ndarray]:
            return evaluate_box(space, plan, space.grid.box(chunk), found)

        self.graph = {(self.name, chunk): (evaluated, chunk) for chunk in range(self.grid.n_chunks)}

    def array(self, variable: Variable) -> Any:
        """Return one variable as a Dask array with the grid's chunks."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        grid = self.grid
        positions = [grid.names.index(name) for name in variable.dims if name != "model"]
        model = (0,) if "model" in variable.dims else ()
        name = f"{variable.name}-{self.token}"
        graph = {}
        for index in product(*(range(grid.chunk_grid[i]) for i in positions)):
            # First along what the variable does not depend on.
            full = [0] * len(grid.names)
            for position, i in zip(positions, index, strict=True):
                full[position] = i
            chunk = 0
            for count, i in zip(grid.chunk_grid, full, strict=True):
                chunk = chunk * count + i
            graph[name, *model, *index] = (getitem, (self.name, chunk), variable.name)
        chunks: list[tuple[int, ...]] = [(self.n_models,)] if model else []
        for position in positions:
            size, length = grid.chunk_shape[position], grid.shape[position]
            chunks.append(tuple(min(size, length - i) for i in range(0, length, size)))
        parts: dict[str, Any] = {self.name: self.graph, name: graph}
        layers = HighLevelGraph(parts, {self.name: set(), name: {self.name}})
        return da.Array(layers, name, tuple(chunks), dtype=variable.dtype)

"""Results as lazy xarray objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.coordinates import assumptions, coordinates, group_attributes
from sweep.evaluation.variables import Variable, variables
from sweep.space import Box, KernelSpace, Plan, Space, resolve

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["evaluate", "kernel_dataset"]


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
    import xarray as xr

    space = plan if isinstance(plan, Space) else resolve(plan)
    children = {k.kernel.key: kernel_dataset(k, space.plan) for k in space.kernels}
    tree = xr.DataTree.from_dict(children)
    tree.attrs.update(plan=space.plan.name, variant=space.plan.variant)
    return tree


def kernel_dataset(space: KernelSpace, plan: Plan) -> xr.Dataset:
    """Return the lazy dataset of one kernel (see :func:`evaluate`)."""
    import xarray as xr

    found = variables(space, plan)
    data = {v.name: (v.dims, _lazy_array(space, plan, v, found), dict(v.attributes)) for v in found}
    for item in assumptions(space, plan):
        data[item.name] = (item.dims, item.values.astype(np.dtypes.StringDType()), item.attributes)
    coords = {c.name: xr.Variable(c.dims, c.values, c.attributes) for c in coordinates(space, plan)}
    return xr.Dataset(data, coords, group_attributes(space, plan))


def _lazy_array(
    space: KernelSpace, plan: Plan, variable: Variable, together: Sequence[Variable]
) -> Any:
    """Return one variable as a Dask array whose chunks share the evaluation of their box."""
    import dask.array as da
    from dask.base import tokenize

    grid = space.grid
    evaluated = _shared_box(space, plan, tuple(together))
    positions = [grid.names.index(name) for name in variable.dims if name != "model"]
    has_model = "model" in variable.dims
    name = f"{variable.name}-{tokenize(plan.digest(), space.kernel.sha256, variable.name)}"
    counts = [grid.chunk_grid[i] for i in positions]
    graph = {}
    for index in product(*(range(n) for n in counts)):
        full = [0] * len(grid.names)
        for position, i in zip(positions, index, strict=True):
            full[position] = i
        chunk = 0
        for count, i in zip(grid.chunk_grid, full, strict=True):
            chunk = chunk * count + i
        key = (name, *((0,) if has_model else ()), *index)
        graph[key] = (_pick, evaluated, chunk, variable.name)
    chunks: list[tuple[int, ...]] = [(len(plan.models),)] if has_model else []
    for position in positions:
        size, length = grid.chunk_shape[position], grid.shape[position]
        chunks.append(tuple(min(size, length - i) for i in range(0, length, size)))
    return da.Array(graph, name, tuple(chunks), dtype=variable.dtype)


def _shared_box(
    space: KernelSpace, plan: Plan, wanted: tuple[Variable, ...]
) -> Callable[[int], dict[str, np.ndarray]]:
    """Return a function from chunk to its variables that remembers the last few chunks."""

    @lru_cache(maxsize=4)
    def evaluated(chunk: int) -> dict[str, np.ndarray]:
        box: Box = space.grid.box(chunk)
        return evaluate_box(space, plan, box, wanted)

    return evaluated


def _pick(evaluated: Callable[[int], dict[str, np.ndarray]], chunk: int, name: str) -> np.ndarray:
    return evaluated(chunk)[name]

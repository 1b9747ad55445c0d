"""Evaluation of single configurations, many at once: the rows of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.evaluation.chunk import (
    LAUNCH_SOURCES,
    canonical_parts,
    fill_model,
    is_small,
    launch_values,
    tables_of,
)
from sweep.evaluation.variables import Variable
from sweep.space import Box, KernelSpace, Plan

__all__ = ["evaluate_points"]

Array = np.ndarray[Any, Any]
Points = Mapping[str, Array]


def evaluate_points(
    space: KernelSpace, plan: Plan, points: Points, wanted: Sequence[Variable]
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


def _together(space: KernelSpace, points: Points) -> Iterator[tuple[Array, Box]]:
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
    tables = tables_of(space, plan, box)
    size = len(index[0])
    shape = (1,) * (len(index) - 1) + (size,)
    launched = [v for v in wanted if v.model is None and v.source in LAUNCH_SOURCES]
    for variable in launched:
        values, status = (_at(table, index) for table in launch_values(variable, tables.launch))
        yield variable.name, None, np.where(status == 0, values, 0 if variable.is_code else np.nan)
    for i, name in enumerate(plan.models):
        own = [v for v in wanted if v.model in (None, name) and v not in launched]
        if not own:
            continue
        inputs = {
            key: _at(table, index).reshape(shape) for key, table in tables.inputs(name).items()
        }
        arrays = [np.empty(size, v.dtype) for v in own]
        fill_model(inputs, plan, name, shape, tuple(v.source for v in own), arrays, "rows")
        for variable, array in zip(own, arrays, strict=True):
            yield variable.name, None if variable.model else i, array


def _at(table: Array, index: tuple[Array, ...]) -> Array:
    """Return a table, with length 1 along what it does not depend on, at points."""
    return table[
        tuple(0 if extent == 1 else part for extent, part in zip(table.shape, index, strict=True))
    ] * np.ones(len(index[0]))

"""Evaluate the same tables in memory with compiled passes and NumPy, into existing arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.numpy_models import OUTPUTS, blocks, restricted
from sweep.compiler.passes import get_pass
from sweep.evaluation.launch import build_launch
from sweep.evaluation.packing import Packer, form_of
from sweep.evaluation.tables import pass_inputs
from sweep.models import get_model
from sweep.space import KernelSpace, Plan

__all__ = ["Tables", "compiled", "grid_shape", "same", "tables", "touched"]

Array = NDArray[Any]
Tables = Mapping[str, Array]

CHUNK, CALL = 1 << 21, {"clocks": 1 << 21, "rows": 1 << 18}
"""Points of a box, and of one call of a pass by its form; both are the package's own sizes."""


def grid_shape(space: KernelSpace) -> tuple[int, ...]:
    """Return the shape of the grid, with both clocks last."""
    kinds = [d.kind for d in space.grid.dimensions]
    shape = tuple(
        n for n, kind in zip(space.grid.shape, kinds, strict=True) if kind not in ("core", "memory")
    )
    clocks = [
        space.grid.shape[kinds.index(kind)] if kind in kinds else 1 for kind in ("core", "memory")
    ]
    return (*shape, *clocks)


def tables(space: KernelSpace, plan: Plan, model: str) -> Tables:
    """Return a model's tables over the whole grid, with length 1 along axes that do not matter."""
    whole = space.grid.whole
    launch = build_launch(space, whole)
    found = pass_inputs(launch, get_model(model), plan.variant, {})
    return {name: np.asarray(table) for name, table in found.items()}


def touched(shape: tuple[int, ...]) -> list[Array]:
    """Return output arrays whose memory is already mapped."""
    return [np.full(shape, 1.0, np.float32) for _ in OUTPUTS]


def compiled(model: str, t: Tables, out: Sequence[Array], threads: Executor) -> None:
    """Fill :data:`OUTPUTS` of a model with its compiled pass, as :func:`evaluate_box` does."""
    declared = get_model(model)

    shape = out[0].shape
    form = form_of(shape)

    def work(box: tuple[slice, ...]) -> None:
        views, pack = [array[box] for array in out], Packer(declared)
        part = {name: restricted(table, box) for name, table in t.items()}
        for index in blocks(views[0].shape, CALL[form]):
            packed = pack(part, index)
            function = get_pass(model, "corrected", packed.form, OUTPUTS, packed.length)
            rows = (packed.n_rows, packed.n_inner)
            function(*packed.arguments, *(array[index].reshape(rows) for array in views))

    list(threads.map(work, blocks(shape, CHUNK)))


def same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Return whether two sets of outputs are equal to the bit, including NaN."""
    step = 1 << 22
    return all(
        np.array_equal(a[i : i + step], b[i : i + step], equal_nan=True)
        for a, b in zip(map(np.ravel, one), map(np.ravel, other), strict=True)
        for i in range(0, math.prod(a.shape), step)
    )

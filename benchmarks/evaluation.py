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
from sweep.evaluation.tables import form_of, pack, pass_inputs
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan

__all__ = ["Tables", "compiled", "grid_shape", "same", "tables", "touched"]

Array = NDArray[Any]
Tables = Mapping[str, Array]

CHUNK, CALL = 1 << 21, {"clocks": 1 << 21, "rows": 1 << 18}
"""Points of a box, and of one call of a pass by its form; both are the package's own sizes."""


def grid_shape(space: KernelSpace) -> tuple[int, ...]:
    """Return the shape of the grid, with both clocks last."""
    return space.clocked.shape


def tables(space: KernelSpace, plan: Plan, model: str) -> Tables:
    """Return a model's tables over the whole grid, with length 1 along axes that do not matter."""
    launch = build_launch(space)
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
        views = [array[box] for array in out]
        part = {name: restricted(table, box) for name, table in t.items()}
        covered = Box((0,) * len(shape), views[0].shape)
        for index in blocks(views[0].shape, CALL[form]):
            block = Box(*zip(*((s.start, s.stop) for s in index), strict=True))
            packed = pack(declared, part, covered, block)
            function = get_pass(packed.read_by(model, "corrected", OUTPUTS))
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

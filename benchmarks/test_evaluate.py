"""Evaluate five outputs in memory on two threads, with compiled passes and with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache

import pytest

from benchmarks import evaluation, numpy_models
from benchmarks.spaces import EVALUATED, KINDS, kernel_space
from benchmarks.storing import THREADS
from sweep.evaluation.chunk import evaluate_box

POINTS = {"clocks": 4_000_000, "nominal": 1_000_000}

grids = pytest.mark.parametrize("kind", KINDS)
models = pytest.mark.parametrize("model", EVALUATED)


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


@cache
def tables_of(kind: str, model: str) -> evaluation.Tables:
    return evaluation.tables(*kernel_space(kind, POINTS[kind]), model)


def outputs_of(kind: str) -> list[evaluation.Array]:
    return evaluation.touched(evaluation.grid_shape(kernel_space(kind, POINTS[kind])[0]))


@grids
@models
def test_compiled(benchmark, kind, model, threads):
    t, out = tables_of(kind, model), outputs_of(kind)
    benchmark.extra_info["points"] = out[0].size
    arguments = (model, t, out, threads)
    benchmark.pedantic(evaluation.compiled, arguments, rounds=5, warmup_rounds=1)
    expected = outputs_of(kind)
    numpy_models.in_blocks(model, t, expected, 16384, threads)
    assert evaluation.same(out, expected)


@grids
@models
def test_numpy_in_blocks(benchmark, kind, model, threads):
    t, out = tables_of(kind, model), outputs_of(kind)
    benchmark.extra_info["points"] = out[0].size
    arguments = (model, t, out, 16384, threads)
    benchmark.pedantic(numpy_models.in_blocks, arguments, rounds=3, warmup_rounds=1)


@grids
@models
def test_numpy_on_the_whole_grid(benchmark, kind, model):
    t, out = tables_of(kind, model), outputs_of(kind)
    benchmark.extra_info["points"] = out[0].size
    benchmark.pedantic(numpy_models.whole_grid, (model, t, out), rounds=2)


@grids
def test_box_with_its_tables(benchmark, kind):
    """Evaluate a chunk as a run does: expressions, occupancy, both models, all outputs."""
    kernel, plan = kernel_space(kind, POINTS[kind])
    box = kernel.grid.box(0)
    benchmark.extra_info["points"] = box.n_points * len(plan.models)
    benchmark.pedantic(evaluate_box, (kernel, plan, box), rounds=3, warmup_rounds=1)

"""Query a finished store, compared with a full scan through xarray and Dask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.querying import scan_best
from benchmarks.spaces import space
from benchmarks.storing import run_fresh
from sweep.query import best, pareto, top

POINTS = 4_000_000
KERNEL = "matrixmul_shared"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("queried") / "run.zarr"
    run_fresh(space("clocks", POINTS), path)
    return path


def test_best(benchmark, store):
    answer = benchmark.pedantic(best, (store,), rounds=5, warmup_rounds=1)
    scanned = scan_best(store, KERNEL)
    assert [row["execution_time"] for row in answer] == scanned.values.ravel().tolist()


def test_best_where(benchmark, store):
    arguments = {"where": "occupancy > 0.5 and tile % 32 == 0"}
    answer = benchmark.pedantic(best, (store,), arguments, rounds=5, warmup_rounds=1)
    assert all(row["tile"] == 32 for row in answer)


def test_top(benchmark, store):
    answer = benchmark.pedantic(top, (store, 1000), rounds=5, warmup_rounds=1)
    times = [row["execution_time"] for row in answer]
    assert len(times) == 1000 and np.all(np.diff(times) >= 0)


def test_pareto(benchmark, store):
    assert len(benchmark.pedantic(pareto, (store,), rounds=5, warmup_rounds=1)) > 2


def test_scan_by_dask(benchmark, store):
    found = benchmark.pedantic(scan_best, (store, KERNEL), rounds=5, warmup_rounds=1)
    assert found.sizes == {"model": 2, "device": 1}

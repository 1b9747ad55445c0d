"""Writing: a run into a store, and zarr alone writing the same finished arrays."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from benchmarks.spaces import space
from benchmarks.storing import PLAIN, Finished, finished_arrays, run_fresh

POINTS = 4_000_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Finished:
    path = tmp_path_factory.mktemp("finished") / "run.zarr"
    whole = space("clocks", POINTS)
    run_fresh(whole, path)
    return finished_arrays(path, whole.kernels[0].kernel.key)


def test_run(benchmark, tmp_path, finished):
    whole = space("clocks", POINTS)
    benchmark.extra_info["points"] = whole.n_evaluations
    benchmark.pedantic(run_fresh, (whole, tmp_path / "run.zarr"), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("way", PLAIN)
def test_plain_zarr(benchmark, tmp_path, finished, way):
    benchmark.extra_info["points"] = finished["execution_time"][1].size
    benchmark.pedantic(PLAIN[way], (finished, tmp_path / "plain.zarr"), rounds=3, warmup_rounds=1)
    written = zarr.open_group(tmp_path / "plain.zarr", mode="r")
    for name, (array, values) in finished.items():
        assert written[name].metadata.codecs == array.metadata.codecs
        assert np.array_equal(written[name][...], values, equal_nan=values.dtype.kind == "f")

"""Write a run into a store, compared with zarr alone writing the same finished arrays."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from benchmarks.spaces import space
from benchmarks.storing import (
    PLAIN,
    TOLD,
    Finished,
    again_and_again,
    finished_arrays,
    plain_by_chunk,
    run_fresh,
)

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


@pytest.mark.parametrize("way", PLAIN | TOLD)
def test_plain_zarr(benchmark, tmp_path, finished, way):
    benchmark.extra_info["points"] = finished["execution_time"][1].size
    benchmark.pedantic(
        (PLAIN | TOLD)[way], (finished, tmp_path / "plain.zarr"), rounds=3, warmup_rounds=1
    )
    written = zarr.open_group(tmp_path / "plain.zarr", mode="r")
    for name, (array, values) in finished.items():
        assert written[name].metadata.codecs == array.metadata.codecs
        assert np.array_equal(written[name][...], values, equal_nan=values.dtype.kind == "f")


def test_plain_zarr_again_and_again(tmp_path, finished):
    times, n = again_and_again(finished, 3 * finished["execution_time"][1].size)
    plain_by_chunk(finished, tmp_path / "plain.zarr", times)
    written = zarr.open_group(tmp_path / "plain.zarr", mode="r")
    assert written["execution_time"].size == n
    for name, (array, values) in finished.items():
        axis = int(np.argmax(np.not_equal(values.shape, written[name].shape)))
        whole = written[name].shape[axis] // times
        part = np.take(values, np.arange(whole), axis)
        last = np.take(written[name][...], np.arange(whole) + (times - 1) * whole, axis)
        assert whole % array.chunks[axis] == 0
        assert np.array_equal(last, part, equal_nan=values.dtype.kind == "f")

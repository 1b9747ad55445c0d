"""Reading a store's files without zarr: the same numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import indexed

from sweep.store import open_store
from sweep.store.codec import Chunking
from sweep.store.reader import open_groups

DTYPES = ["float32", "float64", "uint8", "int64"]


def content(kind, size, dtype: str, seed: int) -> np.ndarray:
    """Numbers that compress well, badly or not at all."""
    generator = np.random.default_rng(seed)
    if kind == "same":
        return np.full(size, 5, dtype)
    numbers = 200 * generator.random(size)
    return (np.sort(numbers) if kind == "sorted" else numbers).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["same", "sorted", "random"])
@pytest.mark.parametrize("size", [1, 3, 100, 16_384, 70_001, 1_000_003])
def test_chunks__decode_or_are_refused(dtype, kind, size):
    array = content(kind, size, dtype, size)
    chunking = Chunking((size,), (size,), dtype)
    data = b"".join(chunking.encode((0,), array))
    np.testing.assert_array_equal(chunking.decode(data), array)
    for damaged in (data[:-1], data[:-9] + b"x" + data[-8:], data[: len(data) // 2], b""):
        with pytest.raises(ValueError, match="checksum|truncated"):
            chunking.decode(damaged)
    with pytest.raises(ValueError, match="does not fit the declared chunk"):
        Chunking((size + 1,), (size + 1,), dtype).decode(data)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "a.zarr"
    indexed.write(path, {"one": indexed.grid((3, 2, 4, 5, 3), 14)}, seed=5)
    return path


@given(st.data())
def test_boxes_and_points__are_those_that_xarray_reads(store, data):
    ours, theirs = open_groups(store)["one"], open_store(store)["one"].to_dataset()
    assert set(ours.data_vars) == set(map(str, theirs.data_vars))
    assert set(ours.coords) == set(map(str, theirs.coords))
    name = data.draw(st.sampled_from(sorted(ours.data_vars)))
    array, expected = ours.data_vars[name], theirs[name]
    assert array.dims == expected.dims and array.dtype == expected.dtype
    assert array.attrs == expected.attrs
    index = {}
    for dim, size in array.sizes.items():
        chosen = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
        index[dim] = np.array(sorted(chosen))
        if data.draw(st.booleans()):
            index[dim] = slice(min(chosen), max(chosen) + 1)
    part = expected.isel(index)
    np.testing.assert_array_equal(array.read(index), part.values)
    points = {
        dim: np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=4, max_size=4)))
        for dim, n in array.sizes.items()
    }
    whole = expected.values
    np.testing.assert_array_equal(
        array.read_points(points), whole[tuple(points[d] for d in array.dims)]
    )


def test_questions_to_a_store__need_neither_xarray_nor_zarr(store):
    code = (
        "import sys; from sweep.cli import main; "
        f"assert main(['best', {str(store)!r}, '--where', 'occupancy > 0.6']) == 0; "
        f"assert main(['pareto', {str(store)!r}]) == 0; "
        f"assert main(['info', {str(store)!r}, '--format', 'json']) == 0; "
        f"assert main(['verify', {str(store)!r}]) == 0; "
        "heavy = {'xarray', 'zarr', 'dask', 'pandas', 'numba', 'matplotlib'} & set(sys.modules); "
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr

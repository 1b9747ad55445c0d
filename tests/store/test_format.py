"""The format of a store: what plain xarray and plain zarr read, to the bit, without a warning."""

import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from support.store_samples import (
    CLOCKS,
    MODELS,
    TILES,
    complete,
    layout,
    summaries,
    times,
    write_chunk,
)
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

from sweep.store import open_store
from sweep.store.buckets import free_bytes
from sweep.store.codec import COMPRESSION_LEVEL
from sweep.store.layout import NUMBERS, UNWRITTEN_CODE, GroupLayout, StoreLayout, Variable, static
from sweep.store.root import inspect
from sweep.store.writer import open_or_create


@pytest.fixture
def store(tmp_path):
    """A finished store."""
    complete(tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def expected_times(group):
    return np.concatenate([times(group, 2, chunk) for chunk in range(3)], axis=1)


def test_store__opens_with_plain_xarray_and_zarr(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = xr.open_datatree(store, engine="zarr")
        assert set(tree.children) == {"kernel_0", "kernel_1"}
        dataset = tree["kernel_1"].to_dataset().load()
        alone = xr.open_dataset(store / "kernel_0", engine="zarr").load()
        within = xr.open_dataset(store, group="kernel_0", engine="zarr").load()
        group = zarr.open_group(store, mode="r", use_consolidated=False)
        members = dict(group.members(max_depth=None))
    np.testing.assert_array_equal(dataset.execution_time, expected_times("kernel_1"))
    assert dataset.execution_time.dims == ("model", "tile", "core_clock_ratio")
    assert dataset.execution_time.dtype == np.float32 and dataset.status.dtype == np.uint8
    assert dataset.execution_time.attrs == {"units": "s"}
    assert dataset.status.attrs["flag_meanings"] == "valid constraint"
    assert dataset.assumed.values.tolist() == ["", "clocks.core_max µ"]
    assert dataset.attrs == {"kernel": "kernel_1"}
    xr.testing.assert_identical(alone, within)
    assert set(group.keys()) == {"chunk_index", "kernel_0", "kernel_1"}
    np.testing.assert_array_equal(members["chunk_index"][:], np.ones(6, "uint8"))
    np.testing.assert_array_equal(members["kernel_0/execution_time"][:], expected_times("kernel_0"))
    assert members["kernel_0/model"][:].tolist() == MODELS


def test_store__coordinates_are_coordinates(store):
    dataset = open_store(store)["kernel_0"].to_dataset()
    assert set(dataset.coords) == {"model", "tile", "core_clock_ratio", "core_clock", "device"}
    assert dataset.model.values.tolist() == MODELS
    assert dataset.tile.values.tolist() == TILES
    assert dataset.core_clock.values.tolist() == CLOCKS
    assert dataset.core_clock.attrs == {"units": "MHz"}
    assert str(dataset.device.values) == "gtx_280"
    chosen = dataset.sel(model="wang_chu", tile=64, core_clock_ratio=1.2)
    assert chosen.execution_time == expected_times("kernel_0")[1, 4, 2]
    lazy = open_store(store, chunks={})["kernel_0/execution_time"]
    assert lazy.chunks == ((2,), (2, 2, 1), (3,))  # Dask's are the stored ones


def test_metadata__is_what_zarr_consolidates(store):
    ours = json.loads((store / "zarr.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns that consolidation is not standardised
        zarr.consolidate_metadata(store)
    assert ours == json.loads((store / "zarr.json").read_text())


def test_chunks__are_the_bytes_that_zarr_writes(store, tmp_path):
    blosc = BloscCodec(cname="lz4", clevel=COMPRESSION_LEVEL, shuffle="shuffle", typesize=4)
    plain = zarr.create_array(
        tmp_path / "plain.zarr", shape=(2, 5, 3), chunks=(2, 2, 3), dtype="float32",
        fill_value=np.nan, serializer=BytesCodec(endian="little"),
        compressors=[blosc, Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
    )  # fmt: skip
    plain[:] = expected_times("kernel_0")
    for chunk in ("c.0.0.0", "c.0.1.0", "c.0.2.0"):
        ours = (store / "kernel_0" / "execution_time" / chunk).read_bytes()
        assert ours == (tmp_path / "plain.zarr" / chunk).read_bytes()


# What was not written, and what was written wrongly


@pytest.mark.filterwarnings("ignore::sweep.errors.UnfinishedWarning")
def test_unwritten__never_passes_for_a_result(tmp_path):
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        write_chunk(store, "kernel_0", 1)
    dataset = open_store(tmp_path / "a.zarr")["kernel_0"].to_dataset().load()
    assert dataset.status.values.tolist() == [UNWRITTEN_CODE, UNWRITTEN_CODE, 0, 0, UNWRITTEN_CODE]
    assert np.isnan(dataset.execution_time[:, [0, 1, 4]]).all()
    assert not np.isnan(dataset.execution_time[:, [2, 3]]).any()
    assert not inspect(tmp_path / "a.zarr").is_finished


@pytest.mark.parametrize("array", ["execution_time/c.0.1.0", "assumed/c.0", "model/c.0"])
def test_flipped_bit__is_an_error_on_reading(store, array):
    chunk = store / "kernel_0" / array
    content = chunk.read_bytes()
    name = array.partition("/")[0]
    for byte in range(len(content)):
        flipped = bytearray(content)
        flipped[byte] ^= 1 << (byte % 8)
        chunk.write_bytes(flipped)
        with pytest.raises(ValueError, match="checksum"):
            zarr.open_group(store, mode="r")[f"kernel_0/{name}"][:]


@pytest.mark.parametrize(
    ("index", "shape", "dtype", "error"),
    [
        ((0, 2, 0), (2, 2, 3), "float32", ValueError),  # the chunk at the edge is smaller
        ((0, 0, 0), (2, 1, 3), "float32", ValueError),
        ((0, 0, 0), (2, 2, 3), "float64", ValueError),
        ((0, 3, 0), (2, 2, 3), "float32", IndexError),
        ((0, -1, 0), (2, 2, 3), "float32", IndexError),
        ((0, 0), (2, 2, 3), "float32", IndexError),
    ],
)
def test_write__refuses_what_is_not_a_chunk(tmp_path, index, shape, dtype, error):
    with open_or_create(tmp_path / "a.zarr", layout()) as store, pytest.raises(error):
        store.writer.write("kernel_0", "execution_time", index, np.zeros(shape, dtype))


@pytest.mark.parametrize("kind", ["fortran", "pickled", "fill"])
def test_write__takes_any_order_process_and_values(tmp_path, kind):
    values = times("kernel_0", 2, 0)
    values = np.full_like(values, np.nan) if kind == "fill" else np.asfortranarray(values)
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        writer = pickle.loads(pickle.dumps(store.writer)) if kind == "pickled" else store.writer
        writer.write("kernel_0", "execution_time", (0, 0, 0), values)
    assert (tmp_path / "a.zarr/kernel_0/execution_time/c.0.0.0").exists()
    read = zarr.open_group(tmp_path / "a.zarr", mode="r")["kernel_0/execution_time"][:, :2]
    np.testing.assert_array_equal(read, values)


@st.composite
def grids(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=4)))
    chunks = tuple(draw(st.integers(1, size + 2)) for size in shape)
    return shape, chunks, draw(st.sampled_from(NUMBERS))


@given(grids())
def test_write__any_shape_reads_back(tmp_path_factory, grid):
    shape, chunks, dtype = grid
    variable = Variable("v", tuple(f"d{i}" for i in range(len(shape))), shape, chunks, dtype)
    values = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    path = tmp_path_factory.mktemp("any") / "a.zarr"
    with open_or_create(path, StoreLayout([group(variable)], {"identity": "x"})) as store:
        for index in variable.chunking.indices():
            corner = zip(index, chunks, strict=True)
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in corner)]
            store.writer.write("g", "v", index, part)
        store.mark_finished([("g", 0, {})])
        store.complete()
    np.testing.assert_array_equal(zarr.open_group(path, mode="r")["g/v"][...], values)
    np.testing.assert_array_equal(open_store(path)["g/v"].values, values)


# Layouts


def group(*variables, coordinates=()):
    return GroupLayout("g", {}, coordinates, variables, 1)


def array(dtype="float32", shape=(4,), chunks=(4,), dims=("x",), name="v"):
    return Variable(name, dims, shape, chunks, dtype)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: array(chunks=(0,)), "chunk has no points"),
        (lambda: array(dims=("x", "y")), "differ in length"),
        (lambda: array("complex64"), "type complex64"),
        (lambda: group(array("string")), "type string"),
        (lambda: group(array("bool")), "type bool"),
        (lambda: array(shape=(2**30,), chunks=(2**30,)), "2 GiB"),
        (lambda: group(array(name="a/b")), "cannot name"),
        (lambda: group(*[array()] * 2), "twice"),
        (lambda: group(array(), coordinates=(static("x", ("x",), [1, 2]),)), "two sizes"),
        (lambda: GroupLayout("chunk_index", {}, [], [], 1), "the store's own"),
        (lambda: StoreLayout([group(), group()], {"identity": ""}), "two groups"),
        (lambda: StoreLayout([], {"plan": ""}), "identity"),
        (lambda: StoreLayout([], {"identity": float("nan")}), "JSON"),
    ],
)
def test_layout__refuses(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_layout__static_values_of_every_kind(tmp_path):
    coordinates = (
        static("flag", ("flag",), [True, False]),
        static("count", ("count",), [1, 2, 3]),
        static("word", ("word",), np.array(["a", "bcd"])),
        static("number", (), np.float32(1.5)),
    )
    variable = static("v", ("count",), np.array([1, 2, 3], "float32"))
    made = StoreLayout([group(variable, coordinates=coordinates)], {"identity": "x"})
    with open_or_create(tmp_path / "a.zarr", made) as store:
        store.mark_finished([("g", 0, {})])
        store.complete()
    dataset = open_store(tmp_path / "a.zarr")["g"].to_dataset().load()
    assert dataset.flag.values.tolist() == [True, False]
    assert dataset["count"].values.tolist() == [1, 2, 3]
    assert dataset.word.values.tolist() == ["a", "bcd"]
    assert dataset.number.values == np.float32(1.5)
    assert dataset.v.dtype == np.float32


def test_fingerprint__sees_labels_chunks_and_attributes():
    def one(values, attrs, chunk):
        variable = Variable("v", ("x",), (2,), (chunk,), "float32", attrs)
        made = group(variable, coordinates=(static("x", ("x",), values),))
        return StoreLayout([made], {"identity": "x"}).fingerprint

    assert one([1, 2], {}, 2) == one(np.array([1, 2]), {}, 2)
    others = [one([1, 3], {}, 2), one([1.0, 2.0], {}, 2), one(["1", "2"], {}, 2)]
    others += [one([1, 2], {"units": "s"}, 2), one([1, 2], {}, 1)]
    assert len({one([1, 2], {}, 2), *others}) == 6


# The root


def test_inspect__gives_record_and_progress(tmp_path):
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout()) as store:
        write_chunk(store, "kernel_1", 2)
        info = inspect(path)
        assert info.record == layout().record
        assert info.counts == {"kernel_0": 3, "kernel_1": 3}
        assert info.run["finished"] is None and info.run["created"]
        summary = {"execution_time": {"minimum": 1200.0, "position": [0, 0, 0]}}
        assert summaries(path) == {("kernel_1", 2): summary}
        for chunk in store.missing():
            write_chunk(store, *chunk)
        assert not store.is_finished
        store.complete({"points": 60})
        assert store.is_finished and store.missing() == []
    assert inspect(path).run["points"] == 60 and inspect(path).is_finished


def test_free_bytes__of_a_place_to_be(tmp_path):
    assert free_bytes(tmp_path / "not" / "yet") > 0


def test_import__stays_light():
    code = (
        "import sys, sweep.store; heavy = {'numba', 'dask', 'xarray', 'zarr', 'numcodecs'}; "
        "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)

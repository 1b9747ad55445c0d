"""Answers through a store's index are those of a full scan, and read less."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import indexed
from support.store_samples import rewrite_root

from sweep.errors import QueryError, StoreError
from sweep.fronts import front
from sweep.query import best, pareto, summary, top
from sweep.query.blocks import Block
from sweep.runs import summaries
from sweep.store import open_store
from sweep.store.reader import open_groups
from sweep.store.root import inspect

BY = (None, (), ("device",), ("model", "tile"), ("kernel",), ("block_size", "device"),
      ("core_clock", "model", "device"))  # fmt: skip
WHERE = (None, "occupancy > 0.6", "tile != 5", "regime == 'one' and power < 3",
         "execution_time > 100", "device != 'gtx_280' and core_clock < 6")  # fmt: skip
SELECT = ({}, {"device": "gtx_280"}, {"model": "wang_chu"}, {"tile": [4]}, {"core_clock": (4, 5)},
          {"kernel": "one"}, {"device": ["gtx_280"], "block_size": [4]})  # fmt: skip
NAMES = ("execution_time", "energy", "occupancy", "wang_chu_rounds")


@st.composite
def stores(draw: st.DrawFn) -> tuple:
    """Grids, chunk sizes, models, precision and a seed."""
    sizes = tuple(draw(st.integers(1, 3)) for _ in range(5))
    others = tuple(draw(st.integers(1, 3)) for _ in range(5))
    points = [draw(st.integers(1, 90)) for _ in range(2)]
    kernels = {"one": indexed.grid(sizes, points[0]), "two": indexed.grid(others, points[1])}
    precision = draw(st.sampled_from(["float32", "float64"]))
    return kernels, draw(st.integers(1, 2)), precision, draw(st.integers(0, 1000))


def answers(question, data, *args, **options) -> str:
    """Return an answer, or the error, as text."""
    try:
        return question(data, *args, **options).to_json()
    except QueryError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(stores(), st.data())
def test_answers__are_those_of_a_full_scan(store, data):
    kernels, models, precision, seed = store
    pick = lambda choices: data.draw(st.sampled_from(choices))  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        indexed.write(path, kernels, models=models, precision=precision, seed=seed)
        whole = open_store(path)
        for _ in range(3):
            options = {"by": pick(BY), "where": pick(WHERE), "select": pick(SELECT)}
            objective, sense = pick(NAMES), pick(["min", "max"])
            names = pick([NAMES[:2], NAMES[:3], ("energy", "occupancy")])
            senses = [pick(["min", "min", "max"]) for _ in names]
            questions = [
                (best, objective, {"sense": sense}),
                (top, pick([1, 2, 5]), {"objective": objective, "sense": sense}),
                (pareto, names, {"senses": senses}),
                (pareto, NAMES[:2], {}),
            ]
            if options["by"] is None:
                options["by"] = pick([("kernel", "device", "model"), ("kernel",)])
            for question, argument, more in questions:
                given_ = {**options, **more}
                assert answers(question, path, argument, **given_) == answers(
                    question, whole, argument, **given_
                )
            assert answers(summary, path, **options) == answers(summary, whole, **options)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(stores())
def test_index__is_what_numpy_finds(store):
    kernels, models, precision, seed = store
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        found = indexed.write(path, kernels, models=models, precision=precision, seed=seed)
        groups = open_groups(path)
        for kernel, over in kernels.items():
            of_kernel = groups[kernel].index
            shape = (models, *over.shape)
            place = np.arange(np.prod(shape)).reshape(shape)
            for name in ("execution_time", "occupancy"):
                values = found[kernel][name]
                if name == "occupancy":
                    values = values[None, ..., None, None]
                full = np.broadcast_to(values, shape)
                for chunk, box in enumerate(over.boxes()):
                    for model, device in np.ndindex(models, box.stop[0] - box.start[0]):
                        at = (model, box.start[0] + device, *box.slices[1:])
                        expected = in_cell(full[at].ravel(), place[at].ravel())
                        if name == "occupancy":
                            expected = expected[:4]
                        arrays = (of_kernel.number(f"chunk_{key}", name) for key in IN_CELL)
                        known = [array[chunk, model, device] for array in arrays]
                        np.testing.assert_array_equal(known[: len(expected)], expected)
            codes, counts = of_kernel.counts("status")
            for code, counted in zip(codes, np.moveaxis(counts, -1, 0), strict=True):
                assert counted.sum() == np.count_nonzero(found[kernel]["status"] == code)


IN_CELL = ("minimum", "minimum_position", "maximum", "maximum_position", "value_count",
           "second_minimum", "second_maximum")  # fmt: skip


def in_cell(values: np.ndarray, places: np.ndarray) -> list[float]:
    """Return what the index knows of a cell, as NumPy finds it."""
    ordered = np.sort(values[~np.isnan(values)])
    if not ordered.size:
        return [np.nan, -1, np.nan, -1, 0, np.nan, np.nan]
    low, high = np.nanargmin(values), np.nanargmax(values)
    second = (ordered[1], ordered[-2]) if ordered[1:].size else (np.nan, np.nan)
    return [values[low], places[low], values[high], places[high], ordered.size, *second]


def test_summaries__of_large_chunks(monkeypatch):
    """Pieces and counts by code give what one look at everything gives."""
    over = indexed.grid((2, 3, 4, 9, 11), 10**6)
    found = indexed.numbers(over, 2, "float32", 3)
    plan = indexed.Plan(("one",), indexed.DEVICES, indexed.MODELS)
    own = indexed.variables(over, "float32")
    at_once = summaries.summarise(over, plan, over.whole, own, found)
    for name, value in (("PIECE", 37), ("SMALL", 1)):
        monkeypatch.setattr(summaries, name, value)
    assert summaries.summarise(over, plan, over.whole, own, found) == at_once
    assert at_once["points"] == 2 * over.n_points


@pytest.fixture
def store(tmp_path: Path) -> Path:
    indexed.write(tmp_path / "a.zarr", {"one": indexed.grid((3, 4, 4, 6, 6), 36)}, seed=7)
    return tmp_path / "a.zarr"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list:
    """The blocks whose numbers are read from now on."""
    blocks: list = []
    slab = Block.read

    def counting(block, codes=()):
        if not codes:
            blocks.append(block)
        return slab(block, codes)

    monkeypatch.setattr(Block, "read", counting)
    return blocks


def test_whole_groups__are_answered_without_reading(store, read):
    for question in (best, summary, pareto):
        assert len(question(store))
    assert len(best(store, by=["device"], select={"model": "wang_chu"}))
    assert read == []


def test_chunks_that_cannot_matter__are_not_read(store, read):
    every = inspect(store).counts["one"] * 2
    for question in (
        lambda: top(store, 3),
        lambda: best(store, where="occupancy > 0.6"),
        lambda: best(store, "occupancy", sense="max"),
        lambda: best(store, by=["tile"], select={"memory_clock": 5}),
        lambda: pareto(store, where="block_size > 4", by=["model"]),
    ):
        read.clear()
        question()
        assert 0 < len(read) < every / 2


def test_index__is_labelled_and_opens_with_plain_xarray(store):
    tree = xr.open_datatree(store, engine="zarr")
    assert set(tree.children) == {"one"}
    root = tree.to_dataset()
    assert not set(root.coords)
    names = [str(name) for name in root["chunk_variable"].values]
    minimum = root["chunk_minimum"]
    of_time = minimum[:, names.index("execution_time")]
    assert float(of_time.min()) == float(tree["one/execution_time"].min())
    assert minimum.attrs["groups"]["one"]["first_cell"] == 0
    assert all("long_name" in variable.attrs for variable in root.variables.values())
    with xr.open_zarr(store) as alone:
        assert set(alone.data_vars) == set(root.data_vars)


@pytest.mark.filterwarnings("ignore::sweep.errors.UnfinishedWarning")
def test_unfinished_store__has_no_index(tmp_path):
    indexed.write(tmp_path / "a.zarr", {"one": indexed.grid((1, 2, 2, 2, 2), 4)})
    rewrite_root(tmp_path / "a.zarr", run={"created": "", "finished": None})
    assert open_groups(tmp_path / "a.zarr")["one"].index is None
    assert len(best(tmp_path / "a.zarr"))


def test_damaged_index__is_one_line(store):
    file = store / "chunk_minimum/c.0.0"
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"^'[^\n]*chunk_minimum/c\.0\.0': its checksum"):
        best(store)


def test_fronts_of_chunks__whatever_is_smallest_where():
    """Also where the fastest has no energy, and of points that equal those at the ends."""
    rng = np.random.default_rng(3)
    for n, slope in ((50, 0), (3000, 0), (400_000, 0), (400_000, 1), (400_000, -1)):
        x, y = (rng.integers(1, 200, n).astype(np.float32) for _ in range(2))
        y += (slope * np.arange(n) / 1000).astype(np.int64) - min(0, slope) * n // 1000
        y[rng.random(n) < 0.3] = np.nan
        y[x <= 2] = np.nan
        ends = int(np.nanargmin(x)), int(np.nanargmin(y))
        assert np.isnan(y[ends[0]])
        for points in (ends, ends[:1], ends[1:]):
            assert summaries._front(x, y, points).tolist() == front([x, y]).tolist()
        curve = rng.random(n)  # all are on the front
        ends = int(np.argmin(curve)), int(np.argmax(curve))
        assert summaries._front(curve, 1 - curve, ends).size == n

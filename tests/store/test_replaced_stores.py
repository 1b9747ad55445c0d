"""A store that is replaced while somebody has it open: refused, never mixed with the new one."""

import pickle
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
from support.runs import plan
from support.store_samples import complete, digest, fill, layout, times, write_chunk

from sweep.errors import StoreError
from sweep.query import best
from sweep.runs.extending import extend
from sweep.runs.running import run
from sweep.store import buckets, open_store, root
from sweep.store.buckets import BucketFiles, files_of
from sweep.store.reader import open_groups
from sweep.store.writer import open_or_create

REPLACED = r"^'[^\n]*a\.zarr' was replaced by another store meanwhile; open it again$"
OTHER = {"variant": "printed"}
"""Makes a plan with other results of the same shapes."""


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path, monkeypatch):
    buckets._client.cache_clear()
    monkeypatch.setattr(root, "LOOK_S", 0.0)
    yield str(tmp_path / "a.zarr") if request.param == "disk" else "memory://bucket/a.zarr"
    buckets._client.cache_clear()


@pytest.mark.parametrize("other", [OTHER, {}], ids=["other", "same"])
def test_worker_that_outlived_its_run__writes_nothing_into_another_store(place, other):
    """But it may write into a store of the same plan, begun anew: the bytes are the same."""
    with open_or_create(place, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        left = pickle.loads(pickle.dumps(store.writer))
    complete(place, **other, overwrite=True)
    before = digest(place)
    with pytest.raises(StoreError, match=REPLACED) if other else nullcontext():
        left.write("kernel_0", "execution_time", (0, 1, 0), times("kernel_0", 2, 1))
    assert digest(place) == before


def test_reader_of_an_overwritten_store(place):
    run(plan(), place)
    tree, groups = open_store(place), open_groups(place)
    times = tree["sepia/execution_time"][0, 0, 0].load()
    assert groups["sepia"].data_vars["execution_time"].read().ndim == times.ndim + 3
    run(plan(**OTHER), place, overwrite=True)
    for question in (
        lambda: tree["sepia/execution_time"].load(),
        lambda: best(tree, select={"kernel": "mat_tiled"}),
        lambda: groups["sepia"].data_vars["execution_time"].read(),
    ):
        with pytest.raises(StoreError, match=REPLACED):
            question()
    assert len(best(place, by=["kernel"])) == 2


@pytest.mark.parametrize("how", ["extended", "deleted"])
def test_reader_of_another_store(place, how):
    """Whose devices have other numbers now, or that was deleted and made anew."""
    run(plan(), place)
    tree = open_store(place)
    if how == "extended":
        extend(place, plan(devices=["gt_8800", "gtx_280", "gtx_980_paper"]))
    else:
        files_of(place).remove([*files_of(place).keys()])
        shutil.rmtree(place, ignore_errors=True)
        run(plan(**OTHER), place)
    with pytest.raises(StoreError, match=REPLACED):
        tree["sepia/execution_time"].load()


@pytest.mark.filterwarnings("ignore::sweep.errors.UnfinishedWarning")
def test_reader_of_a_run__reads_on_when_it_completes(place):
    with open_or_create(place, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        tree = open_store(place)
        assert np.isfinite(tree["kernel_0/execution_time"].values).sum() == 12
        fill(store)
    assert np.isfinite(tree["kernel_1/execution_time"].values).all()


def test_bucket__is_looked_at_once_a_second(monkeypatch):
    """Not with each chunk: a look is a request of its own."""
    buckets._client.cache_clear()
    place = "memory://bucket/a.zarr"
    complete(place)
    looks = []
    mark = BucketFiles.mark
    monkeypatch.setattr(BucketFiles, "mark", lambda *args: looks.append(args) or mark(*args))
    monkeypatch.setattr(root, "_seen", {})
    for _ in range(3):
        for group in open_store(place).children.values():
            group.load()
    assert len(looks) < 4

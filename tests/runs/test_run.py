"""Runs: written results, continuation, refusals, repetition and memory."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.runs import CHUNKS, POINTS, Stop, journal, plan, python, stop_after, write_plan
from support.spec_texts import KERNEL
from support.store_samples import digest

from sweep.errors import StoreError, SweepError
from sweep.evaluation.planned import evaluate
from sweep.runs.execute import execute
from sweep.runs.run_size import forecast
from sweep.runs.running import rerun, run, store_path
from sweep.space import resolve
from sweep.specs import load_device, load_kernel
from sweep.store import lock, open_store, writer
from sweep.store.root import inspect


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the store of the small plan from an undisturbed run."""
    path = tmp_path_factory.mktemp("reference") / "small.zarr"
    run(plan(), path)
    return path


# ---------------------------------------------------------------------------- what a run leaves


def test_store_holds_what_evaluate_gives(reference):
    stored = open_store(reference)
    lazy = evaluate(plan())
    for kernel in ("sepia", "mat_tiled"):
        here, there = stored[kernel].to_dataset().load(), lazy[kernel].to_dataset().load()
        assert here.sizes.items() >= there.sizes.items()
        for name in (*there.variables, *here.variables):
            assert np.array_equal(here[name], there[name], equal_nan=here[name].dtype.kind == "f")
            assert here[name].dims == there[name].dims
            assert dict(here[name].attrs).keys() == dict(there[name].attrs).keys()
        assert here.attrs.keys() >= there.attrs.keys()


def test_root_says_how_the_results_were_made(reference):
    found = inspect(reference)
    record = found.record
    assert record["plan"] == plan().as_dict()
    assert record["variant"] == "corrected"
    assert "HK-1" in record["models"]["hong_kim"]["errata"]
    assert "HK-7" not in record["models"]["hong_kim"]["errata"]
    for kind, load in (("devices", load_device), ("kernels", load_kernel)):
        assert list(record[kind]) == list(getattr(plan(), kind))
        for key, spec in record[kind].items():
            assert spec["text"] == load(key).text
            assert spec["sha256"] == load(key).sha256
    assert {"python", "numba", "numpy", "zarr"} <= set(record["versions"])
    assert record["models"]["hong_kim"]["doi"]
    assert found.run["created"] <= found.run["finished"]


def test_forecast_is_what_comes(reference):
    expected = forecast(resolve(plan()))
    entries = journal(reference)
    assert len({(e["group"], e["chunk"]) for e in entries}) == len(entries) == CHUNKS
    assert sum(e["summary"]["points"] for e in entries) == POINTS
    assert (expected.n_points, expected.n_chunks) == (POINTS, CHUNKS)
    tree = xr.open_datatree(reference, engine="zarr", chunks=None)  # without this package
    for share in expected.kernels:
        assert share.n_bytes == sum(v.nbytes for v in tree[share.kernel].data_vars.values())
    assert float(tree["sepia/execution_time"].min()) > 0


@pytest.mark.parametrize("threads", [1, 7])
def test_bytes_do_not_depend_on_threads(tmp_path, reference, threads):
    run(plan(), tmp_path / "a.zarr", threads=threads)
    assert digest(tmp_path / "a.zarr") == digest(reference)


@pytest.mark.parametrize("chunk_points", [1, 7, 20, None])
def test_values_do_not_depend_on_chunks(tmp_path, reference, chunk_points):
    run(plan(chunk_points=chunk_points), tmp_path / "a.zarr")
    other = open_store(tmp_path / "a.zarr")
    for kernel, node in open_store(reference).children.items():
        for name, variable in node.data_vars.items():
            assert variable.values.tobytes() == other[f"{kernel}/{name}"].values.tobytes(), name


# ---------------------------------------------------------------------------- where it goes


def test_default_store_is_named_for_the_plan(folder):
    assert store_path(plan()) == Path("small.zarr")
    assert store_path(plan(store="elsewhere/a.zarr")) == Path("elsewhere/a.zarr")
    assert store_path(plan(store=False)) is None
    assert store_path(plan(store=False), "given.zarr") == Path("given.zarr")
    run(str(write_plan(folder / "mine.toml")))
    assert inspect("mine.zarr").is_finished


def test_plan_without_store(folder, reference):
    finished = run(plan(store=False))
    assert finished.path is None and finished.computed == 0
    assert os.listdir(folder) == []
    stored = open_store(reference)
    assert np.array_equal(
        finished.results["sepia/execution_time"], stored["sepia/execution_time"], equal_nan=True
    )
    with pytest.raises(SweepError, match="a run on a cluster needs a store"):
        run(plan(store=False), scheduler="tcp://localhost:1")


# ---------------------------------------------------------------------------- continuing


def test_finished_run_is_not_repeated(tmp_path, reference, boxes):
    before = digest(reference)
    times = {p: p.stat().st_mtime_ns for p in reference.rglob("*")}
    again = run(plan(), reference)
    assert (again.computed, again.resumed) == (0, POINTS)
    assert boxes == []
    assert digest(reference) == before
    assert {p: p.stat().st_mtime_ns for p in reference.rglob("*")} == times


@pytest.mark.filterwarnings("ignore::sweep.errors.UnfinishedWarning")
@pytest.mark.parametrize("moments", [(0,), (5,), (1, 2, 11)], ids=str)
def test_interrupted_run_continues(tmp_path, reference, boxes, moments):
    path = tmp_path / "a.zarr"
    done = 0
    for chunks in moments:
        with pytest.raises(Stop):
            run(plan(), path, threads=1, progress=stop_after(chunks))
        assert not inspect(path).is_finished
        assert not inspect(path).files.exists("chunk_index/lock")
        assert len(journal(path)) >= done + chunks
        done = len(journal(path))
        status = open_store(path)["sepia/status"]
        # A chunk that is being written is completed, but is not in the journal.
        left = 60 - sum(e["summary"]["points"] for e in journal(path) if e["group"] == "sepia")
        assert left - 2 <= int((status == 255).sum()) <= left
    boxes.clear()
    seen: list[tuple[int, ...]] = []
    finished = run(plan(), path, progress=lambda *counts: seen.append(counts))
    assert len(boxes) == len(set(boxes)) == CHUNKS - done
    assert finished.computed + finished.resumed == POINTS
    assert seen[0] == (finished.resumed, POINTS, finished.resumed)
    assert seen[-1] == (POINTS, POINTS, finished.resumed)
    assert digest(path) == digest(reference)


def test_different_plan_is_refused_unless_overwriting(tmp_path, reference):
    path = tmp_path / "a.zarr"
    run(plan(), path)
    other = plan(constraints=["block_size > 64"])
    message = r"holds the results of another run, which differs in .* or give --overwrite$"
    for changed in (other, plan(variant="printed"), plan(devices=["gtx_280"])):
        with pytest.raises(StoreError, match=message):
            run(changed, path)
    with pytest.raises(StoreError, match="holds the same plan in other chunks or with other labe"):
        run(plan(name="other"), path)
    assert digest(path) == digest(reference)
    run(other, path, overwrite=True)
    status = open_store(path)["sepia/status"]
    assert (status.sel(block_size=64) == 1).all()
    assert set(os.listdir(tmp_path)) == {"a.zarr"}


# ---------------------------------------------------------------------------- again


def test_rerun_does_not_need_the_files_of_the_run(folder):
    Path("mine.toml").write_text(KERNEL)
    run(plan(kernels=["./mine.toml"], axes={}, chunk_points=None), "a.zarr")
    Path("mine.toml").write_text("gone")
    with pytest.raises(SweepError, match="mine.toml"):
        run(plan(kernels=["./mine.toml"], axes={}, chunk_points=None), "a.zarr")
    rerun("a.zarr", "b.zarr")
    assert digest(Path("b.zarr")) == digest(Path("a.zarr"))


def test_rerun_from_a_store_alone__finished_or_not(tmp_path, reference):
    with pytest.raises(Stop):
        run(plan(), tmp_path / "unfinished.zarr", progress=stop_after(4))
    for source in (reference, tmp_path / "unfinished.zarr"):
        rerun(source, tmp_path / "b.zarr", overwrite=True)
        assert digest(tmp_path / "b.zarr") == digest(reference)
    assert not inspect(tmp_path / "unfinished.zarr").is_finished
    (tmp_path / "link.zarr").symlink_to(reference)
    before = digest(reference)
    for target in (reference, tmp_path / "link.zarr"):
        with pytest.raises(StoreError, match="is the store itself"):
            rerun(reference, target, overwrite=True)
    assert digest(reference) == before


# ---------------------------------------------------------------------------- memory

MEASURED = """
import resource, sys
from sweep import Plan, run
step = int(sys.argv[1])
plan = Plan(["sepia"], ["gtx_280"], ["hong_kim"], outputs=["execution_time"], chunk_points=200_000,
            axes={"block_size": [64, 128], "core_clock_ratio": {"start": 0.8, "stop": 1.2,
            "step": 0.0001}, "memory_clock_ratio": {"start": 0.8, "stop": 1.2, "step": 1 / step}})
finished = run(plan, "a.zarr", threads=2, overwrite=True)
print(finished.computed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_plan(tmp_path):
    """Eight times the configurations, 85 MB more of results: the same peak."""
    measured = []
    for step in (750, 6000):
        done = python("-c", MEASURED, str(step), cwd=tmp_path)
        done.check_returncode()
        measured.append([int(word) for word in done.stdout.split()])
    (few, small), (many, large) = measured
    assert many > 7.9 * few
    assert large - small < 25e6 < 5 * (many - few) / 3


def test_clock_that_goes_backwards__changes_nothing(reference, tmp_path, monkeypatch):
    """Only the times in the root record depend on the clock."""

    class Backwards(datetime):
        days = iter(range(0, 10**6))

        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2030, 1, 1, tzinfo=UTC) - timedelta(days=next(cls.days))

    seconds = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(writer, "datetime", Backwards)
    monkeypatch.setattr(lock, "datetime", Backwards)
    monkeypatch.setattr(time, "time", lambda: float(next(seconds)))
    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", threads=1, progress=stop_after(12))
    for file in (tmp_path / "a.zarr").rglob("*"):
        os.utime(file, (4e9, 4e9))  # as written in the future
    finished = run(plan(), tmp_path / "a.zarr")
    assert finished.resumed > 0 and finished.seconds >= 0
    about = inspect(tmp_path / "a.zarr").run
    assert about["finished"] < about["created"]
    assert digest(tmp_path / "a.zarr") == digest(reference)
    assert len(journal(tmp_path / "a.zarr")) == CHUNKS
    assert run(plan(), tmp_path / "a.zarr").computed == 0


@pytest.mark.parametrize("n", [1, 9, 10, 123])
def test_chunks_are_begun_in_their_order(n):
    """Neighbours share tables, and the first chunks take longest."""
    units, begun, done = [("kernel", i) for i in range(n)], [], []

    def work(unit):
        begun.append(unit)
        return unit, {}

    execute(work, units, lambda unit, _: done.append(unit), threads=1)
    assert begun == units and sorted(done) == units

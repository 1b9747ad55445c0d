"""An extended store equals the whole plan's store, to the bit; only new results are computed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from support.runs import FEW, SMALL, Stop, command, journal, plan, python, stop_after, write_plan
from support.store_samples import contents, digest

from sweep.cli import main
from sweep.errors import PlanError, StoreError
from sweep.query import best
from sweep.runs.extending import extend
from sweep.runs.record import layout_of
from sweep.runs.running import rerun, run, verify
from sweep.space import resolve
from sweep.store import buckets, lock, open_store
from sweep.store.buckets import BucketFiles, ObjectPath, extension_path, place_of
from sweep.store.lock import LOCK_KEY, this_process
from sweep.store.root import inspect
from sweep.store.writer import open_or_create

PLACE = "memory://bucket/a.zarr"


def axes(**changes) -> dict:
    return {key: value for key, value in {**SMALL["axes"], **changes}.items() if value is not None}


A_DEVICE = {"devices": ["gtx_280", "gtx_980_paper", "gt_8800"]}
CLOCKS_BETWEEN = {"axes": axes(core_clock_ratio=[0.9, 0.95, 1.0, 1.05, 1.1])}
A_KERNEL = {"kernels": ["sepia", "mat_tiled", "vector_add"]}
EVERYTHING = {
    "devices": ["gtx_980_paper", "gtx_280", "gt_8800"],
    "kernels": ["mat_tiled", "vector_add", "sepia"],
    "axes": axes(block_size=[64, 96, 128, 192, 256, 2000], core_clock_ratio=[0.9, 1.0, 1.1, 1.2]),
}
SIZES = axes(block_size=[32, 64, 128, 192, 256, 512, 2000], tile=[4, 8, 16])
STACKED = {"layout": "stacked", "constraints": ["block_size != 128"]}
TWO = {"derive": True, "outputs": ["execution_time", "occupancy"]}
GROWTHS = {
    "a device": ({}, A_DEVICE, 2),
    "a device in front": ({}, {"devices": ["gt_8800", "gtx_280", "gtx_980_paper"]}, 7),
    "a kernel": ({}, A_KERNEL, 5),
    "clocks between": ({}, CLOCKS_BETWEEN, None),
    "clocks around": ({}, {"axes": axes(memory_clock_ratio=[0.9, 0.95, 1.0, 1.05])}, 11),
    "block sizes": ({}, {"axes": SIZES}, 20),
    "a size swept": ({}, {"axes": axes(n=[1000, 2000])}, 6),
    "everything, small chunks": ({}, EVERYTHING, 5),
    "everything": ({}, EVERYTHING, 13),
    "everything, one chunk": ({}, EVERYTHING, None),
    "a model": (
        {"models": ["hong_kim"], **TWO}, {"models": ["luo_suda", "hong_kim"], **TWO}, 2,
    ),
    "nominal clocks to ratios": (
        {"axes": axes(core_clock_ratio=None, memory_clock_ratio=None)}, {}, None,
    ),
    "a list of configurations": (STACKED, {**STACKED, "axes": SIZES}, 5),
}  # fmt: skip


@pytest.fixture(autouse=True)
def empty_bucket():
    buckets._client.cache_clear()
    yield
    buckets._client.cache_clear()


@pytest.mark.parametrize("growth", GROWTHS)
def test_extended_store__is_that_of_the_whole_plan(tmp_path, boxes, growth):
    before, after, chunk_points = GROWTHS[growth]
    small = plan(**{"chunk_points": chunk_points, **before})
    large = plan(**{"chunk_points": chunk_points, **after})
    first = run(small, tmp_path / "a.zarr")
    boxes.clear()
    finished = extend(tmp_path / "a.zarr", large)
    new = resolve(large).n_points - first.computed
    assert (finished.computed, finished.resumed) == (new, first.computed)
    points = sum(box.n_points for _, box in boxes)
    assert points == (resolve(large).n_points if growth == "a model" else new)
    run(large, tmp_path / "b.zarr")
    assert digest(tmp_path / "a.zarr") == digest(tmp_path / "b.zarr")
    entries = [sorted(map(str, journal(tmp_path / name))) for name in ("a.zarr", "b.zarr")]
    assert entries[0] == entries[1]
    assert best(tmp_path / "a.zarr").to_json() == best(open_store(tmp_path / "b.zarr")).to_json()
    assert verify(tmp_path / "a.zarr") == []
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_aligned_chunks__are_taken_over_as_files(tmp_path):
    run(plan(), tmp_path / "a.zarr")
    before = {p.stat().st_ino for p in (tmp_path / "a.zarr/sepia").rglob("c.*")}
    extend(tmp_path / "a.zarr", plan(**A_DEVICE))
    after = {p.stat().st_ino for p in (tmp_path / "a.zarr/sepia").rglob("c.*")}
    assert len(before & after) > len(before) / 2


def test_history__is_kept_and_rerun_works(tmp_path):
    first = plan(devices=["gtx_280"])
    run(first, tmp_path / "a.zarr")
    extend(tmp_path / "a.zarr", plan())
    extend(tmp_path / "a.zarr", plan(**A_KERNEL))
    history = inspect(tmp_path / "a.zarr").run["history"]
    assert [entry["plan"] for entry in history] == [first.as_dict(), plan().as_dict()]
    assert all(entry["created"] <= entry["finished"] for entry in history)
    rerun(tmp_path / "a.zarr", tmp_path / "again.zarr")
    assert digest(tmp_path / "again.zarr") == digest(tmp_path / "a.zarr")
    assert extend(tmp_path / "a.zarr", plan(**A_KERNEL)).computed == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": ["gtx_280"]}, "has device = 'gtx_980_paper', which plan lacks"),
        ({"kernels": ["sepia"], "axes": axes(tile=None)}, "has kernel = 'mat_tiled', which plan l"),
        ({"axes": axes(tile=[8, 32])}, "has tile = 16, which plan lacks"),
        ({"axes": axes(core_clock_ratio=None)}, "has core_clock_ratio = 0.9, which plan lacks"),
        ({"models": ["wang_chu"]}, "has model = 'hong_kim', which plan lacks"),
        ({"variant": "printed"}, "has variant = 'corrected', plan has 'printed'"),
        ({"precision": "float64"}, "has precision = 'float32'"),
        ({"constraints": ["tile > 8"]}, "has constraints = "),
    ],
)
def test_plans_that_lack_something__are_one_line(tmp_path, changes, message):
    path = tmp_path / "a.zarr"
    run(plan(), path)
    before = digest(path)
    with pytest.raises(StoreError, match=rf"^'[^\n]*{message}[^\n]*$"):
        extend(path, plan(**changes))
    assert digest(path) == before
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_unfinished_damaged_or_missing_store_and_full_disk__are_one_line(tmp_path):
    path, large = tmp_path / "a.zarr", plan(**A_DEVICE)
    with pytest.raises(Stop):
        run(plan(), path, progress=stop_after(3))
    with pytest.raises(StoreError, match="is unfinished: complete it"):
        extend(path, large)
    run(plan(), path)
    with pytest.raises(PlanError, match="above the limit"):
        extend(path, large, limit=10)
    with pytest.raises(StoreError, match="no store at"):
        extend(tmp_path / "other.zarr", plan())
    chunk = path / "sepia/execution_time/c.0.1.2.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"^'[^\n]*c\.0\.1\.2\.0\.0'[^\n]*sweep verify"):
        extend(path, large)


def test_path_of_an_extension__is_beside():
    assert extension_path(Path("/x/a.zarr")) == Path("/x/.a.zarr.sweep-extended")
    for folder in ("s3://b/x", "s3://b"):
        beside = extension_path(ObjectPath(f"{folder}/a.zarr"))
        assert str(beside) == f"{folder}/.a.zarr.sweep-extended"


KILLER = """
import os, signal
real, calls = os.rename, iter(range(100))
def rename(*names):
    if ".sweep-" in str(names) and next(calls) == int(os.environ["MOMENT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    real(*names)
os.rename = rename
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(4))
def test_killed_extension__is_whole_afterwards(tmp_path, moment):
    """The extension is killed before the larger store exists, and before each renaming."""
    large = write_plan(tmp_path / "large.toml", **A_DEVICE)
    run(plan(), tmp_path / "a.zarr")
    start = command("extend", tmp_path / "a.zarr", large)
    start[start.index("-c") + 1] = KILLER + start[start.index("-c") + 1]
    done = python(*start[1:], cwd=tmp_path, MOMENT=str(moment))
    assert done.returncode == -signal.SIGKILL
    extend(tmp_path / "a.zarr", plan(name="large", **A_DEVICE))
    assert verify(tmp_path / "a.zarr") == []
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "large.toml"]
    assert list(open_store(tmp_path / "a.zarr")["sepia"].device.values) == A_DEVICE["devices"]


# ---------------------------------------------------------------------------- disks and buckets

BOTH = FEW | {"outputs": ["execution_time", "occupancy"]}
MORE = BOTH | A_DEVICE
OTHER = BOTH | {"axes": {"tile": [4, 8, 16], "core_clock_ratio": [0.9, 1.0]}}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("large") / "large.zarr"
    run(plan(**MORE), path)
    return digest(path)


@pytest.fixture(params=["disk", "bucket"])
def place(request, tmp_path) -> str:
    return str(tmp_path / "a.zarr") if request.param == "disk" else PLACE


def beside(place: str) -> dict[str, bytes]:
    return contents(str(extension_path(place_of(place))))


def test_extension_by_a_model_says_so(folder, capsys):
    run(plan(**BOTH), "a.zarr")
    write_plan(folder / "more.toml", **{**SMALL, **BOTH, "models": ["hong_kim", "wang_chu"]})
    for said in ("now 2 models for its 8 configurations, in ", "finished before, 8 configurations"):
        assert main(["extend", "a.zarr", "more.toml"]) == 0 and said in capsys.readouterr().out


def test_extension_by_command__is_that_of_the_whole_plan(tmp_path, capsys, place, large, boxes):
    before = run(plan(**BOTH), place)
    wanted = str(write_plan(tmp_path / "large.toml", **{**SMALL, **MORE}))
    boxes.clear()
    assert main(["extend", place, wanted, "--break-lock"]) == 0
    assert sum(box.n_points for _, box in boxes) == 4 and before.computed == 8
    out = capsys.readouterr().out
    assert f"{place}: 4 configurations x 1 model in" in out and "8 kept from an earlier run" in out
    assert digest(place) == large
    assert verify(place) == [] and not beside(place)
    assert len(inspect(place).run["history"]) == 1
    assert "chunk_index/lock" not in contents(place)
    assert len(best(place, by=["device"])) == 3
    times = open_store(place)["mat_tiled/execution_time"]
    assert list(times.device.values) == A_DEVICE["devices"]
    assert np.isfinite(times.sel(device="gt_8800")).any()
    again = extend(place, plan(**MORE))
    assert (again.computed, again.resumed) == (0, 12)


def test_interrupted_extension__leaves_the_store_and_continues(place, large, boxes):
    run(plan(**BOTH), place)
    before = digest(place)
    for wanted, chunks in ((MORE, 0), (OTHER, 2), (MORE, 5)):  # another plan starts from scratch
        with pytest.raises(Stop):
            extend(place, plan(**wanted), threads=1, progress=stop_after(chunks))
        assert digest(place) == before
    boxes.clear()
    extend(place, plan(**MORE))
    assert sum(box.n_points for _, box in boxes) < 4
    assert digest(place) == large
    assert not beside(place)


def test_extension__over_a_network_that_fails(large, url, network):
    run(plan(**BOTH), url)
    count, counting = iter(range(10**9)), threading.Lock()

    def fault(method: str, path: str) -> str | None:
        with counting:
            return ("503", "late", "drop")[next(count) % 3] if next(count) % 7 == 0 else None

    network.fault = fault
    extend(url, plan(**MORE))
    network.fault = lambda *_: None
    assert network.failed > 10
    assert digest(url) == large
    assert not beside(url)


def test_extension__excludes_other_writers(place):
    run(plan(**BOTH), place)
    refused = []

    def progress(*_: int) -> None:
        if not refused:
            for write in (
                lambda: run(plan(**OTHER), place, overwrite=True),
                lambda: extend(place, plan(**OTHER)),
            ):
                with pytest.raises(StoreError, match=f"'{place}' is being written by process"):
                    write()
                refused.append(write)

    extend(place, plan(**MORE), progress=progress)
    assert len(refused) == 2
    assert list(open_store(place)["mat_tiled"].device.values) == A_DEVICE["devices"]


class Killed(BaseException):
    pass


class Deadly:
    """Allows a number of changes of a bucket and drops all later ones, like a killed process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at, self.count, self._lock = at, 0, threading.Lock()
        owner = {**this_process(), "pid": 2**22 + 1}
        monkeypatch.setattr(lock, "this_process", lambda: owner)
        for name in ("write", "link", "remove"):
            monkeypatch.setattr(BucketFiles, name, self.counting(getattr(BucketFiles, name)))

    def counting(self, real):
        def change(files: BucketFiles, keys: str | list[str], *given, **named):
            with self._lock:
                if keys not in (LOCK_KEY, [LOCK_KEY]):
                    self.count += 1
                if self.count > self.at:
                    raise Killed
            return real(files, keys, *given, **named)

        return change


def but_lock() -> dict[str, str]:
    return {k: v for k, v in digest(PLACE).items() if k != "chunk_index/lock"}


def state(large: dict[str, str], before: dict[str, str]) -> str:
    """Return what a reader finds: one complete store, or none."""
    try:
        info = inspect(PLACE)
    except StoreError as error:
        assert "no store at" in str(error) and "`sweep extend` that was interr" in str(error)
        return "none"
    assert info.is_finished and verify(PLACE) == []
    found = but_lock()
    assert found in (large, before)
    return "old" if found == before else "new"


def test_killed_at_any_change__is_a_whole_store_or_none_and_continues(large, monkeypatch):
    at, seen, step = 0, [], 7
    while True:
        buckets._client.cache_clear()
        run(plan(**BOTH), PLACE)
        before = digest(PLACE)
        with monkeypatch.context() as patched:
            deadly = Deadly(patched, at)
            try:
                extend(PLACE, plan(**MORE), threads=1)
            except Killed:
                pass
        found = state(large, before)
        extend(PLACE, plan(**MORE))
        assert but_lock() == large  # which stays, if it was all that was left to do
        assert not beside(PLACE)
        if found == "new" and step > 1:  # from the last one before on at every change
            at, step = at - step + 1, 1
            continue
        seen.append(found)
        if deadly.count <= at:
            break
        at += step
    assert seen == sorted(seen, key=("old", "none", "new").index)  # and never back
    assert seen.count("old") > 10 and seen.count("none") > 3 and seen.count("new") > 1


@pytest.mark.parametrize("at", range(0, 24, 3))
def test_killed_overwriting__is_never_taken_for_a_finished_store(monkeypatch, at):
    """Its root record goes first and comes last; readers in between find no store."""
    run(plan(**BOTH), PLACE)
    before = digest(PLACE)
    tree = open_store(PLACE)
    with monkeypatch.context() as patched:
        deadly = Deadly(patched, at)
        with pytest.raises(Killed):
            open_or_create(PLACE, layout_of(resolve(plan(**OTHER))), overwrite=True)
            raise Killed
    found = but_lock()
    if at == 0:
        assert found == before
    else:
        with pytest.raises(StoreError, match="no store at"):
            inspect(PLACE)
        if "mat_tiled/execution_time/c.0.0.0.0" not in found:
            with pytest.raises(StoreError, match="is gone: deleted or moved"):
                tree["mat_tiled/execution_time"].load()
    assert deadly.count > at or at > 20
    run(plan(**OTHER), PLACE, overwrite=True)
    assert verify(PLACE) == []

"""An extended store equals the whole plan's store, to the bit; only new results are computed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.runs import SMALL, command, environment, journal, plan, write_plan
from support.store_samples import digest

from sweep.cli import main
from sweep.errors import PlanError, StoreError
from sweep.query import best
from sweep.runs import extending
from sweep.runs.extending import extend
from sweep.runs.running import rerun, run, verify
from sweep.space import resolve
from sweep.store import extension_path, inspect, open_store

AXES = SMALL["axes"]


def axes(**changes) -> dict:
    return {key: value for key, value in {**AXES, **changes}.items() if value is not None}


GROWTHS = {
    "a device": {"devices": ["gtx_280", "gtx_980", "gt_8800"]},
    "a device in front": {"devices": ["gt_8800", "gtx_280", "gtx_980"]},
    "a kernel": {"kernels": ["sepia", "mat_tiled", "vector_add"]},
    "clocks between": {"axes": axes(core_clock_ratio=[0.9, 0.95, 1.0, 1.05, 1.1])},
    "clocks around": {"axes": axes(memory_clock_ratio=[0.9, 0.95, 1.0, 1.05])},
    "block sizes": {"axes": axes(block_size=[32, 64, 128, 192, 256, 512, 2000], tile=[4, 8, 16])},
    "a size swept": {"axes": axes(n=[1000, 2000])},
    "everything": {
        "devices": ["gtx_980", "gtx_280", "gt_8800"],
        "kernels": ["mat_tiled", "vector_add", "sepia"],
        "axes": axes(
            block_size=[64, 96, 128, 192, 256, 2000], core_clock_ratio=[0.9, 1.0, 1.1, 1.2]
        ),
    },
}


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many configurations each evaluation of an extension computes."""
    points: list[int] = []
    evaluate_box = extending.evaluate_box

    def counting(space, given, box, *rest, **options):
        points.append(box.n_points)
        return evaluate_box(space, given, box, *rest, **options)

    monkeypatch.setattr(extending, "evaluate_box", counting)
    monkeypatch.setattr("sweep.runs.job.evaluate_box", counting)
    return points


@pytest.mark.parametrize(
    ("growth", "chunk_points"),
    [*zip(GROWTHS, (2, 7, 5, None, 11, 20, 6, 2), strict=True), ("everything", 13),
     ("everything", None)],
)  # fmt: skip
def test_extended_store__is_that_of_the_whole_plan(tmp_path, evaluated, growth, chunk_points):
    growth = GROWTHS[growth]
    small, large = plan(chunk_points=chunk_points), plan(chunk_points=chunk_points, **growth)
    before = run(small, tmp_path / "a.zarr")
    evaluated.clear()
    finished = extend(tmp_path / "a.zarr", large)
    new = resolve(large).n_points - before.computed
    assert (finished.computed, finished.resumed) == (new, before.computed)
    assert sum(evaluated) == new
    run(large, tmp_path / "b.zarr")
    assert digest(tmp_path / "a.zarr") == digest(tmp_path / "b.zarr")
    entries = [sorted(map(str, journal(tmp_path / name))) for name in ("a.zarr", "b.zarr")]
    assert entries[0] == entries[1]
    assert best(tmp_path / "a.zarr").to_json() == best(open_store(tmp_path / "b.zarr")).to_json()
    assert verify(tmp_path / "a.zarr") == []
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_a_model__is_evaluated_alone(tmp_path, evaluated):
    small = plan(models=["hong_kim"], derive=True, outputs=["execution_time", "occupancy"])
    large = plan(models=["luo_suda", "hong_kim"], derive=True,
                 outputs=["execution_time", "occupancy"])  # fmt: skip
    run(small, tmp_path / "a.zarr")
    evaluated.clear()
    extend(tmp_path / "a.zarr", large)
    assert sum(evaluated) == resolve(large).n_points
    run(large, tmp_path / "b.zarr")
    assert digest(tmp_path / "a.zarr") == digest(tmp_path / "b.zarr")


def test_nominal_clocks__become_ratios(tmp_path, evaluated):
    nominal = axes(core_clock_ratio=None, memory_clock_ratio=None)
    run(plan(axes=nominal, chunk_points=None), tmp_path / "a.zarr")
    large = plan(chunk_points=None)
    evaluated.clear()
    extend(tmp_path / "a.zarr", large)
    run(large, tmp_path / "b.zarr")
    assert digest(tmp_path / "a.zarr") == digest(tmp_path / "b.zarr")


def test_a_list_of_configurations__grows(tmp_path):
    options = {"layout": "stacked", "constraints": ["block_size != 128"], "chunk_points": 5}
    large = plan(axes=axes(block_size=[32, 64, 128, 192, 256, 512, 2000]), **options)
    run(plan(**options), tmp_path / "a.zarr")
    extend(tmp_path / "a.zarr", large)
    run(large, tmp_path / "b.zarr")
    assert digest(tmp_path / "a.zarr") == digest(tmp_path / "b.zarr")


def test_aligned_chunks__are_taken_over_as_files(tmp_path):
    run(plan(), tmp_path / "a.zarr")
    before = {p.stat().st_ino for p in (tmp_path / "a.zarr/sepia").rglob("c.*")}
    extend(tmp_path / "a.zarr", plan(**GROWTHS["a device"]))
    after = {p.stat().st_ino for p in (tmp_path / "a.zarr/sepia").rglob("c.*")}
    assert len(before & after) > len(before) / 2


def test_history__is_kept_and_rerun_works(tmp_path):
    first = plan(devices=["gtx_280"])
    run(first, tmp_path / "a.zarr")
    extend(tmp_path / "a.zarr", plan())
    extend(tmp_path / "a.zarr", plan(**GROWTHS["a kernel"]))
    history = inspect(tmp_path / "a.zarr").run["history"]
    assert [entry["plan"] for entry in history] == [first.as_dict(), plan().as_dict()]
    assert all(entry["created"] <= entry["finished"] for entry in history)
    rerun(tmp_path / "a.zarr", tmp_path / "again.zarr")
    assert digest(tmp_path / "again.zarr") == digest(tmp_path / "a.zarr")
    again = extend(tmp_path / "a.zarr", plan(**GROWTHS["a kernel"]))
    assert again.computed == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": ["gtx_280"]}, "has device = 'gtx_980', which plan lacks"),
        (
            {"kernels": ["sepia"], "axes": axes(tile=None)},
            "has kernel = 'mat_tiled', which plan lacks",
        ),
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


class Stop(BaseException):
    pass


def stop_after(chunks: int):
    calls = iter(range(chunks + 1))

    def progress(*_: int) -> None:
        if next(calls) == chunks:
            raise Stop

    return progress


def test_interrupted_extension__leaves_the_store_and_continues(tmp_path, evaluated):
    path, large = tmp_path / "a.zarr", plan(**GROWTHS["clocks between"])
    run(plan(), path)
    before = digest(path)
    for chunks in (0, 5, 9):
        with pytest.raises(Stop):
            extend(path, large, threads=1, progress=stop_after(chunks))
        assert digest(path) == before
    with pytest.raises(Stop):  # another plan starts from scratch
        extend(path, plan(**GROWTHS["a device"]), threads=1, progress=stop_after(3))
    with pytest.raises(Stop):
        extend(path, large, threads=1, progress=stop_after(12))
    evaluated.clear()
    extend(path, large)
    assert sum(evaluated) < resolve(large).n_points - resolve(plan()).n_points
    run(large, tmp_path / "b.zarr")
    assert digest(path) == digest(tmp_path / "b.zarr")
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_unfinished_store_or_full_disk__is_one_line(tmp_path):
    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", progress=stop_after(3))
    with pytest.raises(StoreError, match="is unfinished: complete it"):
        extend(tmp_path / "a.zarr", plan(**GROWTHS["a device"]))
    run(plan(), tmp_path / "a.zarr")
    with pytest.raises(PlanError, match="above the limit"):
        extend(tmp_path / "a.zarr", plan(**GROWTHS["a device"]), limit=10)
    with pytest.raises(StoreError, match="no store at"):
        extend(tmp_path / "other.zarr", plan())


def test_damaged_store__is_not_carried_over(tmp_path):
    run(plan(), tmp_path / "a.zarr")
    chunk = tmp_path / "a.zarr/sepia/execution_time/c.0.1.2.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"^'[^\n]*c\.0\.1\.2\.0\.0'[^\n]*sweep verify"):
        extend(tmp_path / "a.zarr", plan(**GROWTHS["a device"]))


def test_command(tmp_path, capsys):
    large = write_plan(tmp_path / "large.toml", **GROWTHS["a device"])
    run(plan(), tmp_path / "a.zarr")
    assert main(["extend", str(tmp_path / "a.zarr"), str(large)]) == 0
    out = capsys.readouterr().out
    assert "42 configurations x 1 model" in out and "84 kept from an earlier run" in out
    times = open_store(tmp_path / "a.zarr")["sepia/execution_time"]
    assert list(times.device.values) == GROWTHS["a device"]["devices"]
    assert np.isfinite(times.sel(device="gt_8800")).any()


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
    growth = GROWTHS["a device"]
    large = write_plan(tmp_path / "large.toml", **growth)
    run(plan(), tmp_path / "a.zarr")
    line = command("extend", tmp_path / "a.zarr", large)
    line[line.index("-c") + 1] = KILLER + line[line.index("-c") + 1]
    done = subprocess.run(line, env=environment(MOMENT=str(moment)), cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    extend(tmp_path / "a.zarr", plan(name="large", **growth))
    assert verify(tmp_path / "a.zarr") == []
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "large.toml"]
    devices = open_store(tmp_path / "a.zarr")["sepia"].device.values
    assert list(devices) == growth["devices"]


def test_path_of_an_extension__is_beside(tmp_path):
    assert extension_path(Path("/x/a.zarr")) == Path("/x/.a.zarr.sweep-extended")

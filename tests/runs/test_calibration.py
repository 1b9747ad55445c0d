"""`sweep plan --calibrate`: what it measures, and how a calibration is kept."""

from __future__ import annotations

import errno
import json
import math

import pytest
from support.round_rates import pass_rates, rates
from support.runs import CHUNKS, plan, write_plan

from sweep.cli import main
from sweep.errors import PlanError
from sweep.runs import rates as kept
from sweep.runs.calibrating import forms_of
from sweep.runs.costs import Resources
from sweep.runs.predicting import predict
from sweep.runs.rates import load_rates, save_rates
from sweep.space import Plan, resolve


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache directory of the test's own."""
    monkeypatch.setenv("SWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("place", ["", "missing"])
def test_disk_is_measured(tmp_path, monkeypatch, place):
    from sweep.runs import overheads

    monkeypatch.setattr(overheads, "DISK_BYTES", 1 << 22)
    monkeypatch.setattr(overheads, "WRITTEN_BYTES", 1 << 20)
    bandwidth, fresh_s, held = overheads.disk_rates(tmp_path / place)
    assert 0 < bandwidth < math.inf
    assert fresh_s >= 0 and held >= 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("full", [1, 2])
def test_full_disk_is_told(tmp_path, monkeypatch, full):
    from sweep.runs import overheads

    tried = []

    def written(descriptor):
        tried.append(descriptor)
        if len(tried) <= full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return 1.0, 2.0

    monkeypatch.setattr(overheads, "_written", written)
    if full == 1:
        assert overheads.disk_rates(tmp_path)[0] == overheads.DISK_BYTES / 2.0
    else:
        with pytest.raises(PlanError, match="No space left on device; 512 MiB must be free"):
            overheads.disk_rates(tmp_path)


def test_tables_cost_by_box_and_by_launch(monkeypatch):
    """Clocks, of which a row has some, are no launches."""
    from sweep.runs import calibrating

    axes = {
        "n": {"start": 4096, "stop": 4096 * 64, "step": 4096},
        "block_size": [64, 128, 256],
        "core_clock": [800, 900, 1000],
    }
    given = {"kernels": ["vector_add"], "devices": ["gtx_980"], "models": ["hong_kim"]}
    space = resolve(Plan(**given, axes=axes))

    def seconds(part, plan, model, box, shared):
        launches = box.n_points / 3
        return 2e-3 + 1e-6 * launches, 1e-3 + 5e-6 * launches

    monkeypatch.setattr(calibrating, "_table_seconds", seconds)
    found = calibrating._neighbours_seconds(space.kernels[0], space.plan, "hong_kim")
    assert found == pytest.approx((2e-3, 1e-6, 1e-3, 5e-6))
    one = calibrating._one_launch(resolve(Plan(**given)).kernels[0])
    assert not calibrating._neighbours_seconds(one, space.plan, "hong_kim")


@pytest.mark.slow
def test_calibration_measures_the_plan(tmp_path, monkeypatch, capsys, cache):
    from sweep.runs import overheads

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(overheads, "FEW", 4)
    monkeypatch.setattr(overheads, "DISK_BYTES", 1 << 24)
    write_plan(tmp_path / "small.toml")
    assert main(["plan", "small.toml"]) == 2
    assert "not calibrated" in capsys.readouterr().err
    assert main(["plan", "small.toml", "--calibrate", "--workers", "3"]) == 0
    assert "bottleneck: " in capsys.readouterr().out
    found = load_rates()
    space = resolve(plan())
    measured = {(p.kernel, p.model, p.form): p for p in found.passes}
    assert set(measured) == {
        (k.kernel.key, "hong_kim", form) for k in space.kernels for form in forms_of(k)
    }
    for p in found.passes:
        assert p.evaluate_s > 0 and p.reduce_s > 0 and p.write_s > 0 and p.point_bytes > 0
    assert max(p.compile_s for p in found.passes) > 0
    assert min(found.start_s, found.cluster_s, found.task_s, found.file_s, found.store_s) > 0
    # Another plan's rates are added; what is there stays.
    save_rates(rates().merged(found))
    assert {p.kernel for p in load_rates().passes} == {"sepia", "mat_tiled"}
    assert main(["plan", "small.toml", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["chunks"], told["files"]) == (CHUNKS, predict(space, found, Resources()).files)
    assert not list(tmp_path.glob("*.zarr"))
    assert [path.name for path in cache.iterdir()] == ["calibration.json"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "0.0.1"}, "is of sweep 0.0.1, this is "),
        ({"processor": "Pentium x 1"}, "is of another processor (Pentium x 1), this is "),
    ],
)
def test_stale_calibration_is_recognised(change, told, capsys):
    save_rates(rates(**change))
    assert main(["plan", "million"]) == 2
    error = capsys.readouterr().err
    assert told in error and "--calibrate" in error and error.count("\n") == 1
    assert rates().merged(rates(**change, passes=(pass_rates(kernel="old"),))) == rates()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 2}', '{"schema": 2, "passes": 3}']
)
def test_damaged_calibration_is_recognised(text, cache, capsys):
    path = save_rates(rates())
    assert path.parent == cache
    path.write_text(text, encoding="utf-8")
    assert main(["plan", "million"]) == 2
    error = capsys.readouterr().err
    assert "calibration" in error and "--calibrate" in error and error.count("\n") == 1


def test_wrong_type_in_a_calibration(capsys):
    path = save_rates(rates())
    path.write_text(path.read_text().replace('"start_s": 1.0', '"start_s": "soon"'))
    assert main(["plan", "million"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_cache_directory_follows_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("SWEEP_CACHE")
    monkeypatch.setattr(kept.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept.calibration_path() == tmp_path / "sweep" / "calibration.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kept.calibration_path() == tmp_path / ".cache" / "sweep" / "calibration.json"
    monkeypatch.setattr(kept.sys, "platform", "darwin")
    assert kept.calibration_path() == tmp_path / "Library" / "Caches" / "sweep" / "calibration.json"


def test_unwritable_cache_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SWEEP_CACHE", str(tmp_path / "file"))
    with pytest.raises(PlanError, match="SWEEP_CACHE names another"):
        save_rates(rates())


@pytest.mark.parametrize("chunk_points", [None, 3_000_000])
def test_part_of_a_grid_is_one_chunk(chunk_points):
    """Also one that would be cut if it were a plan of its own."""
    from sweep.runs.overheads import restricted

    axes = {"n": {"start": 256, "stop": 256 * 4000, "step": 256}, "block_size": [64, 128]}
    clocks = {"core_clock": {"start": 500, "stop": 1000, "step": 1}}
    wide = Plan(["vector_add"], ["gtx_980"], ["hong_kim"], axes=axes | clocks,
                chunk_points=chunk_points)  # fmt: skip
    kernel = resolve(wide).kernels[0]
    assert kernel.grid.n_chunks > 1
    for number in range(kernel.grid.n_chunks):
        box = kernel.grid.box(number)
        grid = restricted(kernel, box).grid
        assert (grid.n_chunks, grid.shape, grid.chunk_shape) == (1, box.shape, box.shape)

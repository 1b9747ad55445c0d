"""The regression guard: what changed between two results, against brute force, and exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from sweep import Plan, plot
from sweep.cli import main
from sweep.errors import QueryError
from sweep.query import changed_configurations, compare_results
from sweep.query.changes import changes
from sweep.runs.running import run
from sweep.specs import load_device

FLAGS = {"flag_values": [0, 1, 2], "flag_meanings": "none a_1 a_2"}


def results(times, tiles=None, energies=None, regimes=None):
    """Return one kernel's results of one model on one device."""
    dims = ("model", "device", "tile")
    times = np.asarray(times, np.float32)[np.newaxis, np.newaxis]
    data = {"execution_time": (dims, times, {"units": "s"})}
    data["status"] = (dims, np.where(np.isfinite(times), 0, 8).astype(np.uint8))
    if energies is not None:
        data["energy"] = (dims, np.asarray(energies, np.float32)[np.newaxis, np.newaxis])
    if regimes is not None:
        codes = np.asarray(regimes, np.uint8)[np.newaxis, np.newaxis]
        data["regime"] = (dims, codes, FLAGS)
    tiles = np.arange(times.shape[-1]) if tiles is None else tiles
    coords = {"model": ["a"], "device": ["d"], "tile": tiles}
    return xr.DataTree.from_dict({"k": xr.Dataset(data, coords)})


def test_compare__identical_results_change_nothing():
    one = results([3, 1, 2], energies=[1, 3, 2], regimes=[1, 1, 2])
    (row,) = compare_results(one, one).rows
    assert row["changed"] == row["front_changes"] == row["only_before"] == 0
    assert (row["optimum_change"], row["optimum_moved"], row["verdict"]) == (0.0, "no", "ok")


def test_compare__a_slower_optimum_is_a_regression():
    (row,) = compare_results(results([3, 1, 2]), results([3, 1.5, 1.25]), tolerance=0.1).rows
    assert row["changed"] == 2
    assert row["largest_slowdown"] == pytest.approx(0.5)
    assert row["largest_speedup"] == pytest.approx(0.375)
    assert row["optimum_change"] == pytest.approx(0.25)
    assert (row["optimum_moved"], row["verdict"]) == ("yes", "slower")


def test_compare__slower_elsewhere_is_reported_and_passes():
    (row,) = compare_results(results([3, 1, 2]), results([9, 1, 2])).rows
    assert (row["changed"], row["verdict"]) == (1, "ok")


def test_compare__a_lost_optimum_is_a_regression():
    nothing = [np.nan] * 2
    (row,) = compare_results(results([1, 2]), results(nothing)).rows
    assert (row["became_invalid"], row["verdict"]) == (2, "slower")
    (row,) = compare_results(results(nothing), results([1, 2])).rows
    assert (row["became_valid"], row["verdict"]) == (2, "ok")


def test_compare__matches_configurations_by_label():
    before = results([1, 2, 3], tiles=[8, 16, 32])
    after = results([3, 2, 9], tiles=[32, 16, 64])
    (row,) = compare_results(before, after).rows
    assert (row["compared"], row["changed"]) == (2, 0)
    assert (row["only_before"], row["only_after"]) == (1, 1)


def test_compare__fronts_and_regimes():
    before = results([1, 2, 3], energies=[3, 2, 1], regimes=[1, 1, 1])
    after = results([1, 2, 3], energies=[3, 4, 1], regimes=[1, 2, 1])
    (change,) = changes(before, after)
    assert change.row(0.01)["front_changes"] == 1  # tile 1 left the front
    slower = results([1, 4, 3], energies=[3, 2, 1], regimes=[1, 2, 1])
    (row,) = compare_results(before, slower).rows
    assert row["worst_regime"] == "a_1 > a_2"


def test_compare__nothing_in_common():
    with pytest.raises(QueryError, match="no value of tile"):
        compare_results(results([1], tiles=[8]), results([1], tiles=[16]))
    other = xr.DataTree.from_dict({"other": results([1])["k"].to_dataset()})
    with pytest.raises(QueryError, match="in common"):
        compare_results(results([1]), other)


def test_compare__measured_times_have_no_model():
    before, after = (
        xr.DataTree.from_dict({"k": results(times)["k"].to_dataset().isel(model=0, drop=True)})
        for times in ([3, 1, 2], [3, 1.5, 1.25])
    )
    answer = compare_results(before, after, tolerance=0.1)
    (row,) = answer.rows
    assert (row["device"], row["model"], row["verdict"]) == ("d", None, "slower")
    assert "model" not in answer.to_table()
    assert plot.changes_plot(before, after).axes[0].get_yticklabels()[0].get_text() == "k, d"
    first = changed_configurations(before, after, 0).rows[0]
    assert first.configuration == {"kernel": "k", "device": "d", "tile": 1}


def test_changed_configurations__names_optima_changes_and_fronts():
    before = results([1, 2, 3, np.nan], energies=[4, 3, 1, np.nan], regimes=[1, 1, 1, 0])
    after = results([1, 6, 1.5, 9], energies=[4, 3, 1, 9], regimes=[1, 2, 1, 1])
    rows = {row["tile"]: row for row in changed_configurations(before, after, 3)}
    assert [row["what"] for row in rows.values()] == [
        "best before, best after",
        "became valid",
        "slower, left the front",
        "faster",
    ]
    assert list(rows) == [0, 3, 1, 2]
    assert (rows[1]["before"], rows[1]["after"], rows[1]["change"]) == (2.0, 6.0, 2.0)
    assert (rows[1]["regime_before"], rows[1]["regime_after"]) == ("a_1", "a_2")
    assert (rows[3]["before"], rows[3]["after"], rows[3]["change"]) == (None, 9.0, None)


def test_changed_configurations__are_the_largest_changes_of_brute_force():
    random = np.random.default_rng(3)
    one, other = random.uniform(1, 9, (2, 500)).astype(np.float32)
    rows = changed_configurations(results(one), results(other), 40, tolerance=0.5).rows
    found = [row["tile"] for row in rows if {"slower", "faster"} & set(row["what"].split(", "))]
    size = np.abs(np.log(other.astype(float) / one))
    size[np.abs(other.astype(float) / one - 1) <= 0.5] = 0
    assert sorted(found) == sorted(np.argsort(-size)[:40])
    assert all(row["change"] == pytest.approx(row["after"] / row["before"] - 1) for row in rows)


def test_changed_configurations__a_best_that_is_best_still_among_equals():
    rows = changed_configurations(results([2, 1, 1]), results([3, 4, 3]), 0).rows
    assert [(row["tile"], row["what"]) for row in rows] == [(2, "best before, best after")]
    rows = changed_configurations(results([np.nan, 1]), results([2, np.nan]), 0).rows
    assert [(row["tile"], row["what"]) for row in rows] == [(1, "best before"), (0, "best after")]


@pytest.mark.parametrize("wrong", [{"n": -1}, {"tolerance": np.nan}])
def test_changed_configurations__refuses(wrong):
    with pytest.raises(QueryError):
        changed_configurations(results([1]), results([1]), **wrong)


def test_changes_plot__marks_regressions(tmp_path):
    figure = plot.changes_plot(results([3, 1, 2]), results([3, 2, 2]))
    marks = [line.get_marker() for line in figure.axes[0].lines]
    assert "D" in marks
    assert plot.save(figure, tmp_path / "changes.png").stat().st_size > 4000


@pytest.mark.slow
def test_command__exit_code_for_a_build_server(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = dict(kernels=["sepia"], devices=["gtx_280"], models=["hong_kim"])
    run(Plan(**plan), "before.zarr")
    run(Plan(**plan, axes={"core_clock_ratio": [0.8]}), "slow_clock.zarr")
    assert main(["compare", "before.zarr", "before.zarr"]) == 0
    # The same device with slower memory, found before the shipped file.
    text = load_device("gtx_280").text.replace(
        "departure_del_uncoal_cycles = 40", "departure_del_uncoal_cycles = 48"
    )
    (tmp_path / "own" / "devices").mkdir(parents=True)
    (tmp_path / "own" / "devices" / "gtx_280.toml").write_text(text)
    monkeypatch.setenv("SWEEP_PATH", str(tmp_path / "own"))
    run(Plan(**plan), "after.zarr")
    assert main(["compare", "before.zarr", "after.zarr"]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["compare", "before.zarr", "slow_clock.zarr"]) == 2
    assert "other dimensions" in capsys.readouterr().err
    assert main(["compare", "before.zarr", "after.zarr", "--tolerance", "0.5", "--format", "json",
                 "-o", "changes.png"]) == 0  # fmt: skip
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert main(["compare", "before.zarr", "after.zarr", "--list", "3", "--format", "json"]) == 1
    listed = json.loads(capsys.readouterr().out)["rows"]
    assert {"best before", "best after"} <= {w for r in listed for w in r["what"].split(", ")}
    assert 0.1 < row["optimum_change"] < 0.3
    assert (tmp_path / "changes.png").exists()

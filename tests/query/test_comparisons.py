"""Comparisons of two results and of models: brute force, cases by hand, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from sweep import Plan, plot
from sweep.cli import main
from sweep.errors import QueryError
from sweep.evaluation.planned import evaluate
from sweep.plot import draw
from sweep.query import changed_configurations, compare_models, compare_results
from sweep.query.agreement import average_ranks, model_pairs, spearman
from sweep.runs.running import run
from sweep.specs import load_device

FLAGS = {"flag_values": [0, 1, 2, 3, 4], "flag_meanings": "none a_1 a_2 b_1 b_2"}
NAN = np.nan


MODELS = ["a", "b", "luo_suda", "zhang_owens", "hong_kim", "combined"]


def results(times, tiles=None, energies=None, regimes=None):
    """Return one kernel's results on one device; of one model, or of one for each list."""
    dims = ("model", "device", "tile")

    def numbers(values, dtype):
        return np.atleast_2d(np.asarray(values, dtype))[:, np.newaxis]

    times = numbers(times, np.float32)
    data = {"execution_time": (dims, times, {"units": "s"})}
    data["status"] = (dims, np.where(np.isfinite(times), 0, 8).astype(np.uint8))
    if energies is not None:
        data["energy"] = (dims, numbers(energies, np.float32))
    if regimes is not None:
        data["regime"] = (dims, numbers(regimes, np.uint8), FLAGS)
    tiles = np.arange(times.shape[-1]) if tiles is None else tiles
    coords = {"model": MODELS[: len(times)], "device": ["d"], "tile": tiles}
    return xr.DataTree.from_dict({"k": xr.Dataset(data, coords)})


# ---------------------------------------------------------------------------- before and after

CHANGES = {
    "identical": (
        {"times": [3, 1, 2], "energies": [1, 3, 2], "regimes": [1, 1, 2]}, {}, 0.01,
        {"changed": 0, "front_changes": 0, "only_before": 0, "only_after": 0,
         "optimum_change": 0.0, "optimum_moved": "no", "verdict": "ok"}),
    "a slower optimum is a regression": (
        {"times": [3, 1, 2]}, {"times": [3, 1.5, 1.25]}, 0.1,
        {"changed": 2, "largest_slowdown": 0.5, "largest_speedup": 0.375, "optimum_change": 0.25,
         "optimum_moved": "yes", "verdict": "slower"}),
    "slower elsewhere passes": (
        {"times": [3, 1, 2]}, {"times": [9, 1, 2]}, 0.01, {"changed": 1, "verdict": "ok"}),
    "a lost optimum is a regression": (
        {"times": [1, 2]}, {"times": [NAN, NAN]}, 0.01,
        {"became_invalid": 2, "optimum_moved": "yes", "verdict": "slower"}),
    "a new optimum": (
        {"times": [NAN, NAN]}, {"times": [1, 2]}, 0.01, {"became_valid": 2, "verdict": "ok"}),
    "matched by label": (
        {"times": [1, 2, 3], "tiles": [8, 16, 32]}, {"times": [3, 2, 9], "tiles": [32, 16, 64]},
        0.01, {"compared": 2, "changed": 0, "only_before": 1, "only_after": 1}),
    "one leaves the front": (
        {"times": [1, 2, 3], "energies": [3, 2, 1]}, {"energies": [3, 4, 1]}, 0.01,
        {"front_changes": 1}),
    "the worst regime": (
        {"times": [1, 2, 3], "regimes": [1, 1, 1]}, {"times": [1, 4, 3], "regimes": [1, 2, 1]},
        0.01, {"worst_regime": "a_1 > a_2"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_compare_results(case):
    before, after, tolerance, expected = CHANGES[case]
    one, other = results(**before), results(**before | after)
    (row,) = compare_results(one, other, tolerance=tolerance).rows
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_compare_results__nothing_in_common():
    with pytest.raises(QueryError, match="no value of tile"):
        compare_results(results([1], tiles=[8]), results([1], tiles=[16]))
    other = xr.DataTree.from_dict({"other": results([1])["k"].to_dataset()})
    with pytest.raises(QueryError, match="in common"):
        compare_results(results([1]), other)


def test_compare_results__judges_each_size_by_itself_if_it_is_asked_to():
    plan = {"devices": ["gtx_280"], "models": ["hong_kim"], "axes": {"n": [65536, 16777216]}}
    before = evaluate(Plan(kernels=["vector_add", "mat_naive"], **plan)).compute()
    after = before["vector_add"].to_dataset().copy(deep=True)
    after["execution_time"][{"n": 1}] *= 2  # the best over both sizes remains that of the first
    pooled = compare_results(before, after)
    assert [row["verdict"] for row in pooled] == ["ok"]
    assert pooled.notes[1:] == (
        "not compared, because only the earlier results have it: kernel mat_naive",
        "the best is that over all n: --by judges each value by itself",
    )
    apart = compare_results(before, after, by=["device", "n"])  # devices always are
    assert [(row["n"], row["verdict"]) for row in apart] == [(65536, "ok"), (16777216, "slower")]
    assert len(apart.notes) == 2
    lost = compare_results(before, after.isel(n=[0]), by=["n"])
    assert lost.notes[1].endswith("have it: kernel mat_naive, n 16777216")
    assert changed_configurations(before, after.isel(n=[0]), by=["n"]).notes == lost.notes[1:]
    first = changed_configurations(before, after, 1, by=["n"]).rows[-1]
    assert (first["n"], first["change"]) == (16777216, 1.0)
    labels = plot.changes_plot(before, after, by=["n"]).axes[0].get_yticklabels()
    assert labels[1].get_text() == "vector_add, gtx_280, hong_kim, 16777216"
    with pytest.raises(QueryError, match="by: no dimension 'm'"):
        compare_results(before, after, by=["m"])


def test_compare_results__measured_times_have_no_model():
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
    before = results([1, 2, 3, NAN], energies=[4, 3, 1, NAN], regimes=[1, 1, 1, 0])
    after = results([1, 6, 1.5, 9], energies=[4, 3, 1, 9], regimes=[1, 2, 1, 1])
    found = {
        row["tile"]: tuple(row[name] for name in ("what", "before", "after", "change"))
        for row in changed_configurations(before, after, 3)
    }
    assert list(found.items()) == [
        (0, ("best before, best after", 1.0, 1.0, 0.0)),
        (3, ("became valid", None, 9.0, None)),
        (1, ("slower, left the front", 2.0, 6.0, 2.0)),
        (2, ("faster", 3.0, 1.5, -0.5)),
    ]
    row = changed_configurations(before, after, 3)[2]
    assert (row["regime_before"], row["regime_after"]) == ("a_1", "a_2")


def test_changed_configurations__are_the_largest_changes_of_brute_force():
    random = np.random.default_rng(3)
    one, other = random.uniform(1, 9, (2, 500)).astype(np.float32)
    rows = changed_configurations(results(one), results(other), 40, tolerance=0.5).rows
    found = [row["tile"] for row in rows if {"slower", "faster"} & set(row["what"].split(", "))]
    size = np.abs(np.log(other.astype(float) / one))
    size[np.abs(other.astype(float) / one - 1) <= 0.5] = 0
    assert sorted(found) == sorted(np.argsort(-size)[:40])
    assert all(row["change"] == pytest.approx(row["after"] / row["before"] - 1) for row in rows)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([2, 1, 1], [3, 4, 3], [(2, "best before, best after")]),
        ([NAN, 1], [2, NAN], [(1, "best before"), (0, "best after")]),
    ],
)
def test_changed_configurations__best_among_equals(before, after, expected):
    rows = changed_configurations(results(before), results(after), 0).rows
    assert [(row["tile"], row["what"]) for row in rows] == expected


def _random(random: np.random.Generator, share: float) -> xr.DataTree:
    """Return two models' results on two devices, with ties and a share of invalid ones."""
    shape, dims = (2, 2, 5, 6, 7), ("model", "device", "x", "y", "z")
    times, energies = np.round(random.uniform(1, 9, (2, *shape)) * 2).astype(np.float32) / 2
    times[random.random(shape) < share] = NAN
    data = {"execution_time": (dims, times, {"units": "s"}), "energy": (dims, energies),
            "regime": (dims, random.integers(0, 5, shape).astype(np.uint8), FLAGS)}  # fmt: skip
    coords = {"model": ["a", "b"], "device": ["d", "e"], "x": range(5), "y": range(6)}
    dataset = xr.Dataset(data, coords | {"z": range(7)}).transpose(*random.permutation(dims))
    return xr.DataTree.from_dict({"k": dataset})


@pytest.mark.parametrize("share", [0.0, 0.4, 0.95, 1.0])
def test_compared_by_blocks_as_at_once(share, monkeypatch):
    random = np.random.default_rng(int(100 * share))
    before, after = _random(random, share), _random(random, share)
    answers = {}
    for points in (1, 7, 50, 10**6):
        monkeypatch.setattr("sweep.query.pairing.POINTS", points)
        answers[points] = (compare_results(before, after, tolerance=0.2).to_json(),
                           changed_configurations(before, after, 9).to_json())  # fmt: skip
    assert len(set(answers.values())) == 1
    both = [
        results["k"]["execution_time"].sel(model="b", device="e") for results in (before, after)
    ]
    one, other = (times.transpose("x", "y", "z").values for times in both)
    row = compare_results(before, after, tolerance=0.2).rows[-1]
    ratio = (other / one)[np.isfinite(other / one)]
    assert (row["model"], row["device"], row["compared"]) == ("b", "e", 210)
    assert row["changed"] == (np.abs(ratio - 1) > 0.2).sum()
    assert row["became_valid"] == (np.isnan(one) & np.isfinite(other)).sum()
    assert row["largest_slowdown"] == (max(ratio.max() - 1, 0) if ratio.size else None)


PEAK = """
import resource
from dataclasses import replace
from sweep.evaluation.planned import Planned
from sweep.query import compare_results
from sweep.space import load_plan
peaks = []
for step in (12.0, 6.0, 3.0):
    clocks = {"start": 400, "stop": 1000, "step": step}
    axes = {"core_clock": clocks, "memory_clock": clocks}
    plan = replace(load_plan("million"), axes=axes, models=("hong_kim",), store=False)
    compare_results(*(Planned.of(replace(plan, variant=v)) for v in ("corrected", "revised")))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(peaks[2] / peaks[1])
"""


@pytest.mark.slow
def test_compare_results__memory_does_not_grow_with_the_results():
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.25  # for four times as many, 5.7 million


@pytest.mark.parametrize("wrong", [{"n": -1}, {"tolerance": NAN}])
def test_changed_configurations__refuses(wrong):
    with pytest.raises(QueryError):
        changed_configurations(results([1]), results([1]), **wrong)


def test_changes_plot__marks_regressions(tmp_path):
    figure = plot.changes_plot(results([3, 1, 2]), results([3, 2, 2]))
    assert "D" in [line.get_marker() for line in figure.axes[0].lines]
    assert plot.save(figure, tmp_path / "changes.png").stat().st_size > 4000


@pytest.mark.slow
def test_command__exit_code_for_a_build_server(folder, monkeypatch, capsys):
    plan = dict(kernels=["sepia"], devices=["gtx_280"], models=["hong_kim"])
    run(Plan(**plan), "before.zarr")
    run(Plan(**plan, axes={"core_clock_ratio": [0.8]}), "slow_clock.zarr")
    assert main(["compare", "before.zarr", "before.zarr"]) == 0
    # The same device with slower memory, found before the shipped file.
    text = load_device("gtx_280").text.replace(
        "departure_del_uncoal_cycles = 40", "departure_del_uncoal_cycles = 48"
    )
    (folder / "own" / "devices").mkdir(parents=True)
    (folder / "own" / "devices" / "gtx_280.toml").write_text(text)
    monkeypatch.setenv("SWEEP_PATH", str(folder / "own"))
    run(Plan(**plan), "after.zarr")
    assert main(["compare", "before.zarr", "after.zarr"]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["compare", "before.zarr", "slow_clock.zarr"]) == 2
    assert "other dimensions (core_clock_ratio only after)" in capsys.readouterr().err
    command = ["compare", "before.zarr", "after.zarr", "--format", "json"]
    assert main([*command, "--tolerance", "0.5", "-o", "changes.png"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert 0.1 < row["optimum_change"] < 0.3
    assert (folder / "changes.png").exists()
    assert main([*command, "--list", "3"]) == 1
    listed = json.loads(capsys.readouterr().out)["rows"]
    assert {"best before", "best after"} <= {w for r in listed for w in r["what"].split(", ")}


# ---------------------------------------------------------------------------- models


def ranks_by_counting(values):
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40))
def test_spearman__is_the_correlation_of_the_ranks(pairs):
    a, b = np.array(pairs, float).T
    ranks = np.array(ranks_by_counting(a)), np.array(ranks_by_counting(b))
    assert average_ranks(a).tolist() == ranks[0].tolist()
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        assert np.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)


@pytest.mark.parametrize(
    ("times", "regimes", "expected"),
    [
        ([[4, 2, 3, NAN], [8, 5, 4, 1]], None,
         {"configurations": 3, "rank_correlation": 0.5, "same_best": "no", "parts_in": None,
          "loss_of_first": 5 / 4 - 1, "loss_of_second": 3 / 2 - 1}),  # a chooses tile 1, b tile 2
        ([[1, 1, 3], [2, 1, 4]], None, {"same_best": "yes"}),
        ([[1, 2, 3, 4, 5, 6], [1, 2, 3, 6, 5, 4]], [[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]],
         {"parts_in": "a_2 / b_2"}),
    ],
    ids=["by hand", "ties", "regimes"],
)  # fmt: skip
def test_compare_models(times, regimes, expected):
    (row,) = compare_models(results(times, regimes=regimes)).rows
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_compare_models__one_model_is_nothing_to_compare():
    with pytest.raises(QueryError, match="no two models"):
        compare_models(results([1, 2]))


def test_model_pairs__a_large_space_is_sampled(monkeypatch):
    monkeypatch.setattr("sweep.query.agreement.SAMPLE", 10)
    (pair,) = model_pairs(results(np.random.default_rng(1).random((2, 64))))
    assert pair.values.shape == (2, 8)


def test_models_plot__marks_shared_optima_and_names_the_worst(tmp_path):
    times = [[1, 2, 3, 4], [1, 4, 3, 2]]
    figure = plot.models_plot(results(times, regimes=[[1, 1, 2, 2], [3, 3, 4, 4]]))
    left, right = figure.axes[:2]
    assert len(left.lines) == 1
    assert "least agreement: k, d" in right.get_title()
    assert right.get_xlabel() == draw.label("execution time, a", "s")
    (wide,) = plot.models_plot(results([[1, 2, 3, 4], [1, 400, 3, 2]])).axes[1:2]
    assert wide.get_xscale() == wide.get_yscale() == "log"  # or equality would be no line
    assert plot.save(figure, tmp_path / "models.png").stat().st_size > 5000


def test_models_plot__names_of_fifteen_pairs_do_not_overlap():
    times = 1e-4 * np.random.default_rng(1).uniform(1, 9, (6, 4))
    figure = plot.models_plot(results(times, regimes=np.ones((6, 4))))
    left, right = figure.axes[:2]
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in left.get_xticklabels()]
    assert len(boxes) == 15
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    assert left.get_yticklabels()[0].get_window_extent().x0 > 0.01 * figure.bbox.width
    assert "[µs]" in right.get_xlabel()

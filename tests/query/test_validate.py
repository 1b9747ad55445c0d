"""Predictions against measured times: the statistics, the matching, and a real tuning space."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refused
from support.tuning_files import CACHE, measured

from sweep import query
from sweep.cli import main
from sweep.errors import QueryError
from sweep.measurements.importing import read_measured
from sweep.models.luo_suda_2011 import accuracy as equation_14
from sweep.query.agreement import errors, found_by, kendall

KERNEL = Path(__file__).parents[1] / "data" / "tuning" / "convolution_milo.toml"


pytestmark = pytest.mark.usefixtures("folder")


# ---------------------------------------------------------------------------- statistics

SMALL = st.lists(st.integers(0, 5), min_size=2, max_size=9)


def kendall_by_pairs(first: list[int], second: list[int]) -> float:
    """Tau-b by its definition."""
    a, b = np.array(first), np.array(second)
    i, j = np.triu_indices(len(a), 1)
    x, y = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
    norm = np.sqrt(float((x != 0).sum()) * float((y != 0).sum()))
    return float((x * y).sum() / norm) if norm else float("nan")


@given(st.data())
def test_kendall_is_its_definition(data):
    first = data.draw(SMALL)
    second = data.draw(st.lists(st.integers(0, 5), min_size=len(first), max_size=len(first)))
    found = kendall(np.array(first, float), np.array(second, float))
    np.testing.assert_allclose(found, kendall_by_pairs(first, second), atol=1e-12)


def test_kendall_counts_many_pairs():
    values = np.random.default_rng(3).normal(size=20_000)
    assert kendall(values, values) == 1.0
    assert kendall(values, -values) == -1.0
    assert abs(kendall(values, np.random.default_rng(4).normal(size=20_000))) < 0.02


@given(st.data())
def test_what_an_order_finds_is_the_mean_over_the_orders_of_its_ties(data):
    score = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=6))
    n = len(score)
    times = data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n, unique=True))
    k = data.draw(st.integers(1, n))
    orders = [p for p in itertools.permutations(range(n))
              if all(score[a] <= score[b] for a, b in itertools.pairwise(p))]  # fmt: skip
    fastest = set(sorted(times)[:k])
    smallest = np.mean([min(times[i] for i in order[:k]) for order in orders])
    recall = np.mean([len({times[i] for i in order[:k]} & fastest) / k for order in orders])
    found = found_by(np.array(score, float), np.array(times, float), k)
    np.testing.assert_allclose(found, [recall, smallest])


def test_accuracy_is_equation_14():
    times = np.random.default_rng(5).uniform(0.1, 9.0, (2, 50))
    expected = np.mean([equation_14(a, b) for a, b in times.T])
    assert errors(*times)[1] == pytest.approx(expected)
    assert errors(np.array([2.0]), np.array([4.0])) == (0.5, 0.5)


# ---------------------------------------------------------------------------- matching


def predicted() -> xr.Dataset:
    """Predictions over x, y and a clock, the time being x * y / clock."""
    x, y, clock = np.array([1, 2, 4]), np.array([10, 20]), np.array([1.0, 2.0])
    time = x[:, None, None] * y[:, None] / clock
    time = np.where(time == 80, np.nan, time)
    dims = ("model", "device", "x", "y", "core_clock_ratio")
    status = np.where(np.isnan(time), 3, 0).astype(np.uint8)
    occupancy = np.broadcast_to(x[:, None] / 8, (3, 2))
    coords = {"model": ["hong_kim"], "device": ["gtx_980"], "x": x, "y": y,
              "core_clock_ratio": clock, "n": 7.0}  # fmt: skip
    return xr.Dataset(
        {
            "execution_time": (dims, time[None, None]),
            "status": (dims, status[None, None]),
            "occupancy": (("device", "x", "y"), occupancy[None]),
        },
        coords,
        {"kernel": "k"},
    )


def rows_of(text: str) -> xr.Dataset:
    Path("k.csv").write_text(text)
    return read_measured(["k.csv"])


MEASURED = "device,x,y,time_s\n" + "".join(
    f"gtx_980,{x},{y},{t}\n" for x, y, t in
    [(1, 10, 3), (2, 10, 1), (4, 10, 2), (1, 20, 8), (2, 20, 7), (4, 20, 6), (8, 10, 0.5)]
)  # fmt: skip


AT_BASE = {"core_clock_ratio": 1.0}


def test_a_small_case_by_hand():
    answer = query.validate(predicted(), rows_of(MEASURED), select=AT_BASE)
    model, occupancy, random = answer
    assert [row["ranking"] for row in answer] == ["hong_kim", "(occupancy)", "(random)"]
    # predicted 10 20 40 20 40 and none; measured 3 1 2 8 7, and 6 without a prediction
    assert model["configurations"] == 5
    by_pairs = kendall_by_pairs([10, 20, 40, 20, 40], [3, 1, 2, 8, 7])
    assert model["kendall"] == pytest.approx(by_pairs)
    assert model["regret_1"] == pytest.approx(3 / 0.5 - 1)  # the optimum lies outside
    assert model["regret_10"] == pytest.approx(1 / 0.5 - 1)
    assert model["recall_1"] == 0.0 and model["recall_10"] == 1.0
    ratios = np.array([3 / 10, 1 / 20, 2 / 40, 8 / 20, 7 / 40])
    assert model["scale"] == pytest.approx(np.median(ratios))
    assert model["mape"] == pytest.approx(np.mean(1 / ratios - 1))
    assert model["accuracy"] == pytest.approx(np.mean(ratios))
    assert occupancy["regret_1"] == pytest.approx((2 + 6) / 2 / 0.5 - 1)  # two tie
    assert random["regret_1"] == pytest.approx(np.mean([3, 1, 2, 8, 7, 6]) / 0.5 - 1)
    text = "7 configurations with a measured time, 1 of them not among the predictions"
    assert text in answer.notes[0]
    assert "no time for 1 that ran (registers 1)" in answer.notes[0]
    upper_case = rows_of(MEASURED.replace("x,y,", "X,Y,"))
    assert query.validate(predicted(), upper_case, select=AT_BASE).rows == answer.rows
    worst = query.misses(query.paired(predicted(), rows_of(MEASURED), select=AT_BASE), 2)
    assert [(row["x"], row["y"]) for row in worst] == [(2, 10), (4, 10)]
    assert worst[0]["ratio"] == pytest.approx(0.175 * 20 / 1)
    assert worst[0]["measured"] == 1.0 and worst[0]["predicted"] == 20.0


def test_a_model_has_a_star_where_its_times_rest_on_fitted_values():
    names = np.array([["kernel: stage (fitted), kernel: launch"]], dtype=object)
    starred = predicted().assign(assumed=(("model", "device"), names))
    answer = query.validate(starred, rows_of(MEASURED), select=AT_BASE)
    resting = [row["rests_on_assumed"] for row in answer]
    assert resting == [["kernel: stage (fitted)", "kernel: launch"], [], []]
    note = "* rests on assumed values (kernel: launch) and on fitted values (kernel: stage)"
    assert note in answer.notes and "hong_kim*" in str(answer)
    plain = query.validate(predicted(), rows_of(MEASURED), select=AT_BASE)
    assert "*" not in str(plain)


@pytest.mark.parametrize(
    ("text", "select", "pattern"),
    [
        (MEASURED, {"core_clock_ratio": [1.0, 2.0]}, "2 values of core_clock_ratio, which was not "
         "measured .*select one"),
        (MEASURED.replace("gtx_980", "gtx_280"), {}, "no device was both predicted .* and meas"),
        (MEASURED, {"model": "wang"}, "has no model = 'wang'"),
        (MEASURED.replace(",y,", ",z,"), {}, "'z' was varied when measured, but kernel 'k'"),
        ("device,a,time_s\ngtx_980,1,2\n", {}, "no parameter in common"),
        ("device,x,y,n,time_s\ngtx_980,1,10,8,2\n", {}, "measured at n = 8, predicted at n = 7"),
        ("device,x,y,time_s\ngtx_980,1,10,nan\n", {}, "no configuration was measured successfully"),
        ("device,x,y,time_s\ngtx_980,9,10,1\n", {}, "no measured configuration is among the pre"),
    ],
)  # fmt: skip
def test_measurements_that_do_not_fit_are_refused(text, select, pattern):
    with pytest.raises(QueryError, match=pattern):
        query.validate(predicted(), rows_of(text), select=AT_BASE | select)


# ---------------------------------------------------------------------------- a real space


def write_plan(layout: str = "grid") -> str:
    Path("conv.toml").write_text(
        f'schema = 1\nname = "conv"\nkernels = ["{KERNEL}"]\nmodels = ["hong_kim"]\n'
        f'devices = ["rtx_a4000", "rtx_2080_ti"]\nlayout = "{layout}"\n'
    )
    return "conv.toml"


def test_a_real_space_agrees_with_its_own_definition(capsys):
    found = {}
    for layout in ("grid", "stacked"):
        arguments = [write_plan(layout), str(CACHE), "--format", "json", "-o", f"{layout}.svg"]
        assert main(["validate", *arguments]) == 0
        assert Path(f"{layout}.svg").stat().st_size > 1000
        found[layout] = capsys.readouterr().out
    assert found["grid"] == found["stacked"]
    rows = {row["ranking"]: row for row in json.loads(found["grid"])["rows"]}
    assert rows["hong_kim"]["device"] == "rtx_a4000"
    times = measured(CACHE)
    seconds = times.seconds[times.valid]
    assert rows["hong_kim"]["configurations"] == len(seconds) == 4201
    random = rows["(random)"]
    assert random["regret_1"] == pytest.approx(seconds.mean() / seconds.min() - 1)
    assert random["recall_100"] == pytest.approx(100 / 4201)
    for row in rows.values():
        assert row["regret_1"] >= row["regret_10"] >= row["regret_100"] >= 0
    # The model knows something that a random choice does not.
    assert rows["hong_kim"]["spearman"] > 0.4
    assert rows["hong_kim"]["spearman"] > rows["(occupancy)"]["spearman"]


def test_table_figure_and_misses_on_the_command_line(capsys):
    assert main(["validate", write_plan(), str(CACHE), "--misses", "3"]) == 0
    said = capsys.readouterr().out
    assert "the 3 furthest off, after scaling" in said
    assert "4,201 configurations with a measured time" in said
    assert "a time for 161 that failed" in " ".join(said.split())
    assert "figure: validation.png" in said
    assert Path("validation.png").read_bytes().startswith(b"\x89PNG")


def test_bad_requests_are_refused_in_one_line(capsys):
    Path("a.csv").write_text("x,time_ms\n1,2\n")
    path = write_plan()
    assert "does not name the device" in refused(capsys, "validate", path, "a.csv")
    for device in (["--device", "rtx_a4000"], ["device=rtx_a4000"]):
        assert "no parameter in common" in refused(capsys, "validate", path, "a.csv", *device)
    assert "cannot be read" in refused(capsys, "validate", path, "nowhere.csv")
    assert not Path("validation.png").exists()

"""Intervals of times: they cover what they say on measurements that were not used."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep import query
from sweep.cli import main
from sweep.errors import QueryError
from sweep.evaluation.planned import Planned
from sweep.measurements.importing import read_measured
from sweep.query import paired
from sweep.space import resolve
from sweep.uncertainty.evaluating import Sampled
from sweep.uncertainty.indices import places
from sweep.uncertainty.intervals import conformal, conformal_ratios, with_intervals

DATA = Path(__file__).parents[1] / "data" / "tuning"
MEASURED = {
    ("convolution", "rtx_a4000"): "convolution_A4000.kernel_tuner_cache.json.gz",
    ("xgemm", "rtx_2080_ti"): "gemm_RTX_2080_Ti.csv.gz",
}
SPLITS = 200


@pytest.fixture(scope="module")
def pairs():
    """Return predicted and measured times by kernel and model."""
    found = {}
    for (kernel, device), name in MEASURED.items():
        times = read_measured([DATA / name], kernel=kernel, device=device)
        models = ("combined", "hong_kim", "lemeire")
        plan = sweep.Plan((kernel,), (device,), models, variant="revised", layout="stacked")
        for one in paired(Planned.of(resolve(plan)), times):
            timed = np.isfinite(one.predicted)
            found[kernel, one.model] = one.predicted[timed], one.measured[timed]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.9])
def test_measured__cover_their_share_of_what_was_not_used(pairs, level):
    """Half of the measurements, drawn by seed, calibrate; the other half is to be covered."""
    assert len(pairs) == 6
    for what, (predicted, measured) in pairs.items():
        shares, of_first = [], []
        for seed in range(SPLITS):
            drawn = np.random.default_rng(seed).permutation(len(measured))
            used, others = np.split(drawn, [len(measured) // 2])
            ends = conformal(predicted[used], measured[used], predicted[others], level)
            held = (ends[:, 0] <= measured[others]) & (measured[others] <= ends[:, 1])
            shares.append(held.mean())
            of_first.append(held[np.argsort(predicted[others], kind="stable")[:100]].mean())
        assert abs(np.mean(shares) - level) < 0.012, what
        inside = np.abs(np.array(shares) - level) <= 0.02
        assert inside.mean() > (0.9 if level == 0.9 else 0.7), (what, inside.mean())
        # Those of the fastest predicted, which people ask about, are calibrated by their like.
        if what[1] == "combined":
            assert abs(np.mean(of_first) - level) < 0.06, (what, np.mean(of_first))


def test_measured__times_are_calibrated_by_those_near_them():
    predicted = np.arange(1.0, 2001.0)
    measured = predicted * np.where(predicted <= 1000, 2.0, 5.0)
    ends = conformal(predicted, measured, np.array([0.5, 10.0, 1990.0, 9e9]), 0.9)
    assert (ends / np.array([[0.5], [10.0], [1990.0], [9e9]])).tolist() == [[2, 2]] * 2 + [
        [5, 5]
    ] * 2
    few = conformal(predicted[:30], measured[:30] * 3.0, np.array([1.0]), 0.9)
    assert few.tolist() == [[6.0, 6.0]]
    # Equal predictions are in one group, whatever there are.
    same = conformal(np.ones(500), np.arange(500.0), np.array([1.0]), 0.9)
    assert same[0].tolist() == [24.0, 475.0]


@pytest.mark.parametrize("n", [19, 20, 50, 333])
def test_measured__cover_at_least_the_level_however_few(n):
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(4000):
        *used, new = rng.lognormal(size=n + 1)
        low, high = conformal_ratios(np.array(used), 0.9)
        covered.append(low <= new <= high)
    assert 0.9 - 0.015 < np.mean(covered) < 0.9 + 0.015 + 2 / n


def test_measured__too_few_are_refused():
    with pytest.raises(QueryError, match=r"here: 18 measured times, but an interval .* needs 19"):
        conformal_ratios(np.ones(18), 0.9, "here")
    assert conformal_ratios(np.ones(19), 0.9) == (1.0, 1.0)


@pytest.fixture(scope="module")
def space():
    return resolve(sweep.Plan(["transpose"], ["gtx_980_paper"], ["combined", "hong_kim"],
                              variant="revised", precision="float64"))  # fmt: skip


def test_numbers__hold_the_share_of_the_samples(space):
    answer = query.top(Planned(space), 12)
    found = with_intervals(answer, space, 0.8, samples=256)
    assert found.columns.index("time_low") == found.columns.index("execution_time") + 1
    for row, plain in zip(found, answer, strict=True):
        assert row["time_low"] < row["execution_time"] < row["time_high"]
        assert {name: row[name] for name in plain} == plain and row.stars == plain.stars
        sampled = Sampled.of(space, [row])
        times = sampled.times(places(256, len(sampled.parameters), 0))[:, 0]
        inside = np.mean((row["time_low"] <= times) & (times <= row["time_high"]))
        assert abs(inside - 0.8) < 0.01
    wide = with_intervals(answer, space, 0.99, samples=256)
    assert all(w["time_low"] <= f["time_low"] for w, f in zip(wide, found, strict=True))


def test_numbers__rows_without_a_time_have_no_interval(space):
    answer = query.best(Planned(space), by=["model", "tile"], where="tile != 64 or model != 'x'")
    none = query.best(Planned(space), where="execution_time < 1e-9")
    for given in (answer, none):
        for row in with_intervals(given, space, 0.9, samples=16):
            assert (row["time_low"] is None) == (row["execution_time"] is None)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_levels_between_0_and_100_percent(space, level):
    with pytest.raises(QueryError, match="above 0 and below 100"):
        with_intervals(query.best(Planned(space)), space, level)
    with pytest.raises(QueryError, match="the answer has none"):
        with_intervals(query.summary(Planned(space)), space, 0.9)


FRONT = ("--objectives", "execution_time,occupancy:max")
PLAN = 'schema = 1\nkernels = ["convolution"]\ndevices = ["rtx_a4000"]\nvariant = "revised"\n'


@pytest.mark.slow
def test_command__takes_numbers_or_measurements(folder, capsys):
    (folder / "one.toml").write_text(PLAN, encoding="utf-8")
    cache = DATA / MEASURED["convolution", "rtx_a4000"]
    (folder / cache.name).write_bytes(cache.read_bytes())
    words = ["top", "one.toml", "3", "--format", "json", "--interval", "90"]
    widths = []
    for more in ([], ["--range", "derived=0.3"], ["--measured", cache.name]):
        assert main([*words, *more]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert len(rows) == 3
        widths.append(rows[0]["time_high"] / rows[0]["time_low"])
    assert widths[1] > widths[0] > 1.0 and widths[2] > 1.0
    assert main(["best", "one.toml", "--interval", "90"]) == 0
    assert "time_low" in capsys.readouterr().out
    for command in (["best", "one.toml"], ["pareto", "one.toml", *FRONT]):
        assert "above 0 and below 100" in refused(capsys, *command, "--interval", "100")
        assert "give per cent, such as 90" in refused(capsys, *command, "--interval", "0.9")
        assert "only with" in refused(capsys, *command, "--measured", cache.name)
    (folder / "own.csv").write_text("block_size_x,time_ms\n" + "32,1.5\n16,2.5\n" * 10)
    one = ["best", "one.toml", "--interval", "90", "--measured", "own.csv"]
    (folder / "two.toml").write_text(PLAN.replace('"]\nv', '", "rtx_3080"]\nv'), encoding="utf-8")
    two = ["best", "two.toml", *one[2:]]
    assert "name it (--device, in a question device=NAME)" in refused(capsys, *two)
    for known in ([*two, "device=rtx_a4000"], one):
        assert "which was not measured" in refused(capsys, *known)
    # A file that names devices keeps them: others' times are not the selected one's.
    (folder / "own.csv").write_text("device,block_size_x,time_ms\nrtx_3080,32,1\nrtx_3090,32,2\n")
    assert "no device was both" in refused(capsys, *one, "device=rtx_a4000")
    (folder / "own.csv").write_text("device,block_size_x,time_ms\nrtx_3080,32,1\nrtx_3080,16,2\n")
    assert "no device was both" in refused(capsys, *one, "device=rtx_a4000")
    assert "no device was both predicted" in refused(
        capsys, "best", "papers", "kernel=sepia", "--interval", "90", "--measured", cache.name
    )

"""Choosing and measuring where numbers are off: regrets, covers, the answer."""

import json
from itertools import combinations

import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.uncertainty.evaluating import Sampled
from sweep.uncertainty.indices import places
from sweep.uncertainty.robust import cover, regrets

FEW = {"samples": 64, "n": 30}


def smallest_cover(within, share):
    """The fewest columns that hold in enough rows, by trying all sets."""
    rows = within[within.any(axis=1)]
    for size in range(within.shape[1] + 1):
        for columns in combinations(range(within.shape[1]), size):
            if rows[:, columns].any(axis=1).mean() >= share - 1e-12:
                return size
    raise AssertionError


@pytest.mark.parametrize("seed", range(30))
def test_cover__is_enough_and_at_most_as_long_as_greedy_may_be(seed):
    rng = np.random.default_rng(seed)
    within = rng.random((40, 9)) < rng.uniform(0.1, 0.5)
    for share in (0.5, 0.95, 1.0):
        found, fewest = cover(within, share), smallest_cover(within, share)
        rows = within[within.any(axis=1)]
        assert rows[:, found].any(axis=1).mean() >= share - 1e-12
        assert rows[:, found[:-1]].any(axis=1).mean() < share
        assert fewest <= len(found) <= fewest * (1 + np.log(len(rows)))
        assert len(found) <= fewest + 1  # as seen on these small cases


def test_cover__takes_the_first_of_equals_and_nothing_where_nothing_holds():
    assert cover(np.eye(4, dtype=bool), 0.75) == [0, 1, 2]
    assert cover(np.ones((5, 3), bool), 1.0) == [0]
    assert cover(np.zeros((5, 3), bool), 1.0) == []


def test_regrets__are_of_the_best_of_each_sample():
    times = np.array([[1.0, 2.0], [4.0, 2.0], [np.nan, 3.0], [np.nan, np.nan]])
    assert regrets(times).tolist() == [[0.0, 1.0], [1.0, 0.0], [np.inf, 0.0]]


@pytest.fixture(scope="module")
def plan():
    return sweep.Plan(["convolution"], ["rtx_a4000"], ["combined"], variant="revised",
                      axes={"use_padding": [0], "read_only": [0]}, precision="float64")  # fmt: skip


@pytest.mark.slow
def test_answer__is_that_of_all_samples_one_by_one(plan):
    answer = sweep.robust(plan, **FEW)
    rows = list(sweep.top(plan, FEW["n"]))
    sampled = Sampled.of(sweep.space.resolve(plan), rows)
    times = sampled.times(places(FEW["samples"], len(sampled.parameters), 0))
    regret = times / times.min(axis=1, keepdims=True) - 1.0
    by_worst = np.sort(regret, axis=0)[int(np.ceil(0.95 * 63))]
    (chosen,) = (row for row in answer if "robust" in (row["role"] or ""))
    assert chosen["regret_95"] == pytest.approx(by_worst.min())
    (nominal,) = (row for row in answer if "nominal" in (row["role"] or ""))
    assert nominal["execution_time"] == rows[0]["execution_time"]
    assert nominal["best_in"] == np.mean(times.argmin(axis=1) == 0)
    assert f"in {round(nominal['best_in'] * 64)} of 64 samples" in answer.notes[0]
    measured = [row for row in answer if row["measure"]]
    assert [row["measure"] for row in measured] == list(range(1, len(measured) + 1))
    places_of = [next(i for i, r in enumerate(rows) if r.configuration == m.configuration)
                 for m in measured]  # fmt: skip
    assert np.mean((regret[:, places_of] <= 0.05).any(axis=1)) == measured[-1]["covered"] >= 0.95


def test_answer__is_the_same_to_the_bit_and_exact_numbers_leave_the_nominal_best(plan):
    assert sweep.robust(plan, **FEW).rows == sweep.robust(plan, **FEW).rows
    few = {"microbenchmark": 1e-9} | dict.fromkeys(
        ("datasheet", "paper", "compiler", "review", "derived", "fitted", "assumed"), 0.0
    )
    (row,) = sweep.robust(plan, ranges=few, **FEW)
    assert (row["role"], row["best_in"], row["covered"]) == ("nominal and robust", 1.0, 1.0)


def test_command__shows_rows_and_refuses_other_objectives(folder, capsys):
    text = 'schema = 1\nkernels = ["transpose"]\ndevices = ["rtx_3080"]\n'
    (folder / "one.toml").write_text(text, encoding="utf-8")
    words = ["best", "one.toml", "--robust", "--samples", "64", "--candidates", "20"]
    assert main([*words, "--where", "padding == 1", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["padding"] for row in rows} == {1}
    assert sum("nominal" in (row["role"] or "") for row in rows) == 1
    assert main(words) == 0
    assert "the nominal best" in capsys.readouterr().out
    assert "no other objective" in refused(capsys, *words, "--max")
    assert "no other objective" in refused(capsys, *words, "--objective", "occupancy")
    assert "a power of two" in refused(capsys, *words[:-4], "--samples", "3")
    assert "did you mean 'assumed'" in refused(capsys, *words, "--range", "asumed=0.1")
    assert "only with --robust" in refused(capsys, "best", "one.toml", "--candidates", "9")

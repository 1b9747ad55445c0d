"""Few configurations for many problems, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import sweep
from sweep.errors import QueryError
from sweep.runs.covering import best_few, least_loss
from sweep.space import Plan

PLAN = Plan(
    ("triton_matmul",), ("a100_80gb", "h100_sxm"), ("combined",), variant="revised",
    axes={"m": (16, 512, 8192), "n": (256, 4096), "k": (512, 4096), "GROUP_M": (8,),
          "num_stages": (3,), "BLOCK_K": (64,)},
)  # fmt: skip
PARAMETERS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps")


def test_losses__are_those_of_the_best_of_the_chosen():
    answer = best_few(PLAN, 3, select={"device": "a100_80gb"})
    rows = sweep.top(PLAN, 1000, by=("m", "n", "k"), select={"device": "a100_80gb"})
    times: dict[tuple, dict[tuple, float]] = {}
    for row in rows:
        problem, own = ((row[n] for n in names) for names in (("m", "n", "k"), PARAMETERS))
        times.setdefault(tuple(problem), {})[tuple(own)] = row["execution_time"]
    assert len(times) == 12
    chosen = [tuple(row[name] for name in PARAMETERS) for row in answer]
    for count, row in enumerate(answer, 1):
        losses = [min(one.get(c, np.inf) for c in chosen[:count]) / min(one.values()) - 1
                  for one in times.values()]  # fmt: skip
        assert row["loss_mean"] == pytest.approx(np.mean(losses), abs=1e-6)
        assert row["loss_max"] == pytest.approx(np.max(losses), abs=1e-6)
    means = {
        c: np.mean([min(one.get(c, np.inf) / min(one.values()) - 1, 1e3) for one in times.values()])
        for c in itertools.chain.from_iterable(times.values())
    }
    assert means[chosen[0]] == pytest.approx(min(means.values()), rel=1e-6)
    assert sum(answer.column("best_for")) == 12


def test_groups__are_each_device_and_further_ones_lower_the_loss():
    answer = best_few(PLAN, 4, by=("m", "n", "k"))
    for device in PLAN.devices:
        means = [row["loss_mean"] for row in answer if row["device"] == device]
        assert len(means) > 1 and means == sorted(means, reverse=True)
        assert len(set(means)) == len(means)
    some = best_few(PLAN, 1, by=("m",), select={"device": "a100_80gb", "n": 256, "k": 512})
    assert any("3 problems by m" in note for note in some.notes)


def test_least_loss__is_greedy_and_stops_where_nothing_is_gained():
    random = np.random.default_rng(3)
    losses = random.random((20, 9))
    losses[np.arange(20), random.integers(0, 3, 20)] = 0.0
    chosen = least_loss(losses, 9)
    left = np.full(20, np.inf)
    for number in chosen:
        means = [np.minimum(left, column).mean() for column in losses.T]
        assert means[number] == min(means)
        left = np.minimum(left, losses[:, number])
    assert left.max() == 0.0 and len(chosen) < 9


def test_what_is_open_or_unknown_is_named():
    for by, message in ((("M",), "--by M: problems differ in sizes only"),
                        (("m",), "n has 2 values"), (("BLOCK_M",), "--by BLOCK_M")):  # fmt: skip
        with pytest.raises(QueryError, match=message):
            best_few(PLAN, 2, by=by)
    with pytest.raises(QueryError, match="--most 0"):
        best_few(PLAN, 0)
    with pytest.raises(QueryError, match="no configuration has a time"):
        best_few(PLAN, 2, select={"device": "a100_80gb", "bits": 8})

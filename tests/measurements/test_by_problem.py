"""Rankings of many problems at once, against the same problem by problem."""

import itertools

import numpy as np
import pytest

from sweep.measurements.by_problem import hits, losses, quantile_groups, rank_correlations
from sweep.query.agreement import found_by, spearman

RANDOM = np.random.default_rng(7)
PROBLEM = RANDOM.permutation(np.repeat(np.arange(40), RANDOM.integers(1, 9, 40)))
MEASURED = RANDOM.integers(1, 20, len(PROBLEM)).astype(float)
SCORE = np.where(RANDOM.random(len(PROBLEM)) < 0.2, np.inf,
                 RANDOM.integers(1, 4, len(PROBLEM)).astype(float))  # fmt: skip


@pytest.mark.parametrize("k", [1, 3, 10])
def test_losses__are_those_of_each_problem_ties_included(k):
    found = losses(PROBLEM, SCORE, MEASURED, k)
    for problem in range(40):
        own = problem == PROBLEM
        _, smallest = found_by(SCORE[own], MEASURED[own], k)
        assert found[problem] == pytest.approx(smallest / MEASURED[own].min() - 1.0, abs=1e-12)


def test_rank_correlations__are_those_of_each_problem():
    found = rank_correlations(PROBLEM, SCORE, MEASURED)
    for problem in range(40):
        own = (problem == PROBLEM) & np.isfinite(SCORE)
        expected = spearman(SCORE[own], MEASURED[own])
        np.testing.assert_allclose(found[problem], expected, atol=1e-12)
    assert np.isfinite(found).any()


def test_hits__are_the_share_of_orders_of_ties_with_a_listed_one():
    score = RANDOM.integers(0, 3, (60, 5)).astype(float)
    score[RANDOM.random(score.shape) < 0.2] = np.inf
    listed = RANDOM.random(score.shape) < 0.3
    for k in (1, 2, 3, 10):
        found = hits(score, listed, k)
        for line, wanted, value in zip(score, listed, found, strict=True):
            usable = [i for i in range(5) if np.isfinite(line[i])]
            orders = [o for o in itertools.permutations(usable)
                      if all(line[a] <= line[b] for a, b in itertools.pairwise(o))]  # fmt: skip
            expected = np.mean([wanted[list(o[:k])].any() for o in orders])
            assert value == pytest.approx(expected, abs=1e-12)


def test_quantile_groups__hold_equally_many_and_keep_equal_numbers_together():
    groups = quantile_groups(np.array([5.0, 1.0, 3.0, 7.0, 2.0, 9.0]), 3)
    assert groups.tolist() == [1, 0, 1, 2, 0, 2]
    assert len(set(quantile_groups(np.array([1.0, 1.0, 1.0, 2.0]), 2)[:3])) == 1

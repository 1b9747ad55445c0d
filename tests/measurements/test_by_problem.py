"""Rankings of many problems at once, against the same problem by problem."""

import itertools

import numpy as np
import pytest

from sweep.measurements.by_problem import hits, losses, quantile_groups, rank_correlations
from sweep.query.agreement import found_by, spearman

RANDOM = np.random.default_rng(7)
PROBLEM = RANDOM.permutation(np.repeat(np.arange(40), RANDOM.integers(1, 7, 40)))
MEASURED = RANDOM.integers(1, 20, len(PROBLEM)).astype(float)
SCORE = np.where(RANDOM.random(len(PROBLEM)) < 0.2, np.inf,
                 RANDOM.integers(1, 4, len(PROBLEM)).astype(float))  # fmt: skip


def measured_first(score, k):
    """Yield the first k rows for each order of ties: one of each tie, a second one of each, ..."""
    ties = [[i for i, s in enumerate(score) if s == value] for value in sorted({*score})]
    for orders in itertools.product(*map(itertools.permutations, ties)):
        finite, last = (
            [o for o in orders if np.isfinite(score[o[0]]) == known] for known in (1, 0)
        )
        turns = [i for turn in itertools.zip_longest(*finite) for i in turn if i is not None]
        yield [*turns, *itertools.chain(*last)][:k]


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_losses__are_means_over_which_of_a_tie_comes_first(k):
    found = losses(PROBLEM, SCORE, MEASURED, k)
    for problem in range(40):
        score, measured = SCORE[problem == PROBLEM], MEASURED[problem == PROBLEM]
        smallest = np.mean([measured[rows].min() for rows in measured_first(score, k)])
        assert found[problem] == pytest.approx(smallest / measured.min() - 1.0, abs=1e-12)
    random = losses(PROBLEM, np.zeros(len(PROBLEM)), MEASURED, k)
    for problem in range(40):
        own = MEASURED[problem == PROBLEM]
        _, smallest = found_by(np.zeros(len(own)), own, k)
        assert random[problem] == pytest.approx(smallest / own.min() - 1.0, abs=1e-12)


def test_rank_correlations__are_those_of_each_problem():
    found = rank_correlations(PROBLEM, SCORE, MEASURED)
    for problem in range(40):
        own = (problem == PROBLEM) & np.isfinite(SCORE)
        expected = spearman(SCORE[own], MEASURED[own])
        np.testing.assert_allclose(found[problem], expected, atol=1e-12)
    assert np.isfinite(found).any()


def test_hits__are_the_share_of_first_ones_with_a_listed_one():
    score = RANDOM.integers(0, 3, (60, 5)).astype(float)
    score[RANDOM.random(score.shape) < 0.2] = np.inf
    listed = RANDOM.random(score.shape) < 0.3
    for k in (1, 2, 3, 10):
        found = hits(score, listed, k)
        for line, wanted, value in zip(score, listed & np.isfinite(score), found, strict=True):
            expected = np.mean([wanted[rows].any() for rows in measured_first(line, k)])
            assert value == pytest.approx(expected, abs=1e-12)


def test_quantile_groups__hold_equally_many_and_keep_equal_numbers_together():
    groups = quantile_groups(np.array([5.0, 1.0, 3.0, 7.0, 2.0, 9.0]), 3)
    assert groups.tolist() == [1, 0, 1, 2, 0, 2]
    assert len(set(quantile_groups(np.array([1.0, 1.0, 1.0, 2.0]), 2)[:3])) == 1

"""How well a ranking finds the best configuration of each of many problems, all at once.

Rows are pairs of a problem and a configuration. Problems with equally many rows are computed
together, as matrices with a line for each problem.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import rankdata

from sweep.fields import Array


def matrices(problem: Array) -> Iterator[tuple[Array, Array]]:
    """Yield problems that have equally many rows, and the numbers of their rows.

    Parameters
    ----------
    problem : array of int
        The number of each row's problem, from 0 on.

    Yields
    ------
    problems : array of int
        Numbers of problems.
    rows : array of int, shape (problems, rows)
        The rows of each, in their order.

    Examples
    --------
    >>> [(p.tolist(), r.tolist()) for p, r in matrices(np.array([0, 1, 0, 2, 2]))]
    [([1], [[1]]), ([0, 2], [[0, 2], [3, 4]])]
    """
    order = np.argsort(problem, kind="stable")
    counts = np.bincount(problem)
    starts = np.cumsum(counts) - counts
    for n in np.unique(counts[counts > 0]).tolist():
        those = np.flatnonzero(counts == n)
        yield those, order[starts[those][:, np.newaxis] + np.arange(n)]


def losses(problem: Array, score: Array, measured: Array, k: int) -> Array:
    """Return by how much the best of the first k of a ranking is slower than the best.

    Parameters
    ----------
    problem : array of int
        The number of each row's problem, from 0 on; each has a row at least.
    score : array
        The ranking's scores, smallest first; infinite for rows that come last.
    measured : array
        The measured times.
    k : int
        How many of a problem's rows are measured; all, if it has fewer.

    Returns
    -------
    array
        The loss of each problem [1]. Where rows share a score it is the exact expectation over
        their orders; if all scores are equal, the ranking is a random one.
    """
    found = np.empty(int(problem.max()) + 1)
    for those, rows in matrices(problem):
        times = measured[rows]
        found[those] = _expected_smallest(score[rows], times, k) / times.min(axis=1) - 1.0
    return found


def _expected_smallest(score: Array, times: Array, k: int) -> Array:
    """Return the expected smallest time among the first k of each line."""
    k = min(k, score.shape[1])
    order = np.argsort(times, axis=1, kind="stable")
    times, score = (np.take_along_axis(a, order, axis=1) for a in (times, score))
    last = np.partition(score, k - 1, axis=1)[:, k - 1 : k]
    sure, tied = score < last, score == last
    drawn = k - sure.sum(axis=1, keepdims=True)
    limit = np.where(sure, times, np.inf).min(axis=1, keepdims=True)
    # Probability that no tied row up to a place is drawn: it falls at the tied rows.
    before = np.cumsum(tied, axis=1) - tied
    left = tied.sum(axis=1, keepdims=True) - before
    step = np.where(tied, np.maximum(left - drawn, 0) / np.maximum(left, 1), 1.0)
    missed = np.cumprod(step, axis=1)
    chance = np.concatenate([np.ones_like(limit), missed[:, :-1]], axis=1) - missed
    return (chance * np.minimum(times, limit)).sum(axis=1)


def hits(score: Array, listed: Array, k: int) -> Array:
    """Return the probability that one of the first k of each line is a listed one.

    Parameters
    ----------
    score : array, shape (problems, configurations)
        The ranking's scores, smallest first; infinite for configurations without one, which are
        never chosen.
    listed : array of bool
        Of the same shape.
    k : int
        How many are chosen.
    """
    k = min(k, score.shape[1])
    last = np.partition(score, k - 1, axis=1)[:, k - 1 : k]
    finite = np.isfinite(score)
    sure, tied = (score < last) & finite, (score == last) & finite
    surely = (sure & listed).any(axis=1)
    ties, found = tied.sum(axis=1), (tied & listed).sum(axis=1)
    drawn = np.minimum(k - sure.sum(axis=1), ties)
    missed = np.ones(len(score))
    for i in range(k):  # drawing one after the other
        share = np.maximum(ties - found - i, 0) / np.maximum(ties - i, 1)
        missed = np.where(i < drawn, missed * share, missed)
    return np.where(surely, 1.0, 1.0 - missed)


def rank_correlations(problem: Array, score: Array, measured: Array) -> Array:
    """Return Spearman's rank correlation of each problem; NaN where one side does not vary.

    Parameters
    ----------
    problem, score, measured : array
        As for :func:`losses`; rows with an infinite score do not count.
    """
    found = np.full(int(problem.max()) + 1, np.nan)
    known = np.flatnonzero(np.isfinite(score))
    if not known.size:
        return found
    for those, rows in matrices(problem[known]):
        if rows.shape[1] < 2:
            continue
        one, other = (rankdata(values[known[rows]], axis=1) for values in (score, measured))
        one, other = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in (one, other))
        norm = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[those] = np.where(norm > 0, (one * other).sum(axis=1) / norm, np.nan)
    return found


def quantile_groups(values: Array, n: int) -> Array:
    """Return for each number its group of ``n`` equally large ones, smallest first.

    Equal numbers come into the same group.
    """
    ends = np.quantile(values, np.arange(1, n) / n)
    return np.searchsorted(ends, values, side="left")

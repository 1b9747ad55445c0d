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
        The loss of each problem [1]. As in an answer of :func:`sweep.query.top`, one row stands for
        all that tie; the loss is the exact mean over which one it is. If all scores are equal, the
        ranking is a random one.
    """
    found = np.empty(int(problem.max()) + 1)
    for those, rows in matrices(problem):
        times = measured[rows]
        found[those] = _expected_smallest(score[rows], times, k) / times.min(axis=1) - 1.0
    return found


def _first_of(score: Array, k: int) -> tuple[Array, Array, Array]:
    """Return how many rows of each tie are among the first k of each line.

    First comes one row of each tie, as in an answer of :func:`sweep.query.top`, then a second one
    of each, a third, and so on.

    Parameters
    ----------
    score : array, shape (lines, rows)
        The ranking's scores, smallest first; infinite for rows that come last.
    k : int
        How many are chosen of each line; all, if it has fewer.

    Returns
    -------
    tie : array of int
        For each row the number of the rows of its line with this score.
    taken, size : array of int
        How many of these are chosen, and how many there are.
    """
    order = np.argsort(score, axis=1, kind="stable")
    ordered = np.take_along_axis(score, order, axis=1)
    begins = np.ones(score.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = np.arange(score.shape[1])
    turn = places - np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    turn[~np.isfinite(ordered)] += len(places)
    chosen, tie = np.zeros(score.shape, bool), np.empty(score.shape, np.int64)
    np.put_along_axis(chosen, np.argsort(turn, axis=1, kind="stable")[:, :k], True, axis=1)
    numbers = np.cumsum(begins).reshape(score.shape) - 1
    taken = np.bincount(numbers.ravel(), chosen.ravel()).astype(np.int64)
    np.put_along_axis(tie, order, numbers, axis=1)
    return tie, taken[tie], np.bincount(tie.ravel())[tie]


def _expected_smallest(score: Array, times: Array, k: int) -> Array:
    """Return the expected smallest time among the first k of each line.

    Parameters
    ----------
    score, k
        As for :func:`_first_of`; any of those that tie may be the first of them. If all scores of
        a line are equal, the ranking is a random one.
    times : array, shape (lines, rows)
        The measured times.
    """
    order = np.argsort(times, axis=1, kind="stable")
    tie, taken, size, times = (
        np.take_along_axis(part, order, axis=1) for part in (*_first_of(score, k), times)
    )
    by_tie = np.argsort(tie, axis=None, kind="stable")  # of each tie the fastest first
    starts = np.flatnonzero(np.diff(tie.ravel()[by_tie], prepend=-1))
    before = np.empty(tie.size, np.int64)
    before[by_tie] = np.arange(tie.size) - np.repeat(starts, np.diff(starts, append=tie.size))
    left = size - before.reshape(tie.shape)
    # Probability that no row up to a place is chosen: it falls at rows of which some are.
    missed = np.cumprod(np.where(taken > 0, np.maximum(left - taken, 0) / left, 1.0), axis=1)
    chance = np.concatenate([np.ones((len(times), 1)), missed[:, :-1]], axis=1) - missed
    return np.asarray((chance * times).sum(axis=1))


def hits(score: Array, listed: Array, k: int) -> Array:
    """Return the probability that one of the first k of each line is a listed one.

    Parameters
    ----------
    score : array
        As for :func:`losses`, a line for each problem; configurations with an infinite score are
        never chosen.
    listed : array of bool
        Of the same shape.
    k : int
        As for :func:`losses`.
    """
    return 1.0 - _expected_smallest(score, np.where(listed & np.isfinite(score), 0.0, 1.0), k)


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

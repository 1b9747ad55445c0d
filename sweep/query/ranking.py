"""Rank correlations, what the first of a ranking find, and errors of predicted times."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Errors",
    "Found",
    "accuracy",
    "average_ranks",
    "errors",
    "expected_smallest",
    "found_by",
    "kendall",
    "or_none",
    "scale_factor",
    "spearman",
]

Array = NDArray[Any]


def or_none(value: float) -> float | None:
    """Return a number; None for one that is not finite, since an answer shows nothing there."""
    return value if math.isfinite(value) else None


def average_ranks(values: Array) -> Array:
    """Return ranks from 1 on; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def spearman(first: Array, second: Array) -> float:
    """Return Spearman's rank correlation; NaN where one side does not vary.

    Ties share their mean rank, so this is the correlation coefficient of the ranks.
    """
    if len(first) < 2:
        return math.nan
    a, b = average_ranks(first), average_ranks(second)
    a, b = a - a.mean(), b - b.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / norm) if norm > 0 else math.nan


def kendall(first: Array, second: Array) -> float:
    """Return Kendall's rank correlation tau-b; NaN where one side does not vary.

    The number of pairs in the wrong order is counted bit by bit of the ranks, in n log n steps.
    """
    n = len(first)
    if n < 2:
        return math.nan
    order = np.lexsort((second, first))
    ranks = np.unique(second, return_inverse=True)[1].ravel()[order]
    tied = [_tied_pairs(first), _tied_pairs(second)]
    both = _tied_pairs(np.stack([first, second], axis=1))
    pairs = n * (n - 1) // 2
    free = [pairs - count for count in tied]
    if not all(free):
        return math.nan
    difference = pairs - tied[0] - tied[1] + both - 2 * _inversions(ranks)
    return float(difference / math.sqrt(free[0] * free[1]))


def _tied_pairs(values: Array) -> int:
    counts = np.unique(values, axis=0, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(ranks: Array) -> int:
    """Return the number of pairs in descending order."""
    found = 0
    for bit in range(int(ranks.max()).bit_length() - 1, -1, -1):
        # Ranks with the same higher bits are adjacent, in their original order.
        group = ranks >> (bit + 1)
        order = np.argsort(group, kind="stable")
        ranks, group = ranks[order], group[order]
        ones = (ranks >> bit) & 1
        before = np.cumsum(ones) - ones
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(np.append(starts, len(group)))
        inside = before - np.repeat(before[starts], sizes)
        found += int(inside[ones == 0].sum())
    return found


def expected_smallest(values: Array, n: int, limit: float = math.inf) -> float:
    """Return the expected smallest of ``n`` values drawn at random without replacement.

    Parameters
    ----------
    values : array
        At least ``n`` numbers.
    n : int
        How many are drawn, 1 at least.
    limit : float
        A further value that always counts.
    """
    ordered = np.sort(values)
    places = np.arange(len(ordered))
    # Probability that none of the first i is drawn; it falls at i by that of i as the smallest.
    steps = np.maximum(len(ordered) - n - places, 0) / (len(ordered) - places)
    missed = np.concatenate([[1.0], np.cumprod(steps)])
    return float((missed[:-1] - missed[1:]) @ np.minimum(ordered, limit))


class Found(NamedTuple):
    """The outcome of measuring the first k of a ranking.

    Attributes
    ----------
    recall : float
        Share of the k fastest that are among them.
    smallest : float
        The smallest time among them.
    """

    recall: float
    smallest: float


def found_by(score: Array, measured: Array, k: int) -> Found:
    """Return the outcome of measuring the first k of a ranking.

    Configurations with equal scores may come in any order: both numbers are exact expectations
    over these orders. If all scores are equal, the ranking is a random one.

    Parameters
    ----------
    score : array
        The ranking's scores, smallest first; infinite for configurations that come last.
    measured : array
        The measured times.
    k : int
        Number of configurations to measure; all of them, if there are fewer.
    """
    k = min(k, len(score))
    last = np.partition(score, k - 1)[k - 1]
    sure, tied = score < last, score == last
    drawn = k - int(np.count_nonzero(sure))
    fastest = measured <= np.partition(measured, k - 1)[k - 1]
    hits = np.count_nonzero(sure & fastest) + drawn * np.mean(fastest[tied])
    known = float(measured[sure].min()) if sure.any() else math.inf
    smallest = expected_smallest(measured[tied], drawn, known)
    return Found(min(1.0, float(hits / k)), smallest)


def scale_factor(predicted: Array, measured: Array) -> float:
    """Return the median ratio of measured and predicted times."""
    return float(np.median(measured / predicted))


def accuracy(predicted: Array, measured: Array) -> Array:
    """Return the accuracy of predictions, equation (14) of Luo & Suda: smaller over larger."""
    return np.asarray(np.minimum(predicted, measured) / np.maximum(predicted, measured))


class Errors(NamedTuple):
    """Mean absolute relative error, and mean accuracy."""

    mape: float
    accuracy: float


def errors(predicted: Array, measured: Array) -> Errors:
    """Return the errors of predicted times."""
    mape = float(np.mean(np.abs(predicted - measured) / measured))
    return Errors(mape, float(np.mean(accuracy(predicted, measured))))

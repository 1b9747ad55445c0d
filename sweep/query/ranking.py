"""How well an order finds what is fast: rank correlations, recall, regret, and errors of times."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Errors",
    "Found",
    "accuracy",
    "errors",
    "expected_smallest",
    "found_by",
    "kendall",
    "scale_factor",
]

Array = NDArray[Any]


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
    """Return how many pairs stand in descending order."""
    found = 0
    for bit in range(int(ranks.max()).bit_length() - 1, -1, -1):
        # Those that agree in all higher bits stand together, in their original order.
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
        Another value that is there anyhow.
    """
    ordered = np.sort(values)
    places = np.arange(len(ordered))
    # That the first i are not drawn; the smallest drawn is at i where this ends.
    steps = np.maximum(len(ordered) - n - places, 0) / (len(ordered) - places)
    missed = np.concatenate([[1.0], np.cumprod(steps)])
    return float((missed[:-1] - missed[1:]) @ np.minimum(ordered, limit))


class Found(NamedTuple):
    """What the first k of an order hold.

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
    """Return what measuring the first k of an order finds.

    Of equal scores, which the order does not tell apart, any may come first: both numbers are
    expectations over their orders, exactly computed. An order of one score for all is a random one.

    Parameters
    ----------
    score : array
        What the order goes by, smallest first; infinite for what is left to the end.
    measured : array
        The measured times.
    k : int
        How many are measured; all of them, if there are fewer.
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
    """Return the one factor that brings predictions to measurements: the median of their ratios."""
    return float(np.median(measured / predicted))


def accuracy(predicted: Array, measured: Array) -> Array:
    """Return the accuracy of predictions, equation (14) of Luo & Suda: smaller over larger."""
    return np.asarray(np.minimum(predicted, measured) / np.maximum(predicted, measured))


class Errors(NamedTuple):
    """Mean absolute relative error, and mean accuracy."""

    mape: float
    accuracy: float


def errors(predicted: Array, measured: Array) -> Errors:
    """Return how far predicted times are from measured ones."""
    mape = float(np.mean(np.abs(predicted - measured) / measured))
    return Errors(mape, float(np.mean(accuracy(predicted, measured))))

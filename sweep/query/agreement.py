"""Agreement of two rankings: rank correlations, errors of predictions, and models side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.query.answer import Answer
from sweep.query.filters import select_grid, select_kernels
from sweep.query.grid import Grid, grids_of

SAMPLE = 2_000_000
"""Most configurations per kernel and device that are ranked; of more, a regular sample."""


def or_none(value: float) -> float | None:
    """Return a number; None for one that is not finite, since an answer shows nothing there."""
    return value if math.isfinite(value) else None


def average_ranks(values: Array) -> Array:
    """Return ranks from 1 on; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]


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
    ranks = np.unique(second, return_inverse=True)[1].ravel()[np.lexsort((second, first))]
    one, other, tied = map(_tied_pairs, (first, second, np.stack([first, second], axis=1)))
    pairs = n * (n - 1) // 2
    if not (pairs > one and pairs > other):
        return math.nan
    difference = pairs - one - other + tied - 2 * _inversions(ranks)
    return float(difference / math.sqrt((pairs - one) * (pairs - other)))


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


def found_by(score: Array, measured: Array, k: int) -> tuple[float, float]:
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

    Returns
    -------
    recall : float
        Share of the k fastest that are among them.
    smallest : float
        The smallest time among them.
    """
    k = min(k, len(score))
    last = np.partition(score, k - 1)[k - 1]
    sure, tied = score < last, score == last
    drawn = k - int(np.count_nonzero(sure))
    fastest = measured <= np.partition(measured, k - 1)[k - 1]
    hits = np.count_nonzero(sure & fastest) + drawn * np.mean(fastest[tied])
    known = float(measured[sure].min()) if sure.any() else math.inf
    return min(1.0, float(hits / k)), expected_smallest(measured[tied], drawn, known)


def scale_factor(predicted: Array, measured: Array) -> float:
    """Return the median ratio of measured and predicted times."""
    return float(np.median(measured / predicted))


def errors(predicted: Array, measured: Array) -> tuple[float, float]:
    """Return the mean absolute relative error and the mean accuracy of predicted times.

    The accuracy is equation (14) of Luo & Suda: the smaller time over the larger.
    """
    accuracy = np.minimum(predicted, measured) / np.maximum(predicted, measured)
    return float(np.mean(np.abs(predicted - measured) / measured)), float(np.mean(accuracy))


def match(wanted: Mapping[str, Array], known: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the place of each row of one table among the rows of another, and whether it is there.

    Parameters
    ----------
    wanted, known : mapping of str to array
        Columns by name, at least one; a row of both tables has the same value in each.

    Returns
    -------
    places : array of int
        For each wanted row the first known row that equals it; 0 if there is none.
    is_there : array of bool
        Whether there is one.
    """
    n, n_known = (len(next(iter(columns.values()))) for columns in (wanted, known))
    numbers = np.zeros(n + n_known, np.int64)
    for name in known:
        both = [columns.get(name, np.empty(0)) for columns in (wanted, known)]
        if len(both[0]) != n or len({values.dtype.kind in "biuf" for values in both}) > 1:
            return np.zeros(n, np.intp), np.zeros(n, bool)
        values, column = np.unique(np.concatenate(both), return_inverse=True)
        # Renumbered at every step: the product of all lengths may exceed an integer.
        _, numbers = np.unique(numbers * len(values) + column, return_inverse=True)
    first = np.full(n + n_known, -1)
    first[numbers[n:][::-1]] = np.arange(n_known)[::-1]
    places = first[numbers[:n]]
    return np.maximum(places, 0), places >= 0


# ---------------------------------------------------------------------------- models


@dataclass(frozen=True)
class PairOfModels:
    """Two models over the configurations of one kernel on one device that both give a value.

    Attributes
    ----------
    models : tuple of str
        The two models.
    values : array, shape (2, configurations)
        The objective by each model, in dimension order.
    regimes : array, shape (2, configurations)
        The regimes' names, empty texts without the variable ``regime``.
    """

    kernel: str
    device: str
    models: tuple[str, str]
    values: Array
    regimes: Array

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of the two models' values."""
        return spearman(*self.values)

    @property
    def agrees_on_best(self) -> bool:
        """Whether a configuration is best for both models, ties included."""
        one, other = self.values
        return bool(((one == one.min()) & (other == other.min())).any())

    def parting(self) -> tuple[str, str] | None:
        """Return the pair of regimes whose ranks differ most.

        The measure is the median distance of a configuration's two ranks; a pair of regimes counts
        if it has at least 1 % of the configurations.
        """
        distance = np.abs(np.subtract(*map(average_ranks, self.values)))
        (ones, first), (others, second) = (np.unique(r, return_inverse=True) for r in self.regimes)
        found: dict[tuple[str, str], float] = {}
        for i, j in np.ndindex(len(ones), len(others)):
            here = (first == i) & (second == j)
            if np.count_nonzero(here) >= max(1, len(distance) // 100):
                found[str(ones[i]), str(others[j])] = float(np.median(distance[here]))
        return max(found, key=found.__getitem__, default=None)

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of the answer."""
        parting, (one, other) = self.parting(), self.values
        return {
            "kernel": self.kernel,
            "device": self.device,
            "first": self.models[0],
            "second": self.models[1],
            "configurations": len(one),
            "rank_correlation": or_none(self.correlation),
            "same_best": "yes" if self.agrees_on_best else "no",
            "loss_of_first": _loss(one, other),
            "loss_of_second": _loss(other, one),
            "parts_in": " / ".join(parting) if parting and all(parting) else None,
        }


def _loss(chooser: Array, judge: Array) -> float:
    """Return how far one model's choice is from the best according to the other."""
    return float(judge[np.argmin(chooser)] / judge.min() - 1.0)


def model_pairs(
    data: Any, objective: str = "execution_time", *, select: Mapping[str, Any] | None = None
) -> list[PairOfModels]:
    """Return every pair of models over every kernel and device of some results.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results with at least two models.
    objective : str
        A variable of all models.
    select : mapping, optional
        As in :func:`sweep.query.best`.

    Raises
    ------
    QueryError
        There are fewer than two models, or no variable of this name.
    """
    wanted = dict(select or {})
    grids = select_kernels(grids_of(data), wanted)
    pairs = [pair for grid in grids for pair in _pairs_of(grid, objective, wanted)]
    if not pairs:
        raise QueryError("the results have no two models with values in common to compare")
    return pairs


def _pairs_of(grid: Grid, objective: str, select: Mapping[str, Any]) -> Iterator[PairOfModels]:
    name = grid.resolve(objective)
    if "model" not in grid.variables[name].dims:
        raise QueryError(f"'{objective}' is given by one model alone: nothing to compare")
    index = dict(select_grid(grid, select).indices)
    names = [name] + (["regime"] if "regime" in grid.variables else [])
    models = [str(m) for m in grid.coordinates["model"].values[index["model"]]]
    devices = [str(d) for d in grid.coordinates["device"].values[index["device"]]]
    dims = ("model", *(dim for dim in grid.dims if dim != "model"))
    for i, device in enumerate(devices):
        here = {**index, "device": index["device"][i : i + 1]}
        _thin(here, dims)
        read = grid.read_flat(names, here, dims)
        by_model = {key: values.reshape(len(models), -1) for key, values in read.items()}
        times = by_model[name]
        regimes = by_model.get("regime", np.full(times.shape, "")).astype(str)
        for a, b in combinations(range(len(models)), 2):
            both = np.isfinite(times[a]) & np.isfinite(times[b])
            if both.any():
                rows = (array[[a, b]][:, both] for array in (times, regimes))
                yield PairOfModels(grid.kernel, device, (models[a], models[b]), *rows)


def _thin(index: dict[str, Array], dims: Sequence[str]) -> None:
    """Drop every second index of the longest dimension until few enough configurations remain."""
    free = [dim for dim in dims if dim not in ("model", "device")]
    while free and np.prod([float(len(index[dim])) for dim in free]) > SAMPLE:
        longest = max(free, key=lambda dim: len(index[dim]))
        index[longest] = index[longest][::2]


def compare_models(
    data: Any, objective: str = "execution_time", *, select: Mapping[str, Any] | None = None
) -> Answer:
    """Return how far the models agree, per kernel, device and pair of models.

    Parameters
    ----------
    data, objective, select
        As in :func:`model_pairs`.

    Returns
    -------
    Answer
        ``configurations`` for which both models have a value, Spearman's ``rank_correlation``,
        whether they share the best configuration (``same_best``), how much slower one model's
        choice is according to the other (``loss_of_first``: the first model's choice judged by the
        second), and the pair of regimes in which their ranks differ most (``parts_in``).
    """
    rows = [pair.row() for pair in model_pairs(data, objective, select=select)]
    agreed = sum(row["same_best"] == "yes" for row in rows)
    return Answer.of(
        f"agreement of the models on {objective}",
        rows,
        ("kernel", "device"),
        {"loss_of_first": "1", "loss_of_second": "1", "rank_correlation": "1"},
        (f"the two models have the same best configuration in {agreed} of {len(rows)} rows",),
        legend={
            "loss_of_first": "how much worse the first model chooses, as the second predicts",
            "parts_in": "pair of regimes in which the two rankings differ most",
        },
    )

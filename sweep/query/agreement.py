"""Where models agree: on the best configuration, on the ranking, and where they part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.query.answer import Answer, Row
from sweep.query.filters import select_grid
from sweep.query.grid import Grid, grids_of

__all__ = ["PairOfModels", "average_ranks", "compare_models", "model_pairs", "spearman"]

Array = NDArray[Any]

SAMPLE = 2_000_000
"""Configurations per kernel and device up to which all are ranked; beyond it a regular sample."""


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
        return float("nan")
    a, b = average_ranks(first), average_ranks(second)
    a, b = a - a.mean(), b - b.mean()
    norm = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / norm) if norm > 0 else float("nan")


@dataclass(frozen=True)
class PairOfModels:
    """Two models over one kernel's configurations on one device.

    Attributes
    ----------
    first_values, second_values : array
        The objective where both models have a value, in dimension order.
    first_regimes, second_regimes : array
        The regimes' names there, or ``None`` without the variable ``regime``.
    configurations : int
        How many configurations both models have a value for.
    """

    kernel: str
    device: str
    first: str
    second: str
    first_values: Array
    second_values: Array
    first_regimes: Array | None
    second_regimes: Array | None
    configurations: int

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of the two models' values."""
        return spearman(self.first_values, self.second_values)

    @property
    def agrees_on_best(self) -> bool:
        """Whether one configuration is best, ties included, for both."""
        both = (self.first_values == self.first_values.min()) & (
            self.second_values == self.second_values.min()
        )
        return bool(both.any())

    def loss(self, chooser: str) -> float:
        """Return what following one model's choice costs by the other, relative to its best."""
        chosen, judge = (
            (self.first_values, self.second_values)
            if chooser == self.first
            else (self.second_values, self.first_values)
        )
        return float(judge[np.argmin(chosen)] / judge.min() - 1.0)

    def parting(self) -> tuple[str, str, float] | None:
        """Return the pair of regimes whose ranks differ most, with that share of all ranks.

        The measure is the median distance of a configuration's two ranks, over the number of
        configurations; a pair of regimes counts if it holds at least 1 % of them.
        """
        if self.first_regimes is None or self.second_regimes is None:
            return None
        distance = np.abs(average_ranks(self.first_values) - average_ranks(self.second_values))
        keys = np.char.add(np.char.add(self.first_regimes, "|"), self.second_regimes)
        worst: tuple[str, str, float] | None = None
        for key in np.unique(keys):
            here = keys == key
            if here.sum() < max(1, len(keys) // 100):
                continue
            found = float(np.median(distance[here]) / len(keys))
            if worst is None or found > worst[2]:
                one, other = str(key).split("|")
                worst = (one, other, found)
        return worst


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
    pairs: list[PairOfModels] = []
    for grid in grids_of(data):
        if select and "kernel" in select and grid.kernel not in np.atleast_1d(select["kernel"]):
            continue
        pairs += _pairs_of(grid, objective, select or {})
    if not pairs:
        raise QueryError("the results have no two models with values in common to compare")
    return pairs


def _pairs_of(grid: Grid, objective: str, select: Mapping[str, Any]) -> list[PairOfModels]:
    name = grid.resolve(objective)
    if "model" not in grid.variables[name].dims:
        raise QueryError(f"'{objective}' is given by one model alone: nothing to compare")
    own = {key: value for key, value in select.items() if key != "kernel"}
    selected = select_grid(grid, own)
    index = {dim: np.asarray(selected.indices[dim]) for dim in grid.dims}
    names = [name] + (["regime"] if "regime" in grid.variables else [])
    models = [str(m) for m in grid.coordinates["model"].values[index["model"]]]
    devices = [str(d) for d in grid.coordinates["device"].values[index["device"]]]
    result = []
    for i, device in enumerate(devices):
        here = {**index, "device": index["device"][i : i + 1]}
        _thin(here, grid)
        read = {key: _by_model(grid, values) for key, values in grid.read(names, here).items()}
        times = read[name]
        regimes = grid.meanings("regime")[read["regime"]] if "regime" in read else None
        for a, b in combinations(range(len(models)), 2):
            both = np.isfinite(times[a]) & np.isfinite(times[b])
            if not both.any():
                continue
            one, other = (
                (regimes[k][both].astype(str) if regimes is not None else None) for k in (a, b)
            )
            result.append(
                PairOfModels(grid.kernel, device, models[a], models[b], times[a][both],
                             times[b][both], one, other, int(both.sum()))
            )  # fmt: skip
    return result


def _thin(index: dict[str, Array], grid: Grid) -> None:
    """Take every second, third, ... index of the longest dimensions until few enough are left."""
    free = [d for d in grid.dims if d not in ("model", "device")]
    while free and np.prod([float(len(index[d])) for d in free]) > SAMPLE:
        longest = max(free, key=lambda d: len(index[d]))
        index[longest] = index[longest][::2]


def _by_model(grid: Grid, values: Array) -> Array:
    """Return a variable with the model first and everything else flat."""
    axis = grid.dims.index("model")
    moved = np.moveaxis(values, axis, 0)
    return moved.reshape(moved.shape[0], -1)


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
        ``configurations`` that both models have a value for, Spearman's ``rank_correlation``,
        whether they share the ``best`` configuration, what following one model's choice costs by
        the other (``loss_of_first``: the first model's choice judged by the second), and the pair
        of regimes in which they part most (``parts_in``).
    """
    pairs = model_pairs(data, objective, select=select)
    rows = []
    for pair in pairs:
        parting = pair.parting()
        text = f"{parting[0]} / {parting[1]}" if parting else None
        rows.append(
            Row(
                {
                    "kernel": pair.kernel,
                    "device": pair.device,
                    "first": pair.first,
                    "second": pair.second,
                    "configurations": pair.configurations,
                    "rank_correlation": _or_none(pair.correlation),
                    "same_best": "yes" if pair.agrees_on_best else "no",
                    "loss_of_first": pair.loss(pair.first),
                    "loss_of_second": pair.loss(pair.second),
                    "parts_in": text,
                },
                ("kernel", "device"),
            )
        )
    agreed = sum(row["same_best"] == "yes" for row in rows)
    note = f"{agreed} of {len(rows)} pairs share their best configuration"
    return Answer(
        f"agreement of the models on {objective}",
        tuple(rows[0]),
        rows,
        {"loss_of_first": "1", "loss_of_second": "1", "rank_correlation": "1"},
        ("kernel", "device"),
        (note, "loss: how much worse one model's choice is by the other than that one's best"),
    )


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None

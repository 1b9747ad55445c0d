"""Agreement of models: on the best configuration, on the ranking, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.query.answer import Answer
from sweep.query.filters import select_grid, select_kernels
from sweep.query.grid import Grid, grids_of
from sweep.query.ranking import average_ranks, or_none, spearman

__all__ = ["PairOfModels", "compare_models", "model_pairs"]

Array = NDArray[Any]

SAMPLE = 2_000_000
"""Most configurations per kernel and device that are ranked; of more, a regular sample."""


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
        Number of configurations for which both models have a value.
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
        """Whether a configuration is best for both models, ties included."""
        both = (self.first_values == self.first_values.min()) & (
            self.second_values == self.second_values.min()
        )
        return bool(both.any())

    def loss(self, chooser: str) -> float:
        """Return how far one model's choice is from the best according to the other."""
        chosen, judge = (
            (self.first_values, self.second_values)
            if chooser == self.first
            else (self.second_values, self.first_values)
        )
        return float(judge[np.argmin(chosen)] / judge.min() - 1.0)

    def parting(self) -> tuple[str, str, float] | None:
        """Return the pair of regimes whose ranks differ most, with that share of all ranks.

        The measure is the median distance of a configuration's two ranks, over the number of
        configurations; a pair of regimes counts if it has at least 1 % of them.
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
        times, regimes = by_model[name], by_model.get("regime")
        for a, b in combinations(range(len(models)), 2):
            both = np.isfinite(times[a]) & np.isfinite(times[b])
            if both.any():
                one, other = (
                    None if regimes is None else regimes[k][both].astype(str) for k in (a, b)
                )
                yield PairOfModels(
                    grid.kernel, device, models[a], models[b],
                    times[a][both], times[b][both], one, other, int(both.sum()),
                )  # fmt: skip


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
    rows = [_row(pair) for pair in model_pairs(data, objective, select=select)]
    agreed = sum(row["same_best"] == "yes" for row in rows)
    return Answer.of(
        f"agreement of the models on {objective}",
        rows,
        ("kernel", "device"),
        {"loss_of_first": "1", "loss_of_second": "1", "rank_correlation": "1"},
        (
            f"{agreed} of {len(rows)} pairs share their best configuration",
            "loss: how much worse one model's choice is by the other than that one's best",
        ),
    )


def _row(pair: PairOfModels) -> dict[str, Any]:
    parting = pair.parting()
    return {
        "kernel": pair.kernel,
        "device": pair.device,
        "first": pair.first,
        "second": pair.second,
        "configurations": pair.configurations,
        "rank_correlation": or_none(pair.correlation),
        "same_best": "yes" if pair.agrees_on_best else "no",
        "loss_of_first": pair.loss(pair.first),
        "loss_of_second": pair.loss(pair.second),
        "parts_in": f"{parting[0]} / {parting[1]}" if parting else None,
    }

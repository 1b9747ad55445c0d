"""Predictions and measurements of the same configurations, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.fields import STACKED
from sweep.query.filters import Selection, select_grid
from sweep.query.grid import CLOCKS, Grid

__all__ = ["Paired", "pair"]

Array = NDArray[Any]

NO_SELECTION = "select one with NAME=VALUE"


@dataclass(frozen=True)
class Paired:
    """One model's predictions of measured configurations of a kernel on a device.

    Attributes
    ----------
    columns : mapping of str to array
        The configurations that were measured and lie in the predictions' space.
    measured : array
        Their measured times [s].
    predicted : array
        Their predicted times [s], NaN where the model gives none.
    occupancy : array or None
        Their predicted occupancy.
    regimes, bounds : array or None
        What the predictions are made of, in words.
    statuses : array
        Why there is no prediction, in words.
    optimum : float
        The smallest measured time of all [s].
    outside : int
        Measured configurations that are not among the predictions.
    failed : int
        Configurations that were predicted, but failed when they were measured.
    """

    kernel: str
    device: str
    model: str
    columns: Mapping[str, Array]
    measured: Array
    predicted: Array
    occupancy: Array | None
    regimes: Array | None
    bounds: Array | None
    statuses: Array
    optimum: float
    outside: int
    failed: int


def pair(
    predictions: Sequence[Grid], measurements: Sequence[Grid], select: Mapping[str, Any]
) -> list[Paired]:
    """Return predictions beside measurements, per kernel, device and model.

    Parameters
    ----------
    predictions, measurements : sequence of Grid
        Kernels are matched by name; one kernel on either side is the other's whatever its name.
    select : mapping
        Filter on the predictions' coordinates.

    Raises
    ------
    QueryError
        They have no kernel or device in common, or the predictions have several values of
        something that was not a parameter of the measurements.
    """
    known = {grid.kernel: grid for grid in predictions}
    found: list[Paired] = []
    for measured in measurements:
        grid = known.get(measured.kernel)
        if grid is None and len(predictions) == 1 == len(measurements):
            (grid,) = predictions
        if grid is None:
            names = ", ".join(known)
            raise QueryError(
                f"kernel '{measured.kernel}' was measured, but not predicted"
                f"{nearest(measured.kernel, known)} (predicted: {names}); {NO_SELECTION}: kernel"
            )
        found += _of_kernel(grid, measured, select)
    return found


def _of_kernel(grid: Grid, measured: Grid, select: Mapping[str, Any]) -> Iterator[Paired]:
    own = {name: value for name, value in select.items() if name != "kernel"}
    selection = select_grid(grid, own)
    if "device" not in measured.coordinates or "device" not in grid.dims:
        raise QueryError("both predictions and measurements must tell their devices")
    predicted_on = {
        str(grid.coordinates["device"].values[i]): int(i) for i in selection.indices["device"]
    }
    measured_on = [str(name) for name in np.atleast_1d(measured.coordinates["device"].values)]
    common = [name for name in measured_on if name in predicted_on]
    if not common:
        raise QueryError(
            f"no device was both predicted ({', '.join(predicted_on)}) and measured"
            f" ({', '.join(measured_on)})"
        )
    rows = _Rows(measured)
    places, inside = _places(grid, selection, rows)
    for device in common:
        times, status = rows.on(measured_on.index(device))
        valid = status == 0
        if not valid.any():
            raise QueryError(f"no configuration was measured successfully on {device}")
        chosen = np.flatnonzero(valid & inside)
        if not chosen.size:
            raise QueryError(
                f"kernel '{grid.kernel}': no measured configuration is among the predictions"
            )
        failed = np.flatnonzero(~valid & inside & rows.was_measured(status))
        for model in selection.indices["model"] if "model" in grid.dims else [0]:
            fixed = {"device": predicted_on[device], "model": int(model)}
            read = _read(grid, places, chosen, fixed)
            timed = np.zeros(0)
            if failed.size:
                timed = _read(grid, places, failed, fixed)["execution_time"]
            yield Paired(
                kernel=grid.kernel,
                device=device,
                model=str(grid.coordinates["model"].values[model]) if "model" in grid.dims else "",
                columns={name: column[chosen] for name, column in rows.columns.items()},
                measured=times[chosen],
                predicted=read["execution_time"].astype(np.float64),
                occupancy=read.get("occupancy"),
                regimes=_words(grid, read, "regime"),
                bounds=_words(grid, read, "bound"),
                statuses=np.asarray(_words(grid, read, "status")),
                optimum=float(times[valid].min()),
                outside=int(np.count_nonzero(valid & ~inside)),
                failed=int(np.count_nonzero(np.isfinite(timed))),
            )


class _Rows:
    """Measurements as rows: a column per parameter, times and statuses per device."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        dims = [d for d in grid.dims if d != "device"]
        index = {d: np.arange(n) for d, n in grid.sizes.items()} | {"device": np.arange(1)}
        shape = tuple(1 if d == "device" else grid.sizes[d] for d in grid.dims)
        names = [n for n in grid.axes if n not in ("device", STACKED)]
        self.columns = {
            name: np.broadcast_to(grid.coordinate_at(name, index), shape).ravel() for name in names
        }
        if not dims:
            raise QueryError("the measurements have no tuning parameters")

    def on(self, device: int) -> tuple[Array, Array]:
        """Return times and statuses on one of the devices."""
        index: dict[str, slice | Array] = {d: slice(None) for d in self.grid.dims}
        index["device"] = np.array([device])
        for name in ("execution_time", "status"):
            if name not in self.grid.variables:
                raise QueryError(f"the measurements have no variable '{name}'")
        read = self.grid.read(["execution_time", "status"], index)
        return read["execution_time"].ravel(), read["status"].ravel()

    def was_measured(self, status: Array) -> Array:
        """Return where a configuration was tried at all."""
        words = self.grid.meanings("status")[status]
        return np.asarray(words != "not_measured")


def _read(
    grid: Grid, places: Mapping[str, Array], rows: Array, fixed: Mapping[str, int]
) -> dict[str, Array]:
    """Return the predictions of some rows on one device by one model."""
    wanted = ("execution_time", "status", "occupancy", "regime", "bound")
    points = {d: np.full(len(rows), fixed[d]) if d in fixed else places[d][rows] for d in grid.dims}
    return grid.gather([name for name in wanted if name in grid.variables], points)


def _words(grid: Grid, read: Mapping[str, Array], name: str) -> Array | None:
    if name not in read:
        return None
    return grid.meanings(name)[read[name].astype(np.int64)].astype(str)


# ---------------------------------------------------------------------------- matching names


def _places(grid: Grid, selection: Selection, rows: _Rows) -> tuple[dict[str, Array], Array]:
    """Return each row's index along every dimension of the predictions, and which rows have one."""
    of = _names(grid, rows)
    n_rows = len(next(iter(rows.columns.values())))
    inside = np.ones(n_rows, bool)
    places: dict[str, Array] = {}
    for dim in grid.dims:
        if dim in ("model", "device"):
            continue
        if dim == STACKED and grid.stacked:
            places[dim], known = _in_list(grid, selection, rows, of)
        elif dim in of:
            values = grid.coordinates[dim].values
            places[dim], known = _found(values, rows.columns[of[dim]])
            known &= np.isin(places[dim], selection.indices[dim])
        else:
            left = selection.indices[dim]
            if len(left) != 1:
                texts = ", ".join(str(v) for v in grid.coordinates[dim].values[left][:6].tolist())
                raise QueryError(
                    f"the predictions have {len(left)} values of {dim}, which was not measured"
                    f" ({texts}{', ...' if len(left) > 6 else ''}): {NO_SELECTION}"
                )
            places[dim], known = np.full(n_rows, left[0]), np.ones(n_rows, bool)
        inside &= known
    return places, inside


def _names(grid: Grid, rows: _Rows) -> dict[str, str]:
    """Return which measured parameter each dimension or stacked parameter of predictions is."""
    axes = [name for name in grid.axes if name not in ("model", "device", *CLOCKS)]
    lower = {name.lower(): name for name in axes}
    found: dict[str, str] = {}
    for name, column in rows.columns.items():
        axis = name if name in axes else lower.get(name.lower())
        if axis is not None:
            found[axis] = name
            continue
        values = np.unique(column)
        scalar = grid.coordinates.get(name)
        if scalar is not None and scalar.values.ndim == 0:
            if len(values) > 1 or values[0] != scalar.values.item():
                raise QueryError(
                    f"measured at {name} = {', '.join(map(str, values[:6].tolist()))}, predicted at"
                    f" {name} = {scalar.values.item():g}"
                )
        elif len(values) > 1:
            raise QueryError(
                f"'{name}' was varied when measured, but kernel '{grid.kernel}' was predicted"
                f" without such a parameter{nearest(name, axes)} (it has {', '.join(axes)})"
            )
    if not found:
        raise QueryError(
            f"predictions ({', '.join(axes)}) and measurements ({', '.join(rows.columns)}) have no"
            " parameter in common"
        )
    return found


def _found(values: Array, column: Array) -> tuple[Array, Array]:
    """Return each element's place among some values, and whether it is there."""
    if (values.dtype.kind in "biuf") != (column.dtype.kind in "biuf"):
        return np.zeros(len(column), np.intp), np.zeros(len(column), bool)
    order = np.argsort(values, kind="stable")
    at = np.minimum(np.searchsorted(values, column, sorter=order), len(values) - 1)
    places = order[at]
    return places, np.asarray(values[places] == column)


def _in_list(
    grid: Grid, selection: Selection, rows: _Rows, of: Mapping[str, str]
) -> tuple[Array, Array]:
    """Return each row's place in the list of predicted configurations."""
    kept = selection.indices[STACKED]
    wanted = np.zeros(len(next(iter(rows.columns.values()))), np.int64)
    held = np.zeros(len(kept), np.int64)
    inside = np.ones(len(wanted), bool)
    for name, axis in grid.stacked.items():
        place = axis.places[kept]
        if name in of:
            mine, known = _found(axis.values, rows.columns[of[name]])
            inside &= known
        elif len(np.unique(place)) == 1:
            mine = np.full(len(wanted), place[0])
        else:
            raise QueryError(
                f"the predictions have several values of {name}, which was not measured:"
                f" {NO_SELECTION}"
            )
        # Renumbered at every step: the product of all lengths may exceed an integer.
        pairs = np.concatenate([held * len(axis.values) + place, wanted * len(axis.values) + mine])
        _, numbers = np.unique(pairs, return_inverse=True)
        held, wanted = numbers.ravel()[: len(held)], numbers.ravel()[len(held) :]
    at, known = _found(held, wanted)
    return kept[at] if len(kept) else at, inside & known

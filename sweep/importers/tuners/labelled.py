"""Measured times as a labelled dataset: a grid if at least half was measured, else a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import TuningError, nearest
from sweep.fields import STACKED
from sweep.importers.tuners.measurements import MEASURED, TAKEN, Array, Measurements
from sweep.importers.tuners.search_space import SearchSpace

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["axes_of", "joined", "measured_dataset"]

MOST_POINTS = 1 << 28
"""Largest number of points in a grid of measurements."""

LAYOUTS = ("auto", "grid", "stacked")


def joined(parts: Sequence[Measurements]) -> Measurements:
    """Concatenate the rows of several files about one kernel.

    Raises
    ------
    TuningError
        They have different tuning parameters.
    """
    first, *others = parts
    for other in others:
        if unshared := sorted(set(other.parameters) ^ set(first.parameters)):
            raise TuningError(
                f"kernel '{first.kernel}': only some of the files have the parameter"
                f" '{unshared[0]}'; import them one by one, or name the parameters"
            )
        for name, column in first.parameters.items():
            if (column.dtype.kind in "iuf") != (other.parameters[name].dtype.kind in "iuf"):
                raise TuningError(f"kernel '{first.kernel}': '{name}' is a number in one file only")

    def all_rows(column: Callable[[Measurements], Array]) -> Array:
        return np.concatenate([column(part) for part in parts])

    def further(name: str) -> Array:
        return all_rows(lambda part: part.further.get(name, np.full(len(part), np.nan)))

    def parameter(name: str) -> Array:
        return all_rows(lambda part: part.parameters[name])

    return replace(
        first,
        parameters={name: parameter(name) for name in first.parameters},
        device=all_rows(lambda part: part.device),
        seconds=all_rows(lambda part: part.seconds),
        status=all_rows(lambda part: part.status),
        further={name: further(name) for part in parts for name in part.further},
        units={name: unit for part in parts for name, unit in part.units.items()},
        notes=tuple(note for part in parts for note in part.notes),
    )


def axes_of(measured: Measurements, space: SearchSpace | None) -> dict[str, list[Any]]:
    """Return each parameter's values, in the order of the search space if there is one.

    Raises
    ------
    TuningError
        The search space does not have one of the measured parameters.
    """
    axes = {}
    for name, column in measured.parameters.items():
        found = np.unique(column).tolist()
        if space is not None and name not in space.parameters:
            raise TuningError(
                f"the search space '{space.name}' has no parameter '{name}'"
                f"{nearest(name, space.parameters)}, which was measured"
                f" (parameters: {', '.join(space.parameters)})"
            )
        known = space.parameters[name] if space is not None else ()
        occurring = set(found)
        used = dict.fromkeys(value for value in known if value in occurring)
        axes[name] = [*used, *(value for value in found if value not in used)]
    return axes


def measured_dataset(
    measured: Measurements,
    *,
    space: SearchSpace | None = None,
    devices: Mapping[str, str] | None = None,
    layout: str = "auto",
    attributes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return measurements with the tuning parameters as dimensions, or along one dimension.

    Parameters
    ----------
    measured : Measurements
        The rows. Rows with the same configuration and device are averaged.
    space : SearchSpace, optional
        Their search space. Rows that violate its conditions are kept and marked with
        ``within_conditions`` = 0.
    devices : mapping, optional
        Name of a device in the rows to its key.
    layout : str
        ``"grid"``: a dimension per parameter; ``"stacked"``: one dimension ``configuration`` with
        the parameters as coordinates; ``"auto"``: a grid if at least half of it was measured.
    attributes : mapping, optional
        Further attributes of the dataset, such as the files' names and hashes.

    Returns
    -------
    xarray.Dataset
        ``execution_time`` [s], ``status`` and the other measurements; the first dimension is the
        device.

    Raises
    ------
    TuningError
        The device of a row or the layout is unknown.
    """
    import xarray as xr

    if layout not in LAYOUTS:
        raise TuningError(f"layout = {layout!r}: one of {', '.join(LAYOUTS)}")
    axes = axes_of(measured, space)
    codes = np.stack([_codes(measured.parameters[name], axes[name]) for name in axes], axis=1)
    configurations, of_row = np.unique(codes, axis=0, return_inverse=True)
    keys, of_device = _devices(measured, devices or {})
    points = of_device * len(configurations) + of_row.ravel()
    flat = _per_point(measured, points, len(keys) * len(configurations))
    columns = {name: np.asarray(axes[name])[configurations[:, i]] for i, name in enumerate(axes)}
    if space is not None and all(
        name in columns for condition in space.conditions for name in condition.names
    ):
        flat["within_conditions"] = np.tile(space.satisfied(columns), len(keys)).astype(np.uint8)
    shape = tuple(len(values) for values in axes.values())
    if layout == "auto":
        layout = "grid" if 2 * len(configurations) >= math.prod(shape) else "stacked"
    if layout == "grid" and len(keys) * math.prod(shape) > MOST_POINTS:
        raise TuningError(f"a grid has at most {MOST_POINTS:,} points: use the layout 'stacked'")
    if layout == "grid":
        places = np.ravel_multi_index(tuple(configurations.T), shape)
        whole = np.arange(len(keys))[:, np.newaxis] * math.prod(shape) + places
        flat = {
            name: _spread(name, values, whole.ravel(), len(keys) * math.prod(shape))
            for name, values in flat.items()
        }
        dims, extents = ("device", *axes), (len(keys), *shape)
        coords: dict[str, Any] = {
            name: ((name,), values, _about(name)) for name, values in axes.items()
        }
    else:
        dims, extents = ("device", STACKED), (len(keys), len(configurations))
        coords = {
            STACKED: (
                (STACKED,),
                np.arange(len(configurations)),
                {
                    "long_name": "number of the configuration",
                    "units": "1",
                    "stacks": list(axes),
                    "absent": "not_measured",
                },
            ),
            **{
                name: ((STACKED,), values, {**_about(name), "axis_values": axes[name]})
                for name, values in columns.items()
            },
        }
    attrs = {n: _variable_attributes(n, measured.units) for n in flat}
    data = {name: (dims, values.reshape(extents), attrs[name]) for name, values in flat.items()}
    coords["device"] = (("device",), keys, {"long_name": "device", "units": "1"})
    return xr.Dataset(data, coords, {**(attributes or {}), "notes": list(measured.notes)})


def _codes(column: Array, values: Sequence[Any]) -> Array:
    """Return the index of each element among the values."""
    sorter = np.argsort(np.asarray(values), kind="stable")
    return np.asarray(sorter[np.searchsorted(np.asarray(values), column, sorter=sorter)])


def _devices(measured: Measurements, known: Mapping[str, str]) -> tuple[list[str], Array]:
    names, of_row = np.unique(measured.device, return_inverse=True)
    keys = [known.get(str(name), str(name)) for name in names]
    if "" in keys:
        raise TuningError(
            f"kernel '{measured.kernel}': the file does not tell the device of"
            f" {int(np.count_nonzero(measured.device == ''))} rows: name it (--device)"
        )
    unique = list(dict.fromkeys(keys))  # several names may mean one device
    return unique, np.array([unique.index(key) for key in keys])[of_row.ravel()]


def _per_point(measured: Measurements, points: Array, n_points: int) -> dict[str, Array]:
    """Return the mean over the rows of each device and configuration that have a number."""
    status = np.full(n_points, MEASURED["not_measured"], np.uint8)
    status[points] = measured.status
    status[points[measured.valid]] = MEASURED["valid"]
    flat = {"execution_time": _mean(points, measured.seconds, n_points), "status": status}
    for name, values in measured.further.items():
        if name not in flat and name not in measured.parameters and name not in TAKEN:
            flat[name] = _mean(points, values, n_points)
    return flat


def _mean(points: Array, values: Array, n_points: int) -> Array:
    known = np.isfinite(values)
    count = np.bincount(points[known], minlength=n_points)
    total = np.bincount(points[known], weights=values[known], minlength=n_points)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _spread(name: str, values: Array, places: Array, size: int) -> Array:
    """Return a larger array with the values at the given indices, empty elsewhere."""
    empty: float = np.nan
    if values.dtype.kind == "u":
        empty = MEASURED["not_measured"] if name == "status" else 0
    whole = np.full(size, empty, values.dtype)
    whole[places] = values
    return whole


def _about(name: str) -> dict[str, Any]:
    return {"long_name": f"tuning parameter {name}", "units": "1"}


def _variable_attributes(name: str, units: Mapping[str, str]) -> dict[str, Any]:
    if name == "execution_time":
        return {"units": "s", "long_name": "measured execution time of the kernel"}
    if name == "status":
        text = "whether the configuration has a measured time, and if not why"
        return {"units": "1", "long_name": text, **MEASURED.attributes()}
    if name == "within_conditions":
        return {"units": "1", "long_name": "1 where all conditions of the search space hold"}
    return {"units": units.get(name, "1"), "long_name": name.replace("_", " ")}

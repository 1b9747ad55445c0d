"""Measured times of configurations, whatever tuner measured them, and as a labelled dataset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import TuningError, nearest
from sweep.fields import STACKED, Array, Flags
from sweep.importers.files import Source
from sweep.importers.tuners.search_space import SearchSpace, Value
from sweep.specs.names import check_name, is_word

if TYPE_CHECKING:
    import xarray as xr


STATUSES = ("valid", "constraint", "compilation", "runtime", "correctness", "timeout", "failed",
            "not_measured")  # fmt: skip
MEASURED = Flags({name: code for code, name in enumerate(STATUSES)})
"""Why a configuration has no measured time; the codes are permanent."""

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in a unit."""

TAKEN = frozenset(
    {STACKED, "device", "kernel", "model", "execution_time", "status", "within_conditions"}
)
"""Names with another meaning in a dataset of measurements."""

MOST_POINTS = 1 << 28
"""Largest number of points in a grid of measurements."""

LAYOUTS = ("auto", "grid", "stacked")


@dataclass(frozen=True)
class Row:
    """One measured configuration: values, time [s], status, additional numbers, device."""

    values: Mapping[str, Value]
    seconds: float
    status: str
    further: Mapping[str, float] = field(default_factory=dict)
    device: str = ""


@dataclass(frozen=True)
class Measurements:
    """The measured configurations of one kernel.

    Attributes
    ----------
    kernel : str
        The kernel's name in the file.
    parameters : mapping of str to array
        One column per tuning parameter: numbers, booleans or strings.
    device : array of str
        The device of each row, ``""`` if unknown.
    seconds : array of float64
        Measured time [s], NaN if there is none.
    status : array of uint8
        Codes of :data:`MEASURED`.
    further : mapping of str to array
        Additional columns: standard deviations, registers, counters.
    units : mapping of str to str
        Their units, if known.
    notes : tuple of str
        Remarks on how the file was read.
    declared : mapping of str to tuple
        Values of parameters that the file names, whether measured or not.
    problem_size : tuple of float
        The problem along each axis of the grid; empty if the file does not say.
    """

    kernel: str
    parameters: Mapping[str, Array]
    device: Array
    seconds: Array
    status: Array
    further: Mapping[str, Array] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    declared: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    problem_size: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def valid(self) -> Array:
        """Which rows have a time."""
        return np.asarray(self.status == MEASURED["valid"])


def collected(
    source: Source,
    kernel: str,
    rows: Sequence[Row],
    units: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Measurements:
    """Return rows as columns.

    Parameters
    ----------
    source : Source
        The file, for messages.
    kernel : str
        The kernel's name.
    rows : sequence of Row
        At least one; all have the same tuning parameters.
    units, notes
        As in :class:`Measurements`.

    Raises
    ------
    TuningError
        A parameter mixes words and numbers, or a name or word cannot be used.
    """
    names = list(rows[0].values)
    for name in names:
        check_name(name, "parameter", str(source.path), TuningError)
        if name in TAKEN:
            raise source.error(f"parameter '{name}': the name is taken")
    for text in {kernel, *(row.device for row in rows)} - {""}:
        if not is_word(text) or len(text) > 1000:
            raise source.error(f"{text[:60]!r} cannot be the name of a kernel or device")
    seconds = np.array([row.seconds for row in rows], np.float64)
    status = np.array([MEASURED[row.status] for row in rows], np.uint8)
    # Only a positive number is a time, whatever the tuner calls it.
    unusable = (status == MEASURED["valid"]) & ~(np.isfinite(seconds) & (seconds > 0))
    status[unusable] = MEASURED["failed"]
    seconds[status != MEASURED["valid"]] = np.nan
    further = dict.fromkeys(name for row in rows for name in row.further)
    return Measurements(
        kernel,
        {name: _column(source, name, [row.values[name] for row in rows]) for name in names},
        np.array([row.device for row in rows], np.str_),
        seconds,
        status,
        {n: np.array([row.further.get(n, np.nan) for row in rows], np.float64) for n in further},
        dict(units or {}),
        notes,
    )


def _column(source: Source, name: str, values: Sequence[Value]) -> Array:
    known = {bool: "booleans", str: "words"}
    kinds = {known.get(type(value), "numbers") for value in values}
    if len(kinds) > 1:
        raise source.error(f"parameter '{name}' mixes {' and '.join(sorted(kinds))}")
    if kinds == {"words"} and not all(is_word(str(value)) for value in set(values)):
        raise source.error(f"parameter '{name}' has a word that cannot be printed")
    column = np.array(values)
    is_float = column.dtype.kind == "f"
    if column.dtype.kind not in "fiubU" or (is_float and not (np.abs(column) < 2.0**53).all()):
        raise source.error(f"parameter '{name}' has a value that is no finite number below 2**53")
    is_whole = is_float and np.all(column == np.rint(column))
    return column.astype(np.int64) if is_whole else column


def plain_name(name: str) -> str:
    """Return a valid name for an array of a store: letters, digits, dots and _."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "_per_" if "/" in name else "_", name).strip("_.")
    return f"n_{plain}"[:100] if plain[:1].isdigit() else plain[:100] or "unnamed"


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

    names = dict.fromkeys(name for part in parts for name in part.further)
    further = [{n: np.full(len(p), np.nan) for n in names} | dict(p.further) for p in parts]
    return replace(
        first,
        parameters={n: np.concatenate([p.parameters[n] for p in parts]) for n in first.parameters},
        device=np.concatenate([part.device for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        status=np.concatenate([part.status for part in parts]),
        further={name: np.concatenate([columns[name] for columns in further]) for name in names},
        units={name: unit for part in parts for name, unit in part.units.items()},
        notes=tuple(note for part in parts for note in part.notes),
        declared={
            name: tuple(dict.fromkeys(v for part in parts for v in part.declared.get(name, ())))
            for name in first.parameters
        },
        problem_size=first.problem_size if len({p.problem_size for p in parts}) == 1 else (),
    )


# ---------------------------------------------------------------------------- as a dataset


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
    axes = _axes(measured, space)
    codes = np.stack([_codes(measured.parameters[name], axes[name]) for name in axes], axis=1)
    configurations, of_row = np.unique(codes, axis=0, return_inverse=True)
    keys, of_device = _devices(measured, devices or {})
    columns = {name: np.asarray(axes[name])[configurations[:, i]] for i, name in enumerate(axes)}
    sizes = {name: len(values) for name, values in axes.items()}
    n_grid = math.prod(sizes.values())
    is_grid = layout == "grid" or (layout == "auto" and 2 * len(configurations) >= n_grid)
    if is_grid and len(keys) * n_grid > MOST_POINTS:
        raise TuningError(f"a grid has at most {MOST_POINTS:,} points: use the layout 'stacked'")
    coords: dict[str, Any]
    if is_grid:
        places = np.ravel_multi_index(tuple(configurations.T), tuple(sizes.values()))
        coords = {name: ((name,), values, _about(name)) for name, values in axes.items()}
    else:
        sizes = {STACKED: len(configurations)}
        places = np.arange(len(configurations))
        attrs = {"long_name": "number of the configuration", "units": "1",
                 "stacks": list(axes), "absent": "not_measured"}  # fmt: skip
        coords = {STACKED: ((STACKED,), places, attrs)}
        for name, values in columns.items():
            coords[name] = ((STACKED,), values, {**_about(name), "axis_values": axes[name]})
    dims, extents = ("device", *sizes), (len(keys), *sizes.values())
    n_places = math.prod(sizes.values())
    points = of_device * n_places + places[of_row.ravel()]
    flat = _per_point(measured, points, len(keys) * n_places)
    if space is not None and all(
        condition.names <= columns.keys() for condition in space.conditions
    ):
        within = np.zeros(n_places, np.uint8)
        within[places] = space.satisfied(columns)
        flat["within_conditions"] = np.tile(within, len(keys))
    data = {
        name: (dims, values.reshape(extents), _attributes(name, measured.units))
        for name, values in flat.items()
    }
    coords["device"] = (("device",), keys, {"long_name": "device", "units": "1"})
    return xr.Dataset(data, coords, {**(attributes or {}), "notes": list(measured.notes)})


def _axes(measured: Measurements, space: SearchSpace | None) -> dict[str, list[Any]]:
    """Return each parameter's measured values, in the order of the search space if there is one."""
    axes = {}
    for name, column in measured.parameters.items():
        found = np.unique(column).tolist()
        if space is not None and name not in space.parameters:
            raise TuningError(
                f"the search space '{space.name}' has no parameter '{name}'"
                f"{nearest(name, space.parameters)}, which was measured"
                f" (parameters: {', '.join(space.parameters)})"
            )
        known = dict.fromkeys(space.parameters[name] if space is not None else ())
        occurring = set(found)
        used = [value for value in known if value in occurring]
        axes[name] = [*used, *(value for value in found if value not in known)]
    return axes


def _codes(column: Array, values: Sequence[Any]) -> Array:
    """Return the index of each element among the values."""
    sorter = np.argsort(np.asarray(values), kind="stable")
    return np.asarray(sorter[np.searchsorted(np.asarray(values), column, sorter=sorter)])


def _devices(measured: Measurements, known: Mapping[str, str]) -> tuple[list[str], Array]:
    """Return the keys of the devices, and the index of each row's device among them."""
    names, of_row = np.unique(measured.device, return_inverse=True)
    keys = [known.get(str(name), str(name)) for name in names]
    if "" in keys:
        raise TuningError(
            f"kernel '{measured.kernel}': the file does not name the device of"
            f" {int(np.count_nonzero(measured.device == ''))} rows: name it"
            " (--device, in a question device=NAME)"
        )
    unique = list(dict.fromkeys(keys))  # several names may mean one device
    return unique, np.array([unique.index(key) for key in keys])[of_row.ravel()]


def _per_point(measured: Measurements, points: Array, n_points: int) -> dict[str, Array]:
    """Return the mean over the rows of each device and configuration that have a number."""

    def mean(values: Array) -> Array:
        known = np.isfinite(values)
        count = np.bincount(points[known], minlength=n_points)
        total = np.bincount(points[known], weights=values[known], minlength=n_points)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    status = np.full(n_points, MEASURED["not_measured"], np.uint8)
    status[points] = measured.status
    status[points[measured.valid]] = MEASURED["valid"]
    flat = {"execution_time": mean(measured.seconds), "status": status}
    for name, values in measured.further.items():
        if name not in measured.parameters and name not in TAKEN:
            flat[name] = mean(values)
    return flat


def _about(name: str) -> dict[str, Any]:
    return {"long_name": f"tuning parameter {name}", "units": "1"}


def _attributes(name: str, units: Mapping[str, str]) -> dict[str, Any]:
    known: dict[str, str] = {
        "execution_time": "measured execution time of the kernel",
        "status": "whether the configuration has a measured time, and if not why",
        "within_conditions": "1 where all conditions of the search space hold",
    }
    flags = MEASURED.attributes() if name == "status" else {}
    unit = "s" if name == "execution_time" else units.get(name, "1")
    return {"units": unit, "long_name": known.get(name, name.replace("_", " ")), **flags}

"""Pairs of predicted and measured times of the same configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.errors import QueryError, nearest
from sweep.fields import PROBLEM, PROBLEM_SIZE, STACKED, Array
from sweep.query.agreement import match
from sweep.query.blocks import boxes
from sweep.query.filters import Selection, dim_of, select_grid, select_kernels
from sweep.query.grid import CLOCKS, Grid, grids_of
from sweep.query.resting import names_in

NO_SELECTION = "select one with NAME=VALUE"

GROUPED = ("model", "device")
"""Dimensions whose values are always compared apart."""

POINTS = 1 << 18
"""Configurations of a block: both results are evaluated for it by all models."""


@dataclass(frozen=True)
class Paired:
    """One model's predictions of measured configurations of a kernel on a device.

    Attributes
    ----------
    columns : mapping of str to array
        Parameters of the configurations that were measured and predicted.
    measured : array
        Their measured times [s].
    predicted : array
        Their predicted times [s], NaN where the model gives none.
    statuses : array
        Names of the predictions' statuses.
    occupancy : array or None
        Their predicted occupancy.
    regimes, bounds : array or None
        Names of the predictions' regimes and bounds.
    optimum : float
        The smallest measured time [s], whether predicted or not.
    outside : int
        Measured configurations that are not among the predictions.
    failed : int
        Configurations that were predicted, but failed when they were measured.
    resting : tuple of str
        Assumed and fitted values that the predictions rest on.
    places : mapping of str to array
        The index of each configuration along each dimension of the predictions.
    """

    kernel: str
    device: str
    model: str
    columns: Mapping[str, Array]
    measured: Array
    predicted: Array
    statuses: Array
    occupancy: Array | None
    regimes: Array | None
    bounds: Array | None
    optimum: float
    outside: int
    failed: int
    resting: tuple[str, ...] = ()
    places: Mapping[str, Array] = field(default_factory=dict)


def paired(
    predictions: Any, measurements: Any, *, select: Mapping[str, Any] | None = None
) -> list[Paired]:
    """Return predictions with the measured times of the same configurations.

    Parameters
    ----------
    predictions, measurements : xarray.DataTree, xarray.Dataset, mapping or path
        Results of a sweep, and measured times (see ``sweep import``). Kernels are matched by name;
        if there is one on either side, names do not matter.
    select : mapping, optional
        Coordinate of the predictions to value, as in :func:`sweep.query.best`.

    Returns
    -------
    list of Paired
        One for each kernel, device and model.

    Raises
    ------
    QueryError
        They have no kernel or device in common, or the predictions have several values of
        something that was not a parameter of the measurements.
    """
    wanted = dict(select or {})
    known = {grid.kernel: grid for grid in select_kernels(grids_of(predictions), wanted)}
    grids = grids_of(measurements)
    found: list[Paired] = []
    for measured in grids:
        name = next(iter(known)) if len(known) == 1 == len(grids) else measured.kernel
        if name not in known:
            raise QueryError(
                f"kernel '{name}' was measured, but not predicted{nearest(name, known)}"
                f" (predicted: {', '.join(known)}); {NO_SELECTION}: kernel"
            )
        found += _of_kernel(known[name], measured, wanted)
    return found


def _of_kernel(grid: Grid, measured: Grid, select: Mapping[str, Any]) -> Iterator[Paired]:
    selection = select_grid(grid, select)
    devices = _common_devices(grid, measured, selection)
    columns = _columns(measured)
    places, inside = _places(grid, selection, columns)
    models = {0: ""}
    if "model" in grid.dims:
        names = grid.coordinates["model"].values
        models = {i: str(names[i]) for i in selection.indices["model"].tolist()}
    for device, (predicted_at, measured_at) in devices.items():
        times, status = _measured_on(measured, measured_at)
        valid = status == "valid"
        if not valid.any():
            raise QueryError(f"no configuration was measured successfully on {device}")
        if not (valid & inside).any():
            raise QueryError(
                f"kernel '{grid.kernel}': no measured configuration is among the predictions"
            )
        ran = np.flatnonzero(inside & (status != "not_measured"))
        succeeded = valid[ran]
        chosen = ran[succeeded]
        for number, model in models.items():
            one = {"device": predicted_at, "model": number}
            points = {
                dim: np.full(len(ran), one[dim]) if dim in one else places[dim][ran]
                for dim in grid.dims
            }
            found = _read(grid, points)
            failed = found["execution_time"][~succeeded]
            read = {name: values[succeeded] for name, values in found.items()}
            yield Paired(
                kernel=grid.kernel,
                device=device,
                model=model,
                columns={name: column[chosen] for name, column in columns.items()},
                measured=times[chosen],
                predicted=read["execution_time"].astype(np.float64),
                statuses=read["status"],
                occupancy=read.get("occupancy"),
                regimes=read.get("regime"),
                bounds=read.get("bound"),
                optimum=float(times[valid].min()),
                outside=int(np.count_nonzero(valid & ~inside)),
                failed=int(np.count_nonzero(np.isfinite(failed))),
                resting=_resting(grid, one),
                places={dim: place[succeeded] for dim, place in points.items()},
            )


def _common_devices(grid: Grid, measured: Grid, selection: Selection) -> dict[str, tuple[int, int]]:
    """Return the devices with their places among the predicted and among the measured ones."""
    if "device" not in measured.coordinates or "device" not in grid.dims:
        raise QueryError("both predictions and measurements must name their devices")
    devices = grid.coordinates["device"].values
    predicted_on = {str(devices[i]): i for i in selection.indices["device"].tolist()}
    measured_on = [str(name) for name in np.atleast_1d(measured.coordinates["device"].values)]
    common = {name: (predicted_on[name], measured_on.index(name))
              for name in measured_on if name in predicted_on}  # fmt: skip
    if not common:
        raise QueryError(
            f"no device was both predicted ({', '.join(predicted_on)}) and measured"
            f" ({', '.join(measured_on)})"
        )
    return common


def _columns(grid: Grid) -> dict[str, Array]:
    """Return the parameters of measured configurations, a row for each."""
    if set(grid.dims) <= {"device"}:
        raise QueryError("the measurements have no tuning parameters")
    index = {d: np.arange(n) for d, n in grid.sizes.items()} | {"device": np.arange(1)}
    shape = [len(index[dim]) for dim in grid.dims]
    found = {}
    for name in grid.axes:
        if name not in ("device", STACKED):
            coordinate = grid.coordinates[name]
            values = grid.at_block(coordinate.dims, coordinate.values, index)
            found[name] = np.broadcast_to(values, shape).ravel()
    return found


def _measured_on(grid: Grid, device: int) -> tuple[Array, Array]:
    """Return the times and statuses of all configurations on one of the devices."""
    names = ("execution_time", "status")
    for name in names:
        if name not in grid.variables:
            raise QueryError(f"the measurements have no variable '{name}'")
    index = {d: np.arange(n) for d, n in grid.sizes.items()} | {"device": np.array([device])}
    found = grid.read_flat(names, index)
    return found["execution_time"], found["status"]


def _read(grid: Grid, points: Mapping[str, Array]) -> dict[str, Array]:
    """Return the predictions at some points of the grid; codes as their meanings."""
    wanted = ("execution_time", "status", "occupancy", "regime", "bound")
    found = grid.gather([name for name in wanted if name in grid.variables], points)
    for name in {"status", "regime", "bound"} & set(found):
        found[name] = grid.meanings(name)[found[name].astype(np.int64)].astype(str)
    return found


def _resting(grid: Grid, fixed: Mapping[str, int]) -> tuple[str, ...]:
    """Return the assumed and fitted values behind one model's times on one device."""
    if "assumed" not in grid.variables:
        return ()
    at = {dim: np.array([fixed.get(dim, 0)]) for dim in grid.dims}
    return tuple(names_in(grid.gather(["assumed"], at)["assumed"].tolist()))


# ---------------------------------------------------------------------------- matching names


def _places(
    grid: Grid, selection: Selection, columns: Mapping[str, Array]
) -> tuple[dict[str, Array], Array]:
    """Return each row's index along the dimensions of the predictions, and which rows have one."""
    names = _names(grid, columns)
    rows = len(next(iter(columns.values())))
    inside = np.ones(rows, bool)
    places: dict[str, Array] = {}
    for dim in grid.dims:
        if dim in GROUPED:
            continue
        kept = selection.indices[dim]
        known = labels_of(grid, dim, kept)
        wanted = {}
        for name, values in known.items():
            several = np.unique(values)
            if name in names:
                wanted[name] = columns[names[name]]
            elif len(several) == 1:
                wanted[name] = np.full(rows, several[0])
            else:
                texts = ", ".join(map(str, several[:6].tolist()))
                raise QueryError(
                    f"the predictions have {len(several)} values of {name}, which was not measured"
                    f" ({texts}{', ...' if len(several) > 6 else ''}): {NO_SELECTION}"
                )
        of_dim, is_there = match(wanted, known)
        places[dim] = kept[of_dim] if len(kept) else of_dim
        inside &= is_there
    return places, inside


def _names(grid: Grid, columns: Mapping[str, Array]) -> dict[str, str]:
    """Return the name of the measured parameter for each axis of the predictions that has one."""
    axes = [name for name in grid.axes if name not in ("model", "device", PROBLEM, *CLOCKS)]
    axes += grid.listed
    lower = {name.lower(): name for name in axes}
    found: dict[str, str] = {}
    for name, column in columns.items():
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
            f"predictions ({', '.join(axes)}) and measurements ({', '.join(columns)}) have no"
            " parameter in common"
        )
    return found


def labels_of(grid: Grid, dim: str, index: Any = slice(None)) -> dict[str, Array]:
    """Return the labels of a dimension by name: lists of configurations, problems have several."""
    names = {STACKED: list(grid.stacked), PROBLEM: list(grid.listed)}.get(dim) or [dim]
    return {name: grid.coordinates[name].values[index] for name in names}


# ---------------------------------------------------------------------------- two results


@dataclass(frozen=True)
class Common:
    """What two results of a kernel have in common.

    Attributes
    ----------
    grids : pair of Grid
        The results, before and after.
    names : list of str
        The variables to read.
    places : mapping
        For each dimension the indices of the common labels, before and after.
    inner : list of str
        The dimensions that are not judged apart; configurations are numbered in their order.
    """

    grids: tuple[Grid, Grid]
    names: list[str]
    places: Mapping[str, tuple[Array, Array]]
    inner: list[str]

    @property
    def shape(self) -> list[int]:
        """Common labels of each of the inner dimensions."""
        return [len(self.places[dim][0]) for dim in self.inner]

    def blocks(self) -> Iterator[tuple[dict[str, slice], Array]]:
        """Yield ranges of the common labels, and the numbers of their configurations."""
        indices = {dim: self.places[dim][0] for dim in self.inner}
        for ranges in boxes(indices, self.grids[0].boundaries(self.names), POINTS):
            where = {dim: slice(*r) for dim, r in zip(self.inner, ranges, strict=True)}
            axes = np.ix_(*(np.arange(*r) for r in ranges))
            numbers = np.ravel_multi_index(axes, self.shape) if axes else np.zeros(1, np.int64)
            yield where, numbers.ravel()

    def read(self, where: Mapping[str, slice]) -> list[dict[str, Array]]:
        """Return the variables of a block before and after, flat."""
        own = self.grids[0].dims
        return [
            grid.read_flat(
                self.names,
                {dim: of[side][where.get(dim, slice(None))] for dim, of in self.places.items()},
                own,
            )
            for side, grid in enumerate(self.grids)
        ]

    def at(self, number: int) -> dict[str, int]:
        """Return a configuration's place among the common labels of the inner dimensions."""
        return dict(zip(self.inner, map(int, np.unravel_index(number, self.shape)), strict=True))

    def labels(self, at: Mapping[str, int]) -> dict[str, Any]:
        """Return the coordinates of a place among the common labels."""
        found: dict[str, Any] = {}
        for dim, i in at.items():
            columns = labels_of(self.grids[0], dim, self.places[dim][0][[i]])
            found |= {name: column[0].item() for name, column in columns.items()}
        return found

    def read_one(self, number: int, where: Mapping[str, slice]) -> list[dict[str, Any]]:
        """Return the variables of one configuration before and after."""
        ranges = {dim: slice(i, i + 1) for dim, i in self.at(number).items()}
        return [{n: v[0] for n, v in side.items()} for side in self.read({**where, **ranges})]


def common_labels(old: Grid, new: Grid, dim: str) -> tuple[Array, Array]:
    """Return the indices of a dimension's common labels, in the order of the earlier results."""
    places, is_common = match(labels_of(old, dim), labels_of(new, dim))
    if not is_common.any():
        raise QueryError(f"kernel '{old.kernel}': no value of {dim} is in both results")
    return np.flatnonzero(is_common), places[is_common]


def remarks(old: Mapping[str, Grid], new: Mapping[str, Grid], by: Sequence[str]) -> Iterator[str]:
    """Yield what a comparison leaves out: what one result lacks, and sizes but for their best."""
    sides = []
    for grids in (old, new):
        own = {("kernel", kernel) for kernel in grids}
        for grid in grids.values():
            for dim in {*GROUPED, *by} & {*grid.coordinates}:
                own |= {(dim, str(value)) for value in grid.coordinates[dim].values.flat}
        sides.append(own)
    for side, when in enumerate(("earlier", "later")):
        if names := ", ".join(" ".join(pair) for pair in sorted(sides[side] - sides[1 - side])):
            yield f"not compared, because only the {when} results have it: {names}"
    pooled = dict.fromkeys(
        dim
        for grid in (old[kernel] for kernel in old if kernel in new)
        for dim in grid.dims
        if grid.sizes[dim] > 1 and grid.long_name(dim).startswith(PROBLEM_SIZE)
        if dim not in {dim_of(grid, name) for name in by}
    )
    if pooled:
        yield f"the best is that over all {', '.join(pooled)}: --by judges each value by itself"

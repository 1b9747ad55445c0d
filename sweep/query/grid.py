"""One kernel's results seen as a grid: dimensions in order, names, meanings, reading by block.

A dataset's variables may lie in memory, in dask's graphs or in a store. They are only ever read in
blocks that follow their chunks, so that memory is bounded by the blocks in work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.fields import COMMON_FIELDS, STACKED
from sweep.reduction import Reducible
from sweep.store import StoredArray, StoredGroup

if TYPE_CHECKING:
    import xarray as xr

    from sweep.store import GroupIndex

__all__ = [
    "CLOCKS",
    "Coordinate",
    "Grid",
    "AbsentError",
    "POWER_VARIABLES",
]

Array = NDArray[Any]

UNWRITTEN = 255  # what a code reads as where a run has not come to yet

CLOCKS = ("core_clock_ratio", "memory_clock_ratio", "core_clock", "memory_clock")
"""Coordinates that stand last in answers."""

TEXTS = ("assumed", "power_assumed")
"""Texts about results; coordinates of a dataset, but not of a configuration."""

POWER_VARIABLES = frozenset({"power", "energy"})
"""Variables whose validity and sources are those of the device's power parameters too."""


class AbsentError(QueryError):
    """A question does not fit this kernel's results; it may fit another kernel's."""


@dataclass(frozen=True)
class Coordinate:
    """A coordinate's dimensions and values; strings are fixed-width arrays."""

    dims: tuple[str, ...]
    values: Array
    units: str


@dataclass(frozen=True)
class StackedAxis:
    """A parameter of a list: its values in order, and each configuration's place among them."""

    values: Array
    places: Array


class Grid:
    """One kernel's dataset and what queries need to know of it.

    Parameters
    ----------
    kernel : str
        The kernel's key.
    dataset : xarray.Dataset or StoredGroup
        Its results.
    planned : Reducible, optional
        Reduces the results, which nobody has computed.

    Attributes
    ----------
    index : GroupIndex or None
        What the store that it was opened from knows of its chunks.
    """

    def __init__(
        self, kernel: str, dataset: xr.Dataset | StoredGroup, planned: Reducible | None = None
    ) -> None:
        self.kernel, self.planned = kernel, planned
        self.dataset: Any = dataset  # of either kind: they are asked for the same
        self.index: GroupIndex | None = dataset.index if isinstance(dataset, StoredGroup) else None
        # The variable that depends on most keeps the documented order; a dataset's own does not.
        widest: list[Any] = sorted(self.dataset.data_vars.values(), key=lambda v: -v.ndim)
        self.dims = tuple(dict.fromkeys(str(d) for v in widest for d in v.dims))
        self.sizes = {d: int(self.dataset.sizes[d]) for d in self.dims}
        self.shape = tuple(self.sizes[d] for d in self.dims)
        self.points = int(np.prod(self.shape, dtype=object))

    @cached_property
    def stacked(self) -> dict[str, StackedAxis]:
        """The parameters of a list of configurations, in order; nothing where all are dims."""
        if STACKED not in self.dims or STACKED not in self.dataset.coords:
            return {}
        found = {}
        for name in np.atleast_1d(self.dataset.coords[STACKED].attrs.get("stacks", [])).tolist():
            variable = _variable(self.dataset.coords[name])
            column = _plain(_whole(variable))
            values = _plain(np.atleast_1d(variable.attrs.get("axis_values", np.unique(column))))
            order = np.argsort(values, kind="stable")
            places = order[np.searchsorted(values, column, sorter=order)]
            found[name] = StackedAxis(values, places)
        return found

    @property
    def absent(self) -> str:
        """Why combinations of parameters are not in the list: the status that a grid gives them."""
        return str(self.dataset.coords[STACKED].attrs.get("absent", "constraint"))

    @property
    def axes(self) -> tuple[str, ...]:
        """The dimensions, with the parameters of a list in its place."""
        return tuple(
            name
            for dim in self.dims
            for name in (self.stacked if dim == STACKED and self.stacked else (dim,))
        )

    def axis_values(self, name: str) -> Array:
        """Return the values of a dimension, or of a parameter of a list."""
        return self.stacked[name].values if name in self.stacked else self.coordinates[name].values

    @cached_property
    def coordinates(self) -> dict[str, Coordinate]:
        """Every coordinate over the grid's dimensions: dimensions first, clocks last."""
        # A store gives the others in the order of their names; so does everything else.
        first = dict.fromkeys((*self.axes, *self.dims))
        names = [*first, *sorted(str(c) for c in self.dataset.coords if c not in first)]
        found = {}
        names = [name for name in names if name not in TEXTS]
        for name in [n for n in names if n not in CLOCKS] + [n for n in CLOCKS if n in names]:
            if name not in self.dataset.coords:
                found[name] = Coordinate((name,), np.arange(self.sizes[name]), "1")
                continue
            variable = _variable(self.dataset.coords[name])
            if not set(variable.dims) <= set(self.dims):
                continue
            dims = tuple(d for d in self.dims if d in variable.dims)
            values = _plain(_whole(variable).transpose([variable.dims.index(d) for d in dims]))
            found[name] = Coordinate(dims, values, str(variable.attrs.get("units", "1")))
        return found

    @cached_property
    def variables(self) -> dict[str, Any]:
        """Every result by its full name."""
        arrays = {**self.dataset.data_vars}
        arrays |= {name: self.dataset.coords[name] for name in TEXTS if name in self.dataset.coords}
        return {str(name): _variable(array) for name, array in arrays.items()}

    def resolve(self, name: str) -> str:
        """Return the full name of a result; a model's own may be given without the model.

        Raises
        ------
        AbsentError
            No variable has this name, or several models have one; the message lists them.
        """
        if name in self.variables:
            return name
        found = [
            full
            for full, variable in self.variables.items()
            if full == f"{variable.attrs.get('model', '')}_{name}"
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise AbsentError(f"'{name}' is ambiguous: name one of {', '.join(sorted(found))}")
        if name in self.coordinates:
            raise AbsentError(f"'{name}' is a coordinate of kernel '{self.kernel}', not a variable")
        raise AbsentError(
            f"kernel '{self.kernel}' has no variable '{name}'"
            f"{nearest(name, self.names('float'))} (variables: {', '.join(self.names('float'))})"
        )

    def names(self, kind: str) -> list[str]:
        """Return the names of the variables of a kind: ``float``, ``code`` or ``text``."""
        return sorted(name for name in self.variables if self.kind(name) == kind)

    def kind(self, name: str) -> str:
        """Return ``float``, ``code`` (integers with meanings) or ``text``."""
        variable = self.variables[name]
        common = COMMON_FIELDS.get(name)
        if "flag_meanings" in variable.attrs or (common is not None and common.kind == "code"):
            return "code"
        return "float" if variable.dtype.kind in "biuf" else "text"

    def units(self, name: str) -> str:
        """Return the unit of a variable or coordinate, ``1`` if it has none."""
        if name in self.variables:
            return str(self.variables[name].attrs.get("units", "1"))
        return self.coordinates[name].units if name in self.coordinates else "1"

    def long_name(self, name: str) -> str:
        """Return the long name of a variable or coordinate, its name in words if it has none."""
        known = self.dataset.variables.get(name)
        spelled = name.replace("_", " ")
        return spelled if known is None else str(known.attrs.get("long_name", spelled))

    def meanings(self, name: str) -> Array:
        """Return the meaning of each of the 256 codes of a variable."""
        attributes: Mapping[str, Any] = self.variables[name].attrs
        common = COMMON_FIELDS.get(name)
        if "flag_meanings" not in attributes and common is not None and common.flags is not None:
            attributes = common.flags.attributes()
        table = np.array([f"unknown ({code})" for code in range(256)], dtype=object)
        table[UNWRITTEN] = "not computed"
        words = str(attributes.get("flag_meanings", "")).split()
        codes = np.atleast_1d(attributes.get("flag_values", []))
        for code, word in zip(codes, words, strict=False):
            table[int(code)] = word
        return table

    def model_of(self, name: str) -> str | None:
        """Return the model that alone gives a variable, None if all do."""
        variable = self.variables[name]
        model = variable.attrs.get("model")
        return None if model is None or "model" in variable.dims else str(model)

    def read(self, names: Sequence[str], index: Mapping[str, slice | Array]) -> dict[str, Array]:
        """Return variables at a block, each with as many axes as the grid (size 1 where absent)."""
        found: dict[str, Array] = {}
        pending = {}
        for name in names:
            variable = self.variables[name]
            mine = {d: index[d] for d in variable.dims}
            if isinstance(variable, StoredArray):
                found[name] = variable.read(mine)
            else:
                pending[name] = variable.isel(mine)
        found.update(_load(pending))
        for name, values in found.items():
            dims = self.variables[name].dims
            order = [dims.index(d) for d in self.dims if d in dims]
            padded = self._padded(dims, values.shape)
            found[name] = values.transpose(order).reshape(padded)
        return {name: found[name] for name in names}

    def read_flat(
        self,
        names: Sequence[str],
        index: Mapping[str, slice | Array],
        dims: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Return variables at a block as flat arrays; codes as their meanings.

        Parameters
        ----------
        names, index
            As for :meth:`read`.
        dims : sequence of str, optional
            Order of the dimensions; by default the grid's own.
        """
        dims = self.dims if dims is None else dims
        shape = [len(np.arange(self.sizes[dim])[index[dim]]) for dim in dims]
        found = {}
        for name, values in self.read(names, index).items():
            ordered = values.transpose([self.dims.index(dim) for dim in dims])
            flat = np.broadcast_to(ordered, shape).ravel()
            found[name] = self.meanings(name)[flat] if self.kind(name) == "code" else flat
        return found

    def _padded(self, dims: Sequence[Any], shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape with size 1 for each dimension of the grid that is absent."""
        known = dict(zip(dims, shape, strict=True))
        return tuple(known.get(d, 1) for d in self.dims)

    def coordinate_at(self, name: str, index: Mapping[str, slice | Array]) -> Array:
        """Return a coordinate at a block, with as many axes as the grid."""
        coordinate = self.coordinates[name]
        values = coordinate.values
        for axis, dim in enumerate(coordinate.dims):
            values = values[(slice(None),) * axis + (index[dim],)]
        return values.reshape(self._padded(coordinate.dims, values.shape))

    def gather(self, names: Sequence[str], points: Mapping[str, Array]) -> dict[str, Array]:
        """Return variables and coordinates at single points, given by their index per dimension."""
        found: dict[str, Array] = {}
        pending = {}
        size = len(next(iter(points.values()))) if points else 1
        for name in names:
            if name in self.variables:
                variable = self.variables[name]
                if isinstance(variable, StoredArray):
                    found[name] = variable.read_points(points)
                    continue
                import xarray as xr

                where = {d: xr.Variable(("point",), points[str(d)]) for d in variable.dims}
                pending[name] = variable.isel(where)
            else:
                coordinate = self.coordinates[name]
                found[name] = coordinate.values[tuple(points[d] for d in coordinate.dims)]
        found.update(_load(pending))
        return {name: np.broadcast_to(found[name], (size,)) for name in names}

    def boundaries(self, names: Iterable[str]) -> dict[str, Array]:
        """Return per dimension where chunks begin and the last ends, for reading ``names``.

        Without chunks any index is a boundary.
        """
        cuts = {d: np.arange(n + 1) for d, n in self.sizes.items()}
        chunked = [v for v in map(self.variables.__getitem__, names) if _chunks(v)]
        for variable in sorted(chunked, key=lambda v: v.ndim):  # the largest has the last word
            for dim, ends in _chunks(variable).items():
                cuts[dim] = ends
        return cuts


def _plain(values: Array) -> Array:
    """Return numbers as they are and strings of any kind as a fixed-width array."""
    return values if values.dtype.kind in "biuf" else values.astype(object).astype(str)


def _variable(array: Any) -> Any:
    """Return a stored array itself, and of an xarray.DataArray its variable."""
    return array if isinstance(array, StoredArray) else array.variable


def _whole(variable: Any) -> Array:
    """Return all values of a variable."""
    return variable.read() if isinstance(variable, StoredArray) else np.asarray(variable.values)


def _chunks(variable: Any) -> dict[str, Array]:
    """Return per dimension the boundaries of a variable's chunks; nothing if it has none."""
    if isinstance(variable, StoredArray):
        preferred = dict(zip(variable.dims, variable.chunking.chunks, strict=True))
    elif variable.chunks is not None:
        sizes = zip(variable.dims, variable.chunks, strict=True)
        return {str(d): np.cumsum([0, *chunks]) for d, chunks in sizes}
    else:
        preferred = variable.encoding.get("preferred_chunks") or {}
    return {
        str(d): np.append(np.arange(0, n, preferred[d]), n)
        for d, n in variable.sizes.items()
        if d in preferred and n > 0
    }


def _load(variables: Mapping[str, xr.Variable]) -> dict[str, Array]:
    """Return the values of variables; what dask holds is computed together."""
    lazy = [name for name, variable in variables.items() if variable.chunks is not None]
    values = {n: np.asarray(v.values) for n, v in variables.items() if n not in lazy}
    if lazy:
        from dask.base import compute, get_scheduler

        # Blocks are read in threads already; a scheduler that the user chose has precedence.
        scheduler = None if get_scheduler() is not None else "synchronous"
        computed = compute(*(variables[n].data for n in lazy), scheduler=scheduler)
        values.update(zip(lazy, map(np.asarray, computed), strict=True))
    return values

"""One kernel's results as a grid: dimensions in order, names, meanings, reading by block.

Results are in memory, in Dask graphs or in a store; a plan evaluates them when they are read.
They are only ever read in blocks that follow their chunks, so that memory is bounded by the blocks
that are being read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import QueryError, nearest, warn_if_unfinished
from sweep.fields import COMMON_FIELDS, PROBLEM, STACKED, Array
from sweep.reduction import Reducible
from sweep.store.buckets import files_of, is_url
from sweep.store.layout import UNWRITTEN_CODE
from sweep.store.reader import GroupIndex, StoredGroup, open_groups

if TYPE_CHECKING:
    import xarray as xr

Index = Mapping[str, slice | Array]

CLOCKS = ("core_clock_ratio", "memory_clock_ratio", "core_clock", "memory_clock")
"""Coordinates that come last in answers."""

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
        Reduces results that are not computed yet.

    Attributes
    ----------
    index : GroupIndex or None
        The index of the results' chunks, if they are opened from a store that has one.
    """

    def __init__(
        self, kernel: str, dataset: xr.Dataset | StoredGroup, planned: Reducible | None = None
    ) -> None:
        self.kernel, self.planned = kernel, planned
        self.dataset: Any = dataset  # both kinds have the attributes that are used here
        self.index: GroupIndex | None = dataset.index if isinstance(dataset, StoredGroup) else None
        # The variable that depends on most keeps the documented order; a dataset's own does not.
        widest: list[Any] = sorted(self.dataset.data_vars.values(), key=lambda v: -v.ndim)
        self.dims = tuple(dict.fromkeys(str(d) for v in widest for d in v.dims))
        self.sizes = {d: int(self.dataset.sizes[d]) for d in self.dims}
        self.shape = tuple(self.sizes[d] for d in self.dims)
        self.points = int(np.prod(self.shape, dtype=object))

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        """All arrays by name: coordinates and results."""
        return {str(name): array for name, array in self.dataset.variables.items()}

    @cached_property
    def stacked(self) -> dict[str, StackedAxis]:
        """The parameters of a list of configurations, in order; empty where all are dimensions."""
        if STACKED not in self.dims or STACKED not in self._arrays:
            return {}
        found = {}
        for name in np.atleast_1d(self._arrays[STACKED].attrs.get("stacks", [])).tolist():
            column = _plain(_whole(self._arrays[name]))
            known = self._arrays[name].attrs.get("axis_values", np.unique(column))
            values = _plain(np.atleast_1d(known))
            order = np.argsort(values, kind="stable")
            found[name] = StackedAxis(values, order[np.searchsorted(values, column, sorter=order)])
        return found

    @property
    def absent(self) -> str:
        """Why combinations of parameters are not in the list: the status that a grid gives them."""
        return str(self._arrays[STACKED].attrs.get("absent", "constraint"))

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The sizes and parameters that a list of problems gives; empty without one."""
        return tuple(n for n, c in self.coordinates.items() if c.dims == (PROBLEM,) != (n,))

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
        known = sorted(set(map(str, self.dataset.coords)) - {*TEXTS})
        # A store lists the others in the order of their names; so does everything else.
        names = list(dict.fromkeys((*self.axes, *self.dims, *known)))
        found = {}
        for name in [n for n in names if n not in CLOCKS] + [n for n in CLOCKS if n in names]:
            if name not in known:
                found[name] = Coordinate((name,), np.arange(self.sizes[name]), "1")
                continue
            array = self._arrays[name]
            if set(array.dims) <= set(self.dims):
                dims = tuple(d for d in self.dims if d in array.dims)
                values = _whole(array).transpose([array.dims.index(d) for d in dims])
                found[name] = Coordinate(dims, _plain(values), str(array.attrs.get("units", "1")))
        return found

    @cached_property
    def variables(self) -> dict[str, Any]:
        """Every result by its full name."""
        texts = [name for name in TEXTS if name in self.dataset.coords]
        return {name: self._arrays[name] for name in (*map(str, self.dataset.data_vars), *texts)}

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
        known = self._arrays.get(name)
        spelled = name.replace("_", " ")
        return spelled if known is None else str(known.attrs.get("long_name", spelled))

    def meanings(self, name: str) -> Array:
        """Return the meaning of each of the 256 codes of a variable."""
        attributes: Mapping[str, Any] = self.variables[name].attrs
        common = COMMON_FIELDS.get(name)
        if "flag_meanings" not in attributes and common is not None and common.flags is not None:
            attributes = common.flags.attributes()
        table = np.array([f"unknown ({code})" for code in range(256)], dtype=object)
        table[UNWRITTEN_CODE] = "not computed"
        words = str(attributes.get("flag_meanings", "")).split()
        codes = np.atleast_1d(attributes.get("flag_values", []))
        for code, word in zip(codes, words, strict=False):
            table[int(code)] = word
        return table

    def model_of(self, name: str) -> str | None:
        """Return the only model that gives a variable, None if all do."""
        variable = self.variables[name]
        model = variable.attrs.get("model")
        return None if model is None or "model" in variable.dims else str(model)

    # ------------------------------------------------------------------------ reading

    def read(self, names: Sequence[str], index: Index) -> dict[str, Array]:
        """Return variables at a block, each with as many axes as the grid (size 1 where absent)."""
        found = self._loaded(names, index)
        return {n: self._aligned(self.variables[n].dims, values) for n, values in found.items()}

    def read_flat(
        self, names: Sequence[str], index: Index, dims: Sequence[str] | None = None
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

    def gather(self, names: Sequence[str], points: Mapping[str, Array]) -> dict[str, Array]:
        """Return variables and coordinates at single points, given by their index per dimension."""
        size = len(next(iter(points.values()))) if points else 1
        found = self._loaded([name for name in names if name in self.variables], points, "points")
        for name in names:
            if name not in found:
                coordinate = self.coordinates[name]
                at = tuple(points[d] if self.sizes[d] > 1 else 0 for d in coordinate.dims)
                found[name] = coordinate.values[at]
        return {name: np.broadcast_to(found[name], (size,)) for name in names}

    def at_block(self, dims: Sequence[str], values: Array, index: Index) -> Array:
        """Return an array over some dimensions at a block, with as many axes as the grid."""
        for axis, dim in enumerate(dims):
            values = values[(slice(None),) * axis + (index[dim],)]
        return self._aligned(dims, values)

    def _aligned(self, dims: Sequence[Any], values: Array) -> Array:
        """Return values over some dimensions in the grid's order, with size 1 for the others."""
        ordered = values.transpose([dims.index(d) for d in self.dims if d in dims])
        lengths = iter(ordered.shape)
        return ordered.reshape([next(lengths) if d in dims else 1 for d in self.dims])

    def _loaded(self, names: Sequence[str], index: Index, kind: str = "block") -> dict[str, Array]:
        """Return variables at a block or at points; those in Dask are computed together."""
        arrays = {name: self.variables[name] for name in names}
        if isinstance(self.dataset, StoredGroup):
            read = "read" if kind == "block" else "read_points"
            return {name: getattr(array, read)(index) for name, array in arrays.items()}
        import xarray as xr

        at = index if kind == "block" else {d: xr.Variable("point", i) for d, i in index.items()}
        found = {n: array.isel({d: at[d] for d in array.dims}).data for n, array in arrays.items()}
        lazy = {name: data for name, data in found.items() if hasattr(data, "dask")}
        if lazy:
            from dask.base import compute, get_scheduler

            # Blocks are read in threads already; a scheduler that the user chose has precedence.
            scheduler = None if get_scheduler() is not None else "synchronous"
            found.update(zip(lazy, compute(*lazy.values(), scheduler=scheduler), strict=True))
        for name, data in found.items():
            if self.kind(name) == "code" and data.dtype.kind == "f":  # datasets joined, with gaps
                found[name] = np.where(np.isnan(data), UNWRITTEN_CODE, data).astype(np.uint8)
        return {name: _read_only(np.asarray(data)) for name, data in found.items()}

    def boundaries(self, names: Iterable[str]) -> dict[str, Array]:
        """Return per dimension where chunks begin and the last ends; anywhere without chunks."""
        cuts = {d: np.arange(n + 1) for d, n in self.sizes.items()}
        # The largest variable decides.
        for array in sorted((self.variables[name] for name in names), key=lambda v: v.ndim):
            cuts |= _chunks(array)
        return cuts


def _plain(values: Array) -> Array:
    """Return numbers as they are and strings of any kind as a fixed-width array."""
    return values if values.dtype.kind in "biuf" else values.astype(object).astype(str)


def _whole(array: Any) -> Array:
    """Return all values of a stored array or an xarray.Variable."""
    return array.read() if hasattr(array, "read") else np.asarray(array.values)


def _read_only(values: Array) -> Array:
    """Return a view that refuses to be written to: the memory may be another's."""
    values = values.view()
    values.flags.writeable = False
    return values


def _chunks(array: Any) -> dict[str, Array]:
    """Return per dimension the boundaries of an array's chunks; nothing if it has none."""
    if hasattr(array, "chunking"):
        sizes = dict(zip(array.dims, array.chunking.chunks, strict=True))
    elif array.chunks is not None:
        ends = zip(array.dims, array.chunks, strict=True)
        return {str(d): np.cumsum([0, *lengths]) for d, lengths in ends}
    else:
        sizes = array.encoding.get("preferred_chunks") or {}
    return {
        str(d): np.append(np.arange(0, n, sizes[d]), n)
        for d, n in array.sizes.items()
        if d in sizes and n > 0
    }


# ---------------------------------------------------------------------------- sources


def grids_of(data: Any) -> list[Grid]:
    """Return the grids of results, one per kernel.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping of str to Dataset, or path
        Results in memory, lazy, or the path of a store.

    Returns
    -------
    list of Grid
        In the order of the kernels' names.

    Raises
    ------
    QueryError
        There are no results in it.
    """
    if isinstance(data, str | os.PathLike):
        files = files_of(data)
        mark = files.mark("zarr.json")
        # Opening what is not there explains what is wrong, with the name that the user gave.
        is_there = mark is not None or is_url(data)
        grids = grids_of_store(files.root if is_there else Path(data), mark)
        warn_if_unfinished(grids[0].dataset.is_finished, data)
        return grids
    planned = data if isinstance(data, Reducible) else None
    data = data if planned is None else planned.results
    import xarray as xr

    if isinstance(data, xr.Dataset):
        found = {str(data.attrs.get("kernel", "kernel")): data}
    elif isinstance(data, xr.DataTree):
        # A store's root holds no results, but an index of its chunks.
        nodes = [n for n in data.subtree if n.data_vars and not n.children]
        found = {str(n.attrs.get("kernel", n.name or "kernel")): n.to_dataset() for n in nodes}
    elif isinstance(data, Mapping):
        found = {str(name): dataset for name, dataset in data.items()}
    else:
        raise QueryError(f"cannot query a {type(data).__name__}: give a store, DataTree or Dataset")
    return _grids(found, planned)


@lru_cache(maxsize=4)
def grids_of_store(path: Any, mark: Any) -> list[Grid]:
    """Return the grids of a store, opened once; ``mark`` changes with its root record."""
    return _grids(open_groups(path))


def _grids(groups: Mapping[str, Any], planned: Reducible | None = None) -> list[Grid]:
    if not any(group.data_vars for group in groups.values()):
        raise QueryError("there are no results to query")
    # A store lists its groups by name, a tree in memory does not: the order must not depend on it.
    return [Grid(kernel, groups[kernel], planned) for kernel in sorted(groups)]

"""The lazy reader of stores: arrays, and what the index of a finished store knows of their chunks.

Questions, verification, repair and extension use it; importing xarray and zarr takes longer than
most questions. A damaged chunk, or one missing from a finished store, never passes for a result.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

import numpy as np

from sweep.errors import StoreError
from sweep.fields import Array
from sweep.store.codec import Chunking, chunk_key, fill_value
from sweep.store.index import CELLS, CODES, FRONTS, INDEX_ARRAYS, NUMBERS
from sweep.store.layout import ROOT_DOCUMENT, Units
from sweep.store.root import StoreInfo, inspect

Index = slice | Array
T = TypeVar("T")


@dataclass(frozen=True)
class StoredArray:
    """An array of a store, read in parts.

    Parameters
    ----------
    info : StoreInfo
        The store.
    key : str
        The array's key.
    """

    info: StoreInfo
    key: str

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes."""
        return dict(self.info.arrays[self.key].attrs)

    @cached_property
    def chunking(self) -> Chunking:
        """How it is cut into chunks."""
        return self.info.arrays[self.key].chunking

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Its dimensions, outermost first."""
        return self.info.arrays[self.key].dims

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type; texts are objects."""
        return self.chunking.numpy_type

    @property
    def sizes(self) -> dict[str, int]:
        """Its length by dimension."""
        return dict(zip(self.dims, self.chunking.shape, strict=True))

    def read(self, index: Mapping[str, Index] | None = None) -> Array:
        """Return the array, or the product of indices along its dimensions, chunk by chunk.

        Parameters
        ----------
        index : mapping, optional
            By dimension a slice, or ascending indices; everything by default.

        Raises
        ------
        StoreError
            A chunk is damaged, or missing from a finished store.
        """
        index = index or {}
        cuts, shape = [], []
        cut = self.chunking
        for dim, size, extent in zip(self.dims, cut.shape, cut.chunks, strict=True):
            chosen = index.get(dim, slice(None))
            at = np.arange(size)[chosen] if isinstance(chosen, slice) else np.asarray(chosen)
            chunks, first = np.unique(at // extent, return_index=True)
            ends = np.append(first, len(at))[1:]
            parts = zip(chunks.tolist(), first.tolist(), ends.tolist(), strict=True)
            cuts.append([(c, slice(a, b), _range(at[a:b] - c * extent)) for c, a, b in parts])
            shape.append(len(at))
        whole = None
        for parts_of_chunk in product(*cuts):
            part = self._chunk(tuple(c for c, _, _ in parts_of_chunk))
            for axis, (_, _, inside) in enumerate(parts_of_chunk):
                part = part[(slice(None),) * axis + (inside,)]
            if part.shape == tuple(shape):
                return part  # all of it in one chunk: no copy
            if whole is None:
                whole = np.empty(shape, part.dtype)
            whole[tuple(target for _, target, _ in parts_of_chunk)] = part
        return np.empty(shape, self.dtype) if whole is None else whole

    def read_points(self, points: Mapping[str, Array]) -> Array:
        """Return single values, each one's index along every dimension being known.

        Parameters
        ----------
        points : mapping
            By dimension an index for each point.

        Raises
        ------
        StoreError
            As :meth:`read`.
        """
        indices = [np.asarray(points[name]) for name in self.dims]
        if not indices:
            return self._chunk(()).reshape(1)
        extents, counts = self.chunking.chunks, self.chunking.counts
        chunks, inside = zip(*map(np.divmod, indices, extents), strict=True)
        numbers = np.ravel_multi_index(chunks, counts)
        flat = np.ravel_multi_index(inside, extents)
        values = np.empty(len(numbers), self.dtype)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            place = tuple(int(c) for c in np.unravel_index(number, counts))
            values[mine] = self._chunk(place).ravel()[flat[mine]]
        return values

    def _chunk(self, place: Sequence[int]) -> Array:
        """Return a chunk; nothing but fill if it is not computed yet."""
        found = self._taken(chunk_key(place), self.chunking.decode)
        if found is not None:
            return found
        return np.full(self.chunking.chunks, fill_value(self.chunking.dtype), self.dtype)

    def checked_bytes(self, name: str) -> bytes | None:
        """Return the bytes of the chunk of this file name, checked; ``None`` if not computed yet.

        Raises
        ------
        StoreError
            As :meth:`read`.
        """

        def checked(data: bytes) -> bytes:
            self.chunking.check(data)
            return data

        return self._taken(name, checked)

    def _taken(self, name: str, take: Callable[[bytes], T]) -> T | None:
        """Return what ``take`` makes of a chunk's bytes; ``None`` if it is not computed yet."""
        try:
            data = self.info.read(f"{self.key}/{name}")
        except FileNotFoundError as error:
            if not self.info.files.exists(ROOT_DOCUMENT):
                raise StoreError(
                    f"'{self.info.path}' is gone: deleted or moved while it was read"
                ) from error
            # Labels are written when the store is created.
            if self.info.is_finished or self.key in self.info.labels:
                raise self._error(name, "it is missing") from error
            return None
        except OSError as error:
            raise self._error(name, f"it cannot be read: {error.strerror or error}") from error
        try:
            return take(data)
        except ValueError as error:
            raise self._error(name, str(error)) from error

    def _error(self, name: str, problem: str) -> StoreError:
        path = f"{self.info.path}/{self.key}/{name}"
        return StoreError(f"'{path}': {problem}; `sweep verify --repair` computes it again")


def _range(indices: Array) -> Index:
    """Return indices as a slice where they follow one another: a view instead of a copy."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices


@dataclass(frozen=True)
class GroupIndex:
    """One group's part of the index of a finished store, read on demand.

    Parameters
    ----------
    arrays : mapping
        The arrays of the index by name; see :mod:`sweep.store.index`.
    first : int
        Row of the group's first cell.
    units : Units
        How its chunks cover the grid.
    """

    arrays: Mapping[str, StoredArray]
    first: int
    units: Units

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chunks, models, and devices of a chunk."""
        chunks = int(np.prod(self.units.counts, dtype=np.int64))
        return chunks, self.units.models, self.units.chunks[0]

    @property
    def rows(self) -> slice:
        """The rows of its cells."""
        return slice(self.first, self.first + int(np.prod(self.shape)))

    @cached_property
    def names(self) -> list[str]:
        """The variables that the columns describe."""
        return [str(name) for name in self.arrays["chunk_variable"].read()]

    def number(self, name: str, variable: str) -> Array | None:
        """Return an array of the index for one variable, by chunk, model and device.

        Raises
        ------
        StoreError
            A chunk of the index is missing or damaged, or names places outside the grid.
        """
        if variable not in self.names:
            return None
        column = self.names.index(variable)
        index = {CELLS: self.rows, "store_variable": slice(column, column + 1)}
        found = self.arrays[name].read(index).reshape(self.shape)
        return self._inside(name, found) if name.endswith("_position") else found

    def counts(self, name: str) -> tuple[list[int], Array]:
        """Return the codes of ``status``, ``power_status`` or ``regime``, and their counts.

        Counts have the shape (chunks, models, devices, codes).
        """
        array = self.arrays.get(f"chunk_{name}_count")
        if array is None:
            return [], np.zeros((*self.shape, 0), np.int64)
        codes = list(array.attrs["codes"])
        return codes, array.read({CELLS: self.rows}).reshape(*self.shape, len(codes))

    def fronts(self) -> tuple[Array, Array, Sequence[Array]] | None:
        """Return the Pareto fronts of execution time and energy.

        Returns
        -------
        counts : array of shape (chunks, models, devices)
            Points of each cell, -1 where there are too many.
        starts : array of that shape
            Where the points of each cell begin.
        points : sequence of three arrays
            Times [s], energies [J] and positions.
        """
        if "chunk_front_count" not in self.arrays:
            return None
        count = self.arrays["chunk_front_count"].read()
        ends = np.cumsum(np.maximum(count, 0), dtype=np.int64)
        times, energies, positions = (self.arrays[f"chunk_front_{name}"].read() for name in FRONTS)
        if len({len(times), len(energies), len(positions), *ends[-1:].tolist()}) > 1:
            raise _damaged(self.arrays["chunk_front_count"].info.path, "chunk_front_count")
        mine = slice(int(ends[self.first - 1]) if self.first else 0, int(ends[self.rows.stop - 1]))
        self._inside("chunk_front_position", positions[mine])
        starts = ends - np.maximum(count, 0)
        count, starts = (array[self.rows].reshape(self.shape) for array in (count, starts))
        return count, starts, (times, energies, positions)

    def _inside(self, name: str, positions: Array) -> Array:
        points = self.units.models * math.prod(self.units.shape)
        if positions.size and not -1 <= positions.min() <= positions.max() < points:
            raise _damaged(self.arrays[name].info.path, name)
        return positions


@dataclass(frozen=True)
class StoredGroup:
    """The results of one kernel.

    Parameters
    ----------
    attrs : dict
        The group's attributes.
    coords, data_vars : dict of str to StoredArray
        Its labels, and its results.
    sizes : dict of str to int
        Length of every dimension.
    index : GroupIndex or None
        The index of their chunks.
    is_finished : bool
        Whether the store's run is.
    """

    attrs: dict[str, Any]
    coords: dict[str, StoredArray]
    data_vars: dict[str, StoredArray]
    sizes: dict[str, int]
    index: GroupIndex | None
    is_finished: bool

    @property
    def variables(self) -> dict[str, StoredArray]:
        """All arrays."""
        return {**self.coords, **self.data_vars}


def open_groups(path: str | os.PathLike[str]) -> dict[str, StoredGroup]:
    """Return the groups of a store by name.

    Raises
    ------
    StoreError
        As :func:`sweep.store.root.inspect`; on reading, if a chunk is missing or damaged.
    """
    info = inspect(path)
    own: dict[str, dict[str, StoredArray]] = {name: {} for name in ("", *info.counts)}
    for key in info.arrays:
        group, _, name = key.rpartition("/")
        own[group][name] = StoredArray(info, key)
    found = {}
    for group in info.counts:
        attrs = dict(info.members[group]["attributes"])
        attrs.pop("coordinates", None)
        labels = {n: a for n, a in own[group].items() if a.key in info.labels}
        results = {n: a for n, a in own[group].items() if n not in labels}
        sizes = {k: n for array in own[group].values() for k, n in array.sizes.items()}
        index = _group_index(info, own[""], group, sizes)
        found[group] = StoredGroup(attrs, labels, results, sizes, index, info.is_finished)
    return found


def _group_index(
    info: StoreInfo, arrays: Mapping[str, StoredArray], group: str, sizes: Mapping[str, int]
) -> GroupIndex | None:
    """Return a group's part of a finished store's index; None without an index."""
    mine = {name: arrays[name] for name in INDEX_ARRAYS if name in arrays}
    if not info.is_finished or "chunk_minimum" not in mine:
        return None
    with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
        entry = mine["chunk_minimum"].attrs["groups"].get(group)
        if entry is None:
            return None
        dims, shape, chunks = (tuple(entry[key]) for key in ("dims", "shape", "chunk_shape"))
        found = GroupIndex(mine, entry["first_cell"], Units(dims, shape, chunks, entry["models"]))
        if _covers(found, sizes) and all(map(_is_of_index, mine, mine.values())):
            return found
    raise _damaged(info.path, "chunk_minimum")


def _covers(found: GroupIndex, sizes: Mapping[str, int]) -> bool:
    """Return whether an index is complete and fits the lengths of a group's dimensions."""
    names, units = found.arrays.keys(), found.units
    return (
        [sizes[name] for name in units.dims] == list(units.shape)
        and len(units.dims) == len(units.chunks)
        and all(type(extent) is int and extent > 0 for extent in units.chunks)
        and found.first >= 0
        and 0 < units.models == sizes.get("model", 1)
        and names >= {*NUMBERS}
        and len([name for name in names if "_front_" in name]) in (0, 4)
        and all(found.rows.stop <= a.sizes.get(CELLS, math.inf) for a in found.arrays.values())
    )


def _is_of_index(name: str, array: StoredArray) -> bool:
    """Return whether an array has the form of the index's of this name, and codes that fit."""
    if (array.chunking.dtype, array.dims) != INDEX_ARRAYS[name][:2]:
        return False
    if name not in (f"chunk_{code}_count" for code in CODES):
        return True
    codes = array.attrs["codes"]
    is_right = all(type(code) is int and 0 <= code < 256 for code in codes)
    return is_right and len(codes) == array.chunking.shape[1]


def _damaged(root: os.PathLike[str], name: str) -> StoreError:
    return StoreError(
        f"'{root}': '{name}' of its index is damaged: `sweep verify --repair` repairs it"
    )

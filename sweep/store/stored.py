"""Results of a store read from its own files, without xarray and zarr.

Importing those takes longer than most questions to a store. What stands here has as much of
xarray's interface as a question needs: dimensions, attributes, boxes and single points. A chunk
that is damaged, or missing from a finished store, is an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from sweep.errors import StoreError
from sweep.store.codec import decode, decode_items
from sweep.store.index import GroupIndex, index_of
from sweep.store.layout import Array
from sweep.store.local import LocalFiles
from sweep.store.metadata import ROOT_DOCUMENT, Document, chunk_key
from sweep.store.reading import inspect_document
from sweep.store.sameness import BoundFiles

__all__ = ["StoredArray", "StoredGroup", "open_groups"]

Index = slice | Array


@dataclass(frozen=True)
class StoredArray:
    """An array of a store, or a part of it that is yet to be read.

    Parameters
    ----------
    files : LocalFiles
        The store's directory.
    key : str
        The array's place in it.
    document : mapping
        Its metadata.
    is_finished : bool
        Whether all its chunks have to be there.
    index : mapping, optional
        By dimension a slice, or ascending indices, of what is to be read; everything by default.
    order : tuple of str, optional
        Dimensions in another order.
    """

    files: LocalFiles
    key: str
    document: Document
    is_finished: bool
    index: Mapping[str, Index] = field(default_factory=dict)
    order: tuple[str, ...] | None = None

    chunks = None  # as of an array that is no graph of Dask's

    @property
    def variable(self) -> StoredArray:
        """The array itself."""
        return self

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes."""
        return dict(self.document["attributes"])

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Its type; texts are objects."""
        name = self.document["data_type"]
        return np.dtype(object if name == "string" else name)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.document["dimension_names"])

    @property
    def dims(self) -> tuple[str, ...]:
        """Its dimensions."""
        return self._names if self.order is None else self.order

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self._names)

    @property
    def sizes(self) -> dict[str, int]:
        """Length of the whole array along each dimension."""
        return dict(zip(self._names, self.document["shape"], strict=True))

    @property
    def _extents(self) -> tuple[int, ...]:
        return tuple(self.document["chunk_grid"]["configuration"]["chunk_shape"])

    @property
    def encoding(self) -> dict[str, Any]:
        """``preferred_chunks``: extent of a chunk by dimension."""
        return {"preferred_chunks": dict(zip(self._names, self._extents, strict=True))}

    def isel(self, index: Mapping[str, Index]) -> StoredArray:
        """Return a part of the whole array."""
        return StoredArray(self.files, self.key, self.document, self.is_finished, dict(index))

    def transpose(self, *dims: str) -> StoredArray:
        """Return the same with its dimensions in another order."""
        return StoredArray(self.files, self.key, self.document, self.is_finished, self.index, dims)

    @property
    def values(self) -> Array:
        """What the files hold."""
        places = [
            _indices(self.index.get(name, slice(None)), size) for name, size in self.sizes.items()
        ]
        found = self._box(places)
        if self.dims != self._names:
            found = found.transpose([self._names.index(name) for name in self.dims])
        return found

    def _box(self, places: Sequence[Array]) -> Array:
        """Return the product of indices, chunk by chunk."""
        cuts = []
        for at, extent in zip(places, self._extents, strict=True):
            chunks, first = np.unique(at // extent, return_index=True)
            ends = np.append(first[1:], len(at))
            parts = zip(chunks.tolist(), first.tolist(), ends.tolist(), strict=True)
            cuts.append([(c, slice(a, b), _range(at[a:b] - c * extent)) for c, a, b in parts])
        shape = tuple(len(at) for at in places)
        whole = None
        for parts_of_chunk in product(*cuts):
            chunk = self._chunk(tuple(c for c, _, _ in parts_of_chunk))
            part = chunk
            for axis, (_, _, inside) in enumerate(parts_of_chunk):
                part = part[(slice(None),) * axis + (inside,)]
            if part.shape == shape:
                return part  # all of it in one chunk: no copy
            if whole is None:
                whole = np.empty(shape, part.dtype)
            whole[tuple(target for _, target, _ in parts_of_chunk)] = part
        return np.empty(shape, self.dtype) if whole is None else whole

    def at(self, points: Mapping[str, Array]) -> Array:
        """Return single values, given each one's index along every dimension."""
        indices = [np.asarray(points[name]) for name in self._names]
        if not indices:
            return self._chunk(()).reshape(1)
        chunks = [i // extent for i, extent in zip(indices, self._extents, strict=True)]
        inside = [i % extent for i, extent in zip(indices, self._extents, strict=True)]
        counts = [-(-n // e) for n, e in zip(self.document["shape"], self._extents, strict=True)]
        numbers = np.ravel_multi_index(chunks, counts)
        flat = np.ravel_multi_index(inside, self._extents)
        values = np.empty(len(numbers), self.dtype)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            place = tuple(int(c) for c in np.unravel_index(number, counts))
            data = self._bytes(place)
            if data is None:
                values[mine] = self._fill
            else:
                values[mine] = self._decoded(place, data, flat[mine])
        return values

    def _chunk(self, place: tuple[int, ...]) -> Array:
        data = self._bytes(place)
        if data is None:
            return np.full(self._extents, self._fill, self.dtype)
        return self._decoded(place, data, None)

    @property
    def _fill(self) -> Any:
        fill = self.document["fill_value"]
        return math.nan if fill == "NaN" else fill

    def _bytes(self, place: tuple[int, ...]) -> bytes | None:
        """Return a chunk's bytes; None of one that is not computed yet."""
        key = f"{self.key}/{chunk_key(place)}"
        try:
            return self.files.get(key)
        except OSError as error:
            if not (self.files.root / ROOT_DOCUMENT).exists():
                raise StoreError(
                    f"'{self.files.root}' is gone: deleted or moved while it was read"
                ) from error
            if self.is_finished or not isinstance(error, FileNotFoundError):
                problem = "it is missing"
                if not isinstance(error, FileNotFoundError):
                    problem = f"it cannot be read: {error.strerror}"
                raise self._error(place, problem) from error
            return None

    def _decoded(self, place: tuple[int, ...], data: bytes, items: Array | None) -> Array:
        try:
            if items is None or self.dtype == object:
                whole = decode(data, self.document["data_type"], self._extents)
                return whole if items is None else whole.ravel()[items]
            return decode_items(data, self.document["data_type"], self._extents, items)
        except ValueError as error:
            raise self._error(place, "its checksum does not fit") from error

    def _error(self, place: tuple[int, ...], problem: str) -> StoreError:
        path = self.files.root / self.key / chunk_key(place)
        return StoreError(f"'{path}': {problem}; `sweep verify --repair` computes it again")


@dataclass(frozen=True)
class StoredGroup:
    """The results of one kernel.

    Parameters
    ----------
    attrs : dict
        The group's attributes.
    coords, data_vars : dict of str to StoredArray
        Its arrays.
    index : GroupIndex or None
        What is known of their chunks.
    """

    attrs: dict[str, Any]
    coords: dict[str, StoredArray]
    data_vars: dict[str, StoredArray]
    index: GroupIndex | None

    @property
    def variables(self) -> dict[str, StoredArray]:
        """All arrays."""
        return {**self.coords, **self.data_vars}

    @property
    def sizes(self) -> dict[str, int]:
        """Length of every dimension."""
        return {k: n for array in self.variables.values() for k, n in array.sizes.items()}


def open_groups(path: str | os.PathLike[str]) -> dict[str, StoredGroup]:
    """Return the groups of a store by name.

    Raises
    ------
    StoreError
        As :func:`sweep.store.inspect`; on reading, if a chunk is missing or damaged.
    """
    info, document = inspect_document(path)
    members: dict[str, Document] = document["consolidated_metadata"]["metadata"]
    files = BoundFiles(info.path, binding=info.binding)
    index = index_of(files, members) if info.is_finished else None
    found: dict[str, StoredGroup] = {}
    for name in info.counts:
        attrs = dict(members[name]["attributes"])
        auxiliary = set(str(attrs.pop("coordinates", "")).split())
        coords: dict[str, StoredArray] = {}
        variables: dict[str, StoredArray] = {}
        for key, member in members.items():
            group, _, variable = key.partition("/")
            if group == name and variable:
                array = StoredArray(files, key, member, info.is_finished)
                is_label = member["dimension_names"] == [variable] or variable in auxiliary
                (coords if is_label else variables)[variable] = array
        of_group = None if index is None else index.group(name)
        found[name] = StoredGroup(attrs, coords, variables, of_group)
    return found


def _indices(index: Index, size: int) -> Array:
    return np.arange(size)[index] if isinstance(index, slice) else np.asarray(index)


def _range(indices: Array) -> Index:
    """Return indices as a slice where they follow one another: a view instead of a copy."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices

"""Writing one chunk: check it, pad it, encode it, put it in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.store.codec import encode
from sweep.store.layout import Array, StoreLayout, Variable, fill_value
from sweep.store.local import LocalFiles
from sweep.store.metadata import chunk_key
from sweep.store.sameness import check_same

__all__ = ["ArrayShape", "ChunkWriter"]


@dataclass(frozen=True)
class ArrayShape:
    """What a writer has to know of one array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, variable: Variable) -> ArrayShape:
        """Return the part of a variable's description that travels to workers."""
        return cls(variable.shape, variable.chunks, variable.dtype)

    def chunk_shape(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the part of the chunk that lies inside the array.

        Raises
        ------
        IndexError
            If the array has no such chunk.
        """
        bounds = list(zip(index, self.chunks, self.shape, strict=False))
        inside = all(0 <= i and i * chunk < size for i, chunk, size in bounds)
        if len(index) != len(self.shape) or not inside:
            raise IndexError(f"no chunk {index} in shape {self.shape} with chunks {self.chunks}")
        return tuple(min(chunk, size - i * chunk) for i, chunk, size in bounds)

    def padded(self, index: tuple[int, ...], values: Array) -> Array:
        """Return ``values`` grown to a whole chunk, as zarr stores the chunks at the edges.

        Raises
        ------
        ValueError
            If ``values`` has not exactly the shape and type of that chunk.
        """
        expected = self.chunk_shape(index)
        if values.shape != expected or values.dtype != np.dtype(self.dtype):
            raise ValueError(
                f"chunk {index} is {self.dtype} of shape {expected}, "
                f"not {values.dtype} of shape {values.shape}"
            )
        if expected == self.chunks:
            return values
        whole = np.full(self.chunks, fill_value(self.dtype), self.dtype)
        whole[tuple(slice(size) for size in expected)] = values
        return whole


@dataclass(frozen=True)
class ChunkWriter:
    """Writes chunks of the variables that have no values at creation.

    Picklable and without state: any number of threads and processes write with copies of one,
    without holding the store's lock, as long as one process coordinates them and holds it. With
    ``only``, keys of chunks, it passes over all others. It stops where another store has taken the
    place of the one with its ``binding``.
    """

    files: LocalFiles
    arrays: Mapping[tuple[str, str], ArrayShape]
    binding: str
    only: frozenset[str] | None = None

    @classmethod
    def of(cls, files: LocalFiles, layout: StoreLayout, binding: str) -> ChunkWriter:
        """Return the writer of a store with this layout and what binds its journal to it."""
        arrays = {
            (group.name, variable.name): ArrayShape.of(variable)
            for group in layout.groups
            for variable in group.variables
            if variable.values is None
        }
        return cls(files, arrays, binding)

    def write(
        self, group: str, variable: str, index: tuple[int, ...], values: np.ndarray[Any, Any]
    ) -> None:
        """Write one whole chunk in the calling thread; chunks of nothing but fill too.

        Parameters
        ----------
        group, variable : str
            The array.
        index : tuple of int
            The chunk's position in the grid of chunks.
        values : array
            Exactly the chunk's part of the array, of the array's type.

        Raises
        ------
        StoreError
            If the file cannot be written (a full disk, ...); the store can be resumed. Or if
            another store is in its place.
        """
        key = f"{group}/{variable}/{chunk_key(index)}"
        if self.only is None or key in self.only:
            whole = self.arrays[group, variable].padded(index, values)
            parts = encode(whole)
            check_same(self.files.root, self.binding)
            self.files.put(key, *parts)

"""The index of a finished store: each chunk's summary, in small arrays at the root.

While a run goes on, summaries stand in the journal. When it completes, they are gathered into
arrays beside ``chunk_index``, one row for each cell: what one model gives on one device in one
chunk. The first row of a group, and how its cells are counted, is the attribute ``groups`` of
``chunk_minimum``. An array with a column for each variable is chunked by column, so that a question
reads only those of its own variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweep.errors import StoreError
from sweep.store.codec import decode
from sweep.store.layout import Array, Units
from sweep.store.local import LocalFiles
from sweep.store.metadata import Document, chunk_key

__all__ = ["CODES", "FRONTS", "INDEX_ARRAYS", "NUMBERS", "GroupIndex", "Index", "index_of"]

NUMBERS = {
    "chunk_minimum": "smallest number of the variable",
    "chunk_maximum": "largest number of the variable",
    "chunk_second_minimum": "second smallest number of the variable, the smallest if it is twice",
    "chunk_second_maximum": "second largest number of the variable, the largest if it is twice",
    "chunk_minimum_position": "where the smallest number first is",
    "chunk_maximum_position": "where the largest number first is",
    "chunk_value_count": "how many configurations have a number",
}
"""Arrays of one column per variable, in the order of a summary's entries."""

CODES = {
    "status": "how many configurations have this status",
    "power_status": "how many configurations have this power status, of those that have a time",
    "regime": "how many configurations have this regime",
}
FRONTS = ("execution_time", "energy", "position")

INDEX_ARRAYS = (
    "chunk_variable",
    *NUMBERS,
    "chunk_largest_status",
    *(f"chunk_{name}_count" for name in CODES),
    "chunk_front_count",
    *(f"chunk_front_{name}" for name in FRONTS),
)
"""Names at the root that no group can have."""


@dataclass(frozen=True)
class Index:
    """The index of a finished store, read as it is asked.

    Parameters
    ----------
    files : LocalFiles
        The store's directory.
    documents : mapping
        Metadata of the index's arrays by name.
    """

    files: LocalFiles
    documents: Mapping[str, Document]

    def group(self, name: str) -> GroupIndex | None:
        """Return one group's rows, None for a group that the index does not know."""
        found = self.documents["chunk_minimum"]["attributes"]["groups"].get(name)
        if found is None:
            return None
        dims, shape, chunks = (tuple(found[key]) for key in ("dims", "shape", "chunk_shape"))
        return GroupIndex(self, found["first_cell"], Units(dims, shape, chunks, found["models"]))

    @cached_property
    def names(self) -> list[str]:
        """The variables that the columns describe."""
        return [str(name) for name in self.read("chunk_variable", slice(None))]

    def codes(self, name: str) -> list[int]:
        """Return the codes that the columns of ``chunk_NAME_count`` count; none without it."""
        found = self.documents.get(f"chunk_{name}_count")
        return [] if found is None else list(found["attributes"]["codes"])

    def read(self, name: str, rows: slice, column: int | None = None) -> Array:
        """Return rows of an array, or of one of its columns, from the chunks that hold them.

        Raises
        ------
        StoreError
            A chunk is missing or damaged.
        """
        found = self.documents[name]
        shape, dtype = found["shape"], found["data_type"]
        chunk = found["chunk_grid"]["configuration"]["chunk_shape"]
        start, stop, _ = rows.indices(shape[0])
        rest = [0] * (len(shape) - 1) if column is None else [column]
        parts = []
        for i in range(start // chunk[0], -(-stop // chunk[0])):
            key = f"{name}/{chunk_key((i, *rest))}"
            try:
                part = decode(self.files.get(key), dtype, chunk)
            except (OSError, ValueError) as error:
                raise StoreError(
                    f"'{self.files.root}': '{key}' of its index is missing or damaged: "
                    "`sweep verify --repair` mends it"
                ) from error
            inside = slice(max(start - i * chunk[0], 0), min(stop - i * chunk[0], chunk[0]))
            parts.append(part[inside] if column is None else part[inside, 0])
        if not parts:
            empty = [0] if column is not None else [0, *chunk[1:]]
            return np.empty(empty, object if dtype == "string" else dtype)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class GroupIndex:
    """One group's part of the index.

    Parameters
    ----------
    index : Index
        The whole.
    first : int
        Row of its first cell.
    units : Units
        How its chunks cover the grid.
    """

    index: Index
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

    def number(self, name: str, variable: str) -> Array | None:
        """Return an array of the index for one variable, by chunk, model and device."""
        if variable not in self.index.names:
            return None
        column = self.index.names.index(variable)
        return self.index.read(name, self.rows, column).reshape(self.shape)

    def counts(self, name: str) -> tuple[list[int], Array]:
        """Return the codes of ``status``, ``power_status`` or ``regime``, and their counts.

        Counts have the shape (chunks, models, devices, codes).
        """
        codes = self.index.codes(name)
        if not codes:
            return codes, np.zeros((*self.shape, 0), np.int64)
        return codes, self.index.read(f"chunk_{name}_count", self.rows).reshape(*self.shape, -1)

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
        if "chunk_front_count" not in self.index.documents:
            return None
        count = self.index.read("chunk_front_count", slice(None))
        starts = np.cumsum(np.maximum(count, 0)) - np.maximum(count, 0)
        points = [self.index.read(f"chunk_front_{name}", slice(None)) for name in FRONTS]
        mine = (count[self.rows].reshape(self.shape), starts[self.rows].reshape(self.shape))
        return (*mine, points)


def index_of(files: LocalFiles, members: Mapping[str, Document]) -> Index | None:
    """Return the index that a store's metadata describe; None without one."""
    documents = {name: members[name] for name in INDEX_ARRAYS if name in members}
    return Index(files, documents) if "chunk_minimum" in documents else None

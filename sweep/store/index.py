"""The index of a finished store: each chunk's summary, in small arrays at the root.

While a run goes on, summaries stand in the journal. When it completes, they are gathered into
arrays beside ``chunk_index``, one row for each cell: what one model gives on one device in one
chunk. The first row of a group, and how its cells are counted, is the attribute ``groups`` of
``chunk_minimum``. An array with a column for each variable is chunked by column, so that a question
reads only those of its own variables; :class:`sweep.store.reader.GroupIndex` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import StoreError
from sweep.store.codec import Array
from sweep.store.journal import Entry
from sweep.store.layout import StoreLayout, Units, Variable
from sweep.store.metadata import Document, array_document, array_objects

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

CELLS = "store_cell"
"""The dimension of cells."""

INDEX_ARRAYS = {
    "chunk_variable": ("string", ("store_variable",)),
    **{
        name: ("int64" if "_position" in name or "_count" in name else "float64",
               (CELLS, "store_variable")) for name in NUMBERS
    },
    "chunk_largest_status": ("uint8", (CELLS,)),
    **{f"chunk_{name}_count": ("int64", (CELLS, f"store_{name}")) for name in CODES},
    "chunk_front_count": ("int32", (CELLS,)),
    **{
        f"chunk_front_{name}": ("int64" if name == "position" else "float64", ("store_front",))
        for name in FRONTS
    },
}  # fmt: skip
"""Type and dimensions by name. No group can have such a name."""

ROWS = 1 << 16
"""Cells of one chunk of the index."""

POSITION = "in the group's grid, flattened with the model outside and the dimensions in order"
MORE = -1  # points of a front that is too long to be kept

_COMMENT = (
    "groups: the cell of model m on device d in chunk c is first_cell + (c * models + m) * D + "
    "d % D, where D is the first number of chunk_shape, the extent of a chunk along the devices; "
    "chunks are numbered in C order"
)


def index_objects(
    layout: StoreLayout, entries: Iterable[Entry]
) -> tuple[dict[str, Document], Iterator[tuple[str, bytes]]]:
    """Return the index of a store: documents by array, and the files to write.

    Parameters
    ----------
    layout : StoreLayout
        The store.
    entries : iterable of (group, number of the chunk, summary)
        All of its chunks; of a chunk's entries the last counts.

    Returns
    -------
    documents : dict
        Metadata by name of the array; empty where groups or summaries do not say enough.
    files : iterator of (key, content)
        Documents and chunks to put.

    Raises
    ------
    StoreError
        A summary is none of this store's.
    """
    units = {g.name: g.units for g in layout.groups if g.units is not None}
    if not units or len(units) < len(layout.groups) or set(units) & set(INDEX_ARRAYS):
        return {}, iter(())
    table = _Table(layout, units)
    for group, chunk, summary in entries:
        if "cells" not in summary:
            return {}, iter(())
        try:
            table.enter(group, chunk, summary)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreError(
                f"the journal's summary of chunk {chunk} of '{group}' is none of this store: "
                "run again with --overwrite"
            ) from error
    arrays = list(table.arrays())
    documents = {array.name: array_document(array) for array, _ in arrays}
    return documents, (item for one in arrays for item in array_objects(*one).items())


class _Table:
    """Summaries on their way into arrays."""

    def __init__(self, layout: StoreLayout, units: Mapping[str, Units]) -> None:
        self.units = units
        self.first: dict[str, int] = {}
        rows = 0
        for name, count in layout.chunk_counts().items():
            self.first[name] = rows
            rows += count * units[name].models * units[name].chunks[0]
        named = {v.name: v for group in layout.groups for v in group.variables if v.dtype[0] == "f"}
        self.names = list(named)
        self.numbers = [
            np.full((rows, len(named)), fill, type(fill))
            for fill in (np.nan, np.nan, np.nan, np.nan, -1, -1, 0)
        ]
        self.largest = np.zeros(rows, np.uint8)
        self.counts: dict[tuple[str, int], Array] = {}
        self.fronts: dict[int, tuple[Array, ...] | None] = {}

    def enter(self, group: str, chunk: int, summary: Mapping[str, Any]) -> None:
        """Put one chunk's summary into its rows."""
        units = self.units[group]
        models, devices = summary["cells"]
        if models != units.models or not 0 < devices <= units.chunks[0]:
            raise ValueError("other cells")
        # A chunk at the edge has fewer devices: the rest of its rows stays empty.
        first = self.first[group] + chunk * units.models * units.chunks[0]
        at = first + np.arange(models)[:, np.newaxis] * units.chunks[0] + np.arange(devices)
        rows = at.ravel()
        for name, entries in summary["numbers"].items():
            column = self.names.index(name)
            for array, values in zip(self.numbers, entries, strict=True):
                kind = array.dtype.type
                array[rows, column] = [np.nan if v is None else kind(v) for v in values]
        self.largest[rows] = summary["largest_status"]
        for name, counted in summary["codes"].items():
            for code, values in counted.items():
                key = (name, int(code))
                if key not in self.counts:
                    self.counts[key] = np.zeros(len(self.largest), np.int64)
                self.counts[key][rows] = values
        for row, points in zip(rows.tolist(), summary.get("front", ()), strict=False):
            self.fronts[row] = None if points is None else _packed(points)

    def arrays(self) -> Iterator[tuple[Variable, Array]]:
        """Yield every array with its content."""
        texts = np.array(self.names, object)
        words = "variables that the columns of the index describe"
        yield _variable("chunk_variable", ("store_variable",), texts, words)
        for (name, words), values in zip(NUMBERS.items(), self.numbers, strict=True):
            attrs: dict[str, Any] = {}
            if name == "chunk_minimum":
                attrs = {"groups": self._groups(), "comment": _COMMENT}
            if name.endswith("position"):
                attrs = {"comment": POSITION}
            yield _variable(name, (CELLS, "store_variable"), values, f"{words}, in a cell", attrs)
        words = "largest status in a cell: 0 if all configurations are valid"
        yield _variable("chunk_largest_status", (CELLS,), self.largest, words)
        for name, words in CODES.items():
            codes = sorted(code for of, code in self.counts if of == name)
            if codes:
                counts = np.stack([self.counts[name, code] for code in codes], axis=1)
                dims, words = (CELLS, f"store_{name}"), f"{words}, in a cell"
                yield _variable(f"chunk_{name}_count", dims, counts, words, {"codes": codes})
        if self.fronts:
            yield from self._front_arrays(len(self.largest))

    def _front_arrays(self, rows: int) -> Iterator[tuple[Variable, Array]]:
        none = _packed([[] for _ in FRONTS])
        every = [self.fronts.get(row, none) for row in range(rows)]
        count = np.array([MORE if points is None else len(points[0]) for points in every], np.int32)
        words = "points of the Pareto front of execution time and energy, in a cell"
        comment = "-1: more than are kept. The points of all cells follow one another."
        yield _variable("chunk_front_count", (CELLS,), count, words, {"comment": comment})
        for number, name in enumerate(FRONTS):
            parts = [points[number] for points in every if points is not None]
            values = np.concatenate([none[number], *parts])
            attrs = {"comment": POSITION} if name == "position" else {}
            words = f"{name.replace('_', ' ')} of a point of a cell's front"
            yield _variable(f"chunk_front_{name}", ("store_front",), values, words, attrs)

    def _groups(self) -> dict[str, Any]:
        return {
            name: {
                "first_cell": self.first[name],
                "models": units.models,
                "dims": list(units.dims),
                "shape": list(units.shape),
                "chunk_shape": list(units.chunks),
            }
            for name, units in self.units.items()
        }


def _packed(points: Sequence[Sequence[Any]]) -> tuple[Array, ...]:
    """Return a front's columns as arrays: lists of numbers would take three times the memory."""
    kinds = [np.int64 if name == "position" else np.float64 for name in FRONTS]
    return tuple(np.array(column, kind) for column, kind in zip(points, kinds, strict=True))


def _variable(
    name: str,
    dims: tuple[str, ...],
    values: Array,
    words: str,
    attrs: Mapping[str, Any] | None = None,
) -> tuple[Variable, Array]:
    """Return an array of the index and its content; cut for reading by column."""
    columnwise = dims[1:] == ("store_variable",)
    last = (1,) if columnwise else tuple(max(n, 1) for n in values.shape[1:])
    chunks = (min(ROWS, max(values.shape[0], 1)), *last)
    is_text = values.dtype == object
    dtype = "string" if is_text else values.dtype.name
    attrs = {"long_name": words, **(attrs or {})}
    # Texts are written in one chunk, as the values of a coordinate are.
    held = values if is_text else None
    return Variable(name, dims, values.shape, chunks, dtype, attrs, held), values

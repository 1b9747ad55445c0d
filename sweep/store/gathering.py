"""Gathering the summaries of a finished run into the arrays of its index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.store.chunks import ArrayShape
from sweep.store.codec import encode
from sweep.store.index import CODES, FRONTS, INDEX_ARRAYS, NUMBERS
from sweep.store.journal import Entry
from sweep.store.layout import Array, StoreLayout, Units, Variable
from sweep.store.metadata import Document, array_document, chunk_key, document

__all__ = ["index_objects"]

ROWS = 1 << 16
"""Cells of one chunk of the index."""

CELLS = "store_cell"
POSITION = "in the group's grid, flattened with the model outside and the dimensions in order"
MORE = -1  # points of a front that is too long to be kept


def index_objects(
    layout: StoreLayout, entries: Iterable[Entry]
) -> tuple[dict[str, Document], Iterator[tuple[str, tuple[bytes, ...]]]]:
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
    files : iterator of (key, parts)
        Documents and chunks to put.
    """
    units = {g.name: g.units for g in layout.groups if g.units is not None}
    if not units or len(units) < len(layout.groups) or set(units) & set(INDEX_ARRAYS):
        return {}, iter(())
    table = _Table(layout, units)
    for group, chunk, summary in entries:
        if "cells" not in summary:
            return {}, iter(())
        table.enter(group, chunk, summary)
    arrays = list(table.arrays())
    documents = {array.name: array_document(array) for array, _ in arrays}

    def files() -> Iterator[tuple[str, tuple[bytes, ...]]]:
        for array, values in arrays:
            yield f"{array.name}/zarr.json", (document(documents[array.name]),)
            if array.dtype == "string":  # in one chunk
                yield f"{array.name}/{chunk_key((0,))}", encode(values)
                continue
            shape = ArrayShape.of(array)
            for at in np.ndindex(*array.chunk_grid):
                corner = zip(at, array.chunks, strict=True)
                part = values[tuple(slice(i * c, (i + 1) * c) for i, c in corner)]
                yield f"{array.name}/{chunk_key(at)}", encode(shape.padded(at, part))

    return documents, files()


class _Table:
    """Summaries on their way into arrays."""

    def __init__(self, layout: StoreLayout, units: Mapping[str, Units]) -> None:
        self.layout = layout
        self.units = units
        self.first: dict[str, int] = {}
        rows = 0
        for name, count in layout.chunk_counts().items():
            self.first[name] = rows
            rows += count * _cells(units[name])
        named = {v.name: v for group in layout.groups for v in group.variables if v.dtype[0] == "f"}
        self.names = list(named)
        columns = len(self.names)
        self.numbers = [
            np.full((rows, columns), fill, type(fill))
            for fill in (np.nan, np.nan, np.nan, np.nan, -1, -1, 0)
        ]
        self.largest = np.zeros(rows, np.uint8)
        self.counts: dict[tuple[str, int], Array] = {}
        self.fronts: dict[int, tuple[Array, ...] | None] = {}

    def enter(self, group: str, chunk: int, summary: Mapping[str, Any]) -> None:
        """Put one chunk's summary into its rows."""
        units = self.units[group]
        models, devices = summary["cells"]
        # A chunk at the edge has fewer devices: the rest of its rows stays empty.
        first = self.first[group] + chunk * _cells(units)
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
        rows, names = len(self.largest), self.names
        label = {"long_name": "variables that the columns of the index describe"}
        texts = np.array(names, object)
        yield _variable("chunk_variable", ("store_variable",), texts, "string", label), texts
        for (name, words), values in zip(NUMBERS.items(), self.numbers, strict=True):
            attrs: dict[str, Any] = {"long_name": f"{words}, in a cell"}
            if name == "chunk_minimum":
                attrs |= {"groups": self._groups(), "comment": _COMMENT}
            if name.endswith("position"):
                attrs["comment"] = POSITION
            yield (
                _variable(name, (CELLS, "store_variable"), values, values.dtype.name, attrs),
                values,
            )
        attrs = {"long_name": "largest status in a cell: 0 if all configurations are valid"}
        yield (
            _variable("chunk_largest_status", (CELLS,), self.largest, "uint8", attrs),
            self.largest,
        )
        for name, words in CODES.items():
            codes = sorted(code for of, code in self.counts if of == name)
            if codes:
                counts = np.stack([self.counts[name, code] for code in codes], axis=1)
                attrs = {"long_name": f"{words}, in a cell", "codes": codes}
                key = f"chunk_{name}_count"
                yield _variable(key, (CELLS, f"store_{name}"), counts, "int64", attrs), counts
        if self.fronts:
            yield from self._front_arrays(rows)

    def _front_arrays(self, rows: int) -> Iterator[tuple[Variable, Array]]:
        none = _packed([[] for _ in FRONTS])
        every = [self.fronts.get(row, none) for row in range(rows)]
        count = np.array([MORE if points is None else len(points[0]) for points in every], np.int32)
        attrs: dict[str, Any] = {
            "long_name": "points of the Pareto front of execution time and energy, in a cell",
            "comment": "-1: more than are kept. The points of all cells follow one another.",
        }
        yield _variable("chunk_front_count", (CELLS,), count, "int32", attrs), count
        for number, name in enumerate(FRONTS):
            parts = [points[number] for points in every if points is not None]
            values = np.concatenate([none[number], *parts])
            attrs = {"long_name": f"{name.replace('_', ' ')} of a point of a cell's front"}
            if name == "position":
                attrs["comment"] = POSITION
            key = f"chunk_front_{name}"
            yield _variable(key, ("store_front",), values, values.dtype.name, attrs), values

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


_COMMENT = (
    "groups: the cell of model m on device d in chunk c is first_cell + (c * models + m) * D + "
    "d % D, where D is the first number of chunk_shape, the extent of a chunk along the devices; "
    "chunks are numbered in C order"
)


def _packed(points: Sequence[Sequence[Any]]) -> tuple[Array, ...]:
    """Return a front's columns as arrays: lists of numbers would take three times the memory."""
    kinds = [np.int64 if name == "position" else np.float64 for name in FRONTS]
    return tuple(np.array(column, kind) for column, kind in zip(points, kinds, strict=True))


def _cells(units: Units) -> int:
    """Return the number of cells of a chunk."""
    return units.models * units.chunks[0]


def _variable(
    name: str, dims: tuple[str, ...], values: Array, dtype: str, attrs: Mapping[str, Any]
) -> Variable:
    """Return an array of the index without its content, cut for reading by column."""
    columnwise = dims[-1] == "store_variable" and len(dims) == 2
    last = (1,) if columnwise else tuple(max(n, 1) for n in values.shape[1:])
    chunks = (min(ROWS, max(values.shape[0], 1)), *last)
    if dtype == "string":
        return Variable(name, dims, values.shape, chunks, dtype, attrs, values)
    return Variable(name, dims, values.shape, chunks, dtype, attrs)

"""The index of a finished store: each chunk's summary, in small arrays at the root.

While a run goes on, summaries are in the journal. When it completes, they are gathered into arrays
beside ``chunk_index``, one row for each cell: what one model gives on one device in one chunk. The
first row of a group, and how its cells are counted, is the attribute ``groups`` of
``chunk_minimum``. An array with a column for each variable is chunked by column, so that a question
reads only those of its own variables; :class:`sweep.store.reader.GroupIndex` does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import StoreError
from sweep.fields import Array
from sweep.store.journal import Entry
from sweep.store.layout import StoreLayout, Units, Variable

CELLS = "store_cell"
"""The dimension of cells."""

_COLUMNS = (CELLS, "store_variable")

_TEXT = Path(__file__).with_name("index.toml").read_text("utf-8")
INDEX_ARRAYS = {
    name: (str(row["dtype"]), tuple(row["dims"]), str(row["long_name"]))
    for name, row in tomllib.loads(_TEXT).items()
}
"""Type, dimensions and long name by name. No group can have such a name."""

NUMBERS = [name for name, (_, dims, _) in INDEX_ARRAYS.items() if dims == _COLUMNS]
"""Arrays of one column per variable, in the order of a summary's entries."""

CODES = ("status", "power_status", "regime")
FRONT = ("execution_time", "energy")
"""Objectives, both minimised, for which the index has Pareto fronts."""
FRONTS = (*FRONT, "position")

ROWS = 1 << 16
"""Cells of one chunk of the index."""

MORE = -1  # points of a front that is too long to be kept

_COMMENT = (
    "groups: the cell of model m on device d in chunk c is first_cell + (c * models + m) * D + "
    "d % D, where D is the first number of chunk_shape, the extent of a chunk along the devices; "
    "chunks are numbered in C order"
)
_POSITION = "in the group's grid, flattened with the model outside and the dimensions in order"
_FRONT = "-1: more than are kept. The points of all cells follow one another."


def index_arrays(layout: StoreLayout, entries: Iterable[Entry]) -> list[Variable]:
    """Return the index of a store as arrays with values.

    Parameters
    ----------
    layout : StoreLayout
        The store.
    entries : iterable of (group, number of the chunk, summary)
        All of its chunks; of a chunk's entries the last counts.

    Returns
    -------
    list of Variable
        Empty where groups or summaries do not say enough.

    Raises
    ------
    StoreError
        A summary does not fit this store.
    """
    units = {g.name: g.units for g in layout.groups if g.units is not None}
    if not units or len(units) < len(layout.groups) or set(units) & set(INDEX_ARRAYS):
        return []
    table = _Table(layout, units)
    for group, chunk, summary in entries:
        if "cells" not in summary:
            return []
        try:
            table.enter(group, chunk, summary)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreError(
                f"the journal's summary of chunk {chunk} of '{group}' is none of this store: "
                "run again with --overwrite"
            ) from error
    return list(table.arrays())


class _Table:
    """The rows of the index, which summaries fill."""

    def __init__(self, layout: StoreLayout, units: Mapping[str, Units]) -> None:
        self.units = units
        cells = [n * units[name].models * units[name].chunks[0]
                 for name, n in layout.chunk_counts().items()]  # fmt: skip
        *first, rows = accumulate(cells, initial=0)
        self.first = dict(zip(layout.chunk_counts(), first, strict=True))
        variables = (v for group in layout.groups for v in group.variables)
        self.names = list(dict.fromkeys(v.name for v in variables if v.dtype[0] == "f"))
        self.numbers = {}
        for name in NUMBERS:
            dtype = INDEX_ARRAYS[name][0]
            fill = np.nan if dtype == "float64" else -1 if name.endswith("position") else 0
            self.numbers[name] = np.full((rows, len(self.names)), fill, dtype)
        self.largest = np.zeros(rows, np.uint8)
        self.counts: dict[str, dict[int, Array]] = {name: {} for name in CODES}
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
            for array, values in zip(self.numbers.values(), entries, strict=True):
                kind = array.dtype.type
                array[rows, column] = [np.nan if v is None else kind(v) for v in values]
        self.largest[rows] = summary["largest_status"]
        for name, counted in summary["codes"].items():
            counts = self.counts[name]
            for code, values in ((int(key), values) for key, values in counted.items()):
                if code not in counts:
                    counts[code] = np.zeros(len(self.largest), np.int64)
                counts[code][rows] = values
        for row, points in zip(rows.tolist(), summary.get("front", ()), strict=False):
            self.fronts[row] = None if points is None else _packed(points)

    def arrays(self) -> Iterator[Variable]:
        """Yield every array with its content."""
        yield _array("chunk_variable", np.array(self.names, object))
        for name, values in self.numbers.items():
            yield _array(name, values, self._groups() if name == "chunk_minimum" else None)
        yield _array("chunk_largest_status", self.largest)
        for name, counts in self.counts.items():
            if codes := sorted(counts):
                columns = np.stack([counts[code] for code in codes], axis=1)
                yield _array(f"chunk_{name}_count", columns, {"codes": codes})
        if self.fronts:
            none = _packed([[] for _ in FRONTS])
            every = [self.fronts.get(row, none) for row in range(len(self.largest))]
            count = [MORE if points is None else len(points[0]) for points in every]
            yield _array("chunk_front_count", np.array(count, np.int32), {"comment": _FRONT})
            for number, name in enumerate(FRONTS):
                parts = [points[number] for points in every if points is not None]
                yield _array(f"chunk_front_{name}", np.concatenate([none[number], *parts]))

    def _groups(self) -> dict[str, Any]:
        groups = {
            name: {
                "first_cell": self.first[name],
                "models": units.models,
                "dims": list(units.dims),
                "shape": list(units.shape),
                "chunk_shape": list(units.chunks),
            }
            for name, units in self.units.items()
        }
        return {"groups": groups, "comment": _COMMENT}


def _packed(points: Sequence[Sequence[Any]]) -> tuple[Array, ...]:
    """Return a front's columns as arrays: lists of numbers would take three times the memory."""
    kinds = [INDEX_ARRAYS[f"chunk_front_{name}"][0] for name in FRONTS]
    return tuple(np.array(column, kind) for column, kind in zip(points, kinds, strict=True))


def _array(name: str, values: Array, attrs: Mapping[str, Any] | None = None) -> Variable:
    """Return an array of the index; cut for reading by column."""
    dtype, dims, words = INDEX_ARRAYS[name]
    if name.endswith("position"):
        attrs = {"comment": _POSITION}
    last = (1,) if dims == _COLUMNS else tuple(max(n, 1) for n in values.shape[1:])
    chunks = (min(ROWS, max(values.shape[0], 1)), *last)
    attrs = {"long_name": words, **(attrs or {})}
    return Variable(name, dims, values.shape, chunks, dtype, attrs, values)

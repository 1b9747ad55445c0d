"""What a store will hold, stated before anything is written.

The caller fills these frozen dataclasses in; nothing here knows kernels, models or plans. A
:class:`Coordinate` and a :class:`Variable` with ``values`` are written whole when the store is
created; a :class:`Variable` without them is written chunk by chunk during the run.

Numbers that nobody wrote must not pass for results. Unwritten floats read as NaN and unwritten
integers as the extreme of their type (:data:`UNWRITTEN_CODE` for the byte codes), which no flag
uses. Booleans and strings have no spare value: they can only be written at creation.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.store.codec import LARGEST_CHUNK, Array, Chunking

CHUNK_INDEX = "chunk_index"
"""The array at the root that says which chunks are finished; its directory holds the journal."""

LOCK_KEY = f"{CHUNK_INDEX}/lock"

UNWRITTEN_CODE = 255
"""What an unwritten byte code reads as."""

NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
STATIC_TYPES = ("bool", "string")
"""Types without a spare value for what is not written yet."""

LONGEST_NAME = 200


def is_name(name: object) -> bool:
    """Whether something can name a group or a dimension: an identifier, not too long."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return False
    return name.isidentifier() and not name.startswith("__")


def is_array_name(name: object) -> bool:
    """Whether something can name an array: dots may stand in it, as in names of counters."""
    return isinstance(name, str) and name[:1] != "." and is_name(name.replace(".", "_"))


@dataclass(frozen=True, eq=False)
class Coordinate:
    """A labelled axis, or numbers that label a combination of axes.

    Parameters
    ----------
    name : str
        Name. A coordinate named like its only dimension labels that dimension.
    dims : tuple of str
        Dimensions of ``values``; empty for a scalar.
    values : array or sequence of str
        Numbers, booleans or strings.
    attrs : mapping
        Attributes written beside it (``units``, ``long_name``, ...).
    """

    name: str
    dims: tuple[str, ...]
    values: npt.ArrayLike
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def as_variable(self) -> Variable:
        """Return the same as a variable written at creation, in one chunk."""
        values = _plain_array(self.values)
        chunks = tuple(max(size, 1) for size in values.shape)
        return Variable(
            self.name, self.dims, values.shape, chunks, _type_name(values), self.attrs, values
        )


@dataclass(frozen=True, eq=False)
class Variable:
    """An array of results.

    Parameters
    ----------
    name : str
        Name of the variable.
    dims : tuple of str
        Its dimensions, outermost first.
    shape, chunks : tuple of int
        Its size and the size of one chunk along each dimension.
    dtype : str
        ``"float32"``, ``"uint8"``, ... or ``"bool"`` and ``"string"`` where ``values`` are given.
    attrs : mapping
        Attributes written beside it.
    values : array or sequence of str, optional
        The whole content, written at creation in one chunk (``chunks`` is then ignored).
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    values: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        """Normalise sizes and values; refuse what cannot be written."""
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", str(self.dtype))
        if self.values is None:
            object.__setattr__(self, "chunks", tuple(int(size) for size in self.chunks))
        else:
            values = _plain_array(self.values)
            if self.dtype in STATIC_TYPES:
                _require(
                    _type_name(values) == self.dtype, f"values of '{self.name}' are no {self.dtype}"
                )
            else:
                values = np.ascontiguousarray(values, self.dtype).reshape(values.shape)
            _require(values.shape == self.shape, f"values of '{self.name}' have another shape")
            object.__setattr__(self, "values", values)
            object.__setattr__(self, "chunks", tuple(max(size, 1) for size in self.shape))
        known = NUMBERS if self.values is None else NUMBERS + STATIC_TYPES
        _require(self.dtype in known, f"'{self.name}' cannot be of type {self.dtype}")
        _require(
            len(self.dims) == len(self.shape) == len(self.chunks),
            f"'{self.name}': dims, shape and chunks differ in length",
        )
        _require(min(self.chunks, default=1) > 0, f"'{self.name}' has a chunk of no points")
        if self.dtype != "string":
            size = math.prod(self.chunks) * np.dtype(self.dtype).itemsize
            _require(size <= LARGEST_CHUNK, f"a chunk of '{self.name}' exceeds 2 GiB")

    @cached_property
    def chunking(self) -> Chunking:
        """How it is cut into chunks."""
        return Chunking(self.shape, self.chunks, self.dtype)

    @property
    def nbytes(self) -> int:
        """Uncompressed size in bytes."""
        if self.dtype == "string":
            return sum(len(str(text).encode()) for text in np.ravel(np.asarray(self.values)))
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Units:
    """How units of work cover a group: boxes of a grid, numbered in C order.

    Parameters
    ----------
    dims : tuple of str
        The grid's dimensions. The first is cut into cells of length 1 in a unit's summary.
    shape, chunks : tuple of int
        Length of the grid and of a unit along each dimension.
    models : int
        Length of the dimension that units span whole and that variables have outside the grid's.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    models: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of units along each dimension."""
        return tuple(-(-n // chunk) for n, chunk in zip(self.shape, self.chunks, strict=True))

    def unit_of(self, dims: Sequence[str], index: Sequence[int]) -> int:
        """Return the number of the unit that writes a chunk of a variable with these dimensions.

        It is the first along the dimensions that the variable does not have.
        """
        at = dict(zip(dims, index, strict=True))
        number = 0
        for name, count in zip(self.dims, self.counts, strict=True):
            number = number * count + at.get(name, 0)
        return number


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """One group of the store: the results of one kernel.

    ``n_chunks`` is the number of units of work that the caller counts for this group. What a unit
    writes is the caller's business; the journal knows it by its number, 0 to ``n_chunks - 1``.
    With ``units``, which say what a unit covers, a finished store has an index of its summaries.
    """

    name: str
    attrs: Mapping[str, Any]
    coordinates: Sequence[Coordinate]
    variables: Sequence[Variable]
    n_chunks: int
    units: Units | None = None

    def __post_init__(self) -> None:
        """Refuse doubled or impossible names and dimensions of two sizes."""
        _check_name(self.name)
        _require(self.name != CHUNK_INDEX, f"'{CHUNK_INDEX}' is the store's own name")
        _require(self.n_chunks >= 0, f"group '{self.name}' has a negative number of chunks")
        sizes: dict[str, int] = {}
        names: set[str] = set()
        for array in self.arrays():
            _require(is_array_name(array.name), f"'{array.name}' cannot name an array of a store")
            _require(array.name not in names, f"'{array.name}' occurs twice in '{self.name}'")
            names.add(array.name)
            for dim in array.dims:
                _check_name(dim)
            for dim, size in zip(array.dims, array.shape, strict=True):
                _require(
                    sizes.setdefault(dim, size) == size,
                    f"dimension '{dim}' of '{array.name}' has two sizes in '{self.name}'",
                )

    def arrays(self) -> list[Variable]:
        """Return coordinates and variables alike, as variables, in their order."""
        return [c.as_variable() for c in self.coordinates] + list(self.variables)

    def auxiliary_coordinates(self) -> list[str]:
        """Return the coordinates that do not label a dimension of their own name."""
        return [c.name for c in self.coordinates if tuple(c.dims) != (c.name,)]


@dataclass(frozen=True, eq=False)
class StoreLayout:
    """A whole store.

    Parameters
    ----------
    groups : sequence of GroupLayout
        One for each kernel.
    record : mapping
        What a result can be run again from: plan, specs, versions. JSON values only. Its entry
        ``identity`` (a mapping of parts, or one string) decides whether a run continues a store.
    attrs : mapping
        Further attributes of the root.
    """

    groups: Sequence[GroupLayout]
    record: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse doubled groups and a record without identity or that JSON cannot hold."""
        names = [group.name for group in self.groups]
        _require(len(set(names)) == len(names), "two groups have one name")
        _require("identity" in self.record, "the record has no 'identity'")
        json.dumps(self.record, allow_nan=False)

    def chunk_counts(self) -> dict[str, int]:
        """Return the number of units of work by group."""
        return {group.name: group.n_chunks for group in self.groups}

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything but the record: arrays, chunks, labels, attributes."""
        digest = hashlib.sha256(_json([dict(self.attrs), self.chunk_counts()]))
        for group in self.groups:
            auxiliary = group.auxiliary_coordinates()
            digest.update(_json([group.name, dict(group.attrs), auxiliary]))
            for array in group.arrays():
                shape = [list(array.dims), list(array.shape), list(array.chunks)]
                digest.update(_json([array.name, array.dtype, shape, dict(array.attrs)]))
                if array.values is not None:
                    digest.update(_content(array))
        return digest.hexdigest()


def _plain_array(values: npt.ArrayLike) -> Array:
    """Return numbers as they are and any kind of string as an object array of ``str``."""
    array = np.asarray(values)
    if array.dtype.kind in "UTO":
        return np.array([str(v) for v in array.ravel()], dtype=object).reshape(array.shape)
    return array


def _type_name(values: Array) -> str:
    return "string" if values.dtype.kind == "O" else values.dtype.newbyteorder("=").name


def _content(array: Variable) -> bytes:
    values = np.asarray(array.values)
    if array.dtype == "string":
        return _json(values.ravel().tolist())
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def _check_name(name: str) -> None:
    _require(is_name(name), f"'{name}' cannot name a group or dimension of a store")


def _require(condition: bool, message: str) -> None:
    # A wrong layout is the calling code's defect, not a user's error.
    if not condition:
        raise ValueError(message)

"""What a store contains: its arrays and groups, and the metadata documents that describe them.

Nothing here knows kernels, models or plans. A :class:`Variable` with ``values`` is written whole
when the store is created, one without them chunk by chunk during the run. Unwritten floats read as
NaN and unwritten integers as the extreme of their type (:data:`UNWRITTEN_CODE` for byte codes), so
that they cannot pass for results. Booleans and strings have no spare value: they can only be
written at creation.

The documents are plain zarr v3 with the metadata consolidated at the root and in every group, so
that the tree and each group alone open without a warning. They are composed here, because a store
that is resumed under another zarr must come out the same to the bit. The tests compare them with
what zarr writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.fields import Array
from sweep.store.codec import (
    COMPRESSION_LEVEL,
    LARGEST_CHUNK,
    SEPARATOR,
    Chunking,
    codec_metadata,
    fill_value,
)

ROOT_DOCUMENT = "zarr.json"

CHUNK_INDEX = "chunk_index"
"""The array at the root that says which chunks are finished; its directory has the journal."""

LOCK_KEY = f"{CHUNK_INDEX}/lock"

UNWRITTEN_CODE = 255
"""What an unwritten byte code reads as."""

NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
STATIC_TYPES = ("bool", "string")
"""Types without a spare value for what is not written yet."""

LONGEST_NAME = 200
LARGEST_ARRAY = 2**46
"""Most elements of an array: more than any disk has room for."""

Document = dict[str, Any]


def is_name(name: object) -> bool:
    """Return whether something can name a group or a dimension: an identifier, not too long."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return False
    return name.isidentifier() and not name.startswith("__")


@dataclass(frozen=True, eq=False)
class Variable:
    """An array of a store.

    Parameters
    ----------
    name : str
        Name of the variable.
    dims : tuple of str
        Its dimensions, outermost first.
    shape, chunks : tuple of int
        Its size and the size of one chunk along each dimension.
    dtype : str
        ``"float32"``, ``"uint8"``, ...; ``"bool"`` or ``"string"`` only with ``values``.
    attrs : mapping
        Attributes written beside it (``units``, ``long_name``, ...).
    values : array, optional
        The whole content, which is written at creation; see :func:`static`.

    Raises
    ------
    ValueError
        No store can have such an array.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    values: Array | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be written; documents of a stored array pass through here too."""
        name, sizes = self.name[:LONGEST_NAME], self.shape + self.chunks
        is_right = name[:1] != "." and is_name(self.name.replace(".", "_"))  # as counters have
        require(is_right, f"'{name}' cannot name an array of a store")
        require(
            len(self.dims) == len(self.shape) == len(self.chunks) <= 64,
            f"{name}: dimensions, shape and chunks differ in length",
        )
        require(all(map(is_name, self.dims)), f"{name}: a dimension has an impossible name")
        require(all(map(_is_size, sizes)), f"{name}: its shape or chunks are no sizes")
        require(min(self.chunks, default=1) > 0, f"{name}: a chunk has no points")
        require(self.dtype in NUMBERS + STATIC_TYPES, f"{name}: cannot be of type {self.dtype}")
        itemsize = 4 if self.dtype == "string" else np.dtype(self.dtype).itemsize
        size = math.prod(self.chunks) * itemsize
        require(size <= LARGEST_CHUNK, f"{name}: a chunk exceeds 2 GiB")
        require(math.prod(self.shape) <= LARGEST_ARRAY, f"{name}: its shape is too big")

    @cached_property
    def chunking(self) -> Chunking:
        """How it is cut into chunks."""
        return Chunking(self.shape, self.chunks, self.dtype)

    def document(self, level: int = COMPRESSION_LEVEL) -> Document:
        """Return its metadata document."""
        # An index of chunks that was never written means "missing", not "unknown".
        fill = 0 if self.name == CHUNK_INDEX else fill_value(self.dtype)
        grid = {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}}
        return {
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": grid,
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": SEPARATOR}},
            "fill_value": "NaN" if fill != fill else fill,
            "codecs": codec_metadata(self.dtype, level),
            "attributes": dict(self.attrs),
            "dimension_names": list(self.dims),
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }

    def files_in(self, group: str = "") -> dict[str, bytes]:
        """Return its document by key, and its chunks if it has values."""
        at = f"{group}/{self.name}" if group else self.name
        found = () if self.values is None else self.chunking.encode_all(self.values)
        chunks = {f"{at}/{name}": b"".join(parts) for name, parts in found}
        return {f"{at}/{ROOT_DOCUMENT}": encoded(self.document()), **chunks}


def static(
    name: str, dims: Sequence[str], values: npt.ArrayLike, attrs: Mapping[str, Any] | None = None
) -> Variable:
    """Return a variable with known values, which are stored in one chunk.

    Parameters
    ----------
    name : str
        Its name.
    dims : sequence of str
        Dimensions of ``values``; empty for a scalar.
    values : array or sequence of str
        Numbers, booleans or strings.
    attrs : mapping, optional
        Attributes written beside it.
    """
    array = np.asarray(values)
    dtype = array.dtype.newbyteorder("=").name
    if array.dtype.kind in "UTO":
        dtype, texts = "string", [str(v) for v in array.ravel()]
        array = np.array(texts, dtype=object).reshape(array.shape)
    chunks = tuple(max(size, 1) for size in array.shape)
    return Variable(name, tuple(dims), array.shape, chunks, dtype, attrs or {}, array)


def array_of(name: str, document: Any) -> Variable:
    """Return the array that a metadata document describes.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        The document is not one that this package would write.
    """
    chunks = document["chunk_grid"]["configuration"]["chunk_shape"]
    dims, shape, attrs = (document[key] for key in ("dimension_names", "shape", "attributes"))
    require(isinstance(attrs, dict), f"{name}: its attributes are no table")
    found = Variable(name, tuple(dims), tuple(shape), tuple(chunks), document["data_type"], attrs)
    codecs = document["codecs"]
    level = codecs[1]["configuration"]["clevel"] if len(codecs) == 3 else COMPRESSION_LEVEL
    require(type(level) is int and 0 <= level <= 9, f"{name}: its codecs are unknown")
    if (expected := found.document(level)) != document:
        wrong = [key for key in {**expected, **document} if expected.get(key) != document.get(key)]
        raise ValueError(f"{name}: its {(wrong or ['form'])[0]} is unknown or wrong")
    return found


@dataclass(frozen=True)
class Units:
    """How units of work cover a group: boxes of a grid, numbered in C order.

    Parameters
    ----------
    dims : tuple of str
        The grid's dimensions. A unit's summary has a cell for each index along the first.
    shape, chunks : tuple of int
        Length of the grid and of a unit along each dimension.
    models : int
        Length of the dimension ``model``, which every unit spans whole.
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

    ``n_chunks`` is the number of units of work; the journal knows a unit by its number, 0 to
    ``n_chunks - 1``. If ``units`` says what they cover, a finished store has an index of summaries.
    """

    name: str
    attrs: Mapping[str, Any]
    coordinates: Sequence[Variable]
    variables: Sequence[Variable]
    n_chunks: int
    units: Units | None = None

    def __post_init__(self) -> None:
        """Refuse impossible or repeated names and dimensions of two sizes."""
        require(is_name(self.name), f"'{self.name}' cannot name a group of a store")
        require(self.name != CHUNK_INDEX, f"'{CHUNK_INDEX}' is the store's own name")
        names = [array.name for array in self.arrays]
        require(len(set(names)) == len(names), f"'{self.name}' has an array twice")
        check_sizes(self.name, self.arrays)
        for array in self.arrays:
            is_written = array.values is None and array.dtype in STATIC_TYPES
            require(not is_written, f"'{array.name}' cannot be of type {array.dtype}")

    @cached_property
    def arrays(self) -> list[Variable]:
        """Coordinates and variables, in their order."""
        return [*self.coordinates, *self.variables]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Its attributes, with the one that makes xarray read auxiliary coordinates as such."""
        more = {"coordinates": " ".join(self.auxiliary)} if self.auxiliary else {}
        return {**self.attrs, **more}

    @property
    def auxiliary(self) -> list[str]:
        """The coordinates that do not label a dimension of their own name."""
        return [c.name for c in self.coordinates if c.dims != (c.name,)]


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
        """Refuse repeated groups and a record without identity or that JSON cannot hold."""
        require(len(self.chunk_counts()) == len(self.groups), "two groups have one name")
        require("identity" in self.record, "the record has no 'identity'")
        json.dumps(self.record, allow_nan=False)

    def chunk_counts(self) -> dict[str, int]:
        """Return the number of units of work by group."""
        return {group.name: group.n_chunks for group in self.groups}

    def units(self) -> list[tuple[str, int]]:
        """Return all units of work, as group and number."""
        return [(group.name, number) for group in self.groups for number in range(group.n_chunks)]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything but the record: arrays, chunks, labels, attributes."""
        digest = hashlib.sha256(_json([dict(self.attrs), self.chunk_counts()]))
        for group in self.groups:
            digest.update(_json([group.name, dict(group.attrs), group.auxiliary]))
            for array in group.arrays:
                shape = [list(array.dims), list(array.shape), list(array.chunks)]
                digest.update(_json([array.name, array.dtype, shape, dict(array.attrs)]))
                if array.dtype == "string" and array.values is not None:
                    digest.update(_json(array.values.ravel().tolist()))
                elif array.values is not None:
                    little = array.values.dtype.newbyteorder("<")
                    digest.update(array.values.astype(little).tobytes())
        return digest.hexdigest()

    def chunk_index(self, is_finished: bool = False) -> Variable:
        """Return the root array that says which units of work are finished; with values if all are.

        Its dimension is named so that no parameter of a kernel collides with it: in a tree of
        datasets a dimension of the root is binding for all groups.
        """
        counts = self.chunk_counts()
        ends = np.cumsum([*counts.values()], dtype=int).tolist()
        attrs = {
            "long_name": "whether a chunk of the run is finished; all ones in a finished store",
            "flag_values": [0, 1],
            "flag_meanings": "missing finished",
            "groups": {k: [end - n, n] for (k, n), end in zip(counts.items(), ends, strict=True)},
            "comment": "groups: first position and number of chunks of each group. Written when "
            "the run completes; until then journal.jsonl beside it counts.",
        }
        ones = np.ones(sum(counts.values()), np.uint8)
        flags = static(CHUNK_INDEX, ("store_chunk",), ones, attrs)
        return flags if is_finished else replace(flags, values=None)


def check_sizes(group: str, arrays: Sequence[Variable]) -> None:
    """Refuse arrays that give a dimension two sizes; raises ``ValueError``."""
    sizes: dict[str, int] = {}
    for array in arrays:
        for dim, size in zip(array.dims, array.shape, strict=True):
            fits = sizes.setdefault(dim, size) == size
            require(fits, f"{group}/{array.name}: its dimension '{dim}' has two sizes")


def group_document(attributes: Mapping[str, Any], members: Mapping[str, Document]) -> Document:
    """Return the metadata document of a group with its members' consolidated."""
    return {
        "attributes": dict(attributes),
        "zarr_format": 3,
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": dict(sorted(members.items())),
        },
        "node_type": "group",
    }


def encoded(document: Document) -> bytes:
    """Return a metadata document's bytes."""
    return json.dumps(document, allow_nan=False).encode()


def parsed(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is; ``None`` if it is something else."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else None
    return None


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def _is_size(number: object) -> bool:
    return type(number) is int and 0 <= number <= LARGEST_ARRAY


def require(condition: bool, message: str) -> None:
    """Raise ``ValueError`` unless a condition holds."""
    if not condition:
        raise ValueError(message)

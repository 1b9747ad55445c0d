"""A chunk's bytes, both ways: cut, pad, encode; check, decode, or say what is wrong.

Numbers go through ``bytes`` (little endian), ``blosc`` (LZ4 after a byte shuffle) and ``crc32c``;
strings through ``vlen-utf8`` and ``crc32c``: any zarr v3 reader takes them. Every chunk ends in a
checksum, so a flipped bit is an error and never another result.

The bytes depend on the array alone. Blosc's own threads would append blocks in the order in which
they finish; they are off (zarr itself switches them off, process-wide, when it is imported).

A file may come from a stranger: its checksum then proves nothing. Sizes and offsets in Blosc's
header are checked against the file and the declared chunk before anything is decoded.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.fields import Array

if TYPE_CHECKING:
    from numcodecs.blosc import Blosc


SEPARATOR = "."
"""Between a chunk's numbers: all chunks of an array lie in one directory. Nested directories
double the time to create a file, one chunk for each being common in many dimensions."""

COMPRESSION_LEVEL = 1
"""Blosc level. Against level 5, storing results of the shipped models takes a tenth to a third less
time and an eighth more bytes: where the page cache absorbs the writes, encoding is the limit."""

CHECKSUM = 4
"""Bytes of checksum at the end of a chunk."""

LARGEST_CHUNK = 2**31 - 1
"""Blosc's limit for one buffer [B]."""

_HEADER = 16  # bytes of Blosc's header: version, LZ version, flags, item size, three sizes
_SHUFFLE = 1  # Blosc's number for the byte shuffle, and its flag
_STORED = 2  # Blosc's flag of a buffer that is not compressed
_BIT_SHUFFLE = 4
_LZ4 = 1


def chunk_key(index: Sequence[int]) -> str:
    """Return the file name of a chunk within its array's directory."""
    return SEPARATOR.join(["c", *map(str, index)])


@functools.cache
def fill_value(dtype: str) -> Any:
    """Return what an unwritten element of ``dtype`` reads as."""
    if dtype in ("string", "bool"):
        return "" if dtype == "string" else False
    kind = np.dtype(dtype).kind
    if kind == "f":
        return math.nan
    info = np.iinfo(dtype)
    return int(info.max) if kind == "u" else int(info.min)


def codec_metadata(dtype: str, level: int = COMPRESSION_LEVEL) -> list[dict[str, Any]]:
    """Return the ``codecs`` entry of a zarr v3 array of this type."""
    if dtype == "string":
        return [{"name": "vlen-utf8", "configuration": {}}, {"name": "crc32c"}]
    itemsize = np.dtype(dtype).itemsize
    to_bytes: dict[str, Any] = {"name": "bytes"}
    if itemsize > 1:
        to_bytes["configuration"] = {"endian": "little"}
    blosc: dict[str, Any] = {"typesize": itemsize, "cname": "lz4", "clevel": level}
    blosc |= {"shuffle": "shuffle", "blocksize": 0}
    return [to_bytes, {"name": "blosc", "configuration": blosc}, {"name": "crc32c"}]


@dataclass(frozen=True)
class Chunking:
    """How an array is cut into chunks, and the bytes of each.

    Parameters
    ----------
    shape, chunks : tuple of int
        Size of the array and of one chunk along each dimension.
    dtype : str
        ``"float32"``, ``"uint8"``, ..., ``"bool"`` or ``"string"``.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(-(-n // chunk) for n, chunk in zip(self.shape, self.chunks, strict=True))

    @cached_property
    def numpy_type(self) -> np.dtype[Any]:
        """The type in memory; texts are objects."""
        return np.dtype(object if self.dtype == "string" else self.dtype)

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the position of every chunk in the grid of chunks."""
        return product(*map(range, self.counts))

    def extent(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the part of a chunk that is inside the array.

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

    def encode(self, index: tuple[int, ...], values: Array) -> tuple[bytes, bytes]:
        """Return a chunk's bytes and the four bytes of checksum that follow them.

        Runs in the calling thread and releases the interpreter lock while it compresses. Two parts
        are returned because joining them would copy megabytes. Chunks at the edges are padded to
        whole ones, as zarr stores them.

        Raises
        ------
        ValueError
            If ``values`` has not exactly the shape and type of that chunk.
        """
        expected = self.extent(index)
        if values.shape != expected or values.dtype != self.numpy_type:
            raise ValueError(
                f"chunk {index} is {self.dtype} of shape {expected}, "
                f"not {values.dtype} of shape {values.shape}"
            )
        if expected != self.chunks:
            whole = np.full(self.chunks, fill_value(self.dtype), self.numpy_type)
            whole[tuple(slice(size) for size in expected)] = values
            values = whole
        if self.dtype == "string":
            body = _string_codec().encode(np.ascontiguousarray(values).reshape(values.shape))
        else:
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            body = _blosc(values.dtype.itemsize).encode(np.ascontiguousarray(little))
        body = bytes(body)  # no copy: both codecs return bytes
        return body, _checksum(body)

    def encode_all(self, values: Array) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
        """Yield the file name and the bytes of every chunk of a whole array."""
        for index in self.indices() if 0 not in self.shape else ():
            corner = zip(index, self.chunks, strict=True)
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in corner)]
            yield chunk_key(index), self.encode(index, np.asarray(part, values.dtype))

    def check(self, data: bytes) -> bytes:
        """Make sure that bytes are a whole chunk of this array; return them without checksum.

        Raises
        ------
        ValueError
            They are not; the message says what is wrong, such as "its checksum does not fit".
        """
        body, is_text = data[:-CHECKSUM], self.dtype == "string"
        if len(data) <= CHECKSUM:
            raise ValueError("it is truncated")
        if data[-CHECKSUM:] != _checksum(body):
            whole = 0
            if not is_text and len(data) > _HEADER + CHECKSUM:
                whole = int.from_bytes(data[12:16], "little") + CHECKSUM
            if len(data) < whole <= LARGEST_CHUNK:
                raise ValueError(f"it is truncated: {len(data):,} of {whole:,} bytes")
            raise ValueError("its checksum does not fit")
        items = math.prod(self.chunks)
        if is_text:
            count = int.from_bytes(body[:4], "little")
            fits = count == items and len(body) >= 4 + 4 * count
        else:
            fits = _is_blosc(body, items, self.numpy_type.itemsize)
        if not fits:
            raise ValueError("its header does not fit the declared chunk")
        return body

    def decode(self, data: bytes) -> Array:
        """Return the whole chunk that bytes hold.

        Parameters
        ----------
        data : bytes
            What :meth:`encode` returned, joined.

        Raises
        ------
        ValueError
            As :meth:`check`.
        """
        body = self.check(data)
        try:
            if self.dtype == "string":
                whole: Array = _string_codec().decode(body).reshape(self.chunks)
            else:
                kind = self.numpy_type
                whole = np.empty(self.chunks, kind.newbyteorder("<"))
                _blosc(kind.itemsize).decode(body, whole)
                whole = whole.astype(kind, copy=False)
        except RuntimeError as error:
            raise ValueError("it cannot be decompressed") from error
        return whole


def _is_blosc(body: bytes, items: int, itemsize: int) -> bool:
    """Whether the header of a buffer of Blosc fits its length and what it should hold.

    Within a block Blosc itself stays inside the length that the header declares.
    """
    if len(body) < _HEADER:
        return False
    _, _, flags, typesize, size, block, length = struct.unpack_from("<4B3I", body)
    if (typesize, size, length) != (itemsize, items * itemsize, len(body)):
        return False
    if flags & _STORED:
        return length == size + _HEADER
    if flags >> 5 != _LZ4 or flags & _BIT_SHUFFLE or not 0 < block <= size:
        return False
    count = -(-size // block)
    first = _HEADER + 4 * count
    if first >= length:
        return False
    starts = struct.unpack_from(f"<{count}I", body, _HEADER)
    return min(starts) >= first and max(starts) < length


@functools.cache
def _blosc(itemsize: int) -> Blosc:
    # Imported late: reading a store's record needs no codec.
    from numcodecs import blosc

    blosc.use_threads = False
    return blosc.Blosc("lz4", COMPRESSION_LEVEL, _SHUFFLE, 0, typesize=itemsize)


@functools.cache
def _string_codec() -> Any:
    from numcodecs.vlen import VLenUTF8

    return VLenUTF8()


def _checksum(data: bytes) -> bytes:
    import google_crc32c

    return int(google_crc32c.value(data)).to_bytes(CHECKSUM, "little")

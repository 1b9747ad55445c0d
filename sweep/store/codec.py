"""A chunk's bytes: how an array becomes what any zarr v3 reader takes, and the names of the codecs.

Numbers go through ``bytes`` (little endian), ``blosc`` (LZ4 after a byte shuffle) and ``crc32c``;
strings through ``vlen-utf8`` and ``crc32c``. Every chunk ends in a checksum, so a flipped bit is an
error on reading and never another result.

The bytes depend on the array alone. Blosc's own threads would append blocks in the order in which
they finish; they are off (zarr itself switches them off, process-wide, when it is imported).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.store.layout import Array

if TYPE_CHECKING:
    from numcodecs.blosc import Blosc

__all__ = ["codec_metadata", "decode", "decode_items", "encode", "is_sound"]

COMPRESSION_LEVEL = 1
"""Blosc level. Against level 5, storing results of the shipped models takes a tenth to a third less
time and an eighth more bytes: where the page cache absorbs the writes, encoding is the limit."""

CHECKSUM = 4
"""Bytes of checksum at the end of a chunk."""

_SHUFFLE = 1  # Blosc's number for the byte shuffle
_STORED = 2  # Blosc's flag of a buffer that is not compressed


def codec_metadata(dtype: str) -> list[dict[str, Any]]:
    """Return the ``codecs`` entry of a zarr v3 array of this type."""
    if dtype == "string":
        return [{"name": "vlen-utf8", "configuration": {}}, {"name": "crc32c"}]
    itemsize = np.dtype(dtype).itemsize
    to_bytes: dict[str, Any] = {"name": "bytes"}
    if itemsize > 1:
        to_bytes["configuration"] = {"endian": "little"}
    blosc = {
        "typesize": itemsize,
        "cname": "lz4",
        "clevel": COMPRESSION_LEVEL,
        "shuffle": "shuffle",
        "blocksize": 0,
    }
    return [to_bytes, {"name": "blosc", "configuration": blosc}, {"name": "crc32c"}]


def encode(array: Array) -> tuple[bytes, bytes]:
    """Return a whole chunk's bytes and the four bytes of checksum that follow them.

    Runs in the calling thread and releases the interpreter lock while it compresses. Two parts
    are returned because joining them would copy megabytes.
    """
    if array.dtype.kind == "O":
        body = _string_codec().encode(np.ascontiguousarray(array).reshape(array.shape))
    else:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        body = _blosc(array.dtype.itemsize).encode(np.ascontiguousarray(little))
    body = bytes(body)  # no copy: both codecs return bytes
    return body, _checksum(body)


def is_sound(data: bytes) -> bool:
    """Whether a chunk's bytes are those that its checksum was taken of."""
    return len(data) > CHECKSUM and data[-CHECKSUM:] == _checksum(data[:-CHECKSUM])


def decode(data: bytes, dtype: str, shape: Sequence[int]) -> Array:
    """Return the array that a chunk's bytes hold.

    Parameters
    ----------
    data : bytes
        What :func:`encode` returned, joined.
    dtype : str
        Its type, ``"string"`` for texts.
    shape : sequence of int
        The whole chunk's shape.

    Raises
    ------
    ValueError
        The checksum does not fit, or it is no chunk of that size.
    """
    if not is_sound(data):
        raise ValueError("the checksum does not fit")
    body = data[:-CHECKSUM]
    if dtype == "string":
        texts: Array = _string_codec().decode(body)
        return texts.reshape(tuple(shape))
    kind = np.dtype(dtype)
    whole = np.empty(tuple(shape), kind.newbyteorder("<"))
    if len(body) < 8 or int.from_bytes(body[4:8], "little") != whole.nbytes:
        raise ValueError("a chunk of another size")
    _blosc(kind.itemsize).decode(body, whole)
    return whole.astype(kind, copy=False)


def decode_items(data: bytes, dtype: str, shape: Sequence[int], items: Array) -> Array:
    """Return single values of a chunk of numbers, decompressing only the blocks that hold them.

    Parameters
    ----------
    data, dtype, shape
        As in :func:`decode`.
    items : array of int
        Places in the flattened chunk.

    Raises
    ------
    ValueError
        As in :func:`decode`.

    Notes
    -----
    Blosc compresses blocks one by one; its header of 16 bytes is followed by the offset of each
    block. A block behind a header of its own is a buffer that Blosc takes.
    """
    kind = np.dtype(dtype)
    block, whole = (int.from_bytes(data[i : i + 4], "little") for i in (8, 4))
    is_stored = len(data) < 16 or bool(data[2] & _STORED) or not 0 < block < whole
    if is_stored or whole != math.prod(shape) * kind.itemsize or block % kind.itemsize:
        return decode(data, dtype, shape).ravel()[items]
    if not is_sound(data):
        raise ValueError("the checksum does not fit")
    count = -(-whole // block)
    starts = np.frombuffer(data, "<i4", count, 16)
    ends = np.append(np.sort(starts), len(data) - CHECKSUM)
    values = np.empty(len(items), kind)
    of_block, inside = np.divmod(items, block // kind.itemsize)
    for number in np.unique(of_block).tolist():
        # A last block that is shorter is compressed in another way: it is taken with the one
        # before it, so that it is the shorter last one here too.
        is_short = (number + 1) * block > whole
        bodies = []
        for start in starts[number - is_short : number + 1].tolist():
            bodies.append(data[start : int(ends[np.searchsorted(ends, start, side="right")])])
        first = (number - is_short) * block
        part = np.empty((min((number + 1) * block, whole) - first) // kind.itemsize, kind)
        _blosc(kind.itemsize).decode(_buffer(data[:4], part.nbytes, block, bodies), part)
        mine = of_block == number
        values[mine] = part[inside[mine] + is_short * (block // kind.itemsize)]
    return values


def _buffer(start: bytes, size: int, block: int, bodies: Sequence[bytes]) -> bytes:
    """Return compressed blocks as a buffer of Blosc's: header, their offsets, and they."""
    at = 16 + 4 * len(bodies)
    offsets = []
    for body in bodies:
        offsets.append(at)
        at += len(body)
    numbers = (size, block, at, *offsets)
    return b"".join([start, *(n.to_bytes(4, "little") for n in numbers), *bodies])


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

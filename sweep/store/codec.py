"""A chunk's bytes: how an array becomes what any zarr v3 reader takes, and the names of the codecs.

Numbers go through ``bytes`` (little endian), ``blosc`` (LZ4 after a byte shuffle) and ``crc32c``;
strings through ``vlen-utf8`` and ``crc32c``. Every chunk ends in a checksum, so a flipped bit is an
error on reading and never another result.

The bytes depend on the array alone. Blosc's own threads would append blocks in the order in which
they finish; they are off (zarr itself switches them off, process-wide, when it is imported).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.store.layout import Array

if TYPE_CHECKING:
    from numcodecs.blosc import Blosc

__all__ = ["codec_metadata", "decode", "encode", "is_sound"]

COMPRESSION_LEVEL = 1
"""Blosc level. Against level 5, storing results of the shipped models takes a tenth to a third less
time and an eighth more bytes: where the page cache absorbs the writes, encoding is the limit."""

CHECKSUM = 4
"""Bytes of checksum at the end of a chunk."""

_SHUFFLE = 1  # Blosc's number for the byte shuffle


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

"""The objects of a store in a bucket, as zarr reads them; see :mod:`sweep.store.checked`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, cast

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from sweep.store.checked import check, is_chunk
from sweep.store.objects import ObjectPath
from sweep.store.sameness import check_same

__all__ = ["CheckedObjects"]


class CheckedObjects(Store):
    """The objects of a store, for reading.

    Parameters
    ----------
    root : ObjectPath
        The store's address.
    binding : str
        What binds the store's journal to it: no other store is read in its place.
    is_finished : bool
        Whether every chunk has to be there.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, root: ObjectPath, binding: str, *, is_finished: bool = True) -> None:
        super().__init__(read_only=True)
        self.root = root
        self._binding = binding
        self._is_finished = is_finished

    def with_read_only(self, read_only: bool = False) -> CheckedObjects:
        """Return the same, which is for reading only."""
        return self

    def __eq__(self, other: object) -> bool:
        """Whether both read the same store."""
        return isinstance(other, CheckedObjects) and other.root == self.root

    def __str__(self) -> str:
        """Return the URL."""
        return str(self.root)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the bytes of a key; None where nothing is and nothing has to be.

        Raises
        ------
        StoreError
            A chunk is missing or damaged, or the whole store is gone or another one.
        """
        prototype = prototype or default_buffer_prototype()
        found = await asyncio.to_thread(self._read, key)
        whole = None if found is None else prototype.buffer.from_bytes(found)
        root = cast(Path, self.root)
        check(root, key, whole, self._is_finished, is_whole=True)
        return (
            whole if whole is None or byte_range is None else whole[_part(byte_range, len(whole))]
        )

    def _read(self, key: str) -> bytes | None:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            return None
        finally:
            if is_chunk(key):
                check_same(cast(Path, self.root), self._binding)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return parts of several objects."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""
        return await asyncio.to_thread((self.root / key).exists)

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write."""
        raise PermissionError(f"'{self}' is open for reading only")

    async def delete(self, key: str) -> None:
        """Refuse to delete."""
        raise PermissionError(f"'{self}' is open for reading only")

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        for key in await asyncio.to_thread(lambda: list(self.root.below())):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with ``prefix``."""
        async for key in self.list():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield what lies directly below ``prefix``, as in a directory."""
        seen: dict[str, Any] = {}
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        async for key in self.list_prefix(start):
            seen.setdefault(key[len(start) :].partition("/")[0])
        for name in seen:
            yield name


def _part(wanted: ByteRequest, length: int) -> slice:
    if isinstance(wanted, RangeByteRequest):
        return slice(wanted.start, wanted.end)
    if isinstance(wanted, OffsetByteRequest):
        return slice(wanted.offset, length)
    assert isinstance(wanted, SuffixByteRequest)
    return slice(max(length - wanted.suffix, 0), length)

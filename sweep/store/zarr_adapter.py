"""Opening a store for people: xarray over zarr over the checked files of a store.

To zarr a chunk that does not exist is one of nothing but fill: NaN, and codes for "not computed".
Here one that is missing from a finished store, or damaged, is an error of one line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import MemoryStore

from sweep.store.layout import ROOT_DOCUMENT
from sweep.store.local_files import explained
from sweep.store.reader import StoredArray
from sweep.store.root import StoreInfo, inspect

if TYPE_CHECKING:
    import xarray


class CheckedStore(Store):
    """The files or objects of a store, as zarr reads them.

    Parameters
    ----------
    info : StoreInfo
        The store.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, info: StoreInfo) -> None:
        super().__init__(read_only=True)
        self._info = info

    def with_read_only(self, read_only: bool = False) -> CheckedStore:
        """Return the same store, which is for reading only."""
        return self

    def __eq__(self, other: object) -> bool:
        """Return whether both read the same store."""
        return isinstance(other, CheckedStore) and other._info.path == self._info.path

    def __str__(self) -> str:
        """Return the path or URL."""
        return str(self._info.path)

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
        found = await asyncio.to_thread(self._read, key)
        if found is None:
            return None
        buffer = default_buffer_prototype().buffer.from_bytes(found)
        return await MemoryStore({key: buffer}).get(key, prototype, byte_range)

    def _read(self, key: str) -> bytes | None:
        name, _, chunk = key.rpartition("/")
        if name in self._info.arrays and chunk != ROOT_DOCUMENT:
            return StoredArray(self._info, name).checked_bytes(chunk)
        with explained(f"read '{self}'"):
            try:
                return self._info.files.get(key)
            except (FileNotFoundError, NotADirectoryError):
                return None

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return parts of several files."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether something has this key."""
        return await asyncio.to_thread(self._info.files.exists, key)

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write."""
        raise PermissionError(f"'{self}' is open for reading only")

    async def delete(self, key: str) -> None:
        """Refuse to delete."""
        raise PermissionError(f"'{self}' is open for reading only")

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        for key in await asyncio.to_thread(lambda: [*self._info.files.keys()]):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with ``prefix``."""
        async for key in self.list():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield what is directly below ``prefix``, as in a directory."""
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        names = [key[len(start) :].partition("/")[0] async for key in self.list_prefix(start)]
        for name in dict.fromkeys(names):
            yield name


def open_tree(
    path: str | os.PathLike[str], chunks: int | dict[str, int] | str | None
) -> xarray.DataTree:
    """Return a store as a tree of datasets; see :func:`sweep.store.open_store`."""
    import xarray

    with explained(f"open '{path}'"):
        store = CheckedStore(inspect(path))
        return xarray.open_datatree(store, engine="zarr", chunks=chunks)  # type: ignore[arg-type]

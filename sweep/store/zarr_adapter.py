"""Opening a store for people: xarray over zarr over the checked files of a store.

To zarr a chunk that does not exist is one of nothing but fill: NaN, and codes for "not computed".
Here one that is missing from a finished store, or damaged, is an error of one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import MemoryStore

from sweep.store.layout import ROOT_DOCUMENT
from sweep.store.local_files import explained
from sweep.store.reader import StoredArray
from sweep.store.root import StoreInfo

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class CheckedFiles(MutableMapping[str, Buffer]):
    """The files or objects of a store as zarr's buffers by key; for reading only.

    Parameters
    ----------
    info : StoreInfo
        The store.
    """

    info: StoreInfo

    def __getitem__(self, key: str) -> Buffer:
        """Return the bytes of a key.

        Raises
        ------
        KeyError
            Nothing is there and nothing has to be.
        StoreError
            A chunk is missing or damaged, or the whole store is gone or another one.
        """
        name, _, chunk = key.rpartition("/")
        if name in self.info.arrays and chunk != ROOT_DOCUMENT:
            found = StoredArray(self.info, name).checked_bytes(chunk)
        else:
            with explained(f"read '{self.info.path}'"):
                try:
                    found = self.info.files.get(key)
                except (FileNotFoundError, NotADirectoryError):
                    found = None
        if found is None:
            raise KeyError(key)
        return default_buffer_prototype().buffer.from_bytes(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self.info.files.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, key: str, _: object = None) -> NoReturn:
        raise PermissionError(f"'{self.info.path}' is open for reading only")

    __delitem__ = __setitem__


class CheckedStore(MemoryStore):
    """A store of zarr whose chunks are read by several threads at once."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the bytes of a key; None where nothing is and nothing has to be."""
        found = await asyncio.to_thread(self._store_dict.get, key)
        known = {} if found is None else {key: found}
        return await MemoryStore(known).get(key, prototype, byte_range)


def open_tree(info: StoreInfo, chunks: int | dict[str, int] | str | None) -> xarray.DataTree:
    """Return a store as a tree of datasets; see :func:`sweep.store.open_store`."""
    import xarray

    with explained(f"open '{info.path}'"):
        store = CheckedStore(CheckedFiles(info), read_only=True)
        return xarray.open_datatree(store, engine="zarr", chunks=chunks)  # type: ignore[arg-type]

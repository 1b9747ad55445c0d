"""Stores of results: zarr format 3 on disk, written so that any kill leaves them resumable.

:func:`open_or_create` gives a :class:`Store` to write, :func:`open_store` an ``xarray.DataTree``
for people, :func:`open_groups` what this package itself reads and :func:`inspect`
the root record. Plain xarray and zarr open the results as well, without this
package.

Layout on disk::

    STORE/zarr.json                     root record and the metadata of the whole tree
    STORE/KERNEL/zarr.json              a group: attributes and metadata of its arrays
    STORE/KERNEL/VARIABLE/zarr.json     an array
    STORE/KERNEL/VARIABLE/c.0.3.1       one chunk
    STORE/chunk_index/                  an array: which chunks are finished
    STORE/chunk_index/journal.jsonl     the same while the run goes on, and each chunk's summary
    STORE/chunk_index/lock              while a run writes
    STORE/chunk_minimum/ ...            arrays: the summaries of all chunks of a finished store

In a bucket, where nothing can be appended, the journal is a series of numbered objects:
``STORE/chunk_index/journal-BINDING/00000000.jsonl`` and so on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sweep.store.buckets import (
    extension_path,
    files_of,
    free_bytes,
    is_store,
    is_url,
    place_of,
)
from sweep.store.codec import chunk_key
from sweep.store.creation import exchange, recovered
from sweep.store.layout import (
    UNWRITTEN_CODE,
    GroupLayout,
    StoreLayout,
    Units,
    Variable,
    static,
)
from sweep.store.lock import acquire_lock
from sweep.store.reader import GroupIndex, StoredArray, StoredGroup, open_groups
from sweep.store.root import inspect
from sweep.store.verify import Damage, noted, repair_files, repair_root, verify
from sweep.store.writer import ChunkWriter, Store, open_or_create

if TYPE_CHECKING:
    import xarray

__all__ = [
    "ChunkWriter",
    "Damage",
    "GroupIndex",
    "GroupLayout",
    "Store",
    "StoreLayout",
    "StoredArray",
    "StoredGroup",
    "UNWRITTEN_CODE",
    "Units",
    "Variable",
    "acquire_lock",
    "chunk_key",
    "exchange",
    "extension_path",
    "files_of",
    "free_bytes",
    "inspect",
    "is_store",
    "is_url",
    "noted",
    "open_groups",
    "open_or_create",
    "open_store",
    "place_of",
    "recovered",
    "repair_files",
    "repair_root",
    "static",
    "verify",
]


def open_store(
    path: str | os.PathLike[str], chunks: int | dict[str, int] | str | None = None
) -> xarray.DataTree:
    """Open a store lazily as a tree with one dataset for each kernel.

    Parameters
    ----------
    path : path
        The store.
    chunks : optional
        As in :func:`xarray.open_datatree`: ``None`` reads on access without Dask, ``{}`` gives Dask
        arrays with the store's chunks.

    Returns
    -------
    xarray.DataTree
        Unfinished stores open too: what is not written yet reads as NaN, codes as 255.
        :func:`inspect` says which it is.

    Raises
    ------
    StoreError
        As :func:`inspect`; on reading, if a chunk is missing from a finished store or damaged.
    """
    inspect(path)  # a mistake is reported without waiting for imports
    from sweep.store.zarr_adapter import open_tree

    return open_tree(path, chunks)

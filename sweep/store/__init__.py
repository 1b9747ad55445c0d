"""Stores of results: zarr format 3 on disk, written so that any kill leaves them resumable.

:func:`open_or_create` gives a :class:`Store` to write; :func:`open_store` an ``xarray.DataTree`` to
read; :func:`inspect`, :func:`read_record` and :func:`read_summaries` what stands at its root.
The results open with plain xarray or zarr as well, without this package.

Layout on disk::

    STORE/zarr.json                     root record and the metadata of the whole tree
    STORE/KERNEL/zarr.json              a group: attributes and metadata of its arrays
    STORE/KERNEL/VARIABLE/zarr.json     an array
    STORE/KERNEL/VARIABLE/c.0.3.1       one chunk
    STORE/chunk_index/                  an array: which chunks are finished
    STORE/chunk_index/journal.jsonl     the same while the run goes on, and each chunk's summary
    STORE/chunk_index/lock              while a run writes
    STORE/chunk_minimum/ ...            arrays: the summaries of all chunks of a finished store

In a bucket the layout is the same, but for the journal: it is a row of numbered objects,
``STORE/chunk_index/journal-BINDING/00000000.jsonl`` and so on: nothing can be appended there.
"""

from __future__ import annotations

from sweep.store.chunks import ChunkWriter
from sweep.store.creation import exchange, recovered
from sweep.store.index import GroupIndex, Index
from sweep.store.layout import (
    UNWRITTEN_CODE,
    Coordinate,
    GroupLayout,
    StoreLayout,
    Units,
    Variable,
)
from sweep.store.local import extension_path
from sweep.store.mending import mending
from sweep.store.metadata import chunk_key
from sweep.store.objects import (
    ObjectPath,
    free_bytes,
    is_store,
    is_url,
    place_of,
    root_mark,
    stored_bytes,
)
from sweep.store.reading import (
    StoreInfo,
    inspect,
    open_store,
    read_arrays,
    read_index,
    read_record,
    read_summaries,
)
from sweep.store.stored import StoredArray, StoredGroup, open_groups
from sweep.store.verifying import Damage, noted, verify
from sweep.store.writing import Store, acquire_lock, open_or_create

__all__ = [
    "ChunkWriter",
    "Coordinate",
    "Damage",
    "GroupIndex",
    "GroupLayout",
    "Index",
    "ObjectPath",
    "Store",
    "StoreInfo",
    "StoreLayout",
    "StoredArray",
    "StoredGroup",
    "UNWRITTEN_CODE",
    "Units",
    "Variable",
    "acquire_lock",
    "free_bytes",
    "chunk_key",
    "exchange",
    "extension_path",
    "inspect",
    "is_store",
    "is_url",
    "mending",
    "noted",
    "open_groups",
    "open_or_create",
    "open_store",
    "place_of",
    "read_arrays",
    "read_index",
    "read_record",
    "read_summaries",
    "recovered",
    "verify",
    "root_mark",
    "stored_bytes",
]

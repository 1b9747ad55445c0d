"""Stores of results: zarr format 3 on disk, written so that any kill leaves them resumable.

:func:`open_store` gives an ``xarray.DataTree`` for people, :func:`~sweep.store.root.inspect` the
root record. This package writes with :func:`~sweep.store.writer.open_or_create` and reads with
:func:`~sweep.store.reader.open_groups`. Plain xarray and zarr open the results without it.

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

from sweep.errors import warn_if_unfinished
from sweep.store.root import inspect

if TYPE_CHECKING:
    import xarray


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
        Unfinished stores open too, with an :class:`~sweep.errors.UnfinishedWarning`: what is not
        written yet reads as NaN, codes as 255.

    Raises
    ------
    StoreError
        As ``inspect``; on reading, if a chunk is missing from a finished store or damaged.
    """
    info = inspect(path)  # a mistake is reported without waiting for imports
    warn_if_unfinished(info.is_finished, path)
    from sweep.store.zarr_adapter import open_tree

    return open_tree(info, chunks)

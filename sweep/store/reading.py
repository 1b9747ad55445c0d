"""Opening a store, and refusing what is not one.

Whatever reads a store starts from its root record, which appears whole or not at all. Nothing here
needs a codec or the models; :func:`open_store` alone imports xarray, late.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sweep.errors import StoreError
from sweep.store.index import Index, index_of
from sweep.store.journal import Finished, read_journal
from sweep.store.layout import CHUNK_INDEX
from sweep.store.local import explained, extension_path
from sweep.store.metadata import ROOT_DOCUMENT, STORE_VERSION
from sweep.store.objects import files_of, is_url, place_of
from sweep.store.remote import JournalParts

if TYPE_CHECKING:
    import xarray
    import zarr

__all__ = [
    "StoreInfo",
    "binding_of",
    "inspect",
    "open_store",
    "read_arrays",
    "read_index",
    "read_record",
    "read_summaries",
]

_MIGRATIONS: dict[int, str] = {}
"""How to bring a store of an older version up to date, by that version."""


@dataclass(frozen=True)
class StoreInfo:
    """What the root of a store says.

    Parameters
    ----------
    path : Path
        The store's directory, symbolic links resolved.
    version : int
        Version of the store's conventions.
    record : dict
        Plan, specs, versions and ``identity``, as given when it was created.
    run : dict
        ``created`` and ``finished`` (``None`` in an unfinished store), in UTC, and what the run
        added. The only part that differs between two stores of the same results.
    layout_sha256 : str
        Hash of arrays, chunks, labels and attributes.
    counts : mapping
        Number of chunks (units of work) by group.
    """

    path: Path
    version: int
    record: dict[str, Any]
    run: dict[str, Any]
    layout_sha256: str
    counts: Mapping[str, int]

    @property
    def is_finished(self) -> bool:
        """Whether every chunk is written and the run completed."""
        return self.run.get("finished") is not None

    @property
    def journal_path(self) -> Path:
        """The journal's file."""
        if is_url(self.path):
            name = f"{CHUNK_INDEX}/journal-{self.binding[:16]}"
            return cast(Path, JournalParts(f"{self.path}/{name}"))
        return self.path / CHUNK_INDEX / "journal.jsonl"

    @property
    def lock_path(self) -> Path:
        """The lock's file; it exists while a run writes, or was killed."""
        return self.path / CHUNK_INDEX / "lock"

    @property
    def binding(self) -> str:
        """What binds the journal to this store."""
        return binding_of(self.record, self.layout_sha256)


def binding_of(record: Mapping[str, Any], layout_sha256: str) -> str:
    """Return the hash of a record's identity and a layout."""
    text = json.dumps([record["identity"], layout_sha256], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def inspect(path: str | os.PathLike[str]) -> StoreInfo:
    """Read the root of a store.

    Raises
    ------
    StoreError
        If there is nothing, a file, a foreign directory or a foreign zarr group at ``path``, or a
        store of a version that this package does not read.
    """
    return inspect_document(path)[0]


def inspect_document(path: str | os.PathLike[str]) -> tuple[StoreInfo, dict[str, Any]]:
    """Read the root of a store; return the whole document too, which holds all metadata.

    Raises
    ------
    StoreError
        As :func:`inspect`.
    """
    root = place_of(path)
    document = _root_document(path, root)
    attributes = document.get("attributes")
    if not isinstance(attributes, dict) or "sweep_store_version" not in attributes:
        raise StoreError(f"'{path}' is a zarr hierarchy, but no store of sweep: no root record")
    version = attributes["sweep_store_version"]
    _check_version(path, version)
    try:
        members = document["consolidated_metadata"]["metadata"]
        groups = members[CHUNK_INDEX]["attributes"]["groups"]
        counts = {name: count for name, (_, count) in groups.items()}
        record, run = attributes["record"], attributes["run"]
        info = StoreInfo(root, version, record, run, attributes["layout_sha256"], counts)
        return info, document
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"'{path}' is a store whose root record is damaged: {error!r}") from error


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the record of a store: what its results can be run again from.

    Raises
    ------
    StoreError
        As :func:`inspect`.
    """
    return inspect(path).record


def read_summaries(path: str | os.PathLike[str]) -> Finished:
    """Return the summary of every finished chunk by group and number of the chunk.

    Raises
    ------
    StoreError
        As :func:`inspect`, or if the journal is damaged.
    """
    info = inspect(path)
    return read_journal(info.journal_path, info.binding, info.counts)[0]


def read_index(path: str | os.PathLike[str]) -> Index | None:
    """Return the index of a finished store, None of an unfinished one or without one.

    Raises
    ------
    StoreError
        As :func:`inspect`.
    """
    info, document = inspect_document(path)
    if not info.is_finished:
        return None
    return index_of(files_of(info.path), document["consolidated_metadata"]["metadata"])


def read_arrays(
    path: str | os.PathLike[str], group: str
) -> dict[str, tuple[zarr.Array[Any], tuple[str, ...]]]:
    """Return a group's arrays for reading parts of them, each with its dimensions' names.

    Opened once in a process; parts can be read in any thread.

    Raises
    ------
    StoreError
        As :func:`inspect`; on reading, if a chunk is missing or damaged.
    """
    info = inspect(path)
    return _arrays(info.path, info.binding, group)


@functools.lru_cache(maxsize=16)
def _arrays(
    root: Path, binding: str, group: str
) -> dict[str, tuple[zarr.Array[Any], tuple[str, ...]]]:
    import zarr

    from sweep.store.checked import checked

    found = zarr.open_group(checked(root, binding, is_finished=True), mode="r", path=group)
    return {
        name: (array, tuple(map(str, array.metadata.dimension_names or ())))  # type: ignore[union-attr]
        for name, array in found.arrays()
    }


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
        :func:`inspect` tells.

    Raises
    ------
    StoreError
        As :func:`inspect`; on reading, if a chunk is missing from a finished store or damaged.
    """
    info = inspect(path)
    import xarray

    from sweep.store.checked import checked

    store = checked(info.path, info.binding, is_finished=info.is_finished)
    with explained(f"open '{path}'"):
        return xarray.open_datatree(store, engine="zarr", chunks=chunks)  # type: ignore[arg-type]


def _root_document(path: str | os.PathLike[str], root: Path) -> dict[str, Any]:
    try:
        with explained(f"open '{path}'"):
            if is_url(root):
                return _remote_document(path, root)
            if not root.exists():
                raise StoreError(f"no store at '{path}'")
            if not root.is_dir():
                raise StoreError(f"'{path}' is a file, not a store")
            if not (root / ROOT_DOCUMENT).exists():
                raise StoreError(f"'{path}' is a directory, but no store of sweep: no zarr.json")
            content = json.loads((root / ROOT_DOCUMENT).read_bytes())
    except StoreError:
        raise
    except (ValueError, RecursionError) as error:
        raise StoreError(f"'{path}' is no store of sweep: its zarr.json is not JSON") from error
    return content if isinstance(content, dict) else {}


def _remote_document(path: str | os.PathLike[str], root: Path) -> dict[str, Any]:
    try:
        content = json.loads((root / ROOT_DOCUMENT).read_bytes())
    except FileNotFoundError:
        found = (extension_path(root) / ROOT_DOCUMENT).exists()
        advice = "; the `sweep extend` that was interrupted there continues" if found else ""
        raise StoreError(f"no store at '{path}'{advice}") from None
    return content if isinstance(content, dict) else {}


def _check_version(path: str | os.PathLike[str], version: Any) -> None:
    if version == STORE_VERSION:
        return
    if isinstance(version, int) and version > STORE_VERSION:
        advice = f"this sweep reads version {STORE_VERSION}; install a newer sweep"
    else:
        advice = f"this sweep reads version {STORE_VERSION}; " + _MIGRATIONS.get(
            version if isinstance(version, int) else 0,
            "read it with the sweep that wrote it, or write it again with `sweep run`",
        )
    raise StoreError(f"'{path}' is a store of version {version!r}: {advice}")

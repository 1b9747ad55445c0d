"""Opening a store by its root record, and refusing what is not one.

Whatever reads a store starts here: the root record appears whole or not at all, carries checksums,
and is checked once. Nothing here needs a codec or the models.

A store may be overwritten or extended while somebody has it open. Its chunks have the same names
afterwards, so who goes on reading would take numbers of one for numbers of the other; and a worker
that outlived its run would write chunks of the old plan into the new store. :func:`check_same`
refuses both.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from sweep.errors import StoreError
from sweep.store.address import Files, extension_path, files_of, is_url, place_of
from sweep.store.buckets import BucketFiles
from sweep.store.journal import Finished, read_journal
from sweep.store.layout import CHUNK_INDEX
from sweep.store.local_files import explained
from sweep.store.metadata import ROOT_DOCUMENT, STORE_VERSION, Document, check_root

LOOK_S = 1.0
"""How long a look at a store in a bucket holds: each is a request of its own [s]."""

_seen: dict[tuple[str, str], tuple[object, float]] = {}
"""By place and binding, how the store was marked when it was last looked at, and when."""


class DamagedRootError(StoreError):
    """The root document of a store is damaged: ``problem`` says how."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True)
class StoreInfo:
    """What the root of a store says.

    Parameters
    ----------
    path : Path
        The store's directory, symbolic links resolved; or its :class:`ObjectPath`.
    version : int
        Version of the store's conventions.
    record : dict
        Plan, specs, versions and ``identity``, as given when it was created.
    run : dict
        ``created`` and ``finished`` (``None`` in an unfinished store), in UTC, and what the run
        added. The only part that differs between two stores of the same results.
    layout_sha256 : str
        Hash of arrays, chunks, labels and attributes.
    document : dict
        The whole root document.
    """

    path: Path
    version: int
    record: dict[str, Any]
    run: dict[str, Any]
    layout_sha256: str
    document: Document = field(repr=False)

    @property
    def files(self) -> Files:
        """Its files, or its objects."""
        return files_of(self.path)

    @property
    def members(self) -> Mapping[str, Document]:
        """The metadata documents of its groups and arrays by name."""
        found: dict[str, Document] = self.document["consolidated_metadata"]["metadata"]
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of chunks (units of work) by group."""
        groups = self.members[CHUNK_INDEX]["attributes"]["groups"]
        return {name: count for name, (_, count) in groups.items()}

    @property
    def is_finished(self) -> bool:
        """Whether every chunk is written and the run completed."""
        return self.run["finished"] is not None

    @cached_property
    def binding(self) -> str:
        """What binds the journal to this store."""
        return binding_of(self.record, self.layout_sha256)


def binding_of(record: Mapping[str, Any], layout_sha256: str) -> str:
    """Return the hash of a record's identity and a layout."""
    text = json.dumps([record["identity"], layout_sha256], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def inspect(path: str | os.PathLike[str]) -> StoreInfo:
    """Read and check the root of a store.

    Raises
    ------
    StoreError
        If there is nothing, a file, a foreign directory or a foreign zarr group at ``path``, or a
        store of a version that this package does not read, or one whose root is damaged.
    """
    root = place_of(path)
    mark = None if is_url(root) else files_of(root).mark(ROOT_DOCUMENT)
    text = _root_text(path, root)
    try:
        document = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if files_of(root).exists(f"{CHUNK_INDEX}/{ROOT_DOCUMENT}"):
            raise _damaged(path, "it is not JSON") from None
        raise StoreError(f"'{path}' is no store of sweep: its zarr.json is not JSON") from None
    attributes = document.get("attributes") if isinstance(document, dict) else None
    if not isinstance(attributes, dict) or "sweep_store_version" not in attributes:
        if files_of(root).exists(f"{CHUNK_INDEX}/{ROOT_DOCUMENT}"):
            raise _damaged(path, "it has no root record")
        raise StoreError(f"'{path}' is a zarr hierarchy, but no store of sweep: no root record")
    try:
        check_root(document)
    except ValueError as error:
        _check_version(path, attributes["sweep_store_version"])
        raise _damaged(path, str(error)) from None
    _check_version(path, attributes["sweep_store_version"])
    record, run, layout = (attributes[name] for name in ("record", "run", "layout_sha256"))
    info = StoreInfo(root, STORE_VERSION, record, run, layout, document)
    if mark is not None:
        _seen[str(root), info.binding] = (mark, time.monotonic())
    return info


def identity_differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the names of the parts in which two records' identities differ."""
    one, other = stored["identity"], wanted["identity"]
    if not (isinstance(one, dict) and isinstance(other, dict)):
        one, other = dict(stored), dict(wanted)
        one.pop("identity"), other.pop("identity")
    names = list(_different_keys(one, other))
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _different_keys(one: Any, other: Any, prefix: str = "") -> Iterable[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                yield from _different_keys(one.get(key), other.get(key), f"{prefix}{key}.")
    else:
        yield _labelled(prefix.rstrip(".") or "identity", one, other)


def _labelled(name: str, one: Any, other: Any) -> str:
    """Return a part's name, with both values where they are short enough to read."""
    if all(isinstance(v, str | int | float) and len(str(v)) <= 24 for v in (one, other)):
        return f"{name} ({one!r} there, {other!r} here)"
    return name


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
    return read_journal(info.files, info.binding, info.counts)[0]


def check_same(files: Files, binding: str) -> None:
    """Refuse another store in the place of the one that was opened.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        The store.
    binding : str
        What binds the store's journal to it: stores that share it have the same results.

    Raises
    ------
    StoreError
        Another store is there.
    """
    place = (str(files.root), binding)
    known, looked = _seen.get(place, (None, 0.0))
    is_remote = isinstance(files, BucketFiles)
    if known is not None and is_remote and time.monotonic() < looked + LOOK_S:
        return
    mark = files.mark(ROOT_DOCUMENT)
    if mark is None:
        return  # nothing is there: reading or writing will fail
    if mark != known and inspect(files.root).binding != binding:
        raise StoreError(f"'{files.root}' was replaced by another store meanwhile; open it again")
    _seen[place] = (mark, time.monotonic())


@dataclass(frozen=True)
class BoundFiles:
    """The files or objects of one store for reading, and of no other that takes its place."""

    files: Files
    binding: str

    @property
    def root(self) -> os.PathLike[str]:
        """The store's place."""
        return self.files.root

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``; may raise ``OSError``.

        Raises
        ------
        StoreError
            Another store is in its place.
        """
        try:
            return self.files.get(key)
        finally:
            check_same(self.files, self.binding)  # after it, or the other could come in between


def _root_text(path: str | os.PathLike[str], root: Path) -> bytes:
    with explained(f"open '{path}'"):
        try:
            return files_of(root).get(ROOT_DOCUMENT)
        except (FileNotFoundError, NotADirectoryError):
            pass
        if is_url(root):
            found = files_of(extension_path(root)).exists(ROOT_DOCUMENT)
            advice = "; the `sweep extend` that was interrupted there continues" if found else ""
            raise StoreError(f"no store at '{path}'{advice}")
        if not root.exists():
            raise StoreError(f"no store at '{path}'")
        if not root.is_dir():
            raise StoreError(f"'{path}' is a file, not a store")
        raise StoreError(f"'{path}' is a directory, but no store of sweep: no zarr.json")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _damaged(path: str | os.PathLike[str], problem: str) -> DamagedRootError:
    return DamagedRootError(
        f"'{path}' is a store whose zarr.json is damaged: {problem}; `sweep verify --repair` "
        "mends what can be mended",
        problem,
    )


def _check_version(path: str | os.PathLike[str], version: Any) -> None:
    if version == STORE_VERSION:
        return
    advice = "read it with the sweep that wrote it, or write it again with `sweep run`"
    if isinstance(version, int) and version > STORE_VERSION:
        advice = "install a newer sweep"
    raise StoreError(
        f"'{path}' is a store of version {version!r:.80}: this sweep reads version "
        f"{STORE_VERSION}; {advice}"
    )

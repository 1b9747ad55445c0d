"""A store that is being written: create it or continue it, write chunks, complete it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sweep.errors import StoreError
from sweep.fields import Array
from sweep.store.buckets import BucketFiles, Files, files_of
from sweep.store.codec import Chunking, chunk_key
from sweep.store.creation import create, is_vacant, place, static_objects
from sweep.store.index import index_arrays
from sweep.store.journal import Entry, Journal, Unit, journal_entries, open_journal
from sweep.store.layout import LOCK_KEY, ROOT_DOCUMENT, StoreLayout, encoded
from sweep.store.lock import Lock, acquire_lock
from sweep.store.root import StoreInfo, check_same, identity_differences, inspect, root_document


@dataclass(frozen=True)
class ChunkWriter:
    """Writes chunks of the variables that have no values at creation.

    Picklable and without state: any number of threads and processes write with copies of one,
    without holding the store's lock, as long as one process coordinates them and holds it. With
    ``only``, keys of chunks, it passes over all others. It stops where another store has taken the
    place of the one with its ``binding``.
    """

    files: Files
    arrays: Mapping[str, Chunking]
    binding: str
    only: frozenset[str] | None = None

    @classmethod
    def of(cls, info: StoreInfo, only: frozenset[str] | None = None) -> ChunkWriter:
        """Return the writer of a store."""
        arrays = {key: array.chunking for key, array in info.arrays.items()}
        return cls(info.files, arrays, info.binding, only)

    def write(self, group: str, variable: str, index: tuple[int, ...], values: Array) -> None:
        """Write one whole chunk in the calling thread; chunks of nothing but fill too.

        Parameters
        ----------
        group, variable : str
            The array.
        index : tuple of int
            The chunk's position in the grid of chunks.
        values : array
            Exactly the chunk's part of the array, of the array's type.

        Raises
        ------
        StoreError
            If the file cannot be written (a full disk, ...); the store can be resumed. Or if
            another store is in its place.
        """
        array = f"{group}/{variable}"
        key = f"{array}/{chunk_key(index)}"
        if self.only is None or key in self.only:
            parts = self.arrays[array].encode(index, values)
            check_same(self.files, self.binding)
            self.files.put(key, *parts)


class Store:
    """A store opened for writing; made by :func:`open_or_create`.

    Use it as a context manager: leaving it releases the lock, and an unfinished store can be
    continued later. A store that was finished already has no lock and takes no chunks.

    Attributes
    ----------
    path : Path
        The store's directory.
    writer : ChunkWriter
        Writes chunks from any thread or process; picklable.
    finished : collection of (group, number)
        Every finished chunk.
    """

    def __init__(self, layout: StoreLayout, info: StoreInfo, lock: Lock | None) -> None:
        self.path = info.path
        self._layout, self._info, self._lock, self._files = layout, info, lock, info.files
        self.writer = ChunkWriter.of(info)
        self._journal = None if lock is None else open_journal(info, lock.check)
        self.finished: Collection[Unit] = dict.fromkeys(layout.units())
        if self._journal is not None:
            self.finished = self._journal.finished

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    @property
    def is_finished(self) -> bool:
        """Whether the store has all its results."""
        return self._info.is_finished

    def missing(self) -> list[Unit]:
        """Return the chunks still to be computed, in order."""
        return [unit for unit in self._layout.units() if unit not in self.finished]

    def mark_finished(self, entries: Iterable[Entry]) -> None:
        """Add chunks to the journal, all of whose files are written.

        Only the process that opened the store may call this, one thread at a time.

        Parameters
        ----------
        entries : iterable of (group, number of the chunk, summary)
            Summaries have JSON values or NumPy scalars and arrays; no NaN.

        Raises
        ------
        StoreError
            If the journal cannot be written, or the store is closed or finished already.
        """
        self._open_journal().append(entries)

    def complete(self, run: Mapping[str, Any] | None = None) -> None:
        """Declare the store finished.

        Parameters
        ----------
        run : mapping, optional
            Further entries of the root attribute ``run``: durations, hosts, whatever may differ
            between two stores of the same results.

        Raises
        ------
        StoreError
            If chunks are missing, or the root cannot be written.
        """
        if self.is_finished:
            return
        journal = self._open_journal()
        if missing := self.missing():
            raise StoreError(
                f"'{self.path}' lacks {len(missing)} of its chunks, such as {missing[0]}"
            )
        journal.flush()
        info = self._info
        check_same(self._files, info.binding)
        index = index_arrays(self._layout, journal_entries(info))
        for array in (self._layout.chunk_index(True), *index):
            for key, content in array.files_in().items():
                self._files.put(key, content)
        ended = {**info.run, **(run or {}), "finished": _now()}
        attributes = {**info.document["attributes"], "run": ended}
        members = {**info.members, **{array.name: array.document() for array in index}}
        root = root_document(attributes, members)
        self._files.put(ROOT_DOCUMENT, encoded(root))
        self._info, self._journal = replace(info, document=root), None
        journal.close()

    def close(self) -> None:
        """Close the journal and release the lock; closing twice does no harm."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        if self._lock is not None:
            self._lock.release()

    def _open_journal(self) -> Journal:
        if self._journal is None:
            state = "finished" if self.is_finished else "closed"
            raise StoreError(f"'{self.path}' is {state} and takes no more chunks")
        return self._journal


def open_or_create(
    path: str | os.PathLike[str],
    layout: StoreLayout,
    *,
    overwrite: bool = False,
    break_lock: bool = False,
) -> Store:
    """Create a store, or continue the one that an interrupted run of the same plan left.

    Parameters
    ----------
    path : path
        Its place; the parent directory must exist.
    layout : StoreLayout
        What it contains and what it was made from.
    overwrite : bool
        Replace a store at ``path``, whatever it has. Never replaces anything else.
    break_lock : bool
        Take over the lock of a run that cannot be seen from here, without waiting for a sign of
        its life. It must surely be gone.

    Raises
    ------
    StoreError
        If ``path`` has something else, another run's results or a run in progress, or if it
        cannot be written.
    """
    files = files_of(path)
    with place(files.root), contextlib.ExitStack() as failing:
        found = None if is_vacant(files) else inspect(path)
        if found is not None and not overwrite:
            _check_continues(path, layout, found)
            if found.is_finished:
                if files.exists(LOCK_KEY):  # killed between completing and letting go
                    with contextlib.suppress(StoreError):
                        acquire_lock(found.path, path, break_lock).release()
                return Store(layout, found, None)
        lock = None
        if found is not None or isinstance(files, BucketFiles):
            lock = acquire_lock(files.root, path, break_lock)
            failing.callback(lock.release)
        if found is not None or not files.exists(ROOT_DOCUMENT):
            if found is not None and not overwrite:
                files.remove_partial()
            else:
                run = {"created": _now(), "finished": None}
                lock = create(files, static_objects(layout, run), lock)
                failing.callback(lock.release)
            store = Store(layout, inspect(files.root), lock)
            failing.pop_all()
            return store
    # Another run was quicker: continue its store.
    return open_or_create(path, layout, overwrite=overwrite, break_lock=break_lock)


def _check_continues(path: str | os.PathLike[str], layout: StoreLayout, found: StoreInfo) -> None:
    """Refuse to continue the store of another run."""
    record = json.loads(json.dumps(layout.record))
    if isinstance(record["identity"], dict) and "packages" not in found.record["identity"]:
        record["identity"].pop("packages", None)  # older stores do not name them
    if found.record["identity"] != record["identity"]:
        parts = identity_differences(found.record, record)
        raise StoreError(
            f"'{path}' holds the results of another run, which differs in {parts}: "
            "choose another store or give --overwrite"
        )
    if found.layout_sha256 != layout.fingerprint:
        raise StoreError(
            f"'{path}' holds the same plan in other chunks or with other labels: "
            "run it with the version and options that began it, or give --overwrite"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

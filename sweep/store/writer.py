"""A store that is being written: create it or continue it, write chunks, complete it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.store.address import Files, files_of, place_of
from sweep.store.buckets import BucketFiles, ObjectPath
from sweep.store.codec import Array, Chunking, chunk_key
from sweep.store.creation import check_vacant, create, fill, place
from sweep.store.index import index_objects
from sweep.store.journal import (
    BucketJournal,
    Entry,
    Journal,
    journal_entries,
    journal_header,
    journal_key,
)
from sweep.store.layout import LOCK_KEY, StoreLayout
from sweep.store.lease import Lease
from sweep.store.local_files import explained
from sweep.store.lock import StoreLock
from sweep.store.metadata import (
    ROOT_DOCUMENT,
    document,
    finished_flags,
    root_document,
    static_objects,
)
from sweep.store.root import (
    StoreInfo,
    binding_of,
    check_same,
    identity_differences,
    inspect,
    read_summaries,
)

Lock = StoreLock | Lease


@dataclass(frozen=True)
class ChunkWriter:
    """Writes chunks of the variables that have no values at creation.

    Picklable and without state: any number of threads and processes write with copies of one,
    without holding the store's lock, as long as one process coordinates them and holds it. With
    ``only``, keys of chunks, it passes over all others. It stops where another store has taken the
    place of the one with its ``binding``.
    """

    files: Files
    arrays: Mapping[tuple[str, str], Chunking]
    binding: str
    only: frozenset[str] | None = None

    @classmethod
    def of(
        cls, files: Files, layout: StoreLayout, binding: str, only: frozenset[str] | None = None
    ) -> ChunkWriter:
        """Return the writer of a store with this layout and what binds its journal to it."""
        arrays = {
            (group.name, variable.name): variable.chunking
            for group in layout.groups
            for variable in group.variables
            if variable.values is None
        }
        return cls(files, arrays, binding, only)

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
        key = f"{group}/{variable}/{chunk_key(index)}"
        if self.only is None or key in self.only:
            parts = self.arrays[group, variable].encode(index, values)
            check_same(self.files, self.binding)
            self.files.put(key, *parts)


class Store:
    """A store opened for writing; made by :func:`open_or_create`.

    Use it as a context manager: leaving it lets go of the lock, and an unfinished store can be
    continued later. A store that was finished already holds no lock and takes no chunks.

    Attributes
    ----------
    path : Path
        The store's directory.
    writer : ChunkWriter
        Writes chunks from any thread or process; picklable.
    """

    def __init__(
        self, layout: StoreLayout, info: StoreInfo, lock: Lock | None, durable: bool
    ) -> None:
        self.path = info.path
        self._layout = layout
        self._lock = lock
        self._info = info
        self._journal: Journal | None = None
        self._files = files_of(info.path, durable)
        self.writer = ChunkWriter.of(self._files, layout, info.binding)
        if isinstance(lock, Lease) and isinstance(self._files, BucketFiles):
            self._journal = BucketJournal(self._files, info.binding, info.counts, lock.check)
        elif lock is not None:
            self._journal = Journal(self._files, info.binding, info.counts)

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    @property
    def is_finished(self) -> bool:
        """Whether the store holds all its results."""
        return self._info.is_finished

    @property
    def finished(self) -> Collection[tuple[str, int]]:
        """Group and number of every finished chunk; :func:`read_summaries` has what they hold."""
        if self._journal is not None:
            return self._journal.finished.keys()
        return read_summaries(self.path).keys()

    def missing(self) -> list[tuple[str, int]]:
        """Return the chunks still to be computed, in order."""
        if self.is_finished:
            return []
        counts = self._layout.chunk_counts()
        done = self.finished
        every = ((name, i) for name, count in counts.items() for i in range(count))
        return [chunk for chunk in every if chunk not in done]

    def write(self, group: str, variable: str, index: tuple[int, ...], values: Array) -> None:
        """Write one chunk of one variable; see :meth:`ChunkWriter.write`."""
        self.writer.write(group, variable, index, values)

    def mark_finished(self, entries: Iterable[Entry]) -> None:
        """Enter chunks in the journal, all of whose files are written.

        Only the process that opened the store may call this, one thread at a time.

        Parameters
        ----------
        entries : iterable of (group, number of the chunk, summary)
            Summaries hold JSON values or NumPy scalars and arrays; no NaN.

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
        self._open_journal()
        if missing := self.missing():
            raise StoreError(
                f"'{self.path}' lacks {len(missing)} of its chunks, such as {missing[0]}"
            )
        self._open_journal().flush()
        self._info = inspect(self.path)
        for key, content in finished_flags(self._layout).items():
            self._files.put(key, content)
        entries = journal_entries(self._files, self._info.binding)
        documents, files = index_objects(self._layout, entries)
        for key, content in files:
            self._files.put(key, content)
        ended = {**self._info.run, **(run or {}), "finished": _now()}
        attributes = {**self._info.document["attributes"], "run": ended}
        root = root_document(attributes, {**self._info.members, **documents})
        self._files.put(ROOT_DOCUMENT, document(root))
        self._info = inspect(self.path)
        self._close_journal()

    def close(self) -> None:
        """Close the journal and let go of the lock; closing twice does no harm."""
        self._close_journal()
        if self._lock is not None:
            self._lock.release()

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

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
    durable: bool = False,
    break_lock: bool = False,
) -> Store:
    """Create a store, or continue the one that an interrupted run of the same plan left.

    Parameters
    ----------
    path : path
        Its place; the parent directory must exist.
    layout : StoreLayout
        What it holds and what it was made from.
    overwrite : bool
        Replace a store at ``path``, whatever it holds. Never replaces anything else.
    durable : bool
        Bring chunks and journal to the disk before they count, at a cost in speed. Needed only
        against power failures, not against killed processes.
    break_lock : bool
        Take over the lock of a run that cannot be seen from here, without waiting for a sign of
        its life. It must surely be gone.

    Raises
    ------
    StoreError
        If ``path`` holds something else, another run's results or a run in progress, or if it
        cannot be written.
    """
    root = place_of(path)
    if isinstance(root, ObjectPath):
        return _open_or_create_remote(path, root, layout, overwrite, break_lock)
    with place(root):
        if not _is_vacant(root):
            found = inspect(path)
            if not overwrite:
                return _resume(path, layout, found, durable, break_lock)
            replaced = acquire_lock(root, path, break_lock)
        else:
            replaced = None
        try:
            binding = binding_of(layout.record, layout.fingerprint())
            journal = {journal_key(files_of(root), binding): journal_header(binding)}
            objects = {**journal, **static_objects(layout, _new_run())}
            assert not isinstance(replaced, Lease)
            lock = create(root, objects, replaced=replaced, durable=durable)
        except BaseException:
            if replaced is not None:
                replaced.release()
            raise
    return _opened(layout, root, lock, durable)


def _open_or_create_remote(
    path: str | os.PathLike[str],
    root: ObjectPath,
    layout: StoreLayout,
    overwrite: bool,
    break_lock: bool,
) -> Store:
    while True:
        if not (root / ROOT_DOCUMENT).exists():
            check_vacant(root)
        else:
            found = inspect(path)
            if not overwrite:
                return _resume(path, layout, found, False, break_lock)
        lock = acquire_lock(root, path, break_lock)
        try:
            if overwrite or not (root / ROOT_DOCUMENT).exists():
                fill(root, static_objects(layout, _new_run()))
                return _opened(layout, root, lock, False)
        except BaseException:
            lock.release()
            raise
        lock.release()  # another run was quicker: continue its store


def _resume(
    path: str | os.PathLike[str],
    layout: StoreLayout,
    found: StoreInfo,
    durable: bool,
    break_lock: bool,
) -> Store:
    record = json.loads(json.dumps(layout.record))
    if found.record["identity"] != record["identity"]:
        parts = identity_differences(found.record, record)
        raise StoreError(
            f"'{path}' holds the results of another run, which differs in {parts}: "
            "choose another store or give --overwrite"
        )
    if found.layout_sha256 != layout.fingerprint():
        raise StoreError(
            f"'{path}' holds the same plan in other chunks or with other labels: "
            "run it with the version and options that began it, or give --overwrite"
        )
    if found.is_finished:
        if found.files.exists(LOCK_KEY):  # killed between completing and letting go
            with contextlib.suppress(StoreError):
                acquire_lock(found.path, path, break_lock).release()
        return Store(layout, found, None, durable)
    lock = acquire_lock(found.path, path, break_lock)
    try:
        found.files.remove_partial()
    except BaseException:
        lock.release()
        raise
    return _opened(layout, found.path, lock, durable)


def acquire_lock(
    root: Path | ObjectPath, store: str | os.PathLike[str], force: bool = False
) -> Lock:
    """Take the lock of a store on a disk or in a bucket.

    Parameters
    ----------
    root : Path or ObjectPath
        The store's place, links resolved.
    store : path
        The store, as the user named it.
    force : bool
        As in :meth:`StoreLock.acquire` and :meth:`Lease.acquire`.

    Raises
    ------
    StoreError
        If another run holds it, or if it cannot be written.
    """
    if isinstance(root, ObjectPath):
        return Lease.acquire(root / LOCK_KEY, str(store), force=force)
    return StoreLock.acquire(root / LOCK_KEY, str(store), force=force)


def _opened(layout: StoreLayout, root: Path | ObjectPath, lock: Lock, durable: bool) -> Store:
    try:
        return Store(layout, inspect(root), lock, durable)
    except BaseException:
        lock.release()
        raise


def _is_vacant(root: Path) -> bool:
    """Whether nothing stands at ``root``, or an empty directory."""
    with explained(f"open '{root}'"):
        if not os.path.lexists(root):
            return True
        return root.is_dir() and not any(root.iterdir())


def _new_run() -> dict[str, Any]:
    return {"created": _now(), "finished": None}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

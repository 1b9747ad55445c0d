"""A store that is being written: create it or continue it, write chunks, complete it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from sweep.errors import StoreError
from sweep.store.chunks import ArrayShape, ChunkWriter
from sweep.store.codec import encode
from sweep.store.creation import create, place
from sweep.store.gathering import index_objects
from sweep.store.journal import Entry, Journal, journal_entries, journal_header
from sweep.store.layout import CHUNK_INDEX, LOCK_KEY, Array, StoreLayout
from sweep.store.lease import Lease
from sweep.store.local import explained
from sweep.store.lock import StoreLock
from sweep.store.metadata import (
    ROOT_DOCUMENT,
    chunk_index_array,
    chunk_key,
    document,
    static_objects,
)
from sweep.store.objects import ObjectPath, files_of, is_url, place_of
from sweep.store.reading import StoreInfo, binding_of, inspect, read_summaries
from sweep.store.remote import JournalParts, ObjectJournal, check_vacant, fill

__all__ = ["Lock", "Store", "acquire_lock", "finished_flags", "open_or_create"]

Lock = StoreLock | Lease

_JOURNAL_KEY = f"{CHUNK_INDEX}/journal.jsonl"


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
        if isinstance(lock, Lease):
            parts = cast(JournalParts, info.journal_path)
            self._journal = ObjectJournal(parts, info.binding, info.counts, lock.check)
        elif lock is not None:
            self._journal = Journal(info.journal_path, info.binding, info.counts, durable=durable)

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
        for key, parts in finished_flags(self._layout).items():
            self._files.put(key, *parts)
        root = json.loads(self._files.get(ROOT_DOCUMENT))
        self._open_journal().flush()
        documents, files = index_objects(self._layout, journal_entries(self._info.journal_path))
        for key, parts in files:
            self._files.put(key, *parts)
        members = root["consolidated_metadata"]["metadata"] | documents
        root["consolidated_metadata"]["metadata"] = dict(sorted(members.items()))
        root["attributes"]["run"] |= {**(run or {}), "finished": _now()}
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


def finished_flags(layout: StoreLayout) -> dict[str, tuple[bytes, ...]]:
    """Return the flags of a store whose chunks are all finished, by key."""
    index = chunk_index_array(layout)
    if not index.shape[0]:
        return {}
    whole = ArrayShape.of(index).padded((0,), np.ones(index.shape, np.uint8))
    return {f"{CHUNK_INDEX}/{chunk_key((0,))}": encode(whole)}


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
    if is_url(root):
        return _open_or_create_remote(path, layout, overwrite, break_lock)
    with place(root):
        if not _is_vacant(root):
            found = inspect(path)
            if not overwrite:
                return _resume(path, layout, found, durable, break_lock)
            replaced = StoreLock.acquire(found.lock_path, str(path), force=break_lock)
        else:
            replaced = None
        try:
            run = {"created": _now(), "finished": None}
            objects = static_objects(layout, run)
            binding = binding_of(layout.record, layout.fingerprint())
            objects = {_JOURNAL_KEY: journal_header(binding), **objects}
            lock = create(root, objects, LOCK_KEY, replaced=replaced, durable=durable)
        except BaseException:
            if replaced is not None:
                replaced.release()
            raise
    return _opened(layout, root, lock, durable)


def _open_or_create_remote(
    path: str | os.PathLike[str], layout: StoreLayout, overwrite: bool, break_lock: bool
) -> Store:
    root = cast(ObjectPath, place_of(path))
    while True:
        with explained(f"open '{path}'"):
            exists = (root / ROOT_DOCUMENT).exists()
        if not exists:
            check_vacant(root, LOCK_KEY)
        else:
            found = inspect(path)
            if not overwrite:
                return _resume(path, layout, found, False, break_lock)
        lock = Lease.acquire(root / LOCK_KEY, str(path), force=break_lock)
        try:
            if overwrite or not (root / ROOT_DOCUMENT).exists():
                run = {"created": _now(), "finished": None}
                fill(root, static_objects(layout, run), LOCK_KEY)
                return _opened(layout, cast(Path, root), lock, False)
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
        parts = _differences(found.record, record)
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
        if found.lock_path.exists():  # killed between completing and letting go
            with contextlib.suppress(StoreError):
                acquire_lock(found.lock_path, path, break_lock).release()
        return Store(layout, found, None, durable)
    lock = acquire_lock(found.lock_path, path, break_lock)
    try:
        files_of(found.path).remove_partial()
    except BaseException:
        lock.release()
        raise
    return _opened(layout, found.path, lock, durable)


def acquire_lock(place: Path, store: str | os.PathLike[str], force: bool) -> Lock:
    """Take the lock of a store on a disk or in a bucket.

    Parameters
    ----------
    place : Path
        Where the lock is; see :attr:`~sweep.store.reading.StoreInfo.lock_path`.
    store : path
        The store, as the user named it.
    force : bool
        As in :meth:`StoreLock.acquire` and :meth:`Lease.acquire`.

    Raises
    ------
    StoreError
        If another run holds it, or if it cannot be written.
    """
    if is_url(place):
        return Lease.acquire(cast(ObjectPath, place), str(store), force=force)
    return StoreLock.acquire(place, str(store), force=force)


def _opened(layout: StoreLayout, root: Path, lock: Lock, durable: bool) -> Store:
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


def _differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

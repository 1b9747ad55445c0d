"""Putting right what a look at a store found, from its own record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from sweep.errors import StoreError
from sweep.store.chunks import ChunkWriter
from sweep.store.gathering import index_objects
from sweep.store.index import INDEX_ARRAYS
from sweep.store.journal import Entry, journal_entries, journal_header, journal_line
from sweep.store.layout import StoreLayout
from sweep.store.lease import Lease
from sweep.store.local import LocalFiles, explained
from sweep.store.metadata import chunk_key, static_objects
from sweep.store.objects import ObjectPath, files_of, is_url
from sweep.store.reading import StoreInfo, inspect
from sweep.store.verifying import NOTE_KEY, journal_key
from sweep.store.writing import Lock, acquire_lock, finished_flags

__all__ = ["Mending", "mending"]

Unit = tuple[str, int]


@dataclass(frozen=True)
class Mending:
    """A store that is being mended; made by :func:`mending`.

    Parameters
    ----------
    files : LocalFiles
        The store's directory, or its objects.
    info : StoreInfo
        Its root.
    layout : StoreLayout
        What it holds.
    keys : frozenset of str
        The damaged files.
    lock : StoreLock or Lease
        The store's lock, held.
    """

    files: LocalFiles
    info: StoreInfo
    layout: StoreLayout
    keys: frozenset[str]
    lock: Lock

    @property
    def writer(self) -> ChunkWriter:
        """Writes the damaged chunks and passes over all others."""
        writer = ChunkWriter.of(self.files, self.layout, self.info.binding)
        return replace(writer, only=self.keys)

    @property
    def lost_summaries(self) -> bool:
        """Whether the journal is damaged, so that every chunk has to be summarised again."""
        return journal_key(self.info) in self.keys

    def units(self) -> list[Unit]:
        """Return the units of work that write the damaged chunks, in order."""
        if self.lost_summaries:
            counts = self.layout.chunk_counts()
            return [(name, i) for name, count in counts.items() for i in range(count)]
        found: set[Unit] = set()
        for group in self.layout.groups:
            for variable in group.variables:
                if variable.values is None and group.units is not None:
                    for index in _indices(variable.name, group.name, self.keys):
                        found.add((group.name, group.units.unit_of(variable.dims, index)))
        return sorted(found)

    def restore(self) -> None:
        """Write metadata, coordinates and flags that are damaged."""
        static = static_objects(self.layout, self.info.run)
        for key in self.keys & static.keys():
            with explained(f"mend '{self.files.root}'"):
                self.files.make_place(key)
            self.files.put(key, static[key])
        flags = finished_flags(self.layout)
        for key in self.keys & flags.keys():
            self.files.put(key, *flags[key])

    def complete(self, summaries: Iterable[Entry]) -> None:
        """Write the journal and the index, if they are damaged, and forget the note.

        Parameters
        ----------
        summaries : iterable of (group, number of the chunk, summary)
            Of all chunks, where the journal is damaged.

        Raises
        ------
        StoreError
            If they cannot be written, or the store's lock is lost.
        """
        if isinstance(self.lock, Lease):
            self.lock.check()
        if self.lost_summaries:
            self._write_journal(summaries)
        if any(key.partition("/")[0] in INDEX_ARRAYS for key in self.keys):
            _, files = index_objects(self.layout, journal_entries(self.info.journal_path))
            for key, parts in files:
                if key in self.keys:
                    self.files.put(key, *parts)
        self.files.remove([NOTE_KEY])

    def _write_journal(self, summaries: Iterable[Entry]) -> None:
        key = journal_key(self.info)
        lines = [journal_header(self.info.binding), *(journal_line(e) for e in summaries)]
        if not is_url(self.info.path):
            self.files.put(key, *lines)
            return
        first = f"{key}/{0:08}.jsonl"
        self.files.put(first, *lines)
        with explained(f"mend '{self.files.root}'"):
            below = [f"{key}/{name}" for name in ObjectPath(f"{self.info.path}/{key}").below()]
        self.files.remove([name for name in below if name != first])


def _indices(variable: str, group: str, keys: Collection[str]) -> Iterator[tuple[int, ...]]:
    """Yield the positions of a variable's damaged chunks."""
    prefix = f"{group}/{variable}/{chunk_key(())}"
    for key in keys:
        if key.startswith(prefix):
            yield tuple(int(part) for part in key[len(prefix) :].split(".") if part)


@contextlib.contextmanager
def mending(
    path: str | os.PathLike[str],
    layout: StoreLayout,
    keys: Iterable[str],
    *,
    break_lock: bool = False,
) -> Iterator[Mending]:
    """Hold a store while it is mended.

    Parameters
    ----------
    path : path
        The store.
    layout : StoreLayout
        What its own record says that it holds.
    keys : iterable of str
        The damaged files.
    break_lock : bool
        As in :func:`~sweep.store.open_or_create`.

    Raises
    ------
    StoreError
        If a run writes the store, or if this version of the package would write it otherwise.
    """
    info = inspect(path)
    if info.layout_sha256 != layout.fingerprint():
        version = info.record.get("identity", {}).get("sweep_version", "another version")
        raise StoreError(
            f"'{path}' was computed by sweep {version}, whose results this version does not "
            "reproduce to the bit: mend it with that version, or use `sweep rerun`"
        )
    lock = acquire_lock(info.lock_path, path, break_lock)
    try:
        yield Mending(files_of(info.path), info, layout, frozenset(keys), lock)
    finally:
        lock.release()

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
from sweep.store.local import LocalFiles, explained
from sweep.store.lock import StoreLock
from sweep.store.metadata import chunk_key, static_objects
from sweep.store.reading import StoreInfo, inspect
from sweep.store.verifying import JOURNAL_KEY, NOTE_KEY
from sweep.store.writing import finished_flags

__all__ = ["Mending", "mending"]

Unit = tuple[str, int]


@dataclass(frozen=True)
class Mending:
    """A store that is being mended; made by :func:`mending`.

    Parameters
    ----------
    files : LocalFiles
        The store's directory.
    info : StoreInfo
        Its root.
    layout : StoreLayout
        What it holds.
    keys : frozenset of str
        The damaged files.
    """

    files: LocalFiles
    info: StoreInfo
    layout: StoreLayout
    keys: frozenset[str]

    @property
    def writer(self) -> ChunkWriter:
        """Writes the damaged chunks and passes over all others."""
        return replace(ChunkWriter.of(self.files, self.layout), only=self.keys)

    @property
    def lost_summaries(self) -> bool:
        """Whether the journal is damaged, so that every chunk has to be summarised again."""
        return JOURNAL_KEY in self.keys

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
            os.makedirs(os.path.dirname(self.files.root / key), exist_ok=True)
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
        """
        if self.lost_summaries:
            lines = [journal_header(self.info.binding), *(journal_line(e) for e in summaries)]
            self.files.put(JOURNAL_KEY, *lines)
        if any(key.partition("/")[0] in INDEX_ARRAYS for key in self.keys):
            _, files = index_objects(self.layout, journal_entries(self.info.journal_path))
            for key, parts in files:
                if key in self.keys:
                    self.files.put(key, *parts)
        with contextlib.suppress(FileNotFoundError), explained(f"mend '{self.files.root}'"):
            os.unlink(self.files.root / NOTE_KEY)


def _indices(variable: str, group: str, keys: Collection[str]) -> Iterator[tuple[int, ...]]:
    """Yield the positions of a variable's damaged chunks."""
    prefix = f"{group}/{variable}/{chunk_key(())}"
    for key in keys:
        if key.startswith(prefix):
            yield tuple(int(part) for part in key[len(prefix) :].split(".") if part)


@contextlib.contextmanager
def mending(
    path: str | os.PathLike[str], layout: StoreLayout, keys: Iterable[str]
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
    lock = StoreLock.acquire(info.lock_path, str(path))
    try:
        yield Mending(LocalFiles(info.path), info, layout, frozenset(keys))
    finally:
        lock.release()

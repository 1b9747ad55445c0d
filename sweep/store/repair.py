"""Putting right what a look at a store found damaged, from what the store itself keeps."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sweep.errors import StoreError
from sweep.store.address import Files, files_of
from sweep.store.buckets import BucketFiles
from sweep.store.codec import chunk_key
from sweep.store.index import INDEX_ARRAYS, index_objects
from sweep.store.journal import (
    Entry,
    journal_entries,
    journal_header,
    journal_key,
    journal_line,
    journal_parts,
)
from sweep.store.layout import StoreLayout
from sweep.store.lease import Lease
from sweep.store.local_files import explained
from sweep.store.metadata import (
    ROOT_DOCUMENT,
    Document,
    check_root,
    damaged_parts,
    document,
    finished_flags,
    group_document,
    root_document,
    static_objects,
)
from sweep.store.root import StoreInfo, inspect
from sweep.store.verify import NOTE_KEY
from sweep.store.writer import ChunkWriter, Lock, acquire_lock

Unit = tuple[str, int]


def repair_root(path: str | os.PathLike[str]) -> None:
    """Compose a damaged root document again from what the arrays and groups say themselves.

    Parameters
    ----------
    path : path
        A store whose root :func:`verify` found damaged.

    Raises
    ------
    StoreError
        The damage is in the root's own attributes, which stand nowhere else; or a run writes the
        store, or it cannot be written.
    """
    files = files_of(path)
    with explained(f"repair '{path}'"):
        text = files.get(ROOT_DOCUMENT).decode(errors="replace")
        members = dict(_own_documents(files))
    try:
        start = text.index("{", text.index('"attributes"'))
        attributes, _ = json.JSONDecoder().raw_decode(text, start)
        root = group_document(attributes, members)
        wrong = damaged_parts(root)
        check_root(root_document(attributes, members))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        problem = f" ({error})" if type(error) is ValueError else ""
        raise _beyond_repair(path, f"its record{problem}") from None
    if wrong == ["consolidated_metadata"] and _consolidated(text) == members:
        wrong = []  # two copies agree: it is the checksum that is damaged
    if wrong:
        raise _beyond_repair(path, f"its {wrong[0].replace('_', ' ')}")
    lock = acquire_lock(files.root, path)
    try:
        files.put(ROOT_DOCUMENT, document(root_document(attributes, members)))
    finally:
        lock.release()


def _own_documents(files: Files) -> Iterator[tuple[str, Document]]:
    """Yield what each group and array says of itself, as the root repeats it."""
    for key in files.keys():
        name, _, last = key.rpartition("/")
        if last == ROOT_DOCUMENT and name:
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(files.get(key))
                if isinstance(found, dict):
                    is_group = found.get("node_type") == "group"
                    yield name, group_document(found["attributes"], {}) if is_group else found


def _consolidated(text: str) -> Any:
    try:
        return json.loads(text)["consolidated_metadata"]["metadata"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _beyond_repair(path: str | os.PathLike[str], what: str) -> StoreError:
    return StoreError(
        f"'{path}': zarr.json: {what} cannot be repaired: it stands nowhere else in the store; "
        "restore zarr.json from a copy, or run the plan into a new store"
    )


@dataclass(frozen=True)
class Repair:
    """A store that is being repaired; made by :func:`repairing`.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        The store's files or objects.
    info : StoreInfo
        Its root.
    layout : StoreLayout
        What it holds.
    keys : frozenset of str
        The damaged files.
    lock : StoreLock or Lease
        The store's lock, held.
    """

    files: Files
    info: StoreInfo
    layout: StoreLayout
    keys: frozenset[str]
    lock: Lock

    @property
    def writer(self) -> ChunkWriter:
        """Writes the damaged chunks and passes over all others."""
        return ChunkWriter.of(self.files, self.layout, self.info.binding, self.keys)

    @property
    def journal_is_lost(self) -> bool:
        """Whether the journal is damaged, so that every chunk has to be summarised again."""
        return journal_key(self.files, self.info.binding) in self.keys

    def units(self) -> list[Unit]:
        """Return the units of work that write the damaged chunks, in order."""
        if self.journal_is_lost:
            counts = self.layout.chunk_counts()
            return [(name, i) for name, count in counts.items() for i in range(count)]
        found: set[Unit] = set()
        damaged = {key.rpartition("/")[0] for key in self.keys}
        for group in self.layout.groups:
            for variable in group.variables:
                place = f"{group.name}/{variable.name}"
                if variable.values is None and group.units is not None and place in damaged:
                    for index in variable.chunking.indices():
                        if f"{place}/{chunk_key(index)}" in self.keys:
                            found.add((group.name, group.units.unit_of(variable.dims, index)))
        return sorted(found)

    def restore(self) -> None:
        """Write metadata, coordinates and flags that are damaged."""
        static = {**static_objects(self.layout, self.info.run), **finished_flags(self.layout)}
        for key in sorted(self.keys & static.keys(), key=lambda key: key.count("/")):
            self.files.put(key, static[key])  # a directory before what is in it

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
        if self.journal_is_lost:
            self._write_journal(summaries)
        if any(key.partition("/")[0] in INDEX_ARRAYS for key in self.keys):
            entries = journal_entries(self.files, self.info.binding)
            for key, content in index_objects(self.layout, entries)[1]:
                if key in self.keys:
                    self.files.put(key, content)
        self.files.remove([NOTE_KEY])

    def _write_journal(self, summaries: Iterable[Entry]) -> None:
        key = journal_key(self.files, self.info.binding)
        lines = [journal_header(self.info.binding), *(journal_line(e) for e in summaries)]
        if not isinstance(self.files, BucketFiles):
            self.files.put(key, *lines)
            return
        first = f"{key}/{0:08}.jsonl"
        self.files.put(first, *lines)
        with explained(f"repair '{self.files.root}'"):
            parts = journal_parts(self.files, self.info.binding)
        self.files.remove([part for part in parts if part != first])


@contextlib.contextmanager
def repairing(
    path: str | os.PathLike[str],
    layout: StoreLayout,
    keys: Iterable[str],
    *,
    break_lock: bool = False,
) -> Iterator[Repair]:
    """Hold a store while it is repaired.

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
        version = info.record["identity"].get("sweep_version", "another version")
        raise StoreError(
            f"'{path}' was computed by sweep {version}, whose results this version does not "
            "reproduce to the bit: repair it with that version, or use `sweep rerun`"
        )
    lock = acquire_lock(info.path, path, break_lock)
    try:
        yield Repair(info.files, info, layout, frozenset(keys), lock)
    finally:
        lock.release()

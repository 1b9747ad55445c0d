"""The journal: which chunks are finished, and each one's summary.

One line of JSON for each finished chunk, written by the coordinating process alone, after the
chunk's files are in place. A chunk is finished if and only if the journal says so: files prove
nothing. The first line binds the journal to its store, and every line ends in a checksum. A process
killed while appending leaves a torn last line, which is cut off when the run continues.

In a bucket, where nothing can be appended, the journal is a row of numbered objects, none of which
is ever written again, below a key that names the store they belong to. Entries are collected for a
while: for a hundredth of the time that the run has taken, which is what a kill may cost.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sweep.errors import StoreError
from sweep.store.address import Files
from sweep.store.buckets import BucketFiles, read_all
from sweep.store.layout import CHUNK_INDEX
from sweep.store.local_files import explained, open_inside, write_all

Entry = tuple[str, int, Mapping[str, Any]]
"""Group, number of the chunk, summary."""

Finished = dict[tuple[str, int], dict[str, Any]]
"""Summary of every finished chunk by group and number."""

LEAST_S = 1.0
"""Shortest time for which entries are collected in a bucket [s]."""

LONGEST_LINE = 2**28
"""More than any chunk's summary takes [B]."""

_VERSION = 2  # of version 1 lines carry no checksums
_MARK = b',"crc32":"'


def journal_key(files: Files, binding: str) -> str:
    """Return the key of a store's journal; in a bucket, the beginning of its objects' keys."""
    if isinstance(files, BucketFiles):
        return f"{CHUNK_INDEX}/journal-{binding[:16]}"
    return f"{CHUNK_INDEX}/journal.jsonl"


def journal_parts(files: BucketFiles, binding: str) -> list[str]:
    """Return the keys of the journal's objects in a bucket, in order."""
    key = journal_key(files, binding)
    return [f"{key}/{name}" for name in sorted((files.root / key).below())]


def journal_header(binding: str) -> bytes:
    """Return the first line of the journal of the store with this ``binding`` (a hash)."""
    return _line({"sweep_journal": _VERSION, "store": binding})


def journal_line(entry: Entry) -> bytes:
    """Return the line that enters a finished chunk."""
    group, chunk, summary = entry
    return _line({"group": group, "chunk": int(chunk), "summary": summary})


def read_journal(
    files: Files, binding: str, counts: Mapping[str, int], *, summaries: bool = True
) -> tuple[Finished, int]:
    """Return the finished chunks and the length in bytes of the journal's sound part.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        The store. If it has no journal, nothing is finished.
    binding : str
        Hash that the first line must carry.
    counts : mapping
        Number of chunks by group.
    summaries : bool
        Whether to keep the summaries, which are many in a large store; else they are empty.

    Raises
    ------
    StoreError
        If the journal belongs to another store or is damaged before its last line.
    """
    finished: Finished = {}
    sound = 0
    path = files.root / journal_key(files, binding)
    for number, (line, entry) in enumerate(_parsed_lines(files, binding), start=1):
        if entry is None:
            raise StoreError(f"'{path}', line {number}: damaged; run again with --overwrite")
        if number == 1:
            if entry.get("sweep_journal") not in (1, _VERSION) or entry.get("store") != binding:
                raise StoreError(f"'{path}' belongs to another store; run again with --overwrite")
        else:
            group, chunk, summary = (entry.get(name) for name in ("group", "chunk", "summary"))
            if type(chunk) is not int or not 0 <= chunk < counts.get(str(group), 0):
                raise StoreError(f"'{path}', line {number}: no chunk {chunk} of '{group}' exists")
            finished[str(group), chunk] = summary if summaries and isinstance(summary, dict) else {}
        sound += len(line)
    return finished, sound


def journal_entries(files: Files, binding: str) -> Iterator[Entry]:
    """Yield the entries of a journal that was read before, one by one, also superseded ones."""
    for _, entry in _parsed_lines(files, binding):
        if entry is not None and "group" in entry:
            yield str(entry["group"]), int(entry["chunk"]), entry.get("summary", {})


def _parsed_lines(files: Files, binding: str) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield every line with what it says, ``None`` if it is damaged; no torn last line."""
    path = files.root / journal_key(files, binding)
    has_checksums = False
    lines = _lines(files, binding)
    with explained(f"read '{path}'"):
        line = next(lines, b"")
        while line:
            following = next(lines, b"")
            entry = _parsed(line, has_checksums)
            if entry is None and not following:
                return
            yield line, entry
            if entry is not None and "sweep_journal" in entry:
                has_checksums = entry["sweep_journal"] != 1
            line = following


def _lines(files: Files, binding: str) -> Iterator[bytes]:
    """Yield the lines of a journal; of a bucket's those of all objects under one header."""
    if isinstance(files, BucketFiles):
        parts = read_all([files.root / key for key in journal_parts(files, binding)])
        for number, part in enumerate(parts):
            yield from part.splitlines(keepends=True)[number > 0 :]
        return
    try:
        file = files.stream(journal_key(files, binding))
    except FileNotFoundError:
        return
    with file:
        yield from iter(lambda: file.readline(LONGEST_LINE), b"")


class Journal:
    """An open journal on a disk.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        The store.
    binding : str
        Hash of the store's identity and layout.
    counts : mapping
        Number of chunks by group.

    Attributes
    ----------
    finished : dict
        Its keys are the finished chunks, in order; what they hold stays in the file.

    Raises
    ------
    StoreError
        If the journal is damaged, belongs to another store or cannot be written.
    """

    def __init__(self, files: Files, binding: str, counts: Mapping[str, int]) -> None:
        self._path = files.root / journal_key(files, binding)
        found, self._length = read_journal(files, binding, counts, summaries=False)
        self.finished = dict.fromkeys(found)
        self._durable = files.durable
        self._open(files, binding)

    def _open(self, files: Files, binding: str) -> None:
        with explained(f"write '{self._path}'"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._descriptor = open_inside(files.root, journal_key(files, binding), flags)
            try:
                os.ftruncate(self._descriptor, self._length)
            except BaseException:
                os.close(self._descriptor)
                raise
        if self._length == 0:
            self._write(journal_header(binding))

    def append(self, entries: Iterable[Entry]) -> None:
        """Enter finished chunks, in one write.

        Raises
        ------
        StoreError
            If the journal cannot be written; it is then as it was before.
        """
        entries = list(entries)
        if lines := [journal_line(entry) for entry in entries]:
            self._write(b"".join(lines))
            self.finished.update(dict.fromkeys((g, int(c)) for g, c, _ in entries))

    def flush(self) -> None:
        """Do nothing: entries are written at once."""

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write(self, data: bytes) -> None:
        with explained(f"write '{self._path}'"):
            try:
                write_all(self._descriptor, data)
                if self._durable:
                    os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, self._length)
                raise
        self._length += len(data)


class BucketJournal(Journal):
    """An open journal in a bucket, which collects entries; ``check`` raises if the lock is lost."""

    def __init__(
        self,
        files: BucketFiles,
        binding: str,
        counts: Mapping[str, int],
        check: Callable[[], None],
    ) -> None:
        self._check = check
        self._pending: list[bytes] = []
        self._began = self._flushed = time.monotonic()
        self._header = journal_header(binding)
        self._root = files.root / journal_key(files, binding)
        super().__init__(files, binding, counts)
        with explained(f"read '{self._path}'"):
            last = max(self._root.below(), default="")
        self._number = int(last.partition(".")[0]) + 1 if last else 0

    def _open(self, files: Files, binding: str) -> None:
        pass

    def flush(self) -> None:
        """Write the entries that were collected.

        Raises
        ------
        StoreError
            If they cannot be written, or the lock is lost.
        """
        if not self._pending:
            return
        self._check()
        part = self._root / f"{self._number:08}.jsonl"
        content = b"".join([self._header, *self._pending])
        with explained(f"write '{part}'"):
            try:
                part.write(content, new=True)
            except FileExistsError:
                if part.read_bytes() != content:  # else a request of ours that was repeated
                    raise
        self._number += 1
        self._pending = []
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Write what is left; closing twice does no harm."""
        self.flush()

    def _write(self, data: bytes) -> None:
        self._pending.append(data)
        now = time.monotonic()
        if now - self._flushed >= max(LEAST_S, 0.01 * (now - self._began)):
            self.flush()


def _line(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"), default=_number)
    return _sealed(text.encode())


def _sealed(text: bytes) -> bytes:
    """Return a line's JSON with its own checksum as the last entry."""
    return b'%s%s%08x"}\n' % (text[:-1], _MARK, zlib.crc32(text))


def _number(value: Any) -> Any:
    """Return a NumPy scalar or array as JSON writes it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a summary cannot hold {type(value).__name__}")


def _parsed(line: bytes, has_checksum: bool) -> dict[str, Any] | None:
    """Return what a line says; ``None`` if it is torn or damaged."""
    if not line.endswith(b"\n"):
        return None
    text, mark, _ = line.rpartition(_MARK)
    if mark:
        if line != _sealed(text + b"}"):
            return None
        line = text + b"}"
    elif has_checksum:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None

"""The journal: which chunks are finished, and each one's summary.

The coordinating process adds one line of JSON for each finished chunk, after the chunk's files are
in place. A chunk is finished if and only if the journal says so: files prove nothing. The first
line binds the journal to its store, and every line ends in a checksum. A process killed while
writing leaves a torn last line, which is cut off when the run continues.

In a bucket, where nothing can be appended, the journal is a series of numbered objects, none of
which is written twice, below a key that names their store. Entries are collected for a hundredth of
the time that the run has taken, which is what a kill may cost.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from operator import methodcaller
from typing import Any

from sweep.errors import StoreError
from sweep.store.buckets import REQUESTS, BucketFiles
from sweep.store.layout import CHUNK_INDEX, parsed
from sweep.store.local_files import explained, open_inside, write_all
from sweep.store.root import StoreInfo

Unit = tuple[str, int]
"""Group and number of a chunk."""

Entry = tuple[str, int, Mapping[str, Any]]
"""Group, number of the chunk, summary."""

LEAST_S = 1.0
"""Shortest time for which entries are collected in a bucket [s]."""

LONGEST_LINE = 2**28
"""More than any chunk's summary takes [B]."""

_VERSION = 2  # version 1 has no checksums
_MARK = b',"crc32":"'
_AGAIN = "run again with --overwrite"


def journal_key(info: StoreInfo) -> str:
    """Return the key of a store's journal; in a bucket, the beginning of its objects' keys."""
    is_series = isinstance(info.files, BucketFiles)
    return f"{CHUNK_INDEX}/journal{f'-{info.binding[:16]}' if is_series else '.jsonl'}"


def journal_header(binding: str) -> bytes:
    """Return the first line of the journal of the store with this ``binding`` (a hash)."""
    return _line({"sweep_journal": _VERSION, "store": binding})


def journal_line(entry: Entry) -> bytes:
    """Return the line of a finished chunk."""
    group, chunk, summary = entry
    return _line({"group": group, "chunk": int(chunk), "summary": summary})


def read_journal(info: StoreInfo) -> Iterator[tuple[Entry | None, int]]:
    """Yield the entries of a store's journal; of a chunk's entries the last counts.

    Yields
    ------
    entry : Entry or None
        ``None`` for the first line, which has none.
    end : int
        Length in bytes of the journal up to here.

    Raises
    ------
    StoreError
        If the journal belongs to another store or is damaged before its last line.
    """
    path, has_checksums, end = info.files.root / journal_key(info), False, 0
    with explained(f"read '{path}'"):
        lines = pairwise(chain(_lines(info), [b""]))
        for number, (line, following) in enumerate(lines, start=1):
            found = _parsed(line, has_checksums)
            if found is None and not following:
                return  # torn
            if found is None:
                raise StoreError(f"'{path}', line {number}: damaged; {_AGAIN}")
            end += len(line)
            if number == 1:
                version = found.get("sweep_journal")
                if version not in (1, _VERSION) or found.get("store") != info.binding:
                    raise StoreError(f"'{path}' belongs to another store; {_AGAIN}")
                has_checksums = version != 1
                yield None, end
                continue
            group, chunk, summary = (found.get(name) for name in ("group", "chunk", "summary"))
            if type(chunk) is not int or not 0 <= chunk < info.counts.get(str(group), 0):
                raise StoreError(f"'{path}', line {number}: no chunk {chunk} of '{group}' exists")
            yield (str(group), chunk, summary if isinstance(summary, dict) else {}), end


def journal_entries(info: StoreInfo) -> Iterator[Entry]:
    """Yield the entries alone; see :func:`read_journal`."""
    return (entry for entry, _ in read_journal(info) if entry is not None)


def rewrite_journal(info: StoreInfo, entries: Iterable[Entry]) -> None:
    """Replace a damaged journal; raises :class:`StoreError` if it cannot be written."""
    first = journal_key(info)
    if isinstance(info.files, BucketFiles):
        first = _part(info, 0)
    info.files.put(first, journal_header(info.binding), *map(journal_line, entries))
    with explained(f"repair '{info.path}'"):
        info.files.remove([part for part in _parts(info) if part != first])


def _parts(info: StoreInfo) -> list[str]:
    """Return the keys of the journal's files in order: one on a disk, any number in a bucket."""
    key = journal_key(info)
    if not isinstance(info.files, BucketFiles):
        return [key]
    found = info.files.keys(f"{key}/")
    return sorted(k for k in found if k[-14:-6].isdecimal() and k.endswith(".jsonl"))


def _part(info: StoreInfo, number: int) -> str:
    return f"{journal_key(info)}/{number:08}.jsonl"


def _lines(info: StoreInfo) -> Iterator[bytes]:
    """Yield the lines of a journal; in a bucket those of all objects under one header."""
    if isinstance(info.files, BucketFiles):
        with ThreadPoolExecutor(REQUESTS) as pool:
            for number, part in enumerate(pool.map(info.files.get, _parts(info))):
                yield from part.splitlines(keepends=True)[number > 0 :]
        return
    with contextlib.suppress(FileNotFoundError):
        descriptor = open_inside(info.files.root, journal_key(info), os.O_RDONLY)
        with open(descriptor, "rb") as file:
            yield from iter(lambda: file.readline(LONGEST_LINE), b"")


class Journal:
    """An open journal on a disk; :func:`open_journal` opens it.

    Parameters
    ----------
    info : StoreInfo
        The store.
    check : callable
        Raises if the store's lock is lost.

    Attributes
    ----------
    finished : dict
        Its keys are the finished chunks, in order; their summaries stay in the file.

    Raises
    ------
    StoreError
        If the journal is damaged, belongs to another store or cannot be written.
    """

    def __init__(self, info: StoreInfo, check: Callable[[], None]) -> None:
        self.finished: dict[Unit, None] = {}
        self._info, self._check, self._end = info, check, 0
        self._path = info.files.root / journal_key(info)
        for entry, self._end in read_journal(info):
            if entry is not None:
                self.finished[entry[:2]] = None
        self._open()

    def _open(self) -> None:
        with explained(f"write '{self._path}'"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = open_inside(self._info.files.root, journal_key(self._info), flags)
            self._file = open(descriptor, "ab", buffering=0)
            os.ftruncate(descriptor, self._end)
        if self._end == 0:
            self._write(journal_header(self._info.binding))

    def append(self, entries: Iterable[Entry]) -> None:
        """Add finished chunks, in one write.

        Raises
        ------
        StoreError
            If the journal cannot be written; it is then as it was before.
        """
        entries = list(entries)
        if lines := b"".join(map(journal_line, entries)):
            self._write(lines)
            self.finished.update(dict.fromkeys((g, int(c)) for g, c, _ in entries))

    def flush(self) -> None:
        """Do nothing: entries are written at once."""

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        with explained(f"write '{self._path}'"):
            try:
                write_all(self._file.fileno(), data)
            except OSError:
                os.ftruncate(self._file.fileno(), self._end)
                raise
        self._end += len(data)


class BucketJournal(Journal):
    """An open journal in a bucket, which collects entries."""

    def _open(self) -> None:
        self._pending: list[bytes] = []
        self._began = self._flushed = time.monotonic()
        with explained(f"read '{self._path}'"):
            last = max(_parts(self._info), default="")
        self._number = int(last[-14:-6]) + 1 if last else 0

    def flush(self) -> None:
        """Write the collected entries.

        Raises
        ------
        StoreError
            If they cannot be written, or the lock is lost.
        """
        if not self._pending:
            return
        self._check()
        files, part = self._info.files, _part(self._info, self._number)
        assert isinstance(files, BucketFiles)
        content = b"".join([journal_header(self._info.binding), *self._pending])
        with explained(f"write '{files.root / part}'"):
            try:
                files.write(part, content, new=True)
            except FileExistsError:
                if files.get(part) != content:  # else a request of ours that was repeated
                    raise
        self._number += 1
        self._pending = []
        self._flushed = time.monotonic()

    close = flush

    def _write(self, data: bytes) -> None:
        self._pending.append(data)
        now = time.monotonic()
        if now - self._flushed >= max(LEAST_S, 0.01 * (now - self._began)):
            self.flush()


def open_journal(info: StoreInfo, check: Callable[[], None]) -> Journal:
    """Return the open journal of a store whose lock is held; ``check`` raises if it is lost."""
    kind = BucketJournal if isinstance(info.files, BucketFiles) else Journal
    return kind(info, check)


def _line(entry: Mapping[str, Any]) -> bytes:
    as_json = methodcaller("tolist")  # of NumPy's scalars and arrays
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"), default=as_json)
    return _sealed(text.encode())


def _sealed(text: bytes) -> bytes:
    """Return a line's JSON with its own checksum as the last entry."""
    return b'%s%s%08x"}\n' % (text[:-1], _MARK, zlib.crc32(text))


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
    return parsed(line)

"""The journal: which chunks are finished, and each one's summary.

One line of JSON for each finished chunk, appended by the coordinating process alone, after the
chunk's files are in place. A chunk is finished if and only if the journal says so: files prove
nothing. The first line binds the journal to its store. A process killed while appending leaves a
torn last line, which is cut off when the run continues.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.store.local import explained, write_all

__all__ = [
    "Entry",
    "Finished",
    "Journal",
    "journal_entries",
    "journal_header",
    "journal_line",
    "read_journal",
]

Entry = tuple[str, int, Mapping[str, Any]]
"""Group, number of the chunk, summary."""

Finished = dict[tuple[str, int], dict[str, Any]]
"""Summary of every finished chunk by group and number."""

_VERSION = 1


def journal_header(binding: str) -> bytes:
    """Return the first line of the journal of the store with this ``binding`` (a hash)."""
    return _line({"sweep_journal": _VERSION, "store": binding})


def journal_line(entry: Entry) -> bytes:
    """Return the line that enters a finished chunk."""
    group, chunk, summary = entry
    return _line({"group": group, "chunk": int(chunk), "summary": summary})


def read_journal(
    path: Path, binding: str, counts: Mapping[str, int], *, summaries: bool = True
) -> tuple[Finished, int]:
    """Return the finished chunks and the length in bytes of the journal's sound part.

    Parameters
    ----------
    path : Path
        The journal. If it is missing, nothing is finished.
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
    try:
        with explained(f"read '{path}'"):
            data = path.read_bytes()
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return {}, 0
        raise
    finished: Finished = {}
    sound = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        entry = _parsed(line)
        if entry is None:
            if number == len(lines):
                break
            raise StoreError(f"'{path}', line {number}: damaged; run again with --overwrite")
        if number == 1:
            _check_header(path, entry, binding)
        else:
            group, chunk = entry.get("group"), entry.get("chunk")
            if not isinstance(chunk, int) or not 0 <= chunk < counts.get(str(group), 0):
                raise StoreError(f"'{path}', line {number}: no chunk {chunk} of '{group}' exists")
            finished[str(group), chunk] = entry.get("summary", {}) if summaries else {}
        sound += len(line)
    return finished, sound


def journal_entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a journal that was read before, one by one, also superseded ones."""
    with explained(f"read '{path}'"), path.open("rb") as lines:
        next(lines, None)  # the header
        for line in lines:
            entry = _parsed(line)
            if entry is not None:
                yield str(entry["group"]), int(entry["chunk"]), entry.get("summary", {})


class Journal:
    """An open journal.

    Parameters
    ----------
    path : Path
        Its file.
    binding : str
        Hash of the store's identity and layout.
    counts : mapping
        Number of chunks by group.
    durable : bool
        Whether an entry is on the disk when :meth:`append` returns.

    Attributes
    ----------
    finished : dict
        Its keys are the finished chunks, in order; what they hold stays in the file.

    Raises
    ------
    StoreError
        If the journal is damaged, belongs to another store or cannot be written.
    """

    def __init__(
        self, path: Path, binding: str, counts: Mapping[str, int], *, durable: bool = False
    ) -> None:
        self._path = path
        self._durable = durable
        found, self._length = read_journal(path, binding, counts, summaries=False)
        self.finished = dict.fromkeys(found)
        self._open(binding)

    def _open(self, binding: str) -> None:
        with explained(f"write '{self._path}'"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o666)
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
        lines = [journal_line(entry) for entry in entries]
        if lines:
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


def _line(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(entry, allow_nan=False, separators=(",", ":"), default=_number)
    return text.encode() + b"\n"


def _number(value: Any) -> Any:
    """Return a NumPy scalar or array as JSON writes it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a summary cannot hold {type(value).__name__}")


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _check_header(path: Path, header: Mapping[str, Any], binding: str) -> None:
    if header.get("sweep_journal") != _VERSION or header.get("store") != binding:
        raise StoreError(f"'{path}' belongs to another store; run again with --overwrite")

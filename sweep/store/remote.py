"""Creating a store in a bucket, and its journal.

There is no renaming: a store is written object by object, its root record last, and one that is to
be overwritten loses its root record first. Its lock stands from before the first object to after
the last, so objects with a lock and without a root record are what a killed creation left.

The journal is a row of numbered objects, none of which is ever written again, below a key that
names the store they belong to. Entries are collected for a while: for a hundredth of the time that
the run has taken, which is what a kill may cost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sweep.errors import StoreError
from sweep.store.journal import Journal, journal_header
from sweep.store.local import explained
from sweep.store.objects import ObjectPath, read_all

__all__ = ["JournalParts", "ObjectJournal", "check_vacant", "fill"]

LEAST_S = 1.0
"""Shortest time for which entries are collected [s]."""


def check_vacant(root: ObjectPath, lock_key: str) -> None:
    """Refuse a place without a root record where other objects are.

    Raises
    ------
    StoreError
        They are not what a killed creation left.
    """
    with explained(f"open '{root}'"):
        first = next(root.below(), None)
        if first is not None and not (root / lock_key).exists():
            raise StoreError(f"'{root}' holds other objects, such as '{first}', and no store")


def fill(root: ObjectPath, objects: Mapping[str, bytes], lock_key: str) -> None:
    """Write a new store in place of whatever is at ``root``; the caller holds its lock.

    Raises
    ------
    StoreError
        If it cannot be written. A store that was there is lost.
    """
    last = list(objects)[-1]
    try:
        with explained(f"create '{root}'"):
            root.remove([last])
            root.remove([key for key in root.below() if key != lock_key])
            for key, content in objects.items():
                (root / key).write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            root.remove([key for key in root.below() if key != lock_key])
        raise


@dataclass(frozen=True)
class JournalParts(ObjectPath):
    """The objects of a journal, read as one."""

    def parts(self) -> list[ObjectPath]:
        """Return its objects in order."""
        return [ObjectPath(f"{self.url}/{key}") for key in sorted(self.below())]

    def read_bytes(self) -> bytes:
        """Return the joined entries under one header; raises ``FileNotFoundError`` without any."""
        found = read_all(self.parts())
        if not found:
            raise FileNotFoundError(str(self))
        return b"".join([found[0], *(part.partition(b"\n")[2] for part in found[1:])])


class ObjectJournal(Journal):
    """An open journal in a bucket.

    Parameters
    ----------
    path : JournalParts
        Its objects.
    binding : str
        Hash of the store's identity and layout.
    counts : mapping
        Number of chunks by group.
    check : callable
        Raises if the store's lock is lost.

    Raises
    ------
    StoreError
        If the journal is damaged or belongs to another store.
    """

    def __init__(
        self,
        path: JournalParts,
        binding: str,
        counts: Mapping[str, int],
        check: Callable[[], None],
    ) -> None:
        self._parts = path
        self._check = check
        self._pending: list[bytes] = []
        self._began = self._flushed = time.monotonic()
        self._number = 0
        super().__init__(cast(Path, path), binding, counts)

    def _open(self, binding: str) -> None:
        self._header = journal_header(binding)
        with explained(f"read '{self._path}'"):
            numbers = [int(part.name.partition(".")[0]) for part in self._parts.parts()]
        self._number = max(numbers, default=-1) + 1

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
        part = self._parts / f"{self._number:08}.jsonl"
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

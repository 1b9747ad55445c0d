"""Making sure that a store is still the one that was opened, and not another in its place.

A store may be overwritten or extended while somebody has it open. Its chunks have the same names
afterwards, so who goes on reading would take numbers of one for numbers of the other; and a worker
that outlived its run would write chunks of the old plan into the new store.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import StoreError
from sweep.store.local import LocalFiles
from sweep.store.metadata import ROOT_DOCUMENT
from sweep.store.objects import is_url, root_mark
from sweep.store.reading import inspect

__all__ = ["BoundFiles", "check_same"]

LOOK_S = 1.0
"""How long a look at a store in a bucket holds: each is a request of its own [s]."""

_seen: dict[tuple[str, str], tuple[object, float]] = {}
"""By place and binding, how the store was marked when it was last looked at, and when."""


def check_same(root: Path, binding: str) -> None:
    """Refuse another store in the place of the one that was opened.

    Parameters
    ----------
    root : Path
        The store.
    binding : str
        What binds the store's journal to it: stores that share it have the same results.

    Raises
    ------
    StoreError
        Another store is there.
    """
    place = (str(root), binding)
    known, looked = _seen.get(place, (None, 0.0))
    if is_url(root):
        if known is not None and time.monotonic() < looked + LOOK_S:
            return
        mark: object = root_mark(root) or None
    else:
        mark = _root_file(root)
    if mark is None:
        return  # nothing is there, which reading or writing tells
    if mark != known and inspect(root).binding != binding:
        raise StoreError(f"'{root}' was replaced by another store meanwhile; open it again")
    _seen[place] = (mark, time.monotonic())


def _root_file(root: Path) -> object:
    """Return what changes with the root record of a store on a disk; ``None`` without one."""
    try:
        found = os.stat(os.path.join(root, ROOT_DOCUMENT))
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class BoundFiles(LocalFiles):
    """The files or objects of one store for reading, and of no other that takes its place."""

    binding: str = ""

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``; raises ``FileNotFoundError`` without it.

        Raises
        ------
        StoreError
            Another store is in its place.
        """
        try:
            return super().get(key)
        finally:
            check_same(self.root, self.binding)  # after it, or the other could come in between

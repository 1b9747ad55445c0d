"""Putting a new store in its place at once, and tidying up after creations that were killed.

A store is built in a directory beside its place, ``.NAME.sweep-new-XXXXXXXX``, and renamed. One
that is to be overwritten is first renamed to ``.NAME.sweep-old-...``, and again, once the new one
is in place, to ``.NAME.sweep-trash-...``. So a kill at any moment leaves one of them whole, and the
names tell the next run, which holds the parent directory's lock, what is left to do: an ``old``
beside an empty place is put back; anything else of these names is dead and removed. Nothing but
these names is ever removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from sweep.errors import StoreError
from sweep.store.lease import Lease
from sweep.store.local import explained, extension_path, sync_directory, write_all
from sweep.store.lock import StoreLock, directory_lock
from sweep.store.objects import ObjectPath, is_url
from sweep.store.replacing import recover_objects, replace_objects

__all__ = ["create", "exchange", "place", "recover", "recovered"]


def create(
    root: Path,
    objects: Mapping[str, bytes],
    lock_key: str,
    *,
    replaced: StoreLock | None = None,
    durable: bool = False,
) -> StoreLock:
    """Create a store whole, already locked, in place of nothing, an empty directory or a store.

    Parameters
    ----------
    root : Path
        Its place, links resolved. The caller holds the parent's :func:`directory_lock`.
    objects : mapping
        Content by key.
    lock_key : str
        Key of the lock's file.
    replaced : StoreLock, optional
        The held lock of the store that now stands at ``root`` and is to go.
    durable : bool
        Whether everything is brought to the disk first.

    Raises
    ------
    StoreError
        If it cannot be written; what stood at ``root`` stays.
    """
    temporary = _beside(root, "new")
    lock = None
    with explained(f"create '{root}'"):
        try:
            os.mkdir(temporary)
            _write_objects(temporary, objects, durable)
            lock = StoreLock.acquire(temporary / lock_key, str(root))
            lock.path = root / lock_key  # from here on: an interrupt may come with the renaming
            if replaced is not None:
                old = _beside(root, "old")
                os.rename(root, old)
                try:
                    os.rename(temporary, root)
                except BaseException:
                    os.rename(old, root)
                    raise
            else:
                os.rename(temporary, root)
        except BaseException:
            if lock is not None:
                lock.release()
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if durable:
            sync_directory(root.parent)
        if replaced is not None:
            replaced.forget()
            _condemn(root, old)
    return lock


def exchange(root: Path, made: Path, lock: StoreLock | Lease) -> None:
    """Put a finished store in the place of another one, which goes.

    A kill at any moment leaves one of them at ``root``, or lets :func:`recovered` see to it.

    Parameters
    ----------
    root : Path
        The store that goes, links resolved.
    made : Path
        The finished store beside it.
    lock : StoreLock or Lease
        The lock of the store that goes, held.

    Raises
    ------
    StoreError
        If they cannot be renamed; both then stay. In a bucket, if they cannot be copied; see
        :func:`~sweep.store.replacing.replace_objects`.
    """
    if isinstance(lock, Lease):
        replace_objects(cast(ObjectPath, root), cast(ObjectPath, made), lock)
        return
    with place(root), explained(f"replace '{root}'"):
        old = _beside(root, "old")
        os.rename(root, old)
        try:
            os.rename(made, root)
        except BaseException:
            os.rename(old, root)
            raise
        lock.forget()
        _condemn(root, old)


def recovered(root: Path, *, break_lock: bool = False) -> None:
    """Tidy up after killed creations and exchanges of ``root``, or go on with them.

    Parameters
    ----------
    root : Path
        Where the store is, or should be.
    break_lock : bool
        As in :func:`~sweep.store.open_or_create`; of a store in a bucket.

    Raises
    ------
    StoreError
        If somebody holds the store, or it cannot be changed.
    """
    if is_url(root):
        made = cast(ObjectPath, extension_path(root))
        recover_objects(cast(ObjectPath, root), made, force=break_lock)
    elif root.parent.is_dir():
        with place(root):
            pass


def recover(root: Path) -> None:
    """Undo what killed creations left beside ``root``, and mark what is to be removed.

    The caller holds the parent's :func:`directory_lock`, so whoever made these is gone.

    Raises
    ------
    StoreError
        If the store that was to be overwritten cannot be put back.
    """
    for role, entry in _leftovers(root):
        if role == "old" and not root.exists():
            with explained(f"put '{root}' back from '{entry}'"):
                os.rename(entry, root)
        elif role != "trash":
            _condemn(root, entry)


@contextlib.contextmanager
def place(root: Path) -> Iterator[None]:
    """Hold the directory in which ``root`` stands, tidied up, while ``root`` is opened or made."""
    if not root.parent.is_dir():
        raise StoreError(f"'{root.parent}' is not a directory: '{root.name}' cannot be created")
    try:
        with directory_lock(root.parent):
            recover(root)
            yield
    finally:
        # Not under the lock: a large store takes its time, and two may well remove the same.
        for role, entry in _leftovers(root):
            if role == "trash":
                shutil.rmtree(entry, ignore_errors=True)


def _beside(root: Path, role: str) -> Path:
    return root.with_name(f".{root.name}.sweep-{role}-{secrets.token_hex(4)}")


def _leftovers(root: Path) -> list[tuple[str, Path]]:
    """Return role and path of the directories beside ``root`` that :func:`_beside` named."""
    pattern = re.compile(re.escape(f".{root.name}.sweep-") + r"(new|old|trash)-[0-9a-f]{8}")
    with explained(f"list '{root.parent}'"):
        named = [(pattern.fullmatch(name), root.parent / name) for name in os.listdir(root.parent)]
    found = [(match[1], path) for match, path in named if match is not None]
    return sorted((role, path) for role, path in found if path.is_dir() and not path.is_symlink())


def _condemn(root: Path, directory: Path) -> None:
    """Mark a dead directory for removal: a store half removed must never be put back.

    Where that fails it stays, to be removed another time.
    """
    with contextlib.suppress(OSError):
        os.rename(directory, _beside(root, "trash"))


def _write_objects(directory: Path, objects: Mapping[str, bytes], durable: bool) -> None:
    for parent in sorted({os.path.dirname(key) for key in objects}):
        os.makedirs(directory / parent, exist_ok=True)
    for key, content in objects.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(directory / key, flags, 0o666)
        try:
            write_all(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if durable:
        for path, _, _ in os.walk(directory):
            sync_directory(path)

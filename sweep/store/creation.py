"""Putting a new store in its place at once, and tidying up after creations that were killed.

On a disk a store is built in a directory beside its place, ``.NAME.sweep-new-XXXXXXXX``, and
renamed. One that is to be overwritten is first renamed to ``.NAME.sweep-old-...``, and again, once
the new one is in place, to ``.NAME.sweep-trash-...``. So a kill at any moment leaves one of them
whole, and the names tell the next run, which holds the parent directory's lock, what is left to do:
an ``old`` beside an empty place is put back; anything else of these names is dead and removed.
Nothing but these names is ever removed.

In a bucket nothing can be renamed. A store is written there object by object, its root record last;
one that is to be overwritten loses its root record first, so that in between there is no store to
be taken for a whole one. Its lock is there from before the first object to after the last: objects
with a lock and without a root record are what a killed creation left. A finished store that is to
take another's place is copied within the bucket in the same order, and removed last, its root
record first: what a kill leaves shows what is left to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sweep.errors import StoreError
from sweep.store.address import extension_path
from sweep.store.buckets import ObjectPath
from sweep.store.layout import LOCK_KEY
from sweep.store.lease import Lease
from sweep.store.local_files import explained, open_inside, sync_directory, write_all
from sweep.store.lock import StoreLock, directory_lock
from sweep.store.metadata import ROOT_DOCUMENT
from sweep.store.root import inspect

REQUESTS = 32
"""Objects that are copied at a time."""


def create(
    root: Path,
    objects: Mapping[str, bytes],
    *,
    replaced: StoreLock | None = None,
    durable: bool = False,
) -> StoreLock:
    """Create a store whole, already locked, in place of nothing, an empty directory or a store.

    Parameters
    ----------
    root : Path
        Its place, links resolved. The caller holds it; see :func:`place`.
    objects : mapping
        Content by key.
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
            lock = StoreLock.acquire(temporary / LOCK_KEY, str(root))
            lock.path = root / LOCK_KEY  # from here on: an interrupt may come with the renaming
            _put_in_place(temporary, root, replaced)
        except BaseException:
            if lock is not None:
                lock.release()
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if durable:
            sync_directory(root.parent)
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
        If they cannot be renamed; both then stay. In a bucket, if an object cannot be copied or
        the lock is lost; :func:`recovered` goes on from there.
    """
    if isinstance(root, ObjectPath) and isinstance(made, ObjectPath) and isinstance(lock, Lease):
        _copy_over(root, made, lock)
    elif isinstance(lock, StoreLock):
        with place(root), explained(f"replace '{root}'"):
            _put_in_place(made, root, lock)


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
    if isinstance(root, ObjectPath):
        _recover_objects(root, ObjectPath(str(extension_path(root))), force=break_lock)
    elif root.parent.is_dir():
        with place(root):
            pass


# ---------------------------------------------------------------------------- on a disk


@contextlib.contextmanager
def place(root: Path) -> Iterator[None]:
    """Hold the directory in which ``root`` stands, tidied up, while ``root`` is opened or made.

    Raises
    ------
    StoreError
        If there is no such directory, or the store that was to be overwritten cannot be put back.
    """
    if not root.parent.is_dir():
        raise StoreError(f"'{root.parent}' is not a directory: '{root.name}' cannot be created")
    try:
        with directory_lock(root.parent):
            # Whoever made what is left here held the same lock, and is gone.
            for role, entry in _leftovers(root):
                if role == "old" and not root.exists():
                    with explained(f"put '{root}' back from '{entry}'"):
                        os.rename(entry, root)
                elif role != "trash":
                    _condemn(root, entry)
            yield
    finally:
        # Not under the lock: a large store takes its time, and two may well remove the same.
        for role, entry in _leftovers(root):
            if role == "trash":
                shutil.rmtree(entry, ignore_errors=True)


def _put_in_place(made: Path, root: Path, replaced: StoreLock | None) -> None:
    """Rename a store to its place, and the one that was there, if any, out of it."""
    if replaced is None:
        os.rename(made, root)
        return
    old = _beside(root, "old")
    os.rename(root, old)
    try:
        os.rename(made, root)
    except BaseException:
        os.rename(old, root)
        raise
    replaced.forget()
    _condemn(root, old)


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
        descriptor = open_inside(directory, key, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_all(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    if durable:
        for path, _, _ in os.walk(directory):
            sync_directory(path)


# ---------------------------------------------------------------------------- in a bucket


def check_vacant(root: ObjectPath) -> None:
    """Refuse a place without a root record where other objects are.

    Raises
    ------
    StoreError
        They are not what a killed creation left.
    """
    with explained(f"open '{root}'"):
        first = next(root.below(), None)
        if first is not None and not (root / LOCK_KEY).exists():
            raise StoreError(f"'{root}' holds other objects, such as '{first}', and no store")


def fill(root: ObjectPath, objects: Mapping[str, bytes]) -> None:
    """Write a new store in place of whatever is at ``root``; the caller holds its lock.

    Raises
    ------
    StoreError
        If it cannot be written. A store that was there is lost.
    """
    try:
        with explained(f"create '{root}'"):
            root.remove([ROOT_DOCUMENT])
            root.remove([key for key in root.below() if key != LOCK_KEY])
            for key, content in objects.items():
                (root / key).write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            root.remove([key for key in root.below() if key != LOCK_KEY])
        raise


def _copy_over(root: ObjectPath, made: ObjectPath, lock: Lease) -> None:
    """Copy a finished store over another one, or over what a killed copying left of it."""
    with explained(f"replace '{root}'", "; the same command continues"):
        if not (made / ROOT_DOCUMENT).exists():
            raise StoreError(f"'{made}' is gone: another process removed it")
        new = [key for key in made.below() if key not in (LOCK_KEY, ROOT_DOCUMENT)]
        lock.check()
        root.remove([ROOT_DOCUMENT])
        kept = {*new, LOCK_KEY}
        root.remove([key for key in root.below() if key not in kept])
        with ThreadPoolExecutor(REQUESTS, thread_name_prefix="sweep-copy") as pool:
            copies = [pool.submit((made / key).copy_to, root / key) for key in new]
            try:
                for copy in copies:
                    copy.result()
            finally:
                pool.shutdown(cancel_futures=True)
        lock.check()
        (made / ROOT_DOCUMENT).copy_to(root / ROOT_DOCUMENT)
        _clear(made)


def _recover_objects(root: ObjectPath, made: ObjectPath, *, force: bool) -> None:
    """Go on with an exchange that was killed, or tidy up after one that was as good as done."""
    with explained(f"open '{root}'"):
        if next(made.below(), None) is None or _left_to_do(root, made) is None:
            return
        lock = Lease.acquire(root / LOCK_KEY, str(root), force=force)
        try:
            # Only what is left to do now counts: nobody else changes either from here on.
            if (left := _left_to_do(root, made)) == "clear":
                _clear(made)
            elif left == "replace":
                _copy_over(root, made, lock)
        finally:
            lock.release()


def _left_to_do(root: ObjectPath, made: ObjectPath) -> str | None:
    """Return what a killed exchange left to do; ``None`` where ``made`` is being built."""
    if (root / ROOT_DOCUMENT).exists():
        if not (made / ROOT_DOCUMENT).exists():
            return "clear"
        return "clear" if inspect(root).binding == inspect(made).binding else None
    if (made / ROOT_DOCUMENT).exists() and inspect(made).is_finished:
        return "replace"
    return None


def _clear(made: ObjectPath) -> None:
    made.remove([ROOT_DOCUMENT])
    made.remove(list(made.below()))

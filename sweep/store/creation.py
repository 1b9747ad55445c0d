"""Putting a new store in its place at once, and tidying up after creations that were killed.

On a disk a store is built in a directory beside its place, ``.NAME.sweep-new-XXXXXXXX``, and
renamed. One that is to be overwritten is first renamed to ``.NAME.sweep-old-...``, and once the new
one is in place to ``.NAME.sweep-trash-...``. So a kill at any moment leaves one of them whole, and
the names tell the next run, which locks the parent directory, what is left to do: an ``old`` beside
an empty place is put back; any other directory of these names is removed, and nothing else.

In a bucket nothing can be renamed. A store is written there object by object, its root record last;
one that is to be overwritten loses its root record first, so that in between there is no store to
be taken for a whole one. The lock is there before the first object and after the last: objects with
a lock and without a root record are what a killed creation left. A finished store that replaces
another one is copied within the bucket in the same order, and removed last, its root record first:
what a kill leaves shows what is left to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.store.buckets import REQUESTS, BucketFiles, Files, ObjectPath, extension_path, files_of
from sweep.store.layout import (
    CHUNK_INDEX,
    LOCK_KEY,
    ROOT_DOCUMENT,
    Document,
    StoreLayout,
    encoded,
    group_document,
)
from sweep.store.local_files import LocalFiles, explained, write_tree
from sweep.store.lock import Lock, StoreLock, directory_lock, holding
from sweep.store.root import STORE_VERSION, inspect, root_document


def static_objects(layout: StoreLayout, run: Mapping[str, Any]) -> dict[str, bytes]:
    """Return everything that a store has before its first chunk, by key.

    Parameters
    ----------
    layout : StoreLayout
        What the store will hold.
    run : mapping
        The root attribute ``run``: times and what else may differ between two equal stores.

    Returns
    -------
    dict
        Documents, coordinates and static variables. The root document is the last: where a tree
        cannot be renamed into place as a whole, writing it last makes the store appear at once.
    """
    index = layout.chunk_index()
    members: dict[str, Document] = {CHUNK_INDEX: index.document()}
    objects = index.files_in()
    for group in layout.groups:
        arrays = {array.name: array.document() for array in group.arrays}
        objects[f"{group.name}/{ROOT_DOCUMENT}"] = encoded(group_document(group.attributes, arrays))
        members[group.name] = group_document(group.attributes, {})
        members |= {f"{group.name}/{name}": document for name, document in arrays.items()}
        for array in group.arrays:
            objects |= array.files_in(group.name)
    attributes = {
        **layout.attrs,
        "sweep_store_version": STORE_VERSION,
        "record": layout.record,
        "layout_sha256": layout.fingerprint,
        "run": run,
    }
    objects[ROOT_DOCUMENT] = encoded(root_document(attributes, members))
    return objects


def exchange(root: Path, made: Path, lock: Lock) -> None:
    """Replace a store by a finished one.

    A kill at any moment leaves one of them at ``root``, or lets :func:`recovered` see to it.

    Parameters
    ----------
    root : Path
        The store to be replaced, links resolved.
    made : Path
        The finished store beside it.
    lock : StoreLock or Lease
        The held lock of the store to be replaced.

    Raises
    ------
    StoreError
        If they cannot be renamed; both then stay. In a bucket, if an object cannot be copied or
        the lock is lost; :func:`recovered` then completes the replacement.
    """
    files, source = files_of(root), files_of(made)
    if isinstance(files, BucketFiles) and isinstance(source, BucketFiles):
        _copy_over(files, source, lock)
        return
    with place(root), explained(f"replace '{root}'"):
        _put_in_place(made, root, lock)


def recovered(root: Path, *, break_lock: bool = False) -> None:
    """Tidy up after killed creations and exchanges of ``root``, or complete them.

    Parameters
    ----------
    root : Path
        The place of the store.
    break_lock : bool
        As in :func:`~sweep.store.writer.open_or_create`; for a store in a bucket.

    Raises
    ------
    StoreError
        If another process holds the store, or it cannot be changed.
    """
    files, made = files_of(root), files_of(extension_path(root))
    if isinstance(files, BucketFiles) and isinstance(made, BucketFiles):
        _recover_objects(files, made, break_lock)
    elif root.parent.is_dir():
        with place(root):
            pass


def is_vacant(files: Files) -> bool:
    """Return whether a store can be created: nothing is there, or an empty directory.

    In a bucket there may be what a killed creation left: objects with a lock, but no root record.

    Raises
    ------
    StoreError
        A bucket has other objects there, but no root record.
    """
    root = files.root
    with explained(f"open '{root}'"):
        if isinstance(root, Path):
            return not os.path.lexists(root) or (root.is_dir() and not any(root.iterdir()))
        if files.exists(ROOT_DOCUMENT):
            return False
        first = next(files.keys(), None)
    if first is not None and not files.exists(LOCK_KEY):
        raise StoreError(f"'{root}' holds other objects, such as '{first}', and no store")
    return True


def create(files: Files, objects: Mapping[str, bytes], lock: Lock | None) -> Lock:
    """Create a store and return its lock, held.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        Its place, which the caller holds; see :func:`place`.
    objects : mapping
        Content by key.
    lock : StoreLock or Lease, optional
        The held lock of the store that is to be replaced; in a bucket always.

    Raises
    ------
    StoreError
        If it cannot be written. A store on a disk then stays; one in a bucket is lost.
    """
    with explained(f"create '{files.root}'"):
        if isinstance(files, LocalFiles):
            return _create(files, objects, lock)
        assert lock is not None
        try:
            _fill(files, objects, lambda key: files.write(key, objects[key]), lock)
        except BaseException:
            with contextlib.suppress(OSError, StoreError):
                _clear(files, {LOCK_KEY})
            raise
        return lock


# ---------------------------------------------------------------------------- on a disk


def _create(files: LocalFiles, objects: Mapping[str, bytes], replaced: Lock | None) -> StoreLock:
    """Write a store whole, already locked, and put it in its place."""
    root, lock = files.root, None
    temporary = _beside(root, "new")
    try:
        write_tree(temporary, objects)
        lock = StoreLock.acquire(temporary / LOCK_KEY, str(root))
        lock.path = root / LOCK_KEY  # from here on: an interrupt may come with the renaming
        _put_in_place(temporary, root, replaced)
    except BaseException:
        if lock is not None:
            lock.release()
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return lock


@contextlib.contextmanager
def place(root: Path | ObjectPath) -> Iterator[None]:
    """Lock and tidy up the directory of ``root`` while ``root`` is opened or created.

    Raises
    ------
    StoreError
        If there is no such directory, or the store that was to be overwritten cannot be put back.
    """
    if isinstance(root, ObjectPath):
        yield  # nothing is renamed there
        return
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


def _put_in_place(made: Path, root: Path, replaced: Lock | None) -> None:
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


# ---------------------------------------------------------------------------- in a bucket


def _fill(
    files: BucketFiles, keys: Iterable[str], write: Callable[[str], object], lock: Lock
) -> None:
    """Write objects in place of whatever is there, the root record last."""
    new = [key for key in keys if key not in (LOCK_KEY, ROOT_DOCUMENT)]
    lock.check()
    _clear(files, {*new, LOCK_KEY})
    with ThreadPoolExecutor(REQUESTS, thread_name_prefix="sweep-write") as pool:
        for _ in pool.map(write, new):
            pass
    lock.check()
    write(ROOT_DOCUMENT)


def _copy_over(files: BucketFiles, made: BucketFiles, lock: Lock) -> None:
    """Copy a finished store over another one, or over what a killed copying left of it."""
    with explained(f"replace '{files.root}'", "; the same command continues"):
        if not made.exists(ROOT_DOCUMENT):
            raise StoreError(f"'{made.root}' is gone: another process removed it")
        _fill(files, made.keys(), lambda key: files.link(key, made, key), lock)
        _clear(made)


def _recover_objects(files: BucketFiles, made: BucketFiles, force: bool) -> None:
    """Complete an exchange that was killed, or tidy up after it."""
    with explained(f"open '{files.root}'"):
        if next(made.keys(), None) is None or _left_to_do(files, made) is None:
            return
        with holding(files.root, files.root, force) as lock:
            # Only what is left to do now counts: nobody else changes either from here on.
            if (left := _left_to_do(files, made)) == "clear":
                _clear(made)
            elif left == "replace":
                _copy_over(files, made, lock)


def _left_to_do(files: BucketFiles, made: BucketFiles) -> str | None:
    """Return what a killed exchange left to do; ``None`` where ``made`` is being built."""
    is_made = made.exists(ROOT_DOCUMENT)
    if files.exists(ROOT_DOCUMENT):
        is_same = is_made and inspect(files.root).binding == inspect(made.root).binding
        return "clear" if is_same or not is_made else None
    return "replace" if is_made and inspect(made.root).is_finished else None


def _clear(files: BucketFiles, kept: Collection[str] = ()) -> None:
    """Remove a store's objects, its root record first."""
    files.remove([ROOT_DOCUMENT])
    files.remove([key for key in files.keys() if key not in kept])

"""Putting a finished store in a bucket in the place of another one.

Nothing can be renamed there: the objects are copied, within the bucket, one by one. The older store
loses its root record first and the newer one's is copied last, so that in between there is no store
to be taken for a whole one. The finished store beside it goes only after that, and its root record
first, so whatever a kill leaves tells what is left to do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sweep.errors import StoreError
from sweep.store.layout import LOCK_KEY
from sweep.store.lease import Lease
from sweep.store.local import explained
from sweep.store.metadata import ROOT_DOCUMENT
from sweep.store.objects import ObjectPath
from sweep.store.reading import inspect

__all__ = ["recover_objects", "replace_objects"]

REQUESTS = 32
"""Objects that are copied at a time."""


def replace_objects(root: ObjectPath, made: ObjectPath, lock: Lease) -> None:
    """Put a finished store in the place of another one, which goes.

    Parameters
    ----------
    root : ObjectPath
        The store that goes, or what a killed replacement left of it.
    made : ObjectPath
        The finished store.
    lock : Lease
        The lock of ``root``, held.

    Raises
    ------
    StoreError
        If an object cannot be read or written, or the lock is lost; :func:`recover_objects` goes
        on from there.
    """
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


def recover_objects(root: ObjectPath, made: ObjectPath, *, force: bool = False) -> None:
    """Go on with a replacement that was killed, or tidy up after one that was as good as done.

    Parameters
    ----------
    root : ObjectPath
        The place of the store.
    made : ObjectPath
        Where the other one is built.
    force : bool
        As in :meth:`Lease.acquire`.

    Raises
    ------
    StoreError
        If somebody holds the store, or the bucket does not answer.
    """
    with explained(f"open '{root}'"):
        if not made.is_dir() or _left_to_do(root, made) is None:
            return
        lock = Lease.acquire(root / LOCK_KEY, str(root), force=force)
        try:
            # Only what is left to do now counts: nobody else changes either from here on.
            if (left := _left_to_do(root, made)) == "clear":
                _clear(made)
            elif left == "replace":
                replace_objects(root, made, lock)
        finally:
            lock.release()


def _left_to_do(root: ObjectPath, made: ObjectPath) -> str | None:
    """Return what a killed replacement left to do; ``None`` where ``made`` is being built."""
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

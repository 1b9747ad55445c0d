"""One run at a time: the lock of a store.

On a disk the lock is a file that names its owner, held with ``flock``, which the system releases
when the process dies, however it dies. So a lock that can be taken although it names an owner is
stale. The name serves the message, and the cases in which ``flock`` alone does not decide:

* another host's lock is never taken: some network file systems keep ``flock`` to one host;
* without ``flock`` the file is created exclusively, and one that exists is never taken.

``flock`` belongs to the open file, which a forked child shares: a child closes its copy at once, or
it would hold the lock after its parent's death.

In a bucket the lock is a lease: an object that its owner renews as long as it lives. A lock whose
content has not changed for :data:`LEASE_S` is taken over; no clock is compared with another. Taking
and renewing are conditional writes, of which the bucket lets one succeed. An owner that was cut off
for too long stops before it adds anything to the journal.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sweep.errors import StoreError
from sweep.store.buckets import BucketFiles, ChangedError, Mark, ObjectPath
from sweep.store.layout import LOCK_KEY, parsed
from sweep.store.local_files import explained, open_inside, write_all

LEASE_S = 60.0
"""How long a lock in a bucket must stay unchanged before it counts as abandoned [s]."""

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL}
_PATIENCE_S = 30.0
_LARGEST = 1 << 16  # bytes; more than a lock has


def acquire_lock(
    root: Path | ObjectPath, store: str | os.PathLike[str], force: bool = False
) -> Lock:
    """Take the lock of a store, also from an owner that is gone.

    Parameters
    ----------
    root : Path or ObjectPath
        The store's place, links resolved.
    store : path
        The store, as the user named it.
    force : bool
        Take the lock also from an owner of unknown state, and in a bucket without waiting for a
        sign of life. An owner that is alive on this machine keeps it.

    Raises
    ------
    StoreError
        If another run holds it, or if it cannot be written.
    """
    if isinstance(root, ObjectPath):
        return Lease.acquire(BucketFiles(root), str(store), force=force)
    return StoreLock.acquire(root / LOCK_KEY, str(store), force=force)


@contextlib.contextmanager
def holding(
    root: Path | ObjectPath, store: str | os.PathLike[str], force: bool = False
) -> Iterator[Lock]:
    """Hold the lock of a store meanwhile; see :func:`acquire_lock`."""
    lock = acquire_lock(root, store, force)
    try:
        yield lock
    finally:
        lock.release()


class StoreLock:
    """The held lock of a store on a disk; made by :meth:`acquire`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        _held.add(self)

    @classmethod
    def acquire(cls, path: Path, store: str, *, force: bool = False) -> StoreLock:
        """Take the lock whose file is ``path``; see :func:`acquire_lock`."""
        with explained(f"lock '{store}'"):
            while (lock := cls._attempt(path, store, force)) is None:
                pass  # released between our opening and locking it: try the new file
        return lock

    @classmethod
    def _attempt(cls, path: Path, store: str, force: bool) -> StoreLock | None:
        root, key = path.parent.parent, f"{path.parent.name}/{path.name}"
        is_new = True  # without flock that alone decides
        try:
            descriptor = open_inside(root, key, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            is_new = False
            try:
                descriptor = open_inside(root, key, os.O_RDWR)
            except FileNotFoundError:
                return None
        try:
            state = _flock(descriptor)
            # Empty if nobody wrote it, or died in the middle of it.
            owner = parsed(os.read(descriptor, _LARGEST)) or {}
            os.lseek(descriptor, 0, os.SEEK_SET)
            advice = f"only if it is surely gone, remove '{path}' or give --break-lock"
            if state is None or (state is False and not is_new and not force):
                raise _refusal(store, owner, advice)
            if not _is_current(path, descriptor):
                os.close(descriptor)
                return None
            alive = is_alive_here(owner, is_free=True) if owner else False
            if alive or (alive is None and not force):
                raise _refusal(store, owner, advice)
            os.ftruncate(descriptor, 0)
            write_all(descriptor, json.dumps(this_process()).encode() + b"\n")
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def check(self) -> None:
        """Do nothing: the system keeps the lock as long as the process lives."""

    def release(self) -> None:
        """Remove the file and release the lock; releasing twice does no harm."""
        if self._descriptor >= 0:
            # Removed while still held, or a newcomer's lock could be removed.
            with contextlib.suppress(OSError):
                if _is_current(self.path, self._descriptor):
                    os.unlink(self.path)
            self.forget()

    def forget(self) -> None:
        """Release a lock whose file is removed or moved with its directory."""
        # Noted before it is closed: an interrupt in between must not have it closed twice.
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if descriptor >= 0:
            os.close(descriptor)


class Lease:
    """The held lock of a store in a bucket; made by :meth:`acquire`."""

    def __init__(self, files: BucketFiles, store: str) -> None:
        self._files, self._store, self._pid = files, store, os.getpid()
        self._owner = {**this_process(), "token": secrets.token_hex(8)}
        self._renewals = 0
        self._mark: Mark = {}
        self._sound = time.monotonic()  # when it was surely ours
        self._lost = False
        self._stop = Event()

    @classmethod
    def acquire(cls, files: BucketFiles, store: str, *, force: bool = False) -> Lease:
        """Take the lock of a store; wait to see whether one that is held is still renewed."""
        lease = cls(files, store)
        seen: Mark | None = None
        since = 0.0
        with explained(f"lock '{store}'"):
            while not lease._create():
                with contextlib.suppress(FileNotFoundError, ChangedError):  # try again
                    owner, mark = lease._read()
                    if lease._is_ours(owner, mark):
                        break
                    lives = is_alive_here(owner)
                    if lives or (not force and seen is not None and mark != seen):
                        raise _refusal(store, owner, "--break-lock takes it over")
                    if mark != seen:
                        seen, since = mark, time.monotonic()
                    if force or lives is False or time.monotonic() - since > LEASE_S:
                        lease._write(over=mark)
                        break
                    time.sleep(LEASE_S / 50)
        Thread(target=lease._renew, name="sweep-lease", daemon=True).start()
        return lease

    def check(self) -> None:
        """Make sure that the lock is still ours.

        Raises
        ------
        StoreError
            It was taken over, or could not be renewed for too long.
        """
        if self._lost or time.monotonic() - self._sound > 0.8 * LEASE_S:
            self._lost = True
            raise StoreError(
                f"'{self._store}': this run was cut off too long and lost the store's lock; "
                "the same command continues"
            )

    def release(self) -> None:
        """Remove the lock, if it is still ours; releasing twice does no harm."""
        if not self._stop.is_set() and os.getpid() == self._pid:
            self.forget()
            with contextlib.suppress(OSError, StoreError):
                if self._is_ours(*self._read()):
                    self._files.remove([LOCK_KEY])

    def forget(self) -> None:
        """Stop renewing the lock and leave its object in place."""
        self._stop.set()

    def _renew(self) -> None:
        while not self._stop.wait(LEASE_S / 4):
            try:
                self._write(over=self._mark)
            except (ChangedError, FileNotFoundError):
                try:
                    is_ours = self._is_ours(*self._read())
                except OSError:
                    is_ours = False
                if not is_ours:
                    self._lost = True
                    return
            except OSError:
                pass  # the next one may succeed; check() knows when it is too late

    def _create(self) -> bool:
        try:
            self._write()
        except FileExistsError:
            return False
        return True

    def _write(self, over: Mark | None = None) -> None:
        started = time.monotonic()
        content = json.dumps({**self._owner, "renewals": self._renewals}).encode()
        self._renewals += 1
        self._mark = self._files.write(LOCK_KEY, content, over=over, new=over is None)
        self._sound = started

    def _read(self) -> tuple[Mapping[str, Any], Mark]:
        content, mark = self._files.read(LOCK_KEY)
        return parsed(content[:_LARGEST]) or {}, mark

    def _is_ours(self, owner: Mapping[str, Any], mark: Mark) -> bool:
        """Return whether a lock is ours, perhaps written by a request that was repeated."""
        is_ours = bool(owner.get("token") == self._owner["token"])
        self._mark = mark if is_ours else self._mark
        return is_ours


Lock = StoreLock | Lease


@contextlib.contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory while entries of it are renamed; waits for another process that has it.

    The directory itself is locked, so nothing is left behind. Where that is impossible (some
    network file systems) the renames' own atomicity has to do.

    Raises
    ------
    StoreError
        If the directory cannot be read, or another process keeps it for half a minute.
    """
    with explained(f"open '{directory}'"):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _PATIENCE_S
        while _flock(descriptor) is None:
            if time.monotonic() > end:
                raise StoreError(f"another process keeps '{directory}' locked; try again later")
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int) -> bool | None:
    """Return ``True`` if locked now, ``None`` if somebody holds it, ``False`` if unsupported."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _is_current(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def this_process() -> dict[str, Any]:
    """Return what names this process in a lock."""
    pids = None
    with contextlib.suppress(OSError):  # the system's list of processes: a container has its own
        pids = os.readlink("/proc/self/ns/pid")
    return {
        "pid": os.getpid(),
        "start": process_start(os.getpid()),
        "host": socket.gethostname(),
        "boot": (_text("/proc/sys/kernel/random/boot_id") or "").strip() or None,
        "pids": pids,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def process_start(pid: int) -> str | None:
    """Return when a living process began, in the system's own ticks; ``None`` if unknown."""
    text = _text(f"/proc/{pid}/stat")
    # Field 22; the name in parentheses may contain spaces.
    return None if text is None else text.rpartition(")")[2].split()[19]


def _text(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="latin-1")
    return None


def _lives(owner: Mapping[str, Any]) -> bool:
    pid = owner.get("pid")
    if type(pid) is not int or not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it exists and belongs to another user
    return process_start(pid) == owner.get("start")


def is_alive_here(owner: Mapping[str, Any], is_free: bool = False) -> bool | None:
    """Return whether an owner is a living process of this machine; ``None`` if unknown.

    ``is_free``: its lock could be taken with ``flock``. Then it is gone if it is this very process,
    or ran on this host before a restart; elsewhere ``flock`` may not have reached us.
    """
    this = this_process()
    same = {name for name in ("boot", "host", "pids") if owner.get(name) == this[name]}
    if this["boot"] is None:
        return _lives(owner) if is_free and "host" in same else None
    if not is_free:
        return _lives(owner) if len(same) == 3 else None
    if "boot" not in same:
        return False if "host" in same else None
    is_self = (owner.get("pid"), owner.get("start")) == (this["pid"], this["start"])
    return not is_self and _lives(owner)


def _refusal(store: str, owner: Mapping[str, Any], advice: str) -> StoreError:
    """Return the error of a store that another run holds."""
    pid, host, since = (str(owner.get(name, "?"))[:200] for name in ("pid", "host", "since"))
    since = f" since {since}" if "since" in owner else ""
    return StoreError(
        f"'{store}' is being written by process {pid} on host '{host}'{since}: "
        f"wait for it or end it; {advice}"
    )


_held: set[StoreLock] = set()


@atexit.register
def release_all() -> None:
    """Release every lock of this process, which is about to end.

    An interrupt between a lock's acquisition and the block that would release it leaves it held.
    """
    for lock in list(_held):
        lock.release()


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)

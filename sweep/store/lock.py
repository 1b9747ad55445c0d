"""One run at a time: the lock of a store.

The lock is a file that names its owner, held with ``flock``, which the system releases when the
process dies, however it dies. So a lock that can be taken although it names an owner is stale.
The name in it serves the message, and those cases in which ``flock`` alone does not decide:

* another host's lock: some network file systems keep ``flock`` to one host, so it is never taken;
* no ``flock`` at all: the file is then created exclusively, and one that exists is never taken.

``flock`` belongs to the open file, which a forked child shares: a child closes its copy at once, or
it would hold the lock after its parent's death.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweep.errors import StoreError
from sweep.store.local_files import explained, open_inside, write_all

try:
    import fcntl
except ImportError:  # not a POSIX system: the exclusive creation alone protects
    flock: Callable[[int], None] | None = None
else:

    def flock(descriptor: int) -> None:
        """Lock an open file, or raise ``BlockingIOError``."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL}
_PATIENCE_S = 30.0

LARGEST = 1 << 16
"""More than a lock's file has [B]."""


class StoreLock:
    """The held lock of one store; made by :meth:`acquire`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        _held.add(self)

    @classmethod
    def acquire(cls, path: Path, store: str, *, force: bool = False) -> StoreLock:
        """Take the lock at ``path``, also from an owner that is gone.

        Parameters
        ----------
        path : Path
            The lock's file.
        store : str
            Name of the store, for the message.
        force : bool
            Take it also from an owner of whom nothing is known. One that is alive here keeps it.

        Raises
        ------
        StoreError
            If another run holds it, or if the file cannot be written.
        """
        with explained(f"lock '{store}'"):
            while (lock := cls._attempt(path, store, force)) is None:
                pass  # released between our opening and locking it: try the new file
        return lock

    @classmethod
    def _attempt(cls, path: Path, store: str, force: bool) -> StoreLock | None:
        try:
            descriptor, created = _opened(path)
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise
            return None
        try:
            state = _flock(descriptor)
            owner = parsed_owner(os.read(descriptor, LARGEST))
            os.lseek(descriptor, 0, os.SEEK_SET)
            advice = f"only if it is surely gone, remove '{path}' or give --break-lock"
            if state is None or (state is False and not created and not force):
                raise refusal(store, owner, advice)
            if not _is_current(path, descriptor):
                os.close(descriptor)
                return None
            if owner and not _is_stale(owner) and (not force or is_alive_here(owner)):
                raise refusal(store, owner, advice)
            os.ftruncate(descriptor, 0)
            write_all(descriptor, json.dumps(this_process()).encode() + b"\n")
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        """Remove the file and let go; releasing twice does no harm."""
        if self._descriptor >= 0:
            # Removed while still held, or a newcomer's lock could be removed.
            with contextlib.suppress(OSError):
                if _is_current(self.path, self._descriptor):
                    os.unlink(self.path)
            self.forget()

    def forget(self) -> None:
        """Let go of a lock whose file is removed or moved with its directory."""
        # Noted before it is closed: an interrupt in between must not have it closed twice.
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if descriptor >= 0:
            os.close(descriptor)


@contextlib.contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Hold a directory while entries of it are renamed; waits for whoever holds it.

    The directory itself is locked, so nothing is left behind. Where that is impossible (some
    network file systems) the renames' own atomicity has to do.

    Raises
    ------
    StoreError
        If the directory cannot be read, or somebody holds it for half a minute.
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


def process_start(pid: int) -> str | None:
    """Return when a living process began, in the system's own ticks; ``None`` if unknown."""
    text = _if_readable(lambda: Path(f"/proc/{pid}/stat").read_text(encoding="latin-1"))
    # Field 22; the name in parentheses may hold spaces.
    return None if text is None else text.rpartition(")")[2].split()[19]


def _opened(path: Path) -> tuple[int, bool]:
    """Open the lock, and say whether we created it: without ``flock`` that alone decides."""
    root, key = path.parent.parent, f"{path.parent.name}/{path.name}"
    try:
        return open_inside(root, key, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
    except FileExistsError:
        return open_inside(root, key, os.O_RDWR), False


def _flock(descriptor: int) -> bool | None:
    """Return ``True`` if locked now, ``None`` if somebody holds it, ``False`` if unsupported."""
    if flock is None:
        return False
    try:
        flock(descriptor)
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


def parsed_owner(content: bytes) -> dict[str, Any]:
    """Return who wrote a lock; empty if nobody did, or died in the middle of it."""
    try:
        owner = json.loads(content[:LARGEST])
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def this_process() -> dict[str, Any]:
    """Return what names this process in a lock."""
    pid, boot = os.getpid(), Path("/proc/sys/kernel/random/boot_id")
    return {
        "pid": pid,
        "start": process_start(pid),
        "host": socket.gethostname(),
        "boot": _if_readable(lambda: boot.read_text().strip()),
        # The system's list of processes: a container has one of its own.
        "pids": _if_readable(lambda: os.readlink("/proc/self/ns/pid")),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _if_readable(read: Callable[[], str]) -> str | None:
    try:
        return read()
    except OSError:
        return None


def _is_stale(owner: Mapping[str, Any]) -> bool:
    """Whether a lock on which ``flock`` succeeded is left over from ``owner``."""
    this = this_process()
    same_boot = owner.get("boot") == this["boot"] and this["boot"] is not None
    if not same_boot:
        # The same host after a restart; elsewhere flock may not have reached us.
        return owner.get("host") == this["host"] and not (this["boot"] is None and _lives(owner))
    is_self = (owner.get("pid"), owner.get("start")) == (this["pid"], this["start"])
    return is_self or not _lives(owner)


def _lives(owner: Mapping[str, Any]) -> bool:
    pid = owner.get("pid")
    if type(pid) is not int or not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it exists and is somebody else's
    return process_start(pid) == owner.get("start")


def is_alive_here(owner: Mapping[str, Any]) -> bool | None:
    """Whether a lock's owner is a living process of this machine; ``None`` if that is unknown."""
    this = this_process()
    if this["boot"] is None or any(owner.get(k) != this[k] for k in ("boot", "host", "pids")):
        return None
    return _lives(owner)


def refusal(store: str, owner: Mapping[str, Any], advice: str) -> StoreError:
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
    """Let go of every lock of this process, which is about to end.

    An interrupt between a lock's acquisition and the block that would release it leaves it held.
    """
    for lock in list(_held):
        lock.release()


def _forget_in_child() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)

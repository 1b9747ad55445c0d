"""Files of a store on a local or shared file system: the only place that writes chunks to disk.

An object becomes visible whole or not at all: it is written under another name beside its final
one and renamed. (Beside it, not in a directory of its own: renaming across directories costs half
as much again for small files.) :class:`sweep.store.objects.ObjectFiles` does the same with objects
in a bucket.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import StoreError

__all__ = ["LocalFiles", "disk_bytes", "explained", "extension_path", "sync_directory", "write_all"]

_PARTIAL = ".partial"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EFBIG: "the file is larger than allowed",
}


def disk_bytes(path: str | os.PathLike[str]) -> int:
    """Return how many bytes a user may still write where ``path`` is or will be."""
    place = Path(os.path.realpath(path))
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


@contextlib.contextmanager
def explained(action: str, advice: str = "") -> Iterator[None]:
    """Turn an operating system's error into a :class:`StoreError` of one line."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise StoreError(f"cannot {action}: {reason}{advice}") from error


def extension_path(root: Path) -> Path:
    """Return where the store is built that is to take the place of the one at ``root``.

    Always the same, so that an interrupted extension is found again; no name that is tidied up.
    """
    return root.with_name(f".{root.name}.sweep-extended")


@dataclass(frozen=True)
class LocalFiles:
    """The directory of one store. Picklable, and safe to use from several threads and processes.

    Parameters
    ----------
    root : Path
        The store's directory.
    durable : bool
        Whether an object is on the disk, and not only in the system's cache, when ``put`` returns.
        Killed processes lose nothing without it; a power failure may.
    """

    root: Path
    durable: bool = False

    def put(self, key: str, *parts: bytes) -> None:
        """Write the joined ``parts`` as ``key``, whole or not at all.

        Raises
        ------
        StoreError
            If the file cannot be written; what was there before stays.
        """
        final = os.path.join(self.root, key)
        # Never the same name twice: a worker that outlived its run may write the same chunk.
        partial = f"{final}.{os.getpid():x}-{secrets.token_hex(6)}{_PARTIAL}"
        with explained(f"write '{final}'", "; the same command continues from what is finished"):
            try:
                descriptor = _created(partial)
                try:
                    for part in parts:
                        write_all(descriptor, part)
                    if self.durable:
                        os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(partial, final)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(partial)
                raise
            if self.durable:
                sync_directory(os.path.dirname(final))

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``; raises ``FileNotFoundError`` without it."""
        return (self.root / key).read_bytes()

    def make_place(self, key: str) -> None:
        """Make the directories in which ``key`` lies; raises ``OSError`` if that is impossible."""
        os.makedirs(os.path.dirname(self.root / key), exist_ok=True)

    def remove(self, keys: Collection[str]) -> None:
        """Remove files, none of which need be there.

        Raises
        ------
        StoreError
            If one cannot be removed.
        """
        with explained(f"change '{self.root}'"):
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.root / key)

    def remove_partial(self) -> None:
        """Remove what killed writers left half-written.

        Raises
        ------
        StoreError
            If the directory cannot be changed.
        """
        with explained(f"clean '{self.root}'"):
            for directory, _, names in os.walk(self.root):
                for name in names:
                    if name.endswith(_PARTIAL):
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(os.path.join(directory, name))


def _created(path: str) -> int:
    """Open a new file; its directory is made if just that is missing, never a whole store."""
    try:
        return os.open(path, _NEW_FILE, 0o666)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(path))
        return os.open(path, _NEW_FILE, 0o666)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``; the system may take it in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Bring a directory's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

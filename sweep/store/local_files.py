"""Files of a store on a local or shared file system.

A file appears whole or not at all: it is written under another name in the same directory and then
renamed. :class:`sweep.store.buckets.BucketFiles` has the same methods for objects in a bucket.

A store may come from a stranger, so no link below its root is followed, and only regular files are
opened.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import StoreError

_PARTIAL = ".partial"
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_FOREIGN = "a link or a special file, which no store has"

LARGEST_FILE = 2**31 + 2**20
"""More than any chunk or document has [B]; journals are read line by line."""

CONTINUES = "; the same command continues from what is finished"

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EFBIG: "the file is larger than allowed",
}


@contextlib.contextmanager
def explained(action: str, advice: str = "") -> Iterator[None]:
    """Turn an operating system's error into a :class:`StoreError` of one line."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
        raise StoreError(f"cannot {action}: {reason}{advice}") from error


def open_inside(root: str | os.PathLike[str], key: str, flags: int) -> int:
    """Open a regular file of a store without following a link below the store's root.

    Parameters
    ----------
    root : path
        The store's directory, links resolved.
    key : str
        The path of the file in the store.
    flags : int
        As for :func:`os.open`.

    Raises
    ------
    OSError
        As :func:`os.open`, or the file is a link, a pipe, a device or a directory, or is behind a
        link.
    """
    path = _inside(root, key)
    try:
        descriptor = os.open(path, flags | _SAFE, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise OSError(error.errno, _FOREIGN, path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, _FOREIGN, path)
    return descriptor


def _inside(root: str | os.PathLike[str], key: str) -> str:
    """Return the path of ``key``, none of whose directories below the root is a link."""
    *parents, name = key.split("/")
    path = os.fspath(root)
    for parent in parents:
        path = f"{path}/{parent}"
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise OSError(errno.ENOTDIR, _FOREIGN, path)
    return f"{path}/{name}"


@dataclass(frozen=True)
class LocalFiles:
    """The directory of one store. Picklable, and safe to use from several threads and processes.

    Parameters
    ----------
    root : Path
        The store's directory, links resolved.
    """

    root: Path

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``.

        Raises
        ------
        OSError
            ``FileNotFoundError`` without it; others where it cannot be read or is no regular file.
        """
        with io.FileIO(open_inside(self.root, key, os.O_RDONLY)) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                raise OSError(errno.E2BIG, "larger than any file of a store")
            return file.readall()

    def put(self, key: str, *parts: bytes) -> None:
        """Write the joined ``parts`` as ``key``, whole or not at all.

        Raises
        ------
        StoreError
            If the file cannot be written; what was there before stays.
        """
        final = f"{self.root}/{key}"
        # Never the same name twice: a worker that outlived its run may write the same chunk.
        suffix = f".{os.getpid():x}-{secrets.token_hex(6)}{_PARTIAL}"
        with explained(f"write '{final}'", CONTINUES):
            try:
                write_new(self._create(key + suffix), *parts)
                os.replace(final + suffix, final)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(final + suffix)
                raise

    def _create(self, key: str) -> int:
        """Create a file, and its directory if only that is missing, but never a whole store."""
        try:
            return open_inside(self.root, key, _NEW)
        except FileNotFoundError:
            if "/" in key:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(os.path.join(self.root, key)))
            return open_inside(self.root, key, _NEW)

    def link(self, key: str, source: LocalFiles, source_key: str) -> None:
        """Take over another store's file without copying it.

        Raises
        ------
        OSError, NotImplementedError
            There are no links here, or the file exists already.
        """
        os.close(open_inside(source.root, source_key, os.O_RDONLY))
        os.link(source.root / source_key, self.root / key, follow_symlinks=False)

    def exists(self, key: str) -> bool:
        """Return whether something has this name, even a dangling link."""
        return os.path.lexists(os.path.join(self.root, key))

    def mark(self, key: str) -> object:
        """Return what changes with a file's content; ``None`` without the file."""
        try:
            found = os.lstat(f"{self.root}/{key}")
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def keys(self) -> Iterator[str]:
        """Yield the keys of all files in the store."""
        for directory, _, names in os.walk(self.root):
            inside = f"{directory}/"[len(f"{self.root}/") :]
            yield from (f"{inside}{name}" for name in names)

    def total_bytes(self) -> int:
        """Return the size of all files [B]."""
        return sum(os.lstat(self.root / key).st_size for key in self.keys())

    def remove(self, keys: Iterable[str]) -> None:
        """Remove files; a file that does not exist is no error.

        Raises
        ------
        StoreError
            If one cannot be removed.
        """
        with explained(f"change '{self.root}'"):
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_inside(self.root, key))

    def remove_partial(self) -> None:
        """Remove what killed writers left half-written; raises as :meth:`remove`."""
        self.remove([key for key in self.keys() if key.endswith(_PARTIAL)])


def write_tree(directory: Path, objects: Mapping[str, bytes]) -> None:
    """Write files into a new directory that only this process knows; raises ``OSError``."""
    os.mkdir(directory)
    for folder in sorted({key.rpartition("/")[0] for key in objects} - {""}):
        os.mkdir(f"{directory}/{folder}")
    for key, content in objects.items():
        write_new(os.open(f"{directory}/{key}", _NEW | _SAFE, 0o666), content)


def write_new(descriptor: int, *parts: bytes) -> None:
    """Write all of ``parts`` to an open file and close it."""
    try:
        for part in parts:
            write_all(descriptor, part)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``; the system may take it in pieces."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]

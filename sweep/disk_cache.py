"""Files that are kept on disk between processes, because making them again takes long.

A file is written under a temporary name and renamed, so that processes that start together neither
wait for each other nor see half a file. A file that is damaged, is not ours or can be written by
others is ignored.

``SWEEP_CACHE_DIR`` names the directory, which also contains the rates of ``sweep plan``; an empty
value turns the cache off.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

LARGEST = 256 << 20
"""Bytes that a file may have, and a folder after :func:`drop_oldest`."""


def cache_directory() -> Path | None:
    """Return the directory of the cache, ``None`` where the cache is off.

    Returns
    -------
    Path or None
        ``SWEEP_CACHE_DIR`` if it is set, else ``sweep`` in the user's cache directory.
    """
    chosen = os.environ.get("SWEEP_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base) / "sweep" if base else Path.home() / ".cache" / "sweep"
    except RuntimeError:  # no home directory
        return None


def kept(folder: str, name: str, header: bytes) -> bytes | None:
    """Return a file's content if it has this header, is ours alone and undamaged.

    Parameters
    ----------
    folder : str
        Its folder in the cache's directory, ``""`` for that itself.
    name : str
        Its name: the hash of everything that the content depends on.
    header : bytes
        What the file contains, and the version of its format.
    """
    directory = cache_directory()
    if directory is None:
        return None
    directory /= folder
    path = directory / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > LARGEST:
            return None
        if not _is_ours(directory.stat()):
            return None
        content = file.read()
    start = header + hashlib.sha256(content[len(header) + 32 :]).digest()
    if not content.startswith(start):
        return None
    with suppress(OSError):
        os.utime(path)  # the files that were not used for longest go first
    return content[len(start) :]


def keep(folder: str, name: str, header: bytes, content: bytes) -> None:
    """Write a file; a full or read-only disk, or no cache, costs time, never a result.

    Parameters
    ----------
    folder, name, header
        As for :func:`kept`.
    content : bytes
        The content.
    """
    directory = cache_directory()
    if directory is None:
        return
    directory /= folder
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_ours(directory.stat()):
            _write(directory, name, header + hashlib.sha256(content).digest() + content)


def drop_oldest(folder: str) -> None:
    """Remove the files that were not used for longest until the folder is small enough."""
    directory, files = cache_directory(), []
    if directory is None:
        return
    directory /= folder
    with suppress(OSError):
        for path in directory.iterdir():
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime, status.st_size, path))
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > LARGEST:
            with suppress(OSError):
                path.unlink()


def _is_ours(status: os.stat_result) -> bool:
    """Return whether this user owns a file or directory, and nobody else may write to it."""
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write(directory: Path, name: str, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, directory / name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise

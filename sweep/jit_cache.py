"""Compiled functions, kept on disk between processes.

Numba's own cache needs a source file for each function and an index that processes share. Here
each compiled function is one file, named after the hash of everything that its machine code
depends on: the function's text, the text of all modules that it may call, its argument types, the
processor and its features, and the versions of Python, Numba, LLVM, NumPy and this package. A file
is written under a temporary name and renamed, so that processes that start together neither wait
for each other nor see half a file. A file that is damaged, is not ours or can be written by others
is ignored: reading it would run its content.

``SWEEP_CACHE_DIR`` names the directory, which also contains the rates of ``sweep plan``; an empty
value turns the cache off.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys

from sweep import __version__

LARGEST = 256 << 20
"""Bytes that the cache may take; beyond it the files that were not used for longest go."""

COMPILED_MODULES = ("jit.py", "compiler/**/*.py", "hardware/**/*.py")
"""The modules that compiled code, or the text of a pass, comes from."""

HEADER = b"sweep compiled function 1\n"


def cache_directory() -> Path | None:
    """Return the directory of compiled functions, ``None`` where the cache is off.

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


def keep_on_disk(dispatcher: Any, text: str) -> Any:
    """Let a function that Numba compiles look for its machine code on disk first.

    Parameters
    ----------
    dispatcher : numba dispatcher
        The function, not compiled yet.
    text : str
        Its source, which is part of the key.

    Returns
    -------
    numba dispatcher
        The same.
    """
    if hasattr(dispatcher, "_cache"):  # not where NUMBA_DISABLE_JIT leaves functions as they are
        dispatcher._cache = _FunctionOnDisk(text)
    return dispatcher


class _FunctionOnDisk:
    """What a dispatcher of Numba takes for its cache."""

    cache_path = None

    def __init__(self, text: str) -> None:
        self.text = text

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Return the function compiled for these argument types, ``None`` if it is not there."""
        directory = cache_directory()
        if directory is None:
            return None
        # Numba's registries, which take half a second to load, are needed only for compilation.
        rtsys.initialize(target)
        path = directory / self._name(signature, target.codegen())
        content = _read(path)
        if content is None:
            return None
        try:
            found: CompileResult = CompileResult._rebuild(target, *pickle.loads(content))
        except Exception:  # whatever the content is, compiling again is right
            return None
        with suppress(OSError):
            os.utime(path)  # the files that were not used for longest go first
        return found

    def save_overload(self, signature: Any, compiled: CompileResult) -> None:
        """Keep a function that was just compiled."""
        directory = cache_directory()
        if directory is None or compiled.library.has_dynamic_globals:
            return
        name = self._name(signature, compiled.library.codegen)
        with suppress(OSError):  # a full or read-only disk costs time, never a result
            _write(directory, name, serialize.dumps(compiled._reduce()))

    def enable(self) -> None:
        """Do nothing: the environment decides."""

    disable = flush = enable

    def _name(self, signature: Any, codegen: Any) -> str:
        parts = (self.text, str(signature), repr(codegen.magic_tuple()), _versions())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _versions() -> str:
    """Return versions of all that decides what machine code a text becomes."""
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    package, source = Path(__file__).parent, hashlib.sha256()
    for pattern in COMPILED_MODULES:
        for module in sorted(package.glob(pattern)):
            source.update(module.read_bytes())
    return "\n".join([
        platform.python_implementation(), platform.python_version(), platform.platform(),
        numba.__version__, llvmlite.__version__, llvm, np.__version__, __version__,
        source.hexdigest(),
    ])  # fmt: skip


def _read(path: Path) -> bytes | None:
    """Return a file's content if it is ours alone and undamaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > LARGEST:
            return None
        if not _is_ours(path.parent.stat()):
            return None
        content = file.read()
    start = HEADER + hashlib.sha256(content[len(HEADER) + 32 :]).digest()
    return content[len(start) :] if content.startswith(start) else None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether this user owns a file or directory, and nobody else may write to it."""
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write(directory: Path, name: str, body: bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_ours(directory.stat()):
        return
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".writing-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(HEADER + hashlib.sha256(body).digest() + body)
        os.replace(temporary, directory / name)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _drop_oldest(directory)


def _drop_oldest(directory: Path) -> None:
    """Remove the files that were not used for longest until the cache is small enough."""
    files = []
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

"""Read text files of bounded size, plain or gzipped; write files atomically."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import json
import os
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sweep.errors import SweepError, TuningError

MAX_BYTES = 1 << 28
"""Largest size of an unpacked text [bytes]."""

MAX_RATIO = 200
"""Largest compression ratio of an archive that unpacks to more than `ALWAYS_UNPACKED` bytes."""

ALWAYS_UNPACKED = 1 << 22
MAX_MESSAGE = 1000
UTF_16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
GZIP = b"\x1f\x8b"

MARK = "written by sweep"
"""Stands in figures, reports and exports, so that they are replaced when they are made again.

Kernel files, plans and tables of a compiler do not have it: people edit them.
"""

SEARCHED = 1 << 16
"""How much is searched for the mark at either end of a file [bytes]."""

Content = str | bytes | Callable[[Path], None]
"""What is written, or a function that writes it to a path."""


@dataclass(frozen=True)
class Source:
    """A file that was read.

    Attributes
    ----------
    path : Path
        The file.
    text : str
        Its content, unpacked, with lines that end as Unix has them.
    sha256 : str
        SHA-256 of the file as stored.
    """

    path: Path
    text: str = field(repr=False)
    sha256: str

    @property
    def name(self) -> str:
        """The file's name without its endings: ``gemm`` of ``gemm.T1.json.gz``."""
        return self.path.name.split(".")[0] or self.path.name

    @cached_property
    def document(self) -> Any:
        """The content as JSON.

        Raises
        ------
        TuningError
            It is not JSON.
        """
        try:
            return json.loads(self.text)
        except RecursionError:
            raise self.error("not valid JSON: nested too deeply") from None
        except ValueError as error:
            two = "; two files, one after the other?" * str(error).startswith("Extra data")
            raise self.error(f"not valid JSON: {error}{two}") from None

    def error(self, message: str) -> TuningError:
        """Return an error about this file; a long message is shortened."""
        shown = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
        return TuningError(f"{self.path}: {shown}")


def read_source(path: str | os.PathLike[str], most: int = MAX_BYTES) -> Source:
    """Read a text file, unpacking it if it is gzipped, whatever its name is.

    Parameters
    ----------
    path : path
        The file.
    most : int
        The largest size, unpacked [bytes].

    Raises
    ------
    TuningError
        The file is not regular, cannot be read, is truncated or too large, or is not text.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            reason = "is a directory" if path.is_dir() else "not a regular file"
            raise OSError(0, reason)
        with path.open("rb") as file:
            raw = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
    except (OSError, ValueError) as error:  # a path may contain a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise TuningError(f"{path}: cannot be read: {reason}") from None
    content = _unpacked(path, raw, most) if raw.startswith(GZIP) else raw
    if len(content) > most:
        raise TuningError(f"{path}: larger than {most} bytes, the most that is read")
    try:
        # PowerShell writes UTF-16 with a mark in front.
        encoding = "utf-16" if content.startswith(UTF_16) else "utf-8-sig"
        text = content.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TuningError(
            f"{path}: line {line}: no text in UTF-8: byte {error.start} is wrong"
        ) from None
    if not text.strip():
        raise TuningError(f"{path}: the file is empty")
    return Source(path, text, hashlib.sha256(raw).hexdigest())


def _unpacked(path: Path, raw: bytes, most: int) -> bytes:
    """Unpack an archive up to one byte beyond the limits."""
    limit = max(ALWAYS_UNPACKED, MAX_RATIO * len(raw))
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            content = file.read(min(limit, most) + 1)
    except EOFError:
        raise TuningError(f"{path}: the gzip archive is truncated") from None
    except (OSError, zlib.error) as error:
        raise TuningError(f"{path}: the gzip archive is damaged: {error}") from None
    if limit < len(content) <= most:
        raise TuningError(f"{path}: unpacks to more than {MAX_RATIO} times its size")
    return content


def check_free(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a path where something is that `sweep` did not write, unless it may be replaced.

    Parameters
    ----------
    path : Path
        The file that is about to be written.
    overwrite : bool
        Whether to replace whatever file is there.

    Raises
    ------
    SweepError
        There is a file without :data:`MARK`, or something else than a file.
    """
    if not overwrite and os.path.lexists(path) and not is_own(path):
        raise SweepError(f"{path}: is there already; --overwrite replaces it")


def is_own(path: Path) -> bool:
    """Return whether there is a file with :data:`MARK` near its beginning or its end."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(SEARCHED)
            file.seek(max(0, os.fstat(file.fileno()).st_size - SEARCHED))
            return MARK.encode() in head + file.read(SEARCHED)
    except (OSError, ValueError):
        return False


def write_whole(path: Path, content: Content, *, overwrite: bool = False) -> None:
    """Write a file completely or not at all, see :func:`write_all`."""
    write_all({path: content}, overwrite=overwrite)


def write_all(contents: Mapping[Path, Content], *, overwrite: bool = False) -> None:
    """Write files, each completely or not at all, and none where one may not be written.

    Everything that writes files for users goes through here.

    Parameters
    ----------
    contents : mapping of Path to str, bytes or callable
        For each file its content, or a function that writes the file to the temporary path that it
        receives.
    overwrite : bool
        Whether to replace files that are there. Those with :data:`MARK` are replaced in any case.

    Raises
    ------
    SweepError
        A file is there already, or cannot be written.
    """
    for path in contents:
        check_free(path, overwrite=overwrite)
    for path, content in contents.items():
        _write(path, content)


def _write(path: Path, content: Content) -> None:
    beside = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        beside.touch(exist_ok=False)  # does not follow links
        if callable(content):
            content(beside)
        else:
            beside.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(beside, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SweepError(f"{path}: cannot be written: {reason}") from None
    finally:
        beside.unlink(missing_ok=True)

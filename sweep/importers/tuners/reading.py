"""A tuner's file as text: plain or gzipped, of a sensible size, with its hash."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sweep.errors import TuningError

__all__ = ["Source", "members", "numbers_of", "plain_name", "read_source"]

MAX_BYTES = 1 << 30
"""Largest file, unpacked [bytes]: what a small archive may unpack to must have an end."""

LARGE = 1e300
"""Numbers beyond are no measurements."""

GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Source:
    """A file that was read.

    Attributes
    ----------
    path : Path
        Where it lies.
    text : str
        Its content, unpacked.
    sha256 : str
        SHA-256 of the file as it lies there.
    """

    path: Path
    text: str = field(repr=False)
    sha256: str

    @property
    def name(self) -> str:
        """The file's name without its endings: ``gemm`` of ``gemm.T1.json.gz``."""
        return self.path.name.split(".")[0] or self.path.name

    @property
    def is_json(self) -> bool:
        """Whether the content begins as a JSON object."""
        return self.text.lstrip()[:1] in ("{", "[")

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
        except (ValueError, RecursionError) as error:
            raise self.error(f"not valid JSON: {_reason(error)}") from None

    def error(self, message: str) -> TuningError:
        """Return an error about this file."""
        return TuningError(f"{self.path}: {message}")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def read_source(path: str | os.PathLike[str]) -> Source:
    """Read a file, unpacking it if it is gzipped whatever its name says.

    Raises
    ------
    TuningError
        It cannot be read, is truncated, is larger than 1 GiB, or is no text.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror or error}") from None
    content = _unpacked(path, raw) if raw.startswith(GZIP) else raw
    if len(content) > MAX_BYTES:
        raise TuningError(f"{path}: larger than {MAX_BYTES >> 30} GiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TuningError(f"{path}: no text in UTF-8: byte {error.start} is wrong") from None
    if not text.strip():
        raise TuningError(f"{path}: the file is empty")
    return Source(path, text, hashlib.sha256(raw).hexdigest())


def _unpacked(path: Path, raw: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            return file.read(MAX_BYTES + 1)
    except EOFError:
        raise TuningError(f"{path}: the gzip archive is truncated") from None
    except (OSError, zlib.error) as error:
        raise TuningError(f"{path}: the gzip archive is damaged: {error}") from None


def members(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; nothing if it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def numbers_of(value: Any) -> dict[str, float]:
    """Return the numbers of a JSON object by key; nothing if it is none."""
    items = value.items() if isinstance(value, dict) else ()
    return {
        str(key): float(item)
        for key, item in items
        if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < LARGE
    }


def plain_name(name: str) -> str:
    """Return a name that an array of a store can have: letters, digits, dots and _."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "_per_" if "/" in name else "_", name).strip("_.")
    return plain or "unnamed"

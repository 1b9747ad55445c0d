"""Reading the text of a file, and TOML with errors of one line."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

from sweep.specs.formats import SCHEMA_VERSION
from sweep.specs.report import Report

__all__ = ["KEY_PATTERN", "LARGEST_FILE", "parse_toml", "read_text", "sha256_of"]

LARGEST_FILE = 2**20
"""Files over 1 MiB are refused: no description of a device or kernel is that long."""

KEY_PATTERN = r"[a-z][a-z0-9_]*"
"""A file is named ``KEY.toml``: the key names the device or kernel on the command line, in plans
and in stores."""

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_text(report: Report, path: Path) -> str | None:
    """Return the text of a file, or ``None`` after a finding."""
    try:
        if not path.is_file():
            other = "not a regular file" if path.exists() else "no such file"
            report.error("", "is a directory" if path.is_dir() else other)
            return None
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        report.error("", f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return None
    if len(data) > LARGEST_FILE:
        report.error("", f"larger than {LARGEST_FILE} bytes, the most that a file may hold")
        return None
    try:
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        report.error("", f"not UTF-8 text (byte {error.start})")
        return None


def parse_toml(report: Report, text: str, key: str) -> dict[str, Any] | None:
    """Return the tables of a file of our format, or ``None`` after a finding.

    The name of the file and the format's version are checked here: without them nothing else in
    the file can be judged.
    """
    if not re.fullmatch(KEY_PATTERN, key):
        report.error("", "the file's name must be a lower-case letter, then a-z, 0-9, _: KEY.toml")
        return None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        report.error("", _syntax_error(str(error), text))
        return None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 1,000 brackets
        nested = isinstance(error, RecursionError)
        reason = "nested too deeply" if nested else str(error).split(":")[0]
        report.error("", f"not TOML: {reason}")
        return None
    version = table.get("schema")
    if version is None:
        report.error("schema", f"missing: write schema = {SCHEMA_VERSION} at the top of the file")
    elif version is True or version != SCHEMA_VERSION:
        report.error("schema", f"this version of sweep reads schema {SCHEMA_VERSION}", version)
    return None if report.errors else table


def _syntax_error(message: str, text: str) -> str:
    """Put the place of a TOML syntax error first: ``line 3, column 7: not TOML: ...``."""
    place = _PLACE.search(message)
    reason = message[: place.start()] if place else message
    if place and place[1]:
        line, column = int(place[1]), int(place[2])
    else:
        lines = text.split("\n")
        line, column = len(lines), len(lines[-1]) + 1
    return f"line {line}, column {column}: not TOML: {reason}"


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a file's text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()

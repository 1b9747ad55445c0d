"""Read untrusted files: location, text, TOML in bounded memory, and what is wrong in them."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sweep.errors import SpecError, printable
from sweep.specs.formats import SCHEMA_VERSION
from sweep.specs.names import MAX_NAME

FOLDERS: dict[str, str] = {"device": "devices", "kernel": "kernels_spec"}
"""The folder of each kind of file, in the shipped data and in the user's directories."""

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOTS = (_PACKAGE / "_data", _PACKAGE.parent)

LARGEST_FILE = 2**20
"""Larger files (over 1 MiB) are refused, since no description is that long."""

KEY_PATTERN = rf"[a-z][a-z0-9_]{{0,{MAX_NAME - 1}}}"
"""Pattern of keys. A file is named ``KEY.toml``; its key is the name of the device or kernel on the
command line, in plans and in stores."""

MAX_KEY_PARTS = 8
"""Largest number of parts of a dotted key; the parser's memory grows with its square."""

MAX_STATEMENTS = 20_000
"""Largest number of keys and tables in a file."""

_STRING = r'"(?:\\.|[^"\\\n])*(?:"|\\?$)|\'[^\'\n]*(?:\'|$)'
_PART = rf"(?:[A-Za-z0-9_-]+|{_STRING})"
_KEYS = re.compile(
    # Multi-line strings and comments are skipped; strings, bare words and keys remain.
    r'"""(?:\\[\s\S]|[^\\])*?(?:"""|\\?\Z)|' + r"'''[\s\S]*?(?:'''|\Z)"
    rf"|\#[^\n]*|(?P<key>{_PART}(?:[ \t]*\.[ \t]*{_PART})*)|(?P<statement>=|^[ \t]*\[)",
    re.MULTILINE,
)

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def data_root(kind: str) -> Path:
    """Return the folder of the shipped files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``, or the name of the folder.

    Returns
    -------
    Path
        ``sweep/_data/FOLDER`` in an installed package, ``FOLDER`` beside ``sweep`` in a checkout.

    Raises
    ------
    SpecError
        The installation has neither.
    """
    folder = FOLDERS.get(kind, kind)
    for root in _ROOTS:
        if (root / folder).is_dir():
            return root / folder
    raise SpecError(f"this installation of sweep lacks its folder {folder}: install it again")


def label_of(path: Path) -> str:
    """Return a file's name for messages: ``devices/KEY.toml`` for a shipped file, else its path."""
    folder = path.parent
    is_shipped = folder.name in FOLDERS.values() and folder.parent in _ROOTS
    return f"{folder.name}/{path.name}" if is_shipped else str(path)


def read_text(path: Path) -> str:
    """Return the text of a file of at most `LARGEST_FILE` bytes.

    Raises
    ------
    ValueError
        The file is not regular, cannot be read, is too large or is not UTF-8.
    """
    if not path.is_file():
        other = "not a regular file" if path.exists() else "no such file"
        raise ValueError("is a directory" if path.is_dir() else other)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise ValueError(f"larger than {LARGEST_FILE} bytes, the most that a file may hold")
    try:
        return data.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start})") from None


def load_toml(text: str) -> dict[str, Any]:
    """Return the tables of an untrusted TOML text, in bounded memory and time.

    Raises
    ------
    ValueError
        The text is not TOML, or has too many or too deeply nested keys.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"not UTF-8 text (character {error.start})") from None
    statements = 0
    for found in _KEYS.finditer(text):
        statements += found["statement"] is not None
        key = found["key"]
        if key is not None and key.count(".") >= MAX_KEY_PARTS:
            parts = re.sub(_STRING, "", key).count(".") + 1
            if parts > MAX_KEY_PARTS:
                place = f"{parts} parts in line {text.count(chr(10), 0, found.start()) + 1}"
                raise ValueError(f"a key of {place}, more than {MAX_KEY_PARTS}")
    if statements > MAX_STATEMENTS:
        raise ValueError(f"more than {MAX_STATEMENTS} keys")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(report: Report, text: str, key: str) -> dict[str, Any] | None:
    """Return the tables of a device or kernel file, or report an error and return ``None``.

    The name of the file and the version of the format are checked here, because all other checks
    depend on them.
    """
    if not re.fullmatch(KEY_PATTERN, key):
        report.error("", "the file's name must be a lower-case letter, then a-z, 0-9, _: KEY.toml")
        return None
    try:
        table = load_toml(text)
    except tomllib.TOMLDecodeError as error:
        report.error("", _syntax_error(str(error), text))
        return None
    except ValueError as error:  # a number of 5,000 digits, a key of 1,000 parts
        report.error("", f"not TOML: {str(error).split(':')[0]}")
        return None
    version = table.get("schema")
    if version is None:
        report.error("schema", f"missing: write schema = {SCHEMA_VERSION} at the top of the file")
    elif version is True or version != SCHEMA_VERSION:
        report.error("schema", f"this version of sweep reads schema {SCHEMA_VERSION}", version)
    return None if report.errors else table


def _syntax_error(message: str, text: str) -> str:
    """Return the message of a TOML syntax error: ``line 3, column 7: not TOML: ...``."""
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


# ---------------------------------------------------------------------------- findings

Spec = TypeVar("Spec")

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_VALUE = 60

MAX_ERRORS = 200
"""Largest number of errors to collect, since a hostile file could have very many."""

_ABSENT = object()


@dataclass(frozen=True)
class Finding:
    """One problem of one file.

    Parameters
    ----------
    file : str
        The file, as the user named it.
    path : str
        Dotted path of the key, ``""`` for the file as a whole.
    message : str
        The problem, the value and the expected value, in one line.
    severity : str
        ``error`` (the file is refused), ``warning``, or ``note`` (nothing needs a change).
    """

    file: str
    path: str
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        """Return the file's name and the message in one line."""
        mark = "" if self.severity == "error" else f"{self.severity}: "
        return printable(f"{self.file}: {mark}{self.message}")


class Report:
    """The findings about one file, in order."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []

    def error(self, path: str, reason: str, value: Any = _ABSENT, severity: str = "error") -> None:
        """Add an error at a dotted path, with the value at that path; or a warning or note."""
        if severity == "error" and len(self.errors) >= MAX_ERRORS:
            self.result(None)
        head = path if value is _ABSENT else f"{path} = {show(value)}"
        message = f"{head}: {reason}" if head else reason
        self.findings.append(Finding(self.file, path, printable(message), severity))

    @property
    def errors(self) -> list[Finding]:
        """The findings for which the file is refused."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def result(self, found: Spec | None) -> Spec:
        """Return the content of the file, if there are no errors.

        Raises
        ------
        SpecError
            There are errors; the message has file, path, value and reason of the first one.
        """
        if self.errors or found is None:
            raise SpecError(str(self.errors[0]))
        return found


def show(value: Any) -> str:
    """Return a value in TOML syntax, shortened if it is long."""
    match value:
        case bool() | str():
            text = json.dumps(value, ensure_ascii=False)
        case int() if value.bit_length() > 200:
            text = f"a number of {value.bit_length()} bits"
        case dict():
            text = "a table"
        case list() | tuple():
            text = f"[{', '.join(map(show, value[:8]))}{', ...' * (len(value) > 8)}]"
        case _:
            text = f"{value:.15g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def quoted_path(*names: str) -> str:
    """Return the dotted path of nested keys, with quotes around keys that are not bare."""
    return ".".join(
        name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        for name in names
        if name
    )

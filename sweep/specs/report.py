"""Findings about a file: errors and warnings, one line each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from sweep.errors import SpecError, printable

__all__ = ["MAX_ERRORS", "Finding", "Report", "quoted_path", "show"]

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
        ``error`` (the file is refused) or ``warning``.
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

    def error(self, path: str, reason: str, value: Any = _ABSENT) -> None:
        """Add an error at a dotted path, with the value at that path."""
        self._add("error", path, reason, value)

    def warning(self, path: str, reason: str, value: Any = _ABSENT) -> None:
        """Add a warning about a value that is allowed but looks wrong."""
        self._add("warning", path, reason, value)

    def _add(self, severity: str, path: str, reason: str, value: Any) -> None:
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
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int) and value.bit_length() > 200:
        text = f"a number of {value.bit_length()} bits"
    elif isinstance(value, dict):
        text = "a table"
    elif isinstance(value, list | tuple):
        text = f"[{', '.join(show(item) for item in value[:8])}{', ...' * (len(value) > 8)}]"
    else:
        text = f"{value:.15g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def quoted_path(*names: str) -> str:
    """Return the dotted path of nested keys, with quotes around keys that are not bare."""
    return ".".join(
        name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        for name in names
        if name
    )

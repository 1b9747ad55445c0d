"""Sources of values: kind and reference, and checks of the ``[source]`` table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import nearest
from sweep.specs.check import suggested
from sweep.specs.formats import SOURCE_KINDS
from sweep.specs.report import Report, quoted_path

__all__ = ["Source", "check_sources", "is_below", "longest_prefix"]

_FORM = f"one of {', '.join(SOURCE_KINDS)}, then ': ' and the reference"


@dataclass(frozen=True)
class Source:
    """The source of one value.

    Parameters
    ----------
    kind : str
        ``datasheet``, ``paper``, ``microbenchmark``, ``review``, ``derived`` or ``assumed``.
    reference : str
        The document and the place in it, how the value was derived, or why it was assumed.
    """

    kind: str
    reference: str

    def __str__(self) -> str:
        """Return the source as written in a file."""
        return f"{self.kind}: {self.reference}"


def check_sources(
    report: Report,
    table: Mapping[str, Any],
    known: Collection[str],
    special: Collection[str],
    excused: Collection[str] = (),
) -> tuple[dict[str, Source], set[str]]:
    """Return the valid sources of a file by dotted path, and the paths of invalid ones.

    The latter are the paths that an entry names or was probably meant to name.

    Parameters
    ----------
    report : Report
        Collects all findings.
    table : mapping
        The ``[source]`` table.
    known : collection of str
        Dotted paths that a source may name.
    special : collection of str
        Entries that are not paths: ``identity``, ``default``.
    excused : collection of str
        Paths with other findings; sources below them are accepted.
    """
    result: dict[str, Source] = {}
    wrong: set[str] = set()
    for path, text in table.items():
        here = quoted_path("source", path)
        if isinstance(text, dict):
            inner = ".".join([path, *list(text)[:1]])
            report.error(here, f'write the path in quotes: "{inner}" = "KIND: REFERENCE"')
            wrong.update(f"{path}.{name}" for name in text)
        elif path not in known and path not in special:
            if any(is_below(path, prefix) for prefix in excused):
                continue
            hint = nearest(path, [*known, *special])
            report.error(here, f"there is no such value in this file{hint}", text)
            wrong.add(suggested(hint))
        else:
            source = _parse(report, here, text)
            if source is None:
                wrong.add(path)
            else:
                result[path] = source
    return result, wrong


def _parse(report: Report, here: str, text: Any) -> Source | None:
    if not isinstance(text, str):
        report.error(here, f"a source is a text: {_FORM}", text)
        return None
    kind, colon, reference = text.partition(":")
    kind, reference = kind.strip(), " ".join(reference.split())
    if kind not in SOURCE_KINDS:
        hint = nearest(kind.lower(), SOURCE_KINDS)
        report.error(here, f"a source is {_FORM}{hint}", text)
        return None
    if not colon or not reference:
        report.error(here, f"the reference is missing: a source is {_FORM}", text)
        return None
    return Source(kind, reference)


def is_below(path: str, prefix: str) -> bool:
    """Return whether a dotted path is ``prefix`` or below it."""
    return path == prefix or path.startswith(prefix + ".")


def longest_prefix(path: str, sources: Mapping[str, Source], default: str) -> Source | None:
    """Return the source of a path: its own, else that of the closest table, else the default."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        found = sources.get(".".join(parts[:end]))
        if found is not None:
            return found
    return sources.get(default)

"""Sources of values: kind and reference, and the check of the ``[source]`` table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import nearest
from sweep.specs.check import Content, suggested
from sweep.specs.formats import SOURCE_KINDS
from sweep.specs.reading import quoted_path

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


def check_sources(content: Content, needed: Collection[str] | None = None) -> dict[str, Source]:
    """Return the valid sources of a file by dotted path.

    Parameters
    ----------
    content : Content
        The file.
    needed : collection of str, optional
        Paths of the values that must have a source of their own. Without it, sources may also be
        those of whole tables.
    """
    table = content.file.get("source")
    if not isinstance(table, dict):
        return {}  # already reported as missing
    report, section = content.report, content.sections["source"]
    known = {section.whole, *_paths(content.file, with_tables=needed is None)}
    excused = {*content.top.meant}  # paths with other findings
    for checked in content.tables.values():
        excused |= {checked.at(key) for key in checked.meant}
    result: dict[str, Source] = {}
    reported: set[str] = set()  # paths that an invalid entry names or was probably meant to name
    for path, text in table.items():
        here = quoted_path("source", path)
        if isinstance(text, dict):
            inner = ".".join([path, *list(text)[:1]])
            report.error(here, f'write the path in quotes: "{inner}" = "KIND: REFERENCE"')
            reported.update(f"{path}.{name}" for name in text)
        elif path in known:
            kind, _, reference = text.partition(":") if isinstance(text, str) else ("", "", "")
            source = Source(kind.strip(), " ".join(reference.split()))
            if reason := _why_not_a_source(text, source):
                report.error(here, reason, text)
                reported.add(path)
            else:
                result[path] = source
        elif not any(is_below(path, prefix) for prefix in excused):
            hint = nearest(path, known)
            report.error(here, f"there is no such value in this file{hint}", text)
            reported.add(suggested(hint))
    if section.whole not in table:
        report.error(f"source.{section.whole}", f"missing: {section.whole_meaning}")
    for path in needed or ():
        if path not in table and path not in reported:
            report.error(path, f'has no source: add "{path}" = "KIND: REFERENCE" to [source]')
    return result


def _why_not_a_source(text: Any, source: Source) -> str:
    if not isinstance(text, str):
        return f"a source is a text: {_FORM}"
    if source.kind not in SOURCE_KINDS:
        return f"a source is {_FORM}{nearest(source.kind.lower(), SOURCE_KINDS)}"
    return "" if source.reference else f"the reference is missing: a source is {_FORM}"


def _paths(table: Mapping[str, Any], prefix: str = "", *, with_tables: bool) -> Iterator[str]:
    """Yield the dotted paths in a table: of tables and all that is in them, or of values only."""
    for name, value in table.items():
        path = f"{prefix}{name}"
        if path == "source" or (not prefix and path in ("schema", "name", "description")):
            continue
        if with_tables or (prefix and not isinstance(value, dict)):
            yield path
        if isinstance(value, dict):
            yield from _paths(value, f"{path}.", with_tables=with_tables)
        for row in value if isinstance(value, list) else ():
            if isinstance(row, dict) and isinstance(row.get("name"), str):
                yield f"{path}.{row['name']}"
                yield from _paths(row, f"{path}.{row['name']}.", with_tables=with_tables)


def is_below(path: str, prefix: str) -> bool:
    """Return whether a dotted path is ``prefix`` or below it."""
    return path == prefix or path.startswith(prefix + ".")

"""Check a file against the definition of its format: tables, keys, values and their sources."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sweep.errors import nearest
from sweep.specs.formats import FORMATS, SOURCE_KINDS, UNITS, Format, Key, Section, Unit, split_unit
from sweep.specs.reading import Report, quoted_path

Part = TypeVar("Part", dict[str, Any], list[Any])


class Checked(dict[str, Any]):
    """The valid values of a table by key.

    ``written`` is the table in the file at ``path``, ``meant`` the missing keys that were reported
    already or probably misspelt, so that each is reported once.
    """

    def __init__(self, section: Section, path: str, written: Mapping[str, Any]) -> None:
        super().__init__()
        self.section, self.path, self.written = section, path, written
        self.meant: set[str] = set()

    def at(self, name: str) -> str:
        """Return the dotted path of a key."""
        return f"{self.path}.{quoted_path(name)}" if self.path else quoted_path(name)

    def has(self, name: str) -> bool:
        """Return whether a key is in the file, or was reported already."""
        return name in self.written or name in self.meant


class Content:
    """A file with its checked tables.

    Attributes
    ----------
    report : Report
        Collects all findings.
    sections : Format
        The definition of the format.
    file : dict
        The file as read.
    top : Checked
        The values at the top of the file.
    tables : dict of str to Checked
        The tables in the file that have declared keys, except arrays of tables.
    """

    def __init__(self, report: Report, sections: Format, file: dict[str, Any]) -> None:
        self.report, self.sections, self.file = report, sections, file
        self.tables: dict[str, Checked] = {}
        known = [name for name in sections if name]
        values = {n: v for n, v in file.items() if not (n in known or _holds_tables(v))}
        self.top = check_section(report, sections[""], values)
        for name in [name for name in file if name not in values]:
            if name not in known:
                hint = nearest(name, known)
                found = hint or f"; the tables are {', '.join(known)}"
                report.error("", f"[{quoted_path(name)}]: unknown table{found}")
                self.top.meant.add(suggested(hint))
            elif sections[name].repeated != isinstance(file[name], list):
                brackets = f"[[{name}]]" if sections[name].repeated else f"[{name}]"
                report.error(name, f"this is a table: write {brackets}", file[name])
                self.top.meant.add(name)
        for name in known:
            if sections[name].required and name not in file and name not in self.top.meant:
                report.error("", f"[{name}]: missing table: {sections[name].meaning}")
                self.top.meant.add(name)

    def check_tables(self) -> None:
        """Check the tables that have declared keys."""
        for name, section in self.sections.items():
            is_declared = name and not section.values and not section.repeated
            if is_declared and isinstance(self.file.get(name), dict):
                self.tables[name] = check_section(self.report, section, self.file[name])

    def part(self, name: str, kind: type[Part]) -> Part:
        """Return a table or list as read; empty if it is missing or of another kind (reported)."""
        content = self.file.get(name)
        return content if isinstance(content, kind) else kind()


def _holds_tables(value: Any) -> bool:
    of_tables = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) or of_tables


def check_section(
    report: Report, section: Section, written: Mapping[str, Any], path: str | None = None
) -> Checked:
    """Check one table against its section and return the valid values by key.

    Parameters
    ----------
    report : Report
        Collects all findings.
    section : Section
        The definition.
    written : dict
        The table as read from the file.
    path : str, optional
        Dotted path of the table, if it is not the section's name.
    """
    known = {key.name: key for key in section.keys}
    result = Checked(section, section.name if path is None else path, written)
    for name, value in written.items():
        if name in known:
            checked, reason = check_value(known[name], value)
        else:
            reason, meant = _unknown_key(name, value, section)
            result.meant.add(meant)
        if reason:
            report.error(result.at(name), reason, value)
        else:
            result[name] = checked
    for key in section.keys:
        reason = f"missing: {_wanted(key)}" if key.required else ""
        if key.together and key.together in written:
            reason = f"missing: {key.together} is given, and both belong together"
        if reason and not result.has(key.name):
            report.error(result.at(key.name), reason)
            result.meant.add(key.name)
    return result


def _wanted(key: Key) -> str:
    """Return a description of a missing key's value."""
    if key.type in ("number", "integer", "expression"):
        return f"{key.meaning}, {key.range}"
    if key.type == "choice":
        return f"{key.meaning}, one of {', '.join(key.choices)}"
    return key.meaning


# ---------------------------------------------------------------------------- unknown keys


def suggested(hint: str) -> str:
    """Return the word that a hint such as ``; did you mean 'x'?`` suggests, or ``""``."""
    return hint.split("'")[1] if hint else ""


def _unknown_key(name: str, value: Any, section: Section) -> tuple[str, str]:
    """Return why a key is refused, and the key that was probably meant (or ``""``)."""
    stem, unit = split_unit(name, loose=True)
    for key in section.keys:
        if key.stem in (name, stem):
            return f"unknown key; {_right_unit(key, unit, value)}", key.name
    files = [sections for sections in FORMATS.values() if sections.get(section.name) is section]
    for key in [key for sections in files for table in sections.values() for key in table.keys]:
        if key.name == name and key.section != section.name:
            where = f"[{key.section}]" if key.section else "the top of the file"
            return f"unknown key here; it belongs to {where}", ""
    names = [key.name for key in section.keys]
    listed = "" if len(names) > 20 else f"; the keys here are {', '.join(names)}"
    hint = nearest(name, names)
    return f"unknown key{hint or listed}", suggested(hint)


def _right_unit(key: Key, found: Unit | None, value: Any) -> str:
    """Return the expected unit of a quantity, and the converted value if possible."""
    wanted = key.unit
    if wanted is None:
        return f"{key.stem} has no unit: write {key.name}"
    unit = f"given in {wanted.symbol}" if wanted.symbol != "1" else f"a share, {key.range}"
    text = f"{key.stem} is {unit}: write {key.name}"
    if found is not None and found.dimension == wanted.dimension and is_number(value):
        text += f" = {found.convert(value, wanted):.12g}"
    return text


# ---------------------------------------------------------------------------- values


def is_number(value: Any) -> bool:
    """Return whether a TOML value is a number in the range of float64; booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def check_value(key: Key, value: Any) -> tuple[Any, str]:
    """Return the value with the key's type, and why it is refused (``""`` if it is valid)."""
    match key.type:
        case "number" | "integer":
            return _number(key, value)
        case "expression" if isinstance(value, list) and len(value) > 1:
            return value, ""  # cases, which the kernel's reader checks
        case "expression" if isinstance(value, str):
            return value, "" if value.strip() else f"empty; {_wanted(key)}"
        case "expression":
            checked, reason = _number(key, value)
            return checked, reason.replace("must be a number", "must be a number or an expression")
        case "choice" if value in key.choices:
            return value, ""
        case "choice":
            hint = nearest(value, key.choices) if isinstance(value, str) else ""
            return None, f"must be one of {', '.join(key.choices)}{hint}"
        case "conditions":
            is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
            return value, "" if is_list else "must be a list of conditions in quotes"
        case "rows":
            reason = next(_wrong_rows(key, value), "")
            return (None, reason) if reason else (tuple(map(tuple, value)), "")
    if is_number(value):
        return None, f'must be a text: write {key.name} = "{value}"'
    if not isinstance(value, str) or not value.strip():
        return None, f"must be a text: {key.meaning}"
    return " ".join(value.split()), ""


def _number(key: Key, value: Any) -> tuple[Any, str]:
    if not is_number(value):
        quoted = isinstance(value, str) and key.type != "expression"
        hint = " (without quotes)" if quoted else ""
        return None, f"must be a number{hint}, {key.range}"
    if key.type == "integer" and value != int(value):
        return None, f"must be a whole number, {key.range}"
    return (int(value) if key.type == "integer" else value), _outside(key, float(value))


def _outside(key: Key, value: float) -> str:
    """Return a message about a value outside its range, with a unit in which it would be inside."""
    if key.minimum <= value <= key.maximum or (key.zero and value == 0):
        return ""
    lead = "outside the range" if math.isfinite(key.maximum - key.minimum) else "must be"
    for other in UNITS.values():
        if key.unit is not None and other.dimension == key.unit.dimension and other is not key.unit:
            converted = other.convert(value, key.unit)
            if key.minimum <= converted <= key.maximum:
                return f"{lead} {key.range}; if it is in {other.symbol}, write {converted:.12g}"
    return f"{lead} {key.range}"


def _wrong_rows(key: Key, value: Any) -> Iterator[str]:
    """Yield the problems in the value of a key that contains rows."""
    columns = ", ".join(column.name for column in key.columns)
    if not isinstance(value, list | tuple) or not value:
        yield f"must be a list of rows [{columns}]"
        return
    for number, row in enumerate(value, start=1):
        if not isinstance(row, list | tuple) or len(row) != len(key.columns):
            yield f"row {number} must be [{columns}]"
            return
        for column, cell in zip(key.columns, row, strict=True):
            if column.type == "text":
                if not isinstance(cell, str) or not cell:
                    yield f"row {number}: {column.name} must be a word"
            elif not is_number(cell):
                yield f"row {number}: {column.name} must be a number"
            elif reason := _outside(column, float(cell)):
                yield f"row {number}: {column.name} {cell:.12g}: {reason}"
    first, firsts = key.columns[0], [row[0] for row in value]
    if first.unit is not None and first.unit.dimension == "clock" and sorted(set(firsts)) != firsts:
        yield f"rows must be in rising order of {first.name}, each once"


# ---------------------------------------------------------------------------- sources

_FORM = f"one of {', '.join(SOURCE_KINDS)}, then ': ' and the reference"


@dataclass(frozen=True)
class Source:
    """The source of one value.

    Parameters
    ----------
    kind : str
        One of :data:`SOURCE_KINDS`, such as ``datasheet``.
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


def check_deviations(content: Content) -> dict[str, float]:
    """Return the standard deviations that a file gives, by the dotted paths of their values."""
    report, known = content.report, set(_paths(content.file, with_tables=False))
    found = {}
    for path, value in content.part("deviation", dict).items():
        here = quoted_path("deviation", path)
        if path not in known:
            report.error(here, f"there is no such value in this file{nearest(path, known)}", value)
        elif not is_number(value) or value < 0:
            report.error(here, "must be a number, at least 0, in the unit of the value", value)
        else:
            found[path] = float(value)
    return found


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
        if not prefix and path in ("schema", "name", "description", "source", "deviation"):
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

"""Check a file against the definition of its format: tables, keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import nearest
from sweep.specs.formats import (
    UNITS,
    Format,
    Key,
    Section,
    Unit,
    convert,
    keys_of,
    range_text,
    split_unit,
)
from sweep.specs.reading import Report, parse_toml, quoted_path


class Checked(dict[str, Any]):
    """The valid values of a table by key.

    ``written`` is the table in the file, ``meant`` the missing keys that were reported already or
    probably misspelt, so that each is reported once.
    """

    def __init__(self, written: Mapping[str, Any]) -> None:
        super().__init__()
        self.written = written
        self.meant: set[str] = set()


@dataclass(frozen=True)
class Content:
    """A file with its checked tables.

    Attributes
    ----------
    file : dict
        The file as read.
    top : Checked
        The values at the top of the file.
    tables : dict of str to Checked
        The tables in the file that have declared keys, except arrays of tables.
    """

    file: dict[str, Any]
    top: Checked
    tables: dict[str, Checked]

    def table(self, name: str) -> dict[str, Any]:
        """Return a table as read; empty if it is missing or not a table, which is reported."""
        content = self.file.get(name)
        return content if isinstance(content, dict) else {}

    def rows(self, name: str) -> list[Any]:
        """Return the tables of an array of tables as read; empty if it is missing or no array."""
        content = self.file.get(name)
        return content if isinstance(content, list) else []


def check_file(
    report: Report,
    text: str,
    key: str,
    sections: Format,
    check_top: Callable[[Report, Checked, Collection[str]], None] | None = None,
) -> Content | None:
    """Parse a file and check its top level and its tables; return ``None`` if it is not TOML.

    Parameters
    ----------
    report : Report
        Collects all findings.
    text : str
        The file.
    key : str
        The file's name without ``.toml``.
    sections : Format
        The definition of the format.
    check_top : callable, optional
        A further check of the values at the top; it also receives the names in the file.
    """
    file = parse_toml(report, text, key)
    if file is None:
        return None
    top = _check_top_level(report, file, sections)
    if check_top is not None:
        check_top(report, top, file)
    tables = {
        name: check_section(report, section, file[name], sections=sections)
        for name, section in sections.items()
        if name and not section.values and isinstance(file.get(name), dict) and not section.repeated
    }
    return Content(file, top, tables)


def _check_top_level(report: Report, file: dict[str, Any], sections: Format) -> Checked:
    """Check the values at the top of a file, and that all tables are known."""
    known = [name for name in sections if name]
    values = {name: v for name, v in file.items() if not (name in known or _holds_tables(v))}
    result = check_section(report, sections[""], values, sections=sections)
    for name, value in file.items():
        if name in values:
            continue
        if name not in known:
            hint = nearest(name, known)
            found = hint or f"; the tables are {', '.join(known)}"
            report.error("", f"[{quoted_path(name)}]: unknown table{found}")
            result.meant.add(suggested(hint))
        elif sections[name].repeated != isinstance(value, list):
            brackets = f"[[{name}]]" if sections[name].repeated else f"[{name}]"
            report.error(name, f"this is a table: write {brackets}", value)
            result.meant.add(name)
    for name in known:
        if sections[name].required and name not in {*file, *result.meant}:
            report.error("", f"[{name}]: missing table: {sections[name].meaning}")
            result.meant.add(name)
    return result


def _holds_tables(value: Any) -> bool:
    of_tables = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) or of_tables


def check_section(
    report: Report,
    section: Section,
    table: Mapping[str, Any],
    *,
    path: str | None = None,
    sections: Format | None = None,
) -> Checked:
    """Check one table against its section.

    Parameters
    ----------
    report : Report
        Collects all findings.
    section : Section
        The definition.
    table : dict
        The table as read from the file.
    path : str, optional
        Dotted path of the table, if it is not the section's name.
    sections : Format, optional
        The whole format, with which the message says where a misplaced key belongs.

    Returns
    -------
    Checked
        The valid values by key.
    """
    path = section.name if path is None else path
    known = {key.name: key for key in section.keys}
    result = Checked(table)
    for name, value in table.items():
        if name in known:
            checked, reason = check_value(known[name], value)
        else:
            reason, meant = _unknown_key(name, value, section, sections or {})
            result.meant.add(meant)
        if reason:
            here = f"{path}.{quoted_path(name)}" if path else quoted_path(name)
            report.error(here, reason, value)
        else:
            result[name] = checked
    for key in section.keys:
        if key.name in table or key.name in result.meant:
            continue
        if key.required:
            reason = f"missing: {_wanted(key)}"
        elif key.together in table:
            reason = f"missing: {key.together} is given, and both belong together"
        else:
            continue
        report.error(f"{path}.{key.name}" if path else key.name, reason)
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


def _unknown_key(name: str, value: Any, section: Section, sections: Format) -> tuple[str, str]:
    """Return why a key is refused, and the key that was probably meant (or ``""``)."""
    stem, unit = split_unit(name, loose=True)
    for key in section.keys:
        if key.stem in (name, stem):
            return f"unknown key; {_right_unit(key, unit, value)}", key.name
    for key in keys_of(sections):
        if key.name == name and key.section != section.name:
            where = f"[{key.section}]" if key.section else "the top of the file"
            return f"unknown key here; it belongs to {where}", ""
    names = [key.name for key in section.keys]
    listed = "" if len(names) > 16 else f"; the keys here are {', '.join(names)}"
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
        text += f" = {convert(value, found, wanted):.12g}"
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


def is_words(column: str) -> bool:
    """Return whether a column contains words."""
    return column == "name" or column.endswith("_name")


def check_value(key: Key, value: Any) -> tuple[Any, str]:
    """Return the value with the key's type, and why it is refused (``""`` if it is valid)."""
    match key.type:
        case "number" | "integer":
            return _number(key, value)
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
    reason = _outside(key.minimum, key.maximum, key.unit, float(value), zero=key.zero)
    return (int(value) if key.type == "integer" else value), reason


def _outside(
    minimum: float, maximum: float, unit: Unit | None, value: float, *, zero: bool = False
) -> str:
    """Return a message about a value outside its range, with a unit in which it would be inside."""
    if minimum <= value <= maximum or (zero and value == 0):
        return ""
    lead = "outside the range" if math.isfinite(maximum - minimum) else "must be"
    reason = f"{lead} {range_text(minimum, maximum, unit, zero=zero)}"
    for other in UNITS.values() if unit is not None else ():
        assert unit is not None
        if other.dimension == unit.dimension and other is not unit:
            converted = convert(value, other, unit)
            if minimum <= converted <= maximum:
                return f"{reason}; if it is in {other.symbol}, write {converted:.12g}"
    return reason


def _wrong_rows(key: Key, value: Any) -> Iterator[str]:
    """Yield the problems in the value of a key that contains rows."""
    columns = ", ".join(key.columns)
    if not isinstance(value, list | tuple) or not value:
        yield f"must be a list of rows [{columns}]"
        return
    for number, row in enumerate(value, start=1):
        if not isinstance(row, list | tuple) or len(row) != len(key.columns):
            yield f"row {number} must be [{columns}]"
            return
        for (column, bounds), cell in zip(key.columns.items(), row, strict=True):
            if is_words(column):
                if not isinstance(cell, str) or not cell:
                    yield f"row {number}: {column} must be a word"
            elif not is_number(cell):
                yield f"row {number}: {column} must be a number"
            elif reason := _outside(*bounds, split_unit(column)[1], float(cell)):
                yield f"row {number}: {column} {cell:.12g}: {reason}"
    first = next(iter(key.columns))
    unit = split_unit(first)[1]
    firsts = [row[0] for row in value]
    if unit is not None and unit.dimension == "clock" and sorted(set(firsts)) != firsts:
        yield f"rows must be in rising order of {first}, each once"

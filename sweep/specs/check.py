"""Checking the tables of a file against the definition of its format."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any

from sweep.errors import nearest
from sweep.specs.keys import Key, Section, keys_of, range_text
from sweep.specs.report import Report, quoted_path
from sweep.specs.units import UNITS, Unit, convert, split_unit

__all__ = ["Checked", "check_section", "check_value", "is_number", "top_level"]


class Checked(dict[str, Any]):
    """The valid values of a table by key.

    ``written`` holds every key that stands in the table, ``meant`` the missing ones, reported or
    probably misspelt: nobody needs to be told twice about them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.meant: set[str] = set()


def top_level(report: Report, table: dict[str, Any], sections: Sequence[Section]) -> Checked:
    """Check the keys at the top of a file: its values, and that every table is a known one."""
    top = sections[0]
    tables = [section for section in sections if section.name]
    values = {name: value for name, value in table.items() if not _is_table(name, value, tables)}
    result = check_section(report, top, values, sections=sections)
    known = [section.name for section in tables]
    for name, value in table.items():
        if name in values:
            continue
        if name not in known:
            found = nearest(name, known) or f"; the tables are {', '.join(known)}"
            report.error("", f"[{quoted_path(name)}]: unknown table{found}")
            result.meant.add(_closest(name, known))
            continue
        repeated = tables[known.index(name)].repeated
        if repeated != isinstance(value, list):
            brackets = f"[[{name}]]" if repeated else f"[{name}]"
            report.error(name, f"this is a table: write {brackets}", value)
            result.meant.add(name)
    for section in tables:
        if section.required and section.name not in {*table, *result.meant}:
            report.error("", f"[{section.name}]: missing table: {section.meaning}")
            result.meant.add(section.name)
    return result


def _is_table(name: str, value: Any, tables: Sequence[Section]) -> bool:
    of_tables = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) or of_tables or name in {section.name for section in tables}


def check_section(
    report: Report,
    section: Section,
    table: dict[str, Any],
    *,
    path: str | None = None,
    sections: Sequence[Section] = (),
) -> Checked:
    """Check one table against its section.

    Parameters
    ----------
    report : Report
        Takes what is wrong.
    section : Section
        The definition.
    table : dict
        What the file holds.
    path : str, optional
        Dotted path of the table where it is not the section's name.
    sections : sequence of Section
        The whole format, to tell where a misplaced key belongs.

    Returns
    -------
    Checked
        The values that are valid, by key.
    """
    path = section.name if path is None else path
    known = {key.name: key for key in section.keys}
    result = Checked()
    for name, value in table.items():
        here = f"{path}.{quoted_path(name)}" if path else quoted_path(name)
        result.written.append(name)
        if name not in known:
            reason, meant = _unknown_key(name, value, section, sections)
            report.error(here, reason, value)
            result.meant.add(meant)
            continue
        checked, reason = check_value(known[name], value)
        if reason:
            report.error(here, reason, value)
        else:
            result[name] = checked
    for key in section.keys:
        if key.name in {*result.written, *result.meant}:
            continue
        here = f"{path}.{key.name}" if path else key.name
        if key.required:
            report.error(here, f"missing: {_wanted(key)}")
            result.meant.add(key.name)
        elif key.together in table:
            report.error(here, f"missing: {key.together} is given, and both belong together")
            result.meant.add(key.name)
    return result


def _wanted(key: Key) -> str:
    """Say what a missing key should hold."""
    if key.type in ("number", "integer", "expression"):
        return f"{key.meaning}, {key.range}"
    if key.type == "choice":
        return f"{key.meaning}, one of {', '.join(key.choices)}"
    return key.meaning


# ---------------------------------------------------------------------------- unknown keys


def _unknown_key(
    name: str, value: Any, section: Section, sections: Sequence[Section]
) -> tuple[str, str]:
    """Return why a key is refused, and the key that was probably meant (or ``""``)."""
    stem, unit = split_unit(name, loose=True)
    for key in section.keys:
        if key.stem in (name, stem):
            return f"unknown key; {_right_unit(key, unit, value)}", key.name
    for key in keys_of(tuple(sections)):
        if key.name == name and key.section != section.name:
            where = f"[{key.section}]" if key.section else "the top of the file"
            return f"unknown key here; it belongs to {where}", ""
    names = [key.name for key in section.keys]
    listed = "" if len(names) > 16 else f"; the keys here are {', '.join(names)}"
    return f"unknown key{nearest(name, names) or listed}", _closest(name, names)


def _right_unit(key: Key, given: Unit | None, value: Any) -> str:
    """Name the unit in which a quantity is given, and the value converted where possible."""
    wanted = key.unit
    if wanted is None:
        return f"{key.stem} has no unit: write {key.name}"
    unit = f"given in {wanted.symbol}" if wanted.symbol != "1" else f"a share, {key.range}"
    text = f"{key.stem} is {unit}: write {key.name}"
    if given is not None and given.dimension == wanted.dimension and is_number(value):
        text += f" = {convert(value, given, wanted):.12g}"
    return text


def _closest(word: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return found[0] if found else ""


# ---------------------------------------------------------------------------- values


def is_number(value: Any) -> bool:
    """Whether a TOML value is a number that float64 can hold (booleans are none)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def check_value(key: Key, value: Any) -> tuple[Any, str]:
    """Return the value as the key's type, and why it is refused (``""`` if it is not)."""
    return _CHECKS[key.type](key, value)


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
    """Say that a value is outside its range, and in which unit it would be inside."""
    if minimum <= value <= maximum or (zero and value == 0):
        return ""
    symbol = f" {unit.symbol}" if unit is not None and unit.symbol != "1" else ""
    lead = "outside the range" if math.isfinite(maximum - minimum) else "must be"
    reason = f"{lead} {range_text(minimum, maximum, zero=zero)}{symbol}"
    for other in UNITS.values():
        if unit is None or other.dimension != unit.dimension or other is unit:
            continue
        converted = convert(value, other, unit)
        if minimum <= converted <= maximum:
            return f"{reason}; if it is in {other.symbol}, write {converted:.12g}"
    return reason


def _text(key: Key, value: Any) -> tuple[Any, str]:
    if is_number(value):
        return None, f'must be a text: write {key.name} = "{value}"'
    if not isinstance(value, str) or not value.strip():
        return None, f"must be a text: {key.meaning}"
    return " ".join(value.split()), ""


def _choice(key: Key, value: Any) -> tuple[Any, str]:
    if value in key.choices:
        return value, ""
    hint = nearest(value, key.choices) if isinstance(value, str) else ""
    return None, f"must be one of {', '.join(key.choices)}{hint}"


def _expression(key: Key, value: Any) -> tuple[Any, str]:
    if isinstance(value, str):
        return value, "" if value.strip() else f"empty; {_wanted(key)}"
    checked, reason = _number(key, value)
    return checked, reason.replace("must be a number", "must be a number or an expression")


def _conditions(key: Key, value: Any) -> tuple[Any, str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None, "must be a list of conditions in quotes"
    return value, ""


def _rows(key: Key, value: Any) -> tuple[Any, str]:
    columns = ", ".join(key.columns)
    if not isinstance(value, list) or not value:
        return None, f"must be a list of rows [{columns}]"
    for number, row in enumerate(value, start=1):
        if not isinstance(row, list) or len(row) != len(key.columns):
            return None, f"row {number} must be [{columns}]"
        for column, cell, bounds in zip(key.columns, row, key.column_ranges, strict=True):
            reason = _cell(column, cell, bounds)
            if reason:
                return None, f"row {number}: {reason}"
    unit = split_unit(key.columns[0])[1]
    firsts = [row[0] for row in value]
    if unit is not None and unit.dimension == "clock" and sorted(set(firsts)) != firsts:
        return None, f"rows must be in rising order of {key.columns[0]}, each once"
    return tuple(tuple(row) for row in value), ""


def _cell(column: str, cell: Any, bounds: tuple[float, float]) -> str:
    if column == "name" or column.endswith("_name"):
        return "" if isinstance(cell, str) and cell else f"{column} must be a word"
    if not is_number(cell):
        return f"{column} must be a number"
    reason = _outside(*bounds, split_unit(column)[1], float(cell))
    return f"{column} {cell}: {reason}" if reason else ""


_CHECKS = {
    "number": _number,
    "integer": _number,
    "text": _text,
    "choice": _choice,
    "expression": _expression,
    "conditions": _conditions,
    "rows": _rows,
}

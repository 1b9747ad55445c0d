"""Answers: rows with every coordinate, as Python scalars, in the forms that people want."""

from __future__ import annotations

import csv
import html
import importlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Row", "number", "scaled"]


class Row(dict[str, Any]):
    """One row of an answer: a dict from column to Python scalar, None where there is nothing.

    Parameters
    ----------
    values : mapping
        Column to value.
    coordinates : sequence of str
        Which columns say where in the space the row is.
    """

    def __init__(self, values: Mapping[str, Any], coordinates: Sequence[str] = ()) -> None:
        super().__init__(values)
        self._coordinates = tuple(coordinates)

    @property
    def configuration(self) -> dict[str, Any]:
        """Kernel, model, device and every coordinate: what ``explain`` needs."""
        first = ("kernel", "model", "device")
        names = [n for n in first if n in self._coordinates]
        names += [n for n in self._coordinates if n not in first]
        return {name: self[name] for name in names if self.get(name) is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Sequence[Row]):
    """The answer to a query: a sequence of rows that prints as a table.

    Parameters
    ----------
    title : str
        The question, in words.
    columns : tuple of str
        Names, in order.
    rows : list of Row
        All with the same columns.
    units : mapping
        Column to unit; words and counts have none.
    coordinates : tuple of str
        The columns that say where in the space a row is.
    notes : tuple of str
        What a reader must know: assumed values, what was left out and why.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[Row]
    units: Mapping[str, str] = field(default_factory=dict)
    coordinates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        rows: Iterable[Mapping[str, Any]],
        coordinates: Sequence[str],
        units: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        columns: Sequence[str] | None = None,
    ) -> Answer:
        """Return the answer with some rows; what a row lacks is None.

        Parameters
        ----------
        title : str
            As the attribute.
        rows : iterable of mapping
            Column to Python scalar.
        coordinates, units, notes
            As the attributes.
        columns : sequence of str, optional
            By default those of all rows, in order.
        """
        rows = list(rows)
        if columns is None:
            columns = list(dict.fromkeys(name for row in rows for name in row))
        full = [Row({name: row.get(name) for name in columns}, coordinates) for row in rows]
        return cls(title, tuple(columns), full, units or {}, tuple(coordinates), tuple(notes))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def column(self, name: str) -> list[Any]:
        """Return one column's values, row by row."""
        return [row[name] for row in self.rows]

    def to_table(self) -> str:
        """Return the rows as aligned text with units; what all rows share is said once."""
        lines = [self.title] if self.title else []
        lines += _table_lines(*_cells(self)) if self.rows else ["(no rows)"]
        return "\n".join([*lines, *self.notes])

    def to_json(self) -> str:
        """Return question, columns with units, rows in base units and notes as JSON."""
        columns = [{"name": c, "units": self.units.get(c, "")} for c in self.columns]
        head = json.dumps({"title": self.title, "columns": columns})[:-1]
        rows = ",\n  ".join(
            json.dumps({c: _finite(row[c]) for c in self.columns}, allow_nan=False) for row in self
        )
        inside = f"[\n  {rows}\n]" if rows else "[]"
        return f'{head},\n"rows": {inside},\n"notes": {json.dumps(list(self.notes))}}}'

    def to_csv(self) -> str:
        """Return a header and the rows in base units as CSV; absent values are empty."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_csv_cell(row[c]) for c in self.columns] for row in self)
        return buffer.getvalue()

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame with the units in ``attrs["units"]``."""
        pd = importlib.import_module("pandas")
        frame = pd.DataFrame(self.rows, columns=list(self.columns))
        frame.attrs["units"] = dict(self.units)
        return frame

    def __repr__(self) -> str:
        return self.to_table()

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        escape = html.escape
        parts = [f"<p>{escape(self.title)}</p>"] if self.title else []
        if self.rows:
            headers, units, rows, shared = _cells(self)
            if shared:
                parts.append(f"<p>all rows: {escape(', '.join(shared))}</p>")
            heads = "".join(
                f"<th>{escape(h)}{f'<br>[{escape(u)}]' if u else ''}</th>"
                for h, u in zip(headers, units, strict=True)
            )
            lines = "".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                for row in rows
            )
            parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>")
        else:
            parts.append("<p>(no rows)</p>")
        return "\n".join([*parts, *(f"<p>{escape(note)}</p>" for note in self.notes)])


# ---------------------------------------------------------------------------- as text

PREFIXES = dict(zip(range(-15, 12, 3), ("f", "p", "n", "µ", "m", "", "k", "M", "G"), strict=True))
SCALABLE = frozenset({"s", "J", "W"})
WIDEST = 1e6  # a column whose values spread further is shown without a prefix
DIGITS = 5
HEAD_WIDTH = 9  # column names longer than this and than their cells are broken at underscores


def scaled(values: Sequence[float | None], unit: str) -> tuple[float, str]:
    """Return by what to divide values, and the unit with prefix, so that they read well.

    >>> scaled([2.5e-5, 1.5e-4], "s")
    (1e-06, 'µs')
    """
    sizes = [abs(v) for v in values if v is not None and math.isfinite(v) and v != 0]
    if unit not in SCALABLE or not sizes or max(sizes) / min(sizes) > WIDEST:
        return 1.0, unit
    power = 3 * math.floor(math.log10(min(sizes)) / 3)
    power = max(min(PREFIXES), min(power, max(PREFIXES)))
    return (10.0**power, PREFIXES[power] + unit)


def number(value: Any, digits: int = DIGITS) -> str:
    """Return a value as people write it: no trailing zeros, integers in full."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        return f"{value:.{digits}g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_share(part)}" for key, part in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(number(part) for part in value) or "-"
    return str(value)


def _share(part: Any) -> str:
    return f"{100 * part:.3g} %" if isinstance(part, float) else number(part)


def _percent(value: Any) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "tie"
    return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:.0f} %"


def _cells(answer: Answer) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """Return headers, units, rows of text, and what all rows share."""
    rows, columns = answer.rows, list(answer.columns)
    marked = [bool(row.get("rests_on_assumed")) for row in rows]
    columns = [c for c in columns if c != "rests_on_assumed"]
    if all(row.get("status") in (None, "valid") for row in rows):
        columns = [c for c in columns if c != "status"]
    columns = [c for c in columns if any(row[c] is not None for row in rows)]
    shared = []
    if len(rows) > 1:
        for name in answer.coordinates:
            values = [row.get(name) for row in rows]
            if name in columns and all(v == values[0] for v in values):
                shared.append(_assignment(name, values[0], answer))
                columns.remove(name)
    partial = [c for c in answer.coordinates if c in columns and _is_partial(rows, c)]
    place = columns.index(partial[0]) if partial else 0
    columns = [c for c in columns if c not in partial]
    headers, units, texts = [], [], []
    for name in columns:
        text, unit = _column(answer, name)
        if name == _objective(answer):
            text = [t + ("*" if m else "") for t, m in zip(text, marked, strict=True)]
        headers.append(name)
        units.append(unit)
        texts.append(text)
    if partial:
        merged = [
            " ".join(_assignment(c, row[c], answer) for c in partial if row[c] is not None) or "-"
            for row in rows
        ]
        headers.insert(place, "configuration")
        units.insert(place, "")
        texts.insert(place, merged)
    return headers, units, [list(line) for line in zip(*texts, strict=True)], shared


def _objective(answer: Answer) -> str | None:
    """Return the column that carries the mark of assumed values: the first result."""
    skipped = {*answer.coordinates, "rank"}
    return next((c for c in answer.columns if c not in skipped), None)


def _is_partial(rows: Sequence[Row], name: str) -> bool:
    """Return whether a coordinate exists for some rows' kernels only."""
    present = [row[name] is not None for row in rows if row.get("status") in (None, "valid")]
    return any(present) and not all(present)


def _assignment(name: str, value: Any, answer: Answer) -> str:
    unit = answer.units.get(name, "1")
    return f"{name}={number(value)}" + ("" if unit in ("", "1") else f" {unit}")


def _column(answer: Answer, name: str) -> tuple[list[str], str]:
    """Return one column's texts and its unit as shown."""
    values = answer.column(name)
    unit = answer.units.get(name, "")
    if name == "runner_up":
        return [_percent(value) for value in values], ""
    if name in answer.coordinates:
        return [number(value) for value in values], "" if unit == "1" else unit
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers:
        return [number(value) for value in values], ""
    factor, unit = scaled(numbers, unit)
    texts = [number(v / factor) if isinstance(v, float) else number(v) for v in values]
    return texts, "" if unit == "1" else unit


def _table_lines(
    headers: list[str], units: list[str], rows: list[list[str]], shared: list[str]
) -> Iterator[str]:
    """Yield the lines of a table: what all rows share, the headers, a rule and the rows."""
    if shared:
        yield f"all rows: {', '.join(shared)}"
    columns = list(zip(*rows, strict=True))
    heads = [
        _head(name, unit, max(HEAD_WIDTH, *map(len, cells)))
        for name, unit, cells in zip(headers, units, columns, strict=True)
    ]
    height = max(map(len, heads))
    heads = [[""] * (height - len(head)) + head for head in heads]
    widths = [max(map(len, [*h, *c])) for h, c in zip(heads, columns, strict=True)]
    numeric = [all(map(_is_numeric, cells)) for cells in columns]
    for line in [*zip(*heads, strict=True), ["-" * w for w in widths], *rows]:
        aligned = (
            cell.rjust(w) if right else cell.ljust(w)
            for cell, w, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def _head(name: str, unit: str, width: int) -> list[str]:
    """Return a column's name in lines no wider than ``width`` where underscores allow it."""
    lines = [""]
    for part in re.findall(r"[^_]*_?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return [*lines, f"[{unit}]"] if unit else lines


def _is_numeric(text: str) -> bool:
    bare = text.removesuffix(" %").removesuffix("*")
    if bare in ("-", "tie"):
        return True
    try:
        float(bare)
    except ValueError:
        return False
    return True


def _finite(value: Any) -> Any:
    """Return a value that JSON can express: infinities become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return value


def _csv_cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{key}={part}" for key, part in value.items())
    return value

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
        """Return the answer with some rows; a column that a row lacks is None.

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
        """Return the rows as aligned text with units; values that all share stand above them."""
        columns, shared = _columns(self)
        rows = _table_lines(columns) if self.rows else ["(no rows)"]
        return "\n".join([*([self.title] if self.title else []), *shared, *rows, *self.notes])

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
        columns, shared = _columns(self)
        heads = [f"{name}\n[{unit}]" if unit else name for name, unit, _ in columns]
        table = _elements("th", heads)
        for row in zip(*(texts for *_, texts in columns), strict=True):
            table += f"</tr><tr>{_elements('td', row)}"
        body = f"<table><tr>{table}</tr></table>" if self.rows else "<p>(no rows)</p>"
        above = [text for text in (self.title, *shared) if text]
        return "\n".join([_elements("p", above), body, _elements("p", self.notes)])


def _elements(tag: str, texts: Iterable[str]) -> str:
    """Return an element of HTML for each text; a new line is one there, too."""
    lines = (html.escape(text).replace("\n", "<br>") for text in texts)
    return "".join(f"<{tag}>{line}</{tag}>" for line in lines)


# ---------------------------------------------------------------------------- as text

PREFIXES = dict(zip(range(-15, 12, 3), ("f", "p", "n", "µ", "m", "", "k", "M", "G"), strict=True))
SCALABLE = frozenset({"s", "J", "W"})
WIDEST = 1e6  # a column whose values spread further is shown without a prefix
DIGITS = 5
NUMERIC = re.compile(r"(-|tie|-?(\d+(\.\d+)?(e[-+]?\d+)?|inf|nan)\*?( %)?)")
HEAD_WIDTH = 9  # column names longer than this and than their cells are broken at underscores


def scaled(values: Sequence[float | None], unit: str) -> tuple[float, str]:
    """Return a divisor of values, and their unit with a prefix, so that they are easy to read.

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
        parts = (f"{100 * v:.3g} %" if isinstance(v, float) else number(v) for v in value.values())
        return ", ".join(map(" ".join, zip(value, parts, strict=True))) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(number(part) for part in value) or "-"
    return str(value)


def _percent(value: Any) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "tie"
    return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:.0f} %"


Column = tuple[str, str, list[str]]
"""One column of a table: its name, its unit as shown, and the text of each row."""


def _columns(answer: Answer) -> tuple[list[Column], list[str]]:
    """Return the columns of the table, and a line with the values that all rows share."""
    rows, valid = answer.rows, [r for r in answer.rows if r.get("status") in (None, "valid")]
    hidden = {"rests_on_assumed", *(["status"] if len(valid) == len(rows) else [])}
    names = [c for c in answer.columns if any(row[c] is not None for row in rows)]
    names = [name for name in names if name not in hidden]
    of_place = [name for name in answer.coordinates if name in names]
    shared = [c for c in of_place if rows[1:] and all(row[c] == rows[0][c] for row in rows)]
    # Coordinates that only some kernels have share a column.
    partial = [c for c in of_place if 0 < sum(row[c] is not None for row in valid) < len(valid)]
    results = (c for c in answer.columns if c not in answer.coordinates and c != "rank")
    marked = next(results, None)
    columns: list[Column] = []
    for name in names:
        if name in shared or name in partial[1:]:
            continue
        if name in partial:
            texts = [
                " ".join(_assignment(c, row[c], answer) for c in partial if row[c] is not None)
                for row in rows
            ]
            columns.append(("configuration", "", [text or "-" for text in texts]))
            continue
        texts, unit = _texts(answer, name)
        if name == marked:
            texts = [text + "*" * bool(row.get("rests_on_assumed"))
                     for text, row in zip(texts, rows, strict=True)]  # fmt: skip
        columns.append((name, unit, texts))
    same = ", ".join(_assignment(name, rows[0][name], answer) for name in shared)
    return columns, [f"all rows: {same}"] if same else []


def _assignment(name: str, value: Any, answer: Answer) -> str:
    unit = answer.units.get(name, "1")
    return f"{name}={number(value)}" + ("" if unit in ("", "1") else f" {unit}")


def _texts(answer: Answer, name: str) -> tuple[list[str], str]:
    """Return one column's texts and its unit as shown."""
    values = answer.column(name)
    if name == "runner_up":
        return [_percent(value) for value in values], ""
    unit, factor = answer.units.get(name, ""), 1.0
    numbers = [value for value in values if isinstance(value, int | float)]
    if name not in answer.coordinates:
        factor, unit = scaled(numbers, unit) if numbers else (1.0, "")
    texts = [number(v / factor if isinstance(v, float) else v) for v in values]
    return texts, "" if unit == "1" else unit


def _table_lines(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the lines of a table: the headers, a rule and the rows."""
    heads = [_head(name, unit, max(HEAD_WIDTH, *map(len, texts))) for name, unit, texts in columns]
    height = max(map(len, heads))
    aligned = []
    for head, (_, _, texts) in zip(heads, columns, strict=True):
        lines = [*[""] * (height - len(head)), *head]
        width = max(map(len, [*lines, *texts]))
        align = str.rjust if all(map(NUMERIC.fullmatch, texts)) else str.ljust
        aligned.append([align(text, width) for text in (*lines, "-" * width, *texts)])
    for line in zip(*aligned, strict=True):
        yield "  ".join(line).rstrip()


def _head(name: str, unit: str, width: int) -> list[str]:
    """Return a column's name in lines no wider than ``width`` where underscores allow it."""
    lines = [""]
    for part in re.findall(r"[^_]*_?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return [*lines, f"[{unit}]"] if unit else lines


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

"""Answers: rows with every coordinate, as Python scalars, in the forms that people want."""

from __future__ import annotations

import csv
import html
import importlib
import io
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweep.errors import check_known
from sweep.query import shown


class Row(dict[str, Any]):
    """One row of an answer: a dict from column to Python scalar, None where there is nothing.

    Parameters
    ----------
    values : mapping
        Column to value.
    coordinates : sequence of str
        Which columns say where in the space the row is.
    stars : collection of str, optional
        Which values rest on assumed or fitted numbers; by default the first result of a row whose
        ``rests_on_assumed`` names any.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        coordinates: Sequence[str] = (),
        stars: Collection[str] | None = None,
    ) -> None:
        super().__init__(values)
        self._coordinates = tuple(coordinates)
        self.stars = None if stars is None else frozenset(stars)

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
    legend : mapping
        What columns mean whose names do not say it; ``recall_K`` is ``recall_1``, ``recall_10``...
    picture : callable, optional
        Makes the answer that is printed in place of this one, such as bars of a histogram; takes
        the words that say how to see this one.
    whole : Answer, optional
        The answer with all columns, if somebody chose these: a table then shows them, however wide.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[Row]
    units: Mapping[str, str] = field(default_factory=dict)
    coordinates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    picture: Callable[[str], Answer] | None = None
    whole: Answer | None = None

    @classmethod
    def of(
        cls,
        title: str,
        rows: Iterable[Mapping[str, Any]],
        coordinates: Sequence[str],
        units: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        legend: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer with some rows; a column that a row lacks is None.

        Parameters
        ----------
        title : str
            As the attribute.
        rows : iterable of mapping
            Column to Python scalar; a :class:`Row` keeps its stars.
        coordinates, units, notes
            As the attributes.
        columns : sequence of str, optional
            By default those of all rows, in order.
        legend : mapping, optional
            As the attribute.
        """
        rows = list(rows)
        if columns is None:
            columns = list(dict.fromkeys(name for row in rows for name in row))
        full = [
            Row({name: row.get(name) for name in columns}, coordinates, getattr(row, "stars", None))
            for row in rows
        ]
        return cls(title, tuple(columns), full, units or {}, tuple(coordinates), tuple(notes),
                   legend or {})  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def column(self, name: str) -> list[Any]:
        """Return one column's values, row by row."""
        return [row[name] for row in self.rows]

    @property
    def is_chosen(self) -> bool:
        """Whether somebody chose the columns."""
        return self.whole is not None

    @property
    def marked(self) -> str | None:
        """The first column of results: what the question was about."""
        names = (name for name in self.columns if name not in (*self.coordinates, "rank"))
        return next(names, None)

    def stars_of(self, row: Row) -> Collection[str]:
        """Return the columns of a row whose values rest on assumed or fitted numbers."""
        if row.stars is not None:
            return row.stars
        return (self.marked,) if row.get("rests_on_assumed") and self.marked else ()

    def chosen(self, columns: Sequence[str]) -> Answer:
        """Return the answer with some of its columns, in this order.

        Raises
        ------
        QueryError
            There is no such column.
        """
        for name in columns:
            check_known(name, self.columns, f"the answer has no column '{name}'", "columns:")
        stars = [self.stars_of(row) for row in self]
        rows = [Row({name: row[name] for name in columns}, self.coordinates, of)
                for row, of in zip(self, stars, strict=True)]  # fmt: skip
        whole = self if self.whole is None else self.whole
        return replace(self, columns=tuple(columns), rows=rows, picture=None, whole=whole,
                       coordinates=tuple(n for n in self.coordinates if n in columns))  # fmt: skip

    def to_table(self, width: int | None = None, *, wide: bool = False) -> str:
        """Return the rows as aligned text with units; values that all share stand above them.

        Parameters
        ----------
        width : int, optional
            Characters of a line. By default ``COLUMNS`` if it is set, else those of the terminal,
            else 100. Columns that do not fit are shortened or left out, and a line names them.
        wide : bool
            Whether to show all columns and all notes instead, however wide.
        """
        return shown.text(self, width, wide=wide)

    def to_json(self) -> str:
        """Return question, columns with units, rows in base units and notes as JSON."""
        columns = [{"name": c, "units": self.units.get(c, "")} for c in self.columns]
        head = json.dumps({"title": self.title, "columns": columns})[:-1]
        rows = ",\n  ".join(
            json.dumps({c: _finite(row[c]) for c in self.columns}, allow_nan=False) for row in self
        )
        inside = f"[\n  {rows}\n]" if rows else "[]"
        notes = [*self.notes, *(f"{name}: {what}" for name, what in self.legend.items())]
        return f'{head},\n"rows": {inside},\n"notes": {json.dumps(notes)}}}'

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
        answer = self.picture(shown.IN_PYTHON) if self.picture else self
        whole = shown.layout(answer, None, by_kernel=True)
        body = "" if whole.tables else "<p>(no rows)</p>"
        for title, columns in whole.tables:
            heads = [f"{c.name}\n[{c.unit}]" if c.unit else c.name for c in columns]
            rows = zip(*(column.texts for column in columns), strict=True)
            lines = "".join(f"<tr>{_elements('td', row)}</tr>" for row in rows)
            body += _elements("p", [title] * bool(title))
            # Paper repeats the head on each page.
            body += f"<table><thead><tr>{_elements('th', heads)}</tr></thead>{lines}</table>"
        above = [text for text in whole.above if text != "(no rows)"]
        return "\n".join([_elements("p", above), body, _elements("p", whole.below)])


def rows_by(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by their values in some columns, in order."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _elements(tag: str, texts: Iterable[str]) -> str:
    """Return an element of HTML for each text; a new line is one there, too."""
    lines = (html.escape(text).replace("\n", "<br>") for text in texts)
    return "".join(f"<{tag}>{line}</{tag}>" for line in lines)


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

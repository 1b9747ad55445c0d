"""Answers: rows with every coordinate, as Python scalars, in the forms that people want."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.query import render

__all__ = ["Answer", "Row"]


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

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def column(self, name: str) -> list[Any]:
        """Return one column's values, row by row."""
        return [row[name] for row in self.rows]

    def to_table(self) -> str:
        """Return the rows as aligned text with units; what all rows share is said once."""
        return render.table(self)

    def to_json(self) -> str:
        """Return question, columns with units, rows in base units and notes as JSON."""
        return render.json_text(self)

    def to_csv(self) -> str:
        """Return a header and the rows in base units as CSV; absent values are empty."""
        return render.csv_text(self)

    def to_dataframe(self) -> Any:
        """Return the rows as a pandas DataFrame with the units in ``attrs["units"]``."""
        pd = importlib.import_module("pandas")
        frame = pd.DataFrame(self.rows, columns=list(self.columns))
        frame.attrs["units"] = dict(self.units)
        return frame

    def __repr__(self) -> str:
        return self.to_table()

    def _repr_html_(self) -> str:
        return render.html(self)

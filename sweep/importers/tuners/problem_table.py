"""Read CSV tables of measured times whose rows hold many problems, column by column."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweep.errors import TuningError
from sweep.expressions import Expression, ExpressionError
from sweep.fields import Array
from sweep.importers.files import Source, read_source
from sweep.importers.tuners.table import DEVICES, Columns, header_of, records, time_column, time_in
from sweep.specs.reading import load_toml

BLOCK = 1 << 16
"""Lines whose cells are held as text at once."""

MAX_BYTES = 1 << 30
"""Largest size of a table [bytes]."""


@dataclass(frozen=True)
class ProblemTable:
    """Measured times of rows that each have a problem, and a configuration or none.

    Attributes
    ----------
    name : str
        The file's name.
    columns : mapping of str to array
        Those of the file and those that were made of them, numbers where all cells are numbers,
        else text.
    time : array
        The measured time of each row [s].
    device : array or None
        The device's name in each row, if there is such a column.
    failed : int
        Rows without a time, which are left out.
    """

    name: str
    columns: Mapping[str, Array]
    time: Array
    device: Array | None
    failed: int = 0

    def of_kernel(self, names: Iterable[str]) -> dict[str, Array]:
        """Return the columns for some names, each by its name or by another case of it."""
        lower = {name.lower(): name for name in self.columns}
        found = {}
        for name in names:
            column = name if name in self.columns else lower.get(name.lower())
            if column is not None:
                found[name] = self.columns[column]
        return found

    def taken(self, rows: Array) -> ProblemTable:
        """Return some of the rows, by number or by a mask."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        device = None if self.device is None else self.device[rows]
        return ProblemTable(self.name, columns, self.time[rows], device, self.failed)


def mapping_of(words: Sequence[str]) -> dict[str, str]:
    """Return what words such as ``n=2*N`` or the name of a TOML file say of columns.

    A file has a line ``NAME = "EXPRESSION"`` for each; words after it take precedence.

    Raises
    ------
    TuningError
        A word is neither, or the file is wrong.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name.strip().isidentifier() and text.strip():
            found[name.strip()] = text.strip()
            continue
        if not word.endswith(".toml"):
            raise TuningError(f"'{word}': write NAME=EXPRESSION, or the name of a TOML file")
        source = read_source(Path(word))
        try:
            document = load_toml(source.text)
        except ValueError as error:
            raise source.error(f"not valid TOML: {error}") from None
        for key, value in document.items():
            if not isinstance(value, str | int | float):
                raise source.error(f'{key}: must be an expression over columns, such as "2 * N"')
            found[key] = str(value)
    return found


def read_problem_table(
    source: Source, mapping: Mapping[str, str] | None = None, columns: Columns | None = None
) -> ProblemTable:
    """Return the rows of a CSV file of many problems.

    Parameters
    ----------
    source : Source
        The file.
    mapping : mapping of str to str, optional
        Expressions over the file's columns by the name of the column that they make.
    columns : Columns, optional
        The column and the unit of the time.

    Raises
    ------
    TuningError
        There is no time, a line has another number of cells than the header, or an expression is
        wrong.
    """
    header = header_of(source, next(filter(None, records(source)), []))
    time, scale = time_column(source, header, columns or Columns())
    device = next((name for name in header if name.lower() in DEVICES), "")
    own = _columns(source, header, time, {device} - {""})
    seconds = scale * own.pop(time)
    timed = np.isfinite(seconds) & (seconds > 0)
    if not timed.any():
        raise source.error(f"no row has a time above 0 in '{time}'")
    names = own.pop(device)[timed] if device else None
    known = {name: _whole(column[timed]) for name, column in own.items()}
    for name, text in (mapping or {}).items():  # one may read what the one before made
        known[name] = _made(source, name, text, known, int(timed.sum()))
    return ProblemTable(source.name, known, seconds[timed], names, int(np.count_nonzero(~timed)))


def _columns(
    source: Source, header: Sequence[str], time: str, texts: Collection[str]
) -> dict[str, Array]:
    """Return the cells by column: text where one is no number, and times that are none as NaN."""
    parts: dict[str, list[Array]] = {name: [] for name in header}
    below = itertools.islice(filter(None, records(source)), 1, None)
    line = 2
    while block := list(itertools.islice(below, BLOCK)):
        for at, n in enumerate(map(len, block), line):
            if n != len(header):
                raise source.error(f"line {at} has {n} cells, the header {len(header)}")
        line += len(block)
        for name, cells in zip(header, zip(*block, strict=True), strict=True):
            try:
                found = np.array(cells, None if name in texts else np.float64)
                parts[name].append(np.char.strip(found) if name in texts else found)
            except ValueError:
                if name != time:  # text, from the first line on
                    return _columns(source, header, time, {*texts, name})
                parts[name].append(np.array([time_in(source, name, cell) for cell in cells], float))
    if line == 2:
        raise source.error("there is no line below the header")
    return {name: np.concatenate(found) for name, found in parts.items()}


def _whole(column: Array) -> Array:
    """Return a column's numbers as integers if they are."""
    if column.dtype.kind != "f" or not (np.abs(column) < 2**53).all():
        return column
    if (column != np.floor(column)).any():
        return column
    return column.astype(np.int64)


def _made(source: Source, name: str, text: str, known: Mapping[str, Array], rows: int) -> Array:
    """Return the column that an expression makes."""
    try:
        value, fault = Expression.parse(text, allowed=set(known)).evaluate(known)
    except ExpressionError as error:
        raise source.error(f"column '{name}': {error}") from None
    if fault.any():
        raise source.error(f"column '{name}': `{text}` has no value in {int(fault.sum()):,} rows")
    return _whole(np.broadcast_to(value, (rows,)))

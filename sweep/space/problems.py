"""Lists of problems: sizes and parameters whose values belong together, row by row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweep.errors import PlanError, SweepError, counted
from sweep.space.axes import MAX_AXIS, kind_of, plain_number
from sweep.space.grid import Values

FORMS = "a path of a CSV or JSON file, a list of rows such as { m = 16, n = 4096 }, or columns"


def problem_columns(
    where: str, given: Any, folder: str | os.PathLike[str] = ""
) -> dict[str, Values]:
    """Return the columns of a list of problems.

    Parameters
    ----------
    where : str
        File and key, for messages.
    given : mapping, sequence, DataFrame or path
        Columns of equal length by name; or rows, each a mapping with the same names; or the path of
        a CSV file whose header has the names, or of a JSON file of either form.
    folder : path
        Where a relative path begins.

    Returns
    -------
    dict
        For each column its values, as many as there are problems. Rows may repeat.

    Raises
    ------
    PlanError
        The file cannot be read, there is no row, columns differ in length, or a value is no finite
        number, word or boolean like the others of its column.
    """
    if isinstance(given, str | os.PathLike):
        given = _read(where, Path(folder, Path(given).expanduser()))
    if isinstance(given, list | tuple):
        columns = _of_rows(where, given)
    elif isinstance(given, Mapping) or hasattr(given, "columns"):
        columns = {str(name): given[name] for name in getattr(given, "columns", given)}
    else:
        raise PlanError(f"{where} = {given!r:.60}: needs {FORMS}")
    lengths = {name: len(of) if hasattr(of, "__len__") else 1 for name, of in columns.items()}
    first = next(iter(lengths), "")
    for name, length in lengths.items():
        given = columns[name]
        if isinstance(given, str | Mapping) or not hasattr(given, "__len__"):
            raise PlanError(f"{where}.{name} = {given!r:.60}: needs a list, a value per row")
        if length != lengths[first]:
            raise PlanError(
                f"{where}.{name} has {counted(length, 'value')},"
                f" {where.rpartition(': ')[2]}.{first} {lengths[first]:,}: a row has one of each"
            )
    if not columns or not lengths[first]:
        raise PlanError(f"{where}: the list is empty; it needs at least one row")
    if lengths[first] > MAX_AXIS:
        raise PlanError(f"{where}: {lengths[first]:,} rows, more than {MAX_AXIS:,}")
    return {name: _column(where, name, values) for name, values in columns.items()}


def _read(where: str, path: Path) -> Any:
    """Return what a file holds: rows, or columns."""
    from sweep.importers.files import read_source
    from sweep.importers.tuners.table import read_cells

    try:
        source = read_source(path)
        if path.suffix.lower() == ".json" or source.text.lstrip()[:1] in ("[", "{"):
            return source.document
        return [cells for _, cells in read_cells(source)]
    except SweepError as error:
        raise PlanError(f"{where}: {error}") from None


def _of_rows(where: str, rows: Sequence[Any]) -> dict[str, list[Any]]:
    names = list(rows[0]) if rows and isinstance(rows[0], Mapping) else []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise PlanError(f"{where}: row {number} = {row!r:.60}: needs {FORMS}")
        if row.keys() != set(names):
            name = next(iter(row.keys() ^ set(names)))
            here, there = (number, 1) if name in row else (1, number)
            raise PlanError(f"{where}: row {here} has '{name}', row {there} has not")
    return {str(name): [row[name] for row in rows] for name in names}


def _column(where: str, name: str, given: Sequence[Any]) -> Values:
    """Return the values of a column; they are of one kind."""
    values = tuple(map(plain_number, given))
    known: dict[str, int] = {}
    seen: set[Any] = set()
    for number, value in enumerate(values, 1):
        key = (type(value), value) if isinstance(value, int | float | str) else None
        if key is None or key not in seen:
            known.setdefault(kind_of(f"{where}: row {number}: {name}", value), number)
            seen.add(key)
    if len(known) > 1:
        (kind, first), (other, second) = list(known.items())[:2]
        raise PlanError(
            f"{where}: {name}: the column mixes {kind} and {other}"
            f" ({values[first - 1]!r} in row {first}, {values[second - 1]!r} in row {second})"
        )
    return values

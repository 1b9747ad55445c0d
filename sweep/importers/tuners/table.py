"""Measured times as a plain table: CSV with a header."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweep.errors import nearest
from sweep.importers.tuners.measurements import (
    MEASURED,
    TIME_UNITS,
    Measurements,
    Row,
    Value,
    collected,
)
from sweep.importers.tuners.reading import Source, plain_name

__all__ = ["Columns", "read_table", "time_column"]

DEVICES = ("device", "device_name", "gpu")
FAILED = {"": "not_measured", "nan": "failed", "error": "failed", "failed": "failed"}


@dataclass(frozen=True)
class Columns:
    """What the columns of a table mean, where their names do not tell.

    Attributes
    ----------
    parameters : sequence of str
        The tuning parameters; by default every column before the time, except a device.
    time : str
        The column of the time; by default ``time``, ``time_s``, ``time_ms``, ...
    unit : str
        Its unit, ``s``, ``ms``, ``us`` or ``ns``; by default the column's ending.
    """

    parameters: Sequence[str] = ()
    time: str = ""
    unit: str = ""


def read_table(source: Source, columns: Columns | None = None) -> Measurements:
    """Return what a CSV file holds.

    Parameters
    ----------
    source : Source
        The file.
    columns : Columns, optional
        What its columns mean.

    Raises
    ------
    TuningError
        There is no time, its unit is not known, a column is missing, or a line has more or fewer
        cells than the header.
    """
    columns = columns or Columns()
    try:
        lines = list(csv.reader(io.StringIO(source.text), strict=True))
    except csv.Error as error:
        raise source.error(f"not valid CSV: {error}") from None
    header = [name.strip() for name in lines[0]]
    if len(set(header)) < len(header) or "" in header:
        raise source.error("the header has an empty or a doubled name")
    time, scale = time_column(source, header, columns)
    device = next((name for name in header if name.lower() in DEVICES), "")
    names = list(columns.parameters) or [
        name for name in header[: header.index(time)] if name != device
    ]
    for name in names:
        if name not in header:
            raise source.error(f"there is no column '{name}'{nearest(name, header)}")
    if not names:
        raise source.error(f"no parameters: no column stands before '{time}'")
    further = [name for name in header if name not in (*names, time, device)]
    rows = []
    for number, cells in enumerate(lines[1:], 2):
        if not cells:
            continue
        if len(cells) != len(header):
            raise source.error(f"line {number} has {len(cells)} cells, the header {len(header)}")
        cell = dict(zip(header, (text.strip() for text in cells), strict=True))
        seconds, status = _outcome(cell[time], scale)
        numbers = {name: _number(cell[name]) for name in further}
        rows.append(
            Row(
                {name: _value(cell[name]) for name in names},
                seconds,
                status,
                {plain_name(name): n for name, n in numbers.items() if n is not None},
                cell.get(device, ""),
            )
        )
    if not rows:
        raise source.error("there is no line below the header")
    try:
        return collected(source.name, names, rows, {plain_name(n): u for n, u in _units(further)})
    except ValueError as error:
        raise source.error(str(error)) from None


def time_column(source: Source, header: Sequence[str], columns: Columns) -> tuple[str, float]:
    """Return the column of the time and the seconds in its unit.

    Raises
    ------
    TuningError
        There is no such column, or its unit is not known.
    """
    known = ["time", *(f"time_{unit}" for unit in TIME_UNITS)]
    time = columns.time or next((name for name in header if name in known), "")
    if time not in header:
        wanted = columns.time or "time_ms"
        raise source.error(
            f"there is no column '{wanted}' of times{nearest(wanted, header)}"
            f" (columns: {', '.join(header)})"
        )
    unit = columns.unit or next((u for u in TIME_UNITS if time.endswith(f"_{u}")), "")
    if unit not in TIME_UNITS:
        raise source.error(
            f"the unit of the column '{time}' is not known: one of {', '.join(TIME_UNITS)}"
        )
    return time, TIME_UNITS[unit]


def _units(further: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for name in further:
        unit = name.rpartition("_")[2]
        found.append((name, {"B": "B", "KiB": "KiB", **{u: u for u in TIME_UNITS}}.get(unit, "1")))
    return found


def _outcome(text: str, scale: float) -> tuple[float, int]:
    seconds = _number(text)
    if seconds is None:
        return math.nan, MEASURED[FAILED.get(text.lower(), "failed")]
    return seconds * scale, MEASURED["valid"]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _value(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    number = _number(text)
    return text if number is None or not math.isfinite(number) else number

"""Read CSV tables of measured times: of configurations, or of kernels at pairs of clocks."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sweep.errors import nearest
from sweep.importers.files import Source
from sweep.importers.tuners.measurements import TIME_UNITS, Measurements, Row, collected, plain_name
from sweep.importers.tuners.search_space import Value
from sweep.specs.formats import UNITS, split_unit

DEVICES = ("device", "device_name", "gpu")
CLOCKS = {"core": (50.0, 5_000.0), "memory": (50.0, 20_000.0)}
"""Plausible clocks [MHz]."""

POWERS = (1.0, 2_000.0)
"""Plausible powers of a GPU [W]."""

ACTIVITIES = ("core_activity", "memory_activity")
"""Columns of the share of the time in which a domain is busy [1]."""

Pair = tuple[float, float]
"""A core clock and a memory clock [MHz]."""


class PowerRow(NamedTuple):
    """A kernel at a pair of clocks: time [s], power [W], activities of core and memory if known."""

    kernel: str
    pair: Pair
    time: float
    power: float
    activities: tuple[float, ...]


class _ClockRow(NamedTuple):
    line: int
    cell: Mapping[str, str]
    kernel: str
    pair: Pair
    time: float


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table, if it does not follow from their names.

    Attributes
    ----------
    parameters : sequence of str
        The tuning parameters; by default all columns before the time, except device and times.
    time : str
        The column of the time; by default ``time``, ``time_s``, ``time_ms``, ...
    unit : str
        The unit of the time, ``s``, ``ms``, ``us`` or ``ns``; by default the column's suffix.
    """

    parameters: Sequence[str] = ()
    time: str = ""
    unit: str = ""


TIMES = ("time", *(f"time_{unit}" for unit in TIME_UNITS))  # a column of times is called so

ClockTimes = dict[str, dict[Pair, float]]
"""For each kernel, the times at the measured pairs of clocks [s]."""


def read_table(source: Source, columns: Columns | None = None) -> Measurements:
    """Return the measured configurations of a CSV file.

    Parameters
    ----------
    source : Source
        The file.
    columns : Columns, optional
        The meaning of its columns.

    Raises
    ------
    TuningError
        There is no time, its unit is unknown, a column is missing, or a line has another number of
        cells than the header.
    """
    columns = columns or Columns()
    header, lines = _lines(source)
    time, scale = time_column(source, header, columns)
    device = next((name for name in header if name.lower() in DEVICES), "")
    before = header[: header.index(time)]
    names = list(columns.parameters) or [n for n in before if n not in {device, *TIMES}]
    for name in names:
        check_column(source, header, name)
    if not names:
        raise source.error(f"no parameters: no column stands before '{time}'")
    further = {n: plain_name(n) for n in header if n not in {*names, time, device}}
    rows = []
    for _, cell in lines:
        seconds = time_in(source, time, cell[time])
        status = "valid" if seconds is not None else "failed" if cell[time] else "not_measured"
        values = {name: _value(cell[name]) for name in names}
        numbers = {plain: numeric(cell[name]) for name, plain in further.items()}
        found = {name: number for name, number in numbers.items() if number is not None}
        time_s = math.nan if seconds is None else seconds * scale
        rows.append(Row(values, time_s, status, found, cell.get(device, "")))
    units = {"B", "KiB", *TIME_UNITS}
    endings = {plain: name.rpartition("_")[2] for name, plain in further.items()}
    known = {plain: unit if unit in units else "1" for plain, unit in endings.items()}
    return collected(source, source.name, rows, known)


def read_clock_times(source: Source) -> ClockTimes:
    """Return the times of a CSV file: columns ``kernel``, core clock, memory clock and time.

    Parameters
    ----------
    source : Source
        The file. The columns of the clocks begin with ``core`` and ``mem`` and contain MHz, or the
        unit that their name ends in (Hz, kHz, GHz); the column of the time is ``time_ms``, or has
        another unit as its suffix.

    Raises
    ------
    TuningError
        A column is missing, a cell is not a plausible number, or a kernel has two times at one pair
        of clocks.
    """
    return times_of(_clock_rows(source))


def times_of(rows: Iterable[_ClockRow | PowerRow]) -> ClockTimes:
    """Return the times of lines by kernel and pair of clocks."""
    times: ClockTimes = {}
    for row in rows:
        times.setdefault(row.kernel, {})[row.pair] = row.time
    return times


def read_clock_power(source: Source) -> list[PowerRow]:
    """Return the times and powers of a CSV file.

    Parameters
    ----------
    source : Source
        The file, with columns as for :func:`read_clock_times`, power in ``power_W`` or
        ``power_mW``, and if both are known ``core_activity`` and ``memory_activity`` [1].

    Raises
    ------
    TuningError
        As for :func:`read_clock_times`, also of a power or an activity.
    """
    header = _lines(source)[0]
    units = {"power_W": 1.0, "power_mW": 1e-3}
    column = next((name for name in units if name in header), "power_W")
    check_column(source, header, column, " of powers")
    known = [name for name in ACTIVITIES if name in header]
    if len(known) == 1:
        missing = next(name for name in ACTIVITIES if name not in known)
        raise source.error(f"there is a column '{known[0]}', but none '{missing}'")
    rows = []
    for row in _clock_rows(source):
        low, high = (limit / units[column] for limit in POWERS)
        watts = _within(source, row.line, column, row.cell[column], low, high, column[6:])
        shares = [
            _within(source, row.line, name, row.cell[name], 0.0, 1.0, "(a share)", zero=True)
            for name in known
        ]
        rows.append(PowerRow(row.kernel, row.pair, row.time, watts * units[column], tuple(shares)))
    return rows


def _clock_rows(source: Source) -> Iterator[_ClockRow]:
    """Yield the lines of a table over clocks; a kernel has one for each pair of clocks."""
    header, lines = _lines(source)
    time, scale = time_column(source, header, Columns())
    columns = {}
    for clock in CLOCKS:
        named = [name for name in header if name.lower().startswith(clock[:3])]
        found = [name for name in named if name not in ACTIVITIES]
        if len(found) != 1:
            wanted = f"there is no column of the {clock} clock, such as {clock}_clock_MHz"
            raise source.error(f"{wanted} (columns: {', '.join(header)})")
        columns[clock] = found[0]
    check_column(source, header, "kernel")
    known: set[tuple[str, Pair]] = set()
    for line, cell in lines:
        core, memory = (
            _clock(source, line, name, cell[name], *CLOCKS[clock])
            for clock, name in columns.items()
        )
        seconds = _within(source, line, time, cell[time], 0.0, math.inf) * scale
        if (cell["kernel"], (core, memory)) in known:
            which = f"'{cell['kernel']}' at {core:g}/{memory:g} MHz"
            raise source.error(f"line {line}: a second time of {which}")
        known.add((cell["kernel"], (core, memory)))
        yield _ClockRow(line, cell, cell["kernel"], (core, memory), seconds)


def _lines(source: Source) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the header, and for each other line its number and its values by column."""
    every = [[cell.strip() for cell in record] for record in records(source)]
    header = header_of(source, every[0])
    lines = []
    for number, cells in enumerate(every[1:], 2):
        if cells and len(cells) != len(header):
            raise source.error(f"line {number} has {len(cells)} cells, the header {len(header)}")
        if cells:
            lines.append((number, dict(zip(header, cells, strict=True))))
    if not lines:
        raise source.error("there is no line below the header")
    return header, lines


def records(source: Source) -> Iterator[list[str]]:
    """Yield the records of a CSV file, empty ones too, without holding its text a second time.

    Raises
    ------
    TuningError
        The file is no CSV.
    """
    try:
        yield from csv.reader(_lines_of(source.text), strict=True)
    except csv.Error as error:
        raise source.error(f"not valid CSV: {error}") from None


def _lines_of(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def header_of(source: Source, cells: Sequence[str]) -> list[str]:
    """Return the names of the columns; refuse other separators than commas, and doubled names."""
    header = [name.strip() for name in cells]
    if len(header) == 1 and (other := re.search("[;\t]", header[0])):
        raise source.error(f"cells end with {other[0]!r}: write ',' between cells, '.' in numbers")
    if not header or len(set(header)) < len(header) or "" in header:
        raise source.error("the header has an empty or a doubled name")
    return header


def read_cells(source: Source) -> list[tuple[int, dict[str, Value]]]:
    """Return the lines of a CSV file: their numbers, and by column a number, a boolean or text.

    Raises
    ------
    TuningError
        The file is no CSV, or a line has another number of cells than the header.
    """
    lines = _lines(source)[1]
    return [(number, {n: _value(text) for n, text in cells.items()}) for number, cells in lines]


def time_column(source: Source, header: Sequence[str], columns: Columns) -> tuple[str, float]:
    """Return the name of the column of the time, and its unit in seconds.

    Parameters
    ----------
    source : Source
        The file, for errors.
    header : sequence of str
        The columns' names.
    columns : Columns
        The time's column and unit, if they do not follow from the names.

    Raises
    ------
    TuningError
        There is no such column, or its unit is unknown.
    """
    time = columns.time or next((name for name in header if name in TIMES), "time_ms")
    check_column(source, header, time, " of times")
    unit = columns.unit or next((u for u in TIME_UNITS if time.endswith(f"_{u}")), "")
    if unit not in TIME_UNITS:
        raise source.error(
            f"the unit of the column '{time}' is not known: one of {', '.join(TIME_UNITS)}"
        )
    return time, TIME_UNITS[unit]


def check_column(source: Source, header: Sequence[str], name: str, what: str = "") -> None:
    """Raise an error that names the nearest column unless a file has a column of this name."""
    if name not in header:
        listed = f"{nearest(name, header)} (columns: {', '.join(header)})"
        raise source.error(f"there is no column '{name}'{what}{listed}")


def numeric(text: str) -> float | None:
    """Return the number that a cell is, None for a text."""
    try:
        return float(text)
    except ValueError:
        return None


def time_in(source: Source, column: str, text: str) -> float | None:
    """Return the time that a cell is, None for a reason why there is none."""
    if re.fullmatch(r"\d[\d ,.']*[ ,'][\d ,.']*", text.strip()):
        raise source.error(
            f"{column} = '{text}': write '.' in numbers, and nothing between thousands"
        )
    if re.fullmatch(rf"[-+\d.e]*\d\.? *({'|'.join(TIME_UNITS)}|[µμ]s)", text.strip().lower()):
        raise source.error(f"{column} = '{text}': write the unit in the column's name, not here")
    return numeric(text)


def _within(
    source: Source, line: int, name: str, text: str, low: float, high: float, unit: str = "",
    *, zero: bool = False,
) -> float:  # fmt: skip
    value = numeric(text)
    if value is None or not low <= value <= high or math.isinf(value) or (value == 0 and not zero):
        allowed = f"{low:g} to {high:g} {unit}" if unit else "a number above 0"
        raise source.error(f"line {line}: {name} = '{text[:60]}': must be {allowed}")
    return value


def _clock(source: Source, line: int, name: str, text: str, low: float, high: float) -> float:
    """Return a clock [MHz] of a column that may say its unit."""
    unit = split_unit(name, loose=True)[1]
    if unit is None or unit.dimension != "clock":
        unit = UNITS["MHz"]
    scale = unit.factor / UNITS["MHz"].factor
    return _within(source, line, name, text, low / scale, high / scale, unit.symbol) * scale


def _value(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    number = numeric(text)
    return text if number is None or not math.isfinite(number) else number

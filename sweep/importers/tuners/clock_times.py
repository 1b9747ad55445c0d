"""Times of kernels that were measured at several pairs of clocks, as a plain table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.importers.tuners.reading import Source
from sweep.importers.tuners.table import Columns, time_column

__all__ = ["ClockTimes", "Pair", "read_clock_times"]

Pair = tuple[float, float]
"""A core clock and a memory clock [MHz]."""

RANGES = {"core": (50.0, 5_000.0), "memory": (50.0, 20_000.0)}


@dataclass(frozen=True)
class ClockTimes:
    """Measured times by kernel and pair of clocks.

    Attributes
    ----------
    name : str
        Of the file.
    times : mapping of str to mapping of Pair to float
        Kernel to the times at the pairs of clocks at which it was measured [s].
    """

    name: str
    times: Mapping[str, Mapping[Pair, float]]


def read_clock_times(source: Source) -> ClockTimes:
    """Return what a CSV file holds: columns ``kernel``, core clock, memory clock and time.

    Parameters
    ----------
    source : Source
        The file. The columns of the clocks begin with ``core`` and ``mem`` and hold MHz; that of
        the time is ``time_ms``, or has another unit.

    Raises
    ------
    TuningError
        A column is missing, a cell is no number or not plausible, or a kernel has two times at one
        pair of clocks.
    """
    try:
        lines = list(csv.reader(io.StringIO(source.text), strict=True))
    except csv.Error as error:
        raise source.error(f"not valid CSV: {error}") from None
    header = [name.strip() for name in lines[0]]
    time, scale = time_column(source, header, Columns())
    columns = {clock: _clock(source, header, clock) for clock in RANGES}
    if "kernel" not in header:
        raise source.error(f"there is no column 'kernel' (columns: {', '.join(header)})")
    times: dict[str, dict[Pair, float]] = {}
    for number, cells in enumerate(lines[1:], 2):
        if not cells:
            continue
        if len(cells) != len(header):
            raise source.error(f"line {number} has {len(cells)} cells, the header {len(header)}")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        core, memory = (
            _number(source, number, name, row[name], *RANGES[clock], "MHz")
            for clock, name in columns.items()
        )
        found = _number(source, number, time, row[time], 0.0, math.inf)
        own = times.setdefault(row["kernel"], {})
        if (core, memory) in own:
            raise source.error(
                f"line {number}: a second time of '{row['kernel']}' at {core:g}/{memory:g} MHz"
            )
        own[core, memory] = found * scale
    if not times:
        raise source.error("there is no line below the header")
    return ClockTimes(source.name, times)


def _clock(source: Source, header: Sequence[str], clock: str) -> str:
    """Return the column of a clock: the only one that begins with its name."""
    found = [name for name in header if name.lower().startswith(clock[:3])]
    if len(found) != 1:
        raise source.error(
            f"there is no column of the {clock} clock, such as {clock}_clock_MHz"
            f" (columns: {', '.join(header)})"
        )
    return found[0]


def _number(
    source: Source, line: int, name: str, text: str, low: float, high: float, unit: str = ""
) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high or value == 0:
        most = f"{low:g} to {high:g} {unit}" if unit else "a number above 0"
        raise source.error(f"line {line}: {name} = '{text}': must be {most}")
    return value

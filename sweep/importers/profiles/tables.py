"""The tables in a profiler's CSV output: what stands between its messages and the program's own."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.errors import ProfileError

__all__ = ["KERNEL_COLUMNS", "Table", "tables_of"]

KINDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "ncu_details": (frozenset({"Kernel Name", "Metric Name", "Metric Value"}), frozenset()),
    "ncu_raw": (frozenset({"ID", "Kernel Name"}), frozenset({"Metric Name"})),
    "nvprof_metrics": (frozenset({"Kernel", "Invocations", "Metric Name", "Avg"}), frozenset()),
    "nvprof_events": (frozenset({"Kernel", "Invocations", "Event Name", "Avg"}), frozenset()),
    "nvprof_summary": (frozenset({"Time", "Calls", "Avg", "Name"}), frozenset()),
    "nvprof_trace": (frozenset({"Duration", "Grid X", "Block X", "Name"}), frozenset()),
    "nvprof_counters": (frozenset({"Device", "Stream", "Kernel"}), frozenset({"Invocations"})),
}
"""Kind of a table to the columns that it has, and those that it has not."""

KERNEL_COLUMNS = ("Kernel Name", "Kernel", "Name")
UNITS_BELOW = ("ncu_raw", "nvprof_summary", "nvprof_trace", "nvprof_counters")
"""Kinds of tables whose first row may hold the units."""

NO_TABLE = (
    "no table of a profiler: wanted is what `ncu --csv` prints (--page details or raw), or"
    " `nvprof --csv` with --metrics, --events or --print-gpu-trace"
)


@dataclass
class Table:
    """One table.

    Attributes
    ----------
    kind : str
        A key of :data:`KINDS`.
    header : tuple of str
        Its columns.
    units : mapping of str to str
        Units by column, where a row below the header gives them.
    rows : list of (int, mapping of str to str)
        Line in the file and cells by column.
    """

    kind: str
    header: tuple[str, ...]
    units: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    @property
    def kernel_column(self) -> str:
        """The column with the kernel's name."""
        return next(name for name in KERNEL_COLUMNS if name in self.header)


def tables_of(text: str) -> list[Table]:
    """Return the tables of a profiler's output.

    Messages of the profiler (``==PROF==``, ``==1234==``) and what the program printed before the
    first table are skipped.

    Parameters
    ----------
    text : str
        The output.

    Raises
    ------
    ProfileError
        There is no table, or a row is cut off.
    """
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _kind(_cells(line))), None)
    if start is None:
        raise ProfileError(NO_TABLE)
    tables: list[Table] = []
    for number, cells in _records(lines[start:], start):
        kind = _kind(cells)
        if kind:
            tables.append(Table(kind, tuple(cell.strip() for cell in cells)))
        elif cells and any(cells) and not cells[0].startswith("=="):
            _add(tables[-1], number, cells)
    if not any(table.rows for table in tables):
        raise ProfileError("a table without rows: no kernel was profiled")
    return tables


def _records(lines: Sequence[str], before: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number = before + reader.line_num
            raise ProfileError(f"line {number}: cut off, or not valid CSV: {error}") from None
        yield before + reader.line_num, cells


def _cells(line: str) -> list[str]:
    """Return the cells of a single line that may be anything."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _kind(cells: Sequence[str]) -> str:
    """Return the kind of the table that these cells are the header of, or ``""``."""
    names = {cell.strip() for cell in cells}
    for kind, (wanted, unwanted) in KINDS.items():
        if wanted <= names and not unwanted & names:
            return kind
    return ""


def _add(table: Table, number: int, cells: Sequence[str]) -> None:
    """Add a row to its table; trailing columns (rules) may be missing."""
    needed = [*KINDS[table.kind][0], *(table.header if table.kind in UNITS_BELOW else ())]
    if len(cells) <= max(table.header.index(name) for name in needed):
        raise ProfileError(
            f"line {number}: {len(cells)} cells below a header of {len(table.header)}: cut off,"
            " or not the profiler's own output"
        )
    row = dict(zip(table.header, (cell.strip() for cell in cells), strict=False))
    if table.kind in UNITS_BELOW and not table.rows and not row[table.kernel_column]:
        table.units = row
    elif row[table.kernel_column]:
        table.rows.append((number, row))

"""Read launches from a profiler's CSV output (kernel, block, grid, counters) and select some."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.errors import ProfileError, nearest
from sweep.importers.profiles.notation import Value, decimal_sign, read_value

__all__ = ["Launch", "bare_name", "chosen", "kernels_of", "read_profile"]

KINDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "ncu_details": (frozenset({"Kernel Name", "Metric Name", "Metric Value"}), frozenset()),
    "ncu_raw": (frozenset({"ID", "Kernel Name"}), frozenset({"Metric Name"})),
    "nvprof_metrics": (frozenset({"Kernel", "Invocations", "Metric Name", "Avg"}), frozenset()),
    "nvprof_events": (frozenset({"Kernel", "Invocations", "Event Name", "Avg"}), frozenset()),
    "nvprof_summary": (frozenset({"Time", "Calls", "Avg", "Name"}), frozenset()),
    "nvprof_trace": (frozenset({"Duration", "Grid X", "Block X", "Name"}), frozenset()),
    "nvprof_counters": (frozenset({"Device", "Stream", "Kernel"}), frozenset({"Invocations"})),
}
"""For each kind of table, the columns that it must have and those that it must not have."""

KERNEL_COLUMNS = ("Kernel Name", "Kernel", "Name")
UNITS_BELOW = ("ncu_raw", "nvprof_summary", "nvprof_trace", "nvprof_counters")
"""Kinds of tables whose first row may contain the units."""

NO_TABLE = (
    "no table of a profiler: wanted is what `ncu --csv` prints (--page details or raw), or"
    " `nvprof --csv` with --metrics, --events or --print-gpu-trace"
)


MOST_LISTED = 8
_NOT_COUNTERS = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Kernel",
        "Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC", "Start",
        "Correlation_ID", "SrcMemType", "DstMemType",
        *(f"{what} {axis}" for what in ("Grid", "Block") for axis in "XYZ"),
    }
)  # fmt: skip
_RAW_BLOCK = tuple(f"launch__block_dim_{axis}" for axis in "xyz")
_RAW_GRID = tuple(f"launch__grid_dim_{axis}" for axis in "xyz")
_TRIPLE = re.compile(r"\(?\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*\)?")


@dataclass
class Table:
    """A table: its kind, columns, units by column, and rows (line in the file, cells by column)."""

    kind: str
    header: tuple[str, ...]
    units: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    @property
    def kernel_column(self) -> str:
        """The column with the kernel's name."""
        return next(name for name in KERNEL_COLUMNS if name in self.header)


@dataclass
class Launch:
    """One launch of a kernel, or the mean over several.

    Attributes
    ----------
    kernel : str
        The kernel's name in the profile.
    tool : str
        ``ncu`` or ``nvprof``.
    counters : mapping of str to Value
        Counters by name.
    block, grid : tuple of int or None
        Dimensions in x, y, z.
    invocations : int
        Number of launches over which the counters are averaged.
    is_mean : bool
        Whether the profiler has averaged over launches.
    device : str
        The device's name, ``""`` if it is not in the profile.
    """

    kernel: str
    tool: str
    counters: dict[str, Value] = field(default_factory=dict)
    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    invocations: int = 1
    is_mean: bool = False
    device: str = ""


def read_profile(text: str) -> list[Launch]:
    """Return the launches in a profiler's CSV output, in the order of the file.

    Parameters
    ----------
    text : str
        The output of ``ncu --csv`` (``--page details`` or ``--page raw``), or ``nvprof --csv`` with
        ``--metrics``, ``--events``, ``--print-gpu-trace`` or nothing.

    Raises
    ------
    ProfileError
        There is no such table, a row is incomplete, or numbers contradict each other.
    """
    tables = _tables_of(text)
    decimal = decimal_sign(value for table in tables for value in _values(table))
    launches: list[Launch] = []
    for table in tables:
        launches += _READERS[table.kind](table, decimal)
    if not launches:
        raise ProfileError("no kernel in the profile: only copies between memories")
    return launches


def _values(table: Table) -> Iterator[str]:
    """Yield the texts of all counter values."""
    column = {"ncu_details": "Metric Value"}.get(table.kind, "Avg")
    for _, row in table.rows:
        if column in row:
            yield row[column]
        else:
            yield from (text for name, text in row.items() if name not in _NOT_COUNTERS)


def _details(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of a table with one row per counter."""
    found: dict[tuple[str, ...], Launch] = {}
    for _, row in table.rows:
        key = (row.get("Process ID", ""), row.get("ID", ""), row["Kernel Name"])
        launch = found.setdefault(key, Launch(row["Kernel Name"], "ncu"))
        launch.block = launch.block or _triple(row.get("Block Size", ""))
        launch.grid = launch.grid or _triple(row.get("Grid Size", ""))
        name = row["Metric Name"]
        if name:  # rows about rules have no counter
            value = read_value(row["Metric Value"], row.get("Metric Unit", ""), decimal)
            launch.counters.setdefault(name, value)
    return list(found.values())


def _raw(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of a table with one row per launch."""
    launches = []
    for _, row in table.rows:
        launch = Launch(row["Kernel Name"], "ncu", _across(table, row, decimal))
        launch.device = row.get("device__attribute_display_name", "")
        launch.block = _triple(row.get("Block Size", "")) or _dims(row, *_RAW_BLOCK)
        launch.grid = _triple(row.get("Grid Size", "")) or _dims(row, *_RAW_GRID)
        launches.append(launch)
    return launches


def _averages(table: Table, decimal: str) -> list[Launch]:
    """Return one launch per kernel from nvprof's metrics or events."""
    found: dict[str, Launch] = {}
    column = "Metric Name" if table.kind == "nvprof_metrics" else "Event Name"
    for number, row in table.rows:
        launch = found.setdefault(row["Kernel"], Launch(row["Kernel"], "nvprof", is_mean=True))
        launch.invocations = _count(row["Invocations"], f"line {number}: Invocations")
        launch.device = _device(row)
        launch.counters.setdefault(row[column], read_value(row["Avg"], "", decimal))
    return list(found.values())


def _summary(table: Table, decimal: str) -> list[Launch]:
    """Return one launch per kernel from nvprof's summary, with its mean duration."""
    launches = []
    for number, row in table.rows:
        if row.get("Type", "GPU activities") == "GPU activities" and not _is_copy(row["Name"]):
            value = read_value(row["Avg"], table.units.get("Avg", ""), decimal)
            calls = _count(row["Calls"], f"line {number}: Calls")
            launches.append(Launch(row["Name"], "nvprof", {"Duration": value}, invocations=calls,
                                   is_mean=True))  # fmt: skip
    return launches


def _trace(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of nvprof's trace, whose columns may include counters."""
    launches = []
    for _, row in table.rows:
        # nvprof numbers the launches after the name: 'kernel(float*) [127]'.
        name = re.sub(r"\s*\[\d+\]$", "", row[table.kernel_column])
        if not _is_copy(name):
            launch = Launch(name, "nvprof", _across(table, row, decimal))
            launch.block = _dims(row, "Block X", "Block Y", "Block Z")
            launch.grid = _dims(row, "Grid X", "Grid Y", "Grid Z")
            launch.device = _device(row)
            launches.append(launch)
    return launches


_READERS = {
    "ncu_details": _details,
    "ncu_raw": _raw,
    "nvprof_metrics": _averages,
    "nvprof_events": _averages,
    "nvprof_summary": _summary,
    "nvprof_trace": _trace,
    "nvprof_counters": _trace,
}


def _across(table: Table, row: Mapping[str, str], decimal: str) -> dict[str, Value]:
    """Return the counters of a row with one column per counter; names may have a description."""
    return {
        name.partition(" (")[0] if table.kind == "nvprof_counters" else name: read_value(
            text, table.units.get(name, ""), decimal
        )
        for name, text in row.items()
        if name not in _NOT_COUNTERS and text
    }


def _device(row: Mapping[str, str]) -> str:
    """Return the device's name without the number that nvprof appends."""
    return re.sub(r"\s*\(\d+\)$", "", row.get("Device", ""))


def _is_copy(name: str) -> bool:
    return name.startswith("[CUDA ")


def _triple(text: str) -> tuple[int, int, int] | None:
    match = _TRIPLE.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _dims(row: Mapping[str, str], *names: str) -> tuple[int, int, int] | None:
    return _triple(",".join(row.get(name, "") for name in names))


def _count(text: str, where: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise ProfileError(f"{where} = '{text[:60]}': must be a whole number from 1 on")
    return int(text)


def _tables_of(text: str) -> list[Table]:
    """Return the tables of a profiler's output.

    Messages of the profiler (``==PROF==``, ``==1234==``) and the program's own output before the
    first table are skipped.
    """
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _kind(_cells(line))), None)
    if start is None:
        raise ProfileError(NO_TABLE)
    tables: list[Table] = []
    reader = csv.reader(lines[start:], strict=True)
    try:
        for cells in reader:
            kind = _kind(cells)
            if kind:
                tables.append(Table(kind, tuple(cell.strip() for cell in cells)))
            elif any(cells) and not cells[0].startswith("=="):
                _add(tables[-1], start + reader.line_num, cells)
    except csv.Error as error:
        number = start + reader.line_num
        raise ProfileError(f"line {number}: cut off, or not valid CSV: {error}") from None
    if not any(table.rows for table in tables):
        raise ProfileError("a table without rows: no kernel was profiled")
    return tables


def _cells(line: str) -> list[str]:
    """Return the cells of any line."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _kind(cells: Sequence[str]) -> str:
    """Return the kind of table that has these cells as its header, or ``""``."""
    names = {cell.strip() for cell in cells}
    for kind, (wanted, unwanted) in KINDS.items():
        if wanted <= names and not unwanted & names:
            return kind
    return ""


def _add(table: Table, number: int, cells: Sequence[str]) -> None:
    """Add a row to a table; trailing columns (of rules) may be missing."""
    has_units = table.kind in UNITS_BELOW
    needed = table.header if has_units else KINDS[table.kind][0]
    if len(cells) <= max(map(table.header.index, needed)):
        raise ProfileError(
            f"line {number}: {len(cells)} cells below a header of {len(table.header)}: cut off,"
            " or not the profiler's own output"
        )
    row = dict(zip(table.header, map(str.strip, cells), strict=False))
    if row[table.kernel_column]:
        table.rows.append((number, row))
    elif has_units and not table.rows:
        table.units = row


def kernels_of(launches: Sequence[Launch]) -> tuple[str, ...]:
    """Return the names of the kernels, in the order of the profile."""
    return tuple(dict.fromkeys(launch.kernel for launch in launches))


def bare_name(kernel: str) -> str:
    """Return a kernel's name without type, namespace, template arguments and parameters.

    >>> bare_name("void lib::gemm<float, 8>(int, float const*)")
    'gemm'
    """
    head = re.sub(r"\(anonymous namespace\)::", "", kernel)
    head = re.split(r"[(<]", head, maxsplit=1)[0].strip()
    return re.split(r"::|\s", head)[-1] or kernel


def chosen(
    launches: Sequence[Launch], kernel: str | None = None, number: int | None = None
) -> list[Launch]:
    """Return the launches that the user selects.

    Parameters
    ----------
    launches : sequence of Launch
        From one or several profiles of the same program.
    kernel : str, optional
        The kernel's full or bare name, or a unique part of it. Required if there are several.
    number : int, optional
        Number of the launch of this kernel, counted from 1; all by default.

    Raises
    ------
    ProfileError
        The selection is ambiguous, or there is no such kernel or launch.
    """
    name = _kernel(kernels_of(launches), kernel)
    own = [launch for launch in launches if launch.kernel == name]
    if number is None:
        return own
    single = [launch for launch in own if not launch.is_mean]
    means = [launch for launch in own if launch.is_mean and launch.invocations > 1]
    where, shown = f"--launch {number}", f"'{bare_name(name)}'"
    if means and len(single) != 1:
        n_launches = means[0].invocations
        raise ProfileError(f"{where}: the counters of {shown} are means over {n_launches} launches")
    if not 1 <= number <= len(single):
        raise ProfileError(f"{where}: {shown} has {len(single)} launches in the profile")
    return [single[number - 1], *(launch for launch in own if launch.is_mean)]


def _kernel(names: Sequence[str], wanted: str | None) -> str:
    bare = [bare_name(name) for name in names]
    shown = [b if bare.count(b) == 1 else name for b, name in zip(bare, names, strict=True)]
    listed = ", ".join(shown[:MOST_LISTED])
    listed += f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise ProfileError(f"{len(names)} kernels ({listed}): choose one with --kernel NAME")
    for matching in (
        [name for name in names if name == wanted],
        [name for name in names if bare_name(name) == wanted],
        [name for name in names if wanted in name],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise ProfileError(
                f"--kernel {wanted}: {len(matching)} kernels have that name: give one in full,"
                f" such as '{matching[0]}'"
            )
    hint = nearest(wanted, bare)
    raise ProfileError(f"--kernel {wanted}: there is no such kernel{hint} (there are {listed})")

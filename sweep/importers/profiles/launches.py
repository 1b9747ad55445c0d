"""From a profiler's tables to launches: a kernel's name, block and grid, and its counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sweep.errors import ProfileError
from sweep.importers.profiles.notation import Value, decimal_sign, read_value
from sweep.importers.profiles.tables import Table, tables_of

__all__ = ["Launch", "read_profile"]

_NOT_COUNTERS = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Kernel",
        "Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC", "Start",
        "Correlation_ID", "SrcMemType", "DstMemType",
        *(f"{what} {axis}" for what in ("Grid", "Block") for axis in "XYZ"),
    }
)  # fmt: skip
_TRIPLE = re.compile(r"\(?\s*(\d+)\s*[,x]\s*(\d+)\s*[,x]\s*(\d+)\s*\)?")


@dataclass
class Launch:
    """One launch of a kernel, or the mean over several.

    Attributes
    ----------
    kernel : str
        Its name as the profiler gives it.
    tool : str
        ``ncu`` or ``nvprof``.
    counters : mapping of str to Value
        By name.
    block, grid : tuple of int or None
        In x, y, z.
    invocations : int
        Launches that the counters are the mean of.
    is_mean : bool
        Whether the profiler itself has summed up launches.
    device : str
        The device's name, ``""`` where the profiler does not tell it.
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
        What ``ncu --csv`` prints (``--page details`` or ``--page raw``), or ``nvprof --csv`` with
        ``--metrics``, ``--events``, ``--print-gpu-trace`` or nothing.

    Raises
    ------
    ProfileError
        There is no such table, a row is cut off, or numbers contradict each other.
    """
    tables = tables_of(text)
    decimal = decimal_sign(value for table in tables for value in _values(table))
    launches: list[Launch] = []
    for table in tables:
        launches += _READERS[table.kind](table, decimal)
    if not launches:
        raise ProfileError("no kernel in the profile: only copies between memories")
    return launches


def _values(table: Table) -> Iterator[str]:
    """Yield the texts that are values of counters."""
    column = {"ncu_details": "Metric Value"}.get(table.kind, "Avg")
    for _, row in table.rows:
        if column in row:
            yield row[column]
        else:
            yield from (text for name, text in row.items() if name not in _NOT_COUNTERS)


def _details(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of a table with a row for each counter."""
    found: dict[tuple[str, ...], Launch] = {}
    for _, row in table.rows:
        key = (row.get("Process ID", ""), row.get("ID", ""), row["Kernel Name"])
        launch = found.setdefault(key, Launch(row["Kernel Name"], "ncu"))
        launch.block = launch.block or _triple(row.get("Block Size", ""))
        launch.grid = launch.grid or _triple(row.get("Grid Size", ""))
        name = row["Metric Name"]
        if name:  # rules have none
            value = read_value(row["Metric Value"], row.get("Metric Unit", ""), decimal)
            launch.counters.setdefault(name, value)
    return list(found.values())


def _raw(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of a table with a row for each of them."""
    launches = []
    for _, row in table.rows:
        launch = Launch(row["Kernel Name"], "ncu", _across(table, row, decimal))
        launch.device = row.get("device__attribute_display_name", "")
        launch.block = _triple(row.get("Block Size", "")) or _dims(row, "launch__block_dim")
        launch.grid = _triple(row.get("Grid Size", "")) or _dims(row, "launch__grid_dim")
        launches.append(launch)
    return launches


def _averages(table: Table, decimal: str) -> list[Launch]:
    """Return one launch for each kernel of nvprof's metrics or events."""
    found: dict[str, Launch] = {}
    column = "Metric Name" if table.kind == "nvprof_metrics" else "Event Name"
    for number, row in table.rows:
        launch = found.setdefault(row["Kernel"], Launch(row["Kernel"], "nvprof", is_mean=True))
        launch.invocations = _count(row["Invocations"], f"line {number}: Invocations")
        launch.device = _device(row)
        launch.counters.setdefault(row[column], read_value(row["Avg"], "", decimal))
    return list(found.values())


def _summary(table: Table, decimal: str) -> list[Launch]:
    """Return one launch for each kernel of nvprof's summary: its mean duration."""
    launches = []
    for number, row in table.rows:
        if row.get("Type", "GPU activities") == "GPU activities" and not _is_copy(row["Name"]):
            value = read_value(row["Avg"], table.units.get("Avg", ""), decimal)
            calls = _count(row["Calls"], f"line {number}: Calls")
            launches.append(Launch(row["Name"], "nvprof", {"Duration": value}, invocations=calls,
                                   is_mean=True))  # fmt: skip
    return launches


def _trace(table: Table, decimal: str) -> list[Launch]:
    """Return the launches of nvprof's trace, which may have counters as columns."""
    launches = []
    for _, row in table.rows:
        # A number behind the name tells launches apart: 'kernel(float*) [127]'.
        name = re.sub(r"\s*\[\d+\]$", "", row[table.kernel_column])
        if not _is_copy(name):
            launch = Launch(name, "nvprof", _across(table, row, decimal))
            launch.block, launch.grid = _dims(row, "Block"), _dims(row, "Grid")
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
    """Return the counters of a row that has a column for each; a name may be explained behind."""
    return {
        name.partition(" (")[0] if table.kind == "nvprof_counters" else name: read_value(
            text, table.units.get(name, ""), decimal
        )
        for name, text in row.items()
        if name not in _NOT_COUNTERS and text
    }


def _device(row: Mapping[str, str]) -> str:
    """Return the device's name without nvprof's number behind it."""
    return re.sub(r"\s*\(\d+\)$", "", row.get("Device", ""))


def _is_copy(name: str) -> bool:
    return name.startswith("[CUDA ")


def _triple(text: str) -> tuple[int, int, int] | None:
    match = _TRIPLE.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _dims(row: Mapping[str, str], what: str) -> tuple[int, int, int] | None:
    join = "_" if what.startswith("launch__") else " "
    names = [f"{what}{join}{axis.lower() if join == '_' else axis}" for axis in "XYZ"]
    texts: Sequence[str] = [row.get(name, "") for name in names]
    if not all(re.fullmatch(r"\d+", text) for text in texts):
        return None
    x, y, z = (int(text) for text in texts)
    return x, y, z


def _count(text: str, where: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise ProfileError(f"{where} = '{text}': must be a whole number from 1 on")
    return int(text)

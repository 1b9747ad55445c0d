"""Read launches from a profiler's CSV output, select some, and find quantities in them."""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from sweep.errors import ProfileError, nearest
from sweep.importers.profiles.counters import (
    QUANTITIES,
    SECTOR,
    Value,
    decimal_sign,
    in_base,
    read_value,
    whole_bytes,
)

_FORMATS = tomllib.loads((files("sweep.importers.profiles") / "formats.toml").read_text("utf-8"))
_NOT_COUNTERS = frozenset(_FORMATS["other_columns"])

NO_TABLE = (
    "no table of a profiler: wanted is what `ncu --csv` prints (--page details or raw), or"
    " `nvprof --csv` with --metrics, --events or --print-gpu-trace"
)

FOR_PEOPLE = "a profiler's report for people, not CSV: run it again with --csv"
_REPORT = re.compile(r"^==\d+== (?:NVPROF|Profiling)|^ {4}Section: |^==PROF== ", re.MULTILINE)

MOST_LISTED = 8
_ON_DEVICE = "GPU activities"
_TRIPLE = re.compile(r"\(?\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*[,x]\s*(\d{1,10})\s*\)?")


@dataclass(frozen=True)
class Format:
    """The kind of a table, as ``formats.toml`` describes it."""

    tool: str
    needed: Sequence[str]
    kernel: str
    excluded: Sequence[str] = ()
    counter: str = ""
    value: str = ""
    calls: str = ""
    has_units: bool = False


FORMATS = [Format(**row) for row in _FORMATS["format"]]


@dataclass
class Table:
    """A table: format, columns, units by column, and rows (line in the file, cells by column)."""

    form: Format
    header: tuple[str, ...]
    units: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    def counters(self, row: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield name, value and unit of the counters in a row."""
        form = self.form
        if form.counter:
            yield row[form.counter], row[form.value], row.get("Metric Unit", "")
            return
        for column, text in row.items():
            if form.value in ("", column) and column not in _NOT_COUNTERS and text:
                # A column may have a description: 'inst_executed (Instructions Executed)'.
                name = "Duration" if form.value else column.partition(" (")[0]
                yield name, text, self.units.get(column, "")


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
    rows = ((table, row) for table in tables for _, row in table.rows)
    decimal = decimal_sign(value for table, row in rows for _, value, _ in table.counters(row))
    launches = [launch for table in tables for launch in _launches(table, decimal)]
    if not launches:
        raise ProfileError("no kernel in the profile: only copies between memories")
    return launches


def _launches(table: Table, decimal: str) -> Iterable[Launch]:
    """Return the launches of a table, or one for each kernel if the profiler has averaged."""
    form = table.form
    found: dict[object, Launch] = {}
    for number, row in table.rows:
        # nvprof numbers the launches after the name: 'kernel(float*) [127]'.
        name = re.sub(r"\s*\[\d+\]$", "", row[form.kernel])
        if name.startswith("[CUDA ") or row.get("Type", _ON_DEVICE) != _ON_DEVICE:
            continue
        own = (row.get("Process ID", ""), row.get("ID", ""), name) if form.counter else number
        launch = found.setdefault(own, Launch(name, form.tool, is_mean=bool(form.calls)))
        launch.block = launch.block or _sides(row, "Block", "block")
        launch.grid = launch.grid or _sides(row, "Grid", "grid")
        if form.tool == "ncu":
            launch.device = row.get("device__attribute_display_name", "")
        else:  # nvprof appends a number to the name
            launch.device = re.sub(r"\s*\(\d+\)$", "", row.get("Device", ""))
        if form.calls:
            where, calls = f"line {number}: {form.calls}", row[form.calls]
            if not re.fullmatch(r"[1-9]\d{0,8}", calls):
                raise ProfileError(f"{where} = '{calls[:60]}': must be a whole number from 1 on")
            launch.invocations = int(calls)
        for counter, text, unit in table.counters(row):
            if counter:  # rows about rules have no counter
                launch.counters.setdefault(counter, read_value(text, unit, decimal))
    return found.values()


def _sides(row: Mapping[str, str], title: str, word: str) -> tuple[int, int, int] | None:
    """Return the dimensions of the block or the grid, from one column or three."""
    for columns in (
        [f"{title} Size"],
        [f"{title} {axis}" for axis in "XYZ"],
        [f"launch__{word}_dim_{axis}" for axis in "xyz"],
    ):
        match = _TRIPLE.fullmatch(",".join(row.get(column, "") for column in columns).strip())
        if match:
            return int(match[1]), int(match[2]), int(match[3])
    return None


def _tables_of(text: str) -> list[Table]:
    """Return the tables of a profiler's output.

    Messages of the profiler (``==PROF==``, ``==1234==``) and the program's own output before the
    first table are skipped.
    """
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _format(_cells(line))), None)
    if start is None:
        is_report = bool(_REPORT.search(text))
        raise ProfileError(f"{FOR_PEOPLE}; {NO_TABLE}" if is_report else NO_TABLE)
    tables: list[Table] = []
    reader = csv.reader(lines[start:], strict=True)
    try:
        for cells in reader:
            form = _format(cells)
            if form is not None:
                tables.append(Table(form, tuple(cell.strip() for cell in cells)))
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


def _format(cells: Sequence[str]) -> Format | None:
    """Return the format of the table that has these cells as its header."""
    names = {cell.strip() for cell in cells}
    for form in FORMATS:
        if names.issuperset(form.needed) and names.isdisjoint(form.excluded):
            return form
    return None


def _add(table: Table, number: int, cells: Sequence[str]) -> None:
    """Add a row to a table; trailing columns (of rules) may be missing."""
    needed = table.header if table.form.has_units else table.form.needed
    if len(cells) <= max(map(table.header.index, needed)):
        raise ProfileError(
            f"line {number}: {len(cells)} cells below a header of {len(table.header)}: cut off,"
            " or not the profiler's own output"
        )
    row = dict(zip(table.header, map(str.strip, cells), strict=False))
    if row[table.form.kernel]:
        table.rows.append((number, row))
    elif table.form.has_units and not table.rows:
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
        raise ProfileError(f"{where}: launches of {shown} in the profile: {len(single)}")
    return [single[number - 1], *(launch for launch in own if launch.is_mean)]


def _kernel(names: Sequence[str], wanted: str | None) -> str:
    bare = [bare_name(name) for name in names]
    shown = [b if bare.count(b) == 1 else name for b, name in zip(bare, names, strict=True)]
    listed = ", ".join(shown[:MOST_LISTED])
    listed += f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    if wanted is None:
        if len(names) == 1:
            return names[0]
        hint = "choose one with --kernel NAME, or give a folder for all with -o"
        raise ProfileError(f"{len(names)} kernels ({listed}): {hint}")
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


@dataclass(frozen=True)
class Found:
    """A quantity of the chosen launches; false if they do not have it.

    Attributes
    ----------
    value : float
        Mean in base units.
    words : str
        The names of its counters.
    spread : float
        Difference between the largest and the smallest value over the mean, 0 for one launch.
    why : str
        Why there is none.
    """

    value: float = 0.0
    words: str = ""
    spread: float = 0.0
    why: str = ""

    def __bool__(self) -> bool:
        return bool(self.words)

    def __add__(self, other: Found) -> Found:
        """Return the sum of two counts, of which one may be missing."""
        return Found(self.value + other.value, " + ".join(filter(None, (self.words, other.words))))


def find(launches: Sequence[Launch], name: str) -> Found:
    """Return a quantity as the mean over launches.

    Parameters
    ----------
    launches : sequence of Launch
        Launches of one kernel; the mean is over those that have the quantity. The profiler's own
        means are used only if no single launch has it.
    name : str
        A key of :data:`QUANTITIES`.

    Raises
    ------
    ProfileError
        A counter has the wrong unit, or is negative.
    """
    why = ""
    for is_mean in (False, True):
        found = [_of_launch(launch, name) for launch in launches if launch.is_mean == is_mean]
        values = [one.value for one in found if one]
        if values:
            mean = sum(values) / len(values)
            spread = (max(values) - min(values)) / mean if mean else 0.0
            return Found(mean, next(one.words for one in found if one), spread)
        why = why or next((one.why for one in found if one.why), "")
    return Found(why=why or f"there is no {QUANTITIES[name].wanted(launches[0].tool)}")


def _of_launch(launch: Launch, name: str) -> Found:
    """Return a quantity of one launch; without a reason if a counter is missing."""
    quantity = QUANTITIES[name]
    why = ""
    for words in (*quantity.ncu, *quantity.nvprof):
        names, _, divisor = words.partition(" / ")
        parts = names.split(" + ")
        if any(part not in launch.counters for part in parts):
            continue
        nothing = next((part for part in parts if math.isnan(launch.counters[part].number)), "")
        if nothing:
            why = why or f"{nothing} is '{launch.counters[nothing].text}'"
            continue
        dimension = "size" if divisor else quantity.dimension
        total = sum(_in_base(launch, part, dimension) for part in parts)
        return Found(total / SECTOR if divisor else total, words)
    return Found(why=why)


def _in_base(launch: Launch, name: str, dimension: str) -> float:
    value = launch.counters[name]
    try:
        number = float(whole_bytes(value)) if dimension == "bytes" else in_base(value, dimension)
    except ProfileError as error:
        raise ProfileError(f"{name} = {value.text}: {error}") from None
    if number < 0:
        raise ProfileError(f"{name} = {value.text}: must not be negative")
    return number

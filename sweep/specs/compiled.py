"""What a compiler found about a kernel's variants: a table beside the kernel file, and look-ups.

``[compiled] table = "KEY.csv"`` names a table that ``sweep compile`` wrote. Its rows are variants
of the source for one compute capability, or for a target of AMD's compiler. Expressions read a
column as ``compiled_COLUMN``, and ``compiled`` is 1 where the table has a row. The table's text
becomes part of the kernel's text when the file is read, so that hashes and stores contain both.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import counted, nearest
from sweep.expressions import Bounds, Expression
from sweep.specs.compiled_cells import count, reader_of, signed
from sweep.specs.formats import INSTRUCTION_CLASSES
from sweep.specs.reading import LARGEST_FILE, load_toml, read_text

CAPABILITY = "compute_capability"
"""The first column: the compute capability that the compiler was asked for, such as 8.6; for AMD's
GPUs the target, such as gfx1100."""

TARGET = "gpu_target"
"""The name by which a look-up finds the device's rows (see :func:`target_number`)."""

OF_AMD = 1000.0
"""Numbers of AMD's targets are larger, those of compute capabilities smaller."""

CAPABILITIES = "capabilities"
"""In the head: the capabilities compiled for; ``8.9 as 8.6`` has the same numbers, and no rows."""

DERIVED = "derived"
"""In the head: ``3.0 compiled for 3.5 with 63 registers``, where no compiler knows the first."""

QUANTITIES: dict[str, str] = {
    "exact": "1 if this variant was compiled, 0 if its numbers follow from the nearest that was",
    "registers": "32-bit registers of a thread; on AMD's GPUs vector registers",
    "spill_store_bytes": "bytes that a thread spills to local memory, each instruction once; on"
    " AMD's GPUs as often as it is executed, if instructions are counted",
    "spill_load_bytes": "bytes that a thread loads from there, counted likewise",
    "shared_bytes": "static shared memory of a block",
    **{name: f"dynamic {name} instructions of a thread" for name in INSTRUCTION_CLASSES},
    "barriers": "dynamic barriers of a thread",
    "load_waits": "times that a warp waits for loads from global and local memory, one after the"
    " other: loads that are under way together are waited for once",
    "code_bytes": "size of the machine code",
}
"""The other columns that are not parameters or sizes, with their meaning."""

REASON = "reason"
"""A column of words: why a variant does not compile; it is blank for those that do."""

OWN = "own_columns"
"""In the head: how many further columns the table has, whose meaning only the kernel file tells."""

MOST_ROWS = 50_000
MOST_COLUMNS = 256
MOST_WORDS = 200
"""Characters of a line of the head that are shown."""

APPENDED = (
    "\n# The table of [compiled], added when the file was read.\n[compiled_table]\ntext = '''\n"
)
LISTED = "listed"
_COLUMN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,80}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.csv")

Values = Mapping[str, Sequence[Any]]
"""Values of each parameter in the kernel file."""


@dataclass(frozen=True, eq=False)
class CompiledTable:
    """The rows of a table, ready for look-ups.

    Parameters
    ----------
    name : str
        The file.
    head : mapping of str to str
        What the comment lines say: ``compiler``, ``source``, ``source_sha256``, ``options``, ...
    keys : tuple of str
        The parameters and sizes that tell variants apart.
    axes : tuple of ndarray
        The values of the compute capability and of each key, sorted.
    codes : ndarray of int64
        Of each row: the positions of its values on the axes, as one number; sorted.
    columns : mapping of str to ndarray
        The quantities, row by row.
    reasons : ndarray of str
        Row by row why the variant does not compile; blank for those that do.
    """

    name: str
    head: Mapping[str, str]
    keys: tuple[str, ...]
    axes: tuple[np.ndarray, ...]
    codes: np.ndarray = field(repr=False)
    columns: Mapping[str, np.ndarray] = field(repr=False)
    reasons: np.ndarray = field(repr=False)

    @property
    def described(self) -> str:
        """The source of the table's numbers in words."""
        source, digest = self.head.get("source", ""), self.head.get("source_sha256", "")[:12]
        words = [self.head.get("compiler", "a compiler that the table does not name")]
        words += [f"from {source}"] * bool(source) + [f"(SHA-256 {digest}...)"] * bool(digest)
        return f"compiled by {' '.join(words)}: {self.name}"

    @property
    def counted(self) -> str:
        """The number of rows in words, and how many of them nobody compiled."""
        return ", ".join([counted(len(self.codes), "row"), *self._uncompiled()])

    @property
    def not_compiled(self) -> str:
        """As `counted`, ``""`` if each row was compiled for its compute capability."""
        return self.counted if any(self._uncompiled()) else ""

    def _uncompiled(self) -> Iterator[str]:
        """Yield in words how many rows nobody compiled, or for another capability."""
        exact = self.columns.get("exact", np.ones(len(self.codes)))
        if filled := int((exact == 0).sum()):
            yield f"{filled:,} of them not compiled: they follow from others (exact = 0)"
        own = self.axes[0][self.codes // math.prod(map(len, self.axes[1:]))]
        for capability in self.axes[0]:
            used = self.compiled_for(float(capability))
            if used is not None and used != capability:
                n = int(((own == capability) & (exact != 0)).sum())
                yield f"{n:,} of them of {capability:.1f} compiled for {used:.1f}"
        if failed := self.reasons[self.reasons != ""].tolist():
            yield f"{len(failed):,} of them do not compile: {'; '.join(sorted({*failed}))}"

    def capability_for(self, device: float) -> float | None:
        """Return the compute capability whose rows serve a device: the nearest at or below.

        AMD's targets serve only themselves, because their register files differ.
        """
        below = self.axes[0][self.axes[0] <= device]
        if not len(below) or (device > OF_AMD and below[-1] != device):
            return None
        return float(below[-1])

    def compiled_for(self, device: float) -> float | None:
        """Return the compute capability for which the rows that serve a device were compiled.

        Where two have the same numbers, the head states both, and one has the rows. Where another
        compiler stood in, the head says so, too (``derived``).
        """
        stand_ins = re.findall(r"(\d+\.\d+) compiled for (\d+\.\d+)", self.head.get(DERIVED, ""))
        stood_in = {float(own): float(used) for own, used in stand_ins}
        stated = re.findall(
            r"(?:^|, )(\d+\.\d+)(?: as (\d+\.\d+))?", self.head.get(CAPABILITIES, "")
        )
        rows_of = {float(own): float(rows or own) for own, rows in stated}
        rows = self.capability_for(device)
        if rows is None or device in rows_of:
            return None if rows is None else stood_in.get(device, device)
        others = [own for own, known in rows_of.items() if known == rows]
        found = rows if rows in others else max(others, default=rows)
        return stood_in.get(found, found)

    def look_up(self, column: str, values: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return a column's numbers for arrays of values, and where the table has no row."""
        if column == LISTED:
            return self._listed(values)
        device = np.asarray(values[TARGET])
        code: Any = np.searchsorted(self.axes[0], device, side="right") - 1
        known: Any = (code >= 0) & ((device < OF_AMD) | (self.axes[0][code] == device))
        known, code = self._placed(values, known, code)
        row = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        known = known & (self.codes[row] == code)
        if column == "":
            known = known & (self.reasons[row] == "")
            return known.astype(np.float64), np.zeros_like(known)
        found = np.where(known, self.columns[column][row], np.nan)
        return found, np.isnan(found)

    def _listed(self, values: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return where the table has a row for any device."""
        known, code = self._placed(values, np.asarray(True), np.asarray(0))
        rows = np.unique(self.codes % math.prod(map(len, self.axes[1:])))
        known = known & (rows[np.minimum(np.searchsorted(rows, code), len(rows) - 1)] == code)
        return known.astype(np.float64), np.zeros_like(known)

    def _placed(self, values: Mapping[str, Any], known: Any, code: Any) -> tuple[Any, Any]:
        """Return where values are on the axes, and codes that go on with their positions."""
        for key, axis in zip(self.keys, self.axes[1:], strict=True):
            own = np.asarray(values[key])
            place = np.minimum(np.searchsorted(axis, own), len(axis) - 1)
            known, code = known & (axis[place] == own), code * len(axis) + place
        return known, code

    def look_ups(self) -> dict[str, Expression]:
        """Return the names that expressions may use, each with its look-up."""
        names = frozenset({TARGET, *self.keys})
        columns = {"compiled": "", **{f"compiled_{column}": column for column in self.columns}}
        found: dict[str, Expression] = {
            name: LookUp(f"{column or 'row'} of {self.name}", names, (), column, self)
            for name, column in columns.items()
        }
        if OWN in self.head:  # a list of configurations, not of variants of a space
            listed = LookUp(f"row of {self.name}", frozenset(self.keys), (), LISTED, self)
            found["compiled_listed"] = listed
        return found


@dataclass(frozen=True)
class LookUp(Expression):
    """A derived name whose value stands in a table."""

    column: str = field(default="", compare=False)
    table: CompiledTable | None = field(default=None, compare=False, repr=False)

    def evaluate(
        self, values: Mapping[str, Any], faults: Mapping[str, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the column's numbers; a configuration without a row is at fault."""
        assert self.table is not None
        return self.table.look_up(self.column, values)

    def bounds(self, names: Mapping[str, Bounds]) -> Bounds:
        """Return bounds that exclude nothing."""
        return Bounds(np.float64(-np.inf), np.float64(np.inf))


def target_number(target: str) -> float:
    """Return the number that stands for a compute capability, or a target of AMD's compiler.

    >>> target_number("8.6"), target_number("gfx90a") == OF_AMD + 0x90A, target_number("")
    (8.6, True, 0.0)
    """
    if target.startswith("gfx"):
        return OF_AMD + int(target.removeprefix("gfx"), 16)
    return float(target or 0)


# ---------------------------------------------------------------------------- reading


_BLANK = f"{CAPABILITY},{','.join(QUANTITIES)}\n1e9{',0' * len(QUANTITIES)}"
"""A table with every column whose only row serves no device."""


def with_table(text: str, path: Path, *, blank: bool = False) -> str:
    """Return a kernel file's text with that of the table that it names, or of a blank one.

    Raises
    ------
    ValueError
        The table cannot be read.
    """
    if "compiled" not in text:
        return text
    try:
        content = load_toml(text)
    except ValueError:
        return text  # whoever parses it says why
    section = content.get("compiled")
    name = section.get("table") if isinstance(section, dict) else None
    if not isinstance(name, str) or "compiled_table" in content:
        return text
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(
            f'compiled.table = "{name[:60]}": must be a file beside this one, such as'
            f" {path.stem}.compiled.csv"
        )
    try:
        table = _BLANK if blank else read_text(path.with_name(name))
    except ValueError as error:
        raise ValueError(f'compiled.table = "{name}": {error}') from None
    if "'''" in table or not table.replace("\n", "").replace("\r", "").isprintable():
        raise ValueError(f"compiled.table = \"{name}\": no table: it has control characters or '''")
    return appended(text, table)


def appended(text: str, table: str) -> str:
    """Return a kernel file's text with that of its table."""
    rows = "\n".join(table.splitlines())
    return f"{text.rstrip()}\n{APPENDED}{rows}\n'''\n"


def own_text(text: str) -> str:
    """Return a kernel file's text without the table's."""
    return text.split(APPENDED)[0]


def parse_table(
    text: str, name: str, parameters: Values, sizes: Mapping[str, float]
) -> CompiledTable:
    """Return the table that a text contains.

    Parameters
    ----------
    text : str
        Comment lines ``# KEY: TEXT``, a line with the names of the columns, and the rows.
    name : str
        The file's name, for messages.
    parameters, sizes : mapping
        Those of the kernel file: names of columns, and of what kind their values are.

    Raises
    ------
    ValueError
        The text is wrong; the message has line, column and reason.
    """
    lines = text.splitlines()
    heading = list(takewhile(lambda line: line.startswith("#"), lines))
    n_head, pairs = len(heading), (line.lstrip("# ").partition(":") for line in heading)
    head = {key.strip(): value.strip()[:MOST_WORDS] for key, _, value in pairs}
    if len(lines) - n_head - 1 > MOST_ROWS or len(text) > LARGEST_FILE:
        raise ValueError(f"more than {MOST_ROWS} rows or {LARGEST_FILE} bytes")
    rows = list(csv.reader(lines[n_head:]))
    if len(rows) < 2:
        raise ValueError("no rows")
    n_own = int(head[OWN]) if head.get(OWN, "").isdecimal() else 0
    keys, quantities = _columns(rows[0], {**parameters, **sizes}, n_head + 1, n_own)
    others: dict[str, Callable[[str], Any]] = {CAPABILITY: _target, REASON: str}
    others |= {name: signed for name in quantities if name not in QUANTITIES}
    # Most cells repeat.
    readers = {c: cache(others.get(c) or reader_of(c, parameters, sizes)) for c in rows[0]}
    arrays = _arrays(readers, rows[1:], n_head + 2)
    axes, codes = [], np.zeros(len(rows) - 1, np.int64)
    for key in (CAPABILITY, *keys):
        axis, place = np.unique(arrays[key], return_inverse=True)
        axes.append(axis)
        codes = codes * len(axis) + place.reshape(-1)
        if math.prod(map(len, axes)) > 2**62:
            raise ValueError("too many different values of the parameters")
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    if twice := np.flatnonzero(codes[1:] == codes[:-1]).tolist():
        line = int(max(order[twice[0]], order[twice[0] + 1])) + n_head + 2
        raise ValueError(f"line {line}: a second row of the same variant")
    columns = {column: arrays[column][order] for column in quantities}
    reasons = arrays.get(REASON, np.full(len(codes), ""))[order]
    return CompiledTable(name, head, keys, tuple(axes), codes, columns, reasons)


def _arrays(
    readers: Mapping[str, Callable[[str], Any]], rows: Sequence[Sequence[str]], first_line: int
) -> dict[str, np.ndarray]:
    """Return the values of each column, whose function reads its cells."""
    cells: dict[str, list[Any]] = {column: [] for column in readers}
    for number, row in enumerate(rows, start=first_line):
        if len(row) != len(readers):
            raise ValueError(f"line {number}: {len(row)} cells under {len(readers)} columns")
        for (column, read), cell in zip(readers.items(), row, strict=True):
            try:
                cells[column].append(read(cell.strip()))
            except ValueError as error:
                raise ValueError(f"line {number}: {column} = '{cell[:40]}': {error}") from None
    return {column: np.asarray(found) for column, found in cells.items()}


def _columns(
    names: Sequence[str], known: Mapping[str, Any], line: int, n_own: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that tell variants apart, and the quantities."""
    if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
        raise ValueError(f"line {line}: more than {MOST_COLUMNS} columns, or one twice")
    if CAPABILITY not in names:
        raise ValueError(f"line {line}: the column {CAPABILITY} is missing")
    keys = tuple(name for name in names if name in known)
    quantities = tuple(name for name in names if name in QUANTITIES and name not in known)
    others = [n for n in names if n not in (*keys, *quantities, CAPABILITY, REASON)]
    if n_own and len(others) == n_own and all(map(_COLUMN_NAME.fullmatch, others)):
        quantities, others = (*quantities, *others), []
    for name in names:
        if name in others:
            hint = nearest(name, [*known, *QUANTITIES])
            reason = f"column '{name[:60]}' is no parameter, size or quantity{hint}"
            raise ValueError(f"line {line}: {reason}")
    if not quantities:
        raise ValueError(f"line {line}: no quantity: one of {', '.join(QUANTITIES)}")
    return keys, quantities


def _target(cell: str) -> float:
    if re.fullmatch(r"gfx[0-9a-f]{3,4}", cell):
        return target_number(cell)
    return count(cell)

"""The one layout of tables: columns that fit a width, aligned, under headers with units."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sweep.query.texts import shortened

NUMERIC = re.compile(r"(-|tie|-?(\d+(\.\d+)?(e[-+]?\d+)?|inf|nan))[* ]?( %)?")
HEAD_WIDTH = 9  # column names longer than this and than their cells are broken at underscores
GAP = "  "
LONG = 28
"""Widest texts that are whole where a table does not fit."""
SHORT = 12
"""Narrowest to which texts are cut."""
FIRST_OUT = (
    "core_clock_ratio", "memory_clock_ratio", "regime", "configurations", "kendall", "recall_1",
    "worst_regime", "front_changes", "only_before", "only_after", "became_valid", "became_invalid",
    "largest_speedup",
)  # fmt: skip
"""Columns that go first: clocks in MHz, the bound and other statistics say as much."""
ASKED = ("time_low", "time_high")
"""Columns that stand only where somebody asked for them: they stay."""
WITH = {"high": "low", "loss_of_second": "loss_of_first"}
"""Columns that say little without another, which goes with them."""


class Column(NamedTuple):
    """One column of a table: its name, its unit as shown, and the text of each row."""

    name: str
    unit: str
    texts: Sequence[str]

    @property
    def head(self) -> list[str]:
        """The name in lines no wider than the texts where underscores allow it, and the unit."""
        width = max(HEAD_WIDTH, *map(len, self.texts), 0)
        lines = [""]
        for part in re.findall(r"[^_]*_?", self.name):
            if lines[-1] and len(lines[-1]) + len(part) > width:
                lines.append("")
            lines[-1] += part
        return [*lines, f"[{self.unit}]"] if self.unit else lines

    @property
    def width(self) -> int:
        """Characters of the widest line."""
        return max(map(len, [*self.head, *self.texts]))

    @property
    def is_text(self) -> bool:
        """Whether any row has something else than a number."""
        return not all(map(NUMERIC.fullmatch, self.texts))

    def cut(self, width: int) -> Column:
        """Return it with texts of at most some characters."""
        return self._replace(texts=[shortened(text, width) for text in self.texts])


@dataclass
class Fitted:
    """Columns that fit, and the names of those that did not, or not whole."""

    columns: list[Column]
    left_out: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that another layout could show."""
        return not self.cut and not set(self.left_out) - set(FIRST_OUT)


def width_of(columns: Collection[Column]) -> int:
    """Return the width of a table with some columns."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def fitted(
    columns: Sequence[Column], width: int | None, kept: Collection[str], marked: str | None = None
) -> Fitted:
    """Return the columns of a table that is no wider than the output.

    Long texts are shortened first; then columns are left out, :data:`FIRST_OUT` before the others
    and these from the right; at last the kept columns are shortened and left out, too.

    Parameters
    ----------
    columns : sequence of Column
        In order.
    width : int, optional
        Characters; without it all fit.
    kept : collection of str
        Names of columns that say what a row is about, and its main result.
    marked : str, optional
        The main result, which always stays.
    """
    found = Fitted(list(columns))
    if width is None or width_of(columns) <= width:
        return found
    stay = {marked, *ASKED}
    others = [column for column in columns if column.name not in {*kept, *stay}]
    order = [c for name in FIRST_OUT for c in others if c.name == name]
    order += [c for c in others[::-1] if c not in order]
    order += [c for c in columns[:1:-1] if c.name in kept and c.name not in stay]
    found.columns = [c.cut(LONG) if c in others and c.is_text else c for c in columns]
    for gone in order:
        if width_of(found.columns) > width and gone.name in kept:
            _cut_widest(found.columns, width)
        if width_of(found.columns) <= width:
            break
        pair = (gone.name, WITH.get(gone.name))
        found.columns = [c for c in found.columns if c.name not in pair]
    whole = {column.name: column for column in columns}
    for place, column in enumerate(found.columns):  # what now has room again
        room = width - width_of(found.columns) + max(map(len, column.texts))
        found.columns[place] = whole[column.name].cut(room)
        if found.columns[place] != whole[column.name]:
            found.cut.append(column.name)
    names = {column.name for column in found.columns}
    found.left_out = [column.name for column in columns if column.name not in names]
    return found


def _cut_widest(columns: list[Column], width: int) -> None:
    """Shorten the widest texts until the columns fit, or all are short."""
    while (excess := width_of(columns) - width) > 0:
        texts = [(max(map(len, c.texts)), i) for i, c in enumerate(columns) if c.is_text]
        widest, place = max(texts, default=(0, 0))
        if widest <= SHORT:
            return
        columns[place] = columns[place].cut(max(SHORT, widest - excess))


def lines_of(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the lines of a table: the headers, a rule and the rows."""
    height = max(len(column.head) for column in columns)
    cells = []
    for column in columns:
        head = column.head
        texts = [*[""] * (height - len(head)), *head, "-" * column.width, *column.texts]
        cells.append(justified(texts, right=not column.is_text))
    for line in zip(*cells, strict=True):
        yield GAP.join(line).rstrip()


def justified(texts: Sequence[str], *, right: bool = False) -> list[str]:
    """Return texts of equal width."""
    width = max(map(len, texts), default=0)
    return [text.rjust(width) if right else text.ljust(width) for text in texts]


def aligned(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns; ``right`` are those aligned to the right."""
    columns = [justified(texts, right=i in right)
               for i, texts in enumerate(zip(*rows, strict=True))]  # fmt: skip
    return [GAP.join(cells).rstrip() for cells in zip(*columns, strict=True)]

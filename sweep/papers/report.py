"""Tables of printed and computed values, figures, and the files that contain them."""

from __future__ import annotations

import base64
import csv
import html
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.errors import SweepError

__all__ = ["Figure", "Quantity", "Reproduction", "Table"]


@dataclass(frozen=True)
class Quantity:
    """A printed number of a paper and the same number computed here.

    Parameters
    ----------
    name : str
        Name of the quantity.
    units : str
        Its unit.
    computed : float
        Value computed here.
    printed : str or None
        Value printed in the paper; ``None`` if it prints none.
    note : str
        Reason for a difference between the two.
    """

    name: str
    units: str
    computed: float
    printed: str | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Relative difference between the computed and the printed value."""
        if self.printed is None:
            return None
        value = float(self.printed)
        if value == 0:
            return 0.0 if self.computed == 0 else float("inf")
        return self.computed / value - 1.0

    @property
    def agrees(self) -> bool | None:
        """Whether the computed value rounds to the printed digits."""
        if self.printed is None:
            return None
        digits = len(self.printed.partition(".")[2])
        return abs(self.computed - float(self.printed)) <= 0.5 * 10.0**-digits * (1 + 1e-9)


@dataclass(frozen=True)
class Table:
    """A table of a paper, or a table computed from its data.

    ``rows`` are quantities, or lists of cells under ``columns``.
    """

    name: str
    title: str
    rows: Sequence[Quantity] | Sequence[Sequence[Any]]
    columns: tuple[str, ...] = ("quantity", "unit", "printed", "computed", "difference", "note")

    def cells(self) -> list[list[str]]:
        """Return the table's cells as text."""
        return [_cells(row) for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A figure with a caption."""

    name: str
    caption: str
    picture: Any


@dataclass
class Reproduction:
    """All tables and figures that can be computed from one paper's own data.

    Attributes
    ----------
    key, title, reference : str
        The paper.
    remarks : list of str
        Results that cannot be reproduced, with reasons.
    """

    key: str
    title: str
    reference: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return how many printed numbers agree, and by how much the others differ."""
        found = [q for t in self.tables for q in t.rows if isinstance(q, Quantity)]
        printed = [q for q in found if q.printed is not None]
        missed = [q for q in printed if not q.agrees]
        met = len(printed) - len(missed)
        lines = [f"{self.title}: {met} of {len(printed)} printed numbers met to the digit"]
        for q in missed:
            difference = q.difference or 0.0
            lines.append(
                f"  {q.name}: printed {q.printed}, computed {q.computed:.6g} {q.units} "
                f"({difference:+.2%}){'; ' + q.note if q.note else ''}"
            )
        return "\n".join(lines)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write CSV, figures and one self-contained HTML page into a folder.

        Returns
        -------
        Path
            The page.

        Raises
        ------
        SweepError
            The folder cannot be written.
        """
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for table in self.tables:
                with open(target / f"{table.name}.csv", "w", newline="", encoding="utf-8") as out:
                    writer = csv.writer(out)
                    writer.writerow(table.columns)
                    writer.writerows(table.cells())
            pictures = []
            for figure in self.figures:
                data = _png(figure.picture)
                (target / f"{figure.name}.png").write_bytes(data)
                pictures.append((figure, data))
            page = target / "index.html"
            page.write_text(_page(self, pictures), encoding="utf-8")
        except OSError as error:
            raise SweepError(f"cannot write '{target}': {error.strerror or error}") from None
        return page


def _cells(row: Quantity | Sequence[Any]) -> list[str]:
    if not isinstance(row, Quantity):
        return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
    difference = "" if row.difference is None else f"{row.difference:+.2%}"
    computed = f"{row.computed:.7g}"
    return [row.name, row.units, row.printed or "", computed, difference, row.note]


def _png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } caption { text-align: left; font-weight: bold }
td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr.missed td { background: #fdeecd }
img { max-width: 100% } figure { margin: 1.5em 0 } figcaption { color: #444 }
"""


def _page(found: Reproduction, pictures: Sequence[tuple[Figure, bytes]]) -> str:
    """Return the self-contained HTML page."""
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(found.title)}",
        f"</title><style>{STYLE}</style><h1>{html.escape(found.title)}</h1>",
        f"<p>{html.escape(found.reference)}</p>",
        "<p>Printed values beside computed ones; a shaded row does not round to the printed "
        "digits.</p>",
    ]
    parts += [f"<p>{html.escape(remark)}</p>" for remark in found.remarks]
    for table in found.tables:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in table.columns)
        parts.append(f"<table><caption>{html.escape(table.title)}</caption><tr>{head}</tr>")
        for row, cells in zip(table.rows, table.cells(), strict=True):
            missed = isinstance(row, Quantity) and row.agrees is False
            body = "".join(_cell(cell) for cell in cells)
            parts.append(f"<tr{' class=missed' if missed else ''}>{body}</tr>")
        parts.append("</table>")
    for figure, data in pictures:
        source = base64.b64encode(data).decode()
        caption = html.escape(figure.caption)
        parts.append(
            f"<figure><img alt='{caption}' src='data:image/png;base64,{source}'>"
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return "\n".join(parts) + "\n</html>\n"


def _cell(text: str) -> str:
    try:
        float(text.rstrip("%"))
        kind = " class=number"
    except ValueError:
        kind = ""
    return f"<td{kind}>{html.escape(text)}</td>"

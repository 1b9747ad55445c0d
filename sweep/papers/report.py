"""Tables of printed and computed values, figures, and the files that contain them."""

from __future__ import annotations

import base64
import csv
import io
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from sweep.errors import SweepError
from sweep.models import get_model


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
    printed : str
        Value printed in the paper; empty if it prints none.
    note : str
        Reason for a difference between the two.
    """

    name: str
    units: str
    computed: float
    printed: str = ""
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Relative difference between the computed and the printed value."""
        if not self.printed:
            return None
        value = float(self.printed)
        if value == 0:
            return 0.0 if self.computed == 0 else float("inf")
        return self.computed / value - 1.0

    @property
    def agrees(self) -> bool | None:
        """Whether the computed value rounds to the printed digits."""
        if not self.printed:
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
    columns: Sequence[str] = ("quantity", "unit", "printed", "computed", "difference", "note")

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
    tables, figures : list
        What was computed.
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
        printed = [q for t in self.tables for q in t.rows if isinstance(q, Quantity) and q.printed]
        missed = [q for q in printed if not q.agrees]
        met = len(printed) - len(missed)
        lines = [f"{self.title}: {met} of {len(printed)} printed numbers met to the digit"]
        for q in missed:
            lines.append(
                f"  {q.name}: printed {q.printed}, computed {q.computed:.6g} {q.units} "
                f"({q.difference or 0.0:+.2%}){'; ' + q.note if q.note else ''}"
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
                    csv.writer(out).writerows([table.columns, *table.cells()])
            pictures = []
            for figure in self.figures:
                buffer = io.BytesIO()
                figure.picture.savefig(buffer, format="png", dpi=130)
                pictures.append(buffer.getvalue())
                (target / f"{figure.name}.png").write_bytes(pictures[-1])
            page = target / "index.html"
            page.write_text("\n".join(_page(self, pictures)), encoding="utf-8")
        except OSError as error:
            raise SweepError(f"cannot write '{target}': {error.strerror or error}") from None
        return page


def declared(paper: str) -> dict[str, Any]:
    """Return the texts, units and printed numbers of the TOML file beside a paper's module."""
    return tomllib.loads(Path(__file__).with_name(f"{paper}.toml").read_text(encoding="utf-8"))


def assembled(paper: str, computed: Iterable[tuple[Any, ...]]) -> Reproduction:
    """Return the declared tables and figures of a paper with what was computed for them.

    Parameters
    ----------
    paper : str
        Its name.
    computed : iterable of tuple
        Name and values of a table: a number for each printed one, or rows under the declared
        columns. Name, panels and perhaps marks of a figure (see :func:`sweep.plot.line_plot`).
    """
    texts = declared(paper)
    reference = get_model(texts["model"]).reference
    found = Reproduction(paper, texts["title"], reference, remarks=texts["remarks"])
    for name, values, *marks in computed:
        if isinstance(values, Mapping):
            found.figures.append(_figure(name, texts["figures"][name], values, *marks))
        else:
            found.tables.append(_table(name, texts["tables"][name], values))
    return found


def _table(name: str, texts: Mapping[str, Any], values: Iterable[Any]) -> Table:
    if "quantities" not in texts:
        return Table(name, texts["title"], list(values), texts["columns"])
    rows = [
        Quantity(quantity, unit, float(value), *printed)
        for (quantity, unit, *printed), value in zip(texts["quantities"], values, strict=True)
    ]
    return Table(name, texts["title"], rows)


def _figure(
    name: str, texts: Mapping[str, Any], panels: Mapping[str, Any], marks: Sequence[str] = ()
) -> Figure:
    from sweep.plot import line_plot

    columns = texts["columns"]
    picture = line_plot(list(panels.items()), *texts["axes"], columns=columns, marks=marks)
    return Figure(name, texts["caption"], picture)


def _cells(row: Quantity | Sequence[Any]) -> list[str]:
    if not isinstance(row, Quantity):
        return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
    difference = "" if row.difference is None else f"{row.difference:+.2%}"
    return [row.name, row.units, row.printed, f"{row.computed:.7g}", difference, row.note]


STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } caption { text-align: left; font-weight: bold }
td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr.missed td { background: #fdeecd }
img { max-width: 100% } figure { margin: 1.5em 0 } figcaption { color: #444 }
"""


def _page(found: Reproduction, pictures: Sequence[bytes]) -> Iterator[str]:
    """Yield the parts of the self-contained HTML page."""
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(found.title)}"
    yield f"</title><style>{STYLE}</style><h1>{escape(found.title)}</h1>"
    yield f"<p>{escape(found.reference)}</p>"
    yield (
        "<p>Printed values beside computed ones; a shaded row does not round to the printed "
        "digits.</p>"
    )
    yield from (f"<p>{escape(remark)}</p>" for remark in found.remarks)
    for table in found.tables:
        head = "".join(f"<th>{escape(c)}</th>" for c in table.columns)
        yield f"<table><caption>{escape(table.title)}</caption><tr>{head}</tr>"
        for row, cells in zip(table.rows, table.cells(), strict=True):
            missed = isinstance(row, Quantity) and row.agrees is False
            yield f"<tr{' class=missed' if missed else ''}>{''.join(map(_cell, cells))}</tr>"
        yield "</table>"
    for figure, data in zip(found.figures, pictures, strict=True):
        caption = escape(figure.caption)
        yield (
            f"<figure><img alt='{caption}' src='data:image/png;base64,"
            f"{base64.b64encode(data).decode()}'><figcaption>{caption}</figcaption></figure>"
        )
    yield "</html>\n"


def _cell(text: str) -> str:
    try:
        float(text.rstrip("%"))
        return f"<td class=number>{escape(text)}</td>"
    except ValueError:
        return f"<td>{escape(text)}</td>"

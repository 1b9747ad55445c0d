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
from sweep.evaluation.launch import build_launch, build_workload
from sweep.importers.files import MARK, is_own, write_all
from sweep.models import get_model
from sweep.models.workload import Workload
from sweep.query import Answer
from sweep.space import Plan, resolve
from sweep.specs import load_kernel

KINDS = {
    "computed": "follows from other numbers by the equations; only these rows count as met",
    "calibrated": "a number of the kernel or device description was chosen to meet it",
    "input": "read back from the paper or the device file",
}
"""What a row can be, with its meaning."""


@dataclass(frozen=True)
class Quantity:
    """A printed number of a paper and the same number here.

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
    kind : str
        One of :data:`KINDS`.
    """

    name: str
    units: str
    computed: float
    printed: str = ""
    note: str = ""
    kind: str = "computed"

    @property
    def difference(self) -> float | None:
        """Relative difference between the computed and the printed value."""
        if not self.printed or self.kind == "input":
            return None
        value = float(self.printed)
        if value == 0:
            return 0.0 if self.computed == 0 else float("inf")
        return self.computed / value - 1.0

    @property
    def agrees(self) -> bool | None:
        """Whether the computed value rounds to the printed digits; None if it was not computed."""
        if not self.printed or self.kind != "computed":
            return None
        digits = len(self.printed.partition(".")[2])
        return abs(self.computed - float(self.printed)) <= 0.5 * 10.0**-digits * (1 + 1e-9)

    def row(self) -> dict[str, Any]:
        """Return the quantity by columns of an answer."""
        decimals = len(self.printed.partition(".")[2])
        return {
            "quantity": self.name,
            "units": self.units,
            "kind": self.kind,
            "printed": float(self.printed) if self.printed else None,
            "decimals": decimals if self.printed else None,
            "computed": self.computed,
            "difference": self.difference,
            "met": self.agrees,
            "note": self.note,
        }


@dataclass(frozen=True)
class Table:
    """A table of a paper, or a table computed from its data.

    ``rows`` are quantities, or lists of cells under ``columns``.
    """

    name: str
    title: str
    rows: Sequence[Quantity] | Sequence[Sequence[Any]]
    columns: Sequence[str] = ("quantity", "unit", "kind", "printed", "here", "difference", "note")

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
        """Return how many computed rows meet the paper, the others, and what was not computed."""
        printed = [q for t in self.tables for q in t.rows if isinstance(q, Quantity) and q.printed]
        computed = [q for q in printed if q.kind == "computed"]
        met = sum(bool(q.agrees) for q in computed)
        lines = [f"{self.title}: {met} of {len(computed)} computed rows met to the printed digit"]
        lines += [_difference(q) for q in computed if not q.agrees]
        chosen = [q for q in printed if q.kind == "calibrated"]
        if chosen:
            lines.append(f"not counted, calibrated: {len(chosen)}")
        lines += [_difference(q) for q in chosen]
        n_inputs = sum(q.kind == "input" for q in printed)
        if n_inputs:
            lines.append(f"not counted, read back as inputs: {n_inputs}")
        return "\n".join(lines)

    def answer(self) -> Answer:
        """Return a row for each number of the tables, beside the printed one if there is one.

        Returns
        -------
        Answer
            ``printed`` and ``decimals`` (the digits after its point, to which ``computed`` has to
            round) are None where the paper prints no number, ``met`` in rows of which no computed
            value could meet one (see :data:`KINDS`).
        """
        rows = (
            {"paper": self.key, "table": table.name, "table_title": table.title, **q.row()}
            for table in self.tables
            for q in table.rows
            if isinstance(q, Quantity)
        )
        kinds = [f"{kind}: {meaning}" for kind, meaning in KINDS.items()]
        notes = [self.reference, *self.remarks, *kinds]
        return Answer.of(self.title, rows, ("paper", "table", "quantity"), notes=notes)

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write CSV, figures and one self-contained HTML page into a folder.

        Parameters
        ----------
        folder : path
            The folder, which is made if necessary.
        overwrite : bool
            Whether to replace files that are there and do not belong to such a page.

        Returns
        -------
        Path
            The page.

        Raises
        ------
        SweepError
            A file is there already, or the folder cannot be written.
        """
        target = Path(folder)
        page = target / "index.html"
        contents: dict[Path, str | bytes] = {}
        for table in self.tables:
            text = io.StringIO()
            csv.writer(text).writerows([table.columns, *table.cells()])
            contents[target / f"{table.name}.csv"] = text.getvalue()
        pictures = []
        for figure in self.figures:
            buffer = io.BytesIO()
            figure.picture.savefig(buffer, format="png", dpi=130)
            pictures.append(buffer.getvalue())
            contents[target / f"{figure.name}.png"] = pictures[-1]
        contents[page] = "\n".join(_page(self, pictures))
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SweepError(f"cannot write '{target}': {error.strerror or error}") from None
        write_all(contents, overwrite=overwrite or is_own(page))
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
        Name and values of a table: a number for each declared quantity, or rows under the declared
        columns. Name and panels of a figure, and perhaps its marks (see
        :func:`sweep.plot.line_plot`) and the words that the results put into its caption.
    """
    texts = declared(paper)
    reference = get_model(texts["model"]).reference
    found = Reproduction(paper, texts["title"], reference, remarks=texts["remarks"])
    for name, values, *more in computed:
        if isinstance(values, Mapping):
            found.figures.append(_figure(name, texts["figures"][name], values, *more))
        else:
            found.tables.append(_table(name, texts["tables"][name], values))
    return found


def workload(
    kernel: str, device: str, model: str, clocks: Mapping[str, Any] | None = None, **own: float
) -> Workload:
    """Return one configuration of a shipped kernel as a model sees it.

    Parameters
    ----------
    kernel, device, model : str
        Their names.
    clocks : mapping, optional
        Axes of the plan, one value each; by default the nominal clocks.
    **own : float
        Tuning parameters; the others have their first value.
    """
    first = {name: values[0] for name, values in load_kernel(kernel).parameters.items()}
    values = {name: (value,) for name, value in (first | own).items()}
    plan = Plan((kernel,), (device,), (model,), axes=clocks or {}, kernel_axes={kernel: values})
    (space,) = resolve(plan).kernels
    return build_workload(build_launch(space), get_model(model), {})


def _table(name: str, texts: Mapping[str, Any], values: Iterable[Any]) -> Table:
    if "quantities" not in texts:
        return Table(name, texts["title"], list(values), texts["columns"])
    rows = [_quantity(*pair) for pair in zip(texts["quantities"], values, strict=True)]
    return Table(name, texts["title"], rows)


def _quantity(row: Sequence[str], value: Any) -> Quantity:
    name, units, kind, printed, note = [*row, "", ""][:5]
    return Quantity(name, units, float(value), printed, note, kind)


def _figure(
    name: str,
    texts: Mapping[str, Any],
    panels: Mapping[str, Any],
    marks: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> Figure:
    from sweep.plot import line_plot

    picture = line_plot(list(panels.items()), *texts["axes"], columns=texts["columns"], marks=marks)
    return Figure(name, texts["caption"].format(**words or {}), picture)


def _cells(row: Quantity | Sequence[Any]) -> list[str]:
    if not isinstance(row, Quantity):
        return [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
    difference = "" if row.difference is None else f"{row.difference:+.2%}"
    here = f"{row.computed:.7g}"
    return [row.name, row.units, row.kind, row.printed, here, difference, row.note]


def _difference(q: Quantity) -> str:
    """Return a line of the summary."""
    return (
        f"  {q.name}: printed {q.printed}, here {q.computed:.6g} {q.units} "
        f"({q.difference or 0.0:+.2%}){'; ' + q.note if q.note else ''}"
    )


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
    yield "<!doctype html><html lang='en'><meta charset='utf-8'>"
    yield f"<meta name='generator' content='{MARK}'><title>{escape(found.title)}"
    yield f"</title><style>{STYLE}</style><h1>{escape(found.title)}</h1>"
    yield f"<p>{escape(found.reference)}</p>"
    meanings = ". ".join(f"{kind.capitalize()}: {meaning}" for kind, meaning in KINDS.items())
    yield f"<p>{meanings}. A shaded row was computed and does not round to the printed digits.</p>"
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

"""The page of a report: tables as HTML, data as CSV and charts, and the library that draws them.

The library is Vega with Vega-Lite, as the package ``vl-convert-python`` bundles them. The page's
security policy forbids every request to a network.
"""

from __future__ import annotations

import hashlib
import html
import importlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sweep.disk_cache import keep, kept
from sweep.errors import QueryError, SweepError, counted
from sweep.fronts import spread
from sweep.importers.files import check_free, write_whole
from sweep.plot.draw import PALETTE
from sweep.query import Answer
from sweep.query.question import DEFAULT_BY
from sweep.query.tuning import PREFERRED
from sweep.report import charts
from sweep.report.charts import Chart
from sweep.report.contents import (
    CLOCKS,
    DEVICES,
    Contents,
    first,
    gather,
    points,
    thinned,
)
from sweep.report.provenance import paragraph, provenance
from sweep.store.root import inspect

LARGEST = 2_000_000
"""Bytes of a report at most."""
ROWS = {"best": 500, "fronts": 1000, "sample": 1000}
"""Rows of each kind at most; fewer where the file would be too large."""
LIBRARY = b"sweep report library 2\n"
LINES = 60
"""Rows of a table that the page shows; its CSV file has the others."""
MAPS, MAP_BYTES = 16, 400_000
"""Maps at most, and their data."""
FASTEST = ", the fastest of each kernel"
RESULTS = ("execution_time", "power", "energy", "occupancy")
MEANINGS = {
    "constraint": "the kernel's own constraints exclude it",
    "block_too_large": "more threads in a block than the device allows",
    "registers": "the registers of one block exceed those of a multiprocessor",
    "shared_memory": "more shared memory in a block than the device allows",
    "tensor_memory": "more tensor memory in a block than the device has",
    "no_active_block": "not even one block fits on a multiprocessor",
    "clock_out_of_range": "a clock outside the device's range",
    "missing_parameters": "the device file lacks a parameter of the model",
    "model_domain": "outside what the model's equations are made for",
    "kernel_expression": "an expression of the kernel file divides by zero or is negative",
}
"""Statuses in words."""


@dataclass
class Page:
    """What the page's template receives: sections, tables as CSV, charts, units."""

    sections: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)
    linked: dict[str, Any] | None = None
    units: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, title: str, *parts: str) -> None:
        """Add a section."""
        self.links.append(f'<a href="#{key}">{html.escape(title)}</a>')
        body = "\n".join(filter(None, parts))
        self.sections.append(f'<section id="{key}"><h2>{html.escape(title)}</h2>\n{body}</section>')

    def table(self, name: str, answer: Answer, total: int | None = None, kept: str = "") -> str:
        """Return an answer as a table, with a button that saves its rows.

        ``kept`` says which of ``total`` rows the answer still has.
        """
        self.tables[name] = answer.to_csv()
        notes = []
        if total is not None and total > len(answer):
            notes.append(f"This file has {len(answer):,} of {total:,} rows{kept}.")
        shown = first(answer, LINES)
        if len(shown) < len(answer):
            notes.append(
                f"The page shows {len(shown)} of these {len(answer):,}; {name}.csv has all."
            )
        button = f'<button data-csv="{name}">Save {name}.csv</button>'
        table = re.sub(r"_(?=[^<>]*</t[dh]>)", "_<wbr>", shown._repr_html_())  # breaks on paper
        rows = f'<div class="scroll">{table}</div>'
        return "\n".join([rows, *(paragraph(note, "quiet") for note in notes), button])

    def chart(self, chart: Chart | None) -> str:
        """Return the place of a chart."""
        if chart is None:
            return ""
        key = f"chart{len(self.charts)}"
        self.charts[key] = chart
        return f'<div class="chart" id="{key}"></div>'

    def render(self, title: str, subtitle: str) -> str:
        """Return the document."""
        data = {
            "tables": self.tables,
            "charts": self.charts,
            "linked": self.linked,
            "units": self.units,
            "palette": list(PALETTE),
        }
        return Template(_text("page.html")).substitute(
            title=html.escape(title),
            subtitle=html.escape(subtitle),
            links="".join(self.links),
            sections="\n".join(self.sections),
            # No text of the data can end the script in which it stands.
            data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
            library=library(),
            script=_text("report.js"),
        )


def write_report(
    data: Any,
    output: str | os.PathLike[str],
    *,
    record: Mapping[str, Any] | None = None,
    select: Mapping[str, Any] | None = None,
    measured: Any = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a report of results: one HTML file of at most 2 MB that needs no network.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    output : path
        The file.
    record : mapping, optional
        How the results were made; by default the record of the store.
    select : mapping, optional
        As in :func:`sweep.query.best`.
    measured : optional
        Measured times, as :func:`sweep.query.validate` takes them.
    overwrite : bool
        Whether to replace a file that is there and is no such report.
    progress : callable, optional
        Receives how many questions are answered, of how many.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    SweepError
        The question does not fit the results, the package that brings the library is missing, or
        the file cannot be written.
    """
    target = Path(output)
    if target.suffix.lower() not in (".html", ".htm"):
        raise QueryError(f"cannot write '{target}': a report's suffix is .html")
    if not target.absolute().parent.is_dir():
        raise QueryError(f"cannot write '{target}': there is no directory '{target.parent}'")
    check_free(target, overwrite=overwrite)
    run: Mapping[str, Any] = {}
    if record is None and isinstance(data, str | os.PathLike):
        info = inspect(data)
        record, run = info.record, info.run
    library()  # what is missing is said before anything is computed
    found = gather(data, select, measured, progress)
    share = 1.0
    while len((text := _document(found, record or {}, run, share)).encode()) > LARGEST:
        share /= 2
    write_whole(target, text, overwrite=overwrite)
    return target


def library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script; kept on disk, since it takes seconds.

    Raises
    ------
    SweepError
        The package is not installed.
    """
    try:
        bundler = importlib.import_module("vl_convert")
    except ImportError:
        raise SweepError(
            "a report needs vl-convert-python, which is not installed:"
            " pip install 'kernel-sweep[report]'"
        ) from None
    name = hashlib.sha256(bundler.__version__.encode()).hexdigest()
    if (content := kept("report", name, LIBRARY)) is not None:
        return content.decode()
    text: str = bundler.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace(
        "</script", "<\\/script"
    )
    keep("report", name, LIBRARY, text.encode())
    return text


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# ---------------------------------------------------------------------------- the sections


def _document(
    found: Contents, record: Mapping[str, Any], run: Mapping[str, Any], share: float
) -> str:
    """Return the page with a share of the rows that it may have at most."""
    page = Page()
    most = {kind: max(1, int(share * rows)) for kind, rows in ROWS.items()}
    best, fronts = thinned(found, most)
    page.units = dict(found.best.units)
    page.add(
        "best", "Best by kernel and device", page.table("best", best, len(found.best), FASTEST)
    )
    cost = "energy" if any(row.get("energy") is not None for row in best) else "occupancy"
    page.add("pareto", f"Time against {cost}", *_linked(page, found, best, fronts, most))
    page.add("maps", "Heat maps and regimes", *_maps(page, found, share))
    if len(found.sensitivity):
        chart = page.chart(charts.sensitivity_chart(found.sensitivity))
        note = (
            f"Each kernel on its fastest device, by {PREFERRED} where that gives a time, "
            "else by the fastest model."
        )
        table = page.table("sensitivity", found.sensitivity)
        page.add("sensitivity", "What decides", paragraph(note), chart, table)
    page.add("validity", "What is valid, and regimes", *_validity(page, found, most["best"]))
    if found.agreement is not None:
        chart = page.chart(charts.agreement_chart(found.agreement))
        devices = len(set(found.agreement.column("device")))
        note = f"On the {devices} devices with the smallest times." if devices == DEVICES else ""
        page.add("agreement", "Do the models agree?", paragraph(note), chart,
                 page.table("agreement", found.agreement))  # fmt: skip
    if found.validation is not None and found.misses is not None:
        page.add("validation", "Against measured times",
                 page.chart(charts.validation_chart(found.pairs)),
                 page.table("validation", found.validation),
                 page.table("misses", found.misses))  # fmt: skip
    page.add("provenance", "Where the numbers come from", provenance(record, run))
    name = record.get("plan", {}).get("name", "results")
    return page.render(f"sweep report: {name}", _subtitle(found))


def _subtitle(found: Contents) -> str:
    parts = [f"{counted(sum(found.summary.column('valid')), 'prediction')} with a time"]
    for dim in DEFAULT_BY:
        if dim in found.summary.columns:
            names = list(dict.fromkeys(found.summary.column(dim)))
            parts.append(f"{len(names)} {dim}s" if len(names) > 1 else f"{dim} {names[0]}")
    return "; ".join(parts)


def _linked(
    page: Page, found: Contents, best: Answer, fronts: Answer | None, most: Mapping[str, int]
) -> Iterator[str]:
    """Yield the linked view of fronts, best and a sample, and the fronts as a table."""
    sample = found.sample.rows
    sample = [sample[i] for i in spread(np.arange(len(sample)), most["sample"])]
    shown = points(found.sample, best.rows, fronts.rows if fronts else [], sample)
    if not len(shown):
        yield paragraph("No configuration has a time.")
        return
    page.tables["points"] = shown.to_csv()
    numbers = [n for n in shown.columns if any(isinstance(v, int | float)
               for v in shown.column(n))]  # fmt: skip
    results = [name for name in RESULTS if name in shown.columns]
    ratios = {f"{clock}_ratio" for clock in CLOCKS} if CLOCKS[0] in shown.columns else set()
    axes = [n for n in shown.coordinates if n != "kernel" and n not in ratios]
    page.linked = {"axes": axes + results, "results": results, "numbers": numbers}
    known = set(shown.column("kernel"))
    kernels = dict.fromkeys(name for name in best.column("kernel") if name in known)
    names = "".join(f"<option>{html.escape(str(name))}</option>" for name in kernels)
    others = [n for n in ("energy", "power", "occupancy", "execution_time") if n in results]
    vertical = "".join(f"<option>{name}</option>" for name in others)
    kinds = shown.column("shown_as")
    on_fronts = kinds.count("front")
    yield paragraph(
        f"Diamonds are the best of a device and model ({kinds.count('best')}), "
        + f"large points the rest of their Pareto fronts ({on_fronts}), " * (on_fronts > 0)
        + "small points a sample of "
        f"{kinds.count('sample')} other configurations, evenly spread. Drag over the points or "
        "along any axis to filter both pictures; a click there ends it."
    )
    yield (f'<label>kernel <select id="kernel">{names}</select></label>'
           f' <label>vertical axis <select id="vertical">{vertical}</select></label>'
           '<button id="clear">Clear all</button><button id="inside">Save inside.csv</button>'
           '<span id="count" class="quiet"></span><div id="linked"></div>')  # fmt: skip
    if fronts is None:
        yield paragraph(f"No Pareto front of time and energy: {found.missing['fronts']}.")
    else:
        total = len(found.fronts or ())
        table = page.table("pareto", fronts, total, ", of the best rows' groups, evenly thinned")
        yield f"<details><summary>Pareto fronts</summary>{table}</details>"


def _maps(page: Page, found: Contents, share: float) -> Iterator[str]:
    """Yield the maps that there is room for."""
    left = share * MAP_BYTES
    places: list[str] = []
    without = 0
    for shown in found.maps:
        chart = charts.map_chart(shown)
        left -= len(json.dumps(chart))
        if left < 0 or len(places) == MAPS:
            without += 1
        else:
            places.append(page.chart(chart))
    yield paragraph(
        "Each cell has the smallest value over everything that is not an axis; a star marks the "
        "best cell, grey cells have no valid configuration. The axes are those that decide most."
        if places else "No kernel has two axes with several values."
    )  # fmt: skip
    yield f'<div class="charts">{"".join(places)}</div>'
    if without:
        yield paragraph(f"{without} further maps are not in this file: `sweep plot` draws "
                        "them.", "quiet")  # fmt: skip


def _validity(page: Page, found: Contents, most: int) -> Iterator[str]:
    """Yield why configurations have no time, and the regimes of those that have one."""
    yield page.chart(
        charts.share_chart(found.summary, "statuses", "Why configurations are invalid")
    )
    seen = {why for row in found.summary for why in row["statuses"] or {}}
    for why, meaning in MEANINGS.items():
        if why in seen:
            yield f"<p><b>{html.escape(why)}</b>: {html.escape(meaning)}</p>"
    if not seen:
        yield paragraph("Every configuration is valid.")
    yield page.chart(charts.share_chart(found.summary, "regimes", "Regimes of the valid ones"))
    yield page.table("summary", first(found.summary, most), len(found.summary), FASTEST)

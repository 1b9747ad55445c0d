"""Which uncertain numbers move a time, and how far: bars around the nominal time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.plot import draw
from sweep.query.answer import Answer, Row, rows_by
from sweep.query.question import DEFAULT_BY
from sweep.query.texts import scaled

MOST_PANELS = 6
MOST_BARS = 12


def tornado_plot(answer: Answer, *, most: int = MOST_BARS) -> draw.Picture:
    """Draw what :func:`sweep.sensitivity` answered.

    Parameters
    ----------
    answer : Answer
        Its answer, for at most six groups of kernel, device and model.
    most : int
        Most bars of a panel.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each group. A bar for each number reaches from the time with the number at the
        lower end of its range to that at the upper end, all others as in the files; the longest is
        on top, and the number's total Sobol index stands beside it.

    Raises
    ------
    QueryError
        It is another answer, or it has more groups than can be told apart.
    """
    if not {"parameter", "total", "low", "high"} <= {*answer.columns}:
        raise QueryError("a tornado plot draws the answer of `sweep sensitivity`")
    names = [n for n in answer.coordinates if n in DEFAULT_BY or len(set(answer.column(n))) > 1]
    groups = rows_by(answer, names)
    if not 1 <= len(groups) <= MOST_PANELS:
        raise QueryError(f"a tornado plot has 1 to {MOST_PANELS} groups, not {len(groups)}")
    bars = [min(len(rows), most) for rows in groups.values()]
    height = 1.0 + sum(0.8 + 0.27 * n for n in bars)
    ratios = {"height_ratios": [n + 2 for n in bars]}
    with draw.picture(9.0, height, len(groups), gridspec_kw=ratios) as (figure, panels):
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0.02, 0.0, 0.98, 1.0))  # long names take more room than it thinks
        for axes, rows in zip(panels.flat, groups.values(), strict=True):
            _panel(axes, rows, most)
            axes.set_title(", ".join(str(rows[0][name]) for name in DEFAULT_BY))
        looks = [
            draw.entry(f"number at the {end} end of its range", color=colour, marker="s")
            for end, colour in zip(("lower", "upper"), draw.PALETTE, strict=False)
        ]
        draw.legend(figure, [*looks, draw.entry("beside the bars: total Sobol index")])
    return figure


def _panel(axes: Any, rows: list[Row], most: int) -> None:
    """Draw one group's bars."""
    nominal = rows[0]["execution_time"]
    factor, unit = scaled([nominal], "s")
    ends = [tuple(row[end] or nominal for end in ("low", "high")) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -np.ptp(ends[i]))[:most]
    shown = [(rows[i], ends[i]) for i in order]
    for place, (row, pair) in enumerate(shown):
        for end, colour in zip(pair, draw.PALETTE, strict=False):
            axes.barh(place, (end - nominal) / factor, left=nominal / factor, color=colour,
                      height=0.7)  # fmt: skip
        axes.annotate(f"{row['total']:.2f}", (max(*pair, nominal) / factor, place), (4, 0),
                      textcoords="offset points", va="center", fontsize="small")  # fmt: skip
    texts = [f"{row['parameter'].removeprefix('kernel: ')} \N{PLUS-MINUS SIGN}{row['range']:.0%}"
             for row, _ in shown]  # fmt: skip
    axes.set_yticks(range(len(shown)), texts, fontsize="small")
    axes.invert_yaxis()
    axes.axvline(nominal / factor, color="black", lw=0.8)
    axes.margins(x=0.12)
    axes.set_xlabel(draw.label("execution time", unit))

"""Plain curves in panels, as papers print them, and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.plot import draw
from sweep.query import Answer, Row
from sweep.query.answer import scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[NDArray[Any], NDArray[Any]]

COUNTS = ("lowest", "highest", "count", "share")


def line_plot(
    panels: Sequence[tuple[str, Mapping[str, Curve]]],
    x_label: str,
    y_label: str,
    *,
    columns: int = 2,
    marks: Sequence[str] = (),
) -> draw.Picture:
    """Draw curves in panels that share their axes' meaning.

    Parameters
    ----------
    panels : sequence of (title, curves)
        Each panel's curves by name: values of x and y.
    x_label, y_label : str
        What the axes show, with units.
    columns : int
        Panels beside each other.
    marks : sequence of str
        Names of the positions 0, 1, 2, ... on the horizontal axis, which then has no scale.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; an axis is logarithmic where its values spread over more than two decades.
    """
    rows = math.ceil(len(panels) / columns)
    with draw.picture(max(4.2 * columns, 6.0), 3.0 * rows + 0.4, rows, columns) as (
        figure,
        grid,
    ):
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, (name, curves) in zip(grid.flat, panels, strict=False):
            _draw_curves(axes, curves, is_marked=bool(marks))
            axes.set_title(name)
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            if marks:
                axes.set_xticks(range(len(marks)), list(marks), rotation=35, ha="right")
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Curve], *, is_marked: bool) -> None:
    for i, (name, (x, y)) in enumerate(curves.items()):
        axes.plot(
            x, y, "o" if is_marked else "-", color=draw.colour_of(i), label=name, markersize=5
        )
    x, y = (
        np.concatenate([np.asarray(v, float) for v in axis])
        for axis in zip(*curves.values(), strict=True)
    )
    if not draw.scale_axis(axes, "y", y):
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(y))))
    if not is_marked:
        draw.scale_axis(axes, "x", x)
    axes.legend()


def histogram_plot(answer: Answer) -> draw.Picture:
    """Draw what :func:`sweep.histogram` answered.

    Parameters
    ----------
    answer : Answer
        Its answer, with at most eight groups.

    Returns
    -------
    matplotlib.figure.Figure
        A line of steps for each group over the bins, logarithmic where the bins are; or bars of the
        shares of codes.

    Raises
    ------
    QueryError
        It is another answer, it is empty, or it has more groups than can be told apart.
    """
    if not {"count", "share"} <= set(answer.columns) or not len(answer):
        raise QueryError("only the answer of a histogram that counts something can be drawn")
    groups: dict[str, list[Row]] = {}
    for row in answer:
        groups.setdefault(", ".join(str(row[key]) for key in answer.coordinates), []).append(row)
    if len(groups) > len(draw.PALETTE):
        raise QueryError(
            f"{len(groups)} groups are more than the {len(draw.PALETTE)} that can be told apart: "
            "select fewer, or name fewer dimensions in `by`"
        )
    with draw.picture(7.4, 4.6) as (figure, panels):
        axes = panels[0, 0]
        (_draw_steps if "lowest" in answer.columns else _draw_bars)(axes, answer, groups)
        axes.set_ylabel("share of configurations")
        axes.set_ylim(bottom=0.0)
        if any(groups):
            axes.legend(title=", ".join(answer.coordinates))
        draw.title(figure, answer.title.partition(",")[0].capitalize())
    return figure


def _draw_steps(axes: Axes, answer: Answer, groups: Mapping[str, list[Row]]) -> None:
    """Draw the shares of bins as steps; what lies outside of the bins is left out."""
    inside = {
        name: [row for row in rows if None not in (row["lowest"], row["highest"])]
        for name, rows in groups.items()
    }
    bins = next(iter(inside.values()))
    edges = np.array([*(row["lowest"] for row in bins), bins[-1]["highest"]])
    factor, unit = scaled([float(np.abs(edges).max())], answer.units.get("lowest", "1"))
    for i, (name, rows) in enumerate(inside.items()):
        shares = [row["share"] or 0.0 for row in rows]
        axes.stairs(shares, edges / factor, color=draw.colour_of(i), label=name, linewidth=1.4)
    widths = np.diff(edges)
    if len(widths) > 1 and edges[0] > 0 and not np.allclose(widths, widths[0]):
        axes.set_xscale("log")
        draw.log_ticks(axes.xaxis)
    variable = answer.title.removeprefix("histogram of ").split(" ")[0].rstrip(",")
    axes.set_xlabel(draw.label(draw.words(variable), unit))


def _draw_bars(axes: Axes, answer: Answer, groups: Mapping[str, list[Row]]) -> None:
    """Draw the shares of meanings as bars beside each other."""
    name = next(c for c in answer.columns if c not in (*answer.coordinates, *COUNTS))
    meanings = list(dict.fromkeys(row[name] for row in answer))
    width = 0.8 / len(groups)
    for i, (group, rows) in enumerate(groups.items()):
        shares = {row[name]: row["share"] or 0.0 for row in rows}
        at = np.arange(len(meanings)) + (i - (len(groups) - 1) / 2) * width
        heights = [shares.get(meaning, 0.0) for meaning in meanings]
        axes.bar(at, heights, width, color=draw.colour_of(i), label=group)
    axes.set_xticks(range(len(meanings)), [*map(draw.words, meanings)], rotation=35, ha="right")
    axes.set_xlabel(draw.words(name))

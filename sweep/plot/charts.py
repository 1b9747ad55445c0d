"""Curves, histograms and results side by side: two runs, two models, predicted and measured."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.plot import draw
from sweep.query.agreement import PairOfModels, model_pairs, scale_factor
from sweep.query.answer import Answer, Row, rows_by
from sweep.query.changes import changes
from sweep.query.pairing import Paired
from sweep.query.texts import scaled

Curve = tuple[Array, Array]

COUNTS = ("lowest", "highest", "count", "share")

POINTS = 20_000  # of a panel: more only blacken it
FIRST = 10
BESIDE = 0.14  # of the distance of two positions, between marks of one position
MOST_LEVEL = 6  # pairs of models whose names stand beside each other; those of more are turned


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
        Each panel's curves by name: values of x and y; a unit after the title is that of y.
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
    size = max(4.2 * columns, 6.0), 3.0 * rows + 0.4
    names = list(dict.fromkeys(name for _, curves in panels for name in curves))
    colours = {name: draw.colour_of(i) for i, name in enumerate(names)}  # the same in all panels
    with draw.picture(*size, rows, columns) as (figure, grid):
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, (name, curves) in zip(grid.flat, panels, strict=False):
            for i, (curve, (x, y)) in enumerate(curves.items()):
                # Equal values must not hide each other: marks stand side by side, and lines that
                # lie below others are wider.
                below = len(curves) - 1 - i
                place = np.asarray(x, float) - (below - i) * BESIDE / 2 if marks else x
                axes.plot(place, y, "o" if marks else "-", color=colours[curve], label=curve,
                          ms=5, linewidth=1.5 + 1.2 * below)  # fmt: skip
            x, y = (
                np.concatenate(values).astype(float)
                for values in zip(*curves.values(), strict=True)
            )
            if not draw.scale_axis(axes, "y", y):
                axes.set_ylim(bottom=min(0.0, float(np.nanmin(y))))
            name, _, unit = name.partition(" [")
            label = draw.label(y_label, unit.removesuffix("]"), 30)
            axes.set(title=name, xlabel=x_label, ylabel=label)
            if marks:
                axes.set_xticks(range(len(marks)), list(marks), rotation=35, ha="right")
            else:
                draw.scale_axis(axes, "x", x)
        look: dict[str, Any] = {"marker": "o"} if marks else {"linestyle": "-", "lw": 2.0}
        entries = [draw.entry(name, color=colour, **look) for name, colour in colours.items()]
        draw.legend(figure, entries)  # beside the panels, not over the data
    return figure


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
    by_place = rows_by(answer, answer.coordinates)
    groups = {", ".join(map(str, place)): rows for place, rows in by_place.items()}
    if len(groups) > len(draw.PALETTE):
        raise QueryError(
            f"{len(groups)} groups are more than the {len(draw.PALETTE)} that can be told apart: "
            "select fewer, or name fewer dimensions in `by`"
        )
    title = answer.title.partition(",")[0].capitalize()
    with draw.picture(7.4, 4.6, title=title) as (figure, panels):
        axes = panels[0, 0]
        (_draw_steps if "lowest" in answer.columns else _draw_bars)(axes, answer, groups)
        axes.set_ylabel("share of configurations")
        axes.set_ylim(bottom=0.0)
        if any(groups):
            axes.legend(title=", ".join(answer.coordinates))
    return figure


def _draw_steps(axes: Axes, answer: Answer, groups: Mapping[str, list[Row]]) -> None:
    """Draw the shares of bins as steps; what lies outside of the bins is left out."""
    inside = {
        name: [row for row in rows if None not in (row["lowest"], row["highest"])]
        for name, rows in groups.items()
    }
    bins = next(iter(inside.values()))
    edges = np.array([*(row["lowest"] for row in bins), bins[-1]["highest"]])
    factor, unit = scaled([float(np.median(np.abs(edges)))], answer.units.get("lowest", "1"))
    for i, (name, rows) in enumerate(inside.items()):
        shares = [row["share"] or 0.0 for row in rows]
        axes.stairs(shares, edges / factor, color=draw.colour_of(i), label=name, linewidth=1.4)
    widths = np.diff(edges)
    if len(widths) > 1 and edges[0] > 0 and not np.allclose(widths, widths[0]):
        draw.scale_axis(axes, "x")
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


def changes_plot(
    before: Any,
    after: Any,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
    by: Sequence[str] = (),
) -> draw.Picture:
    """Draw how every group's best value and its configurations changed.

    Parameters
    ----------
    before, after, objective, tolerance, by
        As in :func:`sweep.query.compare_results`.

    Returns
    -------
    matplotlib.figure.Figure
        A row per group: a bar from the fastest-growing to the slowest-growing
        configuration, a mark at the change of the best value, red where it is a regression.
    """
    found = changes(before, after, objective, tolerance=tolerance, by=by)
    with draw.picture(9.0, min(1.6 + 0.24 * len(found), 16.0)) as (figure, panels):
        axes = panels[0, 0]
        for i, change in enumerate(found):
            ends = [100.0 * (float(end) - 1.0) for end in (change.smallest, change.largest)]
            if np.isfinite(ends).all():
                axes.plot(ends, [i, i], color="#bdbdbd", linewidth=4, solid_capstyle="butt")
            best = np.nan if change.optimum is None else 100.0 * change.optimum
            fails = change.fails()
            axes.plot(best, i, "D" if fails else "o", color=draw.PALETTE[5 if fails else 0],
                      markersize=6)  # fmt: skip
        axes.axvspan(-100.0 * tolerance, 100.0 * tolerance, color=draw.PALETTE[2], alpha=0.15)
        labels = [", ".join(str(v) for v in c.group.values() if v is not None) for c in found]
        axes.set_yticks(range(len(found)), labels, fontsize=7)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel(f"change of {draw.words(objective)} [%]")
        axes.set_title(
            "bar: all configurations; dot: best value; diamond: slower than the tolerance (band)"
        )
    return figure


def models_plot(
    data: Any, objective: str = "execution_time", *, select: Mapping[str, Any] | None = None
) -> draw.Picture:
    """Draw the rank correlation of every pair of models, and the pair that agrees least.

    Parameters
    ----------
    data, objective, select
        As in :func:`sweep.query.compare_models`.

    Returns
    -------
    matplotlib.figure.Figure
        Left, a cell per kernel and device (rows) and pair of models (columns), a dot where both
        have the same best configuration; right, the two predictions of the cell with the lowest
        correlation, coloured by the first model's regime.
    """
    pairs = model_pairs(data, objective, select=select)
    rows = list(dict.fromkeys((pair.kernel, pair.device) for pair in pairs))
    height = min(3.0 + 0.22 * len(rows), 14.0)
    title = f"Agreement of the models on {draw.words(objective)}"
    left_width = max(5.2, 2.4 + 0.36 * len({pair.models for pair in pairs}))
    shape = {"width_ratios": (left_width, 5.8)}
    with draw.picture(left_width + 5.8, height, 1, 2, title, **shape) as (figure, panels):
        left, right = panels[0]
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0.02, 0.0, 0.98, 1.0))  # long names take more room than it thinks
        _draw_correlations(left, pairs, rows)
        varied = [pair for pair in pairs if np.isfinite(pair.correlation)]
        if varied:
            _draw_pair(right, min(varied, key=lambda pair: pair.correlation), objective)
        else:
            right.set_axis_off()
    return figure


def _draw_correlations(
    axes: Axes, pairs: Sequence[PairOfModels], rows: Sequence[tuple[str, str]]
) -> None:
    """Draw the rank correlations as a matrix, a dot where the best configuration is the same."""
    columns = list(dict.fromkeys(pair.models for pair in pairs))
    table = np.full((len(rows), len(columns)), np.nan)
    for pair in pairs:
        at = rows.index((pair.kernel, pair.device)), columns.index(pair.models)
        table[at] = pair.correlation
        if pair.agrees_on_best:
            axes.plot(at[1], at[0], "o", color="black", markeredgecolor="white", markersize=5)
    axes.set_facecolor(draw.INVALID["facecolor"])
    image = axes.imshow(table, cmap="RdBu", norm=TwoSlopeNorm(0, -1, 1), aspect="auto",
                        interpolation="none")  # fmt: skip
    look: dict[str, Any] = {"rotation": 90} if len(columns) > MOST_LEVEL else {}
    axes.set_xticks(range(len(columns)), [f"{a}\n{b}" for a, b in columns], fontsize=7, **look)
    axes.set_yticks(range(len(rows)), [f"{k}, {d}" for k, d in rows], fontsize=7)
    axes.set_title("rank correlation; dot: same best configuration")
    axes.figure.colorbar(image, ax=axes, label="Spearman's rank correlation", shrink=0.8)


def _draw_pair(axes: Axes, pair: PairOfModels, objective: str) -> None:
    """Draw one model's predictions over another's."""
    factor, unit = scaled(
        pair.values.ravel().tolist(), "s" if objective == "execution_time" else "1"
    )
    x, y = pair.values / factor
    _draw_points(axes, x, y, pair.regimes[0])
    both = np.array([max(x.min(), y.min()), min(x.max(), y.max())])
    if both[0] < both[1]:
        axes.plot(both, both, "-", color=draw.GREY, linewidth=1.0, label="equal")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(style="sci", scilimits=(-3, 4))
    for axis in "xy":  # both alike, or equality would be no line
        draw.scale_axis(axes, axis, pair.values)
    axes.set(
        xlabel=draw.label(f"{draw.words(objective)}, {pair.models[0]}", unit),
        ylabel=draw.label(f"{draw.words(objective)}, {pair.models[1]}", unit),
    )
    text = f"least agreement: {pair.kernel}, {pair.device} ({pair.correlation:.2f})"
    axes.set_title("\n".join(textwrap.wrap(text, 46)))
    axes.legend(markerscale=4)


def validation_plot(pairs: Sequence[Paired]) -> draw.Picture:
    """Draw predicted against measured times, coloured by regime.

    Parameters
    ----------
    pairs : sequence of Paired
        From :func:`sweep.query.paired`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per kernel and device (rows) and model (columns), on logarithmic axes. The lines are
        equality, and equality after scaling by the median ratio; rings mark the ten best predicted,
        a star the fastest that was measured.
    """
    rows = list(dict.fromkeys((pair.kernel, pair.device) for pair in pairs))
    models = list(dict.fromkeys(pair.model for pair in pairs))
    size = (1.2 + 4.2 * len(models), 0.6 + 3.9 * len(rows))
    title = "Predicted against measured times"
    with draw.picture(*size, len(rows), len(models), title) as (figure, panels):
        for axes in panels.flat:
            axes.set_axis_off()
        for pair in pairs:
            axes = panels[rows.index((pair.kernel, pair.device)), models.index(pair.model)]
            axes.set_axis_on()
            _draw_validation(axes, pair)
    return figure


def _draw_validation(axes: Axes, pair: Paired) -> None:
    """Draw one model's predictions over the measured times of a kernel on a device."""
    factor, unit = scaled([float(np.median(pair.measured))], "s")
    axes.set(title=f"{pair.kernel} on {pair.device} ({pair.model})",
             xlabel=f"measured execution time [{unit}]",
             ylabel=f"predicted execution time [{unit}]")  # fmt: skip
    timed = np.isfinite(pair.predicted)
    if not timed.any():
        axes.text(0.5, 0.5, "no predicted time", ha="center", transform=axes.transAxes)
        return
    x, y = pair.measured[timed] / factor, pair.predicted[timed] / factor
    regimes = np.full(len(timed), "") if pair.regimes is None else pair.regimes
    _draw_points(axes, x, y, regimes[timed], pair.model)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, ends, "-", color=draw.GREY, linewidth=1.0, label="equal")
    after_scaling = ends / scale_factor(y, x)
    axes.plot(ends, after_scaling, "--", color=draw.GREY, linewidth=1.0,
              label="equal, but for the median ratio")  # fmt: skip
    best = np.argsort(y, kind="stable")[:FIRST]
    axes.plot(x[best], y[best], "o", markersize=6, markerfacecolor="none", color="black",
              label=f"{len(best)} best predicted")  # fmt: skip
    fastest = int(np.argmin(x))
    axes.plot(x[fastest], y[fastest], **draw.STAR, ms=11, mec="black", label="fastest measured")
    draw.scale_axis(axes, "x")
    draw.scale_axis(axes, "y")
    axes.legend(fontsize=7.5)


def _draw_points(axes: Axes, x: Array, y: Array, regimes: Array, model: str | None = None) -> None:
    """Draw points, or a sample of many, in a colour for each regime."""
    step = max(1, len(x) // POINTS)
    x, y = x[::step], y[::step]
    shown = regimes[::step]
    for i, name in enumerate(np.unique(shown)):
        here = shown == name
        axes.plot(x[here], y[here], ".", markersize=2.5, color=draw.colour_of(i),
                  label=draw.regime_label(str(name), model) or None)  # fmt: skip

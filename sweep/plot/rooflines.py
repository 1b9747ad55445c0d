"""Rooflines: performance over arithmetic intensity, and over occupancy (Lemeire et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.plot import draw
from sweep.plot.ceilings import Named, device_of
from sweep.plot.maps import BEST, regime_colours
from sweep.plot.subject import Subject
from sweep.query import Row
from sweep.query.optima import sample
from sweep.query.texts import number

COUNTS = ("floating_point_instructions", "thread_instructions", "dram_bytes")
"""The variables that a roofline needs besides times; plans keep them if their `outputs` say so."""
RATES = ("execution_time", "regime", "occupancy", "cycles_per_instruction")
"""What they show besides; plans keep these unless their `outputs` say otherwise."""
SHOWN = 3_000
"""Most configurations drawn: a regular sample."""
ROOM = 3.0
"""Of the axes beyond the points, as a factor."""
MOST_VALUES = 8
"""Most values that colours of their own tell apart."""
CLOCKS = ("core", "memory")
LINE: dict[str, Any] = {"color": "black", "lw": 1.2, "zorder": 1}
LINES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), "-.")
HALO = [withStroke(linewidth=2.5, foreground="white")]  # where a line crosses a name
LEAST_SLOPE = 15.0
"""Of a sloping line, as a factor: room for its name."""
LINE_HEIGHT = 0.04
"""Of a name beside the axes, as a share of their height."""


class Points(NamedTuple):
    """What is drawn: a row, x and y of each configuration; the best comes last."""

    rows: Sequence[Row]
    x: Array
    y: Array


def roofline_plot(
    data: Any,
    *,
    variable: str = "regime",
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw performance over arithmetic intensity, below what the device can do at most.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results with the variables :data:`COUNTS`; a path names a store. `sweep plot` computes them
        for any plan and any store of predictions.
    variable : str
        What colours the configurations: a result or a coordinate.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain.

    Returns
    -------
    matplotlib.figure.Figure
        A dot for each of a regular sample of configurations, a star at the fastest one. Lines are
        the peak bandwidths and instruction rates of the device's file at the highest clocks.
        Floating-point instructions count, or all of a kernel that has none.

    Raises
    ------
    QueryError
        The question does not fit the results, they lack the counts, or several kernels, devices or
        models remain.
    """
    subject = _subject(data, "a roofline", COUNTS, select, where)
    device = device_of(data, subject.selected("device")[0])
    rows = _rows(subject, (*COUNTS, variable))
    is_floating = any(row[COUNTS[0]] for row in rows)
    counted, *_ = COUNTS if is_floating else COUNTS[1:]
    points = _points(rows, lambda row: (row[counted] / (row["dram_bytes"] or np.nan),
                                        row[counted] / row["execution_time"] / 1e9))  # fmt: skip
    clocks = {clock: sorted({row[f"{clock}_clock"] for row in rows}) for clock in CLOCKS}
    highest = replace(device, **{clock: values[-1] for clock, values in clocks.items()})
    fastest = points.rows[-1]
    own = replace(device, **{clock: fastest[f"{clock}_clock"] for clock in CLOCKS})
    roof = min(own.rates(is_floating)[-1][1], points.x[-1] * own.bandwidths()[0][1])
    share = f"{number(100 * points.y[-1] / roof, 2)} % of the roof"
    with draw.picture(7.4, 5.6, title=f"Roofline of {subject.place()}") as (figure, panels):
        axes = panels[0, 0]
        handles = _draw_points(axes, subject, points, variable)
        _draw_ceilings(axes, points, highest.rates(is_floating), highest.bandwidths())
        unit = "floating-point instructions" if is_floating else "instructions"
        axes.set_xlabel(draw.label(f"{unit} per byte of DRAM", "1/B", 60))
        axes.set_ylabel(draw.label(f"{unit} a second", "10⁹/s", 60))
        handles.append(draw.entry(f"fastest: {_named(subject, fastest)}; {share}", **BEST, ms=11))
        if lost := len(rows) - len(points.rows):
            handles.append(draw.entry(f"{lost} of {len(rows)} configurations move nothing in DRAM"))
        if any(len(values) > 1 for values in clocks.values()):
            text = " and ".join(draw.quantity(values[-1], "MHz") for values in clocks.values())
            handles.append(draw.entry(f"lines: at core and memory clocks of {text}"))
        draw.legend(figure, handles)
    return figure


def occupancy_roofline_plot(
    data: Any,
    *,
    variable: str = "regime",
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw performance over occupancy, below what latencies allow (Lemeire et al. 2016).

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    variable : str
        What colours the configurations: a result or a coordinate.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain.

    Returns
    -------
    matplotlib.figure.Figure
        A dot for each of a regular sample of configurations, a star at the fastest one. A line for
        each type of instruction: it rises as warps hide the completion latency and ends at what the
        issue latency allows, as if a kernel had this type alone, without parallelism of its own.

    Raises
    ------
    QueryError
        The question does not fit the results, several kernels, devices or models remain, or the
        device has no latencies.
    """
    subject = _subject(data, "an occupancy roofline", RATES, select, where)
    device = subject.selected("device")[0]
    ceilings = device_of(data, device)
    most, latencies = ceilings.most_warps(), ceilings.latencies()
    if not latencies:
        raise QueryError(f"device '{device}' has no latencies, nor what they derive from")
    rows = _rows(subject, (*RATES, variable))
    points = _points(rows, lambda row: (row["occupancy"] * most, 1 / row["cycles_per_instruction"]))
    title = f"Occupancy roofline of {subject.place()}"
    with draw.picture(7.4, 5.6, title=title) as (figure, panels):
        axes = panels[0, 0]
        handles = _draw_points(axes, subject, points, variable)
        warps = np.geomspace(1.0, most, 200)
        axes.set(xscale="log", yscale="log", xlim=(1.0, most * 1.06))
        rates = {name: np.minimum(warps / completion, 1.0 / issue)
                 for name, (issue, completion) in latencies.items()}  # fmt: skip
        for i, rate in enumerate(rates.values()):
            axes.plot(warps, rate, linestyle=LINES[i % len(LINES)], **LINE)
        _name_at_right(axes, {name: float(rate[-1]) for name, rate in rates.items()})
        for axis in (axes.xaxis, axes.yaxis):
            draw.log_ticks(axis)
        axes.set_xlabel(f"warps resident on a multiprocessor (at most {number(most)})")
        axes.set_ylabel(draw.label("warp instructions of a multiprocessor", "1/cycle", 60))
        handles.append(draw.entry(f"fastest: {_named(subject, points.rows[-1])}", **BEST, ms=11))
        handles.append(draw.entry("one type of instruction alone, each waiting for the one before: "
                       "completion latency (rising), issue latency (level)", color="black",
                       linestyle="-"))  # fmt: skip
        draw.legend(figure, handles)
    return figure


def _name_at_right(axes: Axes, names: Mapping[str, float]) -> None:
    """Write names to the right of the axes, at their heights or as close as they are legible."""
    low, high = np.log10(axes.get_ylim())
    step, least = (high - low) * LINE_HEIGHT, -np.inf
    for height in sorted({*names.values()}):
        name = ", ".join(one for one, own in names.items() if own == height)
        least = max(float(np.log10(height)), least + step)
        axes.annotate(name, (1.0, 10**least), (4, 0), ("axes fraction", "data"), "offset points",
                      va="center", fontsize=8.5, annotation_clip=False)  # fmt: skip


def _subject(
    data: Any,
    picture: str,
    needed: Sequence[str],
    select: Mapping[str, Any] | None,
    where: str | None,
) -> Subject:
    """Return the results of one kernel, device and model, with the variables that are needed."""
    subject = Subject(data, picture, ["execution_time"], ["min"], select, where,
                      ("device", "model"))  # fmt: skip
    if absent := [name for name in needed if name not in subject.grid.variables]:
        raise QueryError(
            f"{picture} needs {', '.join(absent)}: name them in the plan's `outputs`, or draw with "
            "`sweep plot`, which computes them"
        )
    return subject


def _rows(subject: Subject, include: Sequence[str]) -> list[Row]:
    """Return a regular sample of valid configurations, and the best one as the last."""
    names = [name for name in include if name in subject.grid.variables]
    unknown = [n for n in include if n not in (*names, *subject.grid.coordinates)]
    if unknown:
        subject.grid.resolve(unknown[0])  # says which there are
    options: dict[str, Any] = {"where": subject.where, "select": subject.select, "include": names}
    best = [row for row in subject.best("execution_time", (), include=names)
            if row["execution_time"] is not None]  # fmt: skip
    if not best:
        raise QueryError(f"kernel '{subject.grid.kernel}' has no valid configuration here")
    return [*sample(subject.data, SHOWN, **options), *best]


def _points(rows: Sequence[Row], place: Any) -> Points:
    """Return where configurations lie; without those that have no place on logarithmic axes."""
    known = []
    for row in rows:
        x, y = place(row)
        if 0 < x < np.inf and 0 < y < np.inf:
            known.append((row, x, y))
    if not known or known[-1][0] is not rows[-1]:
        raise QueryError("the fastest configuration has no place in this picture: it moves or "
                         "executes nothing that is counted")  # fmt: skip
    found, x, y = zip(*known, strict=True)
    return Points(found, np.array(x, float), np.array(y, float))


def _draw_points(axes: Axes, subject: Subject, points: Points, variable: str) -> list[Any]:
    """Draw configurations in the colours of a variable; return the legend's entries."""
    look: dict[str, Any] = {"s": 12, "lw": 0, "alpha": 0.6, "rasterized": True, "zorder": 3}
    draw.grid(axes)
    axes.plot(points.x[-1], points.y[-1], **BEST, ms=14, zorder=6, clip_on=False)
    values: list[Any] = [row.get(variable) for row in points.rows]
    kinds = list(dict.fromkeys(values))
    is_number = all(isinstance(value, int | float) for value in kinds)
    if is_number and len(kinds) > MOST_VALUES:
        column = np.array(values, float)
        norm = draw.norm_of(column)
        shown = axes.scatter(points.x, points.y, c=column, cmap="viridis", norm=norm, **look)
        draw.colour_bar(shown, subject.label(variable))
        return []
    colours = regime_colours(subject) if variable == "regime" else {}
    handles = []
    for i, kind in enumerate(sorted(kinds) if is_number else kinds):
        colour = colours.get(str(kind), draw.colour_of(i))
        chosen = np.array([value == kind for value in values])
        axes.scatter(points.x[chosen], points.y[chosen], color=colour, **look)
        text = (
            draw.quantity(kind, subject.grid.units(variable))
            if is_number
            else draw.regime_label(str(kind), subject.model)
        )
        handles.append(draw.entry(f"{draw.words(variable)} {text}", marker="o", color=colour))
    return handles


def _named(subject: Subject, row: Row) -> str:
    """Return the best configuration in words."""
    at = ", ".join(subject.coordinates(row, subject.varied()))
    return draw.quantity(row["execution_time"], "s") + (f" at {at}" if at else "")


def _draw_ceilings(axes: Axes, points: Points, peaks: Named, bandwidths: Named) -> None:
    """Draw peak rates as levels and bandwidths as slopes, each with its name beside it."""
    top, dram = peaks[-1][1], bandwidths[0][1]
    widest = max(bandwidth for _, bandwidth in bandwidths)
    low = min(points.x.min() / ROOM, top / widest / LEAST_SLOPE)
    high = max(points.x.max(), top / dram) * ROOM
    bottom = min(points.y.min(), low * dram) / 1.2
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, 2.0 * top))
    for i, (name, peak) in enumerate(reversed(peaks)):
        axes.plot([peak / widest, high], [peak, peak], linestyle=LINES[i % len(LINES)], **LINE)
        axes.annotate(f"{name}: {_whole(peak)} x 10⁹/s", (high, peak), (-4, 2), ha="right",
                      va="bottom", textcoords="offset points", fontsize=8.5,
                      path_effects=HALO)  # fmt: skip
    for i, (name, bandwidth) in enumerate(bandwidths):
        ends = np.array([low, top / bandwidth])
        axes.plot(ends, ends * bandwidth, linestyle=LINES[min(i, 1)], **LINE)
        # Of two close lines the lower one's name is below it.
        vertical, step = ("top", 0.85) if i == 1 and len(bandwidths) > 2 else ("bottom", 1.1)
        at = max(low, bottom / bandwidth) * 1.2
        axes.text(at, step * at * bandwidth, f"{name}: {_whole(bandwidth)} GB/s", va=vertical,
                  rotation=np.degrees(np.arctan(step * bandwidth)), rotation_mode="anchor",
                  transform_rotates_text=True, fontsize=8.5, path_effects=HALO)  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        draw.log_ticks(axis)


def _whole(value: float) -> str:
    """Return a number with three or more digits, never as a power of ten."""
    return f"{value:,.0f}" if value >= 100 else number(value, 3)

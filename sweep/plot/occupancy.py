"""Occupancy beside time over the block size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sweep.errors import QueryError
from sweep.fields import LIMITER
from sweep.plot import draw
from sweep.plot.subject import Subject
from sweep.query import Row
from sweep.query.texts import scaled

MARKERS = ("o", "s", "^", "D", "v")

Series = Mapping[Any, Row]
"""The best row for each value of the horizontal axis."""


def occupancy_plot(
    data: Any,
    x: str | None = None,
    *,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw time and occupancy over the block size.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    x : str, optional
        A dimension, or ``"threads_per_block"``. By default ``block_size`` if the kernel has it,
        else ``threads_per_block``.
    select, where
        As in :func:`sweep.query.best`; one kernel and device must remain.

    Returns
    -------
    matplotlib.figure.Figure
        Above the smallest time of each block size, one line per model; below the occupancy of that
        configuration, coloured by the resource that limits it. Block sizes without a valid
        configuration are hatched.

    Raises
    ------
    QueryError
        The question does not fit the results, or several kernels or devices remain.
    """
    subject = Subject(data, "an occupancy plot", ["execution_time"], ["min"], select, where,
                      ["device"])  # fmt: skip
    if x is None:
        x = "block_size" if "block_size" in subject.grid.axes else "threads_per_block"
        if x not in (*subject.grid.axes, *subject.grid.variables):
            raise QueryError(
                f"kernel '{subject.grid.kernel}' has no block_size: name what to draw over (-x), "
                f"one of {', '.join(subject.grid.axes)}"
            )
    series = {model: _series(subject, x, model) for model in subject.selected("model") or [None]}
    timed = {m: rows for m, rows in series.items() if any(map(_is_timed, rows.values()))}
    untimed = {m: rows for m, rows in series.items() if timed and m not in timed}
    series = timed or series
    place = {v: i for i, v in enumerate(sorted({v for rows in series.values() for v in rows}))}
    title = f"Time and occupancy over {draw.words(x)}: {subject.place()}"
    shape = {"sharex": True, "height_ratios": (3, 2)}
    with draw.picture(7.4, 6.8, 2, 1, title, **shape) as (figure, panels):
        above, below = panels[:, 0]
        handles = _draw_times(above, subject, x, place, series)
        if len(series) + len(untimed) == 1:
            handles = handles[1:]  # its model stands in the title
        handles += _draw_occupancy(below, place, next(iter(series.values())))
        below.set(xlabel=subject.label(x), ylabel=subject.label("occupancy", width=22),
                  xlim=(-0.6, len(place) - 0.4))  # fmt: skip
        draw.set_ticks(below, "x", list(place))
        handles += _hatch_invalid((above, below), place, series)
        for model, rows in untimed.items():
            statuses = Counter(str(row["status"]) for row in rows.values()).most_common(1)
            status = draw.words(statuses[0][0]) if statuses else "not asked for"
            handles.append(draw.entry(f"{model}: no valid configuration ({status})"))
        draw.legend(figure, handles)
    return figure


def _is_timed(row: Row) -> bool:
    return row["execution_time"] < math.inf


def _series(subject: Subject, x: str, model: str | None) -> Series:
    """Return the best row for each value of a dimension or of ``threads_per_block``, in order.

    The time is infinite where there is none.
    """
    grid = subject.grid
    by: Sequence[str] = (x,)
    if x not in grid.axes:
        if grid.kind(grid.resolve(x)) != "float":
            raise QueryError(f"'{x}' is no number to draw over")
        by = [d for d in grid.dims if d in grid.variables[grid.resolve(x)].dims and d != "device"]
    include = [n for n in ("occupancy", "occupancy_limiter", x) if n in grid.variables]
    found: dict[Any, Row] = {}
    select = subject.select if model is None else subject.select | {"model": model}
    for row in subject.best("execution_time", by, include=include, select=select):
        value = row[x] if row[x] is not None else _value_at(subject, x, row)
        if value != value:
            continue  # an invalid launch has no such number, hence no place along the axis
        if row["execution_time"] is None:
            row["execution_time"] = math.inf
        if value not in found or row["execution_time"] < found[value]["execution_time"]:
            found[value] = row
    return {value: found[value] for value in sorted(found)}


def _value_at(subject: Subject, x: str, row: Row) -> Any:
    """Return a launch variable where no configuration is valid, from the group's labels."""
    grid = subject.grid
    name = grid.resolve(x)
    points = {}
    for dim in map(str, grid.variables[name].dims):
        known = grid.coordinates[dim].values.tolist()
        first = subject.part.selection.indices[dim][0]
        points[dim] = np.array([first if row[dim] is None else known.index(row[dim])])
    return grid.gather([name], points)[name].item()


def _draw_times(
    axes: Axes, subject: Subject, x: str, place: Mapping[Any, int], series: Mapping[Any, Series]
) -> list[Any]:
    """Draw the times of each model, a star at the smallest; return the legend's entries."""
    rows = [row for rows in series.values() for row in rows.values() if _is_timed(row)]
    times = np.array([row["execution_time"] for row in rows])
    factor, unit = scaled(times.tolist(), "s")
    handles = []
    for i, (model, of_model) in enumerate(series.items()):
        points = {
            place[v]: row["execution_time"] / factor
            for v, row in of_model.items()
            if _is_timed(row)
        }
        look: dict[str, Any] = {"marker": MARKERS[i % 5], "label": model}
        handles += axes.plot([*points], [*points.values()], color=draw.colour_of(i), **look)
        if points:
            best = min(points, key=points.__getitem__)
            axes.plot(best, points[best], **draw.STAR, mec=draw.colour_of(i), ms=13, mew=1.4,
                      zorder=5, clip_on=False)  # fmt: skip
    axes.set_ylabel(subject.label("execution_time", unit, 28))
    if rows and not draw.scale_axis(axes, "y", times):
        axes.set_ylim(0, 1.06 * times.max() / factor)
    known = subject.grid.variables[x].dims if x in subject.grid.variables else ()
    implied = [str(d) for d in known if d != "device"]
    # Threads may follow from one parameter alone.
    over = subject.varied("model", x, *(implied if len(implied) == 1 else ()))
    if over:
        draw.subtitle(axes, f"each point: smallest time over {', '.join(over)}", 5.8)
    if rows:
        fastest = min(rows, key=itemgetter("execution_time"))
        text = "fastest"
        if where := ", ".join(subject.coordinates(fastest, subject.varied())):
            text += f": {draw.quantity(times.min(), 's')} at {where}"
        handles.append(draw.entry(text, **draw.STAR, ms=11, mec="black"))
    return handles


def _draw_occupancy(axes: Axes, place: Mapping[Any, int], rows: Series) -> list[Patch]:
    """Draw the occupancy as bars coloured by what limits it; return the legend's entries."""
    axes.set_ylim(0, 1)
    draw.grid(axes, "y")
    colours = {name: draw.colour_of(i) for i, name in enumerate(LIMITER.codes, 1)}
    seen = set()
    for value, row in rows.items():
        if row["occupancy"] is not None:
            limiter = row.get("occupancy_limiter") or "none"
            seen.add(limiter)
            axes.bar(place[value], row["occupancy"], width=0.75, color=colours[limiter])
    return [
        Patch(facecolor=colour, label=f"limited by {draw.words(name)}")
        for name, colour in colours.items()
        if name in seen - {"none"}
    ]


def _hatch_invalid(
    panels: Sequence[Axes], place: Mapping[Any, int], series: Mapping[Any, Series]
) -> list[Patch]:
    """Hatch the values without a valid configuration in any model."""
    reasons = []
    for value, at in place.items():
        rows = [rows[value] for rows in series.values() if value in rows]
        if not any(map(_is_timed, rows)):
            reasons += [str(row["status"]) for row in rows]
            for axes in panels:
                axes.axvspan(at - 0.5, at + 0.5, **draw.INVALID, zorder=0)
    return [draw.invalid_patch(reasons)] if reasons else []

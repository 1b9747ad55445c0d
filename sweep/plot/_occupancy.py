"""Occupancy beside time over the block size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sweep.errors import QueryError
from sweep.fields import LIMITER
from sweep.plot._figure import (
    INVALID,
    Picture,
    colour_of,
    is_wide,
    laid_out,
    scale_axis,
    set_ticks,
    spell,
    style,
)
from sweep.plot._legend import invalid_patch, label, legend, remark, subtitle, title
from sweep.plot._maps import one_kernel, over_dims, selected, spelt, where_we_are
from sweep.query import Row, best
from sweep.query.answer import scaled
from sweep.query.kernel_part import KernelPart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["occupancy_plot"]

MARKERS = ("o", "s", "^", "D", "v")


def occupancy_plot(
    data: Any,
    x: str | None = None,
    *,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> Picture:
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
    part = one_kernel(
        data,
        ["execution_time"],
        ["min"],
        select=select,
        where=where,
        single=("device",),
        what="an occupancy plot",
    )
    if x is None:
        x = "block_size" if "block_size" in part.grid.axes else "threads_per_block"
    narrowed = {**(select or {}), "kernel": part.grid.kernel}
    series = {
        model: _best_by(
            data, part, x, narrowed | ({} if model is None else {"model": model}), where
        )
        for model in selected(part, "model") or [None]
    }
    without = {model: _reason(rows) for model, rows in series.items() if not _is_drawn(rows)}
    if len(without) < len(series):
        series = {model: rows for model, rows in series.items() if model not in without}
    else:
        without = {}
    values = sorted({value for rows in series.values() for value in rows})
    remarks = [f"{model}: no valid configuration ({why})" for model, why in without.items()]
    with style():
        return _draw(part, x, values, series, remarks)


def _is_drawn(rows: Mapping[Any, Row]) -> bool:
    return any(row["execution_time"] is not None for row in rows.values())


def _reason(rows: Mapping[Any, Row]) -> str:
    """Return why nothing is valid, as the most rows have it."""
    counts = Counter(str(row["status"]).replace("_", " ") for row in rows.values())
    return counts.most_common(1)[0][0] if counts else "not asked for"


def _best_by(
    data: Any, part: KernelPart, x: str, select: Mapping[str, Any], where: str | None
) -> dict[Any, Row]:
    """Return the best row for each value of a dimension or of ``threads_per_block``."""
    grid = part.grid
    by: Sequence[str] = (x,)
    if x not in grid.axes:
        if grid.kind(grid.resolve(x)) != "float":
            raise QueryError(f"'{x}' is no number to draw over")
        by = [d for d in grid.dims if d in grid.variables[grid.resolve(x)].dims and d != "device"]
    include = [n for n in ("occupancy", "occupancy_limiter", x) if n in grid.variables]
    answer = best(data, by=by, select=select, where=where, include=include)
    found: dict[Any, Row] = {}
    for row in answer:
        value = row[x] if row[x] is not None else _value_at(part, x, row)
        if value != value:
            continue  # an invalid launch has no such number, hence no place along the axis
        if value not in found or _time(row) < _time(found[value]):
            found[value] = row
    return found


def _value_at(part: KernelPart, x: str, row: Row) -> Any:
    """Return a launch variable where no configuration is valid, from the group's labels."""
    grid = part.grid
    points = {}
    for dim in map(str, grid.variables[grid.resolve(x)].dims):
        known = grid.coordinates[dim].values.tolist()
        at = known.index(row[dim]) if row[dim] is not None else part.selection.indices[dim][0]
        points[dim] = np.array([at])
    return grid.gather([grid.resolve(x)], points)[grid.resolve(x)].item()


def _time(row: Row) -> float:
    return float("inf") if row["execution_time"] is None else float(row["execution_time"])


def _draw(
    part: KernelPart,
    x: str,
    values: Sequence[Any],
    series: Mapping[Any, Mapping[Any, Row]],
    remarks: Sequence[str],
) -> Picture:
    figure = Picture(figsize=(7.4, 6.8), layout="constrained")
    grid = part.grid
    title(figure, f"Time and occupancy over {x.replace('_', ' ')}: {where_we_are(part)}")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    place = {value: i for i, value in enumerate(values)}
    times = [_time(row) for rows in series.values() for row in rows.values()]
    finite = [time for time in times if np.isfinite(time)]
    factor, unit = scaled(finite, "s")
    for i, (model, rows) in enumerate(series.items()):
        good = [value for value in values if value in rows and np.isfinite(_time(rows[value]))]
        shown = [rows[value]["execution_time"] / factor for value in good]
        colour = colour_of(i)
        above.plot(
            [place[v] for v in good], shown, MARKERS[i % 5], ls="-", color=colour, label=model
        )
        if good:
            at = int(np.argmin(shown))
            _mark_best(above, place[good[at]], shown[at], colour)
    above.set_ylabel(label(grid.long_name("execution_time"), unit, 28))
    if is_wide(np.array(finite)):
        scale_axis(above, "y", np.array(finite))
    elif finite:
        above.set_ylim(0, 1.06 * max(finite) / factor)
    known = grid.variables[x].dims if x in grid.variables else ()
    implied = [
        str(d) for d in known if d != "device"
    ]  # threads that follow from one parameter alone
    over = over_dims(part, ("model", x, *(implied if len(implied) == 1 else ())))
    if over:
        subtitle(above, f"each point: smallest time over {', '.join(over)}", 5.8)
    first = next(iter(series.values()))
    limiters = _draw_occupancy(below, place, first)
    below.set_ylabel(label(grid.long_name("occupancy"), grid.units("occupancy"), 22))
    below.set_xlabel(label(grid.long_name(x), grid.units(x)))
    set_ticks(below, "x", list(values))
    below.set_xlim(-0.6, len(values) - 0.4)
    reasons = _hatch_invalid((above, below), place, series)
    handles = [*above.get_legend_handles_labels()[0]] if len(series) + len(remarks) > 1 else []
    star: dict[str, Any] = {
        "marker": "*",
        "markersize": 11,
        "markerfacecolor": "white",
        "linestyle": "none",
    }
    if finite:
        row = min((row for rows in series.values() for row in rows.values()), key=_time)
        where = ", ".join(spelt(row, dim, grid) for dim in over_dims(part, ()))
        text = f"fastest: {spell(min(finite), 's')} at {where}" if where else "fastest"
        handles.append(Line2D([], [], **star, markeredgecolor="black", label=text))
    handles += [*limiters, *reasons, *map(remark, remarks)]
    legend(figure, handles, "outside lower center")
    return laid_out(figure)


def _mark_best(axes: Axes, x: float, y: float, colour: str) -> None:
    axes.plot(x, y, "*", ms=13, mfc="white", mec=colour, mew=1.4, zorder=5, clip_on=False)


def _draw_occupancy(axes: Axes, place: Mapping[Any, int], rows: Mapping[Any, Row]) -> list[Any]:
    """Draw the occupancy as bars coloured by what limits it; return the legend's entries."""
    axes.set_ylim(0, 1)
    axes.grid(True, axis="y", color="#e6e6e6", lw=0.7)
    axes.set_axisbelow(True)
    order = {name: i for i, name in enumerate(LIMITER.codes)}
    seen: dict[str, str] = {}
    for value, row in rows.items():
        if row["occupancy"] is None:
            continue
        limiter = row.get("occupancy_limiter") or "none"
        colour = colour_of(order.get(limiter, 0) + 1)
        seen[limiter] = colour
        axes.bar(place[value], row["occupancy"], width=0.75, color=colour)
    return [
        Patch(facecolor=colour, label=f"limited by {name.replace('_', ' ')}")
        for name, colour in sorted(seen.items(), key=lambda item: order.get(item[0], 0))
        if name != "none"
    ]


def _hatch_invalid(
    panels: Sequence[Axes], place: Mapping[Any, int], series: Mapping[Any, Mapping[Any, Row]]
) -> list[Any]:
    """Hatch the values without a valid configuration in any model."""
    reasons = []
    for value, at in place.items():
        rows = [rows[value] for rows in series.values() if value in rows]
        if all(row["execution_time"] is None for row in rows):
            reasons += [str(row["status"]) for row in rows]
            for axes in panels:
                axes.axvspan(at - 0.5, at + 0.5, **INVALID, zorder=0)
    return [invalid_patch(reasons)] if reasons else []

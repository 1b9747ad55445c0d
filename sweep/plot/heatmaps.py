"""Maps over two parameters: any result, and time beside energy over the two clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection

from sweep.errors import QueryError
from sweep.plot import draw
from sweep.plot.maps import Map, best_map, borders, draw_map
from sweep.plot.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

CLOSE = 1.05  # what lies within 5 % of the best is framed
FRAME: dict[str, Any] = {"color": "#D0104C", "linewidth": 1.8, "linestyle": (0, (3, 1.5))}
OTHER: dict[str, Any] = {"marker": "D", "mfc": "none", "mec": "black", "mew": 1.4, "ms": 8}
SMALLEST = {"execution_time": "smallest execution time", "energy": "smallest energy"}


def heatmap(
    data: Any,
    x: str,
    y: str,
    *,
    variable: str = "execution_time",
    sense: str = "min",
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw the best of a result over two parameters.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    x, y : str
        Two dimensions; ``core_clock`` and ``memory_clock`` also where these are ratios.
    variable : str
        What is shown; each cell holds its best value over all other dimensions.
    sense : str
        ``"min"`` or ``"max"``.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain.

    Returns
    -------
    matplotlib.figure.Figure
        Cells without a valid configuration are hatched, lines divide regimes, a star marks the best
        cell.

    Raises
    ------
    QueryError
        The question does not fit the results, or several kernels, devices or models remain.
    """
    single = [dim for dim in ("device", "model") if dim not in (x, y)]
    subject = Subject(
        data, "a heat map", [variable], [sense], select=select, where=where, single=single
    )
    found = best_map(subject, subject.axis(x), subject.axis(y), variable, sense)
    over = subject.varied(found.x.dim, found.y.dim)
    with draw.picture(7.4, 5.4) as (figure, panels):
        axes = panels[0, 0]
        handles = draw_map(axes, found, subject, over)
        variable = draw.words(found.variable).capitalize()
        draw.title(figure, f"{variable} of {subject.place((x, y))}")
        if over:
            best = "smallest" if sense == "min" else "largest"
            draw.subtitle(axes, f"{best} over {', '.join(over)}", 5.6)
        draw.legend(figure, handles)
    return figure


def clocks_plot(
    data: Any,
    *,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw the smallest execution time and the smallest energy over core and memory clock.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain. Each cell holds
        the best over all other dimensions that remain.

    Returns
    -------
    matplotlib.figure.Figure
        Two maps side by side. A star marks the optimum, a diamond that of the other map, a dashed
        line frames what lies within 5 % of the optimum.

    Raises
    ------
    QueryError
        The question does not fit the results, several kernels, devices or models remain, or the
        clocks were not swept.
    """
    subject = Subject(
        data, "a plot over the clocks", ["execution_time"], ["min"], select=select, where=where,
        single=("device", "model"),
    )  # fmt: skip
    clocks = ("core_clock", "memory_clock")
    if not all({clock, f"{clock}_ratio"} & set(subject.grid.dims) for clock in clocks):
        kernel = subject.grid.kernel
        raise QueryError(f"the clocks of kernel '{kernel}' were not swept: no such axes")
    x, y = map(subject.axis, clocks)
    over = subject.varied(x.dim, y.dim)
    maps = [best_map(subject, x, y, name) for name in SMALLEST]
    with draw.picture(11.0, 5.4, 1, 2) as (figure, panels):
        draw.title(figure, f"Time and energy over the clocks: {subject.place()}")
        for axes, side, found, other in zip(
            panels[0], ("left", "right"), maps, maps[::-1], strict=True
        ):
            shown = [SMALLEST[found.variable], ", ".join(over)]
            draw.subtitle(axes, " over ".join(filter(None, shown)), 4.2)
            handles = draw_map(axes, found, subject, over)
            handles[1:1] = _mark_other(axes, found, other, subject) + _frame_close(axes, found)
            draw.legend(figure, handles, f"outside lower {side}", 0.5)
    return figure


def _mark_other(axes: Axes, found: Map, other: Map, subject: Subject) -> list[Line2D]:
    """Mark where the other map has its optimum, and say what going there costs."""
    if found.best is None or other.best is None or found.best == other.best:
        return []
    here, least = found.values[other.best], found.values[found.best]
    if not np.isfinite(here):
        return []
    axes.plot(other.best[1], other.best[0], **OTHER, linestyle="none", zorder=6, clip_on=False)
    value = draw.quantity(here, subject.grid.units(found.variable))
    more = f"{100 * (here / least - 1):.0f} % more"
    return [draw.entry(f"{SMALLEST[other.variable]}: here {value}, {more}", **OTHER)]


def _frame_close(axes: Axes, found: Map) -> list[Line2D]:
    """Frame the cells that are nearly as good as the best one."""
    if found.best is None:
        return []
    close = found.values <= CLOSE * found.values[found.best]
    lines = borders(np.where(np.isnan(found.values), 0, 1 + close))
    if not lines.size:
        return []
    axes.add_collection(LineCollection(list(lines), **FRAME))
    return [draw.entry(f"within {100 * (CLOSE - 1):.0f} % of the best", **FRAME)]

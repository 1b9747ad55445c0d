"""Time and energy over the two clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from sweep.errors import QueryError
from sweep.plot._figure import Picture, laid_out, spell, style
from sweep.plot._legend import legend, subtitle, title
from sweep.plot._maps import (
    Map,
    axis_of,
    best_map,
    draw_map,
    one_kernel,
    over_dims,
    selected,
    where_we_are,
)
from sweep.plot._regions import borders
from sweep.query.grid import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["clocks_plot"]

CLOSE = 1.05  # what lies within 5 % of the best is framed
FRAME = "#D0104C"
WORDS = {"execution_time": "smallest execution time", "energy": "smallest energy"}


def clocks_plot(
    data: Any,
    *,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> Picture:
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
    part = one_kernel(
        data,
        ["execution_time"],
        ["min"],
        select=select,
        where=where,
        single=("device", "model"),
        what="a plot over the clocks",
    )
    dims = part.grid.dims
    if not {"core_clock", "core_clock_ratio"} & set(dims) or not (
        {"memory_clock", "memory_clock_ratio"} & set(dims)
    ):
        raise QueryError(f"the clocks of kernel '{part.grid.kernel}' were not swept: no such axes")
    x, y = axis_of(part, "core_clock"), axis_of(part, "memory_clock")
    over = over_dims(part, (x.dim, y.dim))
    model = (selected(part, "model") or [None])[0]
    with style():
        figure = Picture(figsize=(11.0, 5.4), layout="constrained")
        title(figure, f"Time and energy over the clocks: {where_we_are(part)}")
        maps = [
            best_map(data, part, x, y, variable=name, sense="min", select=select, where=where)
            for name in WORDS
        ]
        for axes, side, found, other in zip(
            figure.subplots(1, 2), ("left", "right"), maps, maps[::-1], strict=True
        ):
            words = [WORDS[found.variable], ", ".join(over)]
            subtitle(axes, " over ".join(filter(None, words)), 4.2)
            handles = draw_map(axes, found, part.grid, model, over)
            handles[1:1] = _mark_other(axes, found, other, part.grid) + _frame_close(axes, found)
            legend(figure, handles, f"outside lower {side}", 0.5)
        return laid_out(figure)


def _mark_other(axes: Axes, found: Map, other: Map, grid: Grid) -> list[Any]:
    """Mark where the other map has its optimum, and say what going there costs."""
    if found.best is None or other.best is None or found.best == other.best:
        return []
    here, least = found.values[other.best], found.values[found.best]
    if not np.isfinite(here):
        return []
    look: dict[str, Any] = {
        "marker": "D",
        "mfc": "none",
        "mec": "black",
        "mew": 1.4,
        "ls": "none",
        "ms": 8,
    }
    axes.plot(other.best[1], other.best[0], **look, zorder=6, clip_on=False)
    text = f"{WORDS[other.variable]}: here {spell(here, grid.units(found.variable))}"
    return [Line2D([], [], **look, label=f"{text}, {100 * (here / least - 1):.0f} % more")]


def _frame_close(axes: Axes, found: Map) -> list[Any]:
    """Frame the cells that are nearly as good as the best one."""
    if found.best is None:
        return []
    close = found.values <= CLOSE * found.values[found.best]
    lines = borders(np.where(np.isnan(found.values), 0, 1 + close))
    if not lines.size:
        return []
    look: dict[str, Any] = {"colors": FRAME, "linewidths": 1.8, "linestyles": (0, (3, 1.5))}
    axes.add_collection(LineCollection(list(lines), **look))
    share = f"within {100 * (CLOSE - 1):.0f} % of the best"
    return [Line2D([], [], color=FRAME, lw=1.8, ls=(0, (3, 1.5)), label=share)]

"""Time and energy over the two clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import QueryError
from sweep.plot._figure import Picture, style
from sweep.plot._maps import (
    Map,
    axis_of,
    best_map,
    draw_map,
    one_view,
    over_dims,
    selected,
    where_we_are,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["clocks_plot"]

CLOSE = 1.05  # what lies within 5 % of the best is framed


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
        Two maps side by side. A star marks the optimum, a dashed line frames what lies within 5 %
        of it.

    Raises
    ------
    QueryError
        The question does not fit the results, several kernels, devices or models remain, or the
        clocks were not swept.
    """
    view = one_view(
        data,
        ["execution_time"],
        ["min"],
        select=select,
        where=where,
        single=("device", "model"),
        what="a plot over the clocks",
    )
    dims = view.grid.dims
    if not {"core_clock", "core_clock_ratio"} & set(dims) or not (
        {"memory_clock", "memory_clock_ratio"} & set(dims)
    ):
        raise QueryError(f"the clocks of kernel '{view.grid.kernel}' were not swept: no such axes")
    x, y = axis_of(view, "core_clock"), axis_of(view, "memory_clock")
    over = over_dims(view, (x.dim, y.dim))
    model = (selected(view, "model") or [None])[0]
    with style():
        figure = Picture(figsize=(10.6, 5.2), layout="constrained")
        figure.suptitle(f"Time and energy over the clocks: {where_we_are(view)}")
        panels = figure.subplots(1, 2)
        for axes, variable in zip(panels, ("execution_time", "energy"), strict=True):
            found = best_map(
                data, view, x, y, variable=variable, sense="min", select=select, where=where
            )
            title = f"smallest {variable.replace('_', ' ')}"
            axes.set_title(f"{title} over {', '.join(over)}" if over else title)
            handles = draw_map(axes, found, view.grid, model, over)
            _frame_close(axes, found)
            axes.legend(
                handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), borderaxespad=0
            )
    return figure


def _frame_close(axes: Axes, found: Map) -> None:
    """Frame the cells that are nearly as good as the best one."""
    if found.best is None or min(found.values.shape) < 2:
        return
    filled = np.where(np.isnan(found.values), np.inf, found.values)
    close = (filled <= CLOSE * found.values[found.best]).astype(float)
    if close.all():
        return
    axes.contour(close, levels=[0.5], colors="white", linewidths=1.4, linestyles="dashed")

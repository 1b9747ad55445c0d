"""A result over two parameters, with regime borders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.plot._figure import Picture, laid_out, style
from sweep.plot._legend import legend, subtitle, title
from sweep.plot._maps import (
    axis_of,
    best_map,
    draw_map,
    one_kernel,
    over_dims,
    selected,
    where_we_are,
)

__all__ = ["heatmap"]


def heatmap(
    data: Any,
    x: str,
    y: str,
    *,
    variable: str = "execution_time",
    sense: str = "min",
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> Picture:
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
    part = one_kernel(
        data, [variable], [sense], select=select, where=where, single=single, what="a heat map"
    )
    across, up = axis_of(part, x), axis_of(part, y)
    found = best_map(
        data, part, across, up, variable=variable, sense=sense, select=select, where=where
    )
    models = selected(part, "model")
    with style():
        figure = Picture(figsize=(7.4, 5.4), layout="constrained")
        axes = figure.add_subplot()
        over = over_dims(part, (across.dim, up.dim))
        model = models[0] if len(models) == 1 else None
        handles = draw_map(axes, found, part.grid, model, over)
        name = found.variable.replace("_", " ")
        title(figure, f"{name.capitalize()} of {where_we_are(part, (x, y))}")
        if over:
            best = "smallest" if sense == "min" else "largest"
            subtitle(axes, f"{best} over {', '.join(over)}", 5.6)
        legend(figure, handles, "outside lower center")
        return laid_out(figure)

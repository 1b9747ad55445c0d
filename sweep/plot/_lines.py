"""Plain curves in panels, as papers print them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.plot._figure import PALETTE, Picture, laid_out, scale_axis, style

__all__ = ["line_plot"]

Curve = tuple[NDArray[Any], NDArray[Any]]


def line_plot(
    panels: Sequence[tuple[str, Mapping[str, Curve]]],
    x_label: str,
    y_label: str,
    *,
    columns: int = 2,
    marks: Sequence[str] = (),
) -> Picture:
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
    with style():
        figure = Picture(figsize=(max(4.2 * columns, 6.0), 3.0 * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, (title, curves) in zip(grid.flat, panels, strict=False):
            _panel(axes, title, curves, bool(marks))
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            if marks:
                axes.set_xticks(range(len(marks)), list(marks), rotation=35, ha="right")
        return laid_out(figure)


def _panel(axes: Any, title: str, curves: Mapping[str, Curve], is_marked: bool) -> None:
    lines = "o" if is_marked else "-"
    for i, (name, (x, y)) in enumerate(curves.items()):
        axes.plot(x, y, lines, color=PALETTE[i % len(PALETTE)], label=name, markersize=5)
    values = np.concatenate([np.asarray(y, float) for _, y in curves.values()])
    scale_axis(axes, "y", values)
    if not is_marked:
        scale_axis(axes, "x", np.concatenate([np.asarray(x, float) for x, _ in curves.values()]))
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=min(0.0, float(np.nanmin(values))))
    axes.set_title(title)
    axes.legend()

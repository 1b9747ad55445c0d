"""What tuning is worth: how rare good configurations are, other GPUs' best ones, lower clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from sweep.plot import draw
from sweep.query.texts import number
from sweep.query.tuning import NEAR, Tuning, tunings

MOST_KERNELS = 6
"""Most rows of panels."""
SLOWEST = 10.0
"""Where the axis of slowdowns ends, as a multiple of the best time."""


def tuning_plot(
    data: Any, model: str | None = None, *, select: Mapping[str, Any] | None = None
) -> draw.Picture:
    """Draw what tuning is worth, a row of panels for each kernel.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    model : str, optional
        Which model predicts; by default ``combined``, or else the first one.
    select : mapping, optional
        As in :func:`sweep.query.best`.

    Returns
    -------
    matplotlib.figure.Figure
        On the left, the share of configurations that are at most so many times slower than the
        best, a line per device. In the middle, what one device's best configuration costs on
        another. On the right, the best time at lower core clocks.

    Raises
    ------
    QueryError
        No kernel has one problem size and configurations to choose from.
    """
    found = tunings(data, model=model, select=select)[:MOST_KERNELS]
    title = f"What tuning is worth, as {found[0].model} predicts"
    with draw.picture(11.0, 0.9 + 2.5 * len(found), len(found), 3, title) as (figure, panels):
        for one, (left, middle, right) in zip(found, panels, strict=True):
            _rarity(left, one)
            _carried(middle, one)
            _clocked(right, one)
        for panel, text in zip(panels[0], ("How rare are good configurations?",
                               "Does another GPU's best do?", "What does a lower clock cost?"),
                               strict=True):  # fmt: skip
            panel.set_title(text)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _rarity(axes: Axes, one: Tuning) -> None:
    """Draw the share of configurations within a multiple of the best time."""
    for device, slowdowns, colour in zip(one.devices, one.slowdowns, draw.PALETTE, strict=False):
        shares = 100 * np.arange(1, slowdowns.size + 1) / slowdowns.size
        axes.step(slowdowns, shares, where="post", color=colour, label=device)
    axes.axvspan(1.0, NEAR, color="#f0f0f0", zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(1.0, SLOWEST)
    axes.set_xticks([1, 2, 5, 10], ["best", "2 x", "5 x", "10 x"])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.set_xlabel("time, as a multiple of the best")
    axes.set_ylabel(f"{one.kernel}\nshare so fast [%]")


def _carried(axes: Axes, one: Tuning) -> None:
    """Draw, as a table in colours, what the best configuration of a device costs on others."""
    axes.imshow(one.carried, norm=LogNorm(1.0, 2.0), cmap="YlOrRd", aspect="auto")
    for (row, column), value in np.ndenumerate(one.carried):
        text = "-" if np.isnan(value) else f"+{number(100 * (value - 1), 2)} %"
        shade = "white" if value > 1.6 else "black"
        axes.text(column, row, "best" if row == column else text, ha="center", va="center",
                  color=shade, fontsize="small")  # fmt: skip
    places = range(len(one.devices))
    axes.set_xticks(places, [_short(name) for name in one.devices], fontsize="small")
    axes.set_yticks(places, [_short(name) for name in one.devices], fontsize="small")
    axes.set_xlabel("runs on")
    axes.set_ylabel("best of")
    axes.grid(visible=False)


def _short(name: str) -> str:
    """Return a device's key in two lines where it is long."""
    head, _, tail = name.rpartition("_")
    return f"{head}\n{tail}" if len(name) > 9 and head else name


def _clocked(axes: Axes, one: Tuning) -> None:
    """Draw the best time over the core clock, relative to the fastest."""
    if one.clocks.size < 2:
        axes.set_axis_off()
        return
    for device, times, colour in zip(one.devices, one.clocked, draw.PALETTE, strict=False):
        axes.plot(one.clocks, times, color=colour, label=device)
    if one.clock.endswith("_ratio"):
        bound = one.clocks[-1] / one.clocks
        axes.plot(one.clocks, bound, color=draw.GREY, linestyle=":", zorder=0)
        axes.annotate("as the clock", (one.clocks[0], bound[0]), (6, -2),
                      textcoords="offset points", fontsize="small", color=draw.GREY)  # fmt: skip
    unit = "" if one.clock.endswith("_ratio") else " [MHz]"
    axes.set_xlabel(f"core clock{unit}" if unit else "core clock, as a share of the nominal one")
    axes.set_ylabel("time, best = 1")
    axes.set_ylim(bottom=0.95)

"""What tuning is worth: how rare good configurations are, other GPUs' best ones, lower clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from sweep.plot import draw
from sweep.query.texts import percent
from sweep.query.tuning import NEAR, Tuning, tunings

MOST_KERNELS = 6
"""Most rows of panels."""
SLOWEST = 10.0
"""Where the axis of slowdowns ends, as a multiple of the best time."""
WIDTH = 3.67  # inches of a panel
CELL = 0.56  # inches of a device's column, so that no texts meet
MOST_LEVEL = 5  # names of devices beside each other; those of more are turned
LINES = ("-", "--", ":", "-.")  # of the devices after those that colours tell apart

Looks = Mapping[str, Mapping[str, Any]]
"""Colour and style of each device's lines, the same in all panels."""


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
    every = tunings(data, model=model, select=select)
    found = every[:MOST_KERNELS]
    title = f"What tuning is worth, as {found[0].model} predicts"
    if every[MOST_KERNELS:]:
        title += f" (the first {MOST_KERNELS} of {len(every)} kernels)"
    devices = list(dict.fromkeys(name for one in found for name in one.devices))
    looks = {name: {"color": draw.colour_of(i), "linestyle": LINES[i // len(draw.PALETTE) % 4]}
             for i, name in enumerate(devices)}  # fmt: skip
    kinds: list[tuple[float, str, Callable[..., None]]] = [
        (WIDTH, "How rare are good configurations?", _rarity)
    ]
    if devices[1:]:
        kinds.append((max(WIDTH, CELL * len(devices)), "Does another GPU's best do?", _carried))
    if any(one.clocks.size > 1 for one in found):
        kinds.append((WIDTH, "What does a lower clock cost?", _clocked))
    widths, titles, drawn = zip(*kinds, strict=True)
    height = 0.9 + max(2.5, 0.3 * len(devices)) * len(found)
    with draw.picture(max(sum(widths), 6.0), height, len(found), len(widths), title,
                      width_ratios=widths) as (figure, panels):  # fmt: skip
        for one, row in zip(found, panels, strict=True):
            for fill, panel in zip(drawn, row, strict=True):
                fill(panel, one, looks)
        for panel, text in zip(panels[0], titles, strict=True):
            panel.set_title(text)
        draw.legend(figure, [draw.entry(name, **look) for name, look in looks.items()])
    return figure


def _rarity(axes: Axes, one: Tuning, looks: Looks) -> None:
    """Draw the share of configurations within a multiple of the best time."""
    for device, slowdowns in zip(one.devices, one.slowdowns, strict=True):
        shares = 100 * np.arange(1, slowdowns.size + 1) / slowdowns.size
        axes.step(slowdowns, shares, where="post", label=device, **looks[device])
    axes.axvspan(1.0, NEAR, color="#f0f0f0", zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(1.0, SLOWEST)
    axes.set_xticks([1, 2, 5, 10], ["best", "2 x", "5 x", "10 x"])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.set_xlabel("time, as a multiple of the best")
    axes.set_ylabel(f"{one.kernel}\nshare so fast [%]")


def _carried(axes: Axes, one: Tuning, _: Looks) -> None:
    """Draw, as a table in colours, what the best configuration of a device costs on others."""
    axes.imshow(one.carried, norm=LogNorm(1.0, 2.0), cmap="YlOrRd", aspect="auto")
    for (row, column), value in np.ndenumerate(one.carried):
        more = round(value - 1, 3 if value < 1.01 else 9)
        text = "-" if np.isnan(value) else f"+{percent(more)}"
        shade = "white" if value > 1.6 else "black"
        axes.text(column, row, "best" if row == column else text, ha="center", va="center",
                  color=shade, fontsize="small")  # fmt: skip
    places, is_turned = range(len(one.devices)), len(one.devices) > MOST_LEVEL
    names = one.devices if is_turned else [*map(_short, one.devices)]
    look: dict[str, Any] = {"rotation": 35, "ha": "right"} if is_turned else {}
    axes.set_xticks(places, names, fontsize="small", **look)
    axes.set_yticks(places, names, fontsize="small")
    axes.set_xlabel("runs on")
    axes.set_ylabel("best of")
    axes.grid(visible=False)


def _short(name: str) -> str:
    """Return a device's key in two lines where it is long."""
    head, _, tail = name.rpartition("_")
    return f"{head}\n{tail}" if len(name) > 9 and head else name


def _clocked(axes: Axes, one: Tuning, looks: Looks) -> None:
    """Draw the best time over the core clock, relative to the fastest."""
    if one.clocks.size < 2:
        axes.set_axis_off()
        return
    for device, times in zip(one.devices, one.clocked, strict=True):
        axes.plot(one.clocks, times, label=device, **looks[device])
    if one.clock.endswith("_ratio"):
        bound = one.clocks[-1] / one.clocks
        axes.plot(one.clocks, bound, color=draw.GREY, linestyle=":", zorder=0)
        axes.annotate("as the clock", (one.clocks[0], bound[0]), (6, -2),
                      textcoords="offset points", fontsize="small", color=draw.GREY)  # fmt: skip
    unit = "" if one.clock.endswith("_ratio") else " [MHz]"
    axes.set_xlabel(f"core clock{unit}" if unit else "core clock, as a share of the nominal one")
    axes.set_ylabel("time, best = 1")
    axes.set_ylim(bottom=0.95)

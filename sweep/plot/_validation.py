"""Predicted against measured times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sweep.plot._figure import PALETTE, Picture, laid_out, regime_label, style
from sweep.query.pairing import Paired
from sweep.query.ranking import scale_factor

__all__ = ["validation_plot"]

POINTS = 20_000  # of a panel: more only blacken it
FIRST = 10


def validation_plot(pairs: Sequence[Paired]) -> Picture:
    """Draw predicted against measured times, coloured by regime.

    Parameters
    ----------
    pairs : sequence of Paired
        From :func:`sweep.query.paired`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per kernel and device (rows) and model (columns), on logarithmic axes. The lines are
        equality, and equality after scaling by the median ratio; rings mark the ten best predicted,
        a star the fastest that was measured.
    """
    rows = list(dict.fromkeys((p.kernel, p.device) for p in pairs))
    models = list(dict.fromkeys(p.model for p in pairs))
    with style():
        size = (1.2 + 4.2 * len(models), 0.6 + 3.9 * len(rows))
        figure = Picture(figsize=size, layout="constrained")
        panels = figure.subplots(len(rows), len(models), squeeze=False)
        for axes in panels.flat:
            axes.set_axis_off()
        for one in pairs:
            axes = panels[rows.index((one.kernel, one.device)), models.index(one.model)]
            axes.set_axis_on()
            _panel(axes, one)
        figure.suptitle("Predicted against measured times")
        return laid_out(figure)


def _panel(axes: Any, one: Paired) -> None:
    axes.set_title(f"{one.kernel} on {one.device} ({one.model})")
    axes.set_xlabel("measured execution time [s]")
    axes.set_ylabel("predicted execution time [s]")
    timed = np.isfinite(one.predicted)
    if not timed.any():
        axes.text(0.5, 0.5, "no predicted time", ha="center", transform=axes.transAxes)
        return
    x, y = one.measured[timed], one.predicted[timed]
    axes.set_xscale("log")
    axes.set_yscale("log")
    regimes = one.regimes[timed] if one.regimes is not None else np.full(len(x), "")
    step = max(1, len(x) // POINTS)
    for i, name in enumerate(np.unique(regimes)):
        here = np.flatnonzero(regimes == name)[::step]
        label = regime_label(str(name), one.model) or None
        axes.plot(x[here], y[here], ".", markersize=2.5, color=PALETTE[i % len(PALETTE)],
                  label=label)  # fmt: skip
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, ends, "-", color="#8c8c8c", linewidth=1.0, label="equal")
    scaled = ends / scale_factor(y, x)
    axes.plot(ends, scaled, "--", color="#8c8c8c", linewidth=1.0, label="equal, scaled")
    best = np.argsort(y, kind="stable")[:FIRST]
    axes.plot(x[best], y[best], "o", markersize=6, markerfacecolor="none", color="black",
              label=f"{len(best)} best predicted")  # fmt: skip
    fastest = int(np.argmin(x))
    axes.plot(x[fastest], y[fastest], "*", markersize=11, markerfacecolor="white", color="black",
              label="fastest measured")  # fmt: skip
    axes.legend(markerscale=1.0, fontsize=6)

"""What changed between two results."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.plot._figure import PALETTE, Picture, laid_out, style
from sweep.query.changes import changes

__all__ = ["changes_plot"]


def changes_plot(
    before: Any, after: Any, objective: str = "execution_time", *, tolerance: float = 0.01
) -> Picture:
    """Draw how every group's best value and its configurations changed.

    Parameters
    ----------
    before, after, objective, tolerance
        As in :func:`sweep.query.compare_results`.

    Returns
    -------
    matplotlib.figure.Figure
        A row per kernel, device and model: a bar from the fastest-growing to the slowest-growing
        configuration, a mark at the change of the best value, red where it is a regression.
    """
    found = changes(before, after, objective)
    with style():
        figure = Picture(figsize=(9.0, min(1.6 + 0.24 * len(found), 16.0)), layout="constrained")
        axes = figure.subplots()
        for i, change in enumerate(found):
            ratio = 100.0 * (change.ratio - 1.0)
            if ratio.size:
                axes.plot([ratio.min(), ratio.max()], [i, i], color="#bdbdbd", linewidth=4,
                          solid_capstyle="butt")  # fmt: skip
            bad = change.fails(tolerance)
            best = np.nan if change.optimum is None else 100.0 * change.optimum
            axes.plot(best, i, "D" if bad else "o", color=PALETTE[5] if bad else PALETTE[0],
                      markersize=6)  # fmt: skip
        axes.axvspan(-100.0 * tolerance, 100.0 * tolerance, color=PALETTE[2], alpha=0.15)
        names = [(c.kernel, c.device, c.model) for c in found]
        labels = [", ".join(name for name in parts if name is not None) for parts in names]
        axes.set_yticks(range(len(found)), labels, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel(f"change of {objective.replace('_', ' ')} [%]")
        axes.set_title(
            "bar: all configurations; dot: best value; diamond: slower than the tolerance (band)"
        )
        return laid_out(figure)

"""Where models agree and where they part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from sweep.plot._figure import PALETTE, Picture, laid_out, scale_axis, style
from sweep.query.agreement import PairOfModels, model_pairs

__all__ = ["models_plot"]

POINTS = 20_000  # of a scatter: more only blacken it


def models_plot(
    data: Any, objective: str = "execution_time", *, select: Mapping[str, Any] | None = None
) -> Picture:
    """Draw the rank correlation of every pair of models, and the pair that agrees least.

    Parameters
    ----------
    data, objective, select
        As in :func:`sweep.query.compare_models`.

    Returns
    -------
    matplotlib.figure.Figure
        Left, a cell per kernel and device (rows) and pair of models (columns), a dot where both
        have the same best configuration; right, the two predictions of the cell with the lowest
        correlation, coloured by the first model's regime.
    """
    pairs = model_pairs(data, objective, select=select)
    with style():
        rows = list(dict.fromkeys((p.kernel, p.device) for p in pairs))
        height = min(3.0 + 0.22 * len(rows), 14.0)
        figure = Picture(figsize=(11.0, height), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
        _matrix(figure, left, pairs, rows)
        varied = [p for p in pairs if np.isfinite(p.correlation)]
        if varied:
            _scatter(right, min(varied, key=lambda p: p.correlation), objective)
        else:
            right.set_axis_off()
        figure.suptitle(f"Agreement of the models on {objective.replace('_', ' ')}")
        return laid_out(figure)


def _matrix(figure: Any, axes: Any, pairs: list[PairOfModels], rows: list[tuple[str, str]]) -> None:
    columns = list(dict.fromkeys((p.first, p.second) for p in pairs))
    table = np.full((len(rows), len(columns)), np.nan)
    for pair in pairs:
        at = rows.index((pair.kernel, pair.device)), columns.index((pair.first, pair.second))
        table[at] = pair.correlation
        if pair.agrees_on_best:
            axes.plot(at[1], at[0], "o", color="black", markeredgecolor="white", markersize=5)
    axes.set_facecolor("#d9d9d9")
    image = axes.imshow(table, cmap="RdBu", norm=TwoSlopeNorm(0, -1, 1), aspect="auto",
                        interpolation="none")  # fmt: skip
    axes.set_xticks(range(len(columns)), [f"{a}\n{b}" for a, b in columns], fontsize=7)
    axes.set_yticks(range(len(rows)), [f"{k}, {d}" for k, d in rows], fontsize=7)
    axes.set_title("rank correlation; dot: same best configuration")
    figure.colorbar(image, ax=axes, label="Spearman's rank correlation [1]", shrink=0.8)


def _scatter(axes: Any, pair: PairOfModels, objective: str) -> None:
    step = max(1, len(pair.first_values) // POINTS)
    x, y = pair.first_values[::step], pair.second_values[::step]
    regimes = pair.first_regimes[::step] if pair.first_regimes is not None else None
    names = np.unique(regimes) if regimes is not None else [""]
    for i, name in enumerate(names):
        here = slice(None) if regimes is None else regimes == name
        axes.plot(x[here], y[here], ".", markersize=2.5, color=PALETTE[i % len(PALETTE)],
                  label=str(name) or None)  # fmt: skip
    both = np.array([max(x.min(), y.min()), min(x.max(), y.max())])
    if both[0] < both[1]:
        axes.plot(both, both, "-", color="#8c8c8c", linewidth=1.0, label="equal")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(style="sci", scilimits=(-3, 4))
    scale_axis(axes, "x", x)
    scale_axis(axes, "y", y)
    words = objective.replace("_", " ")
    unit = "s" if objective == "execution_time" else ""
    axes.set_xlabel(f"{words}, {pair.first} [{unit or '1'}]")
    axes.set_ylabel(f"{words}, {pair.second} [{unit or '1'}]")
    axes.set_title(f"least agreement: {pair.kernel}, {pair.device} ({pair.correlation:.2f})")
    axes.legend(markerscale=4)

"""Pictures of results: heat maps, Pareto fronts, clocks, occupancy.

Every function takes what queries take (results in memory, lazy, or the path of a store), asks a
query, and returns a matplotlib figure that no window owns: :func:`save` writes it, :func:`show`
opens a window, a notebook displays it. matplotlib is imported when a picture is first drawn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.plot._changes import changes_plot
    from sweep.plot._clocks import clocks_plot
    from sweep.plot._figure import save, show
    from sweep.plot._fronts import pareto_plot
    from sweep.plot._heatmap import heatmap
    from sweep.plot._histogram import histogram_plot
    from sweep.plot._lines import line_plot
    from sweep.plot._models import models_plot
    from sweep.plot._occupancy import occupancy_plot
    from sweep.plot._validation import validation_plot

__all__ = [
    "changes_plot",
    "clocks_plot",
    "heatmap",
    "histogram_plot",
    "line_plot",
    "models_plot",
    "occupancy_plot",
    "pareto_plot",
    "save",
    "show",
    "validation_plot",
]

_HOMES = {
    "changes_plot": "_changes",
    "clocks_plot": "_clocks",
    "heatmap": "_heatmap",
    "histogram_plot": "_histogram",
    "line_plot": "_lines",
    "models_plot": "_models",
    "occupancy_plot": "_occupancy",
    "pareto_plot": "_fronts",
    "save": "_figure",
    "show": "_figure",
    "validation_plot": "_validation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

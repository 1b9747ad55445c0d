"""Pictures of results: heat maps, Pareto fronts, clocks, occupancy.

Every function takes what queries take (results in memory, lazy, or the path of a store), asks a
query, and returns a matplotlib figure that no window owns: :func:`save` writes it, :func:`show`
opens a window, a notebook displays it. matplotlib is imported when a picture is first drawn.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "changes_plot": "charts",
    "clocks_plot": "maps",
    "heatmap": "maps",
    "histogram_plot": "charts",
    "line_plot": "charts",
    "models_plot": "charts",
    "occupancy_plot": "occupancy",
    "pareto_plot": "fronts",
    "save": "draw",
    "show": "draw",
    "validation_plot": "charts",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

"""Pictures of results: heat maps, Pareto fronts, clocks, occupancy, rooflines.

Every function takes what queries take (results in memory, lazy, or the path of a store), asks a
query, and returns a matplotlib figure that no window owns: :func:`save` writes it, :func:`show`
opens a window, a notebook displays it. matplotlib is imported when a picture is first drawn.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "charts": ("changes_plot", "histogram_plot", "line_plot", "models_plot", "validation_plot"),
    "draw": ("save", "show"),
    "fronts": ("pareto_plot",),
    "maps": ("clocks_plot", "heatmap"),
    "occupancy": ("occupancy_plot",),
    "rooflines": ("occupancy_roofline_plot", "roofline_plot"),
    "tornado": ("tornado_plot",),
    "tuning": ("tuning_plot",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
KINDS = {name.removesuffix("_plot"): name for name in _MODULES}
"""The functions by the words for their pictures."""

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

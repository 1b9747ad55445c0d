"""What people do: run a plan, continue it, run it again, explain a configuration."""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "Finished": "running",
    "Forecast": "forecasting",
    "explain": "explaining",
    "export": "exporting",
    "extend": "extending",
    "forecast": "forecasting",
    "import_files": "importing",
    "read_measured": "importing",
    "read_profile": "profiling",
    "reproduce": "reproduction",
    "rerun": "running",
    "run": "running",
    "repair": "verifying",
    "scale": "scaling",
    "store_path": "running",
    "validate_clocks": "clock_validation",
    "verify": "verifying",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module = importlib.import_module(f"{__name__}.{_PUBLIC[name]}")
        return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute {name!r}")

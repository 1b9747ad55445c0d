"""sweep: batch design-space sweeps over analytical GPU performance models.

The public interface is what this module lists in ``__all__``; everything else may change.
Names are imported when they are first used, so that reading results never starts the compiler.

>>> import sweep
>>> plan = sweep.Plan(kernels=["vector_add"], devices=["gtx_980"], models=["wang_chu"])
>>> sorted(sweep.evaluate(plan).children)
['vector_add']
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("sweep")
except PackageNotFoundError:  # a bare checkout on the path, not installed
    __version__ = "0+unknown"

_PUBLIC = {
    "Answer": "sweep.query",
    "Device": "sweep.specs",
    "Kernel": "sweep.specs",
    "Plan": "sweep.space",
    "PlanError": "sweep.errors",
    "ProfileError": "sweep.errors",
    "QueryError": "sweep.errors",
    "SpecError": "sweep.errors",
    "StoreError": "sweep.errors",
    "SweepError": "sweep.errors",
    "TuningError": "sweep.errors",
    "best": "sweep.runs",
    "evaluate": "sweep.evaluation",
    "explain": "sweep.explanation.explaining",
    "extend": "sweep.runs.extending",
    "export": "sweep.measurements.exporting",
    "get_model": "sweep.models",
    "histogram": "sweep.runs",
    "import_files": "sweep.measurements.importing",
    "list_devices": "sweep.specs",
    "list_kernels": "sweep.specs",
    "list_plans": "sweep.space",
    "load_device": "sweep.specs",
    "load_kernel": "sweep.specs",
    "load_plan": "sweep.space",
    "model_names": "sweep.models",
    "open": "sweep.evaluation.planned",
    "open_store": "sweep.store",
    "pareto": "sweep.runs",
    "changed_configurations": "sweep.query",
    "compare_models": "sweep.query",
    "compare_results": "sweep.query",
    "read_measured": "sweep.measurements.importing",
    "read_profile": "sweep.measurements.scaling",
    "repair": "sweep.runs.running",
    "reproduce": "sweep.papers",
    "rerun": "sweep.runs.running",
    "run": "sweep.runs.running",
    "scale": "sweep.measurements.scaling",
    "summary": "sweep.runs",
    "top": "sweep.runs",
    "validate": "sweep.query",
    "validate_clocks": "sweep.measurements.clock_validation",
    "verify": "sweep.runs.running",
}

_RENAMED = {"open": "open_plan"}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), _RENAMED.get(name, name))
    raise AttributeError(f"module 'sweep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

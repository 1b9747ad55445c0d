"""sweep: batch design-space sweeps over analytical GPU performance models.

The public interface is what this module lists in ``__all__``; everything else may change.
Names are imported when they are first used, so that reading results never starts the compiler.

>>> import sweep
>>> plan = sweep.Plan(kernels=["vector_add"], devices=["gtx_980_paper"], models=["wang_chu"])
>>> sorted(sweep.evaluate(plan).children)
['vector_add']
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

_MODULES = {
    "sweep.errors": (
        "PlanError", "ProfileError", "QueryError", "SpecError", "StoreError", "SweepError",
        "TuningError", "UnfinishedWarning",
    ),
    "sweep.evaluation.planned": ("evaluate", "open"),
    "sweep.explanation.explaining": ("explain",),
    "sweep.measurements.calibrating_power": ("calibrate_power",),
    "sweep.measurements.clock_validation": ("validate_clocks",),
    "sweep.measurements.exporting": ("export",),
    "sweep.measurements.importing": ("import_files", "read_measured"),
    "sweep.measurements.profiled": ("read_profile",),
    "sweep.measurements.problem_validation": ("validate_problems",),
    "sweep.measurements.pruning": ("TritonPruner",),
    "sweep.measurements.scaling": ("scale",),
    "sweep.models": ("get_model", "model_names"),
    "sweep.papers": ("reproduce",),
    "sweep.query": (
        "Answer", "changed_configurations", "compare_models", "compare_results", "validate",
    ),
    "sweep.report": ("write_report",),
    "sweep.runs": ("best", "histogram", "pareto", "summary", "top"),
    "sweep.runs.choices": ("choices",),
    "sweep.runs.covering": ("best_few",),
    "sweep.runs.extending": ("extend",),
    "sweep.runs.running": ("repair", "rerun", "run"),
    "sweep.runs.verifying": ("verify",),
    "sweep.space": ("Plan", "list_plans", "load_plan"),
    "sweep.specs": (
        "Device", "Kernel", "list_devices", "list_kernels", "load_device", "load_kernel",
    ),
    "sweep.store": ("open_store",),
    "sweep.uncertainty": (
        "robust", "sensitivity", "with_intervals", "with_measured_intervals",
    ),
}  # fmt: skip
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}

_SUBMODULES = ("plot", "query")

_WITH_ACCESSOR = ("evaluate", "open", "open_store", "read_measured")
"""Functions whose results have the questions as methods, ``results.sweep.best()``."""

_RENAMED = {"open": "open_plan"}

__all__ = ["__version__", *_PUBLIC]


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kernel-sweep")
    except PackageNotFoundError:  # a bare checkout on the path, not installed
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _PUBLIC:
        if name in _WITH_ACCESSOR:
            importlib.import_module("sweep.accessor")
        return getattr(importlib.import_module(_PUBLIC[name]), _RENAMED.get(name, name))
    if name in _SUBMODULES:
        return importlib.import_module(f"sweep.{name}")
    raise AttributeError(f"module 'sweep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])

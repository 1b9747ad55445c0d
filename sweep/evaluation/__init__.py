"""Evaluation: from a space to numbers, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sweep.evaluation.chunk import Buffers, evaluate_box, obstacles, warm_up
from sweep.evaluation.variables import (
    Variable,
    all_fields,
    assumptions,
    coordinates,
    group_attributes,
    variables,
)

if TYPE_CHECKING:
    from sweep.evaluation.planned import evaluate

__all__ = [
    "Buffers",
    "Variable",
    "all_fields",
    "assumptions",
    "coordinates",
    "evaluate",
    "evaluate_box",
    "group_attributes",
    "obstacles",
    "variables",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    """Import what needs xarray on first use."""
    if name != "evaluate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sweep.evaluation import planned

    return planned.evaluate

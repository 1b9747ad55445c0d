"""Evaluation: from a space to numbers, chunk by chunk."""

from __future__ import annotations

from sweep.evaluation.chunk import Buffers, evaluate_box, warm_up
from sweep.evaluation.coordinates import assumptions, coordinates, group_attributes
from sweep.evaluation.dataset import evaluate, kernel_dataset
from sweep.evaluation.validity import obstacles
from sweep.evaluation.variables import Variable, all_fields, variables

__all__ = [
    "Buffers",
    "Variable",
    "all_fields",
    "assumptions",
    "coordinates",
    "evaluate",
    "evaluate_box",
    "group_attributes",
    "kernel_dataset",
    "obstacles",
    "variables",
    "warm_up",
]

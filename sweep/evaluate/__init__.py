"""Evaluation: from a space to numbers, chunk by chunk."""

from sweep.evaluate.chunk import Buffers, evaluate_box, valid_share, warm_up
from sweep.evaluate.coordinates import assumptions, coordinates, group_attributes
from sweep.evaluate.dataset import evaluate, kernel_dataset
from sweep.evaluate.validity import obstacles
from sweep.evaluate.variables import Variable, all_fields, variables

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
    "valid_share",
    "variables",
    "warm_up",
]

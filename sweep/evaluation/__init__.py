"""Evaluation: from a space to numbers, chunk by chunk."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from sweep.evaluation.chunk import Buffers, evaluate_box, valid_share, warm_up
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
    "valid_share",
    "variables",
    "warm_up",
]

if TYPE_CHECKING:
    import xarray as xr

    from sweep.space import Plan, Space


class _Callable(ModuleType):
    """This subpackage, which can be called as the function of its name.

    ``sweep.evaluate`` is the public function until something imports the subpackage, which then
    takes the name's place.
    """

    def __call__(self, plan: Plan | Space) -> xr.DataTree:
        return evaluate(plan)


sys.modules[__name__].__class__ = _Callable

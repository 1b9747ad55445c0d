"""What a sweep covers: plans, axes, grids, and the specs that they name."""

from sweep.space.completing import (
    keys_that_give,
    origins,
    what_is_missing,
    with_assumed,
    with_derived,
)
from sweep.space.grid import CLOCK_AXES, Box, Dimension, Grid, cut_box
from sweep.space.plan import Plan, list_plans, load_plan, parse_plan
from sweep.space.space import KernelSpace, Space, laid_out, resolve
from sweep.space.valid import valid_configurations

__all__ = [
    "CLOCK_AXES",
    "Box",
    "Dimension",
    "Grid",
    "KernelSpace",
    "Plan",
    "Space",
    "cut_box",
    "keys_that_give",
    "laid_out",
    "list_plans",
    "load_plan",
    "origins",
    "parse_plan",
    "resolve",
    "valid_configurations",
    "what_is_missing",
    "with_assumed",
    "with_derived",
]

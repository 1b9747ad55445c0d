"""What a sweep covers: plans, axes, grids, and the specs that they name."""

from sweep.space.axes import CLOCK_AXES
from sweep.space.grid import Box, Dimension, Grid
from sweep.space.plan import Plan, list_plans, load_plan, parse_plan
from sweep.space.space import LAUNCH_NAMES, KernelSpace, Space, resolve

__all__ = [
    "CLOCK_AXES",
    "LAUNCH_NAMES",
    "Box",
    "Dimension",
    "Grid",
    "KernelSpace",
    "Plan",
    "Space",
    "list_plans",
    "load_plan",
    "parse_plan",
    "resolve",
]

"""Grid or list: how the tuning parameters of a kernel lie in its results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.errors import PlanError
from sweep.expressions import Expression
from sweep.fields import STACKED
from sweep.space.axes import Values
from sweep.space.conditions import Names
from sweep.space.grid import Dimension
from sweep.space.valid import Configurations, valid_configurations

__all__ = ["Conditions", "laid_out"]

SMALL = 10_000
"""Points of the parameters' product up to which it is a grid whatever its conditions: dimensions
are handier than a list, and cost nothing."""

SHARE = 0.5
"""Least share of valid points of a larger grid."""

SAMPLE = 1 << 14
"""Points of the product that are tested to tell the share."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Conditions:
    """What decides which combinations of tuning parameters are valid, whatever the device.

    Attributes
    ----------
    axes : mapping of str to tuple
        The tuning parameters' values.
    constraints : tuple of Expression
        Constraints of the kernel; those that read swept sizes, the device or the launch are left to
        evaluation.
    fixed : mapping
        Sizes with one value.
    derived : mapping of str to Expression
        The kernel's derived names.
    """

    axes: Mapping[str, Values]
    constraints: tuple[Expression, ...]
    fixed: Mapping[str, Any]
    derived: Mapping[str, Expression]

    def own(self) -> tuple[Expression, ...]:
        """Return the constraints that read nothing but parameters and fixed sizes."""
        names = Names(self.axes, self.fixed, self.derived)
        return tuple(c for c in self.constraints if c.names <= names.behind.keys())

    def share(self) -> float:
        """Return about which share of the product is valid, by testing points spread over it."""
        points = math.prod(len(values) for values in self.axes.values())
        step = max(1, int(points * GOLDEN))
        while math.gcd(step, points) > 1:  # so that no point comes twice
            step += 1
        numbers = [i * step % points for i in range(min(SAMPLE, points))]
        values: dict[str, Any] = dict(self.fixed)
        for name, axis in reversed(tuple(self.axes.items())):
            values[name] = np.asarray(axis)[[number % len(axis) for number in numbers]]
            numbers = [number // len(axis) for number in numbers]
        names = Names(self.axes, self.fixed, self.derived)
        allowed = np.ones(len(numbers), bool)
        for constraint in self.own():
            value, fault = constraint.evaluate(*names.environment(constraint, values))
            allowed &= (np.asarray(value) != 0) & ~np.asarray(fault)
        return float(np.mean(allowed))

    def valid(self) -> Configurations:
        """Return the valid combinations."""
        return valid_configurations(self.axes, self.own(), fixed=self.fixed, derived=self.derived)


def laid_out(conditions: Conditions, layout: str | None, where: str) -> list[Dimension]:
    """Return the dimensions of the tuning parameters: one for each, or one for all.

    Parameters
    ----------
    conditions : Conditions
        Parameters and constraints.
    layout : str or None
        ``"grid"``, ``"stacked"``, or ``None`` to choose.
    where : str
        Plan and kernel, for messages.

    Raises
    ------
    PlanError
        No combination is valid, or too many are to be listed.
    """
    axes = conditions.axes
    points = math.prod(len(values) for values in axes.values())
    if layout is None:
        layout = "grid" if points <= SMALL or conditions.share() >= SHARE else "stacked"
    if layout == "grid" or not axes:
        return [Dimension(name, values, "parameter") for name, values in axes.items()]
    try:
        found = conditions.valid()
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
    if not len(found):
        texts = "; ".join(f"`{c.text}`" for c in conditions.own())
        raise PlanError(f"{where}: no configuration satisfies all constraints ({texts})")
    numbers: Any = range(len(found))  # a sequence like the others, without their memory
    return [Dimension(STACKED, numbers, "configuration", found)]

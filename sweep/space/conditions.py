"""Conditions of a constrained space over its parameters: what they read, and when they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.expressions import Bounds, Expression
from sweep.space.axes import Values

__all__ = ["Array", "Condition", "Names"]

Array = npt.NDArray[Any]

TABLE = 1 << 20
"""Most truth values of a condition's table."""


class Names:
    """Every name that conditions may use, and the parameters behind it.

    Parameters
    ----------
    axes : mapping of str to tuple
        Each parameter's values.
    fixed : mapping
        Names with one value.
    derived : mapping of str to Expression
        Named sub-expressions, each after those that it uses. Those that rest on other names than
        these are not known.
    """

    def __init__(
        self,
        axes: Mapping[str, Values],
        fixed: Mapping[str, Any],
        derived: Mapping[str, Expression],
    ) -> None:
        self.axes, self.fixed, self.derived = axes, fixed, derived
        self.values = {name: np.asarray(values) for name, values in axes.items()}
        self.behind = {name: frozenset({name}) for name in axes}
        self.behind.update({name: frozenset() for name in fixed})
        for name, expression in derived.items():
            if expression.names <= self.behind.keys():
                self.behind[name] = self.parameters_of(expression)

    def parameters_of(self, expression: Expression) -> frozenset[str]:
        """Return the parameters that an expression depends on."""
        return frozenset().union(*(self.behind[name] for name in expression.names))

    def check(self, condition: Expression) -> None:
        """Evaluate a condition once, so that what is wrong with it is said of the whole."""
        known = {name: values[:1] for name, values in self.values.items()}
        condition.evaluate(*self.environment(condition, known))

    def environment(
        self, condition: Expression, values: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values and faults of everything that a condition needs."""
        known: dict[str, Any] = {**self.fixed, **values}
        faults: dict[str, Any] = {}
        for name, expression in self._needed(condition).items():
            known[name], faults[name] = expression.evaluate(known, faults)
        return known, faults

    def bounds(self, condition: Expression, values: Mapping[str, Bounds]) -> Bounds:
        """Return the bounds of a condition where parameters are known within bounds."""
        known = {name: Bounds(v, v) for name, v in self.fixed.items() if not isinstance(v, str)}
        known.update(values)
        for name, expression in self._needed(condition).items():
            known[name] = expression.bounds(known)
        return condition.bounds(known)

    def _needed(self, condition: Expression) -> dict[str, Expression]:
        wanted = set(condition.names)
        for name in reversed(tuple(self.derived)):
            if name in wanted:
                wanted |= self.derived[name].names
        return {n: e for n, e in self.derived.items() if n in wanted and n in self.behind}


class Condition:
    """One condition: its parameters, and its truth table if that is small.

    Parameters
    ----------
    expression : Expression
        What must hold.
    names : Names
        What it may read.
    """

    def __init__(self, expression: Expression, names: Names) -> None:
        self.expression = expression
        # In the order of the axes, so that two conditions over the same names look alike.
        behind = names.parameters_of(expression)
        self.names = tuple(name for name in names.axes if name in behind)
        self.points = math.prod(len(names.axes[name]) for name in self.names)
        self.table: Array | None = None
        if self.names and self.points <= TABLE:
            shape = tuple(len(names.axes[name]) for name in self.names)
            grids = {
                name: names.values[name].reshape((-1,) + (1,) * (len(shape) - 1 - axis))
                for axis, name in enumerate(self.names)
            }
            held = self.holds(names, grids)
            self.table = np.ascontiguousarray(np.broadcast_to(held, shape))

    def holds(self, names: Names, values: Mapping[str, Any]) -> Array:
        """Return where the condition holds."""
        value, fault = self.expression.evaluate(*names.environment(self.expression, values))
        return np.asarray((np.asarray(value) != 0) & ~np.asarray(fault))

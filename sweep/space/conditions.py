"""Conditions of a constrained space over its parameters: what they read, and when they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.expressions import Bounds, Expression
from sweep.space.grid import Array, Values

TABLE = 1 << 20
"""Most truth values of a condition's table."""


class Names:
    """Every name that conditions may use, and the parameters that it depends on.

    Parameters
    ----------
    axes : mapping of str to tuple
        Each parameter's values.
    fixed : mapping
        Names with one value.
    derived : mapping of str to Expression
        Named sub-expressions, each after those that it uses. Those that need any other name are
        ignored.
    """

    def __init__(
        self,
        axes: Mapping[str, Values],
        fixed: Mapping[str, Any],
        derived: Mapping[str, Expression],
    ) -> None:
        self.axes, self.fixed, self.derived = axes, fixed, derived
        self.values = {name: np.asarray(values) for name, values in axes.items()}
        self.parameters = {name: frozenset({name}) for name in axes}
        self.parameters.update(dict.fromkeys(fixed, frozenset()))
        for name, expression in derived.items():
            if self.knows(expression):
                self.parameters[name] = self.parameters_of(expression)

    def knows(self, expression: Expression) -> bool:
        """Whether an expression reads no other names than these."""
        return expression.names <= self.parameters.keys()

    def parameters_of(self, expression: Expression) -> frozenset[str]:
        """Return the parameters that an expression depends on."""
        return frozenset().union(*(self.parameters[name] for name in expression.names))

    def holds(self, condition: Expression, values: Mapping[str, Any]) -> Array:
        """Return where a condition holds for values of parameters; a fault is not true."""
        known: dict[str, Any] = {**self.fixed, **values}
        faults: dict[str, Any] = {}
        for name, expression in self._needed(condition).items():
            known[name], faults[name] = expression.evaluate(known, faults)
        value, fault = condition.evaluate(known, faults)
        return np.asarray((np.asarray(value) != 0) & ~np.asarray(fault))

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
        return {n: e for n, e in self.derived.items() if n in wanted and n in self.parameters}


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
        # In the order of the axes, so that conditions over the same names can share a table.
        parameters = names.parameters_of(expression)
        self.names = tuple(name for name in names.axes if name in parameters)
        shape = tuple(len(names.axes[name]) for name in self.names)
        self.table: Array | None = None
        if self.names and math.prod(shape) <= TABLE:
            columns = (names.values[name] for name in self.names)
            grids = np.meshgrid(*columns, indexing="ij", sparse=True)
            held = names.holds(expression, dict(zip(self.names, grids, strict=True)))
            self.table = np.ascontiguousarray(np.broadcast_to(held, shape))

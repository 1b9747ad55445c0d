"""``where`` conditions: a safe expression over coordinates and results, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.query.grid import AbsentError, Grid

__all__ = ["Condition"]

Array = NDArray[Any]


class Condition:
    """A condition bound to one kernel's grid.

    Codes compare as their meanings (``bound != 'memory'``). Where the condition cannot be evaluated
    (a division by zero, say) it is not satisfied.

    Parameters
    ----------
    expression : Expression
        The parsed condition.
    grid : Grid
        The kernel it is asked of.

    Raises
    ------
    AbsentError
        The kernel has no such coordinate or variable; the message names the nearest.
    """

    def __init__(self, expression: Expression, grid: Grid) -> None:
        self.expression = expression
        self.grid = grid
        self.coordinates = tuple(
            n for n in sorted(expression.names) if n in grid.coordinates and n != "kernel"
        )
        rest = sorted(expression.names - {"kernel", *self.coordinates})
        self.variables = {name: self._resolve(name) for name in rest}

    def _resolve(self, name: str) -> str:
        try:
            full = self.grid.resolve(name)
        except AbsentError as error:
            if "ambiguous" in str(error):
                raise
            known = ["kernel", *self.grid.coordinates, *self.grid.variables]
            raise AbsentError(
                f"kernel '{self.grid.kernel}' has no coordinate or variable '{name}'"
                f"{nearest(name, known)}, which `{self.expression.text}` asks for"
            ) from None
        if self.grid.kind(full) == "text":
            raise QueryError(f"'{name}' is a text about the answer and no part of a condition")
        return full

    def mask(self, index: Mapping[str, slice | Array]) -> Array:
        """Return where the condition holds in a block, with as many axes as the grid."""
        values: dict[str, Any] = {"kernel": self.grid.kernel}
        values = {name: values[name] for name in values if name in self.expression.names}
        for name in self.coordinates:
            values[name] = self.grid.coordinate_at(name, index)
        read = self.grid.read(list(self.variables.values()), index)
        codes = {}
        for name, full in self.variables.items():
            if self.grid.kind(full) == "code":
                codes[name] = read[full]
            else:
                values[name] = read[full].astype(np.float64)
        return self._with_meanings(values, codes)

    def _with_meanings(self, values: dict[str, Any], codes: Mapping[str, Array]) -> Array:
        """Evaluate once per combination of meanings: there are few, and a string a point is big."""
        if not codes:
            mask = self._evaluate(values)
            return mask.reshape((1,) * (len(self.grid.dims) - mask.ndim) + mask.shape)
        name, *others = codes
        rest = {other: codes[other] for other in others}
        meanings = self.grid.meanings(self.variables[name])
        mask = np.zeros((1,) * len(self.grid.dims), bool)
        for code in np.unique(codes[name]):
            part = self._with_meanings({**values, name: str(meanings[int(code)])}, rest)
            mask = mask | ((codes[name] == code) & part)
        return mask

    def _evaluate(self, values: Mapping[str, Any]) -> Array:
        value, fault = self.expression.evaluate(values)
        value = np.asarray(value)
        if value.dtype.kind not in "biuf":
            raise QueryError(f"`{self.expression.text}` is a text, not a condition")
        return (value != 0) & ~np.asarray(fault)

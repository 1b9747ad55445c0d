"""The expressions of a kernel file: parsed at load time, names resolved, cycles refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from sweep.expressions import Expression, ExpressionError
from sweep.specs.check import check_value
from sweep.specs.formats import DEVICE_NAMES
from sweep.specs.keys import Key
from sweep.specs.names import why_not_a_name
from sweep.specs.report import Report, quoted_path

__all__ = ["Formulas"]

_REFUSED = Expression.parse(0)
"""Stands where an expression was refused; the finding keeps the file from being used."""


class Formulas:
    """Parses the expressions of one file over its own names and those of the device.

    ``derived`` then holds the derived expressions, each after those that it uses.

    Parameters
    ----------
    report : Report
        Takes what is wrong.
    variables : sequence of str
        Problem sizes and tuning parameters.
    derived : mapping of str to object
        The ``[derived]`` table.
    """

    def __init__(
        self, report: Report, variables: Sequence[str], derived: Mapping[str, Any]
    ) -> None:
        self.report = report
        self.names = [*variables, *derived, *DEVICE_NAMES]
        self.derived: dict[str, Expression] = {}
        for name, value in derived.items():
            path = quoted_path("derived", name)
            reason = why_not_a_name(name, dimension=False)
            if name in variables:
                reason = "the name is taken: it is a problem size or a tuning parameter"
            if reason:
                report.error(path, reason, value)
            else:
                self.derived[name] = self.parse(path, value)
        self._refuse_cycle()

    def parse(self, path: str, value: Any, key: Key | None = None) -> Expression:
        """Return the expression of a value; a refused one is reported.

        Parameters
        ----------
        path : str
            Dotted path of the value.
        value : object
            What the file holds: a number or an expression.
        key : Key, optional
            The definition, whose range holds for a constant.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.report.error(path, "must be a number or an expression", value)
            return _REFUSED
        try:
            expression = Expression.parse(value, allowed=self.names)
        except ExpressionError as error:
            self.report.error(path, _reason(error), value)
            return _REFUSED
        if key is not None and isinstance(value, str) and expression.is_constant:
            reason = _constant_outside(expression, key)
            if reason:
                self.report.error(path, reason, value)
        return expression

    def _refuse_cycle(self) -> None:
        try:
            self.derived = _in_order(self.derived)
        except CycleError as error:
            cycle = _from_first(error.args[1][::-1], list(self.derived))
            path = quoted_path("derived", cycle[0])
            value = self.derived[cycle[0]].text
            self.report.error(path, f"is defined by itself: {' -> '.join(cycle)}", value)


def _reason(error: ExpressionError) -> str:
    """Return what is wrong with an expression without its text, which the finding shows."""
    return f"{error.reason} at column {error.position + 1}{error.hint}"


def _constant_outside(expression: Expression, key: Key) -> str:
    """Say that a constant expression has no number in the range of its key."""
    try:
        value, fault = expression.evaluate({})
    except ExpressionError as error:  # arithmetic with words
        return _reason(error)
    if np.any(fault):
        return "divides by zero or overflows"
    if np.asarray(value).dtype.kind not in "fiu":
        return f"must give a number, {key.range}"
    return check_value(key, float(value))[1]


def _in_order(derived: Mapping[str, Expression]) -> dict[str, Expression]:
    """Return derived expressions so that each comes after those that it uses."""
    uses = {name: sorted(e.names & derived.keys()) for name, e in derived.items()}
    return {name: derived[name] for name in TopologicalSorter(uses).static_order()}


def _from_first(cycle: list[str], order: list[str]) -> list[str]:
    """Turn a cycle (first and last the same) so that it starts with what the file has first."""
    start = min(range(len(cycle) - 1), key=lambda i: order.index(cycle[i]))
    turned = cycle[start:-1] + cycle[:start]
    return [*turned, turned[0]]

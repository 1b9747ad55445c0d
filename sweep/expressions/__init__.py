"""Safe expressions over named arrays: the formulas of kernel files, plans and queries.

The language is a small part of Python's, with Python's meaning: ``+ - * / // % **``, comparisons
(also chained, also ``in (1, 2)``), ``and or not``, ``a if condition else b``, the functions
:data:`FUNCTIONS`, numbers, strings, ``True`` and ``False``, names and parentheses. Everything else
is refused with the column of the error. :mod:`sweep.expressions.syntax` checks the text and parses
it into a tree; the text is never compiled or executed.

Examples
--------
>>> import numpy as np
>>> blocks = Expression.parse("ceil(n / tile) ** 2", allowed={"n", "tile"})
>>> value, fault = blocks.evaluate({"n": 1000, "tile": np.array([0, 8, 16])})
>>> value
array([   nan, 15625.,  3969.])
>>> fault
array([ True, False, False])
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.expressions.arrays import evaluate
from sweep.expressions.bounds import Bounds, bounds_of
from sweep.expressions.error import ExpressionError
from sweep.expressions.syntax import (
    FUNCTIONS,
    MAX_DIGITS,
    MAX_LENGTH,
    MAX_NESTING,
    Step,
    Steps,
    check_total,
    conjuncts,
    parse,
)

__all__ = [
    "FUNCTIONS",
    "MAX_DIGITS",
    "MAX_LENGTH",
    "MAX_NESTING",
    "Bounds",
    "Expression",
    "ExpressionError",
    "check_total",
    "of_cases",
    "why_no_case",
]


@dataclass(frozen=True)
class Expression:
    """A parsed expression, compared and hashed by its text. Create one with :meth:`parse`.

    Attributes
    ----------
    text : str
        The expression as written.
    names : frozenset of str
        The names that it reads.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    _steps: Steps = field(compare=False, repr=False)

    @classmethod
    def parse(
        cls, source: str | float | bool, *, allowed: Collection[str] | None = None
    ) -> Expression:
        """Parse an expression; a number or boolean becomes a constant.

        Parameters
        ----------
        source : str, int, float or bool
            The value in a file or from a user.
        allowed : collection of str, optional
            The names that may occur. If not given, names are checked on evaluation only.

        Returns
        -------
        Expression
            The expression; its text is ``source`` or the number as Python writes it.

        Raises
        ------
        ExpressionError
            If ``source`` is not in the language; the error has the position.
        """
        text = source if isinstance(source, str) else _literal(source)
        return _expression(text, parse(text, allowed))

    def evaluate(
        self, values: Mapping[str, Any], faults: Mapping[str, Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the expression for every element of the broadcast values.

        Parameters
        ----------
        values : mapping of str to array_like
            A number, boolean, string or array for every name of the expression; other names are
            ignored. Arrays broadcast by NumPy's rules.
        faults : mapping of str to array_like of bool, optional
            Where a value is invalid because its own expression failed; the result is at fault
            wherever it uses such an element. Numbers that are not finite need no mark.

        Returns
        -------
        value : ndarray
            float64, bool or str, in the broadcast shape of the names that the expression reads.
            NaN, False or ``""`` where at fault. It may share memory with ``values``.
        fault : ndarray of bool
            Of the same shape. True where the evaluation reaches a division by zero, a logarithm or
            root outside its domain, or a number too large for float64. Branches that a conditional
            does not take and operands that ``and``, ``or`` or a chained comparison skip do not
            count.

        Raises
        ------
        ExpressionError
            If a name has no value, or an operation on numbers gets a string.
        ValueError
            If the shapes do not broadcast.
        """
        return evaluate(self.text, self._steps, values, faults or {})

    def conjuncts(self) -> tuple[Expression, ...]:
        """Return the conditions that must all hold for this one to hold.

        They are the operands of the outermost ``and``; each keeps the text of the whole.
        """
        return tuple(_expression(self.text, part) for part in conjuncts(self._steps))

    def bounds(self, names: Mapping[str, Bounds]) -> Bounds:
        """Return the smallest and the largest value; see :mod:`sweep.expressions.bounds`.

        Parameters
        ----------
        names : mapping of str to Bounds
            The bounds of each name.
        """
        return bounds_of(self._steps, names)

    @property
    def is_constant(self) -> bool:
        """Whether the expression reads no names, so that its value is constant."""
        return not self.names

    def __str__(self) -> str:
        return self.text


def of_cases(value: Any) -> str:
    """Return a value of a file as one expression: a list of cases, or what is one already."""
    return " else ".join(map(str, value)) if isinstance(value, list) else str(value)


def why_no_case(case: Any, *, is_last: bool, allowed: Collection[str]) -> str:
    """Return why a value is no case of a list of cases, with its own columns, else ``""``."""
    shape = "must be 'VALUE if CONDITION'; only the last case has no condition"
    if isinstance(case, bool | list | dict) or not (is_last or isinstance(case, str)):
        return shape
    text = case if is_last else f"{case} else 0"
    try:
        last = Expression.parse(text, allowed=allowed)._steps[-1 if is_last else -2]
    except ExpressionError as error:
        is_shape = error.position >= len(str(case)) and (not is_last or " if " in case)
        return shape if is_shape else f"{error.reason} at column {error.position + 1}{error.hint}"
    # An 'else' of the case's own would take the next cases as those of its condition.
    return "" if is_last or last.position > len(case) else shape


def _expression(text: str, steps: Sequence[Step]) -> Expression:
    names = frozenset(step.argument for step in steps if step.operation == "name")
    return Expression(text, names, tuple(steps))


def _literal(source: object) -> str:
    """Return a number or boolean as Python writes it."""
    if isinstance(source, bool | np.bool_):
        return str(bool(source))
    if isinstance(source, int | np.integer) and abs(source) < 10**MAX_DIGITS:
        return str(int(source))
    if isinstance(source, float | np.floating) and np.isfinite(source):
        return repr(float(source))
    if isinstance(source, int | float | np.number):
        shown = f"{source:g}" if isinstance(source, float | np.floating) else "an integer"
        raise ExpressionError(shown, 0, "a number must be finite and not too large,")
    reason = f"an expression is a number, a string or a boolean, not {type(source).__name__},"
    raise ExpressionError(repr(source), 0, reason)

"""A model's body as a flat program: what the lowering makes, and what is generated from."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.models.base import EquationInfo

OPERATORS: Mapping[type, tuple[Callable[..., Any], str]] = {
    ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"), ast.Mult: (operator.mul, "*"),
    ast.Div: (operator.truediv, "/"), ast.FloorDiv: (operator.floordiv, "//"),
    ast.Mod: (operator.mod, "%"), ast.Pow: (operator.pow, "**"), ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="), ast.Gt: (operator.gt, ">"), ast.GtE: (operator.ge, ">="),
    ast.Eq: (operator.eq, "=="), ast.NotEq: (operator.ne, "!="), ast.USub: (operator.neg, "-"),
    ast.UAdd: (operator.pos, "+"), ast.Not: (operator.not_, "not "),
    ast.And: (lambda *sides: all(sides), "and"), ast.Or: (lambda *sides: any(sides), "or"),
}  # fmt: skip
"""The operators of expressions: what they compute, and how Python writes them."""

FUNCTIONS = ("abs", "max", "min")
RESERVED = ("np", *FUNCTIONS)
"""Names in expressions that are no values."""


@dataclass(frozen=True)
class Assignment:
    """One value of a program.

    Attributes
    ----------
    name : str
        Its name, unique in the program.
    expression : ast.expr
        Numbers, constants, inputs and earlier names, joined by arithmetic, comparisons,
        conditional expressions and calls of ``min``, ``max``, ``abs`` and a few of NumPy.
    kind : str
        ``"variable"`` of the body's text, result of an ``"equation"``, ``"part"`` of an equation
        (an argument or a variable of its own), ``"choice"`` between the values that a variable has
        after the two branches of an ``if``, or a ``"result"`` that the body returns unnamed.
    variable : str
        The variable or result in the body's text that takes the value.
    equation : EquationInfo, optional
        The equation whose result this is.
    arguments : tuple of str
        The names in the arguments of the equation's call.
    comment : str
        The words beside the line in the source: mostly the erratum that it applies.
    when : tuple of (str, bool)
        The conditions, by name, that hold or fail where the body's text assigns it.
    is_decided : bool
        Whether the text chooses between several expressions by the variant.
    round : tuple of int, optional
        The loop that it stands in, by number, and the round of that loop.
    """

    name: str
    expression: ast.expr
    kind: str
    variable: str = ""
    equation: EquationInfo | None = None
    arguments: tuple[str, ...] = ()
    comment: str = ""
    when: tuple[tuple[str, bool], ...] = ()
    is_decided: bool = False
    round: tuple[int, int] | None = None


@dataclass(frozen=True)
class Program:
    """A function of numbers as single assignments.

    Attributes
    ----------
    inputs : tuple of str
        Names of the numbers that it starts from; a sequence has one name for each of its numbers.
    constants : mapping
        Named constants of the module.
    assignments : tuple of Assignment
        In the order of evaluation.
    results : mapping
        Result to the name of its value.
    """

    inputs: tuple[str, ...]
    constants: Mapping[str, float]
    assignments: tuple[Assignment, ...]
    results: Mapping[str, str]

    def needed(self, results: Iterable[str]) -> tuple[Assignment, ...]:
        """Return the assignments that some of the results rest on, in order."""
        wanted = {self.results[name] for name in results}
        found = []
        for assignment in reversed(self.assignments):
            if assignment.name in wanted:
                found.append(assignment)
                wanted.update(names_in(assignment.expression))
        return tuple(reversed(found))


def names_in(expression: ast.expr) -> Iterator[str]:
    """Yield the names of values in an expression."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id not in RESERVED:
            yield node.id


def parts_of(name: str, length: int | None) -> tuple[str, ...]:
    """Return the names of the numbers of an input: its own where it is no sequence (``None``)."""
    return (name,) if length is None else tuple(f"{name}_{i}" for i in range(length))

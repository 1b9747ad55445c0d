"""Operands that know their value and how they are written, in symbols and in numbers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sweep.compiler.functions import OPERATORS
from sweep.models.base import Symbol

__all__ = ["Comparison", "Operand", "combined", "constant", "literal", "named", "units_text"]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "max": max, "min": min, "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt,
}  # fmt: skip
KEEP_UNITS = ("min", "max", "ceil", "floor", "abs")
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
DIGITS = 6


Units = frozenset[tuple[str, int]]
"""Units with their exponents, none of them 0; empty for a pure number."""


@dataclass(frozen=True)
class Comparison:
    """One comparison with both sides, in symbols and as values."""

    left: str
    operator: str
    right: str
    left_value: float
    right_value: float
    holds: bool


@dataclass(frozen=True)
class Operand:
    """A value, and how it is written as a formula and with numbers inserted (syntax trees).

    ``symbol`` is set for a named quantity, ``variable`` is where it was last read from, ``number``
    the equation that gave it; ``units`` are None where they are unknown (a number in the source).
    """

    value: Any
    formula: ast.expr
    numbers: ast.expr
    symbol: Symbol | None = None
    variable: str = ""
    number: str = ""
    comparisons: tuple[Comparison, ...] = ()
    units: Units | None = None

    @property
    def text(self) -> str:
        """The formula as text."""
        return self.formula.id if isinstance(self.formula, ast.Name) else ast.unparse(self.formula)

    @property
    def with_numbers(self) -> str:
        """The formula with numbers inserted, as text."""
        return ast.unparse(self.numbers)

    @property
    def is_truth(self) -> bool:
        """Whether the value is a truth value and not a number."""
        return isinstance(self.value, (bool, np.bool_))


def units_of(text: str) -> Units | None:
    """Return the units that a text names, ``None`` for ``""``.

    >>> sorted(units_of("B/s"))
    [('B', 1), ('s', -1)]
    """
    if not text:
        return None
    above, *below = text.replace("Hz", "cycle/s").split("/")  # so that a time's cycles come out
    powers = Counter(word for word in above.split() if word != "1")
    for part in below:
        powers.subtract(part.split())
    return frozenset((unit, power) for unit, power in powers.items() if power)


def units_text(units: Units | None) -> str:
    """Return units as text: ``"1"`` for a pure number, ``""`` for unknown units."""
    if units is None:
        return ""
    words = [f"{u}^{p}" if p > 1 else u for u, p in sorted(units) if p > 0]
    below = [f"/{u}^{-p}" if p < -1 else f"/{u}" for u, p in sorted(units) if p < 0]
    return (" ".join(words) or "1") + "".join(below)


def literal(value: Any) -> str:
    """Return a value as it is written on paper: no trailing zeros, six digits; words unchanged.

    >>> literal(250.0), literal(2 / 3), literal(54.6e9), literal(True)
    ('250', '0.666667', '5.46e10', 'true')
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    number = float(value)
    size = abs(number)
    if size < 1e7 and number.is_integer():
        return str(int(number))
    short = f"{number:.{DIGITS}g}"
    if 10.0**DIGITS <= size < 1e10 and float(short) != number:
        return f"{number:.0f}"
    return re.sub(r"e([+-])0*", lambda match: f"e{match[1].strip('+')}", short)


def symbol_text(symbol: Symbol) -> str:
    """Return a symbol as part of a formula: in parentheses if it is a formula itself."""
    loose = re.sub(r"\([^()]*\)", "", symbol.symbol)
    return f"({symbol.symbol})" if re.search(r"[*/+]| - ", loose) else symbol.symbol


def constant(value: Any, text: str = "") -> Operand:
    """Return a number in the source, or a named constant."""
    return Operand(value, ast.Name(text) if text else _number(value), _number(value))


def named(symbol: Symbol, value: Any, *, text: str = "", number: str = "") -> Operand:
    """Return a quantity with a symbol."""
    written = ast.Name(text or symbol_text(symbol))
    units = units_of(symbol.units)
    return Operand(value, written, _number(value), symbol, number=number, units=units)


def combined(node: ast.expr, operands: Sequence[Operand]) -> Operand:
    """Return the result of an operation, a chain of comparisons or a call on its operands."""
    formulas, numbers = [o.formula for o in operands], [o.numbers for o in operands]
    comparisons = tuple(c for operand in operands for c in operand.comparisons)
    units = None
    match node:
        case ast.Compare(ops=ops):
            made = [
                _compared(op, *sides) for op, sides in zip(ops, pairwise(operands), strict=True)
            ]
            return made[0] if len(made) == 1 else combined(ast.BoolOp(ast.And(), []), made)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            value = FUNCTIONS[name](*(operand.value for operand in operands))
            units = _common_units(operands) if name in KEEP_UNITS else None
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
            value = OPERATORS[type(op)](*(operand.value for operand in operands))
            if isinstance(op, (ast.Mult, ast.Div)):
                units = _product_units(*operands, power=1 if isinstance(op, ast.Mult) else -1)
            elif not isinstance(node, ast.BoolOp):
                units = _common_units(operands)
        case _:
            raise AssertionError(ast.dump(node))
    written = (_rebuilt(node, parts) for parts in (formulas, numbers))
    return Operand(value, *written, comparisons=comparisons, units=units)


def _number(value: Any) -> ast.expr:
    """Return a value as a syntax tree that is written like ``literal`` writes it."""
    return (
        ast.UnaryOp(ast.USub(), ast.Name(literal(-value)))
        if value < 0
        else ast.Name(literal(value))
    )


def _compared(op: ast.cmpop, left: Operand, right: Operand) -> Operand:
    holds = bool(OPERATORS[type(op)](left.value, right.value))
    made = Comparison(left.text, SIGNS[type(op)], right.text, float(left.value),
                      float(right.value), holds)  # fmt: skip
    formula, numbers = (
        ast.Compare(a, [op], [b])
        for a, b in ((left.formula, right.formula), (left.numbers, right.numbers))
    )
    return Operand(holds, formula, numbers, comparisons=(made,))


def _common_units(operands: Sequence[Operand]) -> Units | None:
    """Return the units of all operands if they agree, numbers in the source aside."""
    found = {operand.units for operand in operands if operand.units is not None}
    return found.pop() if len(found) == 1 else None


def _product_units(left: Operand, right: Operand, power: int) -> Units | None:
    """Return the units of a product (``power`` 1) or quotient (-1)."""
    if left.units is None and right.units is None:
        return None
    powers = Counter(dict(left.units or ()))
    for unit, exponent in right.units or ():
        powers[unit] += power * exponent
    return frozenset((unit, exponent) for unit, exponent in powers.items() if exponent)


def _rebuilt(node: ast.expr, parts: Sequence[ast.expr]) -> ast.expr:
    """Return an operation or call with other operands, without parentheses that nobody needs."""
    match node:
        case ast.BinOp(op=op):
            return _joined(parts[0], op, parts[1])
        case ast.UnaryOp(op=op):
            return ast.UnaryOp(op, parts[0])
        case ast.BoolOp(op=op):
            return ast.BoolOp(op, [*parts])
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return ast.Call(ast.Name(name), [*_arguments(name, parts)], [])
    raise AssertionError(ast.dump(node))


def _joined(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """Return an operation; ``a + (b - c)`` becomes ``(a + b) - c``, likewise for products."""
    match op, right:
        case (ast.Add(), ast.BinOp(op=ast.Add() | ast.Sub())) | (
            ast.Mult(),
            ast.BinOp(op=ast.Mult()),
        ):
            return ast.BinOp(_joined(left, op, right.left), right.op, right.right)
    return ast.BinOp(left, op, right)


def _arguments(name: str, parts: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """Yield the arguments of a call; ``min(min(a, b), c)`` is written as one ``min``."""
    for part in parts:
        match part:
            case ast.Call(func=ast.Name(id=inner), args=args) if inner == name in ("min", "max"):
                yield from args
            case _:
                yield part

"""Operands that know their value and how they are written, in symbols and in numbers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from sweep.compiler.program import OPERATORS
from sweep.explanation.sections import Comparison, Line, literal
from sweep.models.base import Symbol

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "max": max, "min": min, "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt,
}  # fmt: skip


Units = Counter[str]
"""Units with their exponents; empty for a pure number."""
UNKNOWN: Units = Counter({"?": 1})
"""Those of a sum of different units, and of what is made of it."""


@dataclass(frozen=True)
class Operand:
    """A value, and how it is written as a formula and with numbers inserted (syntax trees).

    ``symbol`` is set for a named quantity, ``variable`` is where it was last read from, ``step``
    the line that gave it; ``units`` are None of a number in the source.
    """

    value: Any
    formula: ast.expr
    numbers: ast.expr
    symbol: Symbol | None = None
    variable: str = ""
    step: Line | None = None
    comparisons: tuple[Comparison, ...] = ()
    units: Units | None = None

    @cached_property
    def text(self) -> str:
        """The formula as text."""
        return self.formula.id if isinstance(self.formula, ast.Name) else ast.unparse(self.formula)

    @cached_property
    def with_numbers(self) -> str:
        """The formula with numbers inserted, as text."""
        return ast.unparse(self.numbers)

    @property
    def number(self) -> str:
        """The number of the equation that gave the value."""
        return self.step.number if self.step else ""

    @property
    def is_truth(self) -> bool:
        """Whether the value is a truth value and not a number."""
        return isinstance(self.value, (bool, np.bool_))


def units_of(text: str) -> Units | None:
    """Return the units that a text names, ``None`` for ``""``.

    >>> units_of("B/s")
    Counter({'B': 1, 's': -1})
    """
    if not text:
        return None
    above, *below = text.replace("Hz", "cycle/s").split("/")  # so that a time's cycles come out
    powers: Units = Counter()
    for sign, part in ((1, above), *((-1, part) for part in below)):
        for unit, _, power in (word.partition("^") for word in part.split() if word != "1"):
            powers[unit] += sign * int(power or 1)
    return powers


def units_text(units: Units | None) -> str:
    """Return units as text: ``"1"`` for a pure number, ``""`` for unknown units."""
    if units is None or units == UNKNOWN:
        return ""
    words = [f"{u}^{p}" if p > 1 else u for u, p in sorted(units.items()) if p > 0]
    below = [f"/{u}^{-p}" if p < -1 else f"/{u}" for u, p in sorted(units.items()) if p < 0]
    return (" ".join(words) or "1") + "".join(below)


def symbol_text(symbol: Symbol) -> str:
    """Return a symbol as part of a formula: in parentheses if it is a formula itself."""
    loose = re.sub(r"\([^()]*\)", "", symbol.symbol)
    return f"({symbol.symbol})" if re.search(r"[*/+]| - ", loose) else symbol.symbol


def constant(value: Any, text: str = "") -> Operand:
    """Return a number in the source, or a named constant."""
    return Operand(value, ast.Name(text) if text else _number(value), _number(value))


def named(symbol: Symbol, value: Any, **known: Any) -> Operand:
    """Return a quantity with a symbol, and what else is known of it."""
    known = {"units": units_of(symbol.units)} | known
    return Operand(value, ast.Name(symbol_text(symbol)), _number(value), symbol, **known)


def combined(node: ast.expr, operands: Sequence[Operand]) -> Operand:
    """Return the result of an operation, a chain of comparisons or a call on its operands."""
    values = [operand.value for operand in operands]
    comparisons = tuple(made for operand in operands for made in operand.comparisons)
    units = None
    match node:
        case ast.Compare(left=any_side, ops=[_, _, *_] as ops):  # a < b < c is a < b and b < c
            pairs = zip(ops, pairwise(operands), strict=True)
            made = [combined(ast.Compare(any_side, [op], [any_side]), pair) for op, pair in pairs]
            return combined(ast.BoolOp(ast.And(), []), made)
        case ast.Compare(ops=[op]):
            left, right = operands
            function, sign = OPERATORS[type(op)]
            value = bool(function(*values))
            comparisons = (Comparison(left.text, sign, right.text, float(left.value),
                                      float(right.value), value),)  # fmt: skip
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            value = FUNCTIONS[name](*values)
            units = _common_units(operands)
            if name == "sqrt" and units:
                is_square = not any(power % 2 for power in units.values())
                units = Counter({u: p // 2 for u, p in units.items()}) if is_square else UNKNOWN
        case ast.BinOp(op=ast.Mult() | ast.Div() as op):
            value = OPERATORS[type(op)][0](*values)
            known = [operand.units for operand in operands]
            if UNKNOWN in known:
                units = UNKNOWN
            elif not any(o.units is None and not o.value for o in operands) and known != [None] * 2:
                units = Counter(known[0])  # a zero in the source has any unit
                join = units.update if isinstance(op, ast.Mult) else units.subtract
                join(known[1] or {})
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
            value = OPERATORS[type(op)][0](*values)
            units = _common_units(operands)
        case _:
            raise AssertionError(ast.dump(node))
    formula = _rebuilt(node, [operand.formula for operand in operands])
    numbers = _rebuilt(node, [operand.numbers for operand in operands])
    return Operand(value, formula, numbers, comparisons=comparisons, units=units)


def _common_units(operands: Sequence[Operand]) -> Units | None:
    """Return the units of all operands if they agree, numbers in the source aside."""
    known = [operand.units for operand in operands if operand.units is not None]
    if not known:
        return None
    return known[0] if all(units == known[0] for units in known) else UNKNOWN


def _number(value: Any) -> ast.expr:
    """Return a number as a syntax tree."""
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Name(literal(-value)))
    return ast.Name(literal(value))


def _rebuilt(node: ast.expr, parts: Sequence[ast.expr]) -> ast.expr:
    """Return an operation or call with other operands, without parentheses that nobody needs."""
    match node:
        case ast.BinOp(op=op):
            return _joined(parts[0], op, parts[1])
        case ast.UnaryOp(op=op):
            return ast.UnaryOp(op, parts[0])
        case ast.BoolOp(op=op):
            return ast.BoolOp(op, [*parts])
        case ast.Compare(ops=ops):
            return ast.Compare(parts[0], ops, [*parts[1:]])
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return ast.Call(ast.Name(name), [*_arguments(name, parts)], [])
    raise AssertionError(ast.dump(node))


def _joined(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """Return an operation; ``a + (b - c)`` becomes ``(a + b) - c``, likewise for products."""
    match op, right:
        case (
            (ast.Add(), ast.BinOp(a, ast.Add() | ast.Sub() as then, b))
            | (ast.Mult(), ast.BinOp(a, ast.Mult() as then, b))
        ):  # fmt: skip
            return ast.BinOp(_joined(left, op, a), then, b)
    return ast.BinOp(left, op, right)


def _arguments(name: str, parts: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """Yield the arguments of a call; ``min(min(a, b), c)`` is written as one ``min``."""
    for part in parts:
        match part:
            case ast.Call(func=ast.Name(id=inner), args=args) if inner == name in ("min", "max"):
                yield from args
            case _:
                yield part

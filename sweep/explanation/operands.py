"""Operands that know their value and how they are written, in symbols and in numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep.models.base import Symbol

__all__ = [
    "Comparison",
    "Operand",
    "arithmetic",
    "call",
    "compare",
    "connect",
    "constant",
    "given",
    "literal",
    "named",
    "negate",
    "together",
    "units_of",
    "units_text",
    "write",
]

# How strongly what is written holds together, weakest first.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM = range(9)
LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT, "**": POWER}
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
    """A value, its text in symbols (``text``) and in numbers (``worked``).

    ``symbol`` is set for a named quantity, ``variable`` is where it was last read from, ``number``
    the equation that gave it; ``parts`` are what a sequence consists of; ``sign`` is the operation
    that was done last; ``units`` are None where they do not follow (a number in the source).
    """

    value: Any
    text: str
    worked: str
    level: int = ATOM
    symbol: Symbol | None = None
    variable: str = ""
    number: str = ""
    comparisons: tuple[Comparison, ...] = ()
    parts: tuple[Operand, ...] = ()
    sign: str = ""
    units: Units | None = None

    @property
    def is_computed(self) -> bool:
        """Whether there is more to it than a number in the source."""
        return self.text != self.worked or not self.text[:1].isdigit()

    @property
    def is_truth(self) -> bool:
        """Whether the value is a truth value and not a number."""
        return type(self.value).__name__ in ("bool", "bool_")


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
    """Return units as text: ``"1"`` for a pure number, ``""`` for what is not known."""
    if units is None:
        return ""
    words = [f"{u}^{p}" if p > 1 else u for u, p in sorted(units) if p > 0]
    below = [f"/{u}^{-p}" if p < -1 else f"/{u}" for u, p in sorted(units) if p < 0]
    return (" ".join(words) or "1") + "".join(below)


def _same(operands: Sequence[Operand]) -> Units | None:
    """Return the units that all operands have, numbers of the source aside."""
    found = {operand.units for operand in operands if operand.units is not None}
    return found.pop() if len(found) == 1 else None


def _product(left: Operand, right: Operand, sign: int) -> Units | None:
    """Return the units of a product (``sign`` 1) or quotient (-1)."""
    if left.units is None and right.units is None:
        return None
    powers = Counter(dict(left.units or ()))
    for unit, power in right.units or ():
        powers[unit] += sign * power
    return frozenset((unit, power) for unit, power in powers.items() if power)


def literal(value: Any) -> str:
    """Return a value as it is written on paper: no trailing zeros, six digits; words as they are.

    >>> literal(250.0), literal(2 / 3), literal(54.6e9), literal(True)
    ('250', '0.666667', '5.46e10', 'true')
    """
    if type(value).__name__ in ("bool", "bool_"):
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


def write(text: str) -> str:
    """Return a symbol so that it can stand in a formula: in parentheses if it is one itself."""
    loose = re.sub(r"\([^()]*\)", "", text)
    return f"({text})" if re.search(r"[*/+]| - ", loose) else text


def named(symbol: Symbol, value: Any, *, text: str = "", number: str = "") -> Operand:
    """Return a quantity with a symbol."""
    level = SIGN if not isinstance(value, tuple) and value < 0 else ATOM
    return Operand(
        value,
        text or write(symbol.symbol),
        literal(value),
        level,
        symbol,
        number=number,
        units=units_of(symbol.units),
    )


def given(symbol: Symbol, value: float | tuple[float, ...]) -> Operand:
    """Return an argument; a sequence with one operand for each of its numbers."""
    if not isinstance(value, tuple):
        return named(symbol, np.float64(value))
    parts = [
        named(symbol._replace(symbol=f"{symbol.symbol}[{i}]"), np.float64(part))
        for i, part in enumerate(value)
    ]
    return replace(together(parts), text=symbol.symbol, symbol=symbol)


def together(parts: Sequence[Operand]) -> Operand:
    """Return several operands as one."""
    return Operand(
        tuple(part.value for part in parts),
        f"({', '.join(part.text for part in parts)})",
        f"({', '.join(part.worked for part in parts)})",
        parts=tuple(parts),
    )


def constant(value: Any, text: str = "") -> Operand:
    """Return a number or another object that stands in the source."""
    if isinstance(value, (int, float)):
        level = SIGN if value < 0 and not text else ATOM
        return Operand(value, text or literal(value), literal(value), level)
    return Operand(value, text or str(value), text or str(value))


def _in(operand: Operand, level: int) -> tuple[str, str]:
    """Return both texts of an operand, in parentheses where the surroundings hold stronger."""
    if operand.level >= level:
        return operand.text, operand.worked
    if operand.symbol is not None:  # only its number, a negative one, needs them
        return operand.text, f"({operand.worked})"
    return f"({operand.text})", f"({operand.worked})"


def arithmetic(value: Any, sign: str, left: Operand, right: Operand) -> Operand:
    """Return the result of a binary operation."""
    level = LEVELS[sign]
    # a - (b - c) needs its parentheses, (a - b) - c does not; powers the other way round.
    first, second = (level + 1, level) if sign == "**" else (level, level)
    if sign in ("-", "/", "//", "%"):
        second = level + 1
    if sign == "*" and right.sign == "/":
        second = level + 1  # not needed, but a * (b / c) is easier to read
    (a, x), (b, y) = _in(left, first), _in(right, second)
    units = _same((left, right))
    if sign in ("*", "/"):
        units = _product(left, right, 1 if sign == "*" else -1)
    return Operand(value, f"{a} {sign} {b}", f"{x} {sign} {y}", level, sign=sign, units=units)


def negate(value: Any, sign: str, operand: Operand) -> Operand:
    """Return the result of ``-x``, ``+x`` or ``not x``."""
    level = NOT if sign == "not " else SIGN
    text, worked = _in(operand, level)
    return Operand(
        value,
        f"{sign}{text}",
        f"{sign}{worked}",
        level,
        comparisons=operand.comparisons,
        units=operand.units,
    )


def compare(sign: str, left: Operand, right: Operand, holds: Any) -> Operand:
    """Return the result of one comparison."""
    (a, x), (b, y) = _in(left, COMPARISON + 1), _in(right, COMPARISON + 1)
    made = Comparison(a, sign, b, float(left.value), float(right.value), bool(holds))
    return Operand(
        bool(holds), f"{a} {sign} {b}", f"{x} {sign} {y}", COMPARISON, comparisons=(made,)
    )


def connect(value: bool, word: str, operands: Sequence[Operand]) -> Operand:
    """Return the result of ``and`` or ``or``; every side keeps its comparisons."""
    level = AND if word == "and" else OR
    texts = [_in(operand, level + 1) for operand in operands]
    return Operand(
        value,
        f" {word} ".join(text for text, _ in texts),
        f" {word} ".join(worked for _, worked in texts),
        level,
        comparisons=tuple(c for operand in operands for c in operand.comparisons),
    )


def call(value: Any, name: str, operands: Sequence[Operand]) -> Operand:
    """Return the result of a function such as ``min``; ``min(min(a, b), c)`` is one ``min``."""
    texts = [operand.text for operand in operands]
    numbers = [operand.worked for operand in operands]
    if name in ("min", "max"):
        texts, numbers = ([_opened(t, name) for t in part] for part in (texts, numbers))
    units = _same(operands) if name in ("min", "max", "ceil", "floor", "abs") else None
    return Operand(
        value, f"{name}({', '.join(texts)})", f"{name}({', '.join(numbers)})", units=units
    )


def _opened(text: str, name: str) -> str:
    """Return the arguments of ``text`` if it is as a whole a call of ``name``."""
    start = f"{name}("
    if not text.startswith(start) or not text.endswith(")"):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return text[len(start) : -1] if position == len(text) - 1 else text
    return text

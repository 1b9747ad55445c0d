"""Amounts as expressions of the trip counts that a text does not tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from sweep.importers.ptx.control_flow import Amount, Passage
from sweep.specs.kernel import Value, toml

LONGEST = 1000
"""Longer sums are divided into named parts, because the length of expressions is limited."""


class Formulas:
    """Writes what is counted in one text, or in those of many configurations, as expressions.

    What all have alike is a number; what varies becomes a column of a compiled table.

    Attributes
    ----------
    derived : dict of str to str
        Names of a kernel file's ``[derived]`` with their expressions, in order.
    columns : dict of str to list of float
        Numbers of the configurations by the name of a column; stays empty for one text.
    """

    def __init__(self, derived: dict[str, Value]) -> None:
        self.derived = derived
        self.columns: dict[str, list[float]] = {}
        self._passages: dict[Passage, tuple[float, str]] = {}

    def _passage(self, passage: Passage) -> tuple[float, str]:
        """Return the execution count of a passage: a number, and the name to multiply it with."""
        loop, is_test = passage
        if loop is None:
            return 1.0, ""
        if passage not in self._passages:
            factor, name = self._passage(loop.entered)
            if loop.trips is not None:
                factor *= loop.trips + is_test
            elif name or is_test:
                count = f"({loop.size} + 1)" if is_test else loop.size
                wanted = loop.size.replace("trip", "tests" if is_test else "passes", 1)
                name = self._derive(wanted, f"{name} * {count}" if name else count)
            else:
                name = loop.size
            self._passages[passage] = factor, name
        return self._passages[passage]

    def _derive(self, wanted: str, expression: str) -> str:
        """Name an expression; loops with equal labels in different places get different names."""
        name, number = wanted, 1
        while self.derived.get(name, expression) != expression:
            number += 1
            name = f"{wanted}_{number}"
        self.derived[name] = expression
        return name

    def value(self, wanted: str, amounts: Sequence[Amount]) -> Value:
        """Return an amount as a number, or as an expression; ``wanted`` names its column."""
        return _value(self.text(wanted, amounts))

    def number(self, wanted: str, numbers: Sequence[float]) -> float | str:
        """Return a number of each configuration as one, or as the name of its column."""
        return _value(self._sum(wanted, [{"": number} for number in numbers]))

    def text(self, wanted: str, amounts: Sequence[Amount]) -> str:
        """Return an amount of each configuration as an expression, which may be a number."""
        terms = [self._terms(amount) for amount in amounts]
        is_less = any(n < 0 for own in terms for n in own.values())
        if is_less and all(len(own) <= 2 and sum(own.values()) == 0 for own in terms):
            # The first copies start before the loop.
            terms = [{f"max(0, {k} - 1)": n for k, n in own.items() if k} for own in terms]
            is_less = False
        text = self._sum(wanted, terms)
        return f"max(0, {text})" if is_less and isinstance(_value(text), str) else text

    def _terms(self, amount: Amount) -> dict[str, float]:
        """Return the factors of an amount by the name to multiply them with, ``""`` for none."""
        terms: dict[str, float] = {}
        for passage, number in amount.items():
            factor, name = self._passage(passage)
            terms[name] = terms.get(name, 0.0) + number * factor
        return terms

    def _sum(self, wanted: str, terms: Sequence[Mapping[str, float]]) -> str:
        has_constant = any("" in own for own in terms)
        parts = []
        for name in dict.fromkeys(name for own in terms for name in own):
            numbers = [float(f"{own.get(name, 0.0):.12g}") for own in terms]
            if not any(numbers):
                continue
            factor = toml(numbers[0])
            if len(set(numbers)) > 1:
                column = f"{wanted}_each" if name and has_constant else wanted
                while self.columns.get(column, numbers) != numbers:
                    column += "_"
                self.columns[column] = numbers
                factor = f"compiled_{column}"
            parts.append(f"{factor} * {name}" if name and factor != "1" else name or factor)
        while sum(len(part) + 3 for part in parts) > LONGEST:
            ends = accumulate(len(part) + 3 for part in parts)
            n_taken = max(1, sum(end < LONGEST // 2 + 3 for end in ends))
            name = self._derive(f"part_{len(self.derived)}", " + ".join(parts[:n_taken]))
            parts = [*parts[n_taken:], name]
        return " + ".join(parts).replace("+ -", "- ") or "0"


def _value(text: str) -> float | str:
    """Return an expression that is a number as one."""
    return float(text) if re.fullmatch(r"-?[0-9][0-9.e+-]*", text) else text

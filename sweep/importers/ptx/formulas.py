"""Amounts as expressions of the trip counts that a text does not tell."""

from __future__ import annotations

from itertools import accumulate

from sweep.importers.ptx.control_flow import Amount, Passage
from sweep.specs.kernel import Value, toml

LONGEST = 1000
"""Longer sums are divided into named parts, because the length of expressions is limited."""


class Formulas:
    """Writes amounts as expressions of the unknown trip counts, and collects the derived names.

    Attributes
    ----------
    derived : dict of str to str
        Names of a kernel file's ``[derived]`` with their expressions, in order.
    """

    def __init__(self, derived: dict[str, Value]) -> None:
        self.derived = derived
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

    def value(self, amount: Amount) -> float | str:
        """Return an amount as a number, or as an expression."""
        text = self.text(amount)
        is_open = any(self._passage(passage)[1] for passage in amount)
        return text if is_open else float(text)

    def terms(self, amount: Amount) -> dict[str, float]:
        """Return the factors of an amount by the name to multiply them with, ``""`` for none."""
        terms: dict[str, float] = {}
        for passage, number in amount.items():
            factor, name = self._passage(passage)
            terms[name] = terms.get(name, 0.0) + number * factor
        return terms

    def text(self, amount: Amount) -> str:
        """Return an amount as an expression, which may be a number."""
        terms = self.terms(amount)
        constant = terms.pop("", 0.0)
        parts = [
            name if number == 1 else f"{toml(number)} * {name}"
            for name, number in terms.items()
            if number
        ]
        if constant or not parts:
            parts.append(toml(constant))
        while sum(len(part) + 3 for part in parts) > LONGEST:
            ends = accumulate(len(part) + 3 for part in parts)
            n_taken = max(1, sum(end < LONGEST // 2 + 3 for end in ends))
            name = self._derive(f"part_{len(self.derived)}", " + ".join(parts[:n_taken]))
            parts = [*parts[n_taken:], name]
        return " + ".join(parts).replace("+ -", "- ")

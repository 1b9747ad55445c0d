"""Amounts as the numbers and expressions that a kernel file holds."""

from __future__ import annotations

from sweep.importers.ptx.counts import Amount, Counts, Passage

__all__ = ["Formulas", "shown"]

LONGEST = 1000
"""Longer sums are cut into named parts: expressions have a limit of their length."""


def shown(number: float) -> str:
    """Return a number as TOML and expressions have it."""
    return str(int(number)) if number == int(number) else repr(float(number))


class Formulas:
    """Writes amounts over the open trip counts, and collects the derived names that it needs.

    Attributes
    ----------
    derived : dict of str to str
        Names of a kernel file's ``[derived]`` with their expressions, in order.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.derived: dict[str, str] = {}
        self._passages: dict[Passage, tuple[float, str]] = {(None, False): (1.0, "")}
        self._names: dict[str, Passage] = {}

    def passage(self, passage: Passage) -> tuple[float, str]:
        """Return how often a passage is passed: a number, and the name of what it is times."""
        if passage not in self._passages:
            chain = [passage]
            while chain[-1] not in self._passages:
                loop = chain[-1][0]
                assert loop is not None  # the passage outside of all loops is there
                chain.append(self.counts.entered[loop])
            for inner in reversed(chain[:-1]):
                self._passages[inner] = self._enter(inner)
        return self._passages[passage]

    def _enter(self, passage: Passage) -> tuple[float, str]:
        number, is_test = passage
        assert number is not None  # see passage()
        loop = self.counts.loops[number]
        factor, name = self._passages[self.counts.entered[number]]
        if loop.trips is not None:
            return factor * (loop.trips + is_test), name
        if not name and not is_test:
            return factor, loop.size
        count = f"({loop.size} + 1)" if is_test else loop.size
        what = "tests" if is_test else "passes"
        return factor, self._derive(
            loop.size.replace("trip", what, 1), f"{name} * {count}" if name else count
        )

    def _derive(self, name: str, expression: str) -> str:
        """Name an expression; loops of the same label in different places get different names."""
        wanted, number = name, 1
        while name in self.derived and self.derived[name] != expression:
            number += 1
            name = f"{wanted}_{number}"
        self.derived[name] = expression
        return name

    def value(self, amount: Amount) -> str:
        """Return an amount as TOML: a number, or an expression in quotes."""
        text = self.text(amount)
        is_open = any(self.passage(passage)[1] for passage in amount)
        return f'"{text}"' if is_open else text

    def text(self, amount: Amount) -> str:
        """Return an amount as an expression, which may be a number."""
        terms: dict[str, float] = {}
        for passage, number in amount.items():
            factor, name = self.passage(passage)
            terms[name] = terms.get(name, 0.0) + number * factor
        constant = terms.pop("", 0.0)
        parts = [
            name if number == 1 else f"{shown(number)} * {name}"
            for name, number in terms.items()
            if number
        ]
        if not parts:
            return shown(constant)
        if constant:
            parts.append(shown(constant))
        return " + ".join(self._shorten(parts))

    def _shorten(self, parts: list[str]) -> list[str]:
        """Name the beginning of a long sum, as often as needed."""
        while sum(map(len, parts)) + 3 * len(parts) > LONGEST:
            taken = 1
            while sum(map(len, parts[: taken + 1])) + 3 * taken < LONGEST // 2:
                taken += 1
            name = self._derive(f"part_{len(self.derived)}", " + ".join(parts[:taken]))
            parts = [*parts[taken:], name]
        return parts

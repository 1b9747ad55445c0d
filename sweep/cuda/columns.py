"""What varies between configurations: columns of a compiled table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

from sweep.cuda.configurations import Setting, Variant
from sweep.specs.compiled import CAPABILITY, OWN, QUANTITIES, REASON
from sweep.specs.kernel import Value, toml


class Columns(dict[str, list[float]]):
    """Numbers of the configurations that compile, by the name of a column."""

    def value(self, wanted: str, terms: Sequence[Mapping[str, float]]) -> Value:
        """Return a quantity as a number or an expression; what varies becomes a column.

        Parameters
        ----------
        wanted : str
            Name of the column.
        terms : sequence of mapping
            For each configuration, factors by the name to multiply them with, ``""`` for none.
        """
        parts = []
        has_constant = any("" in own for own in terms)
        for name in dict.fromkeys(name for own in terms for name in own):
            numbers = [float(f"{own.get(name, 0.0):.12g}") for own in terms]
            if not any(numbers):
                continue
            factor = toml(numbers[0])
            if len(set(numbers)) > 1:
                column = f"{wanted}_each" if name and has_constant else wanted
                while self.get(column, numbers) != numbers:
                    column += "_"
                self[column] = numbers
                factor = f"compiled_{column}"
            parts.append(f"{name} * {factor}" if name and factor != "1" else name or factor)
        text = " + ".join(parts).replace("+ -", "- ")
        return float(text) if re.fullmatch(r"-?[0-9][0-9.e+-]*", text) else text or 0

    def table(
        self, variants: Sequence[Variant], capabilities: Sequence[str], head: Mapping[str, str]
    ) -> str:
        """Return the table: a row for each configuration, blank where it does not compile.

        Parameters
        ----------
        variants : sequence of Variant
            All configurations.
        capabilities : sequence of str
            The compute capability of each of those that compile.
        head : mapping of str to str
            What the first lines say.
        """
        keys = list(variants[0].configuration)
        names = [name for name in QUANTITIES if name in self]
        own = [name for name in self if name not in names]
        reason = [REASON] * any(variant.reason for variant in variants)
        lines: list[Sequence[str]] = [[CAPABILITY, *keys, *names, *own, *reason]]
        place = 0
        for variant in variants:
            settings = [cell(variant.configuration[key]) for key in keys]
            if variant.reason:
                words = " ".join(variant.reason.replace("'''", '"').split())
                row = [variant.capability or capabilities[0], *settings]
                lines.append([*row, *([""] * (len(names) + len(own))), words])
                continue
            cells = [cell(self[name][place]) for name in (*names, *own)]
            lines.append([capabilities[place], *settings, *cells, *([""] * len(reason))])
            place += 1
        return csv_text({**head, OWN: str(len(own))}, lines)


def csv_text(head: Mapping[str, str], lines: Iterable[Sequence[str]]) -> str:
    """Return a compiled table: what it says of itself, then the names of columns and the rows."""
    text = io.StringIO()
    text.writelines(f"# {key}: {' '.join(value.split())}\n" for key, value in head.items())
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def cell(value: Setting) -> str:
    """Return a value as a compiled table has it: whole numbers without a point."""
    if isinstance(value, str):
        return value
    return toml(value if isinstance(value, bool) else float(value))

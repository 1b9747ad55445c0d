"""Explanations: sections of lines, printable as text and available as plain data."""

from __future__ import annotations

import html
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

WIDTH = 100
NAME, TEXT = 44, 24  # greatest width of names, smallest width of texts
UNUSED = "·"
DIGITS = 6


@dataclass(frozen=True)
class Comparison:
    """One comparison with both sides, in symbols and as values."""

    left: str
    operator: str
    right: str
    left_value: float
    right_value: float
    holds: bool


@dataclass
class Line:
    """One quantity.

    Attributes
    ----------
    name : str
        Symbol, or key of a file.
    value : float, bool, str or None
        The value, ``None`` if there is none.
    units, meaning : str
        Unit (``"1"`` for pure numbers) and meaning.
    formula, worked : str
        The formula in symbols or words, and with numbers inserted.
    number : str
        The equation's number.
    source : str
        Where the number comes from: kind and reference.
    comment : str
        Errata applied in this line.
    comparisons : tuple of Comparison
        Both sides of each comparison.
    used : bool
        Whether the result depends on it.
    """

    name: str
    value: Any = None
    units: str = ""
    meaning: str = ""
    formula: str = ""
    worked: str = ""
    number: str = ""
    source: str = ""
    comment: str = ""
    comparisons: tuple[Comparison, ...] = ()
    used: bool = True

    @property
    def shown(self) -> str:
        """The value as text."""
        return "" if self.value is None else literal(self.value)

    @property
    def explained(self) -> list[str]:
        """The texts to the right of the value."""
        texts = [self.formula] if self.formula else []
        if self.worked and self.worked not in (self.formula, self.shown):
            texts.append(f"= {self.worked}")
        return texts


@dataclass(frozen=True)
class Section:
    """A part of the explanation: lines, followed by notes."""

    title: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> dict[str, int]:
        """The sources of the lines with their numbers."""
        found = dict.fromkeys(line.source for line in self.lines if line.source)
        return {source: number for number, source in enumerate(found, start=1)}

    @property
    def tags(self) -> list[str]:
        """What stands at the end of each line: errata, equation, source."""
        sources = self.sources
        return [
            " ".join(filter(None, (line.comment, f"({line.number})" if line.number else "",
                                   f"[{sources[line.source]}]" if line.source else "")))
            for line in self.lines
        ]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Explanation:
    """How a model computes the result of one configuration.

    Attributes
    ----------
    title, reference : str
        Kernel, device, model and variant in words; the paper.
    configuration : mapping
        Kernel, device, model, sizes, parameters and clocks.
    status : str
        ``"valid"``, or why there is no time (:data:`sweep.fields.STATUS`).
    results : mapping
        Variables of the configuration by name, in base units; empty if it has no time.
    sections : tuple of Section
        The calculation, step by step.
    """

    title: str
    reference: str
    configuration: Mapping[str, Any]
    status: str
    results: Mapping[str, Any]
    sections: tuple[Section, ...] = ()

    def __getitem__(self, title: str) -> Section:
        """Return the first section whose title begins with ``title``."""
        for section in self.sections:
            if section.title.lower().startswith(title.lower()):
                return section
        raise KeyError(title)

    def to_text(self, width: int = WIDTH) -> str:
        """Return aligned text, at most so many characters wide."""
        lines = [*_wrapped(self.title, width=width), *_wrapped(self.reference, width=width)]
        for section in self.sections:
            rule = "-" * min(len(section.title), width)
            lines += ["", section.title, rule, *_table(section, width)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data that can be written as JSON."""
        return {name: _plain(value) for name, value in vars(self).items()}

    def to_json(self) -> str:
        """Return the explanation as JSON; numbers that are not finite become null."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return "\n".join(_html(self))


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


def _plain(value: Any) -> Any:
    """Return a value that can be written as JSON."""
    if isinstance(value, Line):  # what is empty is left out
        known = {field: getattr(value, field.name) for field in fields(Line)}
        value = {f.name: v for f, v in known.items() if v != f.default or f.name == "value"}
    elif isinstance(value, (Section, Comparison)):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _wrapped(text: str, first: str = "", rest: str = "", **options: Any) -> list[str]:
    options = {"width": WIDTH, "break_on_hyphens": False, **options}
    return textwrap.wrap(text, initial_indent=first, subsequent_indent=rest, **options)


def _table(section: Section, width: int) -> Iterator[str]:
    """Yield the lines of a section: name, value, unit, formula, and equation or source."""

    def widest(texts: Sequence[str], limit: int = width) -> int:
        return max((len(text) for text in texts if len(text) <= limit), default=0)

    lines, sources = section.lines, section.sources
    units = ["" if line.units in ("", "1") else f"[{line.units}]" for line in lines]
    name = widest([line.name for line in lines], NAME)
    value, unit = widest([line.shown for line in lines], TEXT), widest(units)
    start = 2 + name + 2 + value + 1 + unit + (2 if unit else 1)
    for line, its_unit, tag in zip(lines, units, section.tags, strict=True):
        texts = [p for text in line.explained for p in _hanging(text, start, tag, width)] or [""]
        shown = line.shown.ljust(value) if isinstance(line.value, str) else line.shown.rjust(value)
        first = f"{' ' if line.used else UNUSED} {line.name:<{name}}  {shown} "
        first = f"{first}{its_unit:<{unit}}".ljust(start)
        if len(first) > start and texts[0]:  # too long for its column
            yield first.rstrip()
            first = " " * start
        yield f"{first + texts[0]:<{width - len(tag)}}{tag}".rstrip()
        for text in texts[1:]:
            yield " " * start + text
    if not all(line.used for line in lines):
        yield f"{UNUSED} worked out, but not part of the result"
    for source, number in sources.items():
        yield from _wrapped(source, f"  [{number}] ", "      ", break_on_hyphens=True, width=width)
    for note in section.notes:
        yield from _wrapped(note, "  ", "  ", width=width)


def _hanging(text: str, start: int, tag: str, limit: int) -> list[str]:
    """Wrap a text to the room right of ``start``, leaving space for the tag on the first line."""
    room = "." * (len(tag) + 2 if tag else 0)
    width = max(limit - start, len(room) + TEXT)
    lines = _wrapped(text, room, "  ", width=width, break_long_words=False)
    return [lines[0].removeprefix(room), *lines[1:]] if lines else []


def _html(explanation: Explanation) -> Iterator[str]:
    escape = html.escape
    yield f"<p><b>{escape(explanation.title)}</b><br>{escape(explanation.reference)}</p>"
    for section in explanation.sections:
        rows = []
        for line, tag in zip(section.lines, section.tags, strict=True):
            units = "" if line.units == "1" else line.units
            row = "".join(f"<td>{escape(text)}</td>" for text in (line.name, line.shown, units))
            style = "" if line.used else ' style="opacity:0.5"'
            how = "<br>".join(map(escape, line.explained))
            rows.append(
                f'<tr title="{escape(line.meaning)}"{style}>{row}<td style="text-align:left">{how}'
                f"</td><td>{escape(tag)}</td></tr>"
            )
        yield f"<h4>{escape(section.title)}</h4><table>{''.join(rows)}</table>"
        words = (f"[{number}] {source}" for source, number in section.sources.items())
        yield from (f"<p>{escape(text)}</p>" for text in (*words, *section.notes))

"""Explanations: sections of lines, printable as text and available as plain data."""

from __future__ import annotations

import html as markup
import json
import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.explanation.operands import Comparison, literal

__all__ = ["Explanation", "Line", "Section"]

WIDTH = 100
NAME, TEXT = 44, 24  # greatest width of names, smallest width of texts
UNUSED = "·"


@dataclass(frozen=True)
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

    def as_dict(self) -> dict[str, Any]:
        """Return the non-empty attributes as plain data."""
        data: dict[str, Any] = {"name": self.name, "value": _plain(self.value)}
        for key in ("units", "meaning", "formula", "worked", "number", "source", "comment"):
            if getattr(self, key):
                data[key] = getattr(self, key)
        if self.comparisons:
            data["comparisons"] = [
                {key: _plain(value) for key, value in vars(made).items()}
                for made in self.comparisons
            ]
        if not self.used:
            data["used"] = False
        return data


@dataclass(frozen=True)
class Section:
    """A part of the explanation: lines, followed by notes."""

    title: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()


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
    sections: tuple[Section, ...] = field(default_factory=tuple)

    def __getitem__(self, title: str) -> Section:
        """Return the first section whose title begins with ``title``."""
        for section in self.sections:
            if section.title.lower().startswith(title.lower()):
                return section
        raise KeyError(title)

    def to_text(self) -> str:
        """Return aligned text, at most 100 characters wide."""
        lines = [*_wrapped(self.title, 0), *_wrapped(self.reference, 0)]
        for section in self.sections:
            lines += ["", section.title, "-" * min(len(section.title), WIDTH), *_table(section)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data that can be written as JSON."""
        return {
            "title": self.title,
            "reference": self.reference,
            "configuration": {k: _plain(v) for k, v in self.configuration.items()},
            "status": self.status,
            "results": {k: _plain(v) for k, v in self.results.items()},
            "sections": [
                {
                    "title": section.title,
                    "lines": [line.as_dict() for line in section.lines],
                    "notes": list(section.notes),
                }
                for section in self.sections
            ],
        }

    def to_json(self) -> str:
        """Return the explanation as JSON; numbers that are not finite become null."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return _html(self)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else literal(value)


def _unit(units: str) -> str:
    return f"[{units}]" if units not in ("", "1") else ""


def _wrapped(text: str, indent: int, width: int = WIDTH) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )  # fmt: skip


def _explained(line: Line) -> Iterator[str]:
    """Yield the texts to the right of a line's value."""
    if line.formula:
        yield line.formula
    known = (line.formula, _shown(line.value))
    if line.worked and line.worked not in known:
        yield f"= {line.worked}"


def _sources(section: Section) -> dict[str, int]:
    """Return the sources of a section with their numbers."""
    found = dict.fromkeys(line.source for line in section.lines if line.source)
    return {source: number for number, source in enumerate(found, start=1)}


def _tag(line: Line, sources: Mapping[str, int]) -> str:
    parts = [line.comment, f"({line.number})" if line.number else ""]
    parts.append(f"[{sources[line.source]}]" if line.source else "")
    return " ".join(part for part in parts if part)


def _table(section: Section) -> Iterator[str]:
    """Yield the lines of a section: name, value, unit, formula, and equation or source."""
    sources = _sources(section)
    tags = [_tag(line, sources) for line in section.lines]
    name, value, unit, tag = (
        max([0, *map(len, texts)])
        for texts in (
            [line.name for line in section.lines if len(line.name) <= NAME],
            [_shown(line.value) for line in section.lines if len(_shown(line.value)) <= TEXT],
            [_unit(line.units) for line in section.lines],
            tags,
        )
    )
    start = 2 + name + 2 + value + 1 + unit + (2 if unit else 1)
    for line, its_tag in zip(section.lines, tags, strict=True):
        texts = [p for text in _explained(line) for p in _hanging(text, start, its_tag)] or [""]
        shown = _shown(line.value)
        aligned = shown.ljust(value) if isinstance(line.value, str) else shown.rjust(value)
        first = f"{UNUSED if not line.used else ' '} {line.name:<{name}}  {aligned} "
        first = f"{first}{_unit(line.units):<{unit}}".ljust(start)
        if len(first) > start and texts[0]:  # too long for its column
            yield first.rstrip()
            first = " " * start
        yield f"{first + texts[0]:<{WIDTH - len(its_tag)}}{its_tag}".rstrip()
        for text in texts[1:]:
            yield " " * start + text
    if not all(line.used for line in section.lines):
        yield f"{UNUSED} worked out, but not part of the result"
    for source, number in sources.items():
        yield from textwrap.wrap(source, WIDTH, initial_indent=f"  [{number}] ",
                                 subsequent_indent="      ")  # fmt: skip
    for note in section.notes:
        yield from _wrapped(note, 2)


def _hanging(text: str, start: int, tag: str) -> list[str]:
    """Wrap a text to the room right of ``start``, leaving space for the tag on the first line."""
    room = "." * (len(tag) + 2 if tag else 0)
    lines = textwrap.wrap(
        text, max(WIDTH - start, len(room) + TEXT), initial_indent=room, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [lines[0].removeprefix(room), *lines[1:]] if lines else []


def _html(explanation: Explanation) -> str:
    escape = markup.escape
    parts = [f"<p><b>{escape(explanation.title)}</b><br>{escape(explanation.reference)}</p>"]
    for section in explanation.sections:
        sources = _sources(section)
        rows = []
        for line in section.lines:
            how = "<br>".join(escape(text) for text in _explained(line))
            cells = (line.name, _shown(line.value), "" if line.units == "1" else line.units)
            row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            style = "" if line.used else ' style="opacity:0.5"'
            rows.append(
                f'<tr title="{escape(line.meaning)}"{style}>{row}<td style="text-align:left">{how}'
                f"</td><td>{escape(_tag(line, sources))}</td></tr>"
            )
        parts.append(f"<h4>{escape(section.title)}</h4><table>{''.join(rows)}</table>")
        words = [f"[{number}] {source}" for source, number in sources.items()]
        parts += [f"<p>{escape(text)}</p>" for text in (*words, *section.notes)]
    return "\n".join(parts)

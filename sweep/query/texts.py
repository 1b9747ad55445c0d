"""Values, notes and pictures as text: prefixes of units, percentages, bars of block characters."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PREFIXES = dict(zip(range(-15, 12, 3), ("f", "p", "n", "µ", "m", "", "k", "M", "G"), strict=True))
SCALABLE = frozenset({"s", "J", "W"})
WIDEST = 1e6  # a column whose values spread further is shown without a prefix
DIGITS = 5

PIPE_WIDTH = 100
"""Columns where the output is no terminal and ``COLUMNS`` does not say how many."""
NARROWEST = 40

ELLIPSIS = "…"
NO_BREAK = "\N{NO-BREAK SPACE}"
UNIT = re.compile(r"(?<=\d) (?=(%|[fpnµmkMG]?(s|J|W|Hz|B))(?!\w))")
"""Spaces between a number and its unit, where no line ends."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
ASCII = str.maketrans(ELLIPSIS + EIGHTHS + LEVELS[:-1] + "µ", "~" + " |||#####" + "_:-=+*o" + "u")
"""What stands for characters of tables where the output cannot encode them."""


class Stars(str):
    """A note that says what starred values rest on."""


class NoResult(str):
    """A note that names groups without any result, and why."""


class LeftOut(str):
    """A note that names what an answer is not about, and why."""


def is_terminal() -> bool:
    """Return whether the output is a terminal."""
    try:
        return (
            sys.__stdout__ is not None
            and os.isatty(sys.__stdout__.fileno())
            and sys.stdout.isatty()
        )
    except (OSError, ValueError, AttributeError):
        return False


def terminal_width() -> int:
    """Return how many columns a table may take.

    ``COLUMNS`` if it is set, else those of the terminal, else :data:`PIPE_WIDTH`, so that what goes
    into a pipe, a file or a notebook does not depend on a window.
    """
    if not is_terminal() and not os.environ.get("COLUMNS", "").isdigit():
        return PIPE_WIDTH
    return max(NARROWEST, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)


def encodable(text: str, encoding: str | None) -> str:
    """Return a text as an encoding can express it: ASCII instead of blocks, ``u`` instead of µ."""
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.translate(ASCII).encode("ascii", "backslashreplace").decode()
    return text


def wrapped(text: str, width: int | None, lines: int | None = None, indent: int = 2) -> list[str]:
    """Return a text in lines, the further ones indented; at most so many of them."""
    if width is None:
        return [text]
    found = textwrap.wrap(UNIT.sub(NO_BREAK, text), width, subsequent_indent=" " * indent,
                          max_lines=lines, placeholder=f" {ELLIPSIS}",
                          break_on_hyphens=False)  # fmt: skip
    return [line.replace(NO_BREAK, " ") for line in found] or [""]


def shortened(text: str, width: int) -> str:
    """Return the beginning of a text, with an ellipsis if something is missing.

    >>> shortened("compute", 5)
    'comp…'
    """
    return text if len(text) <= width else text[: width - 1].rstrip() + ELLIPSIS


def bar(share: float, width: int = 30) -> str:
    """Return a bar of block characters; what is above 0 shows at least an eighth of a block."""
    eighths = max(round(8 * width * share), 1) if share > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def sparkline(counts: Sequence[int]) -> str:
    """Return a small column for each count, relative to the largest; a dot where there is none."""
    most = max(counts, default=0)
    return "".join(LEVELS[max(math.ceil(8 * n / most) - 1, 0)] if n else "." for n in counts)


def scaled(values: Sequence[float | None], unit: str) -> tuple[float, str]:
    """Return a divisor of values, and their unit with a prefix, so that they are easy to read.

    >>> scaled([2.5e-5, 1.5e-4], "s")
    (1e-06, 'µs')
    """
    sizes = [abs(v) for v in values if v is not None and math.isfinite(v) and v != 0]
    if unit not in SCALABLE or not sizes or max(sizes) / min(sizes) > WIDEST:
        return 1.0, unit
    power = 3 * math.floor(math.log10(min(sizes)) / 3)
    power = max(min(PREFIXES), min(power, max(PREFIXES)))
    return (10.0**power, PREFIXES[power] + unit)


def quantity(value: float, unit: str) -> str:
    """Return a number with its unit, in four digits.

    >>> quantity(2.5e-5, "s")
    '25.00 µs'
    """
    factor, unit = scaled([value], unit)
    return f"{value / factor:#.4g}".rstrip(".") + (f" {unit}" if unit not in ("", "1") else "")


def number(value: Any, digits: int = DIGITS) -> str:
    """Return a value as people write it: no trailing zeros, integers in full.

    >>> number(1234.4, 2), number(0.00012)
    ('1234', '0.00012')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        text = f"{value:.{digits}g}"
        return f"{value:.0f}" if "e+" in text and abs(value) < 1e9 else text
    if isinstance(value, dict):
        parts = (f"{100 * v:.3g} %" if isinstance(v, float) else number(v) for v in value.values())
        return ", ".join(map(" ".join, zip(value, parts, strict=True))) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(number(part) for part in value) or "-"
    return str(value)


def percent(value: Any) -> str:
    """Return a share in percent, in two digits.

    >>> percent(0.0012), percent(2.256), percent(-0.996)
    ('0.12 %', '226 %', '-100 %')
    """
    return "-" if value is None else f"{number(100.0 * value, 2)} %"


def listed(names: Iterable[str], most: int) -> str:
    """Return names with commas, the first of them and the number of others.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def in_words(place: Mapping[str, Any]) -> str:
    """Return values of dimensions, those of kernel and device without their names.

    >>> in_words({"kernel": "sepia", "n": 4.0})
    'sepia n=4'
    """
    plain = ("kernel", "device")
    return " ".join(number(v) if n in plain else f"{n}={number(v)}" for n, v in place.items())

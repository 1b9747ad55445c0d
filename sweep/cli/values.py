"""Texts of arguments as values: the converters that ``commands.toml`` names.

Each takes the text and the name of its option, returns the value, and raises a one-line SweepError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweep.errors import PlanError, QueryError, SweepError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
         "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40, "PI": 2**50}  # fmt: skip
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|[+-]?inf")
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
BANDWIDTH = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([kMGT]i?)?(B|bit)/s")


def within(
    number: float, option: str, low: float, high: float = math.inf, words: str = ""
) -> float:
    """Return a number that is large enough, and in the range that ``words`` describe."""
    if low <= number <= high:
        return number
    shown = f"{number:g}" if isinstance(number, float) else number
    problem = f"outside the range {words}" if words else f"at least {low}"
    raise SweepError(f"{option} {shown}: {problem}")


def check_key(path: Path, what: str, ending: str = ".toml") -> None:
    """Refuse a place for a file whose name is its key where the ending is another one."""
    if path.suffix != ending:
        raise SweepError(f"{path}: {what} is named KEY{ending}")


def key_file(text: str, option: str) -> str:
    """Return the place of a file whose name is its key."""
    check_key(Path(text), "the file")
    return text


def names(text: str, option: str) -> tuple[str, ...]:
    """Return the names in a list with commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def objectives(text: str, option: str) -> list[tuple[str, str]]:
    """Return the name and the sense of each objective: ``execution_time,occupancy:max``."""
    found = []
    for word in text.split(","):
        name, _, sense = word.strip().partition(":")
        if sense not in ("", "min", "max"):
            raise QueryError(f"{option}: '{word}': write VARIABLE, VARIABLE:min or :max")
        found.append((name, sense or "min"))
    return found


def size(text: str, option: str = "--limit") -> int:
    """Return a size in bytes: ``"500MB"``, ``"2 GiB"``, ``"1e9"``.

    >>> size("2 GiB")
    2147483648
    """
    word = text.strip().upper().removesuffix("B")
    number = word.rstrip("KMGTPI ")
    try:
        found = int(float(number) * UNITS[word[len(number) :].strip()])
        if found < 0:
            raise ValueError
        return found
    except (ValueError, KeyError, OverflowError):
        raise PlanError(f"'{text}' is not a size: write 500MB, 2GiB or a number") from None


def bandwidth(text: str, option: str) -> float:
    """Return a bandwidth in bytes per second: ``"10GB/s"``, ``"500 MiB/s"``, ``"10Gbit/s"``.

    >>> bandwidth("10Gbit/s", "--bandwidth")
    1250000000.0
    """
    found = BANDWIDTH.fullmatch(text.strip())
    number = float(found[1]) if found else 0.0
    if found is None or not 0 < number < float("inf"):
        what = "a number above 0 with its unit, such as 10GB/s, 500MiB/s or 10Gbit/s"
        raise PlanError(f"{option} '{text}': {what}")
    return size(f"{number}{found[2] or ''}", option) / (8 if found[3] == "bit" else 1)


def seconds(text: str, option: str) -> float:
    """Return the seconds of a time with its unit: ``1.23ms``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([a-zµ]+)\s*", text)
    if match is None or match[2] not in TIME_UNITS or float(match[1]) <= 0:
        units = f"one of {', '.join(TIME_UNITS)}, such as 1.23ms"
        raise SweepError(f"a time of '{text}': must be a number above 0 and {units}")
    return float(match[1]) * TIME_UNITS[match[2]]


def sides(text: str, option: str) -> tuple[int | str, ...]:
    """Return the three sides of a block or grid, numbers or expressions; omitted ones are 1.

    >>> sides("ceil(m / 64),4*2", "--grid"), sides("16x16", "--block")
    (('ceil(m / 64)', 8, 1), (16, 16, 1))
    """
    is_plain = re.fullmatch(r"[0-9x,]+", text) is not None
    parts = re.split(r",(?![^()]*\))", text.replace("x", ",") if is_plain else text)
    found = [_side(part) for part in parts]
    if len(parts) > 3 or any(isinstance(side, int) and side < 1 for side in found):
        raise SweepError(f"{option} {text}: must be one to three whole numbers, such as 16,16")
    return (*found, 1, 1)[:3]


def _side(text: str) -> int | str:
    """Return a number, an expression over names, or 0 if the text is no side."""
    if re.fullmatch("[1-9][0-9]{0,9}", text):
        return int(text)
    if not re.search(r"[A-Za-z*/]", text):
        return 0
    from sweep.expressions import Expression  # NumPy, which `sweep --help` need not load

    if (expression := Expression.parse(text)).names:
        return text.strip()
    number = float(expression.evaluate({})[0])
    return int(number) if number.is_integer() and number < 1e10 else 0


def expressions(words: Sequence[str], option: str) -> dict[str, str]:
    """Return the expressions of ``KEY=EXPRESSION`` words by key."""
    found: dict[str, str] = {}
    for word in words:
        key, _, text = word.partition("=")
        if not (key.strip() and text.strip()):
            raise SweepError(f"{option} {word}: must be KEY=EXPRESSION")
        found[key.strip()] = text.strip()
    if found:
        from sweep.expressions import Expression

        for text in found.values():
            Expression.parse(text)
    return found


def labelled(words: Sequence[str], option: str) -> dict[str, float]:
    """Return the numbers of ``NAME=NUMBER`` words by label."""
    found: dict[str, float] = {}
    for word in words:
        label, _, text = word.partition("=")
        if label in found:
            raise SweepError(f"{option} {word}: the label is given twice")
        if not label or not _NUMBER.fullmatch(text):
            raise SweepError(f"{option} {word}: must be NAME=NUMBER")
        found[label] = float(text)
    return found


def renames(text: str, option: str) -> dict[str, str]:
    """Return new names by old ones: ``OLD=NEW,...``."""
    found: dict[str, str] = {}
    for word in names(text, option):
        old, _, new = (part.strip() for part in word.partition("="))
        if not (old.isidentifier() and new.isidentifier()) or old in found:
            raise SweepError(f"{option} {word}: must be OLD=NEW, each name once")
        found[old] = new
    return found


def trip_counts(words: Sequence[str], option: str) -> dict[str, float | str]:
    """Return trip counts by label: numbers, and expressions over sizes as they are."""
    from sweep.expressions import Expression  # NumPy, which `sweep --help` need not load

    parts = [word.partition("=") for word in words]
    texts = {label: text for label, _, text in parts if text and not _NUMBER.fullmatch(text)}
    for text in texts.values():
        Expression.parse(text)
    # A number for each, so that labels are checked in one place.
    checked = [f"{label}{equals}{0 if label in texts else text}" for label, equals, text in parts]
    return {label: texts.get(label, n) for label, n in labelled(checked, option).items()}


def ends(text: str, option: str) -> tuple[float, ...]:
    """Return the ends of a range, ``LOW:HIGH``."""
    return _two(text, ":", f"{option} '{text}': two numbers in base units, LOW:HIGH")


def clock_pair(text: str, option: str) -> tuple[float, ...]:
    """Return a core and a memory clock, ``CORE/MEMORY``."""
    problem = f"{option} {text}: must be core and memory clock in MHz, such as 975/810"
    return _two(text, "/", problem)


def clock_pairs(text: str, option: str) -> list[tuple[float, ...]]:
    """Return pairs of clocks with commas between them."""
    return [clock_pair(word, option) for word in text.split(",")]


def _two(text: str, separator: str, problem: str) -> tuple[float, ...]:
    try:
        first, second = map(float, text.split(separator))
    except ValueError:
        raise SweepError(problem) from None
    return first, second


def clocks(text: str, option: str) -> Any:
    """Return clocks in the form of a plan: a list, or a range with a step."""
    try:
        parts = [[_number(word) for word in part.split(",")] for part in text.split(":")]
        if len(parts) == 1:
            return parts[0]
        (start,), (stop,), (step,) = parts
    except ValueError:
        raise SweepError(
            f"{option} {text}: must be MHz, such as 700,800, or LOW:HIGH:STEP"
        ) from None
    return {"start": start, "stop": stop, "step": step}


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value

"""The profilers' counters: the quantities that they measure, their numbers and units.

``counters.toml`` lists the names of the counters. Numbers may be written in any locale.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from sweep.errors import ProfileError

SECTOR = 32.0
"""Bytes per sector, the unit of the L2 and DRAM counters."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that counters measure.

    Parameters
    ----------
    meaning : str
        Meaning in words.
    dimension : str
        ``count``, ``size``, ``bytes`` (a size that is a whole number), ``time``, ``clock`` or
        ``share``.
    ncu, nvprof : sequence of str
        Alternatives, the preferred one first. ``A + B`` is a sum, ``A / 32`` a quotient.
    """

    meaning: str
    dimension: str
    ncu: Sequence[str]
    nvprof: Sequence[str]

    def wanted(self, tool: str) -> str:
        """Return the names to request from a profiler."""
        return " or ".join(self.ncu[:2] if tool == "ncu" else self.nvprof[:2])


_TEXT = (files("sweep.importers.profiles") / "counters.toml").read_text("utf-8")
QUANTITIES = {name: Quantity(**row) for name, row in tomllib.loads(_TEXT).items()}
"""All quantities by name, from ``counters.toml``."""


_NUMBER = re.compile(
    r"""\s*(?P<sign>[+-]?)(?P<digits>\d[\d.,'\u2019\u00a0\u202f]*|\.\d+)
        (?P<exponent>[eE][+-]?\d+)?\s*(?P<unit>[%A-Za-z/]*)\s*""",
    re.VERBOSE,
)
_SPACING = re.compile(r"['\u2019\u00a0\u202f]")

MAX_SHOWN = 60
"""Largest number of characters of a value in messages."""

PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BASES = {
    "second": "time", "s": "time", "byte": "size", "hz": "clock",
    "%": "percent", "": "count", "inst": "count", "instruction": "count", "sector": "count",
    "request": "count", "warp": "count", "thread": "count", "block": "count", "register": "count",
    "cycle": "count", "wavefront": "count",
}  # fmt: skip
"""Units without a prefix, and the dimension that each measures."""

BINARY = {"B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30}
"""nvprof's units of size; Nsight Compute's Kbyte is 1000 bytes."""

RATES = {"cycle/second": 1.0, "cycle/usecond": 1e6, "cycle/nsecond": 1e9}
"""Units of clocks in older versions of Nsight Compute."""


class Value(NamedTuple):
    """A counter's value.

    ``text`` is the value as written. ``number`` is NaN if the text is not a finite number. ``step``
    is one unit in its last digit, since sizes are rounded (8.19 Kbyte).
    """

    text: str
    number: float
    unit: str
    step: float = 1.0


def decimal_sign(texts: Iterable[str]) -> str:
    """Return the decimal sign of a file's numbers: ``.``, unless one of them requires ``,``.

    A sign that occurs twice, or before another one, separates thousands. A sign that is not
    followed by exactly three digits is the decimal sign. All other numbers are ambiguous.

    Parameters
    ----------
    texts : iterable of str
        The values.

    Raises
    ------
    ProfileError
        Two numbers require different signs.

    Examples
    --------
    >>> decimal_sign(["27.595.520", "117.344"]), decimal_sign(["1,024", "0.5"])
    (',', '.')
    """
    witness: dict[str, str] = {}
    for text in texts:
        match = _NUMBER.fullmatch(text)
        sign = _required_sign(match["digits"], bool(match["exponent"])) if match else ""
        if sign:
            witness.setdefault(sign, text.strip())
    if len(witness) > 1:
        both = " and ".join(f"'{text}'" for text in witness.values())
        raise ProfileError(f"numbers of two notations: {both}; export the profile in one locale")
    return next(iter(witness), ".")


def _required_sign(digits: str, exponent: bool) -> str:
    """Return the decimal sign that a number requires, or ``""`` if it is ambiguous."""
    signs = [c for c in digits if c in ".,"]
    if not signs:
        return ""
    other = {".": ",", ",": "."}[signs[-1]]
    if len(set(signs)) > 1:
        return signs[-1]
    if len(signs) > 1:
        return other
    before, _, after = digits.partition(signs[0])
    grouped = len(after) == 3 and 1 <= len(before) <= 3 and before[0] != "0"
    return "" if grouped and not exponent else signs[0]


def read_value(text: str, unit: str, decimal: str) -> Value:
    """Return a counter's value; its number is NaN if the profiler has none (``n/a``).

    A unit after the number (``12.5GB``) is used if no other is given.
    """
    match = _NUMBER.fullmatch(text)
    shown = text.strip() if len(text) <= MAX_SHOWN else f"{text.strip()[:MAX_SHOWN]}..."
    if match is None:
        return Value(shown, math.nan, unit)
    digits = _SPACING.sub("", match["digits"])
    digits = digits.replace({".": ",", ",": "."}[decimal], "").replace(decimal, ".")
    try:
        number = float(match["sign"] + digits + (match["exponent"] or ""))
    except ValueError:
        return Value(shown, math.nan, unit)
    decimals = len(digits.partition(".")[2])
    finite = number if math.isfinite(number) else math.nan
    return Value(shown, finite, unit or match["unit"], 10.0**-decimals)


def in_base(value: Value, dimension: str) -> float:
    """Return a value in base units: s, bytes, Hz, a count or a share.

    Parameters
    ----------
    value : Value
        A value that has a number.
    dimension : str
        ``time``, ``size``, ``clock``, ``count`` or ``share``.

    Raises
    ------
    ProfileError
        The unit is unknown or has another dimension; the message does not name the counter.

    Examples
    --------
    >>> in_base(Value("8.5", 8.5, "Kbyte/block"), "size")
    8500.0
    """
    measured, factor = _unit(value.unit)
    if dimension == "share":
        if measured not in ("percent", "count"):
            raise ProfileError(f"unit '{value.unit}' is not one of a share (%)")
        return value.number / 100 if measured == "percent" else value.number
    if measured != dimension:
        wanted = {"time": "usecond", "size": "byte", "clock": "hz", "count": "inst"}[dimension]
        raise ProfileError(f"unit '{value.unit}' is not one of a {dimension} (such as {wanted})")
    return value.number * factor


def whole_bytes(value: Value) -> int:
    """Return a size in bytes.

    Among the integers that round to the written value, it is the one with the most trailing zero
    bits.

    >>> whole_bytes(Value("32.77", 32.77, "Kbyte/block", 0.01))
    32768
    """
    size = in_base(value, "size")
    slack = 0.5001 * in_base(value._replace(number=value.step), "size")
    for power in range(12, 0, -1):
        near = round(size / 2**power) * 2**power
        if abs(near - size) <= slack:
            return near
    return math.ceil(size - 1e-6)


def _unit(text: str) -> tuple[str, float]:
    """Return a unit's dimension and its size in base units."""
    if text in RATES:
        return "clock", RATES[text]
    bare = text.partition("/")[0]  # register/thread, Kbyte/block
    if bare in BINARY:
        return "size", BINARY[bare]
    if bare.lower() in BASES:
        return BASES[bare.lower()], 1.0
    prefix, base = bare[:1], bare[1:].lower()
    if prefix in PREFIXES and BASES.get(base, "percent") != "percent":
        return BASES[base], PREFIXES[prefix]
    raise ProfileError(f"unit '{text}' is not known")

"""What all readers of tools' output have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import TEXTS, Clocks, Measurement
from sweep.specs.check import is_number

MAX_TEXT = 1 << 24
"""Largest output of a tool that is read [bytes]."""

_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True)
class Reader:
    """The reader of one format.

    Attributes
    ----------
    tool : str
        The program whose output it reads.
    recognises : callable
        Whether a text may be of this format.
    read : callable
        Return what a file says, or raise an error about it.
    """

    tool: str
    recognises: Callable[[str], bool]
    read: Callable[[Source], list[Measurement]]


@dataclass
class Findings:
    """Measurements of one file, checked as they are added."""

    source: Source
    tool: str
    version: str = ""
    clocks: Clocks = Clocks()
    found: list[Measurement] = field(default_factory=list)

    def add(
        self, key: str, value: Any, unit: str, method: str, place: str, *,
        deviation: float | None = None, note: str = "", clocks: Clocks | None = None,
    ) -> None:  # fmt: skip
        """Add a value, unless the file has none.

        Raises
        ------
        TuningError
            A number is not above zero, or not finite.
        """
        if value is None:
            return
        if key in TEXTS and not isinstance(value, str):
            raise self.source.error(f"{place}: must be a text")
        if key not in TEXTS and not key.startswith("model."):  # those may be rows
            value = self.number(value, place, unit)
        if deviation is not None and not (math.isfinite(deviation) and deviation >= 0):
            raise self.source.error(f"{place}: a standard deviation of {deviation:g} {unit}")
        place = f"{self.source.path.name}, {place}"
        self.found.append(Measurement(key, value, unit, deviation, method, self.tool, self.version,
                                      clocks or self.clocks, place, note))  # fmt: skip

    def query(self, key: str, value: Any, place: str, unit: str = "") -> None:
        """Add what the driver says of the GPU, unless the file has none."""
        self.add(key, value, unit, "query", place)

    def gpu(self, name: Any, vendor: str, place: str) -> None:
        """Add which GPU it is."""
        self.query("name", name, place)
        self.query("vendor", vendor, place)

    def clock_range(self, domain: str, low: Any, high: Any, place: str) -> None:
        """Add the lowest and the highest clock of ``core`` or ``memory`` [MHz]."""
        self.query(f"clocks.{domain}_min", low, place, "MHz")
        self.query(f"clocks.{domain}_max", high, place, "MHz")

    def number(self, value: Any, place: str, unit: str = "") -> float:
        """Return a number above zero.

        Raises
        ------
        TuningError
            It is none.
        """
        shown = f"{place}: {str(value)[:60]} {unit}".rstrip()
        if isinstance(value, str):
            if _COMMA.fullmatch(value):
                reason = "has a decimal comma: run it with LC_ALL=C"
                raise self.source.error(f"{place}: '{value}' {reason}")
            try:
                value = float(value)
            except ValueError:
                raise self.source.error(f"{shown}: not a number") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.source.error(f"{shown}: not a number")
        if not (is_number(value) and value > 0):
            raise self.source.error(f"{shown}: must be above 0, and finite")
        return float(value)

    def table(self, data: Any, *path: str) -> Mapping[str, Any]:
        """Return a table in a JSON document, empty if it is missing.

        Raises
        ------
        TuningError
            There is something else.
        """
        for number, name in enumerate(path, start=1):
            data = data.get(name, {})
            if not isinstance(data, dict):
                raise self.source.error(f"{'.'.join(path[:number])}: must be an object")
        return data


def one_gpu(source: Source, tool: str, names: list[str], choose: str) -> None:
    """Refuse a file without a GPU, or with several of which it is unknown which one is meant.

    Raises
    ------
    TuningError
        The file describes none or several.
    """
    if not names:
        raise source.error(f"{tool} names no GPU: truncated, or not its whole output")
    if len(names) > 1:
        listed = ", ".join(name or "without a name" for name in names[:4]) + ", ..." * (
            len(names) > 4
        )
        raise source.error(f"describes {len(names)} GPUs ({listed}): write that of one, {choose}")

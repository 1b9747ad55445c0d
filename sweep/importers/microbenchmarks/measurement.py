"""One measured value, as all tools hand it on."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

TOOLS: dict[str, Any] = tomllib.loads(
    (files("sweep.importers.microbenchmarks") / "tools.toml").read_text("utf-8")
)
METHODS: dict[str, str] = TOOLS["methods"]
"""How a value is found, from the best to the worst: where two values disagree, the first wins."""

FIELDS: dict[str, dict[str, Any]] = TOOLS["fields"]
"""What a tool says of a device by key: a pattern or name, and its unit, method or factor."""

LOWER_BOUNDS = frozenset({"one_size", "kernel"})
"""Methods whose rates the device exceeds at other sizes: they count only where they are larger than
what is known otherwise, or than what models assume without."""

TEXTS = ("name", "vendor", "architecture", "compute_capability", "compiler_target")
"""Keys whose values are texts; all others are numbers."""

PER_CYCLE = "bytes_per_cycle"
"""Unit of a rate of one multiprocessor; it becomes the device's by their count and a clock."""


@dataclass(frozen=True)
class Clocks:
    """The clocks while something was measured; ``None`` where the tool states none.

    Attributes
    ----------
    core, memory : float or None
        In MHz, counted as device files count them.
    locked : bool
        Whether they were held there, not only observed.
    """

    core: float | None = None
    memory: float | None = None
    locked: bool = False


@dataclass(frozen=True)
class Measurement:
    """One value of a device, and how it was found.

    Attributes
    ----------
    key : str
        Dotted path in a device file without the unit: ``microbenchmark.l1_latency``,
        ``chip.sm_count``, ``name``, ``compute_capability``; of a model's parameter in full,
        ``model.hong_kim.mem_ld_cycles``, and in that unit.
    value : float, str or rows
        The value, in ``unit``; a key of ``model.`` can have rows of a table.
    unit : str
        A suffix of ``sweep/specs/units.toml`` (``cycles``, ``ns``, ``GBps``, ``GiBps``, ``kHz``),
        ``""`` for counts and texts, or :data:`PER_CYCLE`. Another unit of the key's dimension is
        converted; cycles and times become each other by ``clocks.core``.
    deviation : float or None
        One standard deviation, in ``unit``; ``None`` if the tool states no spread.
    method : str
        A word of :data:`METHODS`.
    tool, version : str
        The program (``mt4g``) and its version, ``""`` if its output has none.
    clocks : Clocks
        The clocks while it was measured.
    place : str
        Where it stands: file and place in it.
    note : str
        What a reader of the device file should know of the value.
    source : str
        The whole source (``KIND: REFERENCE``) of a value that is not measured.
    """

    key: str
    value: Any
    unit: str = ""
    deviation: float | None = None
    method: str = "rule"
    tool: str = ""
    version: str = ""
    clocks: Clocks = Clocks()
    place: str = ""
    note: str = ""
    source: str = ""

    @property
    def rank(self) -> tuple[int, bool, bool, float]:
        """Order among values of one key, the best first.

        By method, then stated clocks before unstated ones, then locked ones, then the smaller
        relative deviation. Equals stay in the order in which their files were given.
        """
        spread = math.inf
        if self.deviation is not None and isinstance(self.value, float | int) and self.value:
            spread = abs(self.deviation / self.value)
        method = list(METHODS).index(self.method)
        return method, self.clocks.core is None, not self.clocks.locked, spread

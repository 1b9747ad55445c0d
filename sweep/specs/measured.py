"""The measured time of a kernel file: one launch, on one device, at one pair of clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweep.specs.check import check_section
from sweep.specs.formats import KERNEL
from sweep.specs.report import Report
from sweep.specs.units import to_base

__all__ = ["Measured", "check_measured"]

_SECTION = next(section for section in KERNEL if section.name == "measured")


@dataclass(frozen=True)
class Measured:
    """A measured time.

    Parameters
    ----------
    time : float
        Time of one launch [s].
    device : str
        Key of the device.
    core_clock, memory_clock : float
        Clocks while it was measured [MHz].
    """

    time: float
    device: str
    core_clock: float
    memory_clock: float


def check_measured(report: Report, table: Mapping[str, Any]) -> Measured | None:
    """Check ``[measured]`` and return what it says; ``None`` without one, or with findings."""
    content = table.get(_SECTION.name)
    if not isinstance(content, dict):
        return None
    before = len(report.errors)
    found = check_section(report, _SECTION, content, sections=KERNEL)
    if len(report.errors) > before:
        return None
    return Measured(
        to_base(found["time_ms"], "time_ms"),
        found["device"],
        float(found["core_clock_MHz"]),
        float(found["memory_clock_MHz"]),
    )

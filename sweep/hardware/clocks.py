"""What a change of clock does to numbers that were measured at the nominal clocks (rule CLK).

Device files give DRAM quantities in core cycles at the device's nominal clocks. At other clocks
the DRAM side keeps its time, not its cycles; only Wang & Chu say so in equations, and these
functions extend their equation (4) to every model's *corrected* variant so that a sweep over
clocks means the same thing for all of them. Nothing changes at the nominal clocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bandwidth", "clock_ratio", "latency", "service_time"]

Array = NDArray[np.float64]


def clock_ratio(core: Array, core_nominal: Array, memory: Array, memory_nominal: Array) -> Array:
    """Return ``(core / core_nominal) / (memory / memory_nominal)`` [1].

    It is written as one division of products, so that it is exactly 1 at the nominal clocks.
    """
    return (core * memory_nominal) / (memory * core_nominal)


def service_time(cycles: Array, ratio: Array) -> Array:
    """Return a DRAM service time (departure delay, lambda) in cycles of the swept core clock.

    A service time belongs to DRAM entirely, so its core cycles scale with the clock ratio.
    """
    return cycles * ratio


def latency(cycles: Array, ratio: Array, share: Array) -> Array:
    """Return a DRAM latency in cycles of the swept core clock.

    The share that belongs to DRAM scales with the clock ratio; the on-chip share, which runs on
    the core clock, keeps its cycles (the form of Wang & Chu's equation (4)).
    """
    return cycles * (1.0 + share * (ratio - 1.0))


def bandwidth(nominal: Array, memory: Array, memory_nominal: Array) -> Array:
    """Return the DRAM bandwidth at a memory clock: proportional to it [B/s]."""
    return nominal * (memory / memory_nominal)

"""Power and energy from two activities, after Wang & Chu's equation (1).

Equation (1) of Q. Wang and X. Chu, "GPGPU Performance Estimation with Core and Memory Frequency
Scaling" (2017), ``P_dynamic = a C V^2 f``, is applied once to the core and once to the memory
domain; a static term is added. The activities ``a`` are the busy fractions that a time model
implies, so the same power model serves every time model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["dynamic_power", "voltage_at"]

Array = NDArray[np.float64]


def dynamic_power(capacitance: float | Array, voltage: Array, frequency: Array) -> Array:
    """Return ``C V^2 f`` of one clock domain at full activity (equation (1) with ``a`` = 1) [W].

    Parameters
    ----------
    capacitance : array
        ``C``: effective switched capacitance of the domain [W/(V^2 Hz)].
    voltage : array
        ``V``: supply voltage of the domain [V].
    frequency : array
        ``f``: clock of the domain [Hz].
    """
    return capacitance * voltage**2 * frequency


def voltage_at(clock: Array, table: tuple[tuple[float, ...], ...]) -> Array:
    """Return the voltage at a clock from a device's clock-to-voltage table [V].

    Linear between the table's rows (clock [Hz], voltage [V]); below the first and above the last
    row the voltage stays: below some clock it no longer falls (the voltage floor).
    """
    clocks, volts = np.array(table, dtype=np.float64).T
    return np.interp(clock, clocks, volts)

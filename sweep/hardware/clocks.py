"""What follows from the clocks: cycles of DRAM (rule CLK), power and energy.

Device files give DRAM quantities in core cycles at the device's nominal clocks. At other clocks
the DRAM side keeps its time, not its cycles; only Wang & Chu say so in equations, and the first
functions here extend their equation (4) to every model's *corrected* variant so that a sweep over
clocks means the same thing for all of them. Nothing changes at the nominal clocks.

Power is equation (1) of Q. Wang and X. Chu, "GPGPU Performance Estimation with Core and Memory
Frequency Scaling" (2017), ``P_dynamic = a C V^2 f``, applied once to the core and once to the
memory domain; a static term is added. The activities ``a`` are the busy fractions that a time model
implies, so the same power model serves every time model. Of a domain's power at full activity, a
share may remain without any (clock tree, refresh): ``a`` becomes ``share + (1 - share) a``. It is a
term of its own, which the device adds to the static one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.fields import POWER_STATUS, STATUS, Array

Rows = tuple[tuple[float, ...], ...]

MODEL_DOMAIN = float(STATUS["model_domain"])
NO_TIME = float(POWER_STATUS["no_time"])
MISSING_PARAMETERS = float(POWER_STATUS["missing_parameters"])
LARGEST = float(np.finfo(np.float32).max)
"""Most cycles of a valid configuration, in either precision: a store of float32 must not hold
infinity as a result. Comparing with a number costs less than testing for infinity does."""


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


def share_at(table: Rows | None, memory: Array, otherwise: Array) -> Array:
    """Return the share of the peak DRAM bandwidth at a memory clock [1].

    Parameters
    ----------
    table : tuple of rows, optional
        Memory clock [MHz] and share: linear between rows, constant beyond them.
    memory : array
        Memory clock [Hz].
    otherwise : array
        The share without a table.
    """
    if table is None:
        return np.broadcast_to(otherwise, np.broadcast_shapes(otherwise.shape, memory.shape))
    clocks, shares = np.array(table, dtype=np.float64).T
    return np.interp(memory / 1e6, clocks, shares)


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


def voltage_at(clock: Array, table: Rows) -> Array:
    """Return the voltage at a clock from a device's clock-to-voltage table [V].

    Linear between the table's rows (clock [Hz], voltage [V]); below the first and above the last
    row the voltage stays: below some clock it no longer falls (the voltage floor).
    """
    clocks, volts = np.array(table, dtype=np.float64).T
    return np.interp(clock, clocks, volts)


def core_voltage_at(core: Array, memory: Array, tables: Mapping[str, Rows]) -> Array:
    """Return the core domain's voltage [V]: by the core clock, but no less than the floor.

    A memory clock can ask for more than the core clock does: GPUs have performance states, and each
    has its memory clock and its least voltage.

    Parameters
    ----------
    core, memory : array
        Clocks [Hz].
    tables : mapping
        A device's, with ``power.core_voltage`` and, if it has one, ``power.core_voltage_floor``.
    """
    volts = voltage_at(core, tables["power.core_voltage"])
    floor = tables.get("power.core_voltage_floor")
    return volts if floor is None else np.maximum(volts, voltage_at(memory, floor))


def power_inputs(devices: Sequence[Any], core: Array, memory: Array) -> dict[str, Array]:
    """Return what equation (1) needs besides the activities, over devices and clocks.

    A device without a power table has no power: its own status says so, the time stays valid.

    Parameters
    ----------
    devices : sequence
        With the declared ``values`` and ``tables`` of their files, along the first axis.
    core, memory : array
        Clocks [Hz].

    Returns
    -------
    dict
        ``static_power``, with what remains without activity [W], ``core_watts`` and
        ``memory_watts``, which full activity adds to it [W], and ``power_input_status``.
    """
    core, memory = np.broadcast_arrays(core, memory)
    static = np.full(core.shape, np.nan)
    status = np.full((len(devices),) + (1,) * (core.ndim - 1), MISSING_PARAMETERS)
    clocks = {"core": core, "memory": memory}
    watts = {name: np.full(core.shape, np.nan) for name in clocks}
    for i, device in enumerate(devices):
        if "power.static" not in device.values:  # the table is there whole or not at all
            continue
        static[i], status[i] = device.values["power.static"], float(POWER_STATUS["valid"])
        volts = {
            "core": core_voltage_at(core[i], memory[i], device.tables),
            "memory": voltage_at(memory[i], device.tables["power.memory_voltage"]),
        }
        for name, clock in clocks.items():
            full = dynamic_power(device.values[f"power.{name}"], volts[name], clock[i])
            idle = device.values.get(f"power.{name}_idle_share", 0.0) * full
            static[i] += idle
            watts[name][i] = full - idle
    return {
        "static_power": static,
        "core_watts": watts["core"],
        "memory_watts": watts["memory"],
        "power_input_status": status,
    }


def finish(  # type: ignore[no-untyped-def]
    execution_cycles, core_activity, memory_activity, launch_status, clock_status,
    power_input_status, static_power, core_hz, core_watts, memory_watts,
):  # fmt: skip
    """Return status, seconds, power by equation (1), energy, and the core clock in MHz."""
    status = launch_status if launch_status != 0.0 else clock_status
    sound = (execution_cycles > 0.0) and (execution_cycles <= LARGEST)
    status = status if (status != 0.0 or sound) else MODEL_DOMAIN
    time = execution_cycles / core_hz
    power = static_power + core_activity * core_watts + memory_activity * memory_watts
    power_status = power_input_status if status == 0.0 else NO_TIME
    return {
        "status": status,
        "power_status": power_status,
        "execution_time": time,
        "power": power,
        "energy": power * time,
        "actual_core_clock": core_hz / 1e6,
    }

"""The inputs of a model's pass over a box, as small tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.evaluate._passes import CLOCK_INPUTS, LAUNCH_INPUTS, input_names
from sweep.evaluate.workloads import Launch, build_workload
from sweep.fields import POWER_STATUS, STATUS
from sweep.models._model import Model
from sweep.power import dynamic_power, voltage_at
from sweep.space import Box, KernelSpace
from sweep.workload import Array

__all__ = ["Packed", "model_inputs", "pack", "power_inputs"]

MISSING = float(STATUS["missing_parameters"])
CONSTRAINT = float(STATUS["constraint"])
CLOCKS_FORM = 32
"""Clock pairs from which on the inner loop runs over the clocks alone."""
ROW = 1024
"""Length that an inner row of configurations should reach: enough for the vector unit, small
enough that the rows of all inputs stay in the cache."""


def power_inputs(space: KernelSpace, box: Box, launch: Launch) -> dict[str, Array]:
    """Return static power, watts at full activity per clock domain, and their status.

    A device without a power table has no power: its own status says so, the time stays valid.
    """
    devices = space.devices[box.slices[0]]
    clocks = launch.workload.clocks
    shape = (len(devices),) + (1,) * (clocks.core.ndim - 1)
    static = np.full(shape, np.nan)
    status = np.full(shape, float(POWER_STATUS["missing_parameters"]))
    watts = {name: np.full(getattr(clocks, name).shape, np.nan) for name in ("core", "memory")}
    for i, device in enumerate(devices):
        tables = [device.tables.get(f"power.{name}_voltage") for name in watts]
        numbers = [device.values.get(f"power.{name}") for name in ("static", *watts)]
        if None in tables or None in numbers:
            continue
        static[i], status[i] = numbers[0], float(POWER_STATUS["valid"])
        for name, table, capacitance in zip(watts, tables, numbers[1:], strict=True):
            frequency = getattr(clocks, name)[i]
            watts[name][i] = dynamic_power(capacitance, voltage_at(frequency, table), frequency)
    return {
        "static_power": static,
        "core_watts": watts["core"],
        "memory_watts": watts["memory"],
        "power_input_status": status,
    }


def model_inputs(
    space: KernelSpace,
    box: Box,
    launch: Launch,
    model: Model,
    variant: str,
    options: Mapping[str, str],
) -> dict[str, Array]:
    """Return every input of a model's pass over a box, by name.

    A parameter that a device lacks is NaN after the paper's ``prepare``; it becomes the status
    ``missing_parameters`` here.
    """
    workload = build_workload(launch, space, box, model, options)
    with np.errstate(all="ignore"):
        inputs = dict(model.prepare(workload, variant))
    inputs.update(power_inputs(space, box, launch))
    launch_names, clock_names = input_names(model)
    status, clock_status = launch.status, launch.clock_status
    for name in launch_names:
        if name not in LAUNCH_INPUTS:
            missing = np.isnan(inputs[name])
            if missing.any():
                # Without parameters the model says nothing at all, whatever the launch.
                status = np.where(missing & (status != CONSTRAINT), MISSING, status)
    for name in clock_names:
        if name not in CLOCK_INPUTS:
            missing = np.isnan(inputs[name])
            if missing.any():
                clock_status = np.where(missing, MISSING, clock_status)
    inputs.update(
        launch_status=status, clock_status=clock_status, core_hz=launch.workload.clocks.core
    )
    return inputs


@dataclass(frozen=True)
class Packed:
    """A pass's arguments: one buffer of tables, where each begins, its strides, the loops."""

    form: str
    data: Array
    base: Any
    stride: Any
    shape: Any
    n_inner: int
    n_rows: int


def pack(inputs: Mapping[str, Array], model: Model, shape: tuple[int, ...]) -> Packed:
    """Lay tables out for a pass over a box of the given shape (clocks included).

    A table keeps length 1 along what it does not depend on (stride 0); only along the inner
    loop's axes is it spread out, so that the loop reads contiguous rows.
    """
    launch_names, clock_names = input_names(model)
    n_clocks = shape[-2] * shape[-1]
    form = "clocks" if n_clocks >= CLOCKS_FORM else "rows"
    n_outer = len(shape) - 2
    if form == "rows":
        n_outer = len(shape)
        while n_outer > 0 and math.prod(shape[n_outer:]) < ROW:
            n_outer -= 1
    inner = shape[n_outer:]
    n_inner = math.prod(inner)
    parts, base, strides, position = [], [], [], 0
    for i, name in enumerate(launch_names + clock_names):
        table = inputs[name]
        is_row = form == "rows" or i >= len(launch_names)
        if is_row:
            table = np.broadcast_to(table, table.shape[:n_outer] + inner)
        elif math.prod(table.shape[n_outer:]) != 1:
            raise AssertionError(f"{model.name}: input {name} depends on the clocks")
        length = n_inner if is_row else 1
        stride = []
        step = length
        for extent in reversed(table.shape[:n_outer]):
            stride.append(0 if extent == 1 else step)
            step *= extent
        parts.append(np.ascontiguousarray(table, dtype=np.float64).reshape(-1))
        base.append(position)
        strides.append(stride[::-1])
        position += parts[-1].size
    return Packed(
        form=form,
        data=np.concatenate(parts),
        base=np.array(base, dtype=np.int64),
        stride=np.array(strides, dtype=np.int64).reshape(len(base), n_outer),
        shape=np.array(shape[:n_outer], dtype=np.int64),
        n_inner=n_inner,
        n_rows=math.prod(shape[:n_outer]),
    )

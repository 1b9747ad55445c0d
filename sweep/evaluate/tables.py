"""The inputs of a model's pass over a box, as small tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.evaluate._passes import CLOCK_INPUTS, LAUNCH_INPUTS, input_names, parts_of
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
        if "power.static" not in device.values:  # the table is there whole or not at all
            continue
        static[i], status[i] = device.values["power.static"], float(POWER_STATUS["valid"])
        for name, result in watts.items():
            frequency = getattr(clocks, name)[i]
            voltage = voltage_at(frequency, device.tables[f"power.{name}_voltage"])
            result[i] = dynamic_power(device.values[f"power.{name}"], voltage, frequency)
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
        inputs, length = _flat(model.prepare(workload, variant), model)
    inputs.update(power_inputs(space, box, launch))
    launch_names, clock_names = input_names(model, length)
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


def _flat(
    prepared: Mapping[str, Array | Sequence[Array]], model: Model
) -> tuple[dict[str, Array], int]:
    """Give every number of a sequence input a name of its own; return their number too."""
    inputs: dict[str, Array] = {}
    length = 0
    for i in model.inputs:
        given = prepared[i.symbol]
        if i.sequence:
            length = len(given)
            inputs.update(zip(parts_of(i.symbol, length), given, strict=True))
        else:
            inputs[i.symbol] = np.asarray(given)
    return inputs, length


@dataclass(frozen=True)
class Packed:
    """A pass's arguments: one buffer of tables, where each begins, its strides, the loops."""

    form: str
    length: int
    data: Array
    base: Any
    stride: Any
    shape: Any
    n_inner: int
    n_rows: int


def _length(inputs: Mapping[str, Array], model: Model) -> int:
    """Return how many numbers the sequence inputs have."""
    for i in model.inputs:
        if i.sequence:
            length = 0
            while f"{i.symbol}_{length}" in inputs:
                length += 1
            return length
    return 0


def pack(inputs: Mapping[str, Array], model: Model, shape: tuple[int, ...]) -> Packed:
    """Lay tables out for a pass over a box of the given shape (clocks included).

    A table keeps length 1 along what it does not depend on (stride 0); only along the inner
    loop's axes is it spread out, so that the loop reads contiguous rows.
    """
    length = _length(inputs, model)
    launch_names, clock_names = input_names(model, length)
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
        stride = []
        step = n_inner if is_row else 1
        for extent in reversed(table.shape[:n_outer]):
            stride.append(0 if extent == 1 else step)
            step *= extent
        parts.append(np.ascontiguousarray(table, dtype=np.float64).reshape(-1))
        base.append(position)
        strides.append(stride[::-1])
        position += parts[-1].size
    return Packed(
        form=form,
        length=length,
        data=np.concatenate(parts),
        base=np.array(base, dtype=np.int64),
        stride=np.array(strides, dtype=np.int64).reshape(len(base), n_outer),
        shape=np.array(shape[:n_outer], dtype=np.int64),
        n_inner=n_inner,
        n_rows=math.prod(shape[:n_outer]),
    )

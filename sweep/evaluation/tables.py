"""The inputs of a model's pass over a box, as small tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.evaluation._passes import (
    CLOCK_INPUTS,
    LAUNCH_INPUTS,
    input_names,
    nominal,
    parts_of,
)
from sweep.evaluation.workloads import Launch, build_workload
from sweep.fields import POWER_STATUS, STATUS
from sweep.models._model import Model
from sweep.power import dynamic_power, voltage_at
from sweep.space import Box, KernelSpace
from sweep.workload import Array

__all__ = ["Packed", "form_of", "model_inputs", "pack", "pass_inputs", "power_inputs"]

MISSING = float(STATUS["missing_parameters"])
CONSTRAINT = float(STATUS["constraint"])
CLOCKS_FORM = 32
"""Clock pairs from which on the inner loop runs over the clocks alone."""
SHORT_ROW, ROW = 16, 2048
"""Inner rows of configurations take in whole axes up to ROW points, where the tables that depend on
nothing else stay in the cache, and beyond it only if they would be shorter than SHORT_ROW."""


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
    """Return what a model's pass reads over a box, and all arguments of the body, by name."""
    inputs = pass_inputs(space, box, launch, model, variant, options)
    for i in model.inputs:
        if i.factor:
            names = parts_of(i.symbol, _length(inputs, model)) if i.sequence else (i.symbol,)
            with np.errstate(all="ignore"):
                inputs.update({n: inputs[nominal(n)] * inputs[i.factor] for n in names})
    return inputs


def pass_inputs(
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
    for name in clock_names:  # as a pass reads them, so that no chunk has to lay them out again
        table = inputs[name]
        if math.prod(table.shape[1:-2]) != 1:
            raise AssertionError(f"{model.name}: {name} depends on the launch: give its factor")
        spread = np.broadcast_to(table, table.shape[:-2] + launch.workload.clocks.ratio.shape[-2:])
        inputs[name] = np.ascontiguousarray(spread)
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
            own = dict(zip(parts_of(i.symbol, length), given, strict=True))
        else:
            own = {i.symbol: np.asarray(given, dtype=np.float64)}
        if i.factor:
            own = {nominal(name): table for name, table in own.items()}
            own[i.factor] = np.asarray(prepared[i.factor], dtype=np.float64)
        inputs.update(own)
    return inputs, length


@dataclass(frozen=True)
class Packed:
    """A pass's inputs: tables as contiguous rows, their strides, and the loops over them."""

    form: str
    length: int
    tables: tuple[Array, ...]
    stride: Any
    shape: Any
    n_inner: int
    n_rows: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a pass takes before its output arrays."""
        return self.tables, self.stride, self.shape, self.n_inner


def _length(inputs: Mapping[str, Array], model: Model) -> int:
    """Return how many numbers the sequence inputs have."""
    for i in model.inputs:
        if i.sequence:
            length, symbol = 0, nominal(i.symbol) if i.factor else i.symbol
            while f"{symbol}_{length}" in inputs:
                length += 1
            return length
    return 0


def pack(
    inputs: Mapping[str, Array], model: Model, shape: tuple[int, ...], form: str | None = None
) -> Packed:
    """Lay tables out for a pass over a box of the given shape (clocks included).

    A table keeps length 1 along what it does not depend on (stride 0); only along the inner
    loop's axes is it spread out, so that the loop reads contiguous rows. A table that is laid out
    so already is not copied. The form follows from the shape unless it is given.
    """
    length = _length(inputs, model)
    launch_names, clock_names = input_names(model, length)
    form = form or form_of(shape)
    n_outer = _outer_axes(shape, form)
    inner = shape[n_outer:]
    n_inner = math.prod(inner)
    tables, strides = [], []
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
        row = np.ascontiguousarray(table, dtype=np.float64).reshape(-1)
        row.flags.writeable = False  # some are, as broadcast: one type, one compilation
        tables.append(row)
        strides.append(stride[::-1])
    return Packed(
        form=form,
        length=length,
        tables=tuple(tables),
        stride=np.array(strides, dtype=np.int64).reshape(len(tables), n_outer),
        shape=np.array(shape[:n_outer], dtype=np.int64),
        n_inner=n_inner,
        n_rows=math.prod(shape[:n_outer]),
    )


def form_of(shape: tuple[int, ...]) -> str:
    """Return the form of the pass over a box of the given shape (clocks included)."""
    return "clocks" if shape[-2] * shape[-1] >= CLOCKS_FORM else "rows"


def _outer_axes(shape: tuple[int, ...], form: str) -> int:
    """Return the number of axes outside the inner loop."""
    if form == "clocks":
        return len(shape) - 2
    n_outer, n_inner = len(shape), 1
    while n_outer > 0 and (n_inner < SHORT_ROW or n_inner * shape[n_outer - 1] <= ROW):
        n_outer -= 1
        n_inner *= shape[n_outer]
    return n_outer

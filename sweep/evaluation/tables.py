"""The inputs of a model's pass over a box, as small tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sweep.compiler.passes import (
    CLOCK_INPUTS,
    LAUNCH_INPUTS,
    input_names,
    nominal,
    parts_of,
)
from sweep.evaluation.workloads import Launch, build_workload
from sweep.fields import POWER_STATUS, STATUS
from sweep.hardware.power import dynamic_power, voltage_at
from sweep.models.base import Model
from sweep.models.workload import Array
from sweep.space import Box, KernelSpace

__all__ = [
    "Packed",
    "Shared",
    "form_of",
    "model_inputs",
    "pack",
    "pass_inputs",
    "power_inputs",
    "restrict",
]

Index = tuple[slice, ...]

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
        if name not in LAUNCH_INPUTS and not any(inputs[name] is t for t in launch.sound):
            if _has_nan(inputs[name]):
                missing = np.isnan(inputs[name])
                # Without parameters the model says nothing at all, whatever the launch.
                status = np.where(missing & (status != CONSTRAINT), MISSING, status)
    for name in clock_names:
        if name not in CLOCK_INPUTS:
            if _has_nan(inputs[name]):
                missing = np.isnan(inputs[name])
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


def _has_nan(table: Array) -> bool:
    return bool(np.isnan(table.min()))  # which passes NaN on, and needs no memory


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


class Row(NamedTuple):
    """A table as a pass reads it, its stride along the outer axes, and its own extents.

    ``is_spread`` says whether it has a number for each point of the inner loop.
    """

    numbers: Array
    stride: list[int]
    extents: tuple[int, ...]
    is_spread: bool


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
    rows: Mapping[str, Row]

    @property
    def varying(self) -> tuple[str, ...]:
        """The inputs of the form ``sizes`` that are read along the inner loop."""
        rows = self.rows.items() if self.form == "sizes" else ()
        return tuple(name for name, row in rows if row.is_spread)

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


class Shared:
    """What the boxes of one model share of their tables, when they follow each other."""

    def __init__(self) -> None:
        self._at: Index = ()
        self._packed: Packed | None = None

    def pack(
        self,
        inputs: Mapping[str, Array],
        model: Model,
        index: Index,
        at: Index,
        form: str | None = None,
        spread: Collection[str] = (),
    ) -> Packed:
        """Lay out a part of tables, as :func:`pack`, for a box at a place in the grid."""
        rows = self.rows(at, form)
        part = {
            name: table if name in rows else table[restrict(table, index)]
            for name, table in inputs.items()
        }
        packed = pack(part, model, tuple(s.stop - s.start for s in index), form, rows, spread)
        self._at, self._packed = at, packed
        return packed

    def rows(self, at: Index, form: str | None = None) -> dict[str, Row]:
        """Return the last box's rows that are those of a box at a place in the grid, too.

        They are the tables that do not depend on the axes along which the box has moved. It shows
        only where the last box had an extent along these; and what was spread out along one of them
        has another length now.
        """
        if self._packed is None:
            return {}
        moved = [i for i, (a, b) in enumerate(zip(self._at, at, strict=True)) if a != b]
        shape, last = (tuple(s.stop - s.start for s in index) for index in (at, self._at))
        form = form or form_of(shape)
        n_outer = _outer_axes(shape, form)
        if form != self._packed.form or n_outer != len(self._packed.shape):
            return {}
        if any(last[i] == 1 or (i >= n_outer and form != "sizes") for i in moved):
            return {}
        is_alike = shape[n_outer:] == last[n_outer:]
        return {
            name: row
            for name, row in self._packed.rows.items()
            if all(row.extents[i] == 1 for i in moved) and (is_alike or not row.is_spread)
        }


def restrict(table: Array, index: Index) -> Index:
    """Return the index of a box into a table that has length 1 along some axes."""
    whole = slice(None)
    return tuple(
        whole if extent == 1 else part for extent, part in zip(table.shape, index, strict=True)
    )


def pack(
    inputs: Mapping[str, Array],
    model: Model,
    shape: tuple[int, ...],
    form: str | None = None,
    rows: Mapping[str, Row] | None = None,
    spread: Collection[str] = (),
) -> Packed:
    """Lay tables out for a pass over a box of the given shape (clocks included).

    A table keeps length 1 along what it does not depend on (stride 0); only along the inner
    loop's axes is it spread out, so that the loop reads contiguous rows. A table that is laid out
    so already is not copied. The form follows from the shape unless it is given. Tables that are
    among the ``rows`` of another box are taken from there. In the form ``sizes`` those named in
    ``spread`` are spread out even if they are constant.
    """
    length = _length(inputs, model)
    launch_names, clock_names = input_names(model, length)
    form = form or form_of(shape)
    n_outer = _outer_axes(shape, form)
    inner = shape[n_outer:]
    n_inner = math.prod(inner)
    packed = dict(rows or {})
    for i, name in enumerate(launch_names + clock_names):
        if name in packed:
            continue
        table = inputs[name]
        extents = table.shape
        is_row = form == "rows" or i >= len(launch_names)
        if form == "sizes":
            is_row = name in spread or math.prod(extents[n_outer:]) != 1
        if is_row:
            table = _spread(table, table.shape[:n_outer] + inner)
        elif math.prod(table.shape[n_outer:]) != 1:
            raise AssertionError(f"{model.name}: input {name} depends on the clocks")
        stride = []
        step = n_inner if is_row else 1
        for extent in reversed(table.shape[:n_outer]):
            stride.append(0 if extent == 1 else step)
            step *= extent
        row = np.ascontiguousarray(table, dtype=np.float64).reshape(-1)
        row.flags.writeable = False  # some are, as broadcast: one type, one compilation
        packed[name] = Row(row, stride[::-1], extents, is_row)
    found = {name: packed[name] for name in launch_names + clock_names}
    strides = [row.stride for row in found.values()]
    return Packed(
        form=form,
        length=length,
        tables=tuple(row.numbers for row in found.values()),
        stride=np.array(strides, dtype=np.int64).reshape(len(found), n_outer),
        shape=np.array(shape[:n_outer], dtype=np.int64),
        n_inner=n_inner,
        n_rows=math.prod(shape[:n_outer]),
        rows=found,
    )


def _spread(table: Array, shape: tuple[int, ...]) -> Array:
    """Return a table with a number for each place of a shape; a view where that costs nothing."""
    end = max((i + 1 for i, n in enumerate(table.shape) if n > 1), default=0)
    times = math.prod(shape[end:])
    if 1 < times <= SHORT_ROW and table.shape[:end] == shape[:end]:
        # As broadcasting would, which takes longer where it copies few numbers at a time.
        return np.repeat(table.reshape(-1), times).reshape(shape)
    return np.broadcast_to(table, shape)


def form_of(shape: tuple[int, ...]) -> str:
    """Return the form of the pass over a box of the given shape (clocks included)."""
    return "clocks" if shape[-2] * shape[-1] >= CLOCKS_FORM else "rows"


def _outer_axes(shape: tuple[int, ...], form: str) -> int:
    """Return the number of axes outside the inner loop."""
    if form == "clocks":
        return len(shape) - 2
    if form == "sizes":
        return len(shape) - 3
    n_outer, n_inner = len(shape), 1
    while n_outer > 0 and (n_inner < SHORT_ROW or n_inner * shape[n_outer - 1] <= ROW):
        n_outer -= 1
        n_inner *= shape[n_outer]
    return n_outer

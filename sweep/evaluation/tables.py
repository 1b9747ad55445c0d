"""The inputs of a model's pass over a box of the grid: small tables, and their layout in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sweep.compiler.looped import memory
from sweep.compiler.program import parts_of
from sweep.compiler.source import (
    CLOCK_INPUTS,
    LAUNCH_INPUTS,
    Pass,
    input_names,
    nominal,
    sequences_of,
)
from sweep.evaluation import limits
from sweep.evaluation.counts import StepCache
from sweep.evaluation.launch import Launch, build_launch, build_workload
from sweep.fields import STATUS
from sweep.hardware.clocks import power_inputs
from sweep.models import get_model
from sweep.models.base import Model
from sweep.models.workload import Array
from sweep.space import Box, KernelSpace, Plan

Index = tuple[slice, ...]

MISSING = float(STATUS["missing_parameters"])
CONSTRAINT = float(STATUS["constraint"])


class Tables:
    """Tables of all models over a box, each computed when it is first asked for.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    box : Box
        The part of :attr:`KernelSpace.clocked`.
    steps : StepCache, optional
        Avoids computing again what is the same as in the box before with the same cache.
    """

    def __init__(self, space: KernelSpace, box: Box, steps: StepCache | None = None) -> None:
        self.box = box
        self.launch: Launch = build_launch(space, box, steps)
        self._inputs: dict[tuple[object, ...], Mapping[str, Array]] = {}

    def inputs(self, plan: Plan, model: str) -> Mapping[str, Array]:
        """Return a model's inputs by name."""
        # Two threads may both compute them the first time: the same numbers, no lock needed.
        options = plan.options.get(model, {})
        key = (model, plan.variant, *sorted(options.items()))
        if key not in self._inputs:
            self._inputs[key] = pass_inputs(self.launch, get_model(model), plan.variant, options)
        return self._inputs[key]


def tables_of(space: KernelSpace, box: Box, steps: StepCache | None = None) -> Tables:
    """Return tables that cover a box; those of a small grid are computed once for all boxes."""
    return _whole_tables(space) if is_small(space) else Tables(space, box, steps)


@lru_cache(maxsize=2)  # work goes kernel by kernel: the one before and the one at hand
def _whole_tables(space: KernelSpace) -> Tables:
    return Tables(space, space.clocked.whole)


def is_small(space: KernelSpace) -> bool:
    """Whether tables over the whole grid take little memory."""
    shape = space.clocked.shape
    launches, pairs = math.prod(shape[:-2]), shape[0] * math.prod(shape[-2:])
    return max(launches, pairs) <= limits.WHOLE_TABLES


def restricted(table: Array, index: Index) -> Array:
    """Return the part of a table, which has length 1 along what it does not depend on."""
    return table[
        tuple(slice(None) if n == 1 else part for n, part in zip(table.shape, index, strict=True))
    ]


def model_inputs(
    launch: Launch, model: Model, variant: str, options: Mapping[str, str]
) -> dict[str, Array]:
    """Return what a model's pass reads over a box, and all arguments of the body, by name."""
    inputs = pass_inputs(launch, model, variant, options)
    length = sequence_length(inputs, model)
    for i in (i for i in model.inputs if i.factor):
        for name in parts_of(i.symbol, length if i.sequence else None):
            with np.errstate(all="ignore"):
                inputs[name] = inputs[nominal(name)] * inputs[i.factor]
    return inputs


def pass_inputs(
    launch: Launch, model: Model, variant: str, options: Mapping[str, str]
) -> dict[str, Array]:
    """Return every input of a model's pass over a box, by name.

    A parameter that a device lacks is NaN after the paper's ``prepare``; it becomes the status
    ``missing_parameters`` here.
    """
    workload = build_workload(launch, model, options)
    with np.errstate(all="ignore"):
        inputs, length = _flat(model.prepare(workload, variant), model)
    clocks = workload.clocks
    inputs.update(power_inputs(launch.devices, clocks.core, clocks.memory))
    launch_names, clock_names = input_names(model, length)
    status, clock_status = launch.status, launch.clock_status
    for name in launch_names[len(LAUNCH_INPUTS) :]:
        if _has_nan(inputs[name]):
            # Without parameters the model says nothing at all, whatever the launch.
            is_missing = np.isnan(inputs[name]) & (status != CONSTRAINT)
            status = np.where(is_missing, MISSING, status)
    for name in clock_names[len(CLOCK_INPUTS) :]:
        if _has_nan(inputs[name]):
            clock_status = np.where(np.isnan(inputs[name]), MISSING, clock_status)
    inputs.update(launch_status=status, clock_status=clock_status, core_hz=clocks.core)
    for name in clock_names:  # as a pass reads them, so that no chunk has to lay them out again
        table = inputs[name]
        if math.prod(table.shape[1:-2]) != 1:
            raise AssertionError(f"{model.name}: {name} depends on the launch: give its factor")
        spread = np.broadcast_to(table, table.shape[:-2] + clocks.ratio.shape[-2:])
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
        values: Any = prepared[i.symbol]
        if i.sequence:
            length = len(values)
        else:
            values = [np.asarray(values, np.float64)]
        names = parts_of(i.symbol, length if i.sequence else None)
        inputs.update(zip(map(nominal, names) if i.factor else names, values, strict=True))
        if i.factor:
            inputs[i.factor] = np.asarray(prepared[i.factor], dtype=np.float64)
    return inputs, length


def sequence_length(inputs: Mapping[str, Array], model: Model) -> int:
    """Return how many numbers the sequence inputs have."""
    names = [nominal(i.symbol) if i.factor else i.symbol for i in model.inputs if i.sequence]
    return sum(part in inputs for name in names[:1] for part in parts_of(name, len(inputs)))


# ---------------------------------------------------------------------------- the layout


@dataclass(frozen=True)
class Packed:
    """A pass's inputs: tables as contiguous rows, where in them each input begins, and its strides.

    ``varying`` are the inputs of the form ``sizes`` that are read along the inner loop.
    """

    form: str
    length: int
    tables: tuple[Array, ...]
    begins: Any
    stride: Any
    shape: Any
    n_inner: int
    n_rows: int
    varying: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of a pass before its output arrays."""
        held = memory(self.length)
        return self.tables, self.begins, self.stride, self.shape, self.n_inner, held

    def read_by(self, model: str, variant: str, outputs: tuple[str, ...], keeps: str = "") -> Pass:
        """Return the pass that reads them, for :func:`sweep.compiler.passes.get_pass`."""
        return Pass(model, variant, self.form, outputs, self.length, keeps, self.varying)


def pack(
    model: Model,
    inputs: Mapping[str, Array],
    covered: Box,
    box: Box,
    form: str | None = None,
    spread: Collection[str] = (),
    rows: dict[str, tuple[Any, Array, list[int]]] | None = None,
) -> Packed:
    """Lay out the tables of a box for a pass.

    A table keeps length 1 along what it does not depend on (stride 0). Only along the inner loop's
    axes is it spread out, so that the loop reads contiguous rows.

    Parameters
    ----------
    model : Model
        The model.
    inputs : mapping
        Every input of the model's pass.
    covered : Box
        The box that the inputs cover.
    box : Box
        The part of it that the pass is about.
    form : str, optional
        Form of the pass; follows from the shape by default.
    spread : collection of str
        Inputs that are spread out in the form ``sizes`` even if they are constant.
    rows : dict, optional
        Rows of the box before; those that do not depend on where the box has moved are kept.
    """
    shape, index, rows = box.shape, box.within(covered), {} if rows is None else rows
    length = sequence_length(inputs, model)
    launch_names, clock_names = input_names(model, length)
    form = form or form_of(shape)
    n_outer = _outer_axes(shape, form)
    inner = shape[n_outer:]
    found = {name: restricted(inputs[name], index) for name in launch_names + clock_names}
    together = {p: parts for parts in sequences_of(model, length).values() for p in parts}
    varying = []
    for name, table in found.items():
        is_spread = form == "rows" or name in clock_names
        if form == "sizes":
            own = together.get(name, (name,))
            is_spread = any(n in spread or math.prod(found[n].shape[n_outer:]) > 1 for n in own)
        # Along an axis of one place nothing shows whether the table depends on it.
        places = [
            None if extent == 1 < n else (start, n)
            for extent, n, start in zip(table.shape, shape, box.start, strict=True)
        ]
        key = (form, inner if is_spread else None, places)
        if name not in rows or rows[name][0] != key:
            if not is_spread and math.prod(table.shape[n_outer:]) != 1:
                raise AssertionError(f"{model.name}: input {name} depends on the clocks")
            rows[name] = key, *_row(table, n_outer, inner if is_spread else (1,) * len(inner))
        if is_spread:
            varying.append(name)
    tables, begins = [], []
    for parts in dict.fromkeys(together.get(name, (name,)) for name in found):
        numbers = [rows[name][1] for name in parts]
        tables.append(numbers[0] if len(parts) == 1 else _joined(numbers))
        begins += [0, *itertools.accumulate(len(one) for one in numbers[:-1])]
    strides = [rows[name][2] for name in found]
    return Packed(
        form=form,
        length=length,
        tables=tuple(tables),
        begins=np.array(begins, dtype=np.uint64),
        stride=np.array(strides, dtype=np.int64).reshape(len(found), n_outer),
        shape=np.array(shape[:n_outer], dtype=np.int64),
        n_inner=math.prod(inner),
        n_rows=math.prod(shape[:n_outer]),
        varying=tuple(varying) if form == "sizes" else (),
    )


def _joined(numbers: Sequence[Array]) -> Array:
    joined = np.concatenate(numbers)
    joined.flags.writeable = False
    return joined


def _row(table: Array, n_outer: int, inner: tuple[int, ...]) -> tuple[Array, list[int]]:
    """Return a table's numbers with its inner axes spread out, and the strides of the others."""
    table = np.broadcast_to(table, table.shape[:n_outer] + inner)
    step, stride = math.prod(inner), []
    for extent in reversed(table.shape[:n_outer]):
        stride.append(0 if extent == 1 else step)
        step *= extent
    numbers = np.ascontiguousarray(table, dtype=np.float64).reshape(-1)
    numbers.flags.writeable = False  # some are, as broadcast: one type, one compilation
    return numbers, stride[::-1]


def form_of(shape: tuple[int, ...]) -> str:
    """Return the form of the pass over a box of the given shape (clocks included)."""
    return "clocks" if shape[-2] * shape[-1] >= limits.CLOCKS_FORM else "rows"


def _outer_axes(shape: tuple[int, ...], form: str) -> int:
    """Return the number of axes outside the inner loop."""
    if form == "clocks":
        return len(shape) - 2
    if form == "sizes":
        return len(shape) - 3
    n_outer, n_inner = len(shape), 1
    while n_outer > 0 and (
        n_inner < limits.SHORT_ROW or n_inner * shape[n_outer - 1] <= limits.ROW
    ):
        n_outer -= 1
        n_inner *= shape[n_outer]
    return n_outer

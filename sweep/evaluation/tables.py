"""The inputs of a model's pass over a box of the grid: small tables, and their layout in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
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
from sweep.errors import ModelError
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


def with_long_rows(space: KernelSpace, box: Box) -> tuple[KernelSpace, Box, int]:
    """Return a space and a box of it in an order of axes that NumPy's inner loops like.

    Where the last launch axis is short the longest one comes behind it. The third value is the
    place of what is now the axis before the clocks, counted from the end.
    """
    launch = box.shape[1:-2]
    longest = max(launch, default=1)
    if longest < limits.SIZES or next(n for n in launch[::-1] if n > 1) >= limits.SHORT_ROW:
        return space, box, -3
    axis = 1 + launch.index(longest)
    ends = ((*e[:axis], *e[axis + 1 : -2], e[axis], *e[-2:]) for e in (box.start, box.stop))
    return space.with_last(space.clocked.names[axis]), Box(*ends), axis - len(box.shape)


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
        if math.prod(inputs[name].shape[-2:]) != 1:
            text = f"model '{model.name}': input '{name}' depends on the clocks"
            raise ModelError(f"{text}: declare it clocked (see sweep.models.base.Input)")
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
            text = f"model '{model.name}': input '{name}' depends on launch and clocks"
            raise ModelError(f"{text}: give its factor (see sweep.models.base.Input)")
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
    first = next(iter(sequences_of(model, len(inputs)).values()), ())
    return sum(part in inputs for part in first)


# ---------------------------------------------------------------------------- the layout


class Row:
    """The numbers of an input, or of a sequence one after another, as a pass reads them."""

    def __init__(self) -> None:
        self._memory = self._numbers = np.empty(0)
        self._keys: list[Any] = []

    def take(self, tables: Sequence[Array], keys: list[Any], size: int) -> Array:
        """Return the numbers of tables, written over those before where a key has changed.

        A key has where its table's numbers begin, the shape to which they are spread out, and what
        else decides them; there are ``size`` numbers.
        """
        if keys == self._keys:
            return self._numbers
        if len(tables) == 1 and tables[0].shape == keys[0][1] and tables[0].flags.c_contiguous:
            self._memory, self._numbers = np.empty(0), np.asarray(tables[0], float).reshape(-1)
        else:
            if self._memory.size != size:
                self._memory, self._keys = np.empty(size), []
            for table, key, known in itertools.zip_longest(tables, keys, self._keys):
                if key != known:
                    place = slice(key[0], key[0] + math.prod(key[1]))
                    _spread(table, self._memory[place].reshape(key[1]))
            self._numbers = self._memory.view()
        self._numbers.flags.writeable = False  # as broadcast tables: one type, one compilation
        self._keys = keys
        return self._numbers


def _spread(table: Array, out: Array) -> None:
    """Write a table to memory of the shape to which it is spread out."""
    axes = [i for i, n in enumerate(table.shape) if n < out.shape[i]]
    if axes:  # what is repeated along the first of them is contiguous first: a fifth of the time
        part = table.shape[: axes[0] + 1] + out.shape[axes[0] + 1 :]
        table = np.ascontiguousarray(np.broadcast_to(table, part))
    out[...] = table


@dataclass(frozen=True)
class Packed:
    """A pass's inputs: tables as contiguous rows, where in them each input begins, and its strides.

    ``varying`` are the inputs of the form ``sizes`` that are read along the inner loop, ``zeros``
    the model's switches that are 0 everywhere.
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
    zeros: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of a pass before its output arrays."""
        return self.tables, self.begins, self.stride, self.shape, self.n_inner, memory(self.length)

    def read_by(self, model: str, variant: str, outputs: tuple[str, ...], keeps: str = "") -> Pass:
        """Return the pass that reads them, for :func:`sweep.compiler.passes.get_pass`."""
        return Pass(
            model, variant, self.form, outputs, self.length, keeps, self.varying, self.zeros
        )


def pack(
    model: Model,
    inputs: Mapping[str, Array],
    covered: Box,
    box: Box,
    form: str | None = None,
    spread: Collection[str] = (),
    rows: dict[tuple[str, ...], Row] | None = None,
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
        Rows of the box before, by their inputs. Those that do not depend on where the box has moved
        are kept; others are written over.
    """
    shape, index, rows = box.shape, box.within(covered), {} if rows is None else rows
    length = sequence_length(inputs, model)
    launch_names, clock_names = input_names(model, length)
    form = form or form_of(shape)
    n_outer = _outer_axes(shape, form)
    inner = shape[n_outer:]
    # Along an axis of one place nothing shows whether a table depends on it.
    start_of = cache(lambda extents: tuple(
        None if n == 1 < here else begin
        for n, here, begin in zip(extents, shape, box.start, strict=True)
    ))  # fmt: skip
    found = {name: restricted(inputs[name], index) for name in launch_names + clock_names}
    sequences = sequences_of(model, length)
    together = {p: parts for parts in sequences.values() for p in parts}
    switches = {i.symbol: sequences.get(i.symbol, (i.symbol,)) for i in model.inputs if i.is_switch}
    zeros = tuple(s for s, parts in switches.items() if not any(inputs[p].any() for p in parts))
    tables, begins, strides, varying = [], [], [], list[str]()
    for parts in dict.fromkeys(together.get(name, (name,)) for name in found):
        is_spread = form == "rows" or parts[0] in clock_names
        if form == "sizes":
            is_spread = any(n in spread or math.prod(found[n].shape[n_outer:]) > 1 for n in parts)
        varying += parts if is_spread else ()
        along = inner if is_spread else (1,) * len(inner)
        own = [found[name] for name in parts]
        shapes = [table.shape[:n_outer] + along for table in own]
        *first, size = itertools.accumulate(map(math.prod, shapes), initial=0)
        keys = [*zip(first, shapes, (start_of(inputs[name].shape) for name in parts), strict=True)]
        tables.append(rows.setdefault(parts, Row()).take(own, keys, size))
        begins += first
        strides += [_strides(extents[:n_outer], math.prod(along)) for extents in shapes]
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
        zeros=zeros,
    )


@lru_cache
def _strides(extents: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return a table's strides, 0 along what it does not depend on; the last one is ``step``."""
    return tuple(0 if n == 1 else step * math.prod(extents[i:]) for i, n in enumerate(extents, 1))


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

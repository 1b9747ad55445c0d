"""The inputs of a model's pass over a box of the grid, as small tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from sweep.compiler.passes import CLOCK_INPUTS, LAUNCH_INPUTS, input_names, nominal, parts_of
from sweep.evaluation import limits
from sweep.evaluation.launch import Launch, build_launch, build_workload
from sweep.evaluation.step_cache import StepCache
from sweep.fields import STATUS
from sweep.hardware.power import power_inputs
from sweep.models import get_model
from sweep.models.base import Model
from sweep.models.workload import Array
from sweep.space import Box, KernelSpace, Plan

__all__ = [
    "Index",
    "Tables",
    "canonical",
    "canonical_index",
    "canonical_parts",
    "is_small",
    "model_inputs",
    "pass_inputs",
    "restrict",
    "sequence_length",
    "tables_of",
    "with_last",
]

T = TypeVar("T")
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
        The part of the grid.
    steps : StepCache, optional
        Spares what is the same as in the box before with the same cache.
    last : int, optional
        The dimension whose axis comes after all others but the clocks.
    """

    def __init__(
        self,
        space: KernelSpace,
        box: Box,
        steps: StepCache | None = None,
        last: int | None = None,
    ) -> None:
        self.index: Index = tuple(slice(0, n) for n in with_last(canonical(space, box), last))
        self.launch: Launch = build_launch(space, box, steps, last)
        self._inputs: dict[tuple[object, ...], Mapping[str, Array]] = {}

    def part(self, index: Index) -> Tables:
        """Return the same tables for a part of their box."""
        found = object.__new__(Tables)
        found.index, found.launch, found._inputs = index, self.launch, self._inputs
        return found

    def inputs(self, plan: Plan, model: str) -> dict[str, Array]:
        """Return a model's inputs by name."""
        # Two threads may both compute them the first time: the same numbers, no lock needed.
        options = plan.options.get(model, {})
        key = (model, plan.variant, *sorted(options.items()))
        if key not in self._inputs:
            self._inputs[key] = pass_inputs(self.launch, get_model(model), plan.variant, options)
        tables = self._inputs[key].items()
        return {name: table[restrict(table, self.index)] for name, table in tables}


def tables_of(
    space: KernelSpace,
    box: Box,
    steps: StepCache | None = None,
    last: int | None = None,
) -> Tables:
    """Return the tables of a box; those of a small grid are computed once for all boxes."""
    if is_small(space):
        return _whole_tables(space).part(canonical_index(space, box))
    return Tables(space, box, steps, last)


@lru_cache(maxsize=2)  # work goes kernel by kernel: the one before and the one at hand
def _whole_tables(space: KernelSpace) -> Tables:
    return Tables(space, space.grid.whole)


def is_small(space: KernelSpace) -> bool:
    """Whether tables over the whole grid take little memory."""
    whole = canonical(space, space.grid.whole)
    launches, pairs = math.prod(whole[:-2]), whole[0] * math.prod(whole[-2:])
    return max(launches, pairs) <= limits.WHOLE_TABLES


def canonical_parts(space: KernelSpace, parts: Sequence[T], absent: T) -> tuple[T, ...]:
    """Return something per dimension of the grid with both clocks, last, always present."""
    kinds = [d.kind for d in space.grid.dimensions]
    found = [p for p, kind in zip(parts, kinds, strict=True) if kind not in ("core", "memory")]
    for clock in ("core", "memory"):
        found.append(parts[kinds.index(clock)] if clock in kinds else absent)
    return tuple(found)


def canonical_index(space: KernelSpace, box: Box) -> Index:
    """Return a box as slices over the grid's axes with both clocks present."""
    return canonical_parts(space, box.slices, slice(0, 1))


def canonical(space: KernelSpace, box: Box) -> tuple[int, ...]:
    """Return a box's extent along the grid's axes with both clocks present."""
    return canonical_parts(space, box.shape, 1)


def with_last(parts: tuple[T, ...], last: int | None) -> tuple[T, ...]:
    """Return something per axis with one axis moved to the end, before the clocks."""
    if last is None:
        return parts
    return (*parts[:last], *parts[last + 1 : -2], parts[last], *parts[-2:])


def restrict(table: Array, index: Index) -> Index:
    """Return the index of a box into a table that has length 1 along some axes."""
    whole = slice(None)
    return tuple(
        whole if extent == 1 else part for extent, part in zip(table.shape, index, strict=True)
    )


def model_inputs(
    launch: Launch, model: Model, variant: str, options: Mapping[str, str]
) -> dict[str, Array]:
    """Return what a model's pass reads over a box, and all arguments of the body, by name."""
    inputs = pass_inputs(launch, model, variant, options)
    for i in model.inputs:
        if i.factor:
            length = sequence_length(inputs, model)
            names = parts_of(i.symbol, length) if i.sequence else (i.symbol,)
            with np.errstate(all="ignore"):
                inputs.update({n: inputs[nominal(n)] * inputs[i.factor] for n in names})
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
        if not any(inputs[name] is t for t in launch.sound) and _has_nan(inputs[name]):
            missing = np.isnan(inputs[name])
            # Without parameters the model says nothing at all, whatever the launch.
            status = np.where(missing & (status != CONSTRAINT), MISSING, status)
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


def sequence_length(inputs: Mapping[str, Array], model: Model) -> int:
    """Return how many numbers the sequence inputs have."""
    for i in model.inputs:
        if i.sequence:
            length, symbol = 0, nominal(i.symbol) if i.factor else i.symbol
            while f"{symbol}_{length}" in inputs:
                length += 1
            return length
    return 0

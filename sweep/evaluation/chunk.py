"""Evaluation of a box of the grid, in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from sweep.evaluation._passes import get_pass
from sweep.evaluation.tables import form_of, model_inputs, pack
from sweep.evaluation.variables import Variable, variables
from sweep.evaluation.workloads import Launch, build_launch
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan

__all__ = ["Buffers", "evaluate_box", "warm_up"]

WHOLE_TABLES = 2_000_000
"""Launch configurations, and clock pairs, up to which tables are computed once for the whole
grid."""
BLOCK = 1 << 18
"""Configurations of one call of a pass, except where tables are small beside results: bounds the
memory of tables that are spread over the inner loop's axes."""

LAUNCH_SOURCES = (
    "occupancy",
    "active_blocks_per_sm",
    "active_warps_per_sm",
    "threads_per_block",
    "blocks",
    "occupancy_limiter",
)


Buffers = dict[str, np.ndarray]
"""Memory of results, by variable, to be used again for the next box."""


def evaluate_box(
    space: KernelSpace,
    plan: Plan,
    box: Box,
    wanted: Sequence[Variable] | None = None,
    buffers: Buffers | None = None,
) -> dict[str, np.ndarray]:
    """Evaluate all models of a plan over a box.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant, precision and options.
    box : Box
        The part of the grid.
    wanted : sequence of Variable, optional
        What to compute; all variables of the plan by default.
    buffers : dict, optional
        Where results lie, filled as needed: the caller has done with the last box's results when
        it evaluates the next with the same buffers. Fresh memory costs as much as the evaluation.

    Returns
    -------
    dict
        Variable name to array with the variable's dimensions, in the plan's precision.
    """
    wanted = tuple(variables(space, plan) if wanted is None else wanted)
    shape = _canonical(space, box)
    tables = _tables(space, plan, box)
    n_models = len(plan.models)
    result: dict[str, np.ndarray] = {}
    for variable in wanted:
        if variable.source in LAUNCH_SOURCES and variable.model is None:
            result[variable.name] = _launch_variable(variable, tables.launch, tables.index[:-2])
        else:
            models = (n_models,) if variable.model is None else ()
            result[variable.name] = _memory(variable, models + box.shape, buffers)
    for i, name in enumerate(plan.models):
        outputs, arrays = [], []
        for variable in wanted:
            if variable.source in LAUNCH_SOURCES or variable.model not in (None, name):
                continue
            array = result[variable.name]
            outputs.append(variable.source)
            arrays.append(array if variable.model else array[i])
        if outputs:
            _run(tables.inputs(name), plan, name, shape, tuple(outputs), arrays)
    return result


def _memory(variable: Variable, shape: tuple[int, ...], buffers: Buffers | None) -> np.ndarray:
    """Return an array for a variable's results, its content arbitrary."""
    if buffers is None:
        return np.empty(shape, variable.dtype)
    size = math.prod(shape)
    held = buffers.get(variable.name)
    if held is None or held.size < size:
        held = buffers[variable.name] = np.empty(size, variable.dtype)
    return held[:size].reshape(shape)


class _Tables:
    """Tables of all models over a box, restricted from the whole grid where that is small."""

    def __init__(self, space: KernelSpace, plan: Plan, box: Box) -> None:
        self.space, self.plan, self.box = space, plan, box
        self.index = tuple(slice(0, n) for n in _canonical(space, box))
        self.launch: Launch = build_launch(space, box)
        self._inputs: dict[str, Mapping[str, np.ndarray]] = {}

    def inputs(self, name: str) -> Mapping[str, np.ndarray]:
        # Two threads may both compute them the first time: the same numbers, no lock needed.
        if name not in self._inputs:
            options = self.plan.options.get(name, {})
            self._inputs[name] = model_inputs(
                self.space, self.box, self.launch, get_model(name), self.plan.variant, options
            )
        return self._inputs[name]


class _Part:
    """A box's view of tables over the whole grid."""

    def __init__(self, whole: _Tables, index: tuple[slice, ...]) -> None:
        self.launch, self._whole, self.index = whole.launch, whole, index

    def inputs(self, name: str) -> Mapping[str, np.ndarray]:
        return {
            key: table[_restrict(table, self.index)]
            for key, table in self._whole.inputs(name).items()
        }


def _restrict(table: np.ndarray, index: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return the index of a box into a table that has length 1 along some axes."""
    whole = slice(None)
    return tuple(
        whole if extent == 1 else part for extent, part in zip(table.shape, index, strict=True)
    )


def _canonical_index(space: KernelSpace, box: Box) -> tuple[slice, ...]:
    """Return a box as slices over the grid's axes with both clocks present."""
    kinds = [d.kind for d in space.grid.dimensions]
    index = [s for s, kind in zip(box.slices, kinds, strict=True) if kind not in ("core", "memory")]
    for clock in ("core", "memory"):
        index.append(box.slices[kinds.index(clock)] if clock in kinds else slice(0, 1))
    return tuple(index)


def _canonical(space: KernelSpace, box: Box) -> tuple[int, ...]:
    return tuple(s.stop - s.start for s in _canonical_index(space, box))


@lru_cache(maxsize=8)
def _whole_tables(key: _Key) -> _Tables:
    return _Tables(key.space, key.plan, key.space.grid.whole)


class _Key:
    """A space and plan as a cache key, compared by identity: both are immutable."""

    def __init__(self, space: KernelSpace, plan: Plan) -> None:
        self.space, self.plan = space, plan

    def __hash__(self) -> int:
        return hash((id(self.space), id(self.plan)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.space is self.space and other.plan is self.plan


def _tables(space: KernelSpace, plan: Plan, box: Box) -> _Tables | _Part:
    whole = _canonical(space, space.grid.whole)
    launches, pairs = math.prod(whole[:-2]), whole[0] * math.prod(whole[-2:])
    if max(launches, pairs) > WHOLE_TABLES:
        return _Tables(space, plan, box)
    return _Part(_whole_tables(_Key(space, plan)), _canonical_index(space, box))


def _launch_variable(variable: Variable, launch: Launch, index: tuple[slice, ...]) -> np.ndarray:
    """Return a variable that only the launch decides, spread over its dimensions."""
    work = launch.workload
    name = "limiter" if variable.source == "occupancy_limiter" else variable.source
    table = getattr(work.occupancy if hasattr(work.occupancy, name) else work, name)
    values, status = (t[..., 0, 0][_restrict(t[..., 0, 0], index)] for t in (table, launch.status))
    values = np.where(status == 0, values, 0 if variable.is_code else np.nan)
    shape = tuple(s.stop - s.start for s in index)
    return np.broadcast_to(values, shape).astype(variable.dtype)


def _run(
    inputs: Mapping[str, np.ndarray],
    plan: Plan,
    name: str,
    shape: tuple[int, ...],
    outputs: tuple[str, ...],
    arrays: list[np.ndarray],
) -> None:
    """Fill the output arrays of one model over a box, block by block."""
    model = get_model(name)
    for index in _blocks(shape):
        part = {key: table[_restrict(table, index)] for key, table in inputs.items()}
        packed = pack(part, model, tuple(s.stop - s.start for s in index))
        compiled = get_pass(name, plan.variant, packed.form, outputs, packed.length)
        rows = (packed.n_rows, packed.n_inner)
        views = [array.reshape(shape)[index].reshape(rows) for array in arrays]
        with np.errstate(all="ignore"):
            compiled(*packed.arguments, *views)


def _blocks(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Cut a box along its first axes into contiguous blocks of at most BLOCK points.

    A box with launches besides clocks is one block: its tables have a number for each launch and
    for each pair of clocks, its results for each of both.
    """
    is_one = form_of(shape) == "clocks" and math.prod(shape[-2:]) <= 2 * BLOCK
    if is_one or math.prod(shape) <= BLOCK:
        return [tuple(slice(0, n) for n in shape)]
    axis, inner = 0, math.prod(shape[1:])
    while inner > BLOCK and axis < len(shape) - 1:
        axis += 1
        inner //= shape[axis]
    step = max(1, BLOCK // inner)
    blocks: list[tuple[slice, ...]] = []
    for lead in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], step):
            cut = slice(start, min(start + step, shape[axis]))
            rest = tuple(slice(0, n) for n in shape[axis + 1 :])
            blocks.append((*(slice(i, i + 1) for i in lead), cut, *rest))
    return blocks


def warm_up(spaces: Sequence[KernelSpace], plan: Plan) -> None:
    """Compile every pass that a run will need, before the clock starts."""
    for space in spaces:
        dimensions = zip(space.grid.dimensions, space.grid.box(0).stop, strict=True)
        # The form of a pass follows from the number of clocks.
        stop = tuple(n if d.kind in ("core", "memory") else 1 for d, n in dimensions)
        evaluate_box(space, plan, Box((0,) * len(stop), stop))

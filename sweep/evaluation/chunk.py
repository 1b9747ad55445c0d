"""Evaluation of a box of the grid, or of single points, in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sweep.compiler.arrays import get_arrays_pass
from sweep.compiler.passes import get_pass
from sweep.compiler.source import Pass
from sweep.evaluation import limits
from sweep.evaluation.counts import StepCache
from sweep.evaluation.launch import Launch, clock_on_devices
from sweep.evaluation.power_limit import devices_at, limits_of, lower_clocks
from sweep.evaluation.tables import (
    Row,
    Tables,
    form_of,
    is_small,
    pack,
    restricted,
    sequence_length,
    tables_of,
    with_long_rows,
)
from sweep.evaluation.variables import Variable, variables
from sweep.fields import STATUS, Array
from sweep.models import get_model
from sweep.models.base import Model
from sweep.space import Box, KernelSpace, Plan, cut_box


class Buffers(dict[str, Array]):
    """Memory of results by variable, used again for the next box; and the cache of tables.

    Parameters
    ----------
    for_spaces : bool
        Whether the next box is of another small space with some of the same dimensions: its tables
        then take what they can from those before, and are not kept with their space.
    """

    def __init__(self, *, for_spaces: bool = False) -> None:
        super().__init__()
        self.steps = StepCache()
        self.for_spaces = for_spaces

    def array(self, variable: Variable, shape: tuple[int, ...]) -> Array:
        """Return an array for a variable's results, its content arbitrary."""
        size = math.prod(shape)
        held = self.get(variable.name)
        if held is None or held.size < size:
            held = self[variable.name] = np.empty(size, variable.dtype)
        return held[:size].reshape(shape)


def evaluate_box(
    space: KernelSpace,
    plan: Plan,
    box: Box,
    wanted: Sequence[Variable] | None = None,
    buffers: Buffers | None = None,
) -> dict[str, Array]:
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
    buffers : Buffers, optional
        Memory for the results: those of the last box with the same buffers are overwritten. Fresh
        memory costs as much as the evaluation.

    Returns
    -------
    dict
        Variable name to array with the variable's dimensions, in the plan's precision.
    """
    wanted = tuple(variables(space, plan) if wanted is None else wanted)
    buffers = Buffers() if buffers is None else buffers
    sizes = {"model": len(plan.models), **dict(zip(space.grid.names, box.shape, strict=True))}
    result = {v.name: buffers.array(v, tuple(sizes[d] for d in v.dims)) for v in wanted}
    whole = space.clocked_box(box)
    views = {}
    for v in wanted:
        clocks = (1, 1) if v.is_launch else whole.shape[-2:]
        views[v.name] = result[v.name].reshape((*_models(plan, v), *whole.shape[:-2], *clocks))
    parts = [whole]
    if not is_small(space) and form_of(whole.shape) == "rows":
        space, whole, axis = with_long_rows(space, whole)
        views = {name: np.moveaxis(view, axis, -3) for name, view in views.items()}
        parts = list(cut_box(whole, limits.LAUNCHES))
    is_compiled = space.n_points > limits.UNCOMPILED
    for part in parts:
        made = Tables if buffers.for_spaces else tables_of
        tables = made(space, part, buffers.steps)
        inside: Any = (..., *part.within(whole))
        arrays = {name: view[inside] for name, view in views.items()}
        pick = partial(restricted, index=part.within(tables.box))
        _fill_launch(tables.launch, wanted, pick, arrays)
        for name in plan.models:
            own = _of_model(plan, name, wanted, arrays)
            _fill_model(plan, name, own, part, tables.box, tables.inputs(plan, name), is_compiled)
            for device in limits_of(space, plan):
                _lower_clocks(space, plan, name, device, own, part, tables)
    return result


def _models(plan: Plan, variable: Variable) -> tuple[int, ...]:
    """Return the first lengths of a variable's array: the number of models, or nothing."""
    return (len(plan.models),) if "model" in variable.dims else ()


def _fill_launch(
    launch: Launch,
    wanted: Sequence[Variable],
    pick: Callable[[Array], Array],
    arrays: Mapping[str, Array],
) -> None:
    """Fill the variables that only the launch decides; ``pick`` takes their part of a table."""
    work = launch.workload
    for variable in (v for v in wanted if v.is_launch):
        name = "limiter" if variable.source == "occupancy_limiter" else variable.source
        table = getattr(work.occupancy if hasattr(work.occupancy, name) else work, name)
        absent = 0 if variable.is_code else np.nan
        arrays[variable.name][...] = np.where(pick(launch.status) == 0, pick(table), absent)


def _fill_model(
    plan: Plan,
    name: str,
    results: Mapping[str, Array],
    box: Box,
    covered: Box,
    inputs: Mapping[str, Array],
    is_compiled: bool,
) -> None:
    """Fill the results of a plan's model over a box, whose inputs cover another one."""
    if not results:
        return
    model = get_model(name)
    fill = partial(_fill_compiled, {}) if is_compiled else _fill_by_numpy
    for block in blocks(box) if is_compiled else cut_box(box, limits.ARRAYS):
        inside = block.within(box)
        of_block = {output: array[inside] for output, array in results.items()}
        fill(model, plan.variant, inputs, covered, block, of_block)


def _of_model(
    plan: Plan, name: str, wanted: Sequence[Variable], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the arrays of what a plan's model gives, by the names that passes know."""
    number = plan.models.index(name)
    own = [v for v in wanted if not v.is_launch and v.model in (None, name)]
    return {v.source: arrays[v.name] if v.model else arrays[v.name][number] for v in own}


def _lower_clocks(
    space: KernelSpace,
    plan: Plan,
    name: str,
    device: int,
    results: Mapping[str, Array],
    box: Box,
    tables: Tables,
) -> None:
    """Replace a model's results of what is above a device's power limit, in a box."""
    devices = range(space.clocked.shape[0])[devices_at(space, device)]
    start, stop = max(box.start[0], devices.start), min(box.stop[0], devices.stop)
    if not results or start >= stop:
        return
    for block in cut_box(Box((start, *box.start[1:]), (stop, *box.stop[1:])), limits.ARRAYS):
        index = block.within(tables.box)
        inputs = {n: restricted(table, index) for n, table in tables.inputs(plan, name).items()}
        places = np.ix_(*(np.arange(*ends) for ends in zip(block.start, block.stop, strict=True)))
        found = {n: array[block.within(box)] for n, array in results.items()}
        lower_clocks(space, plan, name, device, inputs, places, found)


def _fill_compiled(
    rows: dict[tuple[str, ...], Row],
    model: Model,
    variant: str,
    inputs: Mapping[str, Array],
    covered: Box,
    block: Box,
    results: Mapping[str, Array],
) -> None:
    """Fill a model's results over a block with its compiled pass."""
    packed = pack(model, inputs, covered, block, rows=rows)
    fill = get_pass(packed.read_by(model.name, variant, tuple(results)))
    # A view that reshapes without a copy, or memory of its own in the pass's order.
    found = [a if a.flags.c_contiguous else np.empty(a.shape, a.dtype) for a in results.values()]
    with np.errstate(all="ignore"):
        fill(*packed.arguments, *(a.reshape(packed.n_rows, packed.n_inner) for a in found))
    for array, values in zip(results.values(), found, strict=True):
        array[...] = values  # no time if they are the same


def _fill_by_numpy(
    model: Model,
    variant: str,
    inputs: Mapping[str, Array],
    covered: Box,
    block: Box,
    results: Mapping[str, Array],
) -> None:
    """Fill a model's results over a block without compilation."""
    length, index = sequence_length(inputs, model), block.within(covered)
    evaluate = get_arrays_pass(Pass(model.name, variant, "rows", tuple(results), length))
    given = {name: np.asarray(restricted(t, index), float) for name, t in inputs.items()}
    with np.errstate(all="ignore"):
        for name, values in evaluate(given).items():
            results[name][...] = values


def blocks(box: Box) -> list[Box]:
    """Cut a box along its first axes into contiguous blocks of at most BLOCK points.

    A box with launches besides clocks is one block: its tables have a number for each launch and
    for each pair of clocks, its results for each of both.
    """
    shape = box.shape
    if form_of(shape) == "clocks" and math.prod(shape[-2:]) <= 2 * limits.BLOCK:
        return [box]
    return list(cut_box(box, limits.BLOCK))


def warm_up(spaces: Sequence[KernelSpace], plan: Plan) -> None:
    """Compile every pass that a run will need, before the clock starts."""
    for space in (s for s in spaces if s.n_points > limits.UNCOMPILED):
        # The form of a pass follows from the clocks in a chunk; the last launch may need more.
        sizes = zip(space.grid.dimensions, space.grid.box(0).stop, space.grid.shape, strict=True)
        sides = [((0, n), (0, n)) if d.is_clock else ((0, 1), (of - 1, of)) for d, n, of in sizes]
        for box in zip(*sides, strict=True):
            evaluate_box(space, plan, Box(*zip(*box, strict=True)))


# ---------------------------------------------------------------------------- single points


def evaluate_points(
    space: KernelSpace,
    plan: Plan,
    points: Mapping[str, Array],
    wanted: Sequence[Variable],
    *,
    is_last: bool = False,
) -> dict[str, Array]:
    """Evaluate all models of a plan at single points of a grid.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant, precision and options.
    points : mapping
        The points' index along every dimension of the grid, arrays of one length.
    wanted : sequence of Variable
        What to compute.
    is_last : bool
        Whether nobody will ask for other points of this kernel: tables then cover these alone,
        even if its grid is small.

    Returns
    -------
    dict
        Variable name to an array over the points; with the model first for what all models give.
    """
    size = len(next(iter(points.values())))
    zeros = np.zeros(size, np.int64)
    places = np.stack([points.get(name, zeros) for name in space.clocked.names])
    found = {v.name: np.empty((*_models(plan, v), size), v.dtype) for v in wanted}
    for chosen, part, index in _sharing_tables(space, places, is_small(space) and not is_last):
        # Tables of a small grid, and of a list, cover the whole.
        tables = (tables_of if part is space else Tables)(part, part.clocked.whole)
        line = Box((0,) * len(index), (*(1,) * (len(index) - 1), len(chosen)))
        pick = partial(_at, index=tuple(index), shape=line.shape)
        arrays = {n: np.empty((*a.shape[:-1], *line.shape), a.dtype) for n, a in found.items()}
        _fill_launch(tables.launch, wanted, pick, arrays)
        along = [axis.reshape(line.shape) for axis in index]
        for name in plan.models:
            inputs = {n: pick(table) for n, table in tables.inputs(plan, name).items()}
            own = _of_model(plan, name, wanted, arrays)
            _fill_model(plan, name, own, line, line, inputs, is_compiled=False)
            for device in limits_of(part, plan):
                lower_clocks(part, plan, name, device, inputs, along, own)
        for name, array in arrays.items():
            found[name][..., chosen] = array.reshape(*found[name].shape[:-1], -1)
    return found


def _sharing_tables(
    space: KernelSpace, places: Array, is_whole: bool
) -> Iterator[tuple[Array, KernelSpace, Array]]:
    """Yield the numbers of points that share tables, a space of them, and their places in it.

    All points share those of the whole grid, or else the launches of each device become a list.
    """
    if is_whole:
        yield np.arange(places.shape[1]), space, places
        return
    shape = space.clocked.shape
    launch = np.ravel_multi_index(tuple(places[:-2]), shape[:-2])  # the device comes first
    launches, inverse = np.unique(launch, return_inverse=True)
    listed = np.stack(np.unravel_index(launches, shape[:-2]))
    ends = np.searchsorted(listed[0], np.arange(shape[0] + 1))
    for device in range(shape[0]):
        for start in range(ends[device], ends[device + 1], limits.LISTED):
            stop = min(start + limits.LISTED, ends[device + 1])
            part = space.restricted({"device": [device]}).listed(listed[1:, start:stop])
            chosen = np.flatnonzero((inverse >= start) & (inverse < stop))
            zeros = np.zeros(len(chosen), np.int64)
            yield chosen, part, np.stack([zeros, inverse[chosen] - start, *places[-2:, chosen]])


def _at(table: Array, index: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """Return a table, with length 1 along what it does not depend on, at points."""
    place = tuple(0 if n == 1 else part for n, part in zip(table.shape, index, strict=True))
    return np.broadcast_to(table[place], index[0].shape).reshape(shape)


# ---------------------------------------------------------------------------- before a run


def obstacles(space: KernelSpace, plan: Plan) -> dict[str, str]:
    """Return why no configuration of a kernel can have a time; empty if one can.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant and options.

    Returns
    -------
    dict
        By device, its commonest status in words. Empty too for a grid of so many launches that
        looking through all of them would take long.
    """
    found: dict[str, str] = {}
    for number, device in enumerate(space.devices):
        pair = _clocks_in_range(space, number)
        if isinstance(pair, str):
            found[device.key] = pair
            continue
        whole = Box((number, *(0,) * (len(space.clocked.shape) - 3), *pair),
                    (number + 1, *space.clocked.shape[1:-2], *(i + 1 for i in pair)))  # fmt: skip
        # Nearly always a few launches show that there is a time.
        if _statuses(space, plan, next(cut_box(whole, limits.FEW_LAUNCHES)))[0]:
            return {}
        counts = np.zeros(256, np.int64)
        for i, box in enumerate(cut_box(whole, limits.LAUNCHES)):
            if i == limits.MOST_BOXES:
                return {}
            counts += _statuses(space, plan, box)
            if counts[0]:
                return {}
        found[device.key] = STATUS.meaning(int(counts.argmax()))
    return found


def _clocks_in_range(space: KernelSpace, number: int) -> tuple[int, ...] | str:
    """Return the index of each clock in a device's range, or what is wrong."""
    devices, found = space.devices[number : number + 1], []
    for dimension in space.clocked.dimensions[-2:]:
        kind, column = dimension.kind, {dimension.name: np.array(dimension.values)}
        hertz, _, low, high, inside = clock_on_devices(kind, column, devices, 1)
        if not inside.any():
            swept = sorted({float(f / 1e6) for f in (hertz.min(), hertz.max())})
            shown = " to ".join(f"{f:g}" for f in swept)
            return f"{kind} clock {shown} MHz outside {low[0] / 1e6:g} to {high[0] / 1e6:g} MHz"
        found.append(int(np.argmax(inside)))
    return tuple(found)


def _statuses(space: KernelSpace, plan: Plan, box: Box) -> Array:
    """Return how often each status occurs before any model runs, over a box and all models."""
    tables = Tables(space, box)
    counts = np.zeros(256, np.int64)
    for name in plan.models:
        inputs = tables.inputs(plan, name)
        launch, clocks = inputs["launch_status"], inputs["clock_status"]
        status = np.broadcast_to(np.where(launch == 0, clocks, launch), box.shape)
        counts += np.bincount(status.astype(np.uint8).ravel(), minlength=256)
    return counts

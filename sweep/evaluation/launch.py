"""The launch of a kernel over a box: counts, occupancy and clocks, for all models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sweep.evaluation.counts import Evaluator, StepCache, device_array
from sweep.evaluation.device_names import (
    device_names,
    device_values,
    memory_side_cache,
    with_memory_side_cache,
)
from sweep.evaluation.reuse import blocks_at_once, reuse_of
from sweep.evaluation.stages import block_of, stages_of, summed
from sweep.fields import STATUS
from sweep.hardware.clocks import clock_ratio
from sweep.hardware.derived import dram_share
from sweep.hardware.occupancy import block_limits, grid_occupancy
from sweep.hardware.occupancy_limits import Limits, limits_for
from sweep.models import stated_facts
from sweep.models.base import Model
from sweep.models.workload import Array, Clocks, Stage, Workload
from sweep.space import Box, Dimension, KernelSpace
from sweep.specs import MATRIX_TYPES, Device, Kernel


@dataclass(frozen=True)
class Launch:
    """What all models share over a box.

    ``values`` has every name that the kernel's expressions may use; ``status`` and
    ``clock_status`` are codes of :data:`sweep.fields.STATUS`; ``workload`` lacks a model's
    parameters.
    """

    devices: tuple[Device, ...]
    values: Mapping[str, Any]
    status: Array
    clock_status: Array
    workload: Workload


def grid_axes(space: KernelSpace) -> tuple[str, ...]:
    """Return the dimensions that decide the number of blocks, and nothing else of a launch."""
    kernel, found = space.kernel, []
    blocks = kernel.expressions.get("launch.blocks")
    read = {name for constraint in space.constraints for name in constraint.names}
    for path, expression in kernel.all_expressions():
        if path != "launch.blocks" and not path.startswith("derived."):
            read |= expression.names
    for dimension in space.grid.dimensions:
        reached = {dimension.name}
        for name, expression in kernel.derived.items():
            if expression.names & reached:
                reached.add(name)
        is_read = read & (reached | {"blocks"}) or dimension.kind not in ("size", "parameter")
        if blocks is not None and blocks.names & reached and not is_read:
            found.append(dimension.name)
    return tuple(found)


Number = Callable[[str, float], Array]
"""Evaluates what a kernel has at a dotted path, or takes a default."""


def build_launch(
    space: KernelSpace, box: Box | None = None, steps: StepCache | None = None
) -> Launch:
    """Evaluate a kernel's expressions, the launch and the occupancy over a part of the grid.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    box : Box, optional
        The part of :attr:`KernelSpace.clocked`; the whole grid by default.
    steps : StepCache, optional
        Avoids computing again what is the same as in the box before with the same cache.
    """
    kernel, ndim = space.kernel, len(space.clocked.shape)
    box = box or space.clocked.whole
    steps = steps or StepCache()
    steps.begin_box()
    devices = steps(_devices, space, box.start[0], box.stop[0])
    limits, names, memory_bandwidth, share = steps(_of_devices, devices, ndim)
    evaluate, clock_columns = _evaluator(space, box, devices, names, steps)
    values, number = evaluate.values, partial(_number, kernel, evaluate)
    asked = _asked(number)
    values.update(asked)
    held = steps(with_memory_side_cache, devices, ndim, values["l2_bytes"])
    evaluate.go_beyond(held, kernel.derived)
    threads, blocks, registers, shared_bytes, columns_of_tensors = asked.values()
    n_sm, warp = values["sm_count"], values["warp_size"]
    block = block_of(kernel, evaluate, threads, warp)
    l2_hits = evaluate.l2_hits(kernel.expressions.get("cache.l2_hit_rate"))
    per_block = steps(block_limits, threads, registers, shared_bytes, limits, columns_of_tensors)
    launched = steps(grid_occupancy, per_block, blocks, limits, n_sm)
    reused = reuse_of(kernel, evaluate, steps(blocks_at_once, per_block.fitting, n_sm, blocks))
    stages, accesses, shared = stages_of(kernel, evaluate, block, l2_hits, reused)
    noted = _parallelism_and_loops(number, evaluate)
    conditions = [part for c in space.constraints for part in evaluate.evaluated(c)]
    status = steps(_launch_status, launched.status, evaluate.failed, *conditions)
    side_bandwidth, side_latency = steps(memory_side_cache, devices, ndim)
    clocks, clock_status = steps(_clocks, devices, ndim, *clock_columns)
    workload = Workload(
        **noted, **_totals(stages, evaluate), **_as_stated(number, kernel),
        threads_per_block=threads, blocks=blocks, lanes=block.lanes, occupancy=launched,
        shared_memory_per_block=shared_bytes, shared_memory_per_sm=values["shared_memory_per_sm"],
        stages=stages, global_accesses=accesses, shared_accesses=shared, l2_hit_rate=l2_hits[0],
        warp_size=warp, n_sm=n_sm, lanes_per_sm=values["lanes_per_sm"],
        memory_bandwidth=memory_bandwidth, dram_share=share, side_bandwidth=side_bandwidth,
        side_latency=side_latency, clocks=clocks, parameters={}, tables={}, options={},
    )  # fmt: skip
    return Launch(devices, values, status, clock_status, workload)


def build_workload(launch: Launch, model: Model, options: Mapping[str, str]) -> Workload:
    """Return the launch's workload with one model's device parameters and options."""
    ndim = launch.workload.n_sm.ndim
    parameters: dict[str, Array] = {}
    tables: dict[str, Any] = {}
    for parameter in model.parameters:
        own = [d.model_parameters.get(model.name, {}).get(parameter.key) for d in launch.devices]
        if parameter.columns:
            tables[parameter.key] = tuple(rows for one in own for rows in _of_samples(one))
        else:
            numbers = [np.nan if v is None or isinstance(v, str) else v for v in own]
            parameters[parameter.key] = device_array(numbers, ndim)
    return replace(launch.workload, parameters=parameters, tables=tables, options=dict(options))


def _of_samples(rows: Any) -> Sequence[Any]:
    """Return the rows of a device, or rows for each sample where it has arrays of samples."""
    arrays = [value for row in rows or () for value in row if np.ndim(value)]
    if not arrays:
        return (rows,)
    n = max(map(len, arrays))
    columns = ([np.broadcast_to(value, n).tolist() for value in row] for row in rows)
    return list(zip(*(zip(*row, strict=True) for row in columns), strict=True))


# Parts of a launch


def _evaluator(
    space: KernelSpace, box: Box, devices: tuple[Device, ...], names: Mapping[str, Array],
    steps: StepCache,
) -> tuple[Evaluator, list[dict[str, Any]]]:  # fmt: skip
    """Return what evaluates expressions over a box, derived names too, and the clocks' columns."""
    ndim, derived = len(space.clocked.shape), space.kernel.derived
    ranges = zip(space.clocked.dimensions, box.start, box.stop, range(ndim), strict=True)
    columns = [steps(_columns, *axis, ndim) for axis in ranges]
    values: dict[str, Any] = dict(space.fixed)
    for column in (*columns[1:-2], names):
        values.update(column)
    evaluate = Evaluator(devices, values, ndim, steps)
    for name in derived:
        evaluate.define(name, derived[name])
    return evaluate, columns[-2:]


def _number(kernel: Kernel, evaluate: Evaluator, path: str, default: float) -> Array:
    return evaluate(kernel.expressions.get(path), default=default)


def _asked(number: Number) -> dict[str, Array]:
    """Return the launch and what a block asks for, under the names that expressions may use."""
    return {
        "threads_per_block": number("launch.threads_per_block", np.nan),
        "blocks": number("launch.blocks", np.nan),
        "registers_per_thread": number("resources.registers_per_thread", 0.0),
        "shared_memory_bytes": number("resources.shared_memory_bytes", 0.0),
        "tensor_memory_columns": number("resources.tensor_memory_columns", 0.0),
    }


def _parallelism_and_loops(number: Number, evaluate: Evaluator) -> dict[str, Any]:
    """Return what may make a launch invalid, by its name in the workload."""
    parallel, in_flight = (number(f"parallelism.{kind}", 1.0) for kind in ("instruction", "memory"))
    matrix_parallel = number("parallelism.matrix", 1e6)
    for too_few in (parallel < 1.0, matrix_parallel < 1.0, in_flight < 0.01):
        evaluate.note(too_few)
    return {
        "instruction_parallelism": parallel,
        "memory_parallelism": in_flight,
        "matrix_parallelism": matrix_parallel,
        "outer_iterations": number("loops.outer", 1.0),
        "inner_iterations": number("loops.inner", 1.0),
    }


def _totals(stages: Sequence[Stage], evaluate: Evaluator) -> dict[str, Any]:
    """Return the sums over stages by their names in the workload."""
    instructions: dict[str, Array] = {}
    for stage in stages:
        for name, count in stage.instructions.items():
            instructions[name] = instructions[name] + count if name in instructions else count
    return {
        "instructions": instructions,
        "computation_instructions": summed([s.computation_instructions for s in stages], evaluate),
        "barriers": summed([s.barriers for s in stages], evaluate),
    }


def _as_stated(number: Number, kernel: Kernel) -> dict[str, Any]:
    """Return what a kernel states and nothing here reads, by its name in the workload."""
    together = "shared" if "parallelism.shared" in kernel.expressions else "instruction"
    return {
        "launches": number("launch.launches", 1.0),
        "matrix": {kind: number(f"matrix.{kind}", 0.0) for kind in MATRIX_TYPES},
        "single_warp": number("matrix.single_warp", 0.0),
        "half_rate": number("matrix.half_rate", 0.0),
        "asynchronous": number("matrix.asynchronous", 0.0),
        "specialized": number("launch.specialized", 0.0),
        "shared_parallelism": number(f"parallelism.{together}", 1.0),
    }


def _devices(space: KernelSpace, start: int, stop: int) -> tuple[Device, ...]:
    return space.devices[start:stop]


def _columns(dimension: Dimension, start: int, stop: int, axis: int, ndim: int) -> dict[str, Any]:
    """Return the values of a dimension, or of the parameters that it stacks, along their axis."""
    shape = [1] * ndim
    shape[axis] = -1
    part = slice(start, stop)
    if dimension.stacked is None:
        columns = {dimension.name: np.asarray(dimension.values[part])}
    else:
        columns = {n: dimension.stacked.column(n, part) for n in dimension.stacked.axes}
    return {
        name: (v.astype(np.float64) if v.dtype.kind in "iu" else v).reshape(shape)
        for name, v in columns.items()
    }


def _of_devices(
    devices: tuple[Device, ...], ndim: int
) -> tuple[Limits, dict[str, Array], Array, Array]:
    """Return limits, the names that expressions may use, memory bandwidth and share of DRAM."""
    limits = limits_for([d.limits for d in devices], (len(devices),) + (1,) * (ndim - 1))
    shares = device_array([dram_share(stated_facts(d.model_parameters)) for d in devices], ndim)
    bandwidth = device_values(devices, "chip.memory_bandwidth", ndim)
    return limits, device_names(devices, limits, ndim), bandwidth, shares


def _launch_status(of_occupancy: Array, failed: Any, *conditions: Any) -> Array:
    """Return a launch's status; ``conditions`` are each constraint's truth and faults in turn."""
    allowed: Any = np.ones((1,) * failed.ndim, dtype=bool)
    for value, fault in zip(conditions[::2], conditions[1::2], strict=True):
        allowed = allowed & (value.astype(bool) | fault)
        failed = failed | fault
    status = of_occupancy.astype(np.float64)
    if failed.any():
        status = np.where(failed, float(STATUS["kernel_expression"]), status)
    return status if allowed.all() else np.where(allowed, status, float(STATUS["constraint"]))


def _clocks(devices: tuple[Device, ...], ndim: int, *columns: Any) -> tuple[Clocks, Array]:
    """Return the clocks in Hz and the status of each pair, from the columns of both clocks."""
    found = []
    status = np.zeros((1,) * ndim)
    for clock, column in zip(("core", "memory"), columns, strict=True):
        hertz, nominal, *_, inside = clock_on_devices(clock, column, devices, ndim)
        found.append((hertz, nominal))
        status = np.where(inside, status, float(STATUS["clock_out_of_range"]))
    (core, core_nominal), (memory, memory_nominal) = found
    ratio = clock_ratio(core, core_nominal, memory, memory_nominal)
    return Clocks(core, memory, core_nominal, memory_nominal, ratio), status


def clock_on_devices(
    clock: str, column: Mapping[str, Array], devices: tuple[Device, ...], ndim: int
) -> tuple[Array, ...]:
    """Return one clock, its nominal value and range, in Hz, and whether it is in the range.

    Parameters
    ----------
    clock : str
        ``"core"`` or ``"memory"``.
    column : mapping
        The clock's only axis: its values by its name, in MHz or relative to the nominal clock.
    devices : tuple of Device
        Along the first axis.
    ndim : int
        Number of axes.
    """
    nominal = device_values(devices, f"clocks.{clock}_nominal", ndim)
    ends = (device_values(devices, f"clocks.{clock}_{end}", ndim) for end in ("min", "max"))
    low, high = (np.where(np.isfinite(end), end, nominal) for end in ends)
    ((name, values),) = column.items()
    if name.endswith("_ratio"):
        hertz = values * nominal
    else:
        hertz = values * 1e6 * np.ones_like(nominal)
    outside = (hertz < low * (1 - 1e-9)) | (hertz > high * (1 + 1e-9))
    return hertz, nominal, low, high, ~outside

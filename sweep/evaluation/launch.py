"""The launch of a kernel over a box: counts, occupancy and clocks, for all models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep.evaluation.accesses import global_access, shared_access
from sweep.evaluation.counts import (
    Evaluator,
    block_of,
    by_class,
    device_array,
    parts_of_block,
    stages_of,
    total_of,
)
from sweep.evaluation.step_cache import StepCache
from sweep.fields import STATUS
from sweep.hardware.clocks import clock_ratio
from sweep.hardware.derived import dram_share
from sweep.hardware.occupancy import Limits, block_limits, grid_occupancy, limits_for
from sweep.hardware.occupancy_limits import l1_bytes_of
from sweep.models import stated_facts
from sweep.models.base import Model
from sweep.models.workload import Array, Clocks, Workload
from sweep.space import CLOCK_AXES, Box, Dimension, KernelSpace
from sweep.specs import Device

__all__ = [
    "Launch",
    "axis_arrays",
    "build_launch",
    "build_workload",
    "clock_on_devices",
    "grid_axes",
]


@dataclass(frozen=True)
class Launch:
    """What all models share over a box.

    ``values`` has every name that the kernel's expressions may use; ``status`` and
    ``clock_status`` are codes of :data:`sweep.fields.STATUS`; ``workload`` lacks a model's
    parameters. ``sound`` are tables known to have a number everywhere.
    """

    devices: tuple[Device, ...]
    values: Mapping[str, Any]
    status: Array
    clock_status: Array
    workload: Workload
    sound: tuple[Array, ...] = ()


def axis_arrays(
    space: KernelSpace, box: Box, steps: StepCache, last: int | None = None
) -> tuple[dict[str, Any], int]:
    """Return the values of each dimension in a box, shaped to broadcast, and the number of axes.

    The axes are the grid's, with both clocks at the end (length 1 where they are not swept), and
    the axis ``last``, if it is given, just before them. A list of configurations becomes one array
    for each parameter, all along the same axis.
    """
    dimensions = space.grid.dimensions
    n_config = sum(d.kind not in ("core", "memory") for d in dimensions)
    ndim = n_config + 2
    arrays: dict[str, Any] = {}
    for i, (dimension, start, stop) in enumerate(zip(dimensions, box.start, box.stop, strict=True)):
        axis = {"core": ndim - 2, "memory": ndim - 1}.get(dimension.kind, i)
        if last is not None and last <= axis < n_config:
            axis = n_config - 1 if axis == last else axis - 1
        arrays.update(steps(_axis, dimension, start, stop, axis, ndim))
    return arrays, ndim


def grid_axes(space: KernelSpace) -> tuple[int, ...]:
    """Return the dimensions that decide the number of blocks, and nothing else of a launch."""
    kernel, found = space.kernel, []
    blocks = kernel.expressions.get("launch.blocks")
    others = [
        expression
        for path, expression in kernel.all_expressions()
        if path != "launch.blocks" and not path.startswith("derived.")
    ]
    others += space.constraints
    for i, dimension in enumerate(space.grid.dimensions):
        if blocks is None or dimension.kind not in ("size", "parameter"):
            continue
        reached = {dimension.name}
        for name in kernel.derived:
            if kernel.derived[name].names & reached:
                reached.add(name)
        is_read = any(expression.names & (reached | {"blocks"}) for expression in others)
        if blocks.names & reached and not is_read:
            found.append(i)
    return tuple(found)


def build_launch(
    space: KernelSpace, box: Box, steps: StepCache | None = None, last: int | None = None
) -> Launch:
    """Evaluate a kernel's expressions, the launch and the occupancy over a box of the grid.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    box : Box
        The part of the grid.
    steps : StepCache, optional
        Spares what is the same as in the box before with the same cache.
    last : int, optional
        The dimension whose axis comes after all others but the clocks; by default all axes are in
        the grid's order.
    """
    kernel = space.kernel
    steps = steps or StepCache()
    steps.begin_box()
    devices = steps(_devices, space, box.start[0], box.stop[0])
    axes, ndim = axis_arrays(space, box, steps, last)
    limits = steps(_limits, devices, ndim)
    values: dict[str, Any] = dict(space.fixed)
    values.update({k: v for k, v in axes.items() if k != "device" and k not in CLOCK_AXES})
    values.update(steps(_device_names, devices, limits, ndim))
    evaluate = Evaluator(values, ndim, steps)
    for name in kernel.derived:
        evaluate.define(name, kernel.derived[name])

    def number(path: str, default: float) -> Array:
        if path in kernel.expressions:
            return evaluate(kernel.expressions[path])
        return steps(_constant, default, ndim)

    threads = number("launch.threads_per_block", np.nan)
    blocks = number("launch.blocks", np.nan)
    registers = number("resources.registers_per_thread", 0.0)
    shared_bytes = number("resources.shared_memory_bytes", 0.0)
    values.update(threads_per_block=threads, blocks=blocks, registers_per_thread=registers,
                  shared_memory_bytes=shared_bytes)  # fmt: skip
    n_sm, warp = values["sm_count"], values["warp_size"]
    block = block_of(kernel, evaluate, threads, warp)
    parts = parts_of_block(kernel, evaluate, block)
    hit_rate = evaluate.share(kernel.expressions.get("cache.l2_hit_rate"), of_l2=True)
    accesses = tuple(
        global_access(a, evaluate, devices, parts[a.stage], hit_rate)
        for a in kernel.global_accesses
    )
    shared = tuple(
        shared_access(a, evaluate, devices, parts[a.stage]) for a in kernel.shared_accesses
    )
    stages = stages_of(kernel, evaluate, accesses, shared, parts)
    outer, inner = number("loops.outer", 1.0), number("loops.inner", 1.0)
    parallel = [number(f"parallelism.{kind}", 1.0) for kind in ("instruction", "memory")]
    for degree, least in zip(parallel, (1.0, 0.01), strict=True):
        evaluate.note(degree < least)

    per_block = steps(block_limits, threads, registers, shared_bytes, limits)
    launched = steps(grid_occupancy, per_block, blocks, limits, n_sm)
    # Numbers of blocks always are; then what is active is, unless a device lacks a limit.
    sound: tuple[Array, ...] = (blocks,) if "launch.blocks" in kernel.expressions else ()
    if sound and not np.isnan(per_block.fitting.min()):
        sound += (launched.active_blocks_per_sm, launched.active_warps_per_sm)
    conditions = [part for c in space.constraints for part in evaluate.condition(c)]
    status = steps(_launch_status, launched.status, evaluate.failed, *conditions)
    clocks, clock_status = steps(_clocks, devices, ndim, *(axes.get(n) for n in CLOCK_AXES))
    workload = Workload(
        threads_per_block=threads,
        blocks=blocks,
        lanes=block.lanes,
        occupancy=launched,
        computation_instructions=total_of([s.computation_instructions for s in stages], ndim),
        instructions=by_class(stages),
        barriers=total_of([s.barriers for s in stages], ndim),
        stages=stages,
        outer_iterations=outer,
        inner_iterations=inner,
        l2_hit_rate=hit_rate,
        instruction_parallelism=parallel[0],
        memory_parallelism=parallel[1],
        global_accesses=accesses,
        shared_accesses=shared,
        warp_size=warp,
        n_sm=n_sm,
        lanes_per_sm=values["lanes_per_sm"],
        memory_bandwidth=steps(_device_values, devices, "chip.memory_bandwidth", ndim),
        dram_share=steps(_dram_share, devices, ndim),
        clocks=clocks,
        parameters={},
        tables={},
        options={},
    )
    return Launch(devices, values, status, clock_status, workload, sound)


def build_workload(launch: Launch, model: Model, options: Mapping[str, str]) -> Workload:
    """Return the launch's workload with one model's device parameters and options."""
    ndim = launch.workload.n_sm.ndim
    parameters: dict[str, Array] = {}
    tables: dict[str, Any] = {}
    for parameter in model.parameters:
        key = parameter.key
        if parameter.columns:
            given = (d.model_parameters.get(model.name, {}).get(key) for d in launch.devices)
            tables[key] = tuple(given)
        else:
            parameters[key] = _parameter(launch.devices, model.name, key, ndim)
    return replace(launch.workload, parameters=parameters, tables=tables, options=dict(options))


# Steps of a launch


def _devices(space: KernelSpace, start: int, stop: int) -> tuple[Device, ...]:
    return space.devices[start:stop]


def _axis(dimension: Dimension, start: int, stop: int, axis: int, ndim: int) -> dict[str, Any]:
    """Return the values of a dimension, or of the parameters that it stacks, along their axis."""
    shape = [1] * ndim
    shape[axis] = -1
    part = slice(start, stop)
    columns: dict[str, Any] = {dimension.name: dimension.values}
    if dimension.stacked is not None:
        columns = {n: dimension.stacked.column(n, part) for n in dimension.stacked.axes}
        part = slice(None)
    arrays = {}
    for name, column in columns.items():
        values = np.asarray(column[part])
        if values.dtype.kind in "iu":
            values = values.astype(np.float64)
        arrays[name] = values.reshape(shape)
    return arrays


def _limits(devices: tuple[Device, ...], ndim: int) -> Limits:
    return limits_for([d.limits for d in devices], (len(devices),) + (1,) * (ndim - 1))


def _constant(value: float, ndim: int) -> Array:
    return np.full((1,) * ndim, value)


def _device_values(devices: tuple[Device, ...], path: str, ndim: int) -> Array:
    return device_array([d.values.get(path, np.nan) for d in devices], ndim)


def _parameter(devices: tuple[Device, ...], model: str, key: str, ndim: int) -> Array:
    given = (d.model_parameters.get(model, {}).get(key) for d in devices)
    return device_array([float(v) if isinstance(v, (int, float)) else np.nan for v in given], ndim)


def _device_names(devices: tuple[Device, ...], limits: Any, ndim: int) -> dict[str, Array]:
    """Return the declared device attributes that expressions may use."""
    l1_bytes = [d.values.get("chip.l1", l1_bytes_of(d.compute_capability)) for d in devices]
    major_minor = [float(d.compute_capability or 0) for d in devices]
    return {
        "warp_size": _device_values(devices, "chip.warp_size", ndim),
        "sm_count": _device_values(devices, "chip.sm_count", ndim),
        "lanes_per_sm": _device_values(devices, "chip.lanes_per_sm", ndim),
        "l1_bytes": device_array(l1_bytes, ndim),
        "l2_bytes": np.nan_to_num(_device_values(devices, "chip.l2", ndim)),
        "max_threads_per_block": np.asarray(limits.max_threads_per_block, np.float64),
        "max_threads_per_sm": np.asarray(limits.max_threads_per_sm, np.float64),
        "shared_memory_per_sm": np.asarray(limits.smem_per_sm_bytes, np.float64),
        "registers_per_sm": np.asarray(limits.regs_per_sm, np.float64),
        "compute_capability": device_array(major_minor, ndim),
    }


def _launch_status(of_occupancy: Array, failed: Any, *conditions: Any) -> Array:
    """Return a launch's status; ``conditions`` are each constraint's truth and faults in turn."""
    allowed: Any = np.ones((1,) * failed.ndim, dtype=bool)
    for value, fault in zip(conditions[::2], conditions[1::2], strict=True):
        allowed = allowed & (value | fault)
        failed = failed | fault
    status = of_occupancy.astype(np.float64)
    if failed.any():
        status = np.where(failed, float(STATUS["kernel_expression"]), status)
    return status if allowed.all() else np.where(allowed, status, float(STATUS["constraint"]))


def _dram_share(devices: tuple[Device, ...], ndim: int) -> Array:
    return device_array([dram_share(stated_facts(d.model_parameters)) for d in devices], ndim)


def _clocks(devices: tuple[Device, ...], ndim: int, *values: Any) -> tuple[Clocks, Array]:
    """Return the clocks in Hz and the status of each pair, from the values of `CLOCK_AXES`."""
    axes = {n: given for n, given in zip(CLOCK_AXES, values, strict=True) if given is not None}
    found, nominal = {}, {}
    status = np.zeros((1,) * ndim)
    for clock in ("core", "memory"):
        found[clock], nominal[clock], inside = clock_on_devices(clock, axes, devices, ndim)
        status = np.where(inside, status, float(STATUS["clock_out_of_range"]))
    ratio = clock_ratio(found["core"], nominal["core"], found["memory"], nominal["memory"])
    return Clocks(found["core"], found["memory"], nominal["core"], nominal["memory"], ratio), status


def clock_on_devices(
    clock: str, axes: Mapping[str, Any], devices: tuple[Device, ...], ndim: int
) -> tuple[Array, Array, Any]:
    """Return one clock, and its nominal value, in Hz, and whether it is in the device's range.

    Parameters
    ----------
    clock : str
        ``"core"`` or ``"memory"``.
    axes : mapping
        From :func:`axis_arrays`.
    devices : tuple of Device
        Along the first axis.
    ndim : int
        Number of axes.
    """
    nominal = _device_values(devices, f"clocks.{clock}_nominal", ndim)
    if f"{clock}_clock" in axes:
        hertz = axes[f"{clock}_clock"] * 1e6 * np.ones_like(nominal)
    elif f"{clock}_clock_ratio" in axes:
        hertz = axes[f"{clock}_clock_ratio"] * nominal
    else:
        hertz = nominal
    low = _device_values(devices, f"clocks.{clock}_min", ndim)
    high = _device_values(devices, f"clocks.{clock}_max", ndim)
    low = np.where(np.isfinite(low), low, nominal)
    high = np.where(np.isfinite(high), high, nominal)
    return hertz, nominal, ~((hertz < low * (1 - 1e-9)) | (hertz > high * (1 + 1e-9)))

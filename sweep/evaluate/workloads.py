"""From a kernel file, devices and axes to the workload of a box of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep import clocks as clk
from sweep.expressions import Expression
from sweep.fields import STATUS
from sweep.models._model import Model
from sweep.occupancy import limits_for, occupancy
from sweep.space import Box, KernelSpace
from sweep.specs import Device
from sweep.specs.kernel import Access, Kernel
from sweep.transactions import access_transactions, bank_conflict_degree, rule_of
from sweep.workload import Array, Clocks, GlobalAccess, SharedAccess, Stage, Workload

__all__ = ["Launch", "axis_arrays", "build_launch", "build_workload"]

BANKS = {"1": 16}  # banks (and lanes that are served together) by major compute capability
BANKS_LATER = 32
TOTALS = ("instructions.", "synchronisation.")


@dataclass(frozen=True)
class Launch:
    """What is common to all models over a box: values, workload without a model's parameters.

    ``status`` is the launch status by :data:`sweep.fields.STATUS`; ``values`` holds every name
    that the kernel's expressions may use.
    """

    values: Mapping[str, Any]
    status: Array
    clock_status: Array
    workload: Workload


def axis_arrays(space: KernelSpace, box: Box) -> tuple[dict[str, Any], int]:
    """Return the values of each dimension in a box, reshaped to broadcast, and the axes' number.

    The axes are the grid's with the two clocks always present at the end (length 1 where they are
    not swept).
    """
    dimensions = space.grid.dimensions
    n_config = sum(d.kind not in ("core", "memory") for d in dimensions)
    ndim = n_config + 2
    arrays: dict[str, Any] = {}
    for i, (dimension, part) in enumerate(zip(dimensions, box.slices, strict=True)):
        axis = {"core": ndim - 2, "memory": ndim - 1}.get(dimension.kind, i)
        shape = [1] * ndim
        shape[axis] = -1
        values = np.asarray(dimension.values[part])
        if values.dtype.kind in "iu":
            values = values.astype(np.float64)
        arrays[dimension.name] = values.reshape(shape)
    return arrays, ndim


def _device_array(devices: tuple[Device, ...], values: list[float], ndim: int) -> Array:
    return np.array(values, dtype=np.float64).reshape((len(devices),) + (1,) * (ndim - 1))


def _device_values(devices: tuple[Device, ...], path: str, ndim: int) -> Array:
    return _device_array(devices, [d.values.get(path, np.nan) for d in devices], ndim)


def _device_names(devices: tuple[Device, ...], limits: Any, ndim: int) -> dict[str, Array]:
    """Return the declared device attributes that expressions may use."""
    major_minor = [float(d.compute_capability) for d in devices]
    return {
        "warp_size": _device_values(devices, "chip.warp_size", ndim),
        "sm_count": _device_values(devices, "chip.sm_count", ndim),
        "lanes_per_sm": _device_values(devices, "chip.lanes_per_sm", ndim),
        "l2_bytes": np.nan_to_num(_device_values(devices, "chip.l2", ndim)),
        "max_threads_per_block": np.asarray(limits.max_threads_per_block, np.float64),
        "max_threads_per_sm": np.asarray(limits.max_threads_per_sm, np.float64),
        "shared_memory_per_sm": np.asarray(limits.smem_per_sm_bytes, np.float64),
        "registers_per_sm": np.asarray(limits.regs_per_sm, np.float64),
        "compute_capability": _device_array(devices, major_minor, ndim),
    }


class _Evaluator:
    """Evaluates a kernel's expressions over a box and collects where they fail."""

    def __init__(self, values: dict[str, Any], ndim: int) -> None:
        self.values = values
        self.ndim = ndim
        self.failed: Any = np.zeros((1,) * ndim, dtype=bool)

    def __call__(self, expression: Any, *, count: bool = True) -> Array:
        value, fault = expression.evaluate(self.values)
        value = np.asarray(value, np.float64) if count else np.asarray(value)
        fault = np.asarray(fault)
        if value.ndim == 0:
            value = value.reshape((1,) * self.ndim)
            fault = fault.reshape((1,) * self.ndim)
        bad = fault | (value < 0) if count else fault
        if bad.any():
            self.failed = self.failed | bad
            value = np.where(bad, 1.0, value)
        return value


def build_launch(space: KernelSpace, box: Box) -> Launch:
    """Evaluate a kernel's expressions, the launch and the occupancy over a box of the grid."""
    kernel = space.kernel
    devices = space.devices[box.slices[0]]
    axes, ndim = axis_arrays(space, box)
    limits = limits_for(
        [d.compute_capability for d in devices], (len(devices),) + (1,) * (ndim - 1)
    )
    values: dict[str, Any] = dict(space.fixed)
    values.update({k: v for k, v in axes.items() if k != "device" and "clock" not in k})
    values.update(_device_names(devices, limits, ndim))
    evaluate = _Evaluator(values, ndim)
    for name in kernel.evaluation_order:
        values[name] = evaluate(kernel.derived[name], count=False)

    given = kernel.expressions

    def number(path: str, default: float) -> Array:
        if path in given:
            return evaluate(given[path])
        return np.full((1,) * ndim, default)

    threads = number("launch.threads_per_block", np.nan)
    blocks = number("launch.blocks", np.nan)
    registers = number("resources.registers_per_thread", 0.0)
    shared_bytes = number("resources.shared_memory_bytes", 0.0)
    values.update(threads_per_block=threads, blocks=blocks, registers_per_thread=registers,
                  shared_memory_bytes=shared_bytes)  # fmt: skip
    warp = values["warp_size"]
    lanes = np.minimum(threads, warp)
    accesses = tuple(
        _global_access(a, evaluate, devices, lanes, ndim) for a in kernel.global_accesses
    )
    shared = tuple(_shared_access(a, evaluate, devices, ndim) for a in kernel.shared_accesses)
    stages = _stages(kernel, evaluate, accesses, shared)
    outer, inner = number("loops.outer", 1.0), number("loops.inner", 1.0)
    hit_rate = np.where(values["l2_bytes"] > 0, number("cache.l2_hit_rate", 0.0), 0.0)
    evaluate.failed = evaluate.failed | (hit_rate > 1.0)

    n_sm = values["sm_count"]
    launched = occupancy(threads, registers, shared_bytes, blocks, limits=limits, n_sm=n_sm)
    allowed, broken = _constraints(space, values, ndim)
    status = np.where(
        ~allowed,
        float(STATUS["constraint"]),
        np.where(
            evaluate.failed | broken,
            float(STATUS["kernel_expression"]),
            launched.status.astype(np.float64),
        ),
    )
    clocks, clock_status = _clocks(space, axes, devices, ndim)
    share = clk.dram_share(
        *(_parameter(devices, "wang_chu", key, ndim) for key in
          ("dm_lat_slope_cycles", "dm_lat_intercept_cycles")),
        _parameter(devices, "hong_kim", "mem_ld_cycles", ndim),
        _parameter(devices, "wang_chu", "l2_lat_cycles", ndim),
    )  # fmt: skip
    workload = Workload(
        threads_per_block=threads,
        blocks=blocks,
        lanes=lanes,
        occupancy=launched,
        computation_instructions=_sum([s.computation_instructions for s in stages], ndim),
        instructions=_by_class(stages),
        barriers=_sum([s.barriers for s in stages], ndim),
        stages=stages,
        outer_iterations=outer,
        inner_iterations=inner,
        l2_hit_rate=hit_rate,
        global_accesses=accesses,
        shared_accesses=shared,
        warp_size=warp,
        n_sm=n_sm,
        lanes_per_sm=values["lanes_per_sm"],
        memory_bandwidth=_device_values(devices, "chip.memory_bandwidth", ndim),
        dram_share=share,
        clocks=clocks,
        parameters={},
        tables={},
        options={},
    )
    return Launch(values, status, clock_status, workload)


def _stages(
    kernel: Kernel,
    evaluate: _Evaluator,
    accesses: tuple[GlobalAccess, ...],
    shared: tuple[SharedAccess, ...],
) -> tuple[Stage, ...]:
    """Evaluate the kernel's stages; a file without them is one stage."""
    if not kernel.stages:
        own = {p.split(".")[1]: e for p, e in kernel.expressions.items() if p.startswith(TOTALS)}
        return (_stage("kernel", None, own, evaluate, accesses, shared),)
    result = []
    for stage in kernel.stages:
        members = [a for a, spec in zip(accesses, kernel.global_accesses, strict=True)
                   if spec.stage == stage.name]  # fmt: skip
        local = [a for a, spec in zip(shared, kernel.shared_accesses, strict=True)
                 if spec.stage == stage.name]  # fmt: skip
        result.append(
            _stage(
                stage.name, stage.loop, stage.expressions, evaluate, tuple(members), tuple(local)
            )
        )
    return tuple(result)


def _stage(
    name: str,
    loop: str | None,
    expressions: Mapping[str, Expression],
    evaluate: _Evaluator,
    accesses: tuple[GlobalAccess, ...],
    shared: tuple[SharedAccess, ...],
) -> Stage:
    """Evaluate one stage.

    All instructions that are not global accesses are given as one number, or are the sum over the
    classes, the shared accesses and the barriers.
    """
    numbers = {key: evaluate(expression) for key, expression in expressions.items()}
    one = np.ones((1,) * evaluate.ndim)
    executions, barriers = numbers.pop("executions", one), numbers.pop("barriers", 0.0 * one)
    if "computation" in numbers:
        computation = numbers["computation"]
    else:
        counts = [*numbers.values(), barriers, *(access.count for access in shared)]
        computation = _sum(counts, evaluate.ndim)
    return Stage(name, loop, executions, computation, numbers, barriers, accesses, shared)


def _by_class(stages: tuple[Stage, ...]) -> dict[str, Array]:
    """Return the kernel's instructions by class."""
    total: dict[str, Array] = {}
    for stage in stages:
        for name, count in stage.instructions.items():
            total[name] = total[name] + count if name in total else count
    return total


def _sum(arrays: Sequence[Array], ndim: int) -> Array:
    return sum(arrays, start=np.zeros((1,) * ndim))


def _global_access(
    access: Access, evaluate: _Evaluator, devices: tuple[Device, ...], lanes: Array, ndim: int
) -> GlobalAccess:
    count, size = evaluate(access.count), evaluate(access.bytes)
    stride = evaluate(access.stride) if access.stride is not None else np.ones((1,) * ndim)
    transactions, sectors = [], []
    for i, device in enumerate(devices):

        def part(array: Array, i: int = i) -> Array:
            return array[i : i + 1] if array.shape[0] > 1 else array

        counted = access_transactions(
            access.pattern, part(size), part(stride), part(lanes),
            rule_of(device.compute_capability),
        )  # fmt: skip
        transactions.append(counted[0])
        sectors.append(counted[2])
    by_device = np.concatenate(np.broadcast_arrays(*transactions), axis=0)
    return GlobalAccess(
        name=access.name,
        kind=access.kind,
        count=count,
        bytes=size,
        transactions=by_device,
        sectors=np.concatenate(np.broadcast_arrays(*sectors), axis=0),
        coalesced=_coalesced(access.pattern, by_device),
    )


def _coalesced(pattern: str, transactions: Array) -> Any:
    """Return whether a warp's access counts as coalesced.

    Consecutive aligned words are, on every device (compute capability 1.x serves each half-warp
    on its own, which the papers count as one); any other access is if it needs one transaction.
    """
    if pattern == "coalesced":
        return np.ones_like(transactions, dtype=bool)
    return transactions <= 1.0


def _shared_access(
    access: Access, evaluate: _Evaluator, devices: tuple[Device, ...], ndim: int
) -> SharedAccess:
    stride = evaluate(access.stride) if access.stride is not None else np.ones((1,) * ndim)
    banks = _device_array(
        devices,
        [BANKS.get(d.compute_capability.split(".")[0], BANKS_LATER) for d in devices],
        ndim,
    )
    degree = bank_conflict_degree(stride, banks, banks)
    return SharedAccess(access.name, access.kind, evaluate(access.count), degree)


def _constraints(space: KernelSpace, values: dict[str, Any], ndim: int) -> tuple[Any, Any]:
    """Return where all constraints hold, and where one of them could not be evaluated."""
    allowed: Any = np.ones((1,) * ndim, dtype=bool)
    broken: Any = np.zeros((1,) * ndim, dtype=bool)
    for constraint in space.constraints:
        value, fault = constraint.evaluate(values)
        allowed = allowed & (np.asarray(value, dtype=bool) | fault)
        broken = broken | fault
    return allowed, broken


def _clocks(
    space: KernelSpace, axes: Mapping[str, Any], devices: tuple[Device, ...], ndim: int
) -> tuple[Clocks, Array]:
    """Return the clocks in Hz and the status of each pair."""
    found, nominal = {}, {}
    status = np.zeros((1,) * ndim)
    for clock in ("core", "memory"):
        nominal[clock] = _device_values(devices, f"clocks.{clock}_nominal", ndim)
        if f"{clock}_clock" in axes:
            hertz = axes[f"{clock}_clock"] * 1e6 * np.ones_like(nominal[clock])
        elif f"{clock}_clock_ratio" in axes:
            hertz = axes[f"{clock}_clock_ratio"] * nominal[clock]
        else:
            hertz = nominal[clock]
        found[clock] = hertz
        low = _device_values(devices, f"clocks.{clock}_min", ndim)
        high = _device_values(devices, f"clocks.{clock}_max", ndim)
        low = np.where(np.isfinite(low), low, nominal[clock])
        high = np.where(np.isfinite(high), high, nominal[clock])
        outside = (hertz < low * (1 - 1e-9)) | (hertz > high * (1 + 1e-9))
        status = np.where(outside, float(STATUS["clock_out_of_range"]), status)
    ratio = clk.clock_ratio(found["core"], nominal["core"], found["memory"], nominal["memory"])
    return Clocks(found["core"], found["memory"], nominal["core"], nominal["memory"], ratio), status


def _parameter(devices: tuple[Device, ...], model: str, key: str, ndim: int) -> Array:
    given = (d.model_parameters.get(model, {}).get(key) for d in devices)
    values = [float(v) if isinstance(v, (int, float)) else np.nan for v in given]
    return _device_array(devices, values, ndim)


def build_workload(
    launch: Launch, space: KernelSpace, box: Box, model: Model, options: Mapping[str, str]
) -> Workload:
    """Return the launch's workload with one model's device parameters and options."""
    devices = space.devices[box.slices[0]]
    ndim = launch.workload.n_sm.ndim
    parameters, tables = {}, {}
    for parameter in model.parameters:
        if parameter.columns:
            tables[parameter.key] = tuple(
                d.model_parameters.get(model.name, {}).get(parameter.key) for d in devices
            )
        else:
            parameters[parameter.key] = _parameter(devices, model.name, parameter.key, ndim)
    return replace(launch.workload, parameters=parameters, tables=tables, options=dict(options))

"""Counts of a kernel over a box: its expressions, stages and accesses, evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sweep.expressions import Expression
from sweep.specs import Device
from sweep.specs.kernel import Access, Kernel
from sweep.transactions import (
    Affine,
    Cost,
    access_transactions,
    affine_bank_passes,
    affine_transactions,
    bank_conflict_degree,
    bank_rule_of,
    rule_of,
)
from sweep.workload import Array, GlobalAccess, SharedAccess, Stage

__all__ = [
    "Block",
    "Evaluator",
    "block_of",
    "by_class",
    "device_array",
    "global_access",
    "parts_of_block",
    "shared_access",
    "stages_of",
    "total_of",
]

BANKS = {"1": 16}  # banks (and lanes that are served together) by major compute capability
BANKS_LATER = 32
SECTOR_BYTES = 32.0
TOTALS = ("instructions.", "synchronisation.")


def device_array(devices: tuple[Device, ...], values: list[float], ndim: int) -> Array:
    """Return one number per device as an array along the device axis."""
    return np.array(values, dtype=np.float64).reshape((len(devices),) + (1,) * (ndim - 1))


class Evaluator:
    """Evaluates a kernel's expressions over a box and collects where they fail.

    ``values`` holds every name that expressions may use and ``faults`` where a derived name is
    undefined: that matters only to expressions that really use it there. ``failed`` is true where
    an expression divides by zero, or a count is negative or has no meaning.
    """

    def __init__(self, values: dict[str, Any], ndim: int) -> None:
        self.values = values
        self.faults: dict[str, Any] = {}
        self.ndim = ndim
        self.failed: Any = np.zeros((1,) * ndim, dtype=bool)

    def define(self, name: str, expression: Expression) -> None:
        """Evaluate a derived name."""
        value, fault = expression.evaluate(self.values, self.faults)
        self.values[name], self.faults[name] = self._padded(value), self._padded(fault)

    def __call__(self, expression: Expression, *, signed: bool = False) -> Array:
        """Evaluate a count; where it fails it is 1, and the configuration is flagged.

        What is ``signed`` may be negative.
        """
        value, fault = expression.evaluate(self.values, self.faults)
        value = self._padded(np.asarray(value, np.float64))
        bad = self._padded(fault) | np.isnan(value) | ((value < 0) & (not signed))
        self.note(bad)
        return np.where(bad, 1.0, value) if bad.any() else value

    def share(self, expression: Expression | None, cached: Any = True) -> Array:
        """Evaluate a share of accesses that a cache serves; 0 where there is no cache."""
        given = 0.0 if expression is None else self(expression)
        value: Array = self._padded(np.where(cached, given, 0.0))
        self.note(value > 1.0)
        return value

    def of_hardware(self, value: Array, count: Array) -> Array:
        """Take what an access costs; NaN, where no hardware has it, is flagged if it occurs."""
        unknown = np.isnan(value)
        self.note(unknown & (count > 0))
        return np.where(unknown, 1.0, value) if unknown.any() else value

    def note(self, failed: Any) -> None:
        """Flag configurations."""
        if failed.any():
            self.failed = self.failed | failed

    def condition(self, expression: Expression) -> tuple[Any, Any]:
        """Return where a constraint holds, and where it cannot be evaluated."""
        value, fault = expression.evaluate(self.values, self.faults)
        return self._padded(np.asarray(value, dtype=bool)), self._padded(fault)

    def _padded(self, value: Any) -> Any:
        array = np.asarray(value)
        return array.reshape((1,) * self.ndim) if array.ndim == 0 else array


def stages_of(
    kernel: Kernel,
    evaluate: Evaluator,
    accesses: tuple[GlobalAccess, ...],
    shared: tuple[SharedAccess, ...],
    parts: Mapping[str | None, Block],
) -> tuple[Stage, ...]:
    """Evaluate the kernel's stages; a file without them is one stage."""
    if not kernel.stages:
        own = {p.split(".")[1]: e for p, e in kernel.expressions.items() if p.startswith(TOTALS)}
        return (_stage("kernel", None, own, evaluate, accesses, shared, parts[None]),)
    result = []
    for stage in kernel.stages:
        members = [a for a, spec in zip(accesses, kernel.global_accesses, strict=True)
                   if spec.stage == stage.name]  # fmt: skip
        local = [a for a, spec in zip(shared, kernel.shared_accesses, strict=True)
                 if spec.stage == stage.name]  # fmt: skip
        part = parts[stage.name]
        result.append(
            _stage(stage.name, stage.loop, stage.expressions, evaluate, tuple(members),
                   tuple(local), part)
        )  # fmt: skip
    return tuple(result)


def _stage(
    name: str,
    loop: str | None,
    expressions: Mapping[str, Expression],
    evaluate: Evaluator,
    accesses: tuple[GlobalAccess, ...],
    shared: tuple[SharedAccess, ...],
    part: Block,
) -> Stage:
    """Evaluate one stage.

    All instructions that are not global accesses are given as one number, or are the sum over the
    classes, the shared accesses and the barriers.
    """
    one = np.ones((1,) * evaluate.ndim)
    executions = evaluate(expressions["executions"]) if "executions" in expressions else one
    numbers = {
        key: evaluate(expression) * part.share
        for key, expression in expressions.items()
        if key not in ("executions", "threads")
    }
    barriers = numbers.pop("barriers", 0.0 * one)
    if "computation" in numbers:
        computation = numbers["computation"]
    else:
        counts = [*numbers.values(), barriers, *(access.count for access in shared)]
        computation = total_of(counts, evaluate.ndim)
    warps = np.ceil(part.threads / part.warp_size)
    return Stage(name, loop, warps, executions, computation, numbers, barriers, accesses, shared)


def by_class(stages: tuple[Stage, ...]) -> dict[str, Array]:
    """Return the kernel's instructions by class, summed over its stages."""
    total: dict[str, Array] = {}
    for stage in stages:
        for name, count in stage.instructions.items():
            total[name] = total[name] + count if name in total else count
    return total


def total_of(arrays: Sequence[Array], ndim: int) -> Array:
    """Return the sum of arrays over the same axes; zero where there are none."""
    return sum(arrays, start=np.zeros((1,) * ndim))


class Block(NamedTuple):
    """The threads of a block and how they become warps; width and height where they matter.

    ``share`` is the share of the block's warps that they are, by which counts are reduced.
    """

    threads: Array
    warp_size: Array
    x: Array | None = None
    y: Array | None = None
    share: Array | float = 1.0

    @property
    def lanes(self) -> Array:
        """Lanes in use of a full warp."""
        return np.minimum(self.threads, self.warp_size)

    def affine(self, access: Access, evaluate: Evaluator) -> Affine:
        """Return the addresses of an affine access."""
        assert self.x is not None and self.y is not None  # see block_of
        base, x, y, z = (evaluate(expression, signed=True) for expression in access.affine)
        return Affine(base, x, y, z, self.x, self.y, self.threads, self.warp_size)


def block_of(kernel: Kernel, evaluate: Evaluator, threads: Array, warp_size: Array) -> Block:
    """Return the block; its shape is evaluated only if an access depends on it."""
    if not any(access.affine for access in (*kernel.global_accesses, *kernel.shared_accesses)):
        return Block(threads, warp_size)
    x, y = (evaluate(kernel.expressions[f"launch.block_{axis}"]) for axis in "xy")
    return Block(threads, warp_size, x, y)


def parts_of_block(kernel: Kernel, evaluate: Evaluator, block: Block) -> dict[str | None, Block]:
    """Return the part of the block that passes each stage; under ``None`` the block itself."""
    parts: dict[str | None, Block] = {None: block}
    for stage in kernel.stages:
        parts[stage.name] = block
        if "threads" in stage.expressions:
            threads = evaluate(stage.expressions["threads"])
            evaluate.note(threads > block.threads)
            warps, of_block = (np.ceil(n / block.warp_size) for n in (threads, block.threads))
            part = block._replace(threads=threads, share=warps / of_block)
            if block.x is not None and block.y is not None:
                rows = np.ceil(threads / block.x)
                part = part._replace(x=np.minimum(block.x, threads), y=np.minimum(block.y, rows))
            parts[stage.name] = part
    return parts


def _by_device(devices: tuple[Device, ...], names: Sequence[str], ndim: int) -> Any:
    return np.array(names).reshape((len(devices),) + (1,) * (ndim - 1))


def global_access(
    access: Access,
    evaluate: Evaluator,
    devices: tuple[Device, ...],
    block: Block,
    l2_hit_rate: Array,
) -> GlobalAccess:
    """Evaluate an access to global memory, under each device's rule; the rate is the kernel's."""
    count, size = evaluate(access.count) * block.share, evaluate(access.bytes)
    rules = _by_device(devices, [rule_of(d.compute_capability) for d in devices], evaluate.ndim)
    if access.affine:
        addresses = block.affine(access, evaluate)
        cost = affine_transactions(addresses, size, rules)
        aligned = affine_transactions(addresses.linear(), size, rules)
    elif access.transactions is not None:
        # Counted in sectors, whatever the device's rule; beside it what consecutive words need.
        words = np.maximum(np.ceil(size * block.lanes / SECTOR_BYTES), 1.0)
        cost, aligned = (
            Cost(n, n * SECTOR_BYTES, n) for n in (evaluate(access.transactions), words)
        )
    else:
        stride = evaluate(access.stride) if access.stride is not None else None
        cost = Cost(*access_transactions(access.pattern, size, stride, block.lanes, rules))
        aligned = Cost(*access_transactions("coalesced", size, None, block.lanes, rules))
    cost = Cost(*(evaluate.of_hardware(part, count) for part in cost))
    if access.l2_hit_rate is not None:
        l2_hit_rate = evaluate.share(access.l2_hit_rate, evaluate.values["l2_bytes"] > 0)
    return GlobalAccess(
        name=access.name,
        kind=access.kind,
        count=count,
        bytes=size,
        transactions=cost.transactions,
        sectors=cost.sectors,
        coalesced=_coalesced(cost, aligned),
        moved_bytes=cost.bytes,
        l1_hit_rate=evaluate.share(access.l1_hit_rate),
        l2_hit_rate=l2_hit_rate,
    )


def _coalesced(cost: Cost, aligned: Cost) -> Any:
    """Return whether a warp's access counts as coalesced.

    Consecutive aligned words are, on every device (compute capability 1.x serves each half-warp
    on its own, which the papers count as one), and so is what costs just the same; any other
    access is if it needs one transaction.
    """
    same = [part == other for part, other in zip(cost, aligned, strict=True)]
    one: Any = cost.transactions <= 1.0
    return one | (same[0] & same[1] & same[2])


def shared_access(
    access: Access, evaluate: Evaluator, devices: tuple[Device, ...], block: Block
) -> SharedAccess:
    """Evaluate an access to shared memory, with the conflicts of each device's banks."""
    count, ndim = evaluate(access.count) * block.share, evaluate.ndim
    rules = _by_device(devices, [bank_rule_of(d.compute_capability) for d in devices], ndim)
    size = evaluate(access.bytes)
    if access.affine:
        passes, requests = affine_bank_passes(block.affine(access, evaluate), size, rules)
        degree = passes / np.where(requests == 0, 1.0, requests)
    elif access.transactions is not None:
        degree = passes = evaluate(access.transactions)
    else:
        stride = evaluate(access.stride) if access.stride is not None else np.ones((1,) * ndim)
        row = Affine(0, stride, 0, 0, block.lanes, 1, block.lanes, block.warp_size)
        passes, _ = affine_bank_passes(row, size, rules)
        major = [d.compute_capability.split(".")[0] for d in devices]
        banks = device_array(devices, [BANKS.get(m, BANKS_LATER) for m in major], ndim)
        degree = bank_conflict_degree(stride, banks, banks)
    degree, passes = (evaluate.of_hardware(part, count) for part in (degree, passes))
    return SharedAccess(access.name, access.kind, count, degree, passes)

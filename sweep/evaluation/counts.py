"""Counts of a kernel over a box: its expressions and stages, evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweep.evaluation.step_cache import StepCache
from sweep.expressions import Expression
from sweep.hardware.affine_accesses import Affine
from sweep.models.workload import Array, GlobalAccess, SharedAccess, Stage
from sweep.specs import Access, Kernel

__all__ = [
    "Block",
    "Evaluator",
    "block_of",
    "by_class",
    "device_array",
    "parts_of_block",
    "stages_of",
    "total_of",
]

TOTALS = ("instructions.", "synchronisation.")


def device_array(values: Sequence[float], ndim: int) -> Array:
    """Return one number per device as an array along the device axis."""
    return np.array(values, dtype=np.float64).reshape((len(values),) + (1,) * (ndim - 1))


class Evaluator:
    """Evaluates a kernel's expressions over a box and collects where they fail.

    ``values`` has every name that expressions may use, ``faults`` where a derived name is
    undefined: that matters only to expressions that use it there. ``failed`` is true where an
    expression divides by zero, or a count is negative or has no meaning.
    """

    def __init__(self, values: dict[str, Any], ndim: int, steps: StepCache) -> None:
        self.values = values
        self.faults: dict[str, Any] = {}
        self.ndim = ndim
        self.steps = steps
        self.failed: Any = steps(_nowhere, ndim)

    def define(self, name: str, expression: Expression) -> None:
        """Evaluate a derived name."""
        self.values[name], self.faults[name] = self._evaluated(expression)

    def __call__(self, expression: Expression, *, signed: bool = False) -> Array:
        """Evaluate a count; where it fails it is 1, and the configuration is flagged.

        What is ``signed`` may be negative.
        """
        value, bad = self.steps(_count, *self._evaluated(expression), signed)
        if bad is not None:
            self.note(bad)
        return value

    def share(self, expression: Expression | None, *, of_l2: bool = False) -> Array:
        """Evaluate a share of accesses that a cache serves; 0 where a device has no such cache."""
        value = self.steps(_zero, self.ndim) if expression is None else self(expression)
        if of_l2:
            value = self.steps(_where_cached, self.values["l2_bytes"], value)
        self.note(value > 1.0)
        return value

    def of_hardware(self, value: Array, count: Array) -> Array:
        """Take what an access costs; NaN, where no hardware has it, is flagged if it occurs."""
        value, unknown = self.steps(_known, value, count)
        if unknown is not None:
            self.note(unknown)
        return value

    def note(self, failed: Any) -> None:
        """Flag configurations."""
        if failed.any():
            self.failed = self.failed | failed

    def condition(self, expression: Expression) -> tuple[Any, Any]:
        """Return where a constraint holds, and where it cannot be evaluated."""
        return self.steps(_truth, *self._evaluated(expression))

    def _evaluated(self, expression: Expression) -> tuple[Any, Any]:
        """Return an expression's value and where it is at fault."""
        names = sorted(expression.names)
        values = (self.values.get(name) for name in names)
        faults = (self.faults.get(name) for name in names)
        return self.steps(_evaluated, expression, self.ndim, *values, *faults)


# Steps of an evaluation


def _evaluated(expression: Expression, ndim: int, *given: Any) -> tuple[Any, Any]:
    """Evaluate an expression, given the values of its names and their faults, if any."""
    names = sorted(expression.names)
    values, faults = (
        {name: part for name, part in zip(names, parts, strict=True) if part is not None}
        for parts in (given[: len(names)], given[len(names) :])
    )
    value, fault = expression.evaluate(values, faults)
    return _padded(value, ndim), _padded(fault, ndim)


def _count(value: Any, fault: Any, signed: bool) -> tuple[Array, Any]:
    """Return a value as a count, and where it is none; ``None`` if it is one everywhere."""
    value = np.asarray(value, np.float64)
    lowest = value.min()
    if not fault.any() and (lowest >= 0 or (signed and lowest == lowest)):
        return value, None
    bad = fault | np.isnan(value) | ((value < 0) & (not signed))
    return (np.where(bad, 1.0, value), bad) if bad.any() else (value, None)


def _truth(value: Any, fault: Any) -> tuple[Any, Any]:
    return np.asarray(value, dtype=bool), fault


def _known(value: Array, count: Array) -> tuple[Array, Any]:
    """Return what hardware has, and where it is needed but unknown; ``None`` if nowhere."""
    unknown = np.isnan(value)
    if not unknown.any():
        return value, None
    return np.where(unknown, 1.0, value), unknown & (count > 0)


def _where_cached(l2_bytes: Array, share: Array) -> Array:
    return np.where(l2_bytes > 0, share, 0.0)


def _zero(ndim: int) -> Array:
    return np.zeros((1,) * ndim)


def _nowhere(ndim: int) -> Any:
    return np.zeros((1,) * ndim, dtype=bool)


def _padded(value: Any, ndim: int) -> Any:
    array = np.asarray(value)
    return array.reshape((1,) * ndim) if array.ndim == 0 else array


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


@dataclass(frozen=True)
class Block:
    """The threads of a block and how they become warps; width and height where they matter.

    ``share`` is the share of the block's warps that they are, by which counts are reduced.
    """

    threads: Array
    warp_size: Array
    x: Array | None = None
    y: Array | None = None
    share: Array | float = 1.0

    @cached_property
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
        return evaluate.steps(Block, threads, warp_size)
    x, y = (evaluate(kernel.expressions[f"launch.block_{axis}"]) for axis in "xy")
    return evaluate.steps(Block, threads, warp_size, x, y)


def parts_of_block(kernel: Kernel, evaluate: Evaluator, block: Block) -> dict[str | None, Block]:
    """Return the part of the block that passes each stage; under ``None`` the block itself."""
    parts: dict[str | None, Block] = {None: block}
    for stage in kernel.stages:
        parts[stage.name] = block
        if "threads" in stage.expressions:
            threads = evaluate(stage.expressions["threads"])
            evaluate.note(threads > block.threads)
            parts[stage.name] = evaluate.steps(_part, block, threads)
    return parts


def _part(block: Block, threads: Array) -> Block:
    """Return the part of a block that are its first threads."""
    warps, of_block = (np.ceil(n / block.warp_size) for n in (threads, block.threads))
    part = replace(block, threads=threads, share=warps / of_block)
    if block.x is None or block.y is None:
        return part
    rows = np.ceil(threads / block.x)
    return replace(part, x=np.minimum(block.x, threads), y=np.minimum(block.y, rows))

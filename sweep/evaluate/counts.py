"""Counts of a kernel over a box: its expressions, stages and accesses, evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.expressions import Expression
from sweep.specs import Device
from sweep.specs.kernel import Access, Kernel
from sweep.transactions import access_transactions, bank_conflict_degree, rule_of
from sweep.workload import Array, GlobalAccess, SharedAccess, Stage

__all__ = [
    "Evaluator",
    "by_class",
    "device_array",
    "global_access",
    "shared_access",
    "stages_of",
    "total_of",
]

BANKS = {"1": 16}  # banks (and lanes that are served together) by major compute capability
BANKS_LATER = 32
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

    def __call__(self, expression: Expression) -> Array:
        """Evaluate a count; where it fails it is 1, and the configuration is flagged."""
        value, fault = expression.evaluate(self.values, self.faults)
        value = self._padded(np.asarray(value, np.float64))
        bad = self._padded(fault) | ~(value >= 0)
        self.note(bad)
        return np.where(bad, 1.0, value) if bad.any() else value

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
    evaluate: Evaluator,
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
        computation = total_of(counts, evaluate.ndim)
    return Stage(name, loop, executions, computation, numbers, barriers, accesses, shared)


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


def global_access(
    access: Access, evaluate: Evaluator, devices: tuple[Device, ...], lanes: Array, ndim: int
) -> GlobalAccess:
    """Evaluate an access to global memory, under each device's rule."""
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
    evaluate.note(np.isnan(by_device))  # a word or stride that no hardware has
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


def shared_access(
    access: Access, evaluate: Evaluator, devices: tuple[Device, ...], ndim: int
) -> SharedAccess:
    """Evaluate an access to shared memory, with the conflicts of each device's banks."""
    stride = evaluate(access.stride) if access.stride is not None else np.ones((1,) * ndim)
    banks = device_array(
        devices,
        [BANKS.get(d.compute_capability.split(".")[0], BANKS_LATER) for d in devices],
        ndim,
    )
    degree = bank_conflict_degree(stride, banks, banks)
    evaluate.note(np.isnan(degree))
    return SharedAccess(access.name, access.kind, evaluate(access.count), degree)

"""Accesses of a kernel over a box, as each device's stepsry serves them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sweep.evaluation.counts import Block, Evaluator, device_array
from sweep.hardware.affine_accesses import (
    Affine,
    access_transactions,
    affine_bank_passes,
    affine_transactions,
    bank_conflict_degree,
)
from sweep.hardware.memory_rules import bank_rule_of, rule_of
from sweep.hardware.warp_simulation import Cost
from sweep.models.workload import Array, GlobalAccess, SharedAccess
from sweep.specs import Access, Device

__all__ = ["global_access", "shared_access"]

BANKS = {"1": 16}  # banks (and lanes that are served together) by major compute capability
BANKS_LATER = 32
SECTOR_BYTES = 32.0
LINE_BYTES = 128.0
SECTORS_OF_PASS = LINE_BYTES / SECTOR_BYTES


def _rules(devices: tuple[Device, ...], rule: Callable[[str | None], str], ndim: int) -> Any:
    """Return each device's rule."""
    names = [rule(device.compute_capability) for device in devices]
    return np.array(names).reshape((len(devices),) + (1,) * (ndim - 1))


def global_access(
    access: Access,
    evaluate: Evaluator,
    devices: tuple[Device, ...],
    block: Block,
    l2_hit_rate: Array,
) -> GlobalAccess:
    """Evaluate an access to global stepsry, under each device's rule; the rate is the kernel's."""
    steps = evaluate.steps
    count = steps(operator.mul, evaluate(access.count), block.share)
    size = evaluate(access.bytes)
    rules = steps(_rules, devices, rule_of, evaluate.ndim)
    bank_rules = steps(_rules, devices, _bank_rule_of_l1, evaluate.ndim)
    if access.affine:
        addresses = block.affine(access, evaluate)
        cost = steps(_affine_cost, size, rules, *addresses)
        aligned = steps(_linear_cost, size, rules, *addresses[4:])
        passes, _ = steps(_affine_passes, size, bank_rules, *addresses)
    elif access.transactions is not None:
        # Counted in sectors, whatever the device's rule; beside it what consecutive words need.
        words = np.maximum(np.ceil(size * block.lanes / SECTOR_BYTES), 1.0)
        cost, aligned = (
            Cost(n, n * SECTOR_BYTES, n) for n in (evaluate(access.transactions), words)
        )
        passes = np.maximum(np.ceil(cost.sectors / SECTORS_OF_PASS), 1.0)
    else:
        stride = evaluate(access.stride) if access.stride is not None else None
        given = (access.pattern, size, stride, block.lanes, rules)
        cost = Cost(*steps(access_transactions, *given))
        given = ("coalesced", size, None, block.lanes, rules)
        aligned = Cost(*steps(access_transactions, *given))
        step = steps(_step, access.pattern, stride, size)
        row = (0, step, 0, 0, block.lanes, 1, block.lanes, block.warp_size)
        passes, _ = steps(_affine_passes, size, bank_rules, *row)
    cost = Cost(*(evaluate.of_hardware(part, count) for part in cost))
    if access.l2_hit_rate is not None:
        l2_hit_rate = evaluate.share(access.l2_hit_rate, of_l2=True)
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
        wavefronts=evaluate.of_hardware(passes, count),
    )


def _bank_rule_of_l1(compute_capability: str) -> str:
    """Return the rule by which loads meet the banks of a first-level cache."""
    return bank_rule_of(compute_capability, local=False)


def _step(pattern: str, stride: Array | None, size: Array) -> Array:
    """Return the distance of neighbouring lanes' words in a named pattern, for their banks."""
    if pattern == "uncoalesced":
        return LINE_BYTES / size
    return stride if stride is not None else np.full_like(size, pattern != "broadcast")


def _affine_cost(size: Array, rules: Any, *addresses: Any) -> Cost:
    """Return what an affine access costs."""
    return affine_transactions(Affine(*addresses), size, rules)


def _linear_cost(size: Array, rules: Any, *block: Any) -> Cost:
    """Return what consecutive words would cost a block of these threads."""
    return affine_transactions(Affine(0, 0, 0, 0, *block).linear(), size, rules)


def _affine_passes(size: Array, rules: Any, *addresses: Any) -> tuple[Any, Any]:
    """Return passes and requests of an affine access to shared stepsry or L1."""
    return affine_bank_passes(Affine(*addresses), size, rules)


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
    """Evaluate an access to shared stepsry, with the conflicts of each device's banks."""
    ndim, steps = evaluate.ndim, evaluate.steps
    count = steps(operator.mul, evaluate(access.count), block.share)
    rules = steps(_rules, devices, bank_rule_of, ndim)
    size = evaluate(access.bytes)
    if access.affine:
        passes, requests = steps(_affine_passes, size, rules, *block.affine(access, evaluate))
        degree = passes / np.where(requests == 0, 1.0, requests)
    elif access.transactions is not None:
        degree = passes = evaluate(access.transactions)
    else:
        stride = evaluate(access.stride) if access.stride is not None else steps(_one, ndim)
        row = (0, stride, 0, 0, block.lanes, 1, block.lanes, block.warp_size)
        passes, _ = steps(_affine_passes, size, rules, *row)
        banks = steps(_banks, devices, ndim)
        degree = steps(bank_conflict_degree, stride, banks, banks)
    degree, passes = (evaluate.of_hardware(part, count) for part in (degree, passes))
    return SharedAccess(access.name, access.kind, count, degree, passes)


def _one(ndim: int) -> Array:
    return np.ones((1,) * ndim)


def _banks(devices: tuple[Device, ...], ndim: int) -> Array:
    """Return the banks of each device's shared stepsry."""
    major = [d.compute_capability.split(".")[0] for d in devices]
    return device_array([BANKS.get(m, BANKS_LATER) for m in major], ndim)

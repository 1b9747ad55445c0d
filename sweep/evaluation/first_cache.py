"""What the first-level cache and the banks of shared memory do to an access, on each device."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from sweep.evaluation.counts import Evaluator, device_array
from sweep.hardware.affine_accesses import Affine, affine_bank_passes, affine_transactions
from sweep.hardware.memory_rules import bank_rule_of, cache_rule_of, is_cached, rule_of
from sweep.models.workload import Array
from sweep.specs import Access, Device

SECTORS_OF_PASS = 4.0


def cached(access: Access, evaluate: Evaluator) -> Array:
    """Return the share of an access that each device's first-level cache may keep (0 to 1)."""
    steps, given = evaluate.steps, (evaluate.devices, evaluate.ndim)
    of_path = steps(_is_cached, access.memory, *given)
    if access.memory != "global":
        return of_path
    of_read_only = steps(_is_cached, "read_only", *given)
    return steps(_mean, evaluate.share(access.read_only), of_read_only, of_path)


def cache_passes(words: Affine, size: Array, evaluate: Evaluator) -> Any:
    """Return passes of an affine access through L1, of 128 bytes, under each device's rule."""
    rules = {cache_rule_of(device.compute_capability) for device in evaluate.devices}
    found = {}
    if "banks" in rules:
        found["banks"], _ = bank_passes(words, size, "l1", evaluate)
    for name in sorted(rules - {"banks"}):
        found[name] = evaluate.steps(affine_transactions, words, size, name).transactions
    if "texture" in found:
        found["texture"] = evaluate.steps(operator.truediv, found["texture"], SECTORS_OF_PASS)
    if len(found) == 1:
        return found.popitem()[1]
    return evaluate.steps(_by_rule, evaluate.devices, evaluate.ndim, *found, *found.values())


def bank_passes(words: Affine, size: Array, memory: str, evaluate: Evaluator) -> tuple[Any, Any]:
    """Return passes and requests of an affine access to shared or constant memory, or L1."""
    rules = evaluate.steps(rules_of, evaluate.devices, memory, evaluate.ndim)
    return evaluate.steps(affine_bank_passes, words, size, rules)


def rules_of(devices: tuple[Device, ...], memory: str, ndim: int) -> Any:
    """Return each device's rule for global, shared or constant memory, or for the banks of L1."""
    versions = [device.compute_capability for device in devices]
    if memory == "global":
        return device_array((rule_of(device.target) for device in devices), ndim)
    if memory == "constant":
        return device_array(["constant" if v else bank_rule_of(v) for v in versions], ndim)
    return device_array([bank_rule_of(v, local=memory == "shared") for v in versions], ndim)


def _is_cached(path: str, devices: tuple[Device, ...], ndim: int) -> Array:
    """Return 1 where a device's first-level cache keeps what loads of a path bring, else 0."""
    versions = (device.compute_capability for device in devices)
    return device_array([float(is_cached(v, path)) for v in versions], ndim)


def _mean(share: Array, value: Array, otherwise: Array) -> Array:
    """Return the mean of two values, of which a share is the first."""
    return share * value + (1.0 - share) * otherwise


def kept(l1: Array, l2: Array, cached: Array, l2_bytes: Array) -> tuple[Array, Array]:
    """Return the hit rates of both caches where L1 may keep a share of what it would serve.

    L2 serves what L1 does not keep, because it holds the same addresses for all multiprocessors.
    So DRAM is read as often.
    """
    if (cached >= 1.0).all() or not l1.any():
        return l1, l2
    still = l1 * np.minimum(cached, 1.0)
    beyond = np.where(still < 1.0, 1.0 - still, 1.0)
    served = 1.0 - (1.0 - l1) * (1.0 - l2) / beyond
    return still, np.where((still < l1) & (l2_bytes > 0), served, l2)


def _by_rule(devices: tuple[Device, ...], ndim: int, *found: Any) -> Array:
    """Return each device's own part of what the rules found, given by their names, then values."""
    names = device_array([cache_rule_of(d.compute_capability) for d in devices], ndim)
    rules, values = found[: len(found) // 2], found[len(found) // 2 :]
    return np.select([names == name for name in rules], list(values))

"""What expressions of kernel files may read of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sweep.evaluation.counts import device_array
from sweep.hardware.derived import DeviceFacts
from sweep.hardware.occupancy_limits import (
    Limits,
    cluster_blocks_of,
    l1_bytes_of,
    local_l1_bytes_of,
)
from sweep.hardware.paths import memory_side_bandwidth, memory_side_latency
from sweep.models.workload import Array
from sweep.specs import Device
from sweep.specs.compiled import TARGET, target_number


def device_values(devices: tuple[Device, ...], path: str, ndim: int) -> Any:
    """Return a number of device files along the first axis, NaN where a file has none."""
    return device_array([d.values.get(path, np.nan) for d in devices], ndim)


def device_names(
    devices: tuple[Device, ...], limits: Limits, ndim: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the names that expressions may use.

    Parameters
    ----------
    devices : tuple of Device
        Along the first of ``ndim`` axes.
    limits : Limits
        What their multiprocessors offer.
    ndim : int
        Number of axes.
    """
    capabilities = [device.compute_capability for device in devices]
    l1_bytes = [d.values.get("chip.l1", l1_bytes_of(d.compute_capability)) for d in devices]
    chip = {
        name: device_values(devices, f"chip.{name}", ndim)
        for name in ("warp_size", "sm_count", "lanes_per_sm")
    }
    return {
        **chip,
        "l1_bytes": device_array(l1_bytes, ndim),
        "local_l1_bytes": device_array(map(local_l1_bytes_of, capabilities), ndim),
        "l2_bytes": np.nan_to_num(device_values(devices, "chip.l2", ndim)),
        "max_threads_per_block": np.asarray(limits.max_threads_per_block, np.float64),
        "max_blocks_per_cluster": device_array(map(cluster_blocks_of, capabilities), ndim),
        "max_threads_per_sm": np.asarray(limits.max_threads_per_sm, np.float64),
        "shared_memory_per_sm": np.asarray(limits.smem_per_sm_bytes, np.float64),
        "registers_per_sm": np.asarray(limits.regs_per_sm, np.float64),
        "max_registers_per_thread": np.asarray(limits.max_regs_per_thread, np.float64),
        "compute_capability": device_array([float(c or 0) for c in capabilities], ndim),
        TARGET: device_array([target_number(d.target) for d in devices], ndim),
    }


def with_memory_side_cache(
    devices: tuple[Device, ...], ndim: int, l2_bytes: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return the bytes that L2 and a memory-side cache hold; the same array without any.

    One whose bandwidth the file lacks is left out: it would serve all that it holds in no time.
    """
    beyond = np.nan_to_num(device_values(devices, "chip.memory_side_cache", ndim))
    beyond = beyond * np.isfinite(of_facts(devices, memory_side_bandwidth, ndim))
    return l2_bytes + beyond if beyond.any() else l2_bytes


def memory_side_cache(devices: tuple[Device, ...], ndim: int) -> tuple[Array, Array]:
    """Return bandwidth [B/s] and latency [s] of each device's memory-side cache."""
    bandwidth, latency = (
        of_facts(devices, rule, ndim) for rule in (memory_side_bandwidth, memory_side_latency)
    )
    return bandwidth, np.nan_to_num(latency)


def of_facts(devices: tuple[Device, ...], rule: Callable[..., Any], ndim: int) -> Array:
    """Return a rule's number for each device."""
    facts = [DeviceFacts(d.values, d.compute_capability, d.vendor, {}) for d in devices]
    return device_array([rule(fact) or np.nan for fact in facts], ndim)

"""Rules for the model ``combined``: cycles of an SM's pipelines, and latencies.

What compute capabilities have in common is here by capability: NVIDIA's programming guide and the
whitepapers of its architectures say it of all chips of one.
"""

from __future__ import annotations

from sweep.derive.facts import (
    dram_latency,
    instruction_latency,
    issue_cycles,
    number,
    shared_latency,
)
from sweep.specs import Device

__all__ = [
    "cache_latency",
    "fp64_cycles",
    "integer_cycles",
    "issue_slots",
    "l1_cycles",
    "l1_latency",
    "launch_cycles",
    "load_store_cycles",
    "lookup_latency",
    "memory_latency",
    "schedulers",
    "shared_cycles",
    "special_conversions",
    "special_cycles",
    "unified_lanes",
]

# Integers have lanes of their own; on 8.6, 8.9 and 12.x the count of lanes includes them.
OWN_INTEGER_LANES = ("7.0", "7.2", "7.5", "8.0", "9.0", "10.0", "10.3", "11.0")


def _lanes(device: Device, *paths: str) -> float | None:
    """Return the cycles in which the first of some kinds of lanes takes a warp."""
    lanes, warp = number(device, *paths), number(device, "chip.warp_size")
    return warp / lanes if lanes and warp else None


def issue_slots(device: Device) -> float | None:
    """One over the issue width; a warp over all lanes where they take a warp in several cycles."""
    width = number(device, "chip.issue_width_per_sm", "chip.schedulers_per_sm")
    lanes = issue_cycles(device)
    if lanes is not None and lanes > 1.0:
        return lanes
    return 1.0 / width if width else lanes


def schedulers(device: Device) -> float | None:
    """Schedulers of a multiprocessor, each with lanes of its own; one without a number of them."""
    return number(device, "chip.schedulers_per_sm") or 1.0


def integer_cycles(device: Device) -> float | None:
    """Threads of a warp over lanes for integers, else over all lanes."""
    return _lanes(device, "chip.integer_lanes_per_sm", "chip.lanes_per_sm")


def special_cycles(device: Device) -> float | None:
    """Threads of a warp over lanes for special functions, else over a quarter of all lanes."""
    found = _lanes(device, "chip.special_lanes_per_sm")
    all_lanes = issue_cycles(device)
    return found or (None if all_lanes is None else 4.0 * all_lanes)


def fp64_cycles(device: Device) -> float | None:
    """Threads of a warp over lanes for double precision; without any as single precision.

    For devices without double precision NVIDIA's compilers make it single.
    """
    if number(device, "chip.fp64_lanes_per_sm") == 0:
        return issue_cycles(device)
    return _lanes(device, "chip.fp64_lanes_per_sm")


def unified_lanes(device: Device) -> float | None:
    """Integers take single-precision lanes but on 7.x, 8.0, 9.0, 10.x and 11.0."""
    return 0.0 if device.compute_capability in OWN_INTEGER_LANES else 1.0


def special_conversions(device: Device) -> float | None:
    """Conversions take the lanes of special functions on NVIDIA's GPUs, all lanes on AMD's."""
    return 0.0 if device.vendor == "AMD" else 1.0


def load_store_cycles(device: Device) -> float | None:
    """Threads of a warp over load-store lanes, else over all lanes, at most a warp's."""
    found = _lanes(device, "chip.load_store_lanes_per_sm")
    all_lanes = issue_cycles(device)
    return found or (None if all_lanes is None else max(1.0, all_lanes))


def shared_cycles(device: Device) -> float | None:
    """Pass through shared memory: 64 bytes a cycle on 2.x and 7.5 (2 cycles), else 128 (1 cycle).

    On 1.x a half-warp's 16 words at 8 lanes, 2 cycles, which is the peak of Zhang & Owens.
    """
    version = device.compute_capability
    return 2.0 if version.startswith(("1.", "2.")) or version == "7.5" else 1.0


def l1_cycles(device: Device) -> float | None:
    """Sector through L1: 128 bytes a cycle on 3.x, 7.0, 7.2 and from 8.0 on, else 64."""
    version = device.compute_capability
    older = version.startswith(("1.", "2.", "5.", "6.")) or version in ("", "7.5")
    return 0.5 if older else 0.25


def l1_latency(device: Device) -> float | None:
    """L1 latency by micro-benchmark, else that of shared memory."""
    return number(device, "microbenchmark.l1_latency") or lookup_latency(device)


def lookup_latency(device: Device) -> float | None:
    """Latency of shared memory by micro-benchmark or paper, else 5 dependent instructions'.

    The ratio is that of V100, GTX 280 and most others between: 19 to 38 cycles against 4 to 24.
    """
    found = shared_latency(device)
    arithmetic = instruction_latency(device)
    return found or (None if arithmetic is None else 5.0 * arithmetic)


def launch_cycles(device: Device) -> float | None:
    """Launch of a block by micro-benchmark, else a DRAM latency, which it is near to."""
    return number(device, "microbenchmark.block_launch") or memory_latency(device)


def memory_latency(device: Device) -> float | None:
    """DRAM latency by micro-benchmark or paper, else the middle of the 400 to 800 cycles of guides.

    NVIDIA's programming guides state that range for compute capabilities 1.x to 3.x.
    """
    return dram_latency(device) or 600.0


def cache_latency(device: Device) -> float | None:
    """L2 latency by micro-benchmark (nearest partition), else 0.45 of DRAM's, or that without L2.

    GPUs of which both are measured have 0.39 (A100) to 0.49 (RTX 2080 Ti).
    """
    found = number(device, "microbenchmark.l2_near_latency", "microbenchmark.l2_far_latency")
    latency = memory_latency(device)
    if found or latency is None:
        return found
    return 0.45 * latency if number(device, "chip.l2") else latency

"""What lies on the way to memory: the link to the host, texture units, a cache beside DRAM, pieces.

What the device file does not say follows from what chips of a compute capability have in common,
by NVIDIA's programming guide and the white papers of its architectures.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sweep.hardware.derived import DeviceFacts, Rule, l1_cycles

# Bytes per second in one direction over 16 lanes, less what encoding takes: 8 of 10 bits carry data
# in PCIe 2.0, 128 of 130 from 3.0 on (PCI Express Base Specification). With the first compute
# capability of each.
_LINKS = (("", 8e9), ("3.5", 15.75e9), ("8.0", 31.5e9), ("9.0", 63e9))
_SUSTAINED = 12.0 / 15.75
_LATENCY = 1e-6
_TAGS = 256.0
# Texture units of a multiprocessor, NVIDIA's white papers as recalled: GeForce 8800 (4 addresses a
# clock for a cluster of two), its successors (8 for two), GTX 200 (8 for three), Fermi (4), GF104
# (8), Kepler GK110 (16), GTX 980 (8), Tesla P100 (4), GeForce GTX 1080 (8), later ones (4).
_TEXTURE_UNITS = (("", 2.0), ("1.1", 4.0), ("1.2", 8.0 / 3.0), ("2.0", 4.0), ("2.1", 8.0),
                  ("3.0", 16.0), ("5.0", 8.0), ("6.0", 4.0), ("6.1", 8.0),
                  ("7.0", 4.0))  # fmt: skip


def _since(table: tuple[tuple[str, float], ...], capability: str) -> float:
    """Return the value of the last capability of a table that is at most a given one."""
    given = float(capability or 0)
    return [value for least, value in table if float(least or 0) <= given][-1]


def link_bandwidth(device: DeviceFacts) -> float:
    """Bandwidth to the host that is sustained in one direction [B/s].

    12 of 15.75 GB/s, as the CUDA C++ Best Practices Guide (9.1.1, pinned memory) has it for PCIe 3.
    Without an entry in the file the link is 16 lanes of PCIe: 2.0 before compute capability 3.5,
    3.0 before 8.0 and on AMD's GPUs, 4.0 before 9.0, then 5.0.
    """
    peak = device.number("host_link.bandwidth")
    return (peak or _since(_LINKS, device.compute_capability or "3.5")) * _SUSTAINED


def link_latency(device: DeviceFacts) -> float:
    """Latency of a load from mapped host memory [s]; 1 us is assumed without one in the file."""
    return device.number("host_link.latency") or _LATENCY


def link_request_bytes(device: DeviceFacts) -> float:
    """Bytes that a request to the host counts at least [B].

    A PCIe device has 256 reads under way (tags of 8 bits, PCI Express Base Specification 3.0), so a
    request takes at least a 256th of the latency, as if it had this many bytes.
    """
    return link_bandwidth(device) * link_latency(device) / _TAGS


def memory_side_bandwidth(device: DeviceFacts) -> float:
    """Bandwidth of a memory-side cache [B/s]; infinite without one.

    Such a cache serves what L2 does not, at a clock of its own: AMD's Infinity Cache belongs to the
    memory channels and runs at the clock of the Infinity Fabric.
    """
    return device.number("microbenchmark.memory_side_cache_bandwidth") or math.inf


def memory_side_latency(device: DeviceFacts) -> float:
    """Latency of a load that a memory-side cache serves [s]; 0 without one."""
    cycles = device.number("microbenchmark.memory_side_cache_latency")
    return (cycles or 0.0) / (device.number("microbenchmark.core_clock") or 1.0)


def _piece(size: int) -> Rule:
    def rule(device: DeviceFacts) -> float | None:
        fact = f"dram_piece_{size}_factor"
        found = device.number(f"microbenchmark.{fact}") or device.stated.get(fact)
        return max(1.0, found) if found else None

    rule.__doc__ = f"""Time of random pieces of {size} bytes in DRAM over that of long ones, \
measured or assumed."""
    return rule


PIECES = {size: _piece(size) for size in (64, 128, 256)}
"""By size of a short contiguous piece [byte] the rule that finds what it costs DRAM."""


def piece_factor(size: Any, factors: dict[int, Any]) -> Any:
    """Return what a byte of a contiguous piece costs DRAM, over one of a long piece [1].

    Linear between the sizes of ``factors``, of which each is half the next; a piece twice as long
    as the last is a long one. Of pieces shorter than the first a product's next step reads the
    rest, which L2 has by then.
    """
    return sum(((own - factors.get(2 * short, 1.0)) * np.clip(2.0 - size / short, 0, 1)
                for short, own in sorted(factors.items(), reverse=True)), start=1.0)  # fmt: skip


def texture_passes(device: DeviceFacts) -> float | None:
    """Time of a warp's fetch in the texture units, in passes of four sectors through L1.

    A unit serves a thread a cycle. Without an entry in the file a multiprocessor has the units of
    its architecture's white paper, on 1.x its part of those that a cluster shares, as if all
    multiprocessors fetched at once; 4 are assumed of AMD's GPUs.
    """
    units = device.number("chip.texture_units_per_sm")
    if not units:
        amd = device.vendor == "AMD"
        units = 4.0 if amd else _since(_TEXTURE_UNITS, device.compute_capability)
    warp, sector = device.number("chip.warp_size"), l1_cycles(device)
    return warp / units / (4.0 * sector) if warp and sector else None

"""Latencies of tiles that copies bring: rules of device parameters.

One load that follows another (a pointer chase) is the least that memory takes. A block waits for
the slowest of a tile's copies, for the shared memory that they write, and for a barrier; each row
of a tile lies in another page of DRAM. On an H200 a copy from L2 takes 404 cycles, a load 282, and
a tile's rows from DRAM 1,060, a load 660 (`sweep/microbenchmarks/copies.py`).
"""

from __future__ import annotations

from sweep.hardware.derived import DeviceFacts, cache_latency, dram_latency

COPY_CYCLES, TILE_FACTOR = 122.0, 1.61


def copy_latency(device: DeviceFacts) -> float | None:
    """Copy that L2 serves by micro-benchmark, else a load and what an H200 adds; of AMD a load."""
    if found := device.number("microbenchmark.copy_l2_latency"):
        return found
    load = cache_latency(device)
    return load if load is None or device.vendor == "AMD" else load + COPY_CYCLES


def tile_dram_factor(device: DeviceFacts) -> float:
    """Tile's rows from DRAM over one load by micro-benchmark, else an H200's ratio; AMD's: 1."""
    found, load = device.number("microbenchmark.copy_dram_latency"), dram_latency(device)
    if found and load:
        return max(1.0, found / load)
    return 1.0 if device.vendor == "AMD" else TILE_FACTOR

"""What several models' rules derive from a device file: latencies and service times.

Each rule is a function of the device alone, with its reasoning in the docstring; the first line is
what ``sweep explain`` and the results quote as the source. A rule returns ``None`` where the
device lacks what it needs. All cycles are core cycles at the device's nominal clocks.
"""

from __future__ import annotations

from sweep.specs import Device
from sweep.specs.device import ModelValue

__all__ = [
    "departure_del_coal",
    "departure_del_uncoal",
    "dram_latency",
    "dram_service_table",
    "instruction_latency",
    "issue_cycles",
    "l2_latency",
    "l2_service",
    "lemeire_row",
    "number",
    "service",
    "shared_latency",
]

SECTOR = 32.0
LINE = 128.0


def number(device: Device, *paths: str) -> float | None:
    """Return the first of the paths that the device file has."""
    for path in paths:
        if path in device.values:
            return device.values[path]
    return None


def issue_cycles(device: Device) -> float | None:
    """Threads of a warp over lanes of an SM: cycles to issue one warp instruction."""
    lanes = number(device, "chip.lanes_per_sm")
    warp = number(device, "chip.warp_size")
    return None if not lanes or not warp else warp / lanes


def dram_latency(device: Device) -> float | None:
    """DRAM latency by micro-benchmark, else that of another model's table of this device.

    Cycles measured at another core clock than the nominal one are taken over as time: most of the
    latency is DRAM's, which does not follow the core clock.
    """
    found = number(device, "microbenchmark.dram_latency", "microbenchmark.dram_large_latency")
    measured_at = number(device, "microbenchmark.core_clock")
    nominal = number(device, "clocks.core_nominal")
    if found:
        return found * nominal / measured_at if measured_at and nominal else found
    for model, key in (("hong_kim", "mem_ld_cycles"), ("luo_suda", "t_mem_cycles"),
                       ("wang_chu", "dm_lat_cycles")):  # fmt: skip
        value = device.model_parameters.get(model, {}).get(key)
        if isinstance(value, (int, float)):
            return float(value)
    rows = device.model_parameters.get("lemeire", {}).get("global_memory")
    if isinstance(rows, tuple):
        by_width = {float(row[0]): float(row[2]) for row in rows}
        return by_width.get(4.0)
    return None


def service(device: Device, size: float) -> float | None:
    """Return the cycles in which one SM's share of the bandwidth moves ``size`` bytes."""
    numbers = [
        number(device, path)
        for path in ("chip.sm_count", "clocks.core_nominal", "chip.memory_bandwidth")
    ]
    if not all(numbers):
        return None
    n_sm, core, bandwidth = (float(n) for n in numbers if n is not None)
    return size * n_sm * core / bandwidth


def departure_del_coal(device: Device) -> float | None:
    """Service time of 128 bytes at an SM's share of the DRAM bandwidth."""
    return service(device, LINE)


def departure_del_uncoal(device: Device) -> float | None:
    """Service time of a 32-byte sector at an SM's share of the DRAM bandwidth."""
    return service(device, SECTOR)


def shared_latency(device: Device) -> float | None:
    """Latency of a load from shared memory by micro-benchmark or another model's table.

    An SM of compute capability 1.x without either is given the 38 cycles that Wong et al. (ISPASS
    2010) measured on the GTX 280.
    """
    found = number(device, "microbenchmark.shared_latency")
    given = device.model_parameters.get("wang_chu", {}).get("sh_lat_cycles")
    rows = device.model_parameters.get("lemeire", {}).get("local_memory")
    if found:
        return found
    if isinstance(given, (int, float)):
        return float(given)
    if isinstance(rows, tuple):
        return float(rows[0][2])
    return 38.0 if device.compute_capability.startswith("1.") else None


def l2_latency(device: Device) -> float | None:
    """L2 latency by micro-benchmark (nearest partition), else that of DRAM, an upper bound."""
    found = number(device, "microbenchmark.l2_near_latency", "microbenchmark.l2_far_latency")
    return found or dram_latency(device)


def l2_service(device: Device) -> float | None:
    """One sector a core cycle, as Wang & Chu take it for the GTX 980."""
    return 1.0


def dram_service_table(device: Device) -> ModelValue | None:
    """Service time of a sector at the nominal memory clock, without a dependence on the clock."""
    sector = service(device, SECTOR)
    memory = number(device, "clocks.memory_nominal")
    return None if sector is None or not memory else ((memory / 1e6, sector),)


def instruction_latency(device: Device) -> float | None:
    """Latency of a dependent single-precision instruction: measured, or another model's table.

    A Tesla-generation SM without either is given 24 cycles, the read-after-write latency that
    NVIDIA's programming guide states for compute capability 1.x.
    """
    found = number(device, "microbenchmark.fp32_latency")
    if found:
        return found
    row = lemeire_row(device, "sp")
    if row is not None:
        return row[1]
    given = device.model_parameters.get("wang_chu", {}).get("inst_latency_cycles")
    if isinstance(given, (int, float)):
        return float(given)
    return 24.0 if device.compute_capability.startswith("1.") else None


def lemeire_row(device: Device, kind: str) -> tuple[float, float] | None:
    """Return issue and completion latency of a type at ILP 1 from Lemeire's table, if given."""
    rows = device.model_parameters.get("lemeire", {}).get("latencies")
    for row in rows if isinstance(rows, tuple) else ():
        if row[0] == kind and float(row[1]) == 1.0:
            return float(row[2]), float(row[3])
    return None

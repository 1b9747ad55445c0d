"""Rules by which a model's missing device parameter follows from what the device file has.

Each rule is a function of the device alone, with its reasoning in the docstring; the first line is
what ``sweep explain`` and the results quote as the source. A rule returns ``None`` where the
device lacks what it needs. All cycles are core cycles at the device's nominal clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sweep.specs import Device
from sweep.specs.device import ModelValue

__all__ = ["RULES", "Rule"]

Rule = Callable[[Device], ModelValue | None]

SECTOR = 32.0
LINE = 128.0


def _number(device: Device, *paths: str) -> float | None:
    """Return the first of the paths that the device file has."""
    for path in paths:
        if path in device.values:
            return device.values[path]
    return None


def issue_cycles(device: Device) -> float | None:
    """Threads of a warp over lanes of an SM: cycles to issue one warp instruction."""
    lanes = _number(device, "chip.lanes_per_sm")
    warp = _number(device, "chip.warp_size")
    return None if not lanes or not warp else warp / lanes


def dram_latency(device: Device) -> float | None:
    """DRAM latency by micro-benchmark, else that of another model's table of this device."""
    found = _number(device, "microbenchmark.dram_latency", "microbenchmark.dram_large_latency")
    if found:
        return found
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


def _service(device: Device, size: float) -> float | None:
    """Return the cycles in which one SM's share of the bandwidth moves ``size`` bytes."""
    numbers = [
        _number(device, path)
        for path in ("chip.sm_count", "clocks.core_nominal", "chip.memory_bandwidth")
    ]
    if not all(numbers):
        return None
    n_sm, core, bandwidth = (float(n) for n in numbers if n is not None)
    return size * n_sm * core / bandwidth


def departure_del_coal(device: Device) -> float | None:
    """Service time of 128 bytes at an SM's share of the DRAM bandwidth."""
    return _service(device, LINE)


def departure_del_uncoal(device: Device) -> float | None:
    """Service time of a 32-byte sector at an SM's share of the DRAM bandwidth."""
    return _service(device, SECTOR)


def shared_latency(device: Device) -> float | None:
    """Latency of a load from shared memory by micro-benchmark or another model's table.

    An SM of compute capability 1.x without either is given the 38 cycles that Wong et al. (ISPASS
    2010) measured on the GTX 280.
    """
    found = _number(device, "microbenchmark.shared_latency")
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
    found = _number(device, "microbenchmark.l2_near_latency", "microbenchmark.l2_far_latency")
    return found or dram_latency(device)


def l2_service(device: Device) -> float | None:
    """One sector a core cycle, as Wang & Chu take it for the GTX 980."""
    return 1.0


def dram_service_table(device: Device) -> ModelValue | None:
    """Service time of a sector at the nominal memory clock, without a dependence on the clock."""
    service = _service(device, SECTOR)
    memory = _number(device, "clocks.memory_nominal")
    return None if service is None or not memory else ((memory / 1e6, service),)


def instruction_latency(device: Device) -> float | None:
    """Latency of a dependent single-precision instruction: measured, or another model's table.

    A Tesla-generation SM without either is given 24 cycles, the read-after-write latency that
    NVIDIA's programming guide states for compute capability 1.x.
    """
    found = _number(device, "microbenchmark.fp32_latency")
    if found:
        return found
    row = _lemeire(device, "sp")
    if row is not None:
        return row[1]
    given = device.model_parameters.get("wang_chu", {}).get("inst_latency_cycles")
    if isinstance(given, (int, float)):
        return float(given)
    return 24.0 if device.compute_capability.startswith("1.") else None


def _lemeire(device: Device, kind: str) -> tuple[float, float] | None:
    """Return issue and completion latency of a type at ILP 1 from Lemeire's table, if given."""
    rows = device.model_parameters.get("lemeire", {}).get("latencies")
    for row in rows if isinstance(rows, tuple) else ():
        if row[0] == kind and float(row[1]) == 1.0:
            return float(row[2]), float(row[3])
    return None


UNITS = {
    "sp": "chip.lanes_per_sm",
    "int": "chip.integer_lanes_per_sm",
    "sf": "chip.special_lanes_per_sm",
    "dp": "chip.fp64_lanes_per_sm",
}


def latencies(device: Device) -> ModelValue | None:
    """Issue latency: threads of a warp over lanes of the type; completion: that of SP or measured.

    Special functions and double precision are measured seldom: they get the completion latency of
    single precision, at least their own issue latency.
    """
    base = instruction_latency(device)
    warp = _number(device, "chip.warp_size")
    if base is None or not warp:
        return None
    measured = {
        "int": _number(device, "microbenchmark.integer_latency"),
        "dp": _number(device, "microbenchmark.fp64_latency"),
        "sf": _number(device, "microbenchmark.exp2_latency"),
    }
    rows = []
    for kind, path in UNITS.items():
        lanes = _number(device, path)
        if lanes:
            issue = warp / lanes
            rows.append((kind, 1.0, issue, max(measured.get(kind) or base, issue)))
    return tuple(rows) or None


def global_memory(device: Device) -> ModelValue | None:
    """Issue latency: a warp's bytes at the unit's share of the bandwidth; completion: DRAM's."""
    latency = dram_latency(device)
    warp = _number(device, "chip.warp_size")
    one = _service(device, 1.0)
    if latency is None or one is None or not warp:
        return None
    return tuple(
        (width, one * max(width * warp, SECTOR), max(latency, one * width * warp),
         (device.values["chip.memory_bandwidth"]) / 1e9)
        for width in (1.0, 2.0, 4.0, 8.0, 16.0)
    )  # fmt: skip


def local_memory(device: Device) -> ModelValue | None:
    """Issue latency: threads of a warp over banks of shared memory; completion: its latency."""
    latency = shared_latency(device)
    banks, warp = _number(device, "chip.shared_banks"), _number(device, "chip.warp_size")
    core, n_sm = _number(device, "clocks.core_nominal"), _number(device, "chip.sm_count")
    if latency is None or not banks or not warp or not core or not n_sm:
        return None
    return ((4.0, warp / banks, latency, 4.0 * banks * core * n_sm / 1e9),)


def class_cost(device: Device) -> ModelValue | None:
    """Cost of an instruction: its completion latency, as Table 1's 22 cycles are on the GTX 260."""
    base = instruction_latency(device)
    rows = latencies(device)
    if base is None or not isinstance(rows, tuple):
        return None
    by_type = {str(row[0]): float(row[3]) for row in rows}
    integer = by_type.get("int", base)
    shared = shared_latency(device) or base
    costs = {
        "computation": base, "fp32": base, "integer": integer, "conversion": integer,
        "control": integer, "move": integer, "special": by_type.get("sf", base), "shared": shared,
        "barrier": base,
    }  # fmt: skip
    if "dp" in by_type:
        costs["fp64"] = by_type["dp"]
    return tuple(costs.items())


def _parallelism(device: Device) -> float | None:
    """Return latency over issue cycles, relative to the GTX 260's 22 over 4."""
    latency, issue = instruction_latency(device), issue_cycles(device)
    return None if latency is None or issue is None else latency / issue / (22.0 / 4.0)


def cpd_a(device: Device) -> float | None:
    """Fit a = 3 of the GTX 260, scaled by instruction latency over issue cycles; not measured."""
    scale = _parallelism(device)
    return None if scale is None else 3.0 * scale


def cpd_b(device: Device) -> float | None:
    """Fit b = 11 of the GTX 260, a number of warps, taken over; not measured."""
    return 11.0


def cpd_c(device: Device) -> float | None:
    """Fit c = 0.5 of the GTX 260, a proportion, taken over; not measured."""
    return 0.5


def cpd_d(device: Device) -> float | None:
    """Fit d = 80 of the GTX 260, scaled by instruction latency over issue cycles; not measured."""
    scale = _parallelism(device)
    return None if scale is None else 80.0 * scale


RULES: Mapping[tuple[str, str], Rule] = {
    ("hong_kim", "issue_cycles"): issue_cycles,
    ("hong_kim", "mem_ld_cycles"): dram_latency,
    ("hong_kim", "departure_del_uncoal_cycles"): departure_del_uncoal,
    ("hong_kim", "departure_del_coal_cycles"): departure_del_coal,
    ("wang_chu", "issue_cycles"): issue_cycles,
    ("wang_chu", "inst_latency_cycles"): instruction_latency,
    ("wang_chu", "sh_lat_cycles"): shared_latency,
    ("wang_chu", "l2_lat_cycles"): l2_latency,
    ("wang_chu", "l2_del_cycles"): l2_service,
    ("wang_chu", "dm_lat_cycles"): dram_latency,
    ("wang_chu", "dm_del_table"): dram_service_table,
    ("luo_suda", "a"): cpd_a,
    ("luo_suda", "b"): cpd_b,
    ("luo_suda", "c"): cpd_c,
    ("luo_suda", "d"): cpd_d,
    ("luo_suda", "t_mem_cycles"): dram_latency,
    ("luo_suda", "class_cost"): class_cost,
    ("lemeire", "latencies"): latencies,
    ("lemeire", "global_memory"): global_memory,
    ("lemeire", "local_memory"): local_memory,
}
"""Model and parameter to the rule that derives it."""

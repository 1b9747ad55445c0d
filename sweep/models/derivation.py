"""Rules by which a model's missing device parameter follows from what the device file has.

The rules that several models share are in :mod:`sweep.hardware.derived`; here are those of one
model, and the table of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sweep.hardware.derived import (
    SECTOR,
    DeviceFacts,
    Value,
    cache_latency,
    departure_del_coal,
    departure_del_uncoal,
    dram_latency,
    dram_service_table,
    fp64_cycles,
    instruction_latency,
    integer_cycles,
    issue_cycles,
    issue_slots,
    l1_cycles,
    l1_latency,
    l2_latency,
    l2_service,
    launch_cycles,
    load_store_cycles,
    lookup_latency,
    memory_latency,
    number,
    schedulers,
    service,
    shared_cycles,
    shared_latency,
    special_conversions,
    special_cycles,
    unified_lanes,
)
from sweep.models import get_model

__all__ = ["RULES", "derived_parameters"]

Rule = Callable[[DeviceFacts], Value | None]

UNITS = {
    "sp": "chip.lanes_per_sm",
    "int": "chip.integer_lanes_per_sm",
    "sf": "chip.special_lanes_per_sm",
    "dp": "chip.fp64_lanes_per_sm",
}


def latencies(device: DeviceFacts) -> Value | None:
    """Issue latency: threads of a warp over lanes of the type; completion: that of SP or measured.

    Special functions and double precision are measured seldom: they get the completion latency of
    single precision, at least their own issue latency.
    """
    base = instruction_latency(device)
    warp = number(device, "chip.warp_size")
    if base is None or not warp:
        return None
    measured = {
        "int": number(device, "microbenchmark.integer_latency"),
        "dp": number(device, "microbenchmark.fp64_latency"),
        "sf": number(device, "microbenchmark.exp2_latency"),
    }
    rows = []
    for kind, path in UNITS.items():
        lanes = number(device, path)
        if lanes:
            issue = warp / lanes
            rows.append((kind, 1.0, issue, max(measured.get(kind) or base, issue)))
    return tuple(rows) or None


def global_memory(device: DeviceFacts) -> Value | None:
    """Issue latency: a warp's bytes at the unit's share of the bandwidth; completion: DRAM's."""
    latency = dram_latency(device)
    warp = number(device, "chip.warp_size")
    one = service(device, 1.0)
    if latency is None or one is None or not warp:
        return None
    return tuple(
        (width, one * max(width * warp, SECTOR), max(latency, one * width * warp),
         (device.values["chip.memory_bandwidth"]) / 1e9)
        for width in (1.0, 2.0, 4.0, 8.0, 16.0)
    )  # fmt: skip


def local_memory(device: DeviceFacts) -> Value | None:
    """Issue latency: threads of a warp over banks of shared memory; completion: its latency."""
    latency = shared_latency(device)
    banks, warp = number(device, "chip.shared_banks"), number(device, "chip.warp_size")
    core, n_sm = number(device, "clocks.core_nominal"), number(device, "chip.sm_count")
    if latency is None or not banks or not warp or not core or not n_sm:
        return None
    return ((4.0, warp / banks, latency, 4.0 * banks * core * n_sm / 1e9),)


def class_cost(device: DeviceFacts) -> Value | None:
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


def _parallelism(device: DeviceFacts) -> float | None:
    """Return latency over issue cycles, relative to the GTX 260's 22 over 4."""
    latency, issue = instruction_latency(device), issue_cycles(device)
    return None if latency is None or issue is None else latency / issue / (22.0 / 4.0)


def cpd_a(device: DeviceFacts) -> float | None:
    """Fit a = 3 of the GTX 260, scaled by instruction latency over issue cycles; not measured."""
    scale = _parallelism(device)
    return None if scale is None else 3.0 * scale


def cpd_b(device: DeviceFacts) -> float | None:
    """Fit b = 11 of the GTX 260, a number of warps, taken over; not measured."""
    return 11.0


def cpd_c(device: DeviceFacts) -> float | None:
    """Fit c = 0.5 of the GTX 260, a proportion, taken over; not measured."""
    return 0.5


def cpd_d(device: DeviceFacts) -> float | None:
    """Fit d = 80 of the GTX 260, scaled by instruction latency over issue cycles; not measured."""
    scale = _parallelism(device)
    return None if scale is None else 80.0 * scale


def functional_units(device: DeviceFacts) -> Value | None:
    """Lanes of an SM by instruction type; type I (mul) also has the special units on 1.x."""
    lanes = number(device, "chip.lanes_per_sm")
    special = number(device, "chip.special_lanes_per_sm")
    double = number(device, "chip.fp64_lanes_per_sm")
    if not lanes:
        return None
    mul = lanes + (special or 0.0) if device.compute_capability.startswith("1.") else lanes
    rows = [("I", mul), ("II", lanes)]
    rows += [("III", special)] if special else []
    rows += [("IV", double)] if double else []
    return tuple(rows)


SUSTAINED_SHARED = 0.82  # 1165 of 1420.8 GB/s at 32 warps, Section 5.1
SUSTAINED = 0.84  # 9.33 of 11.1 G warp instructions per second at 32 warps, Section 5.1


def _rate(device: DeviceFacts, per_sm_cycle: float) -> float | None:
    """Return 1e9 per second of the whole GPU of something an SM does per core cycle."""
    core, n_sm = number(device, "clocks.core_nominal"), number(device, "chip.sm_count")
    return None if not core or not n_sm else per_sm_cycle * core * n_sm / 1e9


def instruction_throughput(device: DeviceFacts) -> Value | None:
    """Peak of the lanes times 0.84, the share that the GTX 285 sustains, once latency is hidden.

    It is hidden from latency over issue cycles warps on.
    """
    issue, wait = issue_cycles(device), instruction_latency(device)
    rate = None if issue is None else _rate(device, SUSTAINED / issue)
    if issue is None or wait is None or rate is None:
        return None
    return ((max(wait / issue, 1.0), rate),)


def shared_bandwidth(device: DeviceFacts) -> Value | None:
    """Four bytes a bank (a lane, where fewer) and cycle, times 0.82 as the GTX 285 sustains."""
    banks, lanes = number(device, "chip.shared_banks"), number(device, "chip.lanes_per_sm")
    wait, warp = shared_latency(device), number(device, "chip.warp_size")
    if not banks or not lanes or wait is None or not warp:
        return None
    words = min(banks, lanes)
    rate = _rate(device, SUSTAINED_SHARED * 4.0 * words)
    return None if rate is None else ((max(wait * words / warp, 1.0), rate),)


def global_share(device: DeviceFacts) -> float | None:
    """Measured DRAM read bandwidth over the peak; 0.85, as the GTX 285 sustains, without one."""
    measured = number(device, "microbenchmark.dram_read_bandwidth")
    peak = number(device, "chip.memory_bandwidth")
    return min(measured / peak, 1.0) if measured and peak else 0.85


def cluster_count(device: DeviceFacts) -> float | None:
    """Clusters of 2 or 3 SMs on compute capability 1.x; later every SM has its own pipeline."""
    n_sm = number(device, "chip.sm_count")
    per_cluster = {"1.0": 2.0, "1.1": 2.0, "1.2": 3.0, "1.3": 3.0}
    return None if not n_sm else max(1.0, n_sm // per_cluster.get(device.compute_capability, 1.0))


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
    ("zhang_owens", "functional_units"): functional_units,
    ("zhang_owens", "instruction_throughput"): instruction_throughput,
    ("zhang_owens", "shared_bandwidth"): shared_bandwidth,
    ("zhang_owens", "global_latency_cycles"): dram_latency,
    ("zhang_owens", "global_share_fraction"): global_share,
    ("zhang_owens", "cluster_count"): cluster_count,
    ("lemeire", "latencies"): latencies,
    ("lemeire", "global_memory"): global_memory,
    ("lemeire", "local_memory"): local_memory,
    ("combined", "issue_cycles"): issue_slots,
    ("combined", "fp32_cycles"): issue_cycles,
    ("combined", "integer_cycles"): integer_cycles,
    ("combined", "special_cycles"): special_cycles,
    ("combined", "fp64_cycles"): fp64_cycles,
    ("combined", "unified"): unified_lanes,
    ("combined", "special_conversions"): special_conversions,
    ("combined", "load_store_cycles"): load_store_cycles,
    ("combined", "shared_cycles"): shared_cycles,
    ("combined", "l1_cycles"): l1_cycles,
    ("combined", "l2_cycles"): l2_service,
    ("combined", "alu_latency_cycles"): instruction_latency,
    ("combined", "shared_latency_cycles"): lookup_latency,
    ("combined", "l1_latency_cycles"): l1_latency,
    ("combined", "l2_latency_cycles"): cache_latency,
    ("combined", "dram_latency_cycles"): memory_latency,
    ("combined", "launch_cycles"): launch_cycles,
    ("combined", "schedulers"): schedulers,
    ("combined", "dram_share_fraction"): global_share,
}
"""Model and parameter to the rule that derives it."""


def derived_parameters(
    device: DeviceFacts,
    models: Iterable[str],
    given: Mapping[str, Mapping[str, object]],
) -> Iterator[tuple[str, str, Value, str]]:
    """Yield model, parameter, value and the rule in words for what a device lacks.

    Parameters
    ----------
    device : DeviceFacts
        What the device's file says.
    models : iterable of str
        The models whose parameters to complete.
    given : mapping
        By model the parameters that the file has.
    """
    for model in models:
        for parameter in get_model(model).parameters:
            rule = RULES.get((model, parameter.key))
            value = None
            if rule is not None and parameter.key not in given.get(model, {}):
                value = rule(device)
            if value is not None:
                words = (rule.__doc__ or "").strip().splitlines()[0]
                yield model, parameter.key, value, words.rstrip(".")

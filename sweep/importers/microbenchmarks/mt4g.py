"""The JSON of mt4g (https://github.com/caps-tum/mt4g): topology and latencies of memories.

Its output has no version of its own. Two things in it are not what they seem:

- On some GPUs (A100, RTX 2080 Ti) plain loads and those from shared memory take some 30 cycles more
  than on others, where ``readOnly``, which is the same cache from compute capability 7.0 on, does
  not. What plain loads have more is taken as a cost of reading the clock, and left out.
- Bandwidths are those of one kernel at one size. They are lower bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader

TOLERATED = 1.25
"""Latency of plain loads over that of read-only ones of the same cache, at most [1]: 1.12 on an
H100, 1.9 on an A100."""

UNIFIED_SINCE = 7
"""Major compute capability from which both go through one cache."""

_LATENCIES = {
    "l1": "l1_latency",
    "l2": "l2_near_latency",
    "shared": "shared_latency",
    "main": "dram_latency",
}
_RATES = (
    ("l2", "readBandwidth", "l2_read_bandwidth"),
    ("main", "readBandwidth", "dram_read_bandwidth"),
    ("main", "writeBandwidth", "dram_write_bandwidth"),
)
_UNITS = {"GiB/s": "GiBps", "GB/s": "GBps", "kHz": "kHz", "MHz": "MHz", "bit": "bits",
          "bytes": "bytes", "cycles": "cycles", "ns": "ns"}  # fmt: skip


def _is_mt4g(text: str) -> bool:
    return text.lstrip().startswith("{") and '"memory"' in text and '"multiProcessorCount"' in text


def _read(source: Source) -> list[Measurement]:
    found = Findings(source, "mt4g")
    data = source.document
    general, compute = found.table(data, "general"), found.table(data, "compute")
    memory, meta = found.table(data, "memory"), found.table(data, "meta")
    found.version = f"run of {meta.get('timestamp', 'unknown date')!s:.10}"
    if not isinstance(general.get("name"), str):
        raise source.error("general.name: missing: which GPU is it?")
    _identity(found, data, general, compute)
    capability = found.table(general, "computeCapability")
    extra = 0.0
    if general.get("vendor") == "NVIDIA":
        extra = _reading_the_clock(found, memory, capability)
    for level, key in _LATENCIES.items():
        _latency(found, memory, level, key, extra if level in ("l1", "shared") else 0.0)
    for level, name, key in _RATES:
        entry, place = found.table(memory, level, name), f"memory.{level}.{name}"
        found.add(f"microbenchmark.{key}", entry.get("value"), _unit(found, entry, place),
                  "one_size", place, note="one size: a lower bound")  # fmt: skip
    for level in ("l1", "l2"):
        entry = found.table(memory, level, "fetchGranularity")
        found.add(f"microbenchmark.{level}_fetch", entry.get("size"), "bytes", "pointer_chase",
                  f"memory.{level}.fetchGranularity")  # fmt: skip
    return found.found


def _identity(
    found: Findings, data: Any, general: Mapping[str, Any], compute: Mapping[str, Any]
) -> None:
    for key in ("name", "vendor"):
        found.query(key, general.get(key), f"general.{key}")
    if general.get("vendor") == "NVIDIA":  # HIP gives AMD's a number of this name, too
        capability = found.table(general, "computeCapability")
        major, minor = capability.get("major"), capability.get("minor")
        if major is not None and minor is not None:
            found.query("compute_capability", f"{major}.{minor}", "general.computeCapability")
    for key, name in (
        ("sm_count", "multiProcessorCount"),
        ("warp_size", "warpSize"),
        ("lanes_per_sm", "numberOfCoresPerMultiProcessor"),
    ):
        found.query(f"chip.{key}", compute.get(name), f"compute.{name}")
    for key, path in (
        ("clocks.core_nominal", ("general", "clockRate")),
        ("clocks.memory_nominal", ("memory", "main", "memoryClockRate")),
        ("chip.memory_bus_width", ("memory", "main", "memoryBusWidth")),
        ("chip.l2", ("memory", "l2", "size")),
    ):
        entry, place = found.table(data, *path), ".".join(path)
        value, dies = entry.get("value"), compute.get("numXCDs") or 1
        if key == "chip.l2" and value is not None:  # that of one die
            value = found.number(value, place) * found.number(dies, "compute.numXCDs")
        found.query(key, value, place, _unit(found, entry, place))


def _unit(found: Findings, entry: Mapping[str, Any], place: str) -> str:
    unit = str(entry.get("unit"))
    if entry and unit not in _UNITS:
        raise found.source.error(f"{place}: unknown unit '{unit[:40]}'")
    return _UNITS[unit] if entry else ""


def _reading_the_clock(
    found: Findings, memory: Mapping[str, Any], capability: Mapping[str, Any]
) -> float:
    """Return the cycles that plain loads have more than read-only ones of the same cache."""
    medians = [found.table(memory, level, "latency").get("p50") for level in ("l1", "readOnly")]
    major = capability.get("major")
    if None in medians or found.number(major, "general.computeCapability.major") < UNIFIED_SINCE:
        return 0.0
    plain, read_only = (found.number(value, "memory.l1.latency.p50", "cycles") for value in medians)
    return plain - read_only if plain > TOLERATED * read_only else 0.0


def _latency(
    found: Findings, memory: Mapping[str, Any], level: str, key: str, extra: float
) -> None:
    entry, place = found.table(memory, level, "latency"), f"memory.{level}.latency.p50"
    if entry.get("p50") is None:
        return
    unit = _unit(found, entry, f"memory.{level}.latency")
    median = found.number(entry["p50"], place, unit)
    spread = entry.get("stdev")
    note = "median"
    if extra:
        note = f"median {median:g} less the {extra:g} by which plain loads exceed read-only ones"
    found.add(f"microbenchmark.{key}", median - extra, unit, "timed_loads", place, note=note,
              deviation=float(spread) if isinstance(spread, int | float) else None)  # fmt: skip


READER = Reader("mt4g", _is_mt4g, _read)

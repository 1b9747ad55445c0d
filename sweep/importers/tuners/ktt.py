"""KTT's output: configurations with durations, and counters if they were collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.importers.tuners.measurements import MEASURED, TIME_UNITS, Measurements, Row, collected
from sweep.importers.tuners.reading import Source, members, numbers_of, plain_name

__all__ = ["is_ktt", "read_ktt"]

UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms", "Seconds": "s"}
STATUS = {
    "Ok": "valid",
    "ComputationFailed": "runtime",
    "CompilationFailed": "compilation",
    "ValidationFailed": "correctness",
    "DeviceLimitsExceeded": "runtime",
}
SIZES = {
    "RegistersCount": "registers_per_thread",
    "LocalMemorySize": "shared_memory_bytes",
}
"""What the compiler says of the kernel; local memory is OpenCL's word for a block's own."""


def is_ktt(document: Any) -> bool:
    """Whether a JSON document looks like KTT's output."""
    return isinstance(document, Mapping) and "Metadata" in document and "Results" in document


def read_ktt(source: Source) -> Measurements:
    """Return what KTT's output holds; counters by their own names.

    Raises
    ------
    TuningError
        It is no output of KTT, its unit of time is unknown, or a configuration is incomplete.
    """
    document = source.document
    if not is_ktt(document) or not isinstance(document["Results"], list):
        raise source.error("Metadata or Results is missing: no output of KTT")
    metadata = document["Metadata"] if isinstance(document["Metadata"], Mapping) else {}
    unit = UNITS.get(str(metadata.get("TimeUnit")))
    if unit is None:
        raise source.error(
            f"Metadata.TimeUnit = {metadata.get('TimeUnit')!r}: one of {', '.join(UNITS)}"
        )
    if not document["Results"]:
        raise source.error("Results is empty")
    rows: list[Row] = []
    names: list[str] = []
    for number, entry in enumerate(document["Results"]):
        where = f"Results[{number}]"
        values = _configuration(source, where, entry)
        names = names or list(values)
        if set(values) != set(names):
            other = sorted(set(values) ^ set(names))[0]
            raise source.error(f"{where}.Configuration: '{other}' is not in all configurations")
        rows.append(_row(values, entry, TIME_UNITS[unit], str(metadata.get("Device") or "")))
    kernel = members(document["Results"])[0].get("KernelName") or source.name
    try:
        return collected(str(kernel), names, rows, {"shared_memory_bytes": "B"})
    except ValueError as error:
        raise source.error(str(error)) from None


def _configuration(source: Source, where: str, entry: Any) -> dict[str, Any]:
    pairs = entry.get("Configuration") if isinstance(entry, Mapping) else None
    if not isinstance(pairs, list) or not pairs:
        raise source.error(f"{where}.Configuration must be a list of parameters")
    values: dict[str, Any] = {}
    for pair in pairs:
        name = pair.get("Name") if isinstance(pair, Mapping) else None
        value = pair.get("Value") if isinstance(pair, Mapping) else None
        if not isinstance(name, str) or not isinstance(value, (bool, int, float, str)):
            raise source.error(f"{where}.Configuration: {str(pair)[:60]} is no parameter")
        values[name] = value
    return values


def _row(values: dict[str, Any], entry: Mapping[str, Any], scale: float, device: str) -> Row:
    status = MEASURED[STATUS.get(str(entry.get("Status")), "failed")]
    results = entry.get("ComputationResults")
    parts = members(results)
    durations = [numbers_of(part).get("Duration") for part in parts]
    known = [duration for duration in durations if duration is not None]
    # A configuration may consist of several kernels; what runs between them is not theirs.
    whole = bool(known) and isinstance(results, list) and len(known) == len(results)
    seconds = sum(known) * scale if whole else float("nan")
    further: dict[str, float] = {}
    if len(parts) == 1:
        compiled = numbers_of(parts[0].get("CompilationData"))
        further |= {name: compiled[key] for key, name in SIZES.items() if key in compiled}
        for key, name in (("GlobalSize", "grid"), ("LocalSize", "block")):
            sizes = numbers_of(parts[0].get(key))
            further |= {f"{name}_{a.lower()}": sizes[a] for a in "XYZ" if a in sizes}
        profile = parts[0].get("ProfilingData")
        for counter in members(profile.get("Counters") if isinstance(profile, dict) else None):
            value = numbers_of(counter).get("Value")
            if value is not None:
                further[plain_name(str(counter.get("Name")))] = value
    return Row(values, seconds, status, further, device)

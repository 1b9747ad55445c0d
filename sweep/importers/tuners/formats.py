"""Read tuners' files: caches of Kernel Tuner, T4 results, KTT's output and tables.

A cache of Kernel Tuner has an entry for every configuration that was tried. An interrupted Kernel
Tuner leaves its file without an end, with a comma after the last entry; such files are read up to
the last complete entry. T4 results and KTT's output are lists of configurations, KTT's with
counters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.importers.files import Source
from sweep.importers.tuners.measurements import (
    TIME_UNITS,
    Measurements,
    Row,
    Value,
    collected,
    plain_name,
)
from sweep.importers.tuners.table import Columns, read_table

__all__ = ["read_measurements", "recognise"]

LARGEST = 1e300
"""Larger numbers are not measurements."""

CACHE_FAILURES = {
    "InvalidConfig": "constraint",
    "CompilationFailedConfig": "compilation",
    "RuntimeFailedConfig": "runtime",
}
"""Kernel Tuner's words for a missing time, and our statuses."""

CACHE_FURTHER = {"time_std": "s", "compile_time": "s", "benchmark_time": "s"}
"""Additional values to keep, all in milliseconds in a cache."""

T4_STATUS = {
    "correct": "valid",
    "constraints": "constraint",
    "compile": "compilation",
    "runtime": "runtime",
    "correctness": "correctness",
    "timeout": "timeout",
}
T4_UNITS = {
    **TIME_UNITS,
    **{"seconds": 1.0, "sec": 1.0},
    **{"milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9},
}
KTT_UNITS = {"Nanoseconds": 1e-9, "Microseconds": 1e-6, "Milliseconds": 1e-3, "Seconds": 1.0}
KTT_STATUS = {
    "Ok": "valid",
    "ComputationFailed": "runtime",
    "CompilationFailed": "compilation",
    "ValidationFailed": "correctness",
    "DeviceLimitsExceeded": "runtime",
}
KTT_SIZES = {"RegistersCount": "registers_per_thread", "LocalMemorySize": "shared_memory_bytes"}
"""Sizes from the compiler; OpenCL's local memory is a block's shared memory."""


def recognise(source: Source) -> str:
    """Return a file's format: ``t1``, ``kernel_tuner``, ``t4``, ``ktt`` or ``csv``.

    Raises
    ------
    TuningError
        The file is JSON, but not in a supported format.
    """
    if source.text.lstrip()[:1] not in ("{", "["):
        return "csv"
    if '"cache"' in source.text and '"tune_params_keys"' in source.text:
        return "kernel_tuner"  # perhaps incomplete, and then not JSON
    document = source.document
    if isinstance(document, dict) and "ConfigurationSpace" in document:
        return "t1"
    if isinstance(document, dict) and "Metadata" in document and "Results" in document:
        return "ktt"
    results = document.get("results") if isinstance(document, dict) else None
    if isinstance(results, list) and all("configuration" in entry for entry in _members(results)):
        return "t4"
    raise source.error(
        "no format that is read: T1, T4, a cache of Kernel Tuner, output of KTT, or CSV"
    )


def read_measurements(source: Source, columns: Columns | None = None) -> Measurements:
    """Return the measured times of a file of any format.

    Parameters
    ----------
    source : Source
        The file.
    columns : Columns, optional
        The meaning of a table's columns.

    Raises
    ------
    TuningError
        The file has no times, or is wrong.
    """
    kind = recognise(source)
    if kind == "t1":
        raise source.error("a search space without measured times")
    if kind == "csv":
        return read_table(source, columns)
    return {"kernel_tuner": _read_cache, "ktt": _read_ktt, "t4": _read_t4}[kind](source)


def _members(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON list; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _numbers(value: Any) -> dict[str, float]:
    """Return the numbers in a JSON object by key; an empty mapping for any other value."""
    items = value.items() if isinstance(value, dict) else ()
    return {
        str(key): float(item)
        for key, item in items
        if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < LARGEST
    }


def _values(
    source: Source, where: str, values: Any, names: Sequence[str] = ()
) -> Mapping[str, Value]:
    """Return a configuration, which must have the same parameters as the others."""
    if not isinstance(values, Mapping) or not values:
        raise source.error(f"{where} must have values of parameters")
    for name, value in values.items():
        if not isinstance(value, (bool, int, float, str)):
            raise source.error(f"{where}: '{name[:60]}' is neither number, word nor boolean")
    if other := sorted(set(values) ^ set(names or values)):
        raise source.error(f"{where}: '{other[0][:60]}' is not in all configurations")
    return values


# ---------------------------------------------------------------------------- Kernel Tuner


def _read_cache(source: Source) -> Measurements:
    """Return the measurements of a cache file."""
    document, notes = _cache_document(source)
    names, cache = document.get("tune_params_keys"), document.get("cache")
    if not isinstance(names, list) or not isinstance(cache, Mapping):
        raise source.error("tune_params_keys or cache is missing: no cache of Kernel Tuner")
    if not names or not all(isinstance(name, str) for name in names):
        raise source.error("tune_params_keys must be a list of names")
    if not cache:
        raise source.error("the cache holds no configuration")
    device = str(document.get("device_name") or "")
    rows = [_cache_row(source, key, entry, names, device) for key, entry in cache.items()]
    kernel = str(document.get("kernel_name") or source.name)
    return collected(source, kernel, names, rows, CACHE_FURTHER, notes)


def _cache_document(source: Source) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the file's object; an incomplete file is read up to its last complete entry."""
    text = source.text.rstrip()
    notes: tuple[str, ...] = ()
    # Every entry is one line that ends with a closing brace and a comma.
    ends = [match.end() for match in re.finditer(r"\}(?=,\s*(?:\n|$))", text)]
    for end in (len(text), *ends[:-3:-1]):
        try:
            document = json.loads(text if end == len(text) else text[:end] + "}}")
        except (ValueError, RecursionError):
            notes = ("the file was never closed: all its entries were read",)
            if ends and text[ends[-1] :].strip() != ",":
                notes = ("the file is truncated: entries up to the last whole one were read",)
            continue
        if not isinstance(document, Mapping):
            raise source.error("no object: no cache of Kernel Tuner")
        return document, notes
    raise source.error("not valid JSON, and not an open cache of Kernel Tuner")


def _cache_row(source: Source, key: str, entry: Any, names: Sequence[str], device: str) -> Row:
    where = f"cache entry '{key[:60]}'"
    if not isinstance(entry, Mapping):
        raise source.error(f"{where} is no object")
    if missing := [name for name in names if name not in entry]:
        raise source.error(f"{where} has no value for the parameter '{missing[0][:60]}'")
    values = _values(source, where, {name: entry[name] for name in names})
    milli = TIME_UNITS["ms"]
    numbers = _numbers(entry)
    further = {name: numbers[name] * milli for name in CACHE_FURTHER if name in numbers}
    times = entry.get("times")
    if isinstance(times, list):
        runs = _numbers(dict(enumerate(times)))
        if runs and len(runs) == len(times):
            further |= {"time_min": min(runs.values()) * milli, "n_runs": float(len(runs))}
    error = entry.get("__error__")
    if error is None and "time" in numbers:
        return Row(values, numbers["time"] * milli, "valid", further, device)
    word = str(entry.get("time") if error is None else error)
    return Row(values, math.nan, CACHE_FAILURES.get(word, "failed"), further, device)


# ---------------------------------------------------------------------------- T4


def _read_t4(source: Source) -> Measurements:
    """Return the measurements of T4 results; ``time`` is the execution time."""
    document = source.document
    if not document["results"]:
        raise source.error("no results in it: no T4 file")
    metadata = document.get("metadata")
    device = str(metadata.get("device_name") or "") if isinstance(metadata, Mapping) else ""
    names: list[str] = []
    rows = []
    for number, entry in enumerate(document["results"]):
        where = f"results[{number}]"
        configuration = entry.get("configuration") if isinstance(entry, Mapping) else None
        values = _values(source, f"{where}.configuration", configuration, names)
        names = names or list(values)
        seconds, status = _t4_outcome(source, where, entry)
        rows.append(Row(values, seconds, status, {}, device))
    return collected(source, source.name, names, rows)


def _t4_outcome(source: Source, where: str, entry: Mapping[str, Any]) -> tuple[float, str]:
    """Return the time in seconds and the status."""
    status = T4_STATUS.get(str(entry.get("invalidity", "correct")), "failed")
    for measured in _members(entry.get("measurements")):
        if measured.get("name") == "time":
            unit = str(measured.get("unit") or "ms")
            if unit not in T4_UNITS:
                raise source.error(f"{where}: unknown unit '{unit[:60]}' of time")
            number = _numbers(measured).get("value")
            if number is not None:
                return number * T4_UNITS[unit], status
            break
    return math.nan, "failed" if status == "valid" else status


# ---------------------------------------------------------------------------- KTT


def _read_ktt(source: Source) -> Measurements:
    """Return the measurements of KTT's output; counters keep their names."""
    document = source.document
    if not isinstance(document["Results"], list):
        raise source.error("Results must be a list")
    metadata = document["Metadata"] if isinstance(document["Metadata"], Mapping) else {}
    unit = str(metadata.get("TimeUnit"))
    if unit not in KTT_UNITS:
        shown = unit[:60]
        raise source.error(f"Metadata.TimeUnit = {shown}: one of {', '.join(KTT_UNITS)}")
    if not document["Results"]:
        raise source.error("Results is empty")
    device = str(metadata.get("Device") or "")
    rows: list[Row] = []
    names: list[str] = []
    for number, entry in enumerate(document["Results"]):
        where = f"Results[{number}].Configuration"
        pairs = entry.get("Configuration") if isinstance(entry, Mapping) else None
        values = {str(pair.get("Name")): pair.get("Value") for pair in _members(pairs)}
        rows.append(_ktt_row(_values(source, where, values, names), entry, KTT_UNITS[unit], device))
        names = names or list(values)
    kernel = document["Results"][0].get("KernelName") or source.name
    return collected(source, str(kernel), names, rows, {"shared_memory_bytes": "B"})


def _ktt_row(
    values: Mapping[str, Value], entry: Mapping[str, Any], scale: float, device: str
) -> Row:
    results = entry.get("ComputationResults")
    parts = _members(results)
    durations = [_numbers(part).get("Duration") for part in parts]
    known = [duration for duration in durations if duration is not None]
    # A configuration may consist of several kernels; the time between them does not count.
    is_whole = bool(known) and isinstance(results, list) and len(known) == len(results)
    further: dict[str, float] = {}
    if len(parts) == 1:
        compiled = _numbers(parts[0].get("CompilationData"))
        further |= {name: compiled[key] for key, name in KTT_SIZES.items() if key in compiled}
        for key, name in (("GlobalSize", "grid"), ("LocalSize", "block")):
            sizes = _numbers(parts[0].get(key))
            further |= {f"{name}_{a.lower()}": sizes[a] for a in "XYZ" if a in sizes}
        profile = parts[0].get("ProfilingData")
        for counter in _members(profile.get("Counters") if isinstance(profile, dict) else None):
            value = _numbers(counter).get("Value")
            if value is not None:
                further[plain_name(str(counter.get("Name")))] = value
    status = KTT_STATUS.get(str(entry.get("Status")), "failed")
    return Row(values, sum(known) * scale if is_whole else math.nan, status, further, device)

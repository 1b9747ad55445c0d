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
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from sweep.importers.files import Source
from sweep.importers.tuners.measurements import Measurements, Row, collected, plain_name
from sweep.importers.tuners.search_space import LARGEST as LARGEST_SIZE
from sweep.importers.tuners.search_space import Value, values_of
from sweep.importers.tuners.table import Columns, read_table

LARGEST = 1e300
"""Larger numbers are not measurements."""

OLD_FAILURE_MS = 1e20
"""The time of a failed configuration in caches of Kernel Tuner before it had words for failures
(KernelTuner/kernel_tuner, kernel_tuner/runners/sequential.py: ``params.update({"time": 1e20})``);
Kernel Tuner's dashboard leaves such rows out, too."""

WORDS = tomllib.loads((files("sweep.importers.tuners") / "words.toml").read_text("utf-8"))
"""What tuners' words for statuses and units of time mean."""

CACHE_FURTHER = {"time_std": "s", "compile_time": "s", "benchmark_time": "s"}
"""Additional values to keep, all in milliseconds in a cache."""

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
    document = _object(source.document)
    results = document.get("results")
    if "ConfigurationSpace" in document:
        return "t1"
    if "Metadata" in document and "Results" in document:
        return "ktt"
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


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> dict[str, float]:
    """Return the numbers in a JSON object by key; an empty mapping for any other value."""
    return {
        str(key): float(item)
        for key, item in _object(value).items()
        if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < LARGEST
    }


def _status(word: Any) -> str:
    return str(WORDS["status"].get(str(word), "failed"))


def _scale(source: Source, where: str, unit: Any) -> float:
    """Return the seconds in a unit of time."""
    known = WORDS["units"]
    if str(unit).lower() not in known:
        raise source.error(f"{where} = {str(unit)[:60]}: one of {', '.join(known)}")
    return float(known[str(unit).lower()])


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
    found = collected(source, kernel, rows, CACHE_FURTHER, notes)
    tuned, size = _object(document.get("tune_params")), document.get("problem_size")
    declared = {
        n: values_of(f"{source.path}: tune_params.{n}", tuned[n]) for n in names if n in tuned
    }
    sizes: list[Any] = size if isinstance(size, list) else [size]
    is_known = all(type(n) in (int, float) and 0 < n <= LARGEST_SIZE for n in sizes)
    return replace(found, declared=declared, problem_size=tuple(sizes) if is_known else ())


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
    milliseconds = _numbers(entry)
    times = entry["times"] if isinstance(entry.get("times"), list) else []
    further = {name: milliseconds[name] * 1e-3 for name in CACHE_FURTHER if name in milliseconds}
    runs = _numbers(dict(enumerate(times)))
    if runs and len(runs) == len(times):
        further |= {"time_min": min(runs.values()) * 1e-3, "n_runs": float(len(runs))}
    error = entry.get("__error__")
    if error is None and milliseconds.get("time", OLD_FAILURE_MS) < OLD_FAILURE_MS:
        return Row(values, milliseconds["time"] * 1e-3, "valid", further, device)
    status = _status(entry.get("time") if error is None else error)
    return Row(values, math.nan, status, further, device)


# ---------------------------------------------------------------------------- T4


def _read_t4(source: Source) -> Measurements:
    """Return the measurements of T4 results; ``time`` is the execution time."""
    device = str(_object(source.document.get("metadata")).get("device_name") or "")
    rows = [
        Row(values, *_t4_outcome(source, where, entry), device=device)
        for where, values, entry in _configurations(source, "results", "configuration")
    ]
    return collected(source, source.name, rows)


def _configurations(
    source: Source, results: str, configuration: str
) -> Iterator[tuple[str, Mapping[str, Value], dict[str, Any]]]:
    """Yield the place, the values and the entry of each configuration in a list of results."""
    names: Sequence[str] = ()
    entries = source.document[results]
    if not isinstance(entries, list) or not entries:
        raise source.error(f"{results} must be a list of at least one configuration")
    for number, entry in enumerate(entries):
        where = f"{results}[{number}]"
        values = _object(entry).get(configuration)
        if isinstance(values, list):  # of pairs
            values = {str(pair.get("Name")): pair.get("Value") for pair in _members(values)}
        values = _values(source, f"{where}.{configuration}", values, names)
        names = names or list(values)
        yield where, values, entry


def _t4_outcome(source: Source, where: str, entry: Mapping[str, Any]) -> tuple[float, str]:
    """Return the time in seconds and the status."""
    status = _status(entry.get("invalidity", "correct"))
    measured = next((m for m in _members(entry.get("measurements")) if m.get("name") == "time"), {})
    scale = _scale(source, f"{where}: unit of time", measured.get("unit") or "ms")
    if "value" in _numbers(measured):
        return _numbers(measured)["value"] * scale, status
    return math.nan, "failed" if status == "valid" else status


# ---------------------------------------------------------------------------- KTT


def _read_ktt(source: Source) -> Measurements:
    """Return the measurements of KTT's output; counters keep their names."""
    metadata = _object(source.document["Metadata"])
    scale = _scale(source, "Metadata.TimeUnit", metadata.get("TimeUnit"))
    device = str(metadata.get("Device") or "")
    found = list(_configurations(source, "Results", "Configuration"))
    in_threads = metadata.get("GlobalSizeType") == "OpenCL"
    rows = [_ktt_row(values, entry, scale, device, in_threads) for _, values, entry in found]
    kernel = str(found[0][2].get("KernelName") or source.name)
    return collected(source, kernel, rows, {"shared_memory_bytes": "B"})


def _ktt_row(
    values: Mapping[str, Value],
    entry: Mapping[str, Any],
    scale: float,
    device: str,
    in_threads: bool,
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
        for axis in "xyz" if in_threads else "":  # OpenCL's global size is of threads
            if f"grid_{axis}" in further:
                further[f"grid_{axis}"] /= further.get(f"block_{axis}") or math.nan
        for counter in _members(_object(parts[0].get("ProfilingData")).get("Counters")):
            if "Value" in _numbers(counter):
                further[plain_name(str(counter.get("Name")))] = _numbers(counter)["Value"]
    seconds = sum(known) * scale if is_whole else math.nan
    return Row(values, seconds, _status(entry.get("Status")), further, device)

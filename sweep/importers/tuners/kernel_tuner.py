"""Kernel Tuner's cache files: JSON with an entry for every configuration that was tried.

An interrupted Kernel Tuner leaves its file open, a comma after the last entry. Such files are read
too, up to the last whole entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sweep.importers.tuners.measurements import MEASURED, TIME_UNITS, Measurements, Row, collected
from sweep.importers.tuners.reading import Source, numbers_of

__all__ = ["is_cache", "read_cache"]

FAILURES = {
    "InvalidConfig": "constraint",
    "CompilationFailedConfig": "compilation",
    "RuntimeFailedConfig": "runtime",
}
"""Kernel Tuner's words in place of a number."""

OBJECTIVE = "time"
FURTHER = {"time_std": "s", "compile_time": "s", "benchmark_time": "s"}
"""Numbers beside the objective that are kept, all in milliseconds there."""


def is_cache(source: Source) -> bool:
    """Whether a file looks like a cache, finished or not."""
    return '"cache"' in source.text and '"tune_params_keys"' in source.text


def read_cache(source: Source) -> Measurements:
    """Return what a cache file holds.

    Raises
    ------
    TuningError
        It is no cache, or its entries contradict its own list of parameters.
    """
    document, notes = _document(source)
    names = document.get("tune_params_keys")
    cache = document.get("cache")
    if not isinstance(names, list) or not isinstance(cache, Mapping):
        raise source.error("tune_params_keys or cache is missing: no cache of Kernel Tuner")
    if not names or not all(isinstance(name, str) for name in names):
        raise source.error("tune_params_keys must be a list of names")
    if not cache:
        raise source.error("the cache holds no configuration")
    device = document.get("device_name") or ""
    rows = [_row(source, str(key), entry, names, str(device)) for key, entry in cache.items()]
    try:
        return collected(
            str(document.get("kernel_name") or source.name), names, rows, FURTHER, notes
        )
    except ValueError as error:
        raise source.error(str(error)) from None


def _document(source: Source) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the file's object; an open or torn file is closed after its last whole entry."""
    text = source.text.rstrip()
    try:
        document = json.loads(text)
        notes: tuple[str, ...] = ()
    except (ValueError, RecursionError):
        # Every entry is one line that ends with its closing brace and a comma.
        ends = [match.end() for match in re.finditer(r"\}(?=,\s*(?:\n|$))", text)]
        document, notes = None, ("the file was never closed: all its entries were read",)
        if ends and text[ends[-1] :].strip() != ",":
            notes = ("the file is truncated: entries up to the last whole one were read",)
        for end in reversed(ends[-2:]):
            try:
                document = json.loads(text[:end] + "}}")
                break
            except (ValueError, RecursionError):
                continue
        if document is None:
            raise source.error("not valid JSON, and not an open cache of Kernel Tuner") from None
    if not isinstance(document, Mapping):
        raise source.error("no object: no cache of Kernel Tuner")
    return document, notes


def _row(source: Source, key: str, entry: Any, names: list[str], device: str) -> Row:
    if not isinstance(entry, Mapping):
        raise source.error(f"cache entry '{key}' is no object")
    for name in names:
        if not isinstance(entry.get(name), (bool, int, float, str)):
            raise source.error(f"cache entry '{key}' has no value for the parameter '{name}'")
    time = entry.get(OBJECTIVE)
    milli = TIME_UNITS["ms"]
    numbers = numbers_of(entry)
    further = {name: numbers[name] * milli for name in FURTHER if name in numbers}
    times = entry.get("times")
    if isinstance(times, list):
        runs = numbers_of(dict(enumerate(times)))
        if runs and len(runs) == len(times):
            further |= {"time_min": min(runs.values()) * milli, "n_runs": float(len(runs))}
    error = entry.get("__error__")
    if error is None and OBJECTIVE in numbers:
        seconds, status = numbers[OBJECTIVE] * milli, MEASURED["valid"]
    else:
        word = FAILURES.get(str(time if error is None else error), "failed")
        seconds, status = float("nan"), MEASURED[word]
    return Row({name: entry[name] for name in names}, seconds, status, further, device)

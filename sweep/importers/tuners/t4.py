"""The T4 format: results of a tuner, one object for every configuration that was tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweep.importers.tuners.measurements import MEASURED, TIME_UNITS, Measurements, Row, collected
from sweep.importers.tuners.reading import Source, members, numbers_of

__all__ = ["is_t4", "read_t4"]

INVALIDITY = {
    "correct": "valid",
    "constraints": "constraint",
    "compile": "compilation",
    "runtime": "runtime",
    "correctness": "correctness",
    "timeout": "timeout",
}
UNITS = {
    "seconds": "s",
    "sec": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
    **{unit: unit for unit in TIME_UNITS},
}


def is_t4(document: Any) -> bool:
    """Whether a JSON document looks like T4 results."""
    results = document.get("results") if isinstance(document, Mapping) else None
    return isinstance(results, list) and all(
        isinstance(entry, Mapping) and "configuration" in entry for entry in results[:1]
    )


def read_t4(source: Source, objective: str = "time") -> Measurements:
    """Return what T4 results hold.

    Parameters
    ----------
    source : Source
        The file.
    objective : str
        The measurement that is the time.

    Raises
    ------
    TuningError
        There are no results, an entry lacks a parameter that others have, or the time's unit is
        unknown.
    """
    document = source.document
    if not is_t4(document) or not document["results"]:
        raise source.error("no results in it: no T4 file")
    metadata = document.get("metadata")
    device = str(metadata.get("device_name") or "") if isinstance(metadata, Mapping) else ""
    names: list[str] = []
    rows = []
    for number, entry in enumerate(document["results"]):
        where = f"results[{number}]"
        values = entry.get("configuration") if isinstance(entry, Mapping) else None
        if not isinstance(values, Mapping) or not values:
            raise source.error(f"{where}.configuration must be an object with parameters")
        names = names or list(values)
        if set(values) != set(names):
            other = sorted(set(values) ^ set(names))[0]
            raise source.error(f"{where}.configuration: '{other}' is not in all configurations")
        if not all(isinstance(value, (bool, int, float, str)) for value in values.values()):
            raise source.error(f"{where}.configuration: a value is neither number, word nor bool")
        seconds, status = _outcome(source, where, entry, objective)
        rows.append(Row(values, seconds, status, {}, device))
    try:
        return collected(source.name, names, rows)
    except ValueError as error:
        raise source.error(str(error)) from None


def _outcome(
    source: Source, where: str, entry: Mapping[str, Any], objective: str
) -> tuple[float, int]:
    """Return the time in seconds and the status."""
    invalidity = str(entry.get("invalidity", "correct"))
    status = MEASURED[INVALIDITY.get(invalidity, "failed")]
    for measured in members(entry.get("measurements")):
        if measured.get("name") == objective:
            value, unit = measured.get("value"), str(measured.get("unit") or "ms")
            if UNITS.get(unit) is None:
                raise source.error(f"{where}: unknown unit '{unit}' of {objective}")
            number = numbers_of({"value": value}).get("value")
            if number is None:
                return float("nan"), status or MEASURED["failed"]
            return number * TIME_UNITS[UNITS[unit]], status
    return float("nan"), status or MEASURED["failed"]

"""Measured times of configurations, independent of the tuner that measured them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.errors import TuningError
from sweep.fields import STACKED, Flags
from sweep.importers.files import Source
from sweep.specs.names import check_name, is_word

__all__ = [
    "MEASURED",
    "TIME_UNITS",
    "Array",
    "Measurements",
    "Row",
    "Value",
    "collected",
    "plain_name",
]

Array = npt.NDArray[Any]
Value = float | str | bool

MEASURED = Flags(
    {
        "valid": 0,
        "constraint": 1,
        "compilation": 2,
        "runtime": 3,
        "correctness": 4,
        "timeout": 5,
        "failed": 6,
        "not_measured": 7,
    }
)
"""Why a configuration has no measured time; the codes are permanent."""

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in a unit."""

TAKEN = frozenset(
    {STACKED, "device", "kernel", "model", "execution_time", "status", "within_conditions"}
)
"""Names with another meaning in a dataset of measurements."""


@dataclass(frozen=True)
class Row:
    """One measured configuration: values, time [s], status, additional numbers, device."""

    values: Mapping[str, Value]
    seconds: float
    status: str
    further: Mapping[str, float] = field(default_factory=dict)
    device: str = ""


@dataclass(frozen=True)
class Measurements:
    """The measured configurations of one kernel.

    Attributes
    ----------
    kernel : str
        The kernel's name in the file.
    parameters : mapping of str to array
        One column per tuning parameter: numbers, booleans or strings.
    device : array of str
        The device of each row, ``""`` if unknown.
    seconds : array of float64
        Measured time [s], NaN if there is none.
    status : array of uint8
        Codes of :data:`MEASURED`.
    further : mapping of str to array
        Additional columns: standard deviations, registers, counters.
    units : mapping of str to str
        Their units, if known.
    notes : tuple of str
        Remarks on how the file was read.
    """

    kernel: str
    parameters: Mapping[str, Array]
    device: Array
    seconds: Array
    status: Array
    further: Mapping[str, Array] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def valid(self) -> Array:
        """Which rows have a time."""
        return np.asarray(self.status == MEASURED["valid"])


def collected(
    source: Source,
    kernel: str,
    names: Sequence[str],
    rows: Sequence[Row],
    units: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Measurements:
    """Return rows as columns.

    Parameters
    ----------
    source : Source
        The file, for messages.
    kernel : str
        The kernel's name.
    names : sequence of str
        The tuning parameters; every row has a value for each of them.
    rows : sequence of Row
        At least one.
    units, notes
        As in :class:`Measurements`.

    Raises
    ------
    TuningError
        A parameter mixes words and numbers, or a name or word cannot be used.
    """
    for name in names:
        check_name(name, "parameter", str(source.path), TuningError)
        if name in TAKEN:
            raise source.error(f"parameter '{name}': the name is taken")
    for text in {kernel, *(row.device for row in rows)} - {""}:
        if not is_word(text) or len(text) > 1000:
            raise source.error(f"{text[:60]!r} cannot be the name of a kernel or device")
    seconds = np.array([row.seconds for row in rows], np.float64)
    status = np.array([MEASURED[row.status] for row in rows], np.uint8)
    # Only a positive number is a time, whatever the tuner calls it.
    unusable = (status == MEASURED["valid"]) & ~(np.isfinite(seconds) & (seconds > 0))
    status[unusable] = MEASURED["failed"]
    seconds[status != MEASURED["valid"]] = np.nan
    further = dict.fromkeys(name for row in rows for name in row.further)
    return Measurements(
        kernel=kernel,
        parameters={
            name: _column(source, name, [row.values[name] for row in rows]) for name in names
        },
        device=np.array([row.device for row in rows], np.str_),
        seconds=seconds,
        status=status,
        further={
            name: np.array([row.further.get(name, np.nan) for row in rows], np.float64)
            for name in further
        },
        units=dict(units or {}),
        notes=notes,
    )


def _column(source: Source, name: str, values: Sequence[Value]) -> Array:
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1:
        raise source.error(f"parameter '{name}' mixes {' and '.join(sorted(kinds))}")
    if kinds == {"words"} and not all(is_word(str(value)) for value in set(values)):
        raise source.error(f"parameter '{name}' has a word that cannot be printed")
    column = np.array(values)
    is_float = column.dtype.kind == "f"
    if column.dtype.kind not in "fiubU" or (is_float and not (np.abs(column) < 2.0**53).all()):
        raise source.error(f"parameter '{name}' has a value that is no finite number below 2**53")
    is_whole = is_float and np.all(column == np.rint(column))
    return column.astype(np.int64) if is_whole else column


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "booleans"
    return "words" if isinstance(value, str) else "numbers"


def plain_name(name: str) -> str:
    """Return a valid name for an array of a store: letters, digits, dots and _."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "_per_" if "/" in name else "_", name).strip("_.")
    return f"n_{plain}"[:100] if plain[:1].isdigit() else plain[:100] or "unnamed"

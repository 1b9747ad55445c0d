"""Measured times of configurations, whoever measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.fields import STACKED, Flags

__all__ = ["MEASURED", "TIME_UNITS", "Measurements", "Row", "collected"]

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
"""What a dataset of measurements calls something else."""


@dataclass(frozen=True)
class Row:
    """One measured configuration: its values, what came of it, and further numbers."""

    values: Mapping[str, Value]
    seconds: float
    status: int
    further: Mapping[str, float] = field(default_factory=dict)
    device: str = ""


@dataclass(frozen=True)
class Measurements:
    """What a file says about the configurations of one kernel.

    Attributes
    ----------
    kernel : str
        The kernel's name, as the file has it.
    parameters : mapping of str to array
        A column per tuning parameter: numbers, booleans or strings.
    device : array of str
        The device of each row, ``""`` where the file does not tell.
    seconds : array of float64
        Measured time [s], NaN where there is none.
    status : array of uint8
        Codes of :data:`MEASURED`.
    further : mapping of str to array
        Further numbers of the rows: standard deviations, registers, counters.
    units : mapping of str to str
        Their units, as far as they are known.
    notes : tuple of str
        What a reader must know of how the file was read.
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
        """Where a row has a time."""
        return np.asarray(self.status == MEASURED["valid"])


def collected(
    kernel: str,
    names: Sequence[str],
    rows: Sequence[Row],
    units: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Measurements:
    """Return rows as columns.

    Parameters
    ----------
    kernel : str
        The kernel's name.
    names : sequence of str
        The tuning parameters; every row has a value for each.
    rows : sequence of Row
        At least one.
    units, notes
        As in :class:`Measurements`.

    Raises
    ------
    ValueError
        A parameter mixes words and numbers, or has an impossible name; the message tells it.
    """
    for name in names:
        if not name.isidentifier() or name in TAKEN:
            reason = "the name is taken" if name in TAKEN else "no name of letters, digits and _"
            raise ValueError(f"parameter '{name[:60]}': {reason}")
    parameters = {name: _column(name, [row.values[name] for row in rows]) for name in names}
    further = dict.fromkeys(name for row in rows for name in row.further)
    seconds = np.array([row.seconds for row in rows], np.float64)
    status = np.array([row.status for row in rows], np.uint8)
    # A time that is no positive number is none, whatever the tuner calls it.
    unusable = (status == MEASURED["valid"]) & ~(np.isfinite(seconds) & (seconds > 0))
    status[unusable] = MEASURED["failed"]
    seconds[status != MEASURED["valid"]] = np.nan
    return Measurements(
        kernel=kernel,
        parameters=parameters,
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


def _column(name: str, values: Sequence[Value]) -> Array:
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1:
        raise ValueError(f"parameter '{name}' mixes {' and '.join(sorted(kinds))}")
    column = np.array(values)
    if column.dtype.kind not in "fiubU" or (column.dtype.kind == "f" and not _finite(column)):
        raise ValueError(f"parameter '{name}' has a value that is no finite number below 2**53")
    if column.dtype.kind == "f" and np.all(column == np.rint(column)):
        return column.astype(np.int64)
    return column


def _finite(column: Array) -> bool:
    return bool((np.abs(column) < 2.0**53).all())


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "booleans"
    return "words" if isinstance(value, str) else "numbers"

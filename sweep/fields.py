"""The dictionary between what users read and what the papers write.

A :class:`Field` names one quantity once: the public name (words), the paper's symbol, the unit, the
long name and the equation. Dataset attributes, the command line, ``sweep explain`` and the
documentation all read it from here or from a :class:`~sweep.models.Model`, which brings the
fields that only one paper knows. Codes that are stored as integers (:class:`Flags`) are permanent:
a number, once given a meaning, keeps it in every later version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "BOUND",
    "COMMON_FIELDS",
    "Field",
    "Flags",
    "LIMITER",
    "POWER_STATUS",
    "Parameter",
    "STACKED",
    "STATUS",
]

STACKED = "configuration"
"""The dimension of results over a list of configurations. Its coordinate names the parameters that
it stacks (attribute ``stacks``, in order); each is a coordinate over it, with the values that its
axis would have (attribute ``axis_values``). Combinations that are not in the list have the status
that the attribute ``absent`` names."""


@dataclass(frozen=True)
class Flags:
    """Permanent integer codes with CF ``flag_values`` and ``flag_meanings``."""

    codes: Mapping[str, int]

    def __getitem__(self, meaning: str) -> int:
        return self.codes[meaning]

    def meaning(self, code: int) -> str:
        """Return the meaning of ``code``, or ``"unknown (code)"``."""
        for meaning, value in self.codes.items():
            if value == code:
                return meaning
        return f"unknown ({code})"

    def attributes(self) -> dict[str, Any]:
        """Return the CF attributes of a variable that holds these codes."""
        return {
            "flag_values": list(self.codes.values()),
            "flag_meanings": " ".join(self.codes),
        }


@dataclass(frozen=True)
class Field:
    """One quantity: its public name, symbol, unit, meaning and source.

    Parameters
    ----------
    name : str
        Public name, in words: ``execution_time``.
    units : str
        Unit as written in attributes: ``s``, ``cycle``, ``1``.
    long_name : str
        What the number means, in a phrase.
    symbol : str
        The paper's symbol, if it has one.
    equation : str
        The equation that gives it: ``"hong_kim (5)"``.
    kind : str
        ``"float"`` or ``"code"`` (an unsigned byte with flags).
    depends : str
        ``"model"`` (differs per model and clock), ``"launch"`` (device and configuration only).
    flags : Flags, optional
        Meanings of the codes.
    """

    name: str
    units: str
    long_name: str
    symbol: str = ""
    equation: str = ""
    kind: str = "float"
    depends: str = "model"
    flags: Flags | None = None

    def attributes(self) -> dict[str, Any]:
        """Return the attributes written beside the variable in a dataset or store."""
        attrs: dict[str, Any] = {"units": self.units, "long_name": self.long_name}
        if self.symbol:
            attrs["symbol"] = self.symbol
        if self.equation:
            attrs["equation"] = self.equation
        if self.flags is not None:
            attrs.update(self.flags.attributes())
        return attrs


@dataclass(frozen=True)
class Parameter:
    """One number that a model reads from its own table in a device file.

    ``key`` carries the unit as its suffix (``mem_ld_cycles``); ``minimum`` and ``maximum`` are the
    allowed range in that unit. ``columns`` is set for a table of rows (a list of lists): the names
    of its columns, each with its unit suffix; if the first is ``class_name``, there is a row for
    each class of instructions of the kernel files. ``choices`` is set for a word.
    """

    key: str
    symbol: str
    units: str
    long_name: str
    required: bool = True
    minimum: float = 0.0
    maximum: float = float("inf")
    columns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


STATUS = Flags({
    "valid": 0, "constraint": 1, "block_too_large": 2, "registers": 3, "shared_memory": 4,
    "no_active_block": 5, "clock_out_of_range": 6, "missing_parameters": 7, "model_domain": 8,
    "kernel_expression": 9,
})  # fmt: skip
"""Why a configuration has no time. ``kernel_expression``: an expression of the kernel file divides
by zero or yields a negative count there."""

POWER_STATUS = Flags({"valid": 0, "no_time": 1, "missing_parameters": 2, "clock_out_of_range": 3})
"""Why a configuration has no power and energy (its time may still be valid)."""

BOUND = Flags(
    {"none": 0, "compute": 1, "memory": 2, "shared": 3, "latency": 4, "synchronisation": 5}
)
"""What bounds a configuration's time, as the model sees it."""

LIMITER = Flags({
    "none": 0, "blocks_per_sm": 1, "warps": 2, "registers": 3, "shared_memory": 4, "grid": 5,
})  # fmt: skip
"""The resource that limits the number of active blocks on an SM."""

_MODEL_FIELDS = (
    Field("execution_time", "s", "predicted execution time of the kernel", "T"),
    Field("execution_cycles", "cycle", "predicted execution time in core cycles"),
    Field("cycles_per_instruction", "cycle",
          "core cycles per warp instruction on an active multiprocessor", "CPI", "hong_kim (25)"),
    Field("power", "W", "predicted average power", "P", "wang_chu (1)"),
    Field("energy", "J", "predicted energy: power times execution time", "E"),
    Field("core_activity", "1",
          "fraction of the time in which the multiprocessors issue, as the model implies"),
    Field("memory_activity", "1",
          "fraction of the time in which DRAM transfers, as the model implies"),
    Field("regime", "1", "the case of the model that gave the time", kind="code"),
    Field("bound", "1", "what bounds the time", kind="code", flags=BOUND),
    Field("status", "1", "whether the configuration has a time, and if not why", kind="code",
          flags=STATUS),
    Field("power_status", "1", "whether the configuration has power and energy, and if not why",
          kind="code", flags=POWER_STATUS),
)  # fmt: skip

_LAUNCH_FIELDS = (
    Field("occupancy", "1", "active warps over the most that a multiprocessor holds"),
    Field("active_blocks_per_sm", "1", "thread blocks resident on a multiprocessor at once"),
    Field("active_warps_per_sm", "1", "warps resident on a multiprocessor at once", "N"),
    Field("threads_per_block", "1", "threads in a block"),
    Field("blocks", "1", "thread blocks of the grid"),
    Field("occupancy_limiter", "1",
          "the resource that limits the active blocks on a multiprocessor", kind="code",
          flags=LIMITER),
)  # fmt: skip

COMMON_FIELDS: dict[str, Field] = {
    **{field.name: field for field in _MODEL_FIELDS},
    **{field.name: replace(field, depends="launch") for field in _LAUNCH_FIELDS},
}
"""Every variable that does not belong to one paper alone, by public name."""

"""The dictionary between what users read and what the papers write.

A :class:`Field` names one quantity once: the public name (words), the paper's symbol, the unit, the
long name and the equation. Dataset attributes, the command line, ``sweep explain`` and the
documentation all read it from here or from a :class:`~sweep.models.Model`, which brings the
fields that only one paper knows. The other fields, and the permanent codes that are stored as
integers (:class:`Flags`), are declared in ``fields.toml`` beside this module.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
"""Values along axes, of any type."""

PARAMETER = "tuning parameter"
"""How the long name of a tuning parameter begins, in results."""

STACKED = "configuration"
"""The dimension of results over a list of configurations. Its coordinate names the parameters that
it stacks (attribute ``stacks``, in order); each is a coordinate over it, with the values that its
axis would have (attribute ``axis_values``). Combinations that are not in the list have the status
that the attribute ``absent`` names."""

PROBLEM_SIZE = "problem size"
"""How the long name of a problem size begins."""

PROBLEM = "problem"
"""The dimension of results over a list of problems; the sizes that the list gives are coordinates
over it."""

FITTED = " (fitted)"
"""Ends the name of a value that was fitted, among the assumed ones that results rest on."""

PLACEHOLDER = "placeholder"
"""Begins the reference of an assumed value that stands for a count which nobody has made yet."""


@dataclass(frozen=True)
class Flags:
    """Permanent integer codes with CF ``flag_values`` and ``flag_meanings``."""

    codes: Mapping[str, int]

    def __getitem__(self, meaning: str) -> int:
        return self.codes[meaning]

    def meaning(self, code: int) -> str:
        """Return the meaning of ``code``, or ``"unknown (code)"``."""
        return next((m for m, c in self.codes.items() if c == code), f"unknown ({code})")

    def attributes(self) -> dict[str, Any]:
        """Return the CF attributes of a variable that holds these codes."""
        return {"flag_values": list(self.codes.values()), "flag_meanings": " ".join(self.codes)}


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
        attrs = {"units": self.units, "long_name": self.long_name}
        attrs |= {"symbol": self.symbol} if self.symbol else {}
        attrs |= {"equation": self.equation} if self.equation else {}
        return {**attrs, **(self.flags.attributes() if self.flags is not None else {})}


@dataclass(frozen=True)
class Parameter:
    """One number that a model reads from its own table in a device file.

    ``key`` carries the unit as its suffix (``mem_ld_cycles``); ``minimum`` and ``maximum`` are the
    allowed range in that unit. ``columns`` is set for a table of rows (a list of lists): the names
    of its columns, each with its unit suffix; if the first is ``class_name``, there is a row for
    each class of instructions of the kernel files. ``choices`` is set for a word. ``rule`` derives
    the parameter where a device file lacks it (see :mod:`sweep.hardware.derived`).
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
    rule: Callable[[Any], Any] | None = None


_DECLARED = tomllib.loads(Path(__file__).with_name("fields.toml").read_text("utf-8"))
_FLAGS = {name: Flags(codes) for name, codes in _DECLARED["flags"].items()}

VARIANTS: dict[str, str] = _DECLARED["variants"]
"""The variants of a model and what each is; the first is the default."""

STATUS = _FLAGS["status"]
"""Why a configuration has no time. ``kernel_expression``: an expression of the kernel file divides
by zero or yields a negative count there."""

POWER_STATUS = _FLAGS["power_status"]
"""Why a configuration has no power and energy (its time may still be valid)."""

BOUND = _FLAGS["bound"]
"""What bounds a configuration's time, as the model sees it."""

LIMITER = _FLAGS["occupancy_limiter"]
"""The resource that limits the number of active blocks on an SM."""

COMMON_FIELDS: dict[str, Field] = {
    name: Field(name, **{"units": "1", **entry}, depends=depends, flags=_FLAGS.get(name))
    for depends in ("model", "launch")
    for name, entry in _DECLARED[depends].items()
}
"""Every variable that does not belong to one paper alone, by public name."""

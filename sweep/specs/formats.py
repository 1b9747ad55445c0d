"""The definition of both file formats: every key, its unit, type, range and meaning.

The tables are data: ``device_format.toml`` and ``kernel_format.toml`` beside this module. Checks,
the JSON Schema and the printed description read only these, so adding a key to a format changes one
place.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sweep.fields import Parameter

SCHEMA_VERSION = 1
"""The version of both file formats that this package reads (``schema = 1``)."""

SOURCE_KINDS = (
    "datasheet", "paper", "microbenchmark", "compiler", "review", "derived", "fitted", "assumed",
)  # fmt: skip
"""Kinds of sources, from the most to the least reliable."""

LARGEST_NUMBER = 2.0**53
"""Largest number in a kernel file: float64 represents integers up to it exactly."""

_TYPES = (
    "number", "integer", "text", "choice", "expression", "conditions", "rows", "names",
    "switch", "place",
)  # fmt: skip


# ---------------------------------------------------------------------------- units


@dataclass(frozen=True)
class Unit:
    """One unit: suffix in a key, symbol, dimension and size.

    ``factor`` is the number of base units (Hz, B/s, bytes, bits, s, W, V) in one of this unit.
    """

    suffix: str
    symbol: str
    dimension: str
    factor: float = 1.0

    def convert(self, value: float, wanted: Unit) -> float:
        """Return a value of this unit in another unit of the same dimension.

        The result is rounded to 12 digits, because messages suggest it for use in a file.
        """
        return float(f"{value * (self.factor / wanted.factor):.12g}")


def _definition(name: str) -> dict[str, dict[str, Any]]:
    """Return one of the TOML files beside this module."""
    return tomllib.loads((files("sweep.specs") / f"{name}.toml").read_text("utf-8"))


UNITS: dict[str, Unit] = {}
"""All units by suffix; messages suggest the first unit that makes a value plausible."""

for _dimension, _units in _definition("units").items():
    for _suffix, _entry in _units.items():
        _factor, _symbol = _entry if isinstance(_entry, list) else (_entry, _suffix)
        UNITS[_suffix] = Unit(_suffix, _symbol, _dimension, float(_factor))

_BY_LENGTH = sorted(UNITS, key=len, reverse=True)


def split_unit(name: str, *, loose: bool = False) -> tuple[str, Unit | None]:
    """Split a key into its stem and the unit of its suffix (``None`` without a unit).

    ``loose`` accepts a wrong case (``core_nominal_mhz``) if no suffix matches exactly.
    """
    for fold in (str, str.lower) if loose else (str,):
        for suffix in _BY_LENGTH:
            if fold(name).endswith(fold("_" + suffix)):
                return name[: -len(suffix) - 1], UNITS[suffix]
    return name, None


def to_base(value: float, name: str) -> float:
    """Return the value of a key in base units: ``to_base(1.3, "core_GHz")`` is 1.3e9."""
    unit = split_unit(name)[1]
    if unit is None:
        return float(value)
    if unit.factor < 1:  # dividing by 1e9 rounds once, multiplying with 1e-9 twice
        return value / round(1 / unit.factor)
    return value * unit.factor


# ---------------------------------------------------------------------------- keys


@dataclass(frozen=True)
class Key:
    """One key of a file: its table, type, unit and range.

    Parameters
    ----------
    name : str
        The key with its unit suffix: ``memory_bandwidth_GBps``.
    type : str
        ``number``, ``integer``, ``text``, ``choice`` (a word of ``choices``), ``expression``
        (a number, an expression or a list of cases), ``conditions`` (a list of expressions),
        ``rows`` (a list of rows with ``columns``), ``names`` (a list of words), ``switch``,
        ``place`` (a path or false).
    meaning : str
        Meaning of the value, as a phrase.
    minimum, maximum : float
        Allowed range (inclusive) in the unit of the key.
    required : bool
        Whether a file without the key is refused.
    zero : bool
        Whether 0 is allowed although it is below ``minimum``; it means "none".
    choices : tuple of str
        The words of a ``choice``.
    columns : tuple of Key
        The columns of ``rows``: words (``text``) or numbers.
    default : str
        The default of an optional expression, as text.
    together : str
        Another optional key of the section, required if this one is present.
    section : str
        The table that contains the key; ``""`` is the top of the file.
    unit_suffix : str
        The unit, if the name does not end in it (``l2_hit_rate`` is a ``fraction``).
    pattern : str
        The access pattern to which the key belongs, if it does not belong to all.
    needed : str
        What an access with this pattern lacks without the key.
    """

    name: str
    type: str
    meaning: str
    minimum: float = -math.inf
    maximum: float = math.inf
    required: bool = True
    zero: bool = False
    choices: tuple[str, ...] = ()
    columns: tuple[Key, ...] = ()
    default: str = ""
    together: str = ""
    section: str = ""
    unit_suffix: str = ""
    pattern: str = ""
    needed: str = ""

    @property
    def path(self) -> str:
        """The dotted path in the file: ``chip.memory_bandwidth_GBps``."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def unit(self) -> Unit | None:
        """The unit of the value, ``None`` for a pure number or a word."""
        return UNITS[self.unit_suffix] if self.unit_suffix else split_unit(self.name)[1]

    @property
    def stem(self) -> str:
        """The name without its unit suffix."""
        return self.name if self.unit_suffix else split_unit(self.name)[0]

    @property
    def range(self) -> str:
        """The allowed range as text: ``50 to 5000 MHz``, ``at least 0``, ``0 or 16 to 64 KiB``."""
        first, last = (
            {-LARGEST_NUMBER: "-2**53", LARGEST_NUMBER: "2**53"}.get(end, f"{end:.12g}")
            for end in (self.minimum, self.maximum)
        )
        if self.minimum == -math.inf:
            text = "any finite number" if self.maximum == math.inf else f"at most {last}"
        else:
            text = f"at least {first}" if self.maximum == math.inf else f"{first} to {last}"
        symbol = f" {self.unit.symbol}" if self.unit is not None and self.unit.symbol != "1" else ""
        return f"{'0 or ' * self.zero}{text}{symbol}"

    @classmethod
    def column(cls, name: str, minimum: float, maximum: float) -> Key:
        """Return a column; those named ``name`` or ``..._name`` contain words."""
        is_word = name == "name" or name.endswith("_name")
        return cls(name, "text" if is_word else "number", name, minimum, maximum)

    @classmethod
    def from_parameter(cls, parameter: Parameter, section: str) -> Key:
        """Return the key for a parameter that a model declares; a file may lack it."""
        bounds = (parameter.minimum, parameter.maximum)
        return cls(
            parameter.key,
            "rows" if parameter.columns else "choice" if parameter.choices else "number",
            parameter.long_name,
            *bounds,
            required=False,
            choices=parameter.choices,
            columns=tuple(cls.column(name, *bounds) for name in parameter.columns),
            section=section,
        )


@dataclass(frozen=True)
class Section:
    """One table of a file and the keys that it may contain.

    ``repeated`` marks an array of tables (``[[global_access]]``). ``values`` is set if the author
    of the file chooses the names of the keys: ``size``, ``values``, ``expression``, ``model`` (a
    table per model), ``source``, or a plan's ``axis``, ``axes``, ``columns`` or ``options``.
    ``whole`` is the entry of ``[source]`` that is not the path of a value, and ``whole_meaning``
    its meaning.
    """

    name: str
    meaning: str
    keys: tuple[Key, ...] = ()
    required: bool = False
    repeated: bool = False
    values: str = ""
    whole: str = ""
    whole_meaning: str = ""


Format = Mapping[str, Section]
"""The tables of a file by name, in order; ``""`` is the top of the file."""


# ---------------------------------------------------------------------------- reading the tables


def _key(section: str, name: str, entry: Mapping[str, Any]) -> Key:
    options = dict(entry)
    kind = next(kind for kind in _TYPES if kind in entry)
    value = options.pop(kind)
    required = not options.pop("optional", False) and not {"default", "together"} & entry.keys()
    if kind in ("number", "integer", "expression"):
        options["minimum"] = max(value[0], -LARGEST_NUMBER)
        options["maximum"] = [*value, LARGEST_NUMBER][1]
    elif kind == "choice":
        options["choices"] = value
    elif kind == "rows":
        options["columns"] = tuple(Key.column(column, *bounds) for column, bounds in value.items())
    else:
        options["meaning"] = value
    return Key(name, kind, section=section, required=required, **options)


def _read(kind: str) -> tuple[Format, dict[str, dict[str, Any]]]:
    """Return the tables of a format, and the other parts of its definition."""
    definition = _definition(f"{kind}_format")
    groups = definition.get("groups", {})
    sections = {}
    for title, table in definition.items():
        if "about" in table:
            name = "" if title == "top" else title
            entries: dict[str, Any] = {}
            for key, entry in table.pop("keys", {}).items():
                entries |= groups[key] if entry == "group" else {key: entry}
            keys = tuple(_key(name, *item) for item in entries.items())
            sections[name] = Section(name, table.pop("about"), keys, **table)
    return sections, definition


DEVICE, _device_definition = _read("device")
KERNEL, _kernel_definition = _read("kernel")

FORMATS: dict[str, Format] = {"device": DEVICE, "kernel": KERNEL}
"""The formats of specs by kind of file."""

PLAN = _read("plan")[0]
"""The format of a plan."""

DEVICE_NAMES: dict[str, str] = _kernel_definition["device_names"]
"""Device attributes that expressions of kernel files may use, with their meaning."""

LIMITS_OF_DEVICE: dict[str, str] = _device_definition["limits"]
"""For each limit in `sweep.hardware.occupancy.Limits`, its key in a device file that has no
compute capability."""

MATRIX_TYPES = ("fp16", "tf32", "fp32", "fp8", "int8", "fp64")
"""Types of the factors of matrix instructions."""

INSTRUCTION_CLASSES = tuple(_kernel_definition["groups"]["classes"])[1:]
"""The classes of instructions, without ``computation``, which is the total of all classes."""

"""What a key of a file is: its name, unit, type, range and meaning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sweep.fields import Parameter
from sweep.specs.units import UNITS, Unit, split_unit

__all__ = ["Key", "Section", "keys_of", "place_keys", "range_text"]


@dataclass(frozen=True)
class Key:
    """One key of a file: where it stands, what it holds, and within which range.

    Parameters
    ----------
    name : str
        The key with its unit suffix: ``memory_bandwidth_GBps``.
    type : str
        ``number``, ``integer``, ``text``, ``choice`` (a word of ``choices``), ``expression``
        (a number or an expression), ``conditions`` (a list of expressions), ``rows`` (a list of
        rows with ``columns``).
    meaning : str
        What the value says, in a phrase.
    minimum, maximum : float
        Allowed range, both ends included, in the unit of the key.
    required : bool
        Whether a file without the key is refused.
    zero : bool
        Whether 0 is allowed below ``minimum``: it then means that there is none.
    choices : tuple of str
        The words of a ``choice``.
    columns : tuple of str
        The columns of ``rows``, each with its unit suffix; one named ``name`` or ``..._name``
        holds words.
    column_ranges : tuple of (float, float)
        Allowed range of each column.
    default : str
        What an optional expression stands for when it is absent, as it would be written.
    together : str
        Another optional key of the section that must then be given too.
    section : str
        The table that holds the key; ``""`` is the top of the file.
    unit_suffix : str
        The unit where the name does not end in it (``l2_hit_rate`` is a ``fraction``).
    """

    name: str
    type: str
    meaning: str
    minimum: float = -math.inf
    maximum: float = math.inf
    required: bool = True
    zero: bool = False
    choices: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    column_ranges: tuple[tuple[float, float], ...] = ()
    default: str = ""
    together: str = ""
    section: str = ""
    unit_suffix: str = ""

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
        """The allowed range with its unit, for a message: ``50 to 5000 MHz``."""
        unit = self.unit
        symbol = f" {unit.symbol}" if unit is not None and unit.symbol != "1" else ""
        return range_text(self.minimum, self.maximum, zero=self.zero) + symbol

    @classmethod
    def from_parameter(cls, parameter: Parameter, section: str) -> Key:
        """Return the key that a model declares by one of its parameters."""
        kind = "number"
        if parameter.columns:
            kind = "rows"
        elif parameter.choices:
            kind = "choice"
        bounds = (parameter.minimum, parameter.maximum)
        return cls(
            parameter.key,
            kind,
            parameter.long_name,
            *bounds,
            required=parameter.required,
            choices=parameter.choices,
            columns=parameter.columns,
            column_ranges=(bounds,) * len(parameter.columns),
            section=section,
        )


@dataclass(frozen=True)
class Section:
    """One table of a file and the keys that it may hold.

    ``repeated`` marks an array of tables (``[[global_access]]``). ``values`` is set where the
    author of the file chooses the names: ``size``, ``values``, ``expression``, ``model``
    (a table per model) or ``source``.
    """

    name: str
    meaning: str
    keys: tuple[Key, ...] = field(default=())
    required: bool = False
    repeated: bool = False
    values: str = ""


def place_keys(
    name: str, meaning: str, *keys: Key, required: bool = False, repeated: bool = False
) -> Section:
    """Return a section of these keys, each of which then knows where it stands."""
    placed = tuple(replace(key, section=name) for key in keys)
    return Section(name, meaning, placed, required, repeated)


def range_text(minimum: float, maximum: float, *, zero: bool = False) -> str:
    """Return a range for people: ``50 to 5000``, ``at least 0``, ``0 or 16 to 1048576``."""
    if minimum == -math.inf and maximum == math.inf:
        return "any finite number"
    if maximum == math.inf:
        text = f"at least {minimum:.12g}"
    elif minimum == -math.inf:
        text = f"at most {maximum:.12g}"
    else:
        first = "-2**53" if minimum == -(2.0**53) else f"{minimum:.12g}"
        last = "2**53" if maximum == 2.0**53 else f"{maximum:.12g}"
        text = f"{first} to {last}"
    return f"0 or {text}" if zero else text


def keys_of(sections: tuple[Section, ...]) -> Iterator[Key]:
    """Yield every declared key of a format, in the order of the file."""
    for section in sections:
        yield from section.keys

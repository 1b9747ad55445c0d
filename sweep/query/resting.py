"""What answers rest on that nobody measured: assumed values, and fitted ones, behind a star."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweep.fields import COMMON_FIELDS, FITTED, PLACEHOLDER
from sweep.query.grid import POWER_VARIABLES
from sweep.query.texts import Stars

OF_LAUNCH = ("kernel: launch", "kernel: resources", "kernel: compiled", "occupancy")
"""Begin the names of values that decide what runs at once, before any model does."""
LAUNCH_RESULTS = frozenset(n for n, field in COMMON_FIELDS.items() if field.depends == "launch")

MANY = 4
"""Most values of one table that a note lists by name."""


def starred(
    time: Collection[str], power: Collection[str], given: Collection[str]
) -> frozenset[str]:
    """Return which results of a configuration rest on assumed or fitted values.

    Parameters
    ----------
    time, power : collection of str
        Names of the values behind a model's time, and of those behind power and energy besides.
    given : collection of str
        Names of the results. Power and energy rest on the time, too.
    """
    own = any(name.startswith(OF_LAUNCH) for name in time)
    return frozenset(
        name
        for name in given
        if (own if name in LAUNCH_RESULTS else time) or (power and name in POWER_VARIABLES)
    )


def names_in(texts: Sequence[Any]) -> list[str]:
    """Return the names listed in texts, each once."""
    names = (name.strip() for text in texts for name in re.split(r"[,;]", str(text)))
    return list(dict.fromkeys(name for name in names if name))


def placeholders_in(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the paths of a kernel's values that stand for counts which nobody has made yet.

    Parameters
    ----------
    rows : sequence of mapping
        Of an answer, with ``rests_on_assumed``.
    """
    ending = f" ({PLACEHOLDER})"
    names = dict.fromkeys(name for row in rows for name in row["rests_on_assumed"])
    return tuple(n.removesuffix(ending) for n in names if n.endswith(ending))


def placeholder_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the warning that counts of a kernel are placeholders, if some are.

    Parameters
    ----------
    rows : sequence of mapping
        Of an answer, with ``rests_on_assumed``.
    """
    names = [name.removeprefix("kernel: ") for name in placeholders_in(rows)]
    if not names:
        return []
    return [
        f"placeholders stand for what nobody counted ({', '.join(names)}):"
        " replace them in the kernel file before you trust these times"
    ]


def resting_note(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on placeholders, and on assumed and fitted values behind the rows of an answer.

    Parameters
    ----------
    rows : sequence of mapping
        With ``rests_on_assumed``, names of values: fitted ones end in :data:`sweep.fields.FITTED`.
    """
    devices: dict[str, dict[str, None]] = {}
    for row in rows:
        for name in row["rests_on_assumed"]:
            devices.setdefault(name, {})[_device(row)] = None
    everywhere = {_device(row) for row in rows if row.get("status") in (None, "valid")}
    fitted = {name: tuple(of) for name, of in devices.items() if name.endswith(FITTED)}
    assumed = {name: tuple(of) for name, of in devices.items() if name not in fitted}
    parts = [
        f"{kind} values ({_listed(names, everywhere)})"
        for kind, names in (("assumed", assumed), ("fitted", fitted))
        if names
    ]
    stars = [Stars(f"* rests on {' and on '.join(parts)}")] if parts else []
    return placeholder_notes(rows) + stars


def _device(row: Mapping[str, Any]) -> str:
    return str(row.get("device") or "any device")


def _listed(values: Mapping[str, tuple[str, ...]], everywhere: set[str]) -> str:
    """Return names of values, those of some devices only behind these; ``power.*`` for many."""
    names: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for name, of in values.items():
        table = name.removesuffix(FITTED).rpartition(".")[0]
        names.setdefault(of, {}).setdefault(table, []).append(name.removesuffix(FITTED))
    return "; ".join(
        ("" if set(of) == everywhere else f"{', '.join(of)}: ")
        + ", ".join(
            f"{table}.*" if table and len(own) > MANY else ", ".join(own)
            for table, own in tables.items()
        )
        for of, tables in names.items()
    )

"""What answers rest on that nobody measured: assumed values, and fitted ones, behind a star."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sweep.fields import FITTED


def names_in(texts: Sequence[Any]) -> list[str]:
    """Return the names listed in texts, each once."""
    names = (name.strip() for text in texts for name in re.split(r"[,;]", str(text)))
    return list(dict.fromkeys(name for name in names if name))


def resting_note(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the note that says which assumed and fitted values are behind the rows of an answer.

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
    return [f"* rests on {' and on '.join(parts)}"] if parts else []


def _device(row: Mapping[str, Any]) -> str:
    return str(row.get("device") or "any device")


def _listed(values: Mapping[str, tuple[str, ...]], everywhere: set[str]) -> str:
    """Return names of values, those of some devices only behind these."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, of in values.items():
        names.setdefault(of, []).append(name.removesuffix(FITTED))
    return "; ".join(
        ("" if set(of) == everywhere else f"{', '.join(of)}: ") + ", ".join(several)
        for of, several in names.items()
    )

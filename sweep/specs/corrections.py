"""Corrections in a kernel file: one factor of all counts of a thread, and shifts of hit rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sweep.errors import SpecError
from sweep.expressions import of_cases
from sweep.specs.compiled import own_text
from sweep.specs.formats import INSTRUCTION_CLASSES
from sweep.specs.kernel import Kernel, parse_kernel, toml
from sweep.specs.reading import load_toml

SCALE = "calibrated_scale"
"""The derived name of the factor."""

_CLASSES = frozenset({"computation", *INSTRUCTION_CLASSES})
_COUNTS = {
    "instructions": _CLASSES,
    "stage": _CLASSES | {"barriers"},
    "synchronisation": {"barriers"},
    "global_access": {"count"},
    "shared_access": {"count"},
}
_RATES = {"global_access": ("l1_hit_rate", "l2_hit_rate"), "cache": ("l2_hit_rate",)}
_HEADER = re.compile(r"\s*\[\[?\s*([\w.]+)\s*\]\]?\s*(?:#.*)?")


def shift_names(kernel: Kernel) -> dict[str, str]:
    """Return the derived name of the shift of each hit rate that a kernel file states, by path."""
    file = load_toml(kernel.text)
    tables = {"cache": file.get("cache", {})}
    tables |= {
        f"global_access.{access['name']}": access for access in file.get("global_access", [])
    }
    return {
        f"{path}.{key}": f"calibrated_{path.rpartition('.')[2]}_{key[:2]}"
        for path, table in tables.items()
        for key in _RATES[path.split(".")[0]]
        if key in table
    }


def corrected(kernel: Kernel, scale: float, shifts: Mapping[str, float], source: str) -> Kernel:
    """Return a kernel with all counts of a thread multiplied, and hit rates shifted.

    Parameters
    ----------
    kernel : Kernel
        The kernel; its file gives each value on a line of its own, in triple quotes or as a list.
    scale : float
        The factor of its instructions, accesses and barriers.
    shifts : mapping
        Path of a hit rate (``global_access.NAME.l2_hit_rate``) to what is added to it; the sum
        stays within 0 and 1.
    source : str
        The source of the factor and the shifts, which become derived names of their own.

    Raises
    ------
    SpecError
        The kernel was corrected before, or a value is not on a line of its own.
    """
    names = {path: name for path, name in shift_names(kernel).items() if path in shifts}
    given = {SCALE: scale, **{name: shifts[path] for path, name in names.items()}}
    where = str(kernel.path or f"{kernel.key}.toml")
    if taken := sorted(given.keys() & {*kernel.derived, *kernel.parameters, *kernel.sizes}):
        raise SpecError(f"{where}: derived.{taken[0]}: corrected already; calibrate its original")
    lines, edited = _edited(_joined(own_text(kernel.text).splitlines()), names)
    wanted = _wanted(kernel, names)
    if edited != wanted:
        raise SpecError(
            f"{where}: {(*wanted - edited, 'a count')[0]}: must be on a line of its own"
        )
    headers = [_HEADER.fullmatch(line) for line in lines]
    own = [f"{name} = {value:.6g}" for name, value in given.items()]
    at = next((i for i, h in enumerate(headers) if h and h[1] == "derived"), None)
    at_source = next(i for i, h in enumerate(headers) if h and h[1] == "source")
    said = [f'"derived.{name}" = {toml(source)}' for name in given]
    lines += ["", "[derived]", *own] if at is None else []
    inserted = {at_source: said, **({} if at is None else {at: own})}
    lines = [new for i, line in enumerate(lines) for new in (line, *inserted.get(i, ()))]
    text = "\n".join(lines) + "\n" + kernel.text[len(own_text(kernel.text)) :]
    return parse_kernel(text, kernel.key, kernel.path)


def _joined(lines: list[str]) -> list[str]:
    """Return the lines, those of a value that takes several as one."""
    found: list[str] = []
    is_open = False
    for line in lines:
        found[-1:] = [f"{found[-1]}\n{line}"] if is_open else [*found[-1:], line]
        value = found[-1].partition("=")[2].lstrip()
        is_open = value.startswith(('"""', "[")) and not _is_whole(found[-1])
    return found


def _is_whole(lines: str) -> bool:
    """Return whether a value ends with these lines."""
    try:
        load_toml(lines)
    except ValueError:
        return False
    return True


def _wanted(kernel: Kernel, names: Mapping[str, str]) -> set[str]:
    """Return the paths of the values to edit."""
    file: dict[str, Any] = load_toml(kernel.text)
    found = set(names)
    for section, keys in _COUNTS.items():
        table = file.get(section, {})
        for row in table if isinstance(table, list) else [table]:
            path = f"{section}.{row['name']}" if isinstance(table, list) else section
            found |= {f"{path}.{key}" for key in keys & row.keys()}
    return found


def _edited(lines: list[str], names: Mapping[str, str]) -> tuple[list[str], set[str]]:
    """Return the lines with the corrections in counts and hit rates, and the paths of these."""
    found, edited, section, path = [], set(), "", ""
    for number, line in enumerate(lines):
        if header := _HEADER.fullmatch(line):
            section, path = header[1], header[1]
            if line.lstrip().startswith("[["):
                path = f"{section}.{_name_below(lines[number + 1 :])}"
        key, is_value, _ = (part.strip() for part in line.partition("="))
        place = f"{path}.{key}"
        if is_value and (key in _COUNTS.get(section, ()) or place in names):
            try:
                old = of_cases(load_toml(line)[key])
            except (ValueError, KeyError):
                found.append(line)
                continue
            new = f"{SCALE} * ({old})"
            if place in names:
                new = f"max(0, min(1, ({old}) + {names[place]}))"
            line = f"{key} = {toml(new)}"
            edited.add(place)
        found.append(line)
    return found, edited


def _name_below(lines: list[str]) -> str:
    """Return the name that the first table of some lines has."""
    for line in lines:
        if _HEADER.fullmatch(line):
            break
        if re.match(r"\s*name\s*=", line):
            return str(load_toml(line)["name"])
    return ""

"""PTX of one kernel, compiled for many configurations: the files, and what each was compiled for.

A file's name says its configuration (``matmul-BLOCK_M=64-num_warps=4.ptx``), or an index does: a
CSV or JSON file beside the texts with a row for each, whose ``file`` names the text. Its other
columns are the configuration, but for what is known from elsewhere: registers, spills, shared
memory (named as in compiled tables), and the ``reason`` why a configuration does not compile, which
then needs no file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.errors import SweepError
from sweep.importers.files import read_source
from sweep.importers.ptx.module import PtxError
from sweep.importers.ptx.parser import LARGEST_TEXT
from sweep.specs.compiled import CAPABILITY, QUANTITIES, REASON

MOST_FILES = 10_000

FROM_OUTSIDE = ("registers", "spill_store_bytes", "spill_load_bytes", "shared_bytes")
"""What an index, or a compiler's report, may tell of a configuration; PTX does not."""

_PART = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.+)", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")

Setting = float | str | bool


@dataclass(frozen=True)
class Variant:
    """A configuration and the PTX that a compiler made for it.

    Attributes
    ----------
    name : str
        The file, or another name for messages.
    text : str
        The PTX; blank if it does not compile.
    configuration : mapping of str to float, str or bool
        Parameters with their values.
    found : mapping of str to float
        What is known from elsewhere: `FROM_OUTSIDE`.
    reason : str
        Why it does not compile.
    capability : str
        The compute capability, where there is no text that tells it.
    """

    name: str
    text: str = field(repr=False)
    configuration: Mapping[str, Setting]
    found: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    capability: str = ""


def read_variants(paths: Sequence[Path], index: Path | None = None) -> list[Variant]:
    """Return the configurations of PTX files.

    Parameters
    ----------
    paths : sequence of Path
        The files, or one folder.
    index : Path, optional
        The index; by default the only ``.csv`` or ``.json`` file in the folder, if there is one.

    Raises
    ------
    SweepError
        A file cannot be read, or does not say its configuration as the others do.
    """
    if len(paths) == 1 and paths[0].is_dir():
        folder, files = paths[0], sorted(paths[0].glob("*.ptx*"))
        beside = sorted(p for p in folder.iterdir() if p.suffix in (".csv", ".json"))
        if index is None and len(beside) > 1:
            listed = ", ".join(path.name for path in beside[:4])
            raise SweepError(f"{folder}: has several indexes ({listed}): choose one by --index")
        index = index or (beside[0] if beside else None)
    else:
        folder, files = paths[0].parent, list(paths)
    if len(files) > MOST_FILES:
        raise SweepError(f"{folder}: {len(files):,} PTX files, more than {MOST_FILES:,}")
    if index is not None:
        found = list(_indexed(index, folder))
    else:
        found = [
            Variant(p.name, read_source(p, LARGEST_TEXT).text, configuration_of(p)) for p in files
        ]
    if not any(variant.text for variant in found):
        raise SweepError(f"{index or folder}: no PTX file (*.ptx)")
    check_configurations(found)
    return found


def configuration_of(path: Path) -> dict[str, Setting]:
    """Return the configuration in a file's name: parts NAME=VALUE between ``-``, ``,`` or ``;``.

    >>> configuration_of(Path("matmul-BLOCK_M=64-num_warps=4.ptx"))
    {'BLOCK_M': 64.0, 'num_warps': 4.0}
    """
    stem = re.sub(r"\.ptx(\.gz)?$", "", path.name)
    parts = (_PART.fullmatch(part.strip()) for part in re.split(r"[-,;]", stem))
    found = {part[1]: setting(part[2]) for part in parts if part}
    if not found:
        raise SweepError(
            f"{path}: the name says no configuration: write kernel-BLOCK_M=64-num_warps=4.ptx, or"
            " put a CSV file beside with a column 'file' and one for each parameter"
        )
    return found


def setting(text: str) -> Setting:
    """Return a parameter's value: a number, ``true``, ``false``, or a word."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def check_configurations(variants: Sequence[Variant]) -> None:
    """Refuse variants that do not have the same parameters, or twice the same values."""
    first = variants[0]
    seen: dict[Any, str] = {}
    for variant in variants:
        others = first.configuration.keys() ^ variant.configuration.keys()
        if others:
            name = min(others)
            has, lacks = (first, variant) if name in first.configuration else (variant, first)
            raise SweepError(
                f"{lacks.name}: its configuration lacks {name}, which that of {has.name} has"
            )
        target = re.search(r"^\s*\.target\s+(\w+)", variant.text, re.MULTILINE)
        key = (
            variant.capability or (target[1] if target else ""),
            *sorted((name, str(value)) for name, value in variant.configuration.items()),
        )
        if key in seen:
            raise SweepError(f"{variant.name}: the same configuration as {seen[key]}")
        seen[key] = variant.name


def _indexed(index: Path, folder: Path) -> Iterable[Variant]:
    """Yield the variants that an index names."""
    source = read_source(index, LARGEST_TEXT)
    rows: Any
    if index.suffix == ".json":
        rows = source.document
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise SweepError(f"{index}: must be a list of objects with file and the parameters")
    else:
        rows = list(csv.DictReader(io.StringIO(source.text)))
    for number, row in enumerate(rows, start=1):
        where = f"{index}: row {number}"
        cells = {key: _cell(value, f"{where}: {key}") for key, value in row.items() if key}
        name, reason = str(cells.pop("file", "")), str(cells.pop(REASON, "") or "")
        capability = cells.pop(CAPABILITY, "")
        if not (name or reason):
            raise SweepError(f"{where}: 'file' must name a PTX file")
        found = {key: cells.pop(key) for key in FROM_OUTSIDE if key in cells}
        known = {k: v for k, v in found.items() if isinstance(v, float) and v >= 0}
        if bad := [key for key, value in found.items() if key not in known and value != ""]:
            raise SweepError(f"{where}: {bad[0]} = '{found[bad[0]]}': must be a number from 0 on")
        if wrong := [key for key in cells if key in QUANTITIES]:
            raise SweepError(f"{where}: '{wrong[0]}' is counted in the PTX: leave it out")
        text = "" if reason else read_source(folder / name, LARGEST_TEXT).text
        shown = f"{capability:g}" if isinstance(capability, float) else str(capability)
        yield Variant(name or where, text, cells, known, reason, shown)


def _cell(value: Any, where: str) -> Setting:
    """Return a cell of an index."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        return setting(value.strip())
    if value is None:
        return ""
    raise PtxError(f"{where}: must be a number, a word, true or false")

"""The accesses of a kernel file to global and shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.expressions import Expression
from sweep.specs.check import Checked, check_section
from sweep.specs.formats import AFFINE_KEYS, KERNEL
from sweep.specs.formulas import Formulas
from sweep.specs.keys import Section
from sweep.specs.names import is_name
from sweep.specs.report import Report

__all__ = ["ACCESSES", "Access", "check_accesses"]

ACCESSES = ("global_access", "shared_access")
"""The tables of accesses."""

HIT_RATES = ("l1_hit_rate", "l2_hit_rate")

_SECTIONS = {section.name: section for section in KERNEL}


@dataclass(frozen=True)
class Access:
    """One access of the kernel to global or shared memory.

    Parameters
    ----------
    name : str
        Its name, unique in the file.
    kind : str
        ``load`` or ``store``.
    count : Expression
        Dynamic accesses of a thread.
    bytes : Expression
        Word of a thread and access [bytes].
    pattern : str
        How the addresses of a warp lie: ``coalesced``, ``misaligned``, ``strided``,
        ``uncoalesced``, ``broadcast``, ``affine`` or ``measured``; the last two or ``strided`` in
        shared memory.
    stride : Expression or None
        Distance of neighbouring lanes in words; ``None`` for a pattern without one.
    stage : str or None
        The stage that it belongs to, in a file with stages.
    base, x, y, z : Expression or None
        Of the pattern ``affine``, address ``base + x * threadIdx.x + y * threadIdx.y + z *
        threadIdx.z`` in words of ``bytes``; ``None`` for the others.
    l1_hit_rate, l2_hit_rate : Expression or None
        Shares of a global access's sectors that the caches serve; ``None`` for shared memory, and
        where the rate of L2 is the kernel's.
    transactions : Expression or None
        Of the pattern ``measured``: sectors of 32 bytes of a warp's access to global memory,
        passes of one to shared memory; ``None`` for the others.
    """

    name: str
    kind: str
    count: Expression
    bytes: Expression
    pattern: str
    stride: Expression | None = None
    stage: str | None = None
    base: Expression | None = None
    x: Expression | None = None
    y: Expression | None = None
    z: Expression | None = None
    l1_hit_rate: Expression | None = None
    l2_hit_rate: Expression | None = None
    transactions: Expression | None = None

    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (key, expression) of the access."""
        for key in ("count", "bytes", "stride", *AFFINE_KEYS, "transactions", *HIT_RATES):
            expression = getattr(self, key)
            if expression is not None:
                yield key, expression

    @property
    def affine(self) -> tuple[Expression, ...]:
        """The expressions ``base``, ``x``, ``y`` and ``z``; empty for other patterns."""
        given = (self.base, self.x, self.y, self.z)
        return tuple(expression for expression in given if expression is not None)


def check_accesses(
    report: Report, table: Mapping[str, Any], section_name: str, formulas: Formulas
) -> tuple[Access, ...]:
    """Check one of the tables in `ACCESSES` and return the valid accesses.

    Parameters
    ----------
    report : Report
        Takes every finding.
    table : mapping
        The file.
    section_name : str
        The table's name.
    formulas : Formulas
        The names that expressions may use.
    """
    section = _SECTIONS[section_name]
    launch = table.get("launch")
    is_flat = not isinstance(launch, dict) or not {"block_x", "block_y"} & launch.keys()
    rows = table.get(section_name)
    result: list[Access] = []
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        path = f"{section_name}[{number}]"
        if not isinstance(row, dict):
            report.error(path, f"this is a table: write [[{section_name}]]", row)
            continue
        access = _access(report, section, row, path, formulas, is_flat=is_flat)
        if access is None:
            continue
        if access.name in {other.name for other in result}:
            report.error(f"{path}.name", "the name is taken by another access", access.name)
        result.append(access)
    return tuple(result)


def _access(
    report: Report,
    section: Section,
    row: dict[str, Any],
    path: str,
    formulas: Formulas,
    *,
    is_flat: bool,
) -> Access | None:
    before = len(report.errors)
    named = row.get("name")
    if isinstance(named, str) and is_name(named):
        path = f"{section.name}.{named}"
    elif named is not None:
        report.error(f"{path}.name", "must be a name: a letter, then letters, digits, _", named)
    checked = check_section(report, section, row, path=path, sections=KERNEL)
    parsed: dict[str, Expression] = {}
    for key in section.keys:
        if key.type == "expression" and key.name in checked:
            parsed[key.name] = formulas.parse(f"{path}.{key.name}", checked[key.name], key)
        elif key.default and key.type == "expression":
            parsed[key.name] = Expression.parse(key.default)
    pattern = checked.get("pattern", "strided")
    if "pattern" in checked or "pattern" not in checked.written:
        _check_pattern(report, section, checked, path, pattern, is_flat=is_flat)
    if len(report.errors) > before:
        return None
    unused = {
        "affine": ("stride", "transactions"),
        "measured": ("stride", *AFFINE_KEYS),
    }.get(pattern, (*AFFINE_KEYS, "transactions"))
    return Access(
        name=checked["name"],
        kind=checked["kind"],
        pattern=pattern,
        stage=checked.get("stage"),
        **{key: value for key, value in parsed.items() if key not in unused},
    )


def _check_pattern(
    report: Report, section: Section, checked: Checked, path: str, pattern: str, *, is_flat: bool
) -> None:
    """Check that an access has the keys of its pattern, and no other's."""
    written = {*checked.written, *checked.meant}
    if pattern == "strided" and section.name == "global_access" and "stride" not in written:
        reason = "missing: pattern strided needs the distance of two lanes in words"
        report.error(f"{path}.stride", reason)
    if pattern != "strided" and "stride" in checked.written:
        report.error(f"{path}.stride", f"pattern {pattern} has none")
    for key in AFFINE_KEYS:
        if pattern != "affine" and key in checked.written:
            report.error(f"{path}.{key}", 'belongs to pattern = "affine"')
    if pattern != "measured" and "transactions" in checked.written:
        report.error(f"{path}.transactions", 'belongs to pattern = "measured"')
    if pattern == "measured" and "transactions" not in written:
        reason = "missing: pattern measured needs the transactions of a warp's access"
        report.error(f"{path}.transactions", reason)
    if pattern == "affine" and "x" not in written:
        report.error(f"{path}.x", "missing: pattern affine needs the distance of two threads in x")
    if pattern == "affine" and not is_flat and "y" not in written:
        reason = "missing: a block with a height needs the distance of two threads in y"
        report.error(f"{path}.y", reason)

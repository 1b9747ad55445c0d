"""Stages and memory accesses of a kernel file.

A stage is a part of the kernel's code, such as the code between two barriers, in the order of
execution. Stages are optional. If a file has stages, the kernel's totals are the sums over them,
and models that follow a kernel through time read them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import nearest
from sweep.expressions import Expression
from sweep.specs.check import Checked, check_section, rows_of
from sweep.specs.formats import AFFINE_KEYS, INSTRUCTION_CLASSES, KERNEL, Section
from sweep.specs.names import Formulas, is_name
from sweep.specs.report import Report

__all__ = [
    "ACCESSES",
    "Access",
    "Stage",
    "check_accesses",
    "check_instruction_tables",
    "check_membership",
    "check_stages",
]

ACCESSES = ("global_access", "shared_access")
"""Names of the tables of accesses."""


@dataclass(frozen=True)
class Stage:
    """One part of a kernel's code.

    Parameters
    ----------
    name : str
        Name, unique in the file.
    loop : str or None
        Adjacent stages with the same loop are executed alternately, each ``executions`` times.
    expressions : mapping of str to Expression
        ``executions`` (how often a thread executes the stage), ``threads`` (per block, if not all
        of them execute it), ``barriers`` and the instructions: either ``computation`` or classes.
        Instructions are totals per executing thread over all executions.
    """

    name: str
    loop: str | None
    expressions: Mapping[str, Expression]

    def all_expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (dotted path, expression)."""
        for key, expression in self.expressions.items():
            yield f"stage.{self.name}.{key}", expression


@dataclass(frozen=True)
class Access:
    """One access of the kernel to global or shared memory.

    Parameters
    ----------
    name : str
        Name, unique in the file.
    kind : str
        ``load`` or ``store``.
    count : Expression
        Dynamic accesses per thread.
    bytes : Expression
        Word size per thread and access [bytes].
    pattern : str
        How the addresses of a warp are arranged: ``coalesced``, ``misaligned``, ``strided``,
        ``uncoalesced``, ``broadcast``, ``affine`` or ``measured``. Shared memory has the last two
        and ``strided``.
    stride : Expression or None
        Distance of adjacent lanes in words; ``None`` for a pattern without stride.
    stage : str or None
        The stage to which it belongs, in a file with stages.
    base, x, y, z : Expression or None
        Factors of the pattern ``affine``: the address is ``base + x * threadIdx.x + y *
        threadIdx.y + z * threadIdx.z`` in words of ``bytes``. ``None`` for other patterns.
    l1_hit_rate, l2_hit_rate : Expression or None
        Shares of a global access's sectors that hit in the caches; ``None`` for shared memory, and
        if the kernel's L2 hit rate applies.
    transactions : Expression or None
        For the pattern ``measured``: sectors of 32 bytes per access of a warp to global memory, or
        passes per access to shared memory. ``None`` for other patterns.
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
        keys = ("count", "bytes", "stride", *AFFINE_KEYS, "transactions")
        for key in (*keys, "l1_hit_rate", "l2_hit_rate"):
            expression = getattr(self, key)
            if expression is not None:
                yield key, expression

    @property
    def affine(self) -> tuple[Expression, ...]:
        """The expressions ``base``, ``x``, ``y``, ``z``; empty unless the pattern is ``affine``."""
        values = (self.base, self.x, self.y, self.z)
        return tuple(expression for expression in values if expression is not None)


# ---------------------------------------------------------------------------- reading


def _tables(
    report: Report, file: Mapping[str, Any], section: Section
) -> Iterator[tuple[str, dict[str, Any], Checked]]:
    """Yield the dotted path, the content and the valid values of each table of an array."""
    names: set[str] = set()
    for number, row in enumerate(rows_of(file, section.name)):
        path = f"{section.name}[{number}]"
        if not isinstance(row, dict):
            report.error(path, f"this is a table: write [[{section.name}]]", row)
            continue
        name = row.get("name")
        if isinstance(name, str) and is_name(name):
            path = f"{section.name}.{name}"
        elif name is not None:
            report.error(f"{path}.name", "must be a name: a letter, then letters, digits, _", name)
        checked = check_section(report, section, row, path=path, sections=KERNEL)
        if checked.get("name") in names:
            reason = f"the name is taken by another {section.name.split('_')[-1]}"
            report.error(f"{section.name}[{number}].name", reason, name)
        names.add(checked.get("name", ""))
        yield path, row, checked


def check_stages(report: Report, file: Mapping[str, Any], formulas: Formulas) -> tuple[Stage, ...]:
    """Check ``[[stage]]`` and return the stages in order.

    Parameters
    ----------
    report : Report
        Collects all findings.
    file : mapping
        The file.
    formulas : Formulas
        The names that expressions may use.
    """
    section = KERNEL["stage"]
    result: list[Stage] = []
    for path, row, checked in _tables(report, file, section):
        check_instruction_tables(report, path, row)
        expressions = formulas.parse_table(section, checked, path)
        if "name" in checked:
            result.append(Stage(checked["name"], checked.get("loop"), expressions))
    return tuple(result)


def check_instruction_tables(report: Report, path: str, table: Mapping[str, Any]) -> None:
    """Refuse a table that gives instructions both as one number and by class."""
    classes = [name for name in INSTRUCTION_CLASSES if name in table]
    if "computation" in table and classes:
        reason = f"either all instructions in one or by class, not {', '.join(classes)} besides"
        report.error(f"{path}.computation", reason, table["computation"])


def check_membership(report: Report, file: Mapping[str, Any], stages: tuple[Stage, ...]) -> None:
    """Refuse accesses outside all stages, and totals in a file with stages."""
    names = [stage.name for stage in stages]
    for section in ACCESSES:
        for row in rows_of(file, section):
            if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                continue
            path = f"{section}.{row['name']}.stage"
            stage = row.get("stage")
            if stage is None and names:
                report.error(path, f"missing: one of the stages {', '.join(names)}")
            elif stage is not None and stage not in names:
                report.error(path, f"no stage of this name{nearest(str(stage), names)}", stage)
    for other in ("instructions", "synchronisation") if names else ():
        if other in file:
            report.error(other, "the stages say this: a kernel with stages has no such table")


def check_accesses(
    report: Report, file: Mapping[str, Any], name: str, formulas: Formulas
) -> tuple[Access, ...]:
    """Check one of the tables in `ACCESSES` and return its accesses, if the whole file is valid.

    Parameters
    ----------
    report : Report
        Collects all findings.
    file : mapping
        The file.
    name : str
        The table's name.
    formulas : Formulas
        The names that expressions may use.
    """
    section = KERNEL[name]
    launch = file.get("launch")
    is_flat = not isinstance(launch, dict) or not {"block_x", "block_y"} & launch.keys()
    result: list[Access] = []
    for path, _, checked in _tables(report, file, section):
        parsed = formulas.parse_table(section, checked, path)
        pattern = checked.get("pattern", "strided")
        if "pattern" in checked or "pattern" not in checked.written:
            _check_pattern(report, section, checked, path, pattern, is_flat=is_flat)
        if report.errors:
            continue
        unused = {
            "affine": ("stride", "transactions"),
            "measured": ("stride", *AFFINE_KEYS),
        }.get(pattern, (*AFFINE_KEYS, "transactions"))
        values: dict[str, Any] = {key: checked.get(key) for key in ("name", "kind", "stage")}
        values |= {key: value for key, value in parsed.items() if key not in unused}
        result.append(Access(pattern=pattern, **values))
    return tuple(result)


def _check_pattern(
    report: Report, section: Section, checked: Checked, path: str, pattern: str, *, is_flat: bool
) -> None:
    """Check that an access has exactly the keys of its pattern."""
    present = {*checked.written, *checked.meant}
    if pattern != "strided" and "stride" in checked.written:
        report.error(f"{path}.stride", f"pattern {pattern} has none")
    for other, keys in (("affine", AFFINE_KEYS), ("measured", ("transactions",))):
        for key in keys if pattern != other else ():
            if key in checked.written:
                report.error(f"{path}.{key}", f'belongs to pattern = "{other}"')
    needed = {
        "strided": {"stride": "the distance of two lanes in words"},
        "measured": {"transactions": "the transactions of a warp's access"},
        "affine": {"x": "the distance of two threads in x"},
    }.get(pattern, {})
    for key, what in needed.items() if (pattern, section.name) != _HAS_DEFAULT else ():
        if key not in present:
            report.error(f"{path}.{key}", f"missing: pattern {pattern} needs {what}")
    if pattern == "affine" and not is_flat and "y" not in present:
        reason = "missing: a block with a height needs the distance of two threads in y"
        report.error(f"{path}.y", reason)


_HAS_DEFAULT = ("strided", "shared_access")
"""Pattern and table for which the stride is optional."""

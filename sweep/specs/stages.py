"""The stages of a kernel: stretches of its code, in order, between barriers or around loops.

Stages are optional. Where a file has them, the kernel's totals are the sums over its stages, and
models that follow a kernel through time (periods, stages between barriers) read them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweep.errors import nearest
from sweep.expressions import Expression
from sweep.specs.check import check_section
from sweep.specs.formats import KERNEL
from sweep.specs.formulas import Formulas
from sweep.specs.names import is_name
from sweep.specs.report import Report

__all__ = ["Stage", "check_instruction_tables", "check_stages"]

_SECTIONS = {section.name: section for section in KERNEL}
CLASSES = tuple(k.name for k in _SECTIONS["instructions"].keys if k.name != "computation")


@dataclass(frozen=True)
class Stage:
    """One stretch of a kernel's code.

    Parameters
    ----------
    name : str
        Its name, unique in the file.
    loop : str or None
        Neighbouring stages with the same loop alternate: they are executed in turn, each as often
        as ``executions`` says.
    expressions : mapping of str to Expression
        ``executions`` (how often a thread passes the stage), ``threads`` (of a block, where not
        all of them pass it), ``barriers`` and the instructions: either ``computation`` or classes.
        Dynamic totals of a thread that passes, over all executions.
    """

    name: str
    loop: str | None
    expressions: Mapping[str, Expression]

    def all_expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (dotted path, expression)."""
        for key, expression in self.expressions.items():
            yield f"stage.{self.name}.{key}", expression


def check_stages(report: Report, table: Mapping[str, Any], formulas: Formulas) -> tuple[Stage, ...]:
    """Check ``[[stage]]`` and return the stages in order.

    Parameters
    ----------
    report : Report
        Takes every finding.
    table : mapping
        The file.
    formulas : Formulas
        The names that expressions may use.
    """
    section = _SECTIONS["stage"]
    rows = table.get("stage")
    result: list[Stage] = []
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        path = f"stage[{number}]"
        if not isinstance(row, dict):
            report.error(path, "this is a table: write [[stage]]", row)
            continue
        named = row.get("name")
        if isinstance(named, str) and is_name(named):
            path = f"stage.{named}"
        elif named is not None:
            report.error(f"{path}.name", "must be a name: a letter, then letters, digits, _", named)
        checked = check_section(report, section, row, path=path, sections=KERNEL)
        check_instruction_tables(report, path, row)
        expressions = {}
        for key in section.keys:
            if key.type == "expression" and key.name in checked:
                text = checked[key.name]
                expressions[key.name] = formulas.parse(f"{path}.{key.name}", text, key)
            elif key.default:
                expressions[key.name] = Expression.parse(key.default)
        if "name" not in checked:
            continue
        if checked["name"] in {other.name for other in result}:
            report.error(f"{path}.name", "the name is taken by another stage", checked["name"])
        result.append(Stage(checked["name"], checked.get("loop"), expressions))
    return tuple(result)


def check_instruction_tables(report: Report, path: str, table: Mapping[str, Any]) -> None:
    """Refuse a table that gives instructions both in one number and by class."""
    given = [name for name in CLASSES if name in table]
    if "computation" in table and given:
        reason = f"either all instructions in one or by class, not {', '.join(given)} besides"
        report.error(f"{path}.computation", reason, table["computation"])


def check_membership(report: Report, table: Mapping[str, Any], stages: tuple[Stage, ...]) -> None:
    """Refuse accesses outside every stage, and totals beside stages."""
    names = [stage.name for stage in stages]
    for section in ("global_access", "shared_access"):
        rows = table.get(section)
        for row in rows if isinstance(rows, list) else []:
            if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                continue
            path = f"{section}.{row['name']}.stage"
            given = row.get("stage")
            if given is None and names:
                report.error(path, f"missing: one of the stages {', '.join(names)}")
            elif given is not None and given not in names:
                reason = f"no stage of this name{nearest(str(given), names)}"
                report.error(path, reason, given)
    if names:
        for other in ("instructions", "synchronisation"):
            if other in table:
                report.error(other, "the stages say this: a kernel with stages has no such table")

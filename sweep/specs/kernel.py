"""The kernel file: one workload, described once for every model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.expressions import Expression
from sweep.specs.accesses import (
    ACCESSES,
    Access,
    Stage,
    check_accesses,
    check_instruction_tables,
    check_membership,
    check_stages,
)
from sweep.specs.check import check_section, rows_of, table_of, top_level
from sweep.specs.formats import INSTRUCTION_CLASSES, KERNEL
from sweep.specs.names import Formulas, check_parameters, check_sizes
from sweep.specs.reading import parse_toml, sha256_of
from sweep.specs.report import Report
from sweep.specs.sources import Source, check_sources, longest_prefix
from sweep.specs.units import to_base

__all__ = ["Access", "Kernel", "Measured", "ParameterValue", "inspect_kernel", "parse_kernel"]

ParameterValue = float | str | bool
"""A value of a tuning parameter."""

DEFAULT_SOURCE = "default"


@dataclass(frozen=True)
class Measured:
    """A measured time of one launch, on one device, at one pair of clocks.

    Parameters
    ----------
    time : float
        Time of one launch [s].
    device : str
        Key of the device.
    core_clock, memory_clock : float
        Clocks during the measurement [MHz].
    """

    time: float
    device: str
    core_clock: float
    memory_clock: float


@dataclass(frozen=True)
class Kernel:
    """One workload, as its file describes it.

    Parameters
    ----------
    key : str
        The file's name without ``.toml``.
    name, description : str
        Name, and a description in words.
    sizes : mapping of str to float
        Problem sizes and their default values.
    parameters : mapping of str to tuple
        Tuning parameters and their values: numbers, words or booleans.
    derived : mapping of str to Expression
        Named expressions, each after those that it uses.
    constraints : tuple of Expression
        Conditions that a valid configuration satisfies.
    expressions : mapping of str to Expression
        The other expressions by dotted path (``launch.blocks``). Optional ones that are missing in
        the file have their defaults, except instruction classes.
    global_accesses, shared_accesses : tuple of Access
        The accesses to memory.
    sources : mapping of str to Source
        Sources by dotted path of a value or a table; ``default`` stands for all others.
    text : str
        The file.
    sha256 : str
        SHA-256 of the text.
    path : Path or None
        The file, ``None`` if the text did not come from one.
    stages : tuple of Stage
        Parts of its code in order; empty if the file gives only totals.
    measured : Measured or None
        A measured time, if the file has one.
    """

    key: str
    name: str
    description: str
    sizes: Mapping[str, float]
    parameters: Mapping[str, tuple[ParameterValue, ...]]
    derived: Mapping[str, Expression]
    constraints: tuple[Expression, ...]
    expressions: Mapping[str, Expression]
    global_accesses: tuple[Access, ...]
    shared_accesses: tuple[Access, ...]
    sources: Mapping[str, Source]
    text: str = field(repr=False)
    sha256: str
    path: Path | None = field(default=None, compare=False)
    stages: tuple[Stage, ...] = ()
    measured: Measured | None = None

    def __hash__(self) -> int:
        """Hash key and text, because the mappings cannot be hashed."""
        return hash((self.key, self.sha256))

    @property
    def evaluation_order(self) -> tuple[str, ...]:
        """The derived names, each after those that it uses."""
        return tuple(self.derived)

    def all_expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (dotted path, expression) for all expressions of the file.

        The order is: derived names in evaluation order, constraints (``constraints[0]``), the
        other expressions, and those of the accesses (``global_access.NAME.count``).
        """
        for name, expression in self.derived.items():
            yield f"derived.{name}", expression
        for number, expression in enumerate(self.constraints):
            yield f"constraints[{number}]", expression
        yield from self.expressions.items()
        for stage in self.stages:
            yield from stage.all_expressions()
        for section, accesses in zip(
            ACCESSES, (self.global_accesses, self.shared_accesses), strict=True
        ):
            for access in accesses:
                for key, expression in access.expressions():
                    yield f"{section}.{access.name}.{key}", expression

    def source_of(self, path: str) -> Source:
        """Return the source of a value: its own entry, its table's, or the default."""
        found = longest_prefix(path.split("[")[0], self.sources, DEFAULT_SOURCE)
        assert found is not None  # checked when the file was parsed
        return found

    def assumed(self) -> tuple[str, ...]:
        """Return the dotted paths of all assumed values."""
        return tuple(path for path, source in self.sources.items() if source.kind == "assumed")


# ---------------------------------------------------------------------------- reading


def parse_kernel(text: str, key: str, path: str | Path | None = None) -> Kernel:
    """Return the kernel that a text describes.

    Parameters
    ----------
    text : str
        The content of a kernel file.
    key : str
        The kernel's key: the file's name without ``.toml``.
    path : str or Path, optional
        Where the text came from, for messages.

    Raises
    ------
    SpecError
        The text is wrong; the message has the first problem in one line.
    """
    report = Report(str(path or f"kernels_spec/{key}.toml"))
    return report.result(inspect_kernel(report, text, key, Path(path) if path else None))


def inspect_kernel(report: Report, text: str, key: str, path: Path | None = None) -> Kernel | None:
    """Check a kernel file and return the kernel, or ``None`` if there are errors.

    Parameters
    ----------
    report : Report
        Collects all findings.
    text, key, path
        As for :func:`parse_kernel`.
    """
    file = parse_toml(report, text, key)
    if file is None:
        return None
    top = top_level(report, file, KERNEL)
    sizes = check_sizes(report, table_of(file, "sizes"))
    parameters = check_parameters(report, table_of(file, "parameters"), sizes)
    formulas = Formulas(report, [*sizes, *parameters], table_of(file, "derived"))
    constraints = formulas.parse_conditions(top.get("constraints", []))
    expressions = _single_expressions(report, file, formulas)
    stages = check_stages(report, file, formulas)
    check_membership(report, file, stages)
    _check_instructions(report, file)
    measured = _measured(report, table_of(file, "measured"))
    global_accesses, shared_accesses = (
        check_accesses(report, file, name, formulas) for name in ACCESSES
    )
    sources = _sources(report, file, top.meant)
    if report.errors:
        return None
    kernel = Kernel(
        key,
        top["name"],
        top.get("description", ""),
        sizes,
        parameters,
        formulas.derived,
        constraints,
        expressions,
        global_accesses,
        shared_accesses,
        sources,
        text=text,
        sha256=sha256_of(text),
        path=path,
        stages=stages,
        measured=measured,
    )
    _warn_of_unused(report, kernel)
    return kernel


def _single_expressions(
    report: Report, file: Mapping[str, Any], formulas: Formulas
) -> dict[str, Expression]:
    """Check the tables of expressions and return the expressions by dotted path."""
    result: dict[str, Expression] = {}
    for name, section in KERNEL.items():
        is_other = not name or section.repeated or section.values or name == "measured"
        if is_other or (section.required and name not in file):
            continue  # `top_level` reports a missing table
        checked = check_section(report, section, table_of(file, name), sections=KERNEL)
        for key, expression in formulas.parse_table(section, checked, name).items():
            result[f"{name}.{key}"] = expression
    _complete_block(table_of(file, "launch"), result, formulas)
    return result


def _complete_block(
    launch: Mapping[str, Any], expressions: dict[str, Expression], formulas: Formulas
) -> None:
    """Complete the shape of a block: one row of threads, or the missing side."""
    x, y = "launch.block_x", "launch.block_y"
    absent = [side for side in (x, y) if side.removeprefix("launch.") not in launch]
    for side in absent:
        expressions.pop(side, None)
    total = expressions.get("launch.threads_per_block")
    if total is None:
        return
    present = x if absent == [y] else y
    if len(absent) == 1 and present in expressions:
        quotient = f"({total.text}) / ({expressions[present].text})"
        expressions[absent[0]] = formulas.parse(absent[0], quotient)
    expressions.setdefault(x, total)
    expressions.setdefault(y, Expression.parse(1))


def _check_instructions(report: Report, file: Mapping[str, Any]) -> None:
    """Check that instructions are in one table of totals, or in the stages."""
    if "stage" in file:
        return
    if "instructions" not in file:
        report.error("instructions", "missing: what a thread executes, in all or by class")
        return
    table = table_of(file, "instructions")
    check_instruction_tables(report, "instructions", table)
    if "instructions" in {finding.path.split(".")[0] for finding in report.errors}:
        return
    if not table.keys() & {"computation", *INSTRUCTION_CLASSES}:
        classes = ", ".join(INSTRUCTION_CLASSES)
        report.error("instructions", f"empty: give computation or any of {classes}")


def _measured(report: Report, table: dict[str, Any]) -> Measured | None:
    """Check ``[measured]`` and return its content; ``None`` if it is missing or wrong."""
    before = len(report.errors)
    found = check_section(report, KERNEL["measured"], table, sections=KERNEL) if table else {}
    if not found or len(report.errors) > before:
        return None
    return Measured(
        to_base(found["time_ms"], "time_ms"),
        found["device"],
        float(found["core_clock_MHz"]),
        float(found["memory_clock_MHz"]),
    )


def _sources(report: Report, file: Mapping[str, Any], excused: set[str]) -> dict[str, Source]:
    """Check ``[source]``: the default and the entries with a path."""
    if not isinstance(file.get("source"), dict):
        return {}  # already reported as missing
    source = file["source"]
    known = {name for name in file if name not in ("schema", "name", "description", "source")}
    for name in file.keys() - {"source"}:
        known |= {f"{name}.{key}" for key in table_of(file, name)}
        for row in rows_of(file, name) if name in (*ACCESSES, "stage") else []:
            if isinstance(row, dict) and isinstance(row.get("name"), str):
                path = f"{name}.{row['name']}"
                known |= {path, *(f"{path}.{key}" for key in row)}
    sources, _ = check_sources(report, source, known, (DEFAULT_SOURCE,), excused)
    if DEFAULT_SOURCE not in source:
        report.error("source.default", "missing: the source of every number without one of its own")
    return sources


def _warn_of_unused(report: Report, kernel: Kernel) -> None:
    used: set[str] = set()
    for path, expression in reversed(list(kernel.all_expressions())):
        section, _, name = path.partition(".")
        if section != "derived" or name in used:
            used |= expression.names
    for section, names in (
        ("sizes", kernel.sizes),
        ("parameters", kernel.parameters),
        ("derived", kernel.derived),
    ):
        for name in names:
            if name not in used:
                report.warning(f"{section}.{name}", "no expression uses it")

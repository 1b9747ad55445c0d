"""The kernel file: one workload, described once for every model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.expressions import Expression
from sweep.specs.accesses import ACCESSES, Access, check_accesses
from sweep.specs.check import check_section, top_level
from sweep.specs.formats import KERNEL
from sweep.specs.formulas import Formulas
from sweep.specs.measured import Measured, check_measured
from sweep.specs.names import check_parameters, check_sizes
from sweep.specs.report import Report
from sweep.specs.sources import Source, check_sources, longest_prefix
from sweep.specs.stages import (
    CLASSES,
    Stage,
    check_instruction_tables,
    check_membership,
    check_stages,
)
from sweep.specs.toml import parse_toml, sha256_of

__all__ = ["Access", "Kernel", "ParameterValue", "inspect_kernel", "parse_kernel"]

ParameterValue = float | str | bool
"""A value of a tuning parameter."""

DEFAULT_SOURCE = "default"


@dataclass(frozen=True)
class Kernel:
    """One workload, as its file describes it.

    Parameters
    ----------
    key : str
        The file's name without ``.toml``.
    name, description : str
        What it is.
    sizes : mapping of str to float
        Problem sizes and their default values.
    parameters : mapping of str to tuple
        Tuning parameters and their values: numbers, words or booleans.
    derived : mapping of str to Expression
        Named sub-expressions, each after those that it uses.
    constraints : tuple of Expression
        Conditions that a valid configuration meets.
    expressions : mapping of str to Expression
        The single expressions by dotted path (``launch.blocks``). Optional ones are present with
        their defaults, except instruction classes: those that the file gives.
    global_accesses, shared_accesses : tuple of Access
        The accesses to memory.
    sources : mapping of str to Source
        Sources by dotted path of a value or a table; ``default`` stands for all others.
    text : str
        The file.
    sha256 : str
        SHA-256 of the text.
    path : Path or None
        Where the file lies, ``None`` where it came from elsewhere.
    stages : tuple of Stage
        Stretches of its code, in order; empty where the file gives totals only.
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
        """Hash by key and text: the mappings themselves cannot be hashed."""
        return hash((self.key, self.sha256))

    @property
    def evaluation_order(self) -> tuple[str, ...]:
        """The derived names, each after those that it uses."""
        return tuple(self.derived)

    def all_expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (dotted path, expression) of the whole file.

        Derived names come first, in evaluation order, then constraints (``constraints[0]``), the
        single expressions, and those of the accesses (``global_access.NAME.count``).
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
        assert found is not None  # parsing has seen to it
        return found

    def assumed(self) -> tuple[str, ...]:
        """Return the dotted paths of sources that are assumptions."""
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
        With the first problem, in one line.
    """
    report = Report(str(path or f"kernels_spec/{key}.toml"))
    kernel = inspect_kernel(report, text, key, Path(path) if path else None)
    report.raise_first()
    assert kernel is not None  # without errors there is a kernel
    return kernel


def inspect_kernel(report: Report, text: str, key: str, path: Path | None = None) -> Kernel | None:
    """Check a kernel file and return the kernel, or ``None`` where there are errors.

    Parameters
    ----------
    report : Report
        Takes every finding.
    text, key, path
        As for :func:`parse_kernel`.
    """
    table = parse_toml(report, text, key)
    if table is None:
        return None
    top = top_level(report, table, KERNEL)
    sizes = check_sizes(report, _table(table, "sizes"))
    parameters = check_parameters(report, _table(table, "parameters"), sizes)
    formulas = Formulas(report, [*sizes, *parameters], _table(table, "derived"))
    constraints = tuple(
        formulas.parse(f"constraints[{number}]", text)
        for number, text in enumerate(top.get("constraints", []))
    )
    expressions = _single_expressions(report, table, formulas)
    stages = check_stages(report, table, formulas)
    check_membership(report, table, stages)
    _check_instructions(report, table)
    measured = check_measured(report, table)
    accesses = {name: check_accesses(report, table, name, formulas) for name in ACCESSES}
    sources = _sources(report, table, top.meant)
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
        accesses["global_access"],
        accesses["shared_access"],
        sources,
        text=text,
        sha256=sha256_of(text),
        path=path,
        stages=stages,
        measured=measured,
    )
    _warn_of_unused(report, kernel)
    return kernel


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of the file; one that is missing or of another type has been reported."""
    content = table.get(name)
    return content if isinstance(content, dict) else {}


def _single_expressions(
    report: Report, table: Mapping[str, Any], formulas: Formulas
) -> dict[str, Expression]:
    result: dict[str, Expression] = {}
    for section in KERNEL:
        if not section.name or section.repeated or section.values or section.name == "measured":
            continue
        if section.required and section.name not in table:
            continue  # reported with the tables
        checked = check_section(report, section, _table(table, section.name), sections=KERNEL)
        for key in section.keys:
            path = f"{section.name}.{key.name}"
            if key.name in checked:
                result[path] = formulas.parse(path, checked[key.name], key)
            elif key.default and key.name not in ("block_x", "block_y"):
                result[path] = Expression.parse(key.default)
    _complete_block(result, formulas)
    return result


def _complete_block(expressions: dict[str, Expression], formulas: Formulas) -> None:
    """Fill in the shape of a block: one row of threads, or what one given side leaves."""
    threads, x, y = (f"launch.{name}" for name in ("threads_per_block", "block_x", "block_y"))
    if threads not in expressions:
        return
    total = expressions[threads]
    for given, other in ((x, y), (y, x)):
        if given in expressions and other not in expressions:
            quotient = f"({total.text}) / ({expressions[given].text})"
            expressions[other] = formulas.parse(other, quotient)
            return
    expressions.setdefault(x, total)
    expressions.setdefault(y, Expression.parse(1))


def _check_instructions(report: Report, file: Mapping[str, Any]) -> None:
    """Instructions stand in one table of totals, or in the stages."""
    if "stage" in file:
        return
    if "instructions" not in file:
        report.error("instructions", "missing: what a thread executes, in all or by class")
        return
    table = _table(file, "instructions")
    check_instruction_tables(report, "instructions", table)
    known = ("computation", *CLASSES)
    if "instructions" not in {f.path.split(".")[0] for f in report.errors}:
        if not any(name in table for name in known):
            report.error("instructions", f"empty: give computation or any of {', '.join(CLASSES)}")


def _sources(report: Report, table: Mapping[str, Any], excused: set[str]) -> dict[str, Source]:
    """Check ``[source]``: the default and whatever a path names."""
    if not isinstance(table.get("source"), dict):
        return {}  # its absence has been reported
    source = table["source"]
    known = {name for name in table if name not in ("schema", "name", "description", "source")}
    for name, content in table.items():
        if isinstance(content, dict) and name != "source":
            known |= {f"{name}.{key}" for key in content}
        elif name in (*ACCESSES, "stage") and isinstance(content, list):
            for row in content:
                if isinstance(row, dict) and isinstance(row.get("name"), str):
                    access = f"{name}.{row['name']}"
                    known |= {access, *(f"{access}.{key}" for key in row)}
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

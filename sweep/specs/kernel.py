"""The kernel file: one workload, described once for every model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.expressions import Expression
from sweep.specs.check import Checked, Content, check_file
from sweep.specs.formats import INSTRUCTION_CLASSES, KERNEL, to_base
from sweep.specs.kernel_tables import (
    ACCESSES,
    Access,
    Formulas,
    Stage,
    check_accesses,
    check_instructions,
    check_parameters,
    check_sizes,
    check_stages,
)
from sweep.specs.reading import Report, sha256_of
from sweep.specs.sources import Source, check_sources

ParameterValue = float | str | bool
"""A value of a tuning parameter."""


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
            for key, expression in stage.expressions.items():
                yield f"stage.{stage.name}.{key}", expression
        for section in ACCESSES:
            for access in getattr(self, f"{section}es"):
                for key, expression in access.expressions():
                    yield f"{section}.{access.name}.{key}", expression

    def source_of(self, path: str) -> Source:
        """Return the source of a value: its own entry, its table's, or the default."""
        path = path.split("[")[0]
        while path and path not in self.sources:
            path = path.rpartition(".")[0]
        return self.sources[path or "default"]

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
    content = check_file(report, text, key, KERNEL)
    if content is None:
        return None
    sizes = check_sizes(report, content.table("sizes"))
    parameters = check_parameters(report, content.table("parameters"), sizes)
    formulas = Formulas(report, [*sizes, *parameters], content.table("derived"))
    constraints = formulas.parse_conditions(content.top.get("constraints", []))
    expressions = {
        f"{name}.{key}": expression
        for name, section in KERNEL.items()
        if name and not section.repeated and (name in content.file or not section.required)
        for key, expression in formulas.parse_table(
            section, content.tables.get(name, Checked({})), name
        ).items()
    }
    _complete_block(content.table("launch"), expressions, formulas)
    stages = check_stages(report, content, formulas)
    _check_instructions(report, content, bool(stages))
    names = [stage.name for stage in stages]
    global_accesses, shared_accesses = (
        check_accesses(report, content, name, formulas, names) for name in ACCESSES
    )
    sources = check_sources(report, KERNEL["source"], content)
    if report.errors:
        return None
    kernel = Kernel(
        key,
        content.top["name"],
        content.top.get("description", ""),
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
        measured=_measured(content),
    )
    _warn_of_unused(report, kernel)
    return kernel


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


def _check_instructions(report: Report, content: Content, has_stages: bool) -> None:
    """Check that instructions are in one table of totals, or in the stages."""
    if has_stages:
        for name in ("instructions", "synchronisation"):
            if name in content.file:
                report.error(name, "the stages say this: a kernel with stages has no such table")
    elif "stage" in content.file:
        return
    elif "instructions" not in content.file:
        report.error("instructions", "missing: what a thread executes, in all or by class")
    elif "instructions" in content.tables:
        table = content.table("instructions")
        check_instructions(report, "instructions", table)
        if not table:
            classes = ", ".join(INSTRUCTION_CLASSES)
            report.error("instructions", f"empty: give computation or any of {classes}")


def _measured(content: Content) -> Measured | None:
    """Return the content of ``[measured]``; ``None`` if it is missing."""
    found = content.tables.get("measured")
    if found is None:
        return None
    return Measured(
        to_base(found["time_ms"], "time_ms"),
        found["device"],
        float(found["core_clock_MHz"]),
        float(found["memory_clock_MHz"]),
    )


def _warn_of_unused(report: Report, kernel: Kernel) -> None:
    used: set[str] = set()
    for path, expression in reversed(list(kernel.all_expressions())):
        section, _, name = path.partition(".")
        if section != "derived" or name in used:
            used |= expression.names
    for section in ("sizes", "parameters", "derived"):
        for name in getattr(kernel, section):
            if name not in used:
                report.error(f"{section}.{name}", "no expression uses it", severity="warning")

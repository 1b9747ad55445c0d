"""The kernel file: one workload, described once for every model; read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweep.expressions import Expression
from sweep.fields import PLACEHOLDER
from sweep.specs.check import Checked, Content, Source, check_sources
from sweep.specs.compiled import CompiledTable, LookUp, appended
from sweep.specs.compiled_replaces import HIT_RATES, replacements, spills
from sweep.specs.formats import INSTRUCTION_CLASSES, KERNEL, to_base
from sweep.specs.kernel_tables import ACCESSES, Access, KernelReader, Stage, check_instructions
from sweep.specs.names import MAX_NAME
from sweep.specs.reading import Report, parse_toml, sha256_of

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
    compiled : CompiledTable or None
        What a compiler found, if the file names a table.
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
    compiled: CompiledTable | None = field(default=None, compare=False, repr=False)

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

    def placeholders(self) -> tuple[str, ...]:
        """Return the dotted paths of values that stand for counts which nobody has made yet.

        Results name them ``kernel: PATH (placeholder)`` (:mod:`sweep.query.resting`).
        """
        return tuple(p for p in self.assumed() if self.sources[p].reference.startswith(PLACEHOLDER))


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
    content = Content(report, KERNEL, file)
    content.check_tables()
    reader = KernelReader(content)
    constraints = reader.parse_conditions(content.top.get("constraints", []))
    expressions = _expressions(content, reader)
    stages = reader.stages()
    _check_instructions(content, bool(stages))
    of_global, of_shared = (reader.accesses(name, stages) for name in ACCESSES)
    sources = check_sources(content)
    if report.errors:
        return None
    kernel = Kernel(
        key, content.top["name"], content.top.get("description", ""),
        reader.sizes, reader.parameters, reader.derived, constraints, expressions,
        of_global, of_shared, sources, text=text, sha256=sha256_of(text), path=path, stages=stages,
        measured=_measured(content), compiled=reader.compiled,
    )  # fmt: skip
    if reader.compiled is not None:
        kernel = _with_compiled(kernel, reader, reader.compiled)
    _warn_of_unused(report, kernel)
    return None if report.errors else kernel


def _expressions(content: Content, reader: KernelReader) -> dict[str, Expression]:
    """Return the expressions of all tables but arrays, by dotted path."""
    found: dict[str, Expression] = {}
    for name, section in KERNEL.items():
        if name and not section.repeated and (name in content.file or not section.required):
            table = content.tables.get(name, Checked(section, name, {}))
            found |= {f"{name}.{key}": own for key, own in reader.parse_table(table).items()}
    _complete_block(reader, content.part("launch", dict), found)
    return found


def _complete_block(
    reader: KernelReader, launch: Mapping[str, Any], expressions: dict[str, Expression]
) -> None:
    """Complete the shape of a block: one row of threads, or the missing side."""
    x, y, total = "launch.block_x", "launch.block_y", expressions.get("launch.threads_per_block")
    absent = [side for side in (x, y) if side.removeprefix("launch.") not in launch]
    for side in absent:
        expressions.pop(side, None)
    if total is not None and absent == [x, y]:
        expressions |= {x: total, y: Expression.parse(1)}
    elif total is not None and absent:
        given = expressions.get(x if absent == [y] else y, total)
        expressions[absent[0]] = reader.parse(absent[0], f"({total.text}) / ({given.text})")


def _check_instructions(content: Content, has_stages: bool) -> None:
    """Check that instructions are in one table of totals, or in the stages."""
    report, table = content.report, content.tables.get("instructions")
    if has_stages:
        for name in ("instructions", "synchronisation"):
            if name in content.file:
                report.error(name, "the stages say this: a kernel with stages has no such table")
    elif "stage" in content.file:
        return
    elif "instructions" not in content.file:
        report.error("instructions", "missing: the instructions of a thread, in total or by class")
    elif table is not None:
        check_instructions(report, table)
        if not table.written:
            classes = ", ".join(INSTRUCTION_CLASSES)
            report.error("instructions", f"empty: give computation or any of {classes}")


def _measured(content: Content) -> Measured | None:
    """Return the content of ``[measured]``; ``None`` if it is missing."""
    found = content.tables.get("measured")
    if found is None:
        return None
    clocks = (float(found[f"{domain}_clock_MHz"]) for domain in ("core", "memory"))
    return Measured(to_base(found["time_ms"], "time_ms"), found["device"], *clocks)


def _with_compiled(kernel: Kernel, reader: KernelReader, table: CompiledTable) -> Kernel:
    """Return a kernel whose values come from the compiled table where this has a row."""
    given = {f"derived.{name}" for name in HIT_RATES}
    read = {n for path, e in kernel.all_expressions() if path not in given for n in e.names}
    formulas = {path: expression.text for path, expression in kernel.expressions.items()}
    sources = dict.fromkeys((f"derived.{name}" for name in table.look_ups()), table.described)
    sources |= dict.fromkeys(given, "what resident threads spill, against the size of the cache")
    expressions, accesses = dict(kernel.expressions), list(kernel.global_accesses)
    for path, text in replacements(table, formulas, read, bool(kernel.stages)).items():
        expressions[path] = reader.parse(path, text)
        sources[path] = f"{table.described}; the formula where it has no row"
    taken = {access.name for access in accesses}
    for name, (kind, texts) in {} if kernel.stages else spills(table, read).items():
        if name not in taken:
            path = f"global_access.{name}"
            parsed: dict[str, Any] = {k: reader.parse(f"{path}.{k}", t) for k, t in texts.items()}
            accesses.append(
                Access(name=name, kind=kind, pattern="coalesced", memory="local", **parsed)
            )
            sources[path] = f"{table.described}; four spilled bytes are an access"
    own = {path: Source("derived", text) for path, text in sources.items()}
    return replace(kernel, expressions=expressions, global_accesses=tuple(accesses),
                   sources={**kernel.sources, **own})  # fmt: skip


def _warn_of_unused(report: Report, kernel: Kernel) -> None:
    used: set[str] = set()
    for path, expression in reversed(list(kernel.all_expressions())):
        section, _, name = path.partition(".")
        if section != "derived" or name in used:
            used |= expression.names
    for section in ("sizes", "parameters", "derived"):
        for name, value in getattr(kernel, section).items():
            given = isinstance(value, LookUp) or name in HIT_RATES
            if name not in used and not given:
                report.error(f"{section}.{name}", "no prediction depends on it", severity="warning")


# ---------------------------------------------------------------------------- writing

Value = bool | int | float | str | Sequence[bool | int | float | str]


def key_of(name: str) -> str:
    """Return the key for a kernel's name: at most 100 lower-case letters, digits and _.

    >>> key_of("2D convolution")
    'kernel_2d_convolution'
    """
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.lower()).strip("_")
    key = text if text[:1].isalpha() else f"kernel_{text}"
    return key[:MAX_NAME].rstrip("_")


def _plain(text: str) -> str:
    """Return a text that can be used in a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)


def toml(value: Value) -> str:
    """Return a number, a text or a list of these in TOML syntax.

    >>> toml(3.0), toml(["a", True, 0.5])
    ('3', '["a", true, 0.5]')
    """
    if isinstance(value, str):
        return json.dumps(_plain(value), ensure_ascii=False)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml, value))}]"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return json.dumps(value) if isinstance(value, bool) else repr(int(value) if is_whole else value)


@dataclass
class KernelFile:
    """A kernel file that is built table by table.

    Attributes
    ----------
    name, description, source : str
        Name and description of the kernel; default source of its values (``KIND: REFERENCE``).
    comments : list of str
        Lines at the top of the file.
    constraints : list of str
        Conditions on the parameters.
    sources : dict of str to str
        Sources by the path of a value.
    """

    name: str
    description: str
    source: str
    comments: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    _tables: list[tuple[str, Mapping[str, Value], list[str]]] = field(default_factory=list)

    def table(self, header: str, values: Mapping[str, Value], comments: Iterable[str] = ()) -> None:
        """Add a table; ``header`` is ``[name]``, or ``[[name]]`` for one of several.

        Values may still be added to it; a table that stays empty is left out.
        """
        self._tables.append((header, values, _comments(comments)))

    def text(self, table: str = "") -> str:
        """Return the text of the file, which may name a compiled table of this text.

        Raises
        ------
        SpecError
            The text is not a valid kernel file.
        """
        head: dict[str, Value] = {"schema": 1, "name": self.name, "description": self.description}
        if self.constraints:
            head["constraints"] = self.constraints
        lines = [
            *_comments(self.comments),
            *(f"{key} = {toml(value)}" for key, value in head.items()),
            "",
            "[source]",
            f"default = {toml(self.source)}",
            *(f"{toml(path)} = {toml(text)}" for path, text in self.sources.items()),
        ]
        for header, values, comments in self._tables:
            if values:
                lines += ["", *comments, header]
                lines += [f"{key} = {toml(value)}" for key, value in values.items()]
        text = "\n".join(lines) + "\n"
        parse_kernel(appended(text, table) if table else text, key_of(self.name))
        return text


def _comments(lines: Iterable[str]) -> list[str]:
    return [f"# {_plain(line)}".rstrip() for line in lines]

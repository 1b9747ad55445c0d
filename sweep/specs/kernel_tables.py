"""Tables of a kernel file: sizes, parameters, derived names, stages and memory accesses.

A stage is a part of the kernel's code, such as the code between two barriers, in the order of
execution. Stages are optional. If a file has stages, the kernel's totals are the sums over them,
and models that follow a kernel through time read them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any

from sweep.errors import nearest
from sweep.expressions import Expression, ExpressionError, check_total
from sweep.specs.check import Checked, Content, check_section, check_value, is_number
from sweep.specs.formats import (
    DEVICE_NAMES,
    INSTRUCTION_CLASSES,
    KERNEL,
    LARGEST_NUMBER,
    Key,
    Section,
)
from sweep.specs.names import is_name, is_word, why_not_a_name
from sweep.specs.reading import Report, quoted_path, show

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
    transactions : Expression or None
        For the pattern ``measured``: sectors of 32 bytes per access of a warp to global memory, or
        passes per access to shared memory. ``None`` for other patterns.
    l1_hit_rate, l2_hit_rate : Expression or None
        Shares of a global access's sectors that hit in the caches; ``None`` for shared memory, and
        if the kernel's L2 hit rate applies.
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
    transactions: Expression | None = None
    l1_hit_rate: Expression | None = None
    l2_hit_rate: Expression | None = None

    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (key, expression) of the access."""
        for key in fields(self):
            value = getattr(self, key.name)
            if isinstance(value, Expression):
                yield key.name, value

    @property
    def affine(self) -> tuple[Expression, ...]:
        """The expressions ``base``, ``x``, ``y``, ``z``; empty unless the pattern is ``affine``."""
        values = (self.base, self.x, self.y, self.z)
        return tuple(expression for expression in values if expression is not None)


# ---------------------------------------------------------------------------- names of the author


def check_sizes(report: Report, table: Mapping[str, Any]) -> dict[str, float]:
    """Check ``[sizes]`` and return the problem sizes."""

    def why_not(value: Any) -> str:
        is_size = is_number(value) and 0 <= value <= LARGEST_NUMBER
        return "" if is_size else "must be a number, 0 to 2**53"

    _check_names(report, "sizes", table, why_not)
    return dict(table)


def check_parameters(
    report: Report, table: Mapping[str, Any], sizes: Collection[str]
) -> dict[str, tuple[Any, ...]]:
    """Check ``[parameters]`` and return the values of each tuning parameter."""
    _check_names(report, "parameters", table, _why_not_values, sizes, "a problem size")
    lists = {name: v if isinstance(v, list) else [v] for name, v in table.items()}
    return {name: tuple(values) for name, values in lists.items()}


def _check_names(
    report: Report,
    section: str,
    table: Mapping[str, Any],
    why_not: Callable[[Any], str],
    taken: Collection[str] = (),
    meaning: str = "",
) -> set[str]:
    """Report and return the names in a table that cannot be used, or whose value is wrong."""
    reported = set()
    for name, value in table.items():
        reason = why_not_a_name(name, dimension=section != "derived") or why_not(value)
        if name in taken:
            reason = f"the name is taken: it is {meaning}"
        if reason:
            report.error(quoted_path(section, name), reason, value)
            reported.add(name)
    return reported


def _why_not_values(values: Any) -> str:
    if not isinstance(values, list):
        return f"must be a list of values: write [{show(values)}]"
    if not values:
        return "an empty list: give at least one value"
    kinds = {_kind(value) for value in values}
    if "" in kinds:
        return "must be a list of numbers (up to 2**53), of words, or of true and false"
    if len(kinds) > 1:
        return f"mixes {' and '.join(sorted(kinds))}: all values must be of one kind"
    return "contains a value twice" if len(set(values)) < len(values) else ""


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "booleans"
    if isinstance(value, str):
        return "words" if is_word(value) else ""
    return "numbers" if is_number(value) and abs(value) <= LARGEST_NUMBER else ""


# ---------------------------------------------------------------------------- expressions

_REFUSED = Expression.parse(0)
"""Placeholder for a refused expression; because of the error the file is not used."""


class Formulas:
    """Parses the expressions of one file, which use its own names and those of the device.

    ``derived`` contains the derived expressions, each after those that it uses.

    Parameters
    ----------
    report : Report
        Collects all findings.
    variables : sequence of str
        Problem sizes and tuning parameters.
    derived : mapping of str to object
        The ``[derived]`` table.
    """

    def __init__(
        self, report: Report, variables: Sequence[str], derived: Mapping[str, Any]
    ) -> None:
        self.report = report
        self.names = dict.fromkeys((*variables, *derived, *DEVICE_NAMES))
        meaning = "a problem size or a tuning parameter"
        refused = _check_names(report, "derived", derived, lambda _: "", variables, meaning)
        self.derived = {
            name: self.parse(quoted_path("derived", name), value)
            for name, value in derived.items()
            if name not in refused
        }
        self._sort_derived()

    def parse(self, path: str, value: Any, key: Key | None = None) -> Expression:
        """Return the expression of a value, or report why it is refused.

        Parameters
        ----------
        path : str
            Dotted path of the value.
        value : object
            The number or expression in the file.
        key : Key, optional
            The definition; a constant must be within its range.
        """
        reason = "must be a number or an expression"
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                expression = Expression.parse(value, allowed=self.names)
            except ExpressionError as error:
                reason = _reason(error)
            else:
                reason = ""
                if key is not None and isinstance(value, str) and expression.is_constant:
                    reason = _constant_outside(expression, key)
        if reason:
            self.report.error(path, reason, value)
            return _REFUSED
        return expression

    def parse_table(self, section: Section, checked: Checked, path: str) -> dict[str, Expression]:
        """Return the expressions of a checked table, with defaults for missing ones."""
        result: dict[str, Expression] = {}
        for key in section.keys:
            if key.type == "expression" and key.name in checked:
                result[key.name] = self.parse(f"{path}.{key.name}", checked[key.name], key)
            elif key.type == "expression" and key.default and key.name not in checked.written:
                result[key.name] = Expression.parse(key.default)
        return result

    def parse_conditions(self, texts: Sequence[str]) -> tuple[Expression, ...]:
        """Return the conditions of the file."""
        try:
            check_total(texts)
        except ExpressionError as error:
            self.report.error("constraints", error.reason.rstrip(","))
            return ()
        return tuple(self.parse(f"constraints[{i}]", text) for i, text in enumerate(texts))

    def _sort_derived(self) -> None:
        """Sort the derived names so that each comes after those that it uses; report cycles."""
        uses = {name: sorted(e.names & self.derived.keys()) for name, e in self.derived.items()}
        try:
            order = tuple(TopologicalSorter(uses).static_order())
        except CycleError as error:
            cycle = error.args[1][:0:-1]  # the first and the last name are equal
            start = cycle.index(next(name for name in self.derived if name in cycle))
            turned = [*cycle[start:], *cycle[: start + 1]]
            reason = f"is defined by itself: {' -> '.join(turned)}"
            value = self.derived[turned[0]].text
            self.report.error(quoted_path("derived", turned[0]), reason, value)
        else:
            self.derived = {name: self.derived[name] for name in order}


def _reason(error: ExpressionError) -> str:
    """Return the message of an error without the expression, which the finding shows."""
    return f"{error.reason} at column {error.position + 1}{error.hint}"


def _constant_outside(expression: Expression, key: Key) -> str:
    """Return why a constant expression is not a number in the range of its key, else ``""``."""
    try:
        value, fault = expression.evaluate({})
    except ExpressionError as error:  # arithmetic with words
        return _reason(error)
    if fault.any():
        return "divides by zero or overflows"
    if value.dtype.kind != "f":
        return f"must give a number, {key.range}"
    return check_value(key, float(value))[1]


# ---------------------------------------------------------------------------- stages and accesses


def check_stages(report: Report, content: Content, formulas: Formulas) -> tuple[Stage, ...]:
    """Check ``[[stage]]`` and return the stages in order."""
    result: list[Stage] = []
    for path, checked in _rows(report, content, "stage"):
        check_instructions(report, path, checked.written)
        expressions = formulas.parse_table(KERNEL["stage"], checked, path)
        if "name" in checked:
            result.append(Stage(checked["name"], checked.get("loop"), expressions))
    return tuple(result)


def check_instructions(report: Report, path: str, table: Mapping[str, Any]) -> None:
    """Refuse a table that gives instructions both as one number and by class."""
    classes = [name for name in INSTRUCTION_CLASSES if name in table]
    if "computation" in table and classes:
        reason = f"either all instructions in one or by class, not {', '.join(classes)} besides"
        report.error(f"{path}.computation", reason, table["computation"])


def check_accesses(
    report: Report, content: Content, name: str, formulas: Formulas, stages: Sequence[str]
) -> tuple[Access, ...]:
    """Check one of the tables in `ACCESSES` and return its accesses, if the whole file is valid.

    Parameters
    ----------
    report : Report
        Collects all findings.
    content : Content
        The file.
    name : str
        The table's name.
    formulas : Formulas
        Parses the expressions.
    stages : sequence of str
        The names of the file's stages, to one of which each access must belong.
    """
    section = KERNEL[name]
    is_flat = not {"block_x", "block_y"} & content.table("launch").keys()
    result: list[Access] = []
    for path, checked in _rows(report, content, name):
        stage = checked.written.get("stage")
        if stage is None and stages:
            report.error(f"{path}.stage", f"missing: one of the stages {', '.join(stages)}")
        elif stage is not None and stage not in stages:
            hint = nearest(str(stage), stages)
            report.error(f"{path}.stage", f"no stage of this name{hint}", stage)
        parsed = formulas.parse_table(section, checked, path)
        pattern = checked.get("pattern", "strided")
        if "pattern" in checked or "pattern" not in checked.written:
            _check_pattern(report, section, checked, path, pattern, is_flat=is_flat)
        if not report.errors:
            values: dict[str, Any] = {key: checked.get(key) for key in ("name", "kind", "stage")}
            own = {key.name for key in section.keys if key.pattern in ("", pattern)}
            values |= {key: value for key, value in parsed.items() if key in own}
            result.append(Access(pattern=pattern, **values))
    return tuple(result)


def _rows(report: Report, content: Content, name: str) -> Iterator[tuple[str, Checked]]:
    """Yield the dotted path and the valid values of each table of an array."""
    names: set[str] = set()
    for number, row in enumerate(content.rows(name)):
        path = f"{name}[{number}]"
        if not isinstance(row, dict):
            report.error(path, f"this is a table: write [[{name}]]", row)
            continue
        own = row.get("name")
        if isinstance(own, str) and is_name(own):
            path = f"{name}.{own}"
        elif own is not None:
            report.error(f"{path}.name", "must be a name: a letter, then letters, digits, _", own)
        checked = check_section(report, KERNEL[name], row, path=path, sections=KERNEL)
        if checked.get("name") in names:
            reason = f"the name is taken by another {name.split('_')[-1]}"
            report.error(f"{name}[{number}].name", reason, own)
        names.add(checked.get("name", ""))
        yield path, checked


def _check_pattern(
    report: Report, section: Section, checked: Checked, path: str, pattern: str, *, is_flat: bool
) -> None:
    """Check that an access has exactly the keys of its pattern."""
    present = {*checked.written, *checked.meant}
    for key in section.keys:
        here = f"{path}.{key.name}"
        if key.pattern not in ("", pattern) and key.name in checked.written:
            other = f'belongs to pattern = "{key.pattern}"'
            report.error(here, f"pattern {pattern} has none" if key.name == "stride" else other)
        elif key.needed and key.pattern == pattern and key.name not in present:
            report.error(here, f"missing: pattern {pattern} needs {key.needed}")
    if pattern == "affine" and not is_flat and "y" not in present:
        reason = "missing: a block with a height needs the distance of two threads in y"
        report.error(f"{path}.y", reason)

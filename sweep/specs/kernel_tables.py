"""Tables of a kernel file: sizes, parameters, derived names, stages and memory accesses.

A stage is a part of the kernel's code, such as the code between two barriers, in the order of
execution. Stages are optional. If a file has stages, the kernel's totals are the sums over them,
and models that follow a kernel through time read them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any

from sweep.errors import nearest
from sweep.expressions import Expression, ExpressionError, check_total, of_cases, why_no_case
from sweep.specs.check import Checked, Content, check_section, check_value, is_number
from sweep.specs.compiled import CompiledTable, parse_table
from sweep.specs.compiled_replaces import hit_rates
from sweep.specs.formats import DEVICE_NAMES, INSTRUCTION_CLASSES, KERNEL, LARGEST_NUMBER, Key
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
        of them execute it), ``probability`` (that a thread does, if its data decide), ``barriers``
        and the instructions: either ``computation`` or classes. Instructions are totals per
        executing thread over all executions.
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
        ``uncoalesced``, ``broadcast``, ``affine``, ``tiled`` or ``measured``. Shared memory has
        ``affine``, ``measured`` and ``strided``.
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
    read_only : Expression or None
        Share of a global access that is declared as read-only; ``None`` for shared memory.
    l1_hit_rate, l2_hit_rate : Expression or None
        Shares of a global access's sectors that hit in the caches; ``None`` for shared memory, and
        if the kernel's L2 hit rate applies.
    memory : str
        ``global``, ``local``, ``texture`` or ``host``; ``shared`` or ``constant``.
    reuse : str or None
        ``row`` or ``column`` of an access whose L2 hit rate follows from the order of tiles.
    piece_bytes : Expression or None
        Length of the contiguous pieces that a block reads at a time [bytes]; ``None`` if long.
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
    read_only: Expression | None = None
    l1_hit_rate: Expression | None = None
    l2_hit_rate: Expression | None = None
    memory: str = "global"
    reuse: str | None = None
    piece_bytes: Expression | None = None

    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """Yield (key, expression) of the access."""
        own = ((key.name, getattr(self, key.name)) for key in fields(self))
        return (item for item in own if isinstance(item[1], Expression))

    @property
    def affine(self) -> tuple[Expression, ...]:
        """The expressions ``base``, ``x``, ``y``, ``z``; empty unless the pattern is ``affine``."""
        values = (self.base, self.x, self.y, self.z)
        return tuple(expression for expression in values if expression is not None)


# ---------------------------------------------------------------------------- reading

_REFUSED = Expression.parse(0)
"""Placeholder for a refused expression; because of the error the file is not used."""


class KernelReader:
    """Reads the tables of one file, whose expressions use its own names and those of the device.

    ``sizes``, ``parameters`` and ``derived`` are the names that the author chose; ``derived``
    contains the derived expressions, each after those that it uses.
    """

    def __init__(self, content: Content) -> None:
        self.content, self.report = content, content.report
        self.names: dict[str, None] = {}  # in the order in which suggestions are sought
        self.sizes: dict[str, float] = self._named("sizes", _why_not_a_size)
        lists = self._named("parameters", _why_not_values, "a problem size")
        self.parameters = {name: tuple(values) for name, values in lists.items()}
        self.compiled = self._compiled()
        look_ups = self.compiled.look_ups() if self.compiled else {}
        self.names |= dict.fromkeys(look_ups)
        taken = f"a problem size{',' if look_ups else ' or'} a tuning parameter"
        taken += " or a column of the compiled table" if look_ups else ""
        derived = self._named("derived", lambda _: "", taken)
        self.names |= dict.fromkeys(DEVICE_NAMES)
        derived = self._hit_rates() | derived
        parsed = {name: self.parse(quoted_path("derived", name), v) for name, v in derived.items()}
        self.derived = look_ups | self._sorted(parsed)

    def _compiled(self) -> CompiledTable | None:
        """Return the table that a compiler's findings are looked up in, if the file has one."""
        section, found = (self.content.part(n, dict) for n in ("compiled", "compiled_table"))
        name, text = section.get("table"), found.get("text")
        if not isinstance(name, str):
            return None  # there is no table, or that is reported already
        if not isinstance(text, str):
            self.report.error("compiled.table", "its text is missing", name)
            return None
        try:
            return parse_table(text, name, self.parameters, self.sizes)
        except ValueError as error:
            self.report.error("compiled.table", str(error), name)
            return None

    def _hit_rates(self) -> dict[str, str]:
        """Return the hit rates of spilled registers, if the table has any; they are new names."""
        threads = of_cases(self.content.part("launch", dict).get("threads_per_block", 1))
        found = hit_rates(self.compiled, threads) if self.compiled else {}
        try:
            for text in found.values():
                Expression.parse(text, allowed=self.names)
        except ExpressionError:
            return {}  # the launch is wrong, which is reported there
        self.names |= dict.fromkeys(found)
        return found

    def _named(
        self, section: str, why_not: Callable[[Any], str], meaning: str = ""
    ) -> dict[str, Any]:
        """Return a table less the names that cannot be used, or whose value is wrong.

        Names of the tables before are taken; they mean ``meaning``.
        """
        table, found = self.content.part(section, dict), {}
        for name, value in table.items():
            reason = why_not_a_name(name, dimension=section != "derived") or why_not(value)
            if name in self.names:
                reason = f"the name is taken: it is {meaning}"
            if reason:
                self.report.error(quoted_path(section, name), reason, value)
            else:
                found[name] = value
        self.names |= dict.fromkeys(table)
        return found

    def parse(self, path: str, value: Any, key: Key | None = None) -> Expression:
        """Return the expression of a value, or report why it is refused.

        Parameters
        ----------
        path : str
            Dotted path of the value.
        value : object
            The number, expression or list of cases in the file.
        key : Key, optional
            The definition; a constant must be within its range.
        """
        reason = "must be a number or an expression"
        if isinstance(value, list) and len(value) > 1:
            value = self._joined(path, value)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                expression = Expression.parse(value, allowed=self.names)
                is_constant = isinstance(value, str) and expression.is_constant
                reason = _constant_outside(expression, key) if is_constant and key else ""
            except ExpressionError as error:  # without the expression, which the finding shows
                reason = f"{error.reason} at column {error.position + 1}{error.hint}"
        if reason:
            self.report.error(path, reason, value)
            return _REFUSED
        return expression

    def _joined(self, path: str, cases: list[Any]) -> str | int:
        """Return a list of cases as one expression; report those that are none."""
        last, found = len(cases) - 1, ""
        for i, case in enumerate(cases):
            if reason := why_no_case(case, is_last=i == last, allowed=self.names):
                self.report.error(f"{path}[{i}]", found := reason, case)
        return 1 if found else of_cases(cases)

    def parse_table(self, checked: Checked) -> dict[str, Expression]:
        """Return the expressions of a checked table, with defaults for missing ones."""
        result: dict[str, Expression] = {}
        for key in checked.section.keys:
            if key.type == "expression" and key.name in checked:
                result[key.name] = self.parse(checked.at(key.name), checked[key.name], key)
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

    def _sorted(self, derived: dict[str, Expression]) -> dict[str, Expression]:
        """Sort the derived names so that each comes after those that it uses; report cycles."""
        uses = {name: sorted(e.names & derived.keys()) for name, e in derived.items()}
        try:
            return {name: derived[name] for name in TopologicalSorter(uses).static_order()}
        except CycleError as error:
            cycle = error.args[1][:0:-1]  # the first and the last name are equal
            start = cycle.index(next(name for name in derived if name in cycle))
            turned = [*cycle[start:], *cycle[: start + 1]]
            reason = f"is defined by itself: {' -> '.join(turned)}"
            self.report.error(quoted_path("derived", turned[0]), reason, derived[turned[0]].text)
            return derived

    def stages(self) -> tuple[Stage, ...]:
        """Check ``[[stage]]`` and return the stages in order."""
        result: list[Stage] = []
        for checked in self._rows("stage"):
            check_instructions(self.report, checked)
            expressions = self.parse_table(checked)
            if "name" in checked:
                result.append(Stage(checked["name"], checked.get("loop"), expressions))
        return tuple(result)

    def accesses(self, name: str, stages: Sequence[Stage]) -> tuple[Access, ...]:
        """Check one of the tables in `ACCESSES` and return its accesses, if the file is valid.

        If the file has stages, each access must belong to one of them.
        """
        names = [stage.name for stage in stages]
        result: list[Access] = []
        for checked in self._rows(name):
            stage = checked.written.get("stage")
            if stage is None and names:
                reason = f"missing: one of the stages {', '.join(names)}"
                self.report.error(checked.at("stage"), reason)
            elif stage is not None and stage not in names:
                hint = nearest(str(stage), names)
                self.report.error(checked.at("stage"), f"no stage of this name{hint}", stage)
            if checked.get("reuse") and checked.has("l2_hit_rate"):
                reason = "follows from the order of tiles: leave out this or reuse"
                self.report.error(checked.at("l2_hit_rate"), reason)
            parsed = self.parse_table(checked)
            pattern = checked.get("pattern", "strided")
            memory = checked.get("memory", "global" if name == "global_access" else "shared")
            if "pattern" in checked or "pattern" not in checked.written:
                self._check_pattern(checked, pattern)
                self._check_memory(checked, pattern, memory)
            if not self.report.errors:
                own = {key.name for key in checked.section.keys if key.pattern in ("", pattern)}
                values: dict[str, Any] = {key: value for key, value in parsed.items() if key in own}
                values |= {key: checked.get(key) for key in ("name", "kind", "stage", "reuse")}
                result.append(Access(pattern=pattern, memory=memory, **values))
        return tuple(result)

    def _rows(self, name: str) -> Iterator[Checked]:
        """Yield the valid values of each table of an array."""
        names: set[str] = set()
        for number, row in enumerate(self.content.part(name, list)):
            path = f"{name}[{number}]"
            if not isinstance(row, dict):
                self.report.error(path, f"this is a table: write [[{name}]]", row)
                continue
            own = row.get("name")
            if isinstance(own, str) and is_name(own):
                path = f"{name}.{own}"
            elif own is not None:
                reason = "must be a name: a letter, then letters, digits, _"
                self.report.error(f"{path}.name", reason, own)
            checked = check_section(self.report, KERNEL[name], row, path)
            if checked.get("name") in names:
                reason = f"the name is taken by another {name.split('_')[-1]}"
                self.report.error(f"{name}[{number}].name", reason, own)
            names.add(checked.get("name", ""))
            yield checked

    def _check_pattern(self, checked: Checked, pattern: str) -> None:
        """Check that an access has exactly the keys of its pattern."""
        for key in checked.section.keys:
            here = checked.at(key.name)
            if key.pattern not in ("", pattern) and key.name in checked.written:
                other = f'belongs to pattern = "{key.pattern}"'
                reason = f"pattern {pattern} has none" if key.name == "stride" else other
                self.report.error(here, reason)
            elif key.needed and key.pattern == pattern and not checked.has(key.name):
                self.report.error(here, f"missing: pattern {pattern} needs {key.needed}")
        has_height = {"block_x", "block_y"} & self.content.part("launch", dict).keys()
        if pattern == "affine" and has_height and not checked.has("y"):
            reason = "missing: a block with a height needs the distance of two threads in y"
            self.report.error(checked.at("y"), reason)

    def _check_memory(self, checked: Checked, pattern: str, memory: str) -> None:
        """Check that a memory is written and arranged as hardware does it."""
        if checked.get("kind") == "store" and memory in ("constant", "texture"):
            reason = f"a kernel cannot store to {memory} memory"
            self.report.error(checked.at("kind"), reason, "store")
        if pattern == "tiled" and memory != "texture":
            reason = 'only textures are tiled: memory = "texture"'
            self.report.error(checked.at("pattern"), reason, pattern)
        if memory == "local" and pattern not in ("coalesced", "measured"):
            reason = "local memory is interleaved: coalesced, or measured"
            self.report.error(checked.at("pattern"), reason, pattern)


def check_instructions(report: Report, checked: Checked) -> None:
    """Refuse a table that gives instructions both as one number and by class."""
    table = checked.written
    classes = [name for name in INSTRUCTION_CLASSES if name in table]
    if "computation" in table and classes:
        reason = f"either all instructions in one or by class, not {', '.join(classes)} besides"
        report.error(checked.at("computation"), reason, table["computation"])


# ---------------------------------------------------------------------------- values


def _why_not_a_size(value: Any) -> str:
    is_size = is_number(value) and 0 <= value <= LARGEST_NUMBER
    return "" if is_size else "must be a number, 0 to 2**53"


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


def _constant_outside(expression: Expression, key: Key) -> str:
    """Return why a constant expression is not a number in the range of its key, else ``""``."""
    value, fault = expression.evaluate({})  # arithmetic with words raises an error
    if fault.any():
        return "divides by zero, overflows or chooses beyond its list"
    if value.dtype.kind != "f":
        return f"must give a number, {key.range}"
    return check_value(key, float(value))[1]

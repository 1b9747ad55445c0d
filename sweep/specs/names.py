"""Names in kernel files, and the expressions that use them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from sweep.errors import SpecError, SweepError
from sweep.expressions import FUNCTIONS, Expression, ExpressionError, check_total
from sweep.fields import COMMON_FIELDS, STACKED
from sweep.specs.check import Checked, check_value, is_number
from sweep.specs.formats import DEVICE_NAMES, LARGEST_NUMBER, Key, Section
from sweep.specs.report import Report, quoted_path, show

__all__ = [
    "MAX_NAME",
    "NAME_PATTERN",
    "RESERVED_DIMENSIONS",
    "RESERVED_NAMES",
    "Formulas",
    "check_name",
    "check_parameters",
    "check_sizes",
    "is_name",
    "is_word",
    "why_not_a_name",
]

MAX_NAME = 100
"""Largest length of the name of a kernel, device, model, parameter or dimension."""

NAME_PATTERN = rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}"
"""Pattern of the names that the author of a kernel file chooses."""

LAUNCH_NAMES = ("threads_per_block", "blocks", "registers_per_thread", "shared_memory_bytes")
"""Names that a plan's constraints may use in addition to those of the kernel."""

RESERVED_NAMES = frozenset({*DEVICE_NAMES, *LAUNCH_NAMES, *FUNCTIONS, *keyword.kwlist})
"""Names with another meaning in expressions."""

_DIMENSIONS = ("model", "device", "kernel", "core_clock", "core_clock_ratio", "memory_clock",
               "memory_clock_ratio", "assumed", "power_assumed")  # fmt: skip

RESERVED_DIMENSIONS = frozenset({*_DIMENSIONS, STACKED, *COMMON_FIELDS})
"""Names with another meaning in a dataset, which sizes and parameters must not have."""


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a size, parameter, derived value or access."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def is_word(text: str) -> bool:
    """Return whether a text can be the value of a parameter: not blank and all printable.

    NumPy drops NUL characters at the end of a word, so two different words would become equal.
    """
    return bool(text.strip()) and text.isprintable()


def check_name(
    name: object, what: str = "name", where: str = "", error: type[SweepError] = SpecError
) -> str:
    """Return a name from an untrusted file, if it is an identifier of bounded length.

    All readers of stores, caches, tables and plans call this before they use a name of a kernel,
    device, model, parameter or dimension.

    Parameters
    ----------
    name : object
        The value that was read.
    what : str
        The kind of name for the message: ``dimension``.
    where : str
        The file and the place in it, for the message.
    error : type of SweepError
        The error to raise.

    Raises
    ------
    SweepError
        The name is not a string, not an identifier of ASCII letters, digits and ``_``, or has more
        than `MAX_NAME` characters.
    """
    if isinstance(name, str) and re.fullmatch(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}", name):
        return name
    shown = repr(name if not isinstance(name, str) else name[:60])[:80]
    reason = f"a {what} is a letter, then letters, digits and _, at most {MAX_NAME} characters"
    raise error(f"{where}: {shown}: {reason}" if where else f"{shown}: {reason}")


def why_not_a_name(name: str, *, dimension: bool) -> str:
    """Return why a name is refused, ``""`` if it is allowed.

    Parameters
    ----------
    name : str
        The name.
    dimension : bool
        Whether it becomes a dimension of the results (sizes and parameters do).
    """
    if not is_name(name):
        if len(name) > MAX_NAME:
            return f"a name has at most {MAX_NAME} characters"
        return "must be a name: a letter, then letters, digits, _"
    if name in DEVICE_NAMES:
        return f"the name is taken: it means {DEVICE_NAMES[name]}"
    if name in LAUNCH_NAMES:
        return "the name is taken: conditions of a plan mean the launch by it"
    if name in FUNCTIONS:
        return "the name is taken: it is a function of expressions"
    if name in RESERVED_NAMES:
        return "the name is taken: it is a word of the expressions' language"
    if dimension and name in RESERVED_DIMENSIONS:
        return "the name is taken: the results have something else of that name"
    return ""


def check_sizes(report: Report, table: Mapping[str, Any]) -> dict[str, float]:
    """Return the valid problem sizes."""
    result: dict[str, float] = {}
    for name, value in table.items():
        path = quoted_path("sizes", name)
        reason = why_not_a_name(name, dimension=True)
        if not reason and not (is_number(value) and 0 <= value <= LARGEST_NUMBER):
            reason = "must be a number, 0 to 2**53"
        if reason:
            report.error(path, reason, value)
        result[name] = value
    return result


def check_parameters(
    report: Report, table: Mapping[str, Any], sizes: Collection[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the tuning parameters; those with errors keep the values as written."""
    result: dict[str, tuple[Any, ...]] = {}
    for name, values in table.items():
        reason = why_not_a_name(name, dimension=True) or _why_not_values(values)
        if name in sizes:
            reason = "the name is taken: it is a problem size"
        if reason:
            report.error(quoted_path("parameters", name), reason, values)
        result[name] = tuple(values) if isinstance(values, list) else (values,)
    return result


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
    if len(set(values)) < len(values):
        return "holds a value twice"
    return ""


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
        self.names = [*variables, *derived, *DEVICE_NAMES]
        self.derived: dict[str, Expression] = {}
        for name, value in derived.items():
            path = quoted_path("derived", name)
            reason = why_not_a_name(name, dimension=False)
            if name in variables:
                reason = "the name is taken: it is a problem size or a tuning parameter"
            if reason:
                report.error(path, reason, value)
            else:
                self.derived[name] = self.parse(path, value)
        self._refuse_cycle()

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
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.report.error(path, "must be a number or an expression", value)
            return _REFUSED
        try:
            expression = Expression.parse(value, allowed=self.names)
        except ExpressionError as error:
            self.report.error(path, _reason(error), value)
            return _REFUSED
        if key is not None and isinstance(value, str) and expression.is_constant:
            reason = _constant_outside(expression, key)
            if reason:
                self.report.error(path, reason, value)
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

    def _refuse_cycle(self) -> None:
        """Sort the derived names so that each comes after those that it uses; report cycles."""
        uses = {name: sorted(e.names & self.derived.keys()) for name, e in self.derived.items()}
        try:
            order = list(TopologicalSorter(uses).static_order())
        except CycleError as error:
            cycle = error.args[1][:0:-1]  # the first and the last name are equal
            names = list(self.derived)
            start = min(range(len(cycle)), key=lambda i: names.index(cycle[i]))
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
    if np.any(fault):
        return "divides by zero or overflows"
    if np.asarray(value).dtype.kind not in "fiu":
        return f"must give a number, {key.range}"
    return check_value(key, float(value))[1]

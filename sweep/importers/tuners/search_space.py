"""The T1 format: a search space with its parameters, conditions and kernel specification.

https://github.com/odgaard/TuningSchema describes it. Conditions are Python expressions, which are
parsed as :class:`sweep.expressions.Expression`. Values may be written as Python lists, which are
parsed and never executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.errors import TuningError
from sweep.expressions import Expression, ExpressionError, check_total
from sweep.fields import Array
from sweep.importers.files import Source
from sweep.specs.names import check_name, is_word

Value = float | str | bool

MOST_VALUES = 100_000
"""Largest number of values of one parameter."""

LONGEST = 2**20
"""Largest number of characters in the text of a list of values."""

MOST_STEPS = 1_000_000
"""Largest number of steps in the evaluation of a list of values."""

LARGEST = 2**53

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


@dataclass(frozen=True)
class SearchSpace:
    """The search space of a tuner.

    Attributes
    ----------
    name : str
        The benchmark's name.
    parameters : mapping of str to tuple
        Tuning parameters and their values.
    conditions : tuple of Expression
        The conditions that a valid configuration satisfies.
    specification : mapping
        The kernel specification, as in the file.
    """

    name: str
    parameters: Mapping[str, tuple[Value, ...]]
    conditions: tuple[Expression, ...]
    specification: Mapping[str, Any]

    @property
    def cartesian(self) -> int:
        """Number of configurations, ignoring the conditions."""
        return math.prod(len(values) for values in self.parameters.values())

    def satisfied(self, columns: Mapping[str, Array]) -> Array:
        """Return where configurations satisfy all conditions.

        Parameters
        ----------
        columns : mapping of str to array
            A column for every name that a condition reads.

        Raises
        ------
        KeyError
            A column is missing.
        """
        holds = np.ones(len(next(iter(columns.values()))), bool)
        for condition in self.conditions:
            value, fault = condition.evaluate({n: columns[n] for n in condition.names})
            holds &= (np.asarray(value) != 0) & ~np.asarray(fault)
        return holds


def read_t1(source: Source) -> SearchSpace:
    """Return the search space of a T1 file.

    Raises
    ------
    TuningError
        An entry is missing or wrong; the message names it.
    """
    space = _part(source, source.document, "ConfigurationSpace", dict)
    entries = _part(source, space, "TuningParameters", list)
    conditions = _part(source, space, "Conditions", list, [])
    specification = _part(source, source.document, "KernelSpecification", dict, {})
    general = _part(source, source.document, "General", dict, {})
    if not entries:
        raise source.error("ConfigurationSpace.TuningParameters is empty")
    parameters: dict[str, tuple[Value, ...]] = {}
    for number, entry in enumerate(entries):
        where = f"{source.path}: TuningParameters[{number}]"
        name = entry.get("Name") if isinstance(entry, Mapping) else None
        name = check_name(name, "parameter", f"{where}.Name", TuningError)
        if name in parameters:
            raise TuningError(f"{where}.Name: '{name}' occurs twice")
        parameters[name] = values_of(f"{where}.Values", entry.get("Values"))
    parsed = tuple(_conditions(source, conditions, parameters))
    name = str(general.get("BenchmarkName") or source.name)
    if not is_word(name):
        raise source.error(f"General.BenchmarkName = {name[:60]!r} cannot be printed")
    return SearchSpace(name, parameters, parsed, specification)


def _part(source: Source, document: Any, key: str, kind: type, default: Any = None) -> Any:
    """Return an entry of a JSON object, which must be a list or an object."""
    value = document.get(key) if isinstance(document, Mapping) else None
    value = default if value is None else value
    if not isinstance(value, kind):
        raise source.error(f"{key} must be {'a list' if kind is list else 'an object'}")
    return value


def _conditions(
    source: Source, entries: list[Any], parameters: Mapping[str, Any]
) -> Iterator[Expression]:
    where = "Conditions"
    try:
        check_total(str(entry) for entry in entries)
        for number, entry in enumerate(entries):
            where = f"Conditions[{number}]"
            text = entry.get("Expression") if isinstance(entry, Mapping) else entry
            if not isinstance(text, str):
                raise source.error(f"{where}.Expression must be a text")
            yield Expression.parse(" ".join(text.split()), allowed=parameters)
    except ExpressionError as error:
        raise source.error(f"{where}: {error}") from None


def values_of(where: str, values: Any) -> tuple[Value, ...]:
    """Return a parameter's values from a list or its text.

    Raises
    ------
    TuningError
        They are no list of numbers, words and booleans, or one occurs twice.
    """
    if isinstance(values, str):
        try:
            values = listed(values)
        except ValueError:
            shown = repr(values[:60])
            raise TuningError(
                f"{where} = {shown}: needs a list of numbers, words, or True and False"
            ) from None
    if not isinstance(values, list) or not values or len(values) > MOST_VALUES:
        raise TuningError(f"{where}: needs a list of at least one value, at most {MOST_VALUES}")
    for value in values:
        is_number = isinstance(value, (int, float)) and abs(value) <= LARGEST
        if not is_number and not (isinstance(value, str) and is_word(value)):
            shown = repr(value)[:60] if not isinstance(value, int) else "a number beyond 2**53"
            raise TuningError(f"{where}: {shown} is neither a number, a word nor a boolean")
    if len(set(values)) < len(values):
        raise TuningError(f"{where} contains a value twice")
    return tuple(values)


# ---------------------------------------------------------------------------- values as Python text


def listed(text: str) -> list[Any]:
    """Return the values of a text such as ``[1, 2] + list(range(32, 1025, 32))``.

    Allowed are lists and tuples, ``range``, ``list`` of these, one comprehension over them without
    a condition (``[2**i for i in range(6)]``), sums of these, arithmetic, strings and booleans.

    Raises
    ------
    ValueError
        The text is anything else, too long, or too expensive to evaluate.
    """
    if len(text) > LONGEST:
        raise ValueError("too long")
    try:
        value = _Reader().value(ast.parse(text.strip(), mode="eval").body, {})
    except (SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None
    return _list(value)


class _Reader:
    def __init__(self) -> None:
        self.n_steps = 0

    def value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """Return the value of an expression, with the variables in ``names``."""
        self.n_steps += 1
        if self.n_steps > MOST_STEPS:
            raise ValueError("too much work")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return [self.value(member, names) for member in members]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self.value(operand, names))
            case ast.BinOp(left=left, op=kind, right=right):
                return _combined(self.value(left, names), kind, self.value(right, names))
            case ast.Call(func=ast.Name(id="range"), args=[_, *_] as bounds, keywords=[]):
                return _range([self.value(bound, names) for bound in bounds])
            case ast.Call(func=ast.Name(id="list"), args=[part], keywords=[]):
                return _list(self.value(part, names))
            case ast.ListComp(elt=element, generators=[
                ast.comprehension(target=ast.Name(id=name), iter=over, ifs=[], is_async=0)
            ]):  # fmt: skip
                values = _list(self.value(over, names))
                return [_number(self.value(element, {**names, name: v})) for v in values]
        raise ValueError("neither a list nor a number")


def _combined(left: Any, kind: ast.operator, right: Any) -> Any:
    """Return the sum of two lists, or the result of arithmetic on two numbers."""
    if isinstance(left, list) or isinstance(right, list):
        if not isinstance(kind, ast.Add):
            raise ValueError("lists can only be added")
        return _list(_list(left) + _list(right))
    a, b = _number(left), _number(right)
    if isinstance(kind, ast.Pow) and (abs(a) > 2**16 or abs(b) > 53):
        raise ValueError("too large")
    if type(kind) not in _OPERATORS:
        raise ValueError("an unknown operator")
    return _number(_OPERATORS[type(kind)](a, b))


def _range(bounds: list[Any]) -> list[int]:
    if len(bounds) > 3 or not all(type(bound) is int for bound in bounds):
        raise ValueError("range takes one to three whole numbers")
    return _list(range(*bounds))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | range) or len(value) > MOST_VALUES:
        raise ValueError("no list, or too long")
    return list(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > LARGEST:
        raise ValueError("no number, or too large")
    return value

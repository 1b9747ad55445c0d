"""The T1 format: a search space with its parameters, conditions and kernel specification.

https://github.com/odgaard/TuningSchema describes it. Conditions are Python expressions; they are
read as :class:`sweep.expressions.Expression`, which computes and does nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.expressions import Expression, ExpressionError, check_total
from sweep.importers.tuners.measurements import Array, Value
from sweep.importers.tuners.reading import Source
from sweep.importers.tuners.values import listed

__all__ = ["SearchSpace", "read_t1"]

Specification = Mapping[str, Any]


@dataclass(frozen=True)
class SearchSpace:
    """What a tuner may choose from.

    Attributes
    ----------
    name : str
        The benchmark's name.
    parameters : mapping of str to tuple
        Tuning parameters and their values.
    conditions : tuple of Expression
        What a valid configuration satisfies.
    specification : mapping
        The kernel specification, as the file has it.
    """

    name: str
    parameters: Mapping[str, tuple[Value, ...]]
    conditions: tuple[Expression, ...]
    specification: Specification

    @property
    def cartesian(self) -> int:
        """Configurations without regard to conditions."""
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
        length = len(next(iter(columns.values())))
        holds = np.ones(length, bool)
        for condition in self.conditions:
            value, fault = condition.evaluate({n: columns[n] for n in condition.names})
            holds &= (np.asarray(value) != 0) & ~np.asarray(fault)
        return holds


def read_t1(source: Source) -> SearchSpace:
    """Return the search space of a T1 file.

    Raises
    ------
    TuningError
        Something is missing or wrong; the message names the entry.
    """
    document = source.document
    space = _table(source, document, "ConfigurationSpace")
    parameters: dict[str, tuple[Value, ...]] = {}
    for number, entry in enumerate(_list(source, space, "TuningParameters")):
        where = f"TuningParameters[{number}]"
        name = entry.get("Name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name.isidentifier():
            raise source.error(f"{where}.Name = {name!r}: needs a name of letters, digits and _")
        if name in parameters:
            raise source.error(f"{where}.Name: '{name}' stands twice")
        parameters[name] = _values(source, f"{where}.Values", entry.get("Values"))
    if not parameters:
        raise source.error("ConfigurationSpace.TuningParameters is empty")
    given = _list(source, {"Conditions": [], **space}, "Conditions")
    try:
        check_total(str(entry) for entry in given)
    except ExpressionError as error:
        raise source.error(f"Conditions: {error}") from None
    conditions = tuple(
        _condition(source, f"Conditions[{number}]", entry, parameters)
        for number, entry in enumerate(given)
    )
    specification = document.get("KernelSpecification") or {}
    general = document.get("General") or {}
    if not isinstance(specification, Mapping) or not isinstance(general, Mapping):
        raise source.error("General and KernelSpecification must be objects")
    name = str(general.get("BenchmarkName") or source.name)
    return SearchSpace(name, parameters, conditions, specification)


def _table(source: Source, document: Any, key: str) -> Mapping[str, Any]:
    value = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(value, Mapping):
        raise source.error(f"{key} is missing or no object: this is no T1 file")
    return value


def _list(source: Source, table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key)
    if not isinstance(value, list):
        raise source.error(f"ConfigurationSpace.{key} must be a list")
    return value


def _values(source: Source, where: str, given: Any) -> tuple[Value, ...]:
    """Return a parameter's values: a list, or the text of one."""
    if isinstance(given, str):
        try:
            given = listed(given)
        except ValueError:
            raise source.error(
                f"{where} = {given[:60]!r}: needs a list of numbers, words, or True and False"
            ) from None
    if not isinstance(given, (list, tuple)) or not given:
        raise source.error(f"{where}: needs a list of at least one value")
    for value in given:
        finite = isinstance(value, str) or (
            isinstance(value, (bool, int, float)) and math.isfinite(value)
        )
        if not finite:
            raise source.error(f"{where}: {value!r} is neither a number, a word nor a boolean")
    if len(set(given)) < len(given):
        raise source.error(f"{where} holds a value twice")
    return tuple(given)


def _condition(source: Source, where: str, entry: Any, parameters: Mapping[str, Any]) -> Expression:
    """Return a condition; only arithmetic over the parameters is read."""
    text = entry.get("Expression") if isinstance(entry, Mapping) else entry
    if not isinstance(text, str):
        raise source.error(f"{where}.Expression must be a text")
    try:
        return Expression.parse(" ".join(text.split()), allowed=parameters)
    except ExpressionError as error:
        raise source.error(f"{where}: {error}") from None

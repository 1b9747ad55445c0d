"""The valid configurations of a constrained space, listed without walking the whole product.

Parameters are bound one after the other, for many partial configurations at once. A condition over
few parameters becomes a table of truth values once; every table, projected on what is bound so far,
strikes out partial configurations that no choice of the others completes. A condition whose table
would be too large is evaluated where all its names are bound, and bounded by interval arithmetic
before. Partial configurations are extended depth first, in blocks, so that memory is that of the
result. Parameters are bound in the order that prunes best; the result is in the order of the
product all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.errors import PlanError
from sweep.expressions import Bounds, Expression
from sweep.space.axes import Values
from sweep.space.conditions import Array, Condition, Names

__all__ = ["Configurations", "valid_configurations", "violated"]

BLOCK = 1 << 18
"""Partial configurations that are extended together."""

MOST = 100_000_000
"""Most valid configurations that are listed."""

FUTILE = 500_000_000
"""Partial configurations after which a listing is given up if it found next to nothing."""


@dataclass(frozen=True)
class Configurations:
    """A list of configurations, in lexicographic order of their parameters' values.

    Attributes
    ----------
    axes : mapping of str to tuple
        The values of each parameter.
    indices : mapping of str to array
        For each parameter, the place of every configuration's value among its values.
    """

    axes: Mapping[str, Values]
    indices: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.indices.values()), ()))

    @property
    def cartesian(self) -> int:
        """Configurations without regard to conditions."""
        return math.prod(len(values) for values in self.axes.values())

    def column(self, name: str, part: slice = slice(None)) -> Array:
        """Return the values of a parameter, one per configuration, or of a part of them."""
        return np.asarray(np.asarray(self.axes[name])[self.indices[name][part]])

    def taken(self, numbers: Sequence[int]) -> Configurations:
        """Return some of the configurations."""
        chosen = np.asarray(numbers, np.int64)
        return Configurations(self.axes, {n: i[chosen] for n, i in self.indices.items()})

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return one configuration."""
        return {name: self.axes[name][int(self.indices[name][number])] for name in self.axes}


def valid_configurations(
    axes: Mapping[str, Values],
    conditions: Iterable[Expression],
    *,
    fixed: Mapping[str, Any] | None = None,
    derived: Mapping[str, Expression] | None = None,
) -> Configurations:
    """Return all configurations that satisfy all conditions.

    Parameters
    ----------
    axes : mapping of str to tuple
        Each parameter's values.
    conditions : iterable of Expression
        Over parameters, fixed and derived names. A condition that cannot be evaluated (a division
        by zero) does not hold.
    fixed : mapping, optional
        Names with one value.
    derived : mapping of str to Expression, optional
        Named sub-expressions, each after those that it uses.

    Returns
    -------
    Configurations
        In the order of the product: the last parameter varies fastest.

    Raises
    ------
    ExpressionError
        A condition has an unknown name, or calculates with words.
    PlanError
        There are more than 100 million.
    """
    names = Names(axes, fixed or {}, derived or {})
    parts = []
    for condition in conditions:
        names.check(condition)
        parts += [Condition(part, names) for part in condition.conjuncts()]
    if any(not part.names and not part.holds(names, {}).all() for part in parts):
        return Configurations(axes, {name: np.zeros(0, np.uint8) for name in axes})
    found: list[dict[str, Array]] = []
    for group in _connected([part for part in parts if part.names]):
        found.append(_solve(group, names))
        if not len(next(iter(found[-1].values()))):
            return Configurations(axes, {name: np.zeros(0, np.uint8) for name in axes})
    bound = {name for group in found for name in group}
    found += [{n: np.arange(len(v), dtype=_index_type(v))} for n, v in axes.items()
              if n not in bound]  # fmt: skip
    return Configurations(axes, _product(found, axes))


def violated(
    configuration: Mapping[str, Any],
    conditions: Iterable[Expression],
    *,
    derived: Mapping[str, Expression] | None = None,
) -> tuple[Expression, ...]:
    """Return the conditions that a configuration does not satisfy: why it was left out.

    Parameters
    ----------
    configuration : mapping
        A value for every name that a condition reads.
    conditions : iterable of Expression
        The conditions of the space.
    derived : mapping of str to Expression, optional
        As for :func:`valid_configurations`.
    """
    values: dict[str, Any] = dict(configuration)
    faults: dict[str, Any] = {}
    for name, expression in (derived or {}).items():
        if expression.names <= values.keys():
            values[name], faults[name] = expression.evaluate(values, faults)
    found = []
    for condition in conditions:
        value, fault = condition.evaluate(values, faults)
        if bool(fault) or not bool(value):
            found.append(condition)
    return tuple(found)


def _connected(conditions: Sequence[Condition]) -> list[list[Condition]]:
    """Return groups of conditions that share no parameter with another group."""
    groups: list[tuple[set[str], list[Condition]]] = []
    for condition in conditions:
        joined = [group for group in groups if group[0] & set(condition.names)]
        groups = [group for group in groups if not group[0] & set(condition.names)]
        names = set(condition.names).union(*(group[0] for group in joined))
        groups.append((names, [*(c for group in joined for c in group[1]), condition]))
    return [group[1] for group in groups]


def _order(conditions: Sequence[Condition], names: Names) -> list[str]:
    """Return the parameters in the order in which they are bound.

    Next is always what completes the condition that leaves the fewest candidates.
    """
    bound: list[str] = []
    waiting = list(conditions)
    while waiting:

        def growth(condition: Condition, held: Sequence[str] = tuple(bound)) -> float:
            left = math.prod(len(names.axes[n]) for n in condition.names if n not in held)
            share = 0.5 if condition.table is None else float(condition.table.mean())
            return left * share

        best = min(waiting, key=growth)
        bound += [name for name in best.names if name not in bound]
        waiting = [c for c in waiting if not set(c.names) <= set(bound)]
    return bound


@dataclass
class _Lookup:
    """A truth table over some bound parameters (rows) and the one being bound (columns)."""

    rows: tuple[str, ...]
    lengths: tuple[int, ...]
    table: Array


class _Step:
    """What is tested when one parameter is bound."""

    def __init__(
        self, bound: Sequence[str], name: str, conditions: Sequence[Condition], names: Names
    ) -> None:
        self.name, self.names = name, names
        self.type = _index_type(names.axes[name])
        known = {*bound, name}
        self.lookups: list[_Lookup] = []
        self.complete: list[Condition] = []
        self.partial: list[Condition] = []
        for condition in conditions:
            if name not in condition.names:
                continue
            if condition.table is not None:
                self._look_up(condition, known)
            elif set(condition.names) <= known:
                self.complete.append(condition)
            else:
                self.partial.append(condition)

    def _look_up(self, condition: Condition, known: set[str]) -> None:
        """Project a table on what is known and keep it if it strikes anything out."""
        assert condition.table is not None
        away = tuple(i for i, n in enumerate(condition.names) if n not in known)
        projected = np.asarray(condition.table.any(axis=away, keepdims=True))
        table = np.moveaxis(projected, condition.names.index(self.name), -1)
        if table.all():
            return
        rows = tuple(n for n in condition.names if n in known and n != self.name)
        lengths = tuple(len(self.names.axes[n]) for n in rows)
        flat = np.ascontiguousarray(table.reshape(math.prod(lengths), -1))
        for other in self.lookups:
            if other.rows == rows:
                other.table = other.table & flat
                return
        self.lookups.append(_Lookup(rows, lengths, flat))

    def extend(self, columns: Mapping[str, Array], n_rows: int) -> tuple[dict[str, Array], int]:
        """Return the extensions of partial configurations that may still become valid."""
        length = len(self.names.axes[self.name])
        mask: Array | None = None
        for lookup in self.lookups:
            place = np.zeros(n_rows, np.intp)
            for row, extent in zip(lookup.rows, lookup.lengths, strict=True):
                place *= extent
                place += columns[row]
            part = lookup.table[place]
            mask = part if mask is None else np.logical_and(mask, part, out=mask)
        if mask is None:
            found = np.arange(n_rows * length)
        else:
            found = np.flatnonzero(mask)
        rows, chosen = np.divmod(found, length)
        extended = {name: column[rows] for name, column in columns.items()}
        extended[self.name] = chosen.astype(self.type)
        for condition in self.complete:
            kept = condition.holds(self.names, self._values(condition, extended))
            extended = _kept(extended, kept)
        for condition in list(self.partial):
            extended = self._bounded(condition, extended)
        return extended, len(extended[self.name])

    def _values(self, condition: Condition, columns: Mapping[str, Array]) -> dict[str, Array]:
        return {n: self.names.values[n][columns[n]] for n in condition.names if n in columns}

    def _bounded(self, condition: Condition, columns: dict[str, Array]) -> dict[str, Array]:
        """Strike out what cannot become valid any more, whatever is chosen for the rest."""
        known: dict[str, Bounds] = {}
        for name, values in self._values(condition, columns).items():
            if values.dtype.kind in "biuf":
                numbers = values.astype(np.float64)
                known[name] = Bounds(numbers, numbers)
        for name in condition.names:
            values = self.names.values[name]
            if name not in columns and values.dtype.kind in "biuf":
                ends = (np.float64(values.min()), np.float64(values.max()))
                known[name] = Bounds(*ends)
        possible = np.broadcast_to(
            self.names.bounds(condition.expression, known).can_hold, columns[self.name].shape
        )
        if possible.all():
            if len(possible) > 1000:
                self.partial.remove(condition)  # it tells nothing yet: not worth its time
            return columns
        return _kept(columns, possible)


def _kept(columns: Mapping[str, Array], mask: Array) -> dict[str, Array]:
    shape = next(iter(columns.values())).shape
    places = np.flatnonzero(np.broadcast_to(mask, shape))
    return {name: column[places] for name, column in columns.items()}


def _solve(conditions: Sequence[Condition], names: Names) -> dict[str, Array]:
    """Return the valid combinations of the parameters of connected conditions."""
    order = _order(conditions, names)
    steps = [_Step(order[:i], name, conditions, names) for i, name in enumerate(order)]
    found: list[dict[str, Array]] = []
    n_found = n_tried = 0
    waiting: list[tuple[int, dict[str, Array], int]] = [(0, {}, 1)]
    while waiting:
        depth, columns, n_rows = waiting.pop()
        if depth == len(steps):
            found.append(columns)
            n_found += n_rows
            _check_number(n_found)
            continue
        most = max(1, BLOCK // len(names.axes[order[depth]]))
        if n_rows > most:
            waiting.append((depth, {n: c[most:] for n, c in columns.items()}, n_rows - most))
            columns, n_rows = {n: c[:most] for n, c in columns.items()}, most
        n_tried += n_rows * len(names.axes[order[depth]])
        if n_tried > FUTILE and n_tried > 1000 * n_found:
            raise PlanError(
                f"{n_tried:,} partial configurations were tried for {n_found:,} valid ones: write"
                " the conditions over fewer parameters each, or fix parameters"
            )
        extended, n_left = steps[depth].extend(columns, n_rows)
        if n_left:
            waiting.append((depth + 1, extended, n_left))
    types = {name: _index_type(names.axes[name]) for name in order}
    return {
        name: np.concatenate([part[name] for part in found]) if found else np.zeros(0, types[name])
        for name in order
    }


def _check_number(found: int) -> None:
    if found > MOST:
        raise PlanError(
            f"there are more than {MOST:,} valid configurations: add conditions, or fix parameters"
        )


def _product(groups: Sequence[Mapping[str, Array]], axes: Mapping[str, Values]) -> dict[str, Array]:
    """Return every combination of the groups' rows, in lexicographic order."""
    lengths = [len(next(iter(group.values()))) for group in groups]
    _check_number(math.prod(lengths))
    columns: dict[str, Array] = {}
    for i, group in enumerate(groups):
        inner, outer = math.prod(lengths[i + 1 :]), math.prod(lengths[:i])
        for name, column in group.items():
            columns[name] = np.tile(np.repeat(column, inner), outer)
    ordered = {name: columns[name] for name in axes}
    keys = _keys(ordered, axes)
    if len(keys) == 1 and np.all(keys[0][1:] > keys[0][:-1]):
        return ordered
    order = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
    return {name: column[order] for name, column in ordered.items()}


def _keys(columns: Mapping[str, Array], axes: Mapping[str, Values]) -> list[Array]:
    """Return numbers that order rows lexicographically: as few as hold the places of all."""
    keys: list[Array] = []
    room = 0
    for name, column in columns.items():
        length = len(axes[name])
        if not keys or room * length >= 1 << 63:
            keys.append(column.astype(np.int64))
            room = length
        else:
            keys[-1] = keys[-1] * length + column
            room *= length
    return keys


def _index_type(values: Values) -> npt.DTypeLike:
    return np.min_scalar_type(max(len(values) - 1, 0))

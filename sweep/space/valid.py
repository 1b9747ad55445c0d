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
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.errors import PlanError
from sweep.expressions import Bounds, Expression
from sweep.fields import Array
from sweep.space.grid import Configurations, Values

TABLE = 1 << 20
"""Most truth values of a condition's table."""

BLOCK = 1 << 18
"""Partial configurations that are extended together."""

MOST = 100_000_000
"""Most valid configurations that are listed."""

FUTILE = 500_000_000
"""Partial configurations after which a listing is given up if it found next to nothing."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Names:
    """Every name that conditions may use, and the parameters that it depends on.

    Parameters
    ----------
    axes : mapping of str to tuple
        Each parameter's values.
    fixed : mapping
        Names with one value.
    derived : mapping of str to Expression
        Named sub-expressions, each after those that it uses. Those that need any other name are
        ignored.
    """

    def __init__(
        self,
        axes: Mapping[str, Values],
        fixed: Mapping[str, Any],
        derived: Mapping[str, Expression],
    ) -> None:
        self.axes, self.fixed, self.derived = axes, fixed, derived
        self.values = {name: np.asarray(values) for name, values in axes.items()}
        self.parameters = {name: frozenset({name}) for name in axes}
        self.parameters.update(dict.fromkeys(fixed, frozenset()))
        for name, expression in derived.items():
            if self.knows(expression):
                self.parameters[name] = self.parameters_of(expression)

    def knows(self, expression: Expression) -> bool:
        """Whether an expression reads no other names than these."""
        return expression.names <= self.parameters.keys()

    def parameters_of(self, expression: Expression) -> frozenset[str]:
        """Return the parameters that an expression depends on."""
        return frozenset().union(*(self.parameters[name] for name in expression.names))

    def holds(self, condition: Expression, values: Mapping[str, Any]) -> Array:
        """Return where a condition holds for values of parameters; a fault is not true."""
        known: dict[str, Any] = {**self.fixed, **values}
        faults: dict[str, Any] = {}
        for name, expression in self._needed(condition).items():
            known[name], faults[name] = expression.evaluate(known, faults)
        value, fault = condition.evaluate(known, faults)
        return np.asarray((np.asarray(value) != 0) & ~np.asarray(fault))

    def bounds(self, condition: Expression, values: Mapping[str, Bounds]) -> Bounds:
        """Return the bounds of a condition where parameters are known within bounds."""
        known = {name: Bounds(v, v) for name, v in self.fixed.items() if not isinstance(v, str)}
        known.update(values)
        for name, expression in self._needed(condition).items():
            known[name] = expression.bounds(known)
        return condition.bounds(known)

    def _needed(self, condition: Expression) -> dict[str, Expression]:
        wanted = set(condition.names)
        for name in reversed(tuple(self.derived)):
            if name in wanted:
                wanted |= self.derived[name].names
        return {n: e for n, e in self.derived.items() if n in wanted and n in self.parameters}


class Condition:
    """One condition: its parameters, and its truth table if that is small.

    Parameters
    ----------
    expression : Expression
        What must hold.
    names : Names
        What it may read.
    """

    def __init__(self, expression: Expression, names: Names) -> None:
        self.expression = expression
        # In the order of the axes, so that conditions over the same names can share a table.
        parameters = names.parameters_of(expression)
        self.names = tuple(name for name in names.axes if name in parameters)
        shape = tuple(len(names.axes[name]) for name in self.names)
        self.table: Array | None = None
        if self.names and math.prod(shape) <= TABLE:
            columns = (names.values[name] for name in self.names)
            grids = np.meshgrid(*columns, indexing="ij", sparse=True)
            held = names.holds(expression, dict(zip(self.names, grids, strict=True)))
            self.table = np.ascontiguousarray(np.broadcast_to(held, shape))


# ---------------------------------------------------------------------------- listing


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
    first = {name: values[:1] for name, values in names.values.items()}
    parts = []
    for condition in conditions:
        names.holds(condition, first)  # so that an error quotes the whole condition
        parts += [Condition(part, names) for part in condition.conjuncts()]
    nothing = Configurations(axes, dict.fromkeys(axes, np.zeros(0, np.uint8)))
    if any(not part.names and not names.holds(part.expression, {}) for part in parts):
        return nothing
    found: list[dict[str, Array]] = []
    for group in _connected([part for part in parts if part.names]):
        found.append(_solve(group, names))
        if not len(next(iter(found[-1].values()))):
            return nothing
    bound = {name for group in found for name in group}
    found += [{n: np.arange(len(v), dtype=_index_type(v))} for n, v in axes.items()
              if n not in bound]  # fmt: skip
    return Configurations(axes, _product(found, axes))


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

    Next are always the parameters that complete the condition with the fewest candidates.
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


class _Step:
    """What is tested when one parameter is bound.

    ``tables`` are truth tables by the bound parameters that they read (rows); their columns are the
    values of the parameter. ``others`` are conditions without a table.
    """

    def __init__(
        self, bound: Sequence[str], name: str, conditions: Sequence[Condition], names: Names
    ) -> None:
        self.name, self.names = name, names
        self.type = _index_type(names.axes[name])
        self.tables: dict[tuple[str, ...], Array] = {}
        own = [condition for condition in conditions if name in condition.names]
        self.others = [condition for condition in own if condition.table is None]
        for condition in own:
            if condition.table is not None:
                self._add_table(condition.table, condition.names, {*bound, name})

    def _add_table(self, table: Array, names: tuple[str, ...], known: set[str]) -> None:
        """Project a table on the known parameters and keep it if it excludes anything."""
        away = tuple(i for i, n in enumerate(names) if n not in known)
        projected = np.asarray(table.any(axis=away, keepdims=True))
        if projected.all():
            return
        projected = np.moveaxis(projected, names.index(self.name), -1)
        flat = np.ascontiguousarray(projected.reshape(-1, projected.shape[-1]))
        rows = tuple(n for n in names if n in known and n != self.name)
        self.tables[rows] = self.tables[rows] & flat if rows in self.tables else flat

    def extend(self, columns: Mapping[str, Array], n_rows: int) -> tuple[dict[str, Array], int]:
        """Return the extensions of partial configurations that may still become valid."""
        length = len(self.names.axes[self.name])
        mask: Array | None = None
        for names, table in self.tables.items():
            row = np.zeros(n_rows, np.intp)
            for name in names:
                row *= len(self.names.axes[name])
                row += columns[name]
            part = table[row]
            mask = part if mask is None else np.logical_and(mask, part, out=mask)
        found = np.arange(n_rows * length) if mask is None else np.flatnonzero(mask)
        rows, chosen = np.divmod(found, length)
        extended = {name: column[rows] for name, column in columns.items()}
        extended[self.name] = chosen.astype(self.type)
        for condition in tuple(self.others):
            is_complete = extended.keys() >= set(condition.names)
            test = self._hold if is_complete else self._can_hold
            kept = np.flatnonzero(np.broadcast_to(test(condition, extended), len(chosen)))
            if len(kept) < len(chosen):
                extended = {name: column[kept] for name, column in extended.items()}
                chosen = chosen[kept]
            elif not is_complete and len(kept) > 1000:
                self.others.remove(condition)  # it excludes nothing yet: not worth its time
        return extended, len(chosen)

    def _hold(self, condition: Condition, columns: Mapping[str, Array]) -> Array:
        values = {name: self.names.values[name][columns[name]] for name in condition.names}
        return self.names.holds(condition.expression, values)

    def _can_hold(self, condition: Condition, columns: Mapping[str, Array]) -> Array:
        """Return where a condition can still hold, whatever is chosen for the rest."""
        known: dict[str, Bounds] = {}
        for name in condition.names:
            values = self.names.values[name]
            if values.dtype.kind not in "biuf":
                continue
            values = values.astype(np.float64)
            if name in columns:
                known[name] = Bounds(values[columns[name]], values[columns[name]])
            else:
                known[name] = Bounds(values.min(), values.max())
        return np.asarray(self.names.bounds(condition.expression, known).can_hold)


def _solve(conditions: Sequence[Condition], names: Names) -> dict[str, Array]:
    """Return the valid combinations of the parameters of connected conditions."""
    order = _order(conditions, names)
    steps = [_Step(order[:i], name, conditions, names) for i, name in enumerate(order)]
    found = [{name: np.zeros(0, _index_type(names.axes[name])) for name in order}]
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
    return {name: np.concatenate([part[name] for part in found]) for name in order}


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
    shape = tuple(len(values) for values in axes.values())
    ordered = {name: columns[name] for name in axes}
    if math.prod(shape) >= 1 << 63:
        order = np.lexsort(tuple(ordered.values())[::-1])
    else:
        numbers = np.zeros(math.prod(lengths), np.int64)
        for name, column in ordered.items():
            numbers *= len(axes[name])
            numbers += column
        if np.all(numbers[1:] > numbers[:-1]):
            return ordered
        order = np.argsort(numbers)
    return {name: column[order] for name, column in ordered.items()}


def _index_type(values: Values) -> npt.DTypeLike:
    return np.min_scalar_type(max(len(values) - 1, 0))


def spread(points: int, most: int) -> list[int]:
    """Return at most so many of the numbers below ``points``, spread over all of them."""
    step = max(1, int(points * GOLDEN))
    while math.gcd(step, points) > 1:  # so that no point comes twice
        step += 1
    return [i * step % points for i in range(min(most, points))]

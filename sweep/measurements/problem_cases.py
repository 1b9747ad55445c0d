"""Rows of a table of many problems by device: what each belongs to, for a kernel's plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known, counted
from sweep.evaluation.problems import distinct_rows, narrowed, selected_values
from sweep.expressions import Expression, ExpressionError
from sweep.fields import Array
from sweep.importers.tuners.problem_table import ProblemTable
from sweep.measurements.by_problem import quantile_groups
from sweep.measurements.importing import device_keys
from sweep.space import KernelSpace, Space
from sweep.specs import Kernel


@dataclass(frozen=True)
class Case:
    """Rows of one device, and what each belongs to.

    Attributes
    ----------
    table : ProblemTable
        The rows.
    kernel, device
        What they are about.
    sizes, parameters : mapping of str to array
        By the kernel's names a number for each row.
    problem : array of int
        The number of each row's problem.
    first : array of int
        A row of each problem.
    groups : mapping of str to array, or None
        Masks of the groups' problems by label, in the order of their values.
    fixed : mapping of str to number
        The sizes that the table lacks.
    left_out : mapping of str to int
        What is wrong with rows that do not count, and with how many.
    """

    table: ProblemTable
    kernel: Kernel
    device: str
    sizes: Mapping[str, Array]
    parameters: Mapping[str, Array]
    problem: Array
    first: Array
    groups: Mapping[str, Array] | None
    fixed: Mapping[str, float]
    left_out: Mapping[str, int]

    def of_problems(self) -> dict[str, Array]:
        """Return the sizes of each problem."""
        return {name: column[self.first] for name, column in self.sizes.items()}


def cases_of(
    space: Space,
    table: ProblemTable,
    by: Sequence[str],
    by_group: str,
    most: int | None,
    select: Mapping[str, Any],
) -> Iterator[Case]:
    """Yield the rows of each device.

    Parameters
    ----------
    space : Space
        The kernels and devices that are predicted.
    table, by, by_group, most, select
        As for :func:`sweep.measurements.problem_validation.validate_problems`.

    Raises
    ------
    QueryError
        The table lacks the kernel's sizes, or names something unknown.
    """
    keys = [one.kernel.key for one in space.kernels]
    wanted = select.get("kernel", keys[0] if len(keys) == 1 else None)
    if wanted not in keys:
        raise QueryError(f"a table is about one kernel: select kernel=NAME, of {', '.join(keys)}")
    kernel = space[wanted].kernel
    _check_sizes(space[wanted], table, select)
    for device, rows in _by_device(space, table, select):
        part = table.taken(rows)
        usable = _usable(part, kernel)
        own = {**select, "kernel": wanted, "device": device, "model": space.plan.models[0]}
        fixed = narrowed(space, tuple(part.of_kernel(kernel.sizes)), own)[0].fixed
        inside = _selected(table, kernel, select)[rows][usable]
        if not inside.any():  # of this device
            continue
        part = part.taken(usable).taken(inside)
        first, problem = _problems(part, kernel, by)
        if most is not None and most < len(first):
            part = part.taken(np.isin(problem, np.linspace(0, len(first) - 1, most).round()))
            first, problem = _problems(part, kernel, by)
        sizes, parameters = part.of_kernel(kernel.sizes), _parameters(part, kernel)
        groups = _groups(part.taken(first), sizes, first, by_group) if by_group else None
        left_out = {
            "whose size is not above 0": int(np.count_nonzero(~usable)),
            "whose time is not above 0": table.failed,
            "outside the selection": int(np.count_nonzero(~inside)),
        }
        yield Case(part, kernel, device, sizes, parameters, problem, first, groups, fixed, left_out)


def _check_sizes(space: KernelSpace, table: ProblemTable, select: Mapping[str, Any]) -> None:
    """Refuse a table without problem sizes, or without one that the plan varies."""
    sizes = space.kernel.sizes
    known = table.of_kernel(sizes)
    if not known:
        raise QueryError(
            f"{table.name}: no column is a problem size of kernel '{space.kernel.key}'"
            f" ({', '.join(sizes)}): --map SIZE=COLUMN (columns: {', '.join(table.columns)})"
        )
    for axis in (axis for dimension in space.grid.dimensions[1:] for axis in dimension.axes):
        name = axis.name
        if name in sizes and len(axis.values) > 1 and name not in {**known, **select}:
            raise QueryError(f"{table.name}: no column {name}: --map {name}=COLUMN or {name}=VALUE")


def _problems(part: ProblemTable, kernel: Kernel, by: Sequence[str]) -> tuple[Array, Array]:
    """Return a row of each problem, and the number of each row's problem."""
    sizes = part.of_kernel(kernel.sizes)
    others = [name for name in by if name not in sizes]
    for name in others:
        check_known(name, part.columns, f"{part.name}: there is no column '{name}'", "columns:")
    return distinct_rows(sizes | {name: part.columns[name] for name in others})


def _selected(part: ProblemTable, kernel: Kernel, select: Mapping[str, Any]) -> Array:
    """Return which rows of a table have the selected sizes and parameters."""
    kept = np.ones(len(part.time), bool)
    columns, of = part.of_kernel(kernel.sizes), f"the table '{part.name}'"
    for name, column in (columns | _parameters(part, kernel)).items():
        if select.get(name) is not None:
            values = np.unique(column[kept]).tolist()
            kept &= np.isin(column, selected_values(name, values, select[name], of=of))
    return kept


def _usable(part: ProblemTable, kernel: Kernel) -> Array:
    """Return which rows have problem sizes above 0."""
    good = np.ones(len(part.time), bool)
    for name, column in part.of_kernel(kernel.sizes).items():
        own = (column.dtype.kind != "U") and (column > 0) & (column < np.inf)
        if not np.any(own):
            raise QueryError(
                f"{part.name}: size '{name}' = {column[0]}: a problem size is a number above 0"
            )
        good &= own
    return good


def _parameters(part: ProblemTable, kernel: Kernel) -> dict[str, Array]:
    """Return the columns of parameters, with values like those of the kernel file."""
    found = part.of_kernel(kernel.parameters)
    for name, column in found.items():
        known = kernel.parameters[name][0]
        if isinstance(known, bool) and column.dtype.kind == "U":
            words = np.char.lower(column)
            if np.isin(words, ("true", "false")).all():
                found[name] = column = words == "true"
        is_text = column.dtype.kind == "U"
        if is_text is not isinstance(known, str) or (
            column.dtype.kind == "f" and not np.isfinite(column).all()
        ):
            raise QueryError(
                f"{part.name}: parameter '{name}' = {column[0]}: the kernel file has values like"
                f" {known!r}"
            )
    return found


def _by_device(
    space: Space, table: ProblemTable, select: Mapping[str, Any]
) -> Iterator[tuple[str, Array]]:
    """Yield devices that were measured and predicted, and which rows are theirs."""
    known = [device.key for device in space.devices]
    chosen = select.get("device")
    if table.device is None:
        if chosen is None and len(known) > 1:
            raise QueryError(
                f"{table.name} does not name the device: --device, one of {', '.join(known)}"
            )
        yield str(chosen or known[0]), np.ones(len(table.time), bool)
        return
    names = device_keys(table.device)
    common = [(name, key) for name, key in names.items() if key in known and chosen in (None, key)]
    if not common:
        raise QueryError(
            f"no device was both predicted ({', '.join(known)}) and measured"
            f" ({', '.join(names.values())})"
        )
    for name, key in common:
        yield key, table.device == name


def _groups(
    table: ProblemTable, sizes: Mapping[str, Array], first: Array, text: str
) -> dict[str, Array]:
    """Return masks of the groups' problems by label, in the order of the expression's values."""
    expression, colon, count = text.rpartition(":")
    if not colon:
        expression = text
    values = dict(table.columns) | {name: column[first] for name, column in sizes.items()}
    try:
        found, fault = Expression.parse(expression, allowed=set(values)).evaluate(values)
    except ExpressionError as error:
        raise QueryError(f"--by-group: {error}") from None
    found = np.broadcast_to(found, (len(first),))
    if fault.any():
        few = counted(int(fault.sum()), "problem")
        raise QueryError(f"--by-group: `{expression}` has no value for {few}")
    masks: dict[str, Array] = {}
    if not colon:
        for kind in np.unique(found):
            label = f"{kind:g}" if kind.dtype.kind == "f" else str(kind)
            masks[label] = masks.get(label, False) | (found == kind)  # values may look alike
        return masks
    if not count.strip().isdigit() or not 1 < int(count) <= 100 or found.dtype.kind == "U":
        raise QueryError(
            f"--by-group '{text}': write EXPRESSION, or a number's EXPRESSION:2 to 100"
        )
    numbers = quantile_groups(found, int(count))
    for number in np.unique(numbers):
        inside = numbers == number
        ends = (f"{end:.2g}" for end in (found[inside].min(), found[inside].max()))
        label = re.sub(r"e\+0?", "e", " to ".join(ends))
        masks[label] = masks.get(label, False) | inside  # ends may look alike
    return masks

"""A question asked of all kernels that it fits, with the groups that kernels may share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known, nearest
from sweep.expressions import Expression
from sweep.fields import STACKED, Array
from sweep.query.filters import (
    Condition,
    Selection,
    as_written,
    dim_of,
    select_grid,
    select_kernels,
    those_that_fit,
)
from sweep.query.grid import POWER_VARIABLES, AbsentError, Grid, grids_of
from sweep.query.texts import LeftOut
from sweep.reduction import Keep, Reduction

SENSES = {"min": 1, "max": -1}
MAX_ROWS = 1_000_000
DEFAULT_BY = ("kernel", "device", "model")


@dataclass(frozen=True, eq=False)
class KernelPart:
    """The part of a question that concerns one kernel.

    Attributes
    ----------
    grid : Grid
        The kernel's results.
    objectives : tuple of str
        Full names of variables.
    signs : tuple of int
        For each, 1 to minimise it and -1 to maximise it.
    by : tuple of str
        Dimensions, and parameters of a list, that form groups: ``problem`` for the sizes that a
        list of problems gives. Groups with the same sizes are one group of the question.
    selection : Selection
        The selected configurations.
    condition : Condition, optional
        Which of them count.
    uses_power : bool
        Whether the question is about power or energy.
    """

    grid: Grid
    objectives: tuple[str, ...]
    signs: tuple[int, ...]
    by: tuple[str, ...]
    selection: Selection
    condition: Condition | None
    uses_power: bool

    @classmethod
    def of(
        cls,
        grid: Grid,
        objectives: Sequence[str],
        senses: Sequence[str],
        by: Sequence[str],
        select: Mapping[str, Any],
        where: Expression | None = None,
        codes: Sequence[str] = (),
    ) -> KernelPart:
        """Return the part of a question that concerns one kernel.

        Parameters
        ----------
        grid : Grid
            The kernel's results.
        objectives : sequence of str
            Names of variables, short ones too.
        senses : sequence of str
            ``min`` or ``max`` for each.
        by : sequence of str
            Dimensions that form groups; ``kernel`` and scalar coordinates are constant here.
        select : mapping
            Filter on coordinates.
        where : Expression, optional
            Condition.
        codes : sequence of str
            Codes that will be counted.

        Raises
        ------
        AbsentError
            The question does not fit this kernel.
        QueryError
            The question fits no results.
        """
        names = tuple(grid.resolve(name) for name in objectives)
        for name in names:
            if grid.kind(name) != "float":
                raise QueryError(f"'{name}' is a {grid.kind(name)}, not a number with an order")
        signs = tuple(SENSES[sense] for sense in senses)
        condition = None if where is None else Condition(where, grid)
        groups = dims_of(grid, by)
        for name in codes:
            if name not in grid.variables or grid.kind(name) != "code":
                known = f"codes: {', '.join(grid.names('code'))}"
                raise AbsentError(f"kernel '{grid.kernel}' has no code '{name}' ({known})")
        used = (*names, *codes, *(condition.variables.values() if condition else ()))
        selection = _of_one_model(grid, select_grid(grid, select), used)
        uses_power = bool(POWER_VARIABLES & set(used))
        return cls(grid, names, signs, groups, selection, condition, uses_power)

    @property
    def status_names(self) -> tuple[str, ...]:
        """The codes that decide whether a configuration can win, as far as they are stored."""
        names = ("status", "power_status") if self.uses_power else ("status",)
        return tuple(name for name in names if name in self.grid.variables)

    def reduction(self, keep: Keep, names: Sequence[str]) -> Reduction | None:
        """Return the task of compiled passes; None with a condition, a mask or a split list."""
        if self.condition is not None or self.selection.masks or self.list_groups is not None:
            return None
        variables = tuple(names) if keep.kind == "codes" else self.objectives
        indices = {dim: self.selection.indices[dim] for dim in self.grid.dims}
        return Reduction(self.grid.kernel, variables, self.signs, self.by, indices, keep)

    # ------------------------------------------------------------------------ groups

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many groups there are along each of ``by``."""
        return tuple(len(self.selection.indices[name]) for name in self.by)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return math.prod(self.shape)

    @cached_property
    def strides(self) -> dict[str, int]:
        """What a step along each of ``by`` adds to a group's number."""
        return {name: math.prod(self.shape[i + 1 :]) for i, name in enumerate(self.by)}

    def labels(self, name: str) -> list[Any]:
        """Return the selected values of a dimension, or the one value of another coordinate."""
        if name == "kernel":
            return [self.grid.kernel]
        chosen = self.selection.indices.get(name)
        if chosen is None:
            return [self.grid.coordinates[name].values.item()]
        return self.grid.axis_values(name)[chosen].tolist()

    @cached_property
    def list_groups(self) -> Array | None:
        """What its parameters add to the group's number, for each configuration of a list."""
        numbers = None
        for name in self.by:
            if name in self.grid.stacked:
                places = self.grid.stacked[name].places[self.selection.indices[STACKED]]
                step = np.searchsorted(self.selection.indices[name], places) * self.strides[name]
                numbers = step if numbers is None else numbers + step
        return numbers

    def absent(self) -> Array | None:
        """Return how many configurations of each group a list leaves out; None for a grid.

        A grid contains them, with the status that the list names (mostly ``constraint``).
        """
        grid, indices = self.grid, self.selection.indices
        if not grid.stacked:
            return None
        searched = math.prod(len(indices[name]) for name in grid.stacked if name not in self.by)
        numbers = self.list_groups
        if numbers is None:
            numbers = np.zeros(len(indices[STACKED]), np.int64)
        # Every combination of the dimensions has the same list, as far as masks leave them.
        dims = tuple(axis for axis, name in enumerate(self.by) if name not in grid.stacked)
        present = np.bincount(numbers, minlength=self.size).reshape(self.shape)
        missing = searched - present.sum(axis=dims, keepdims=True).astype(object)
        mask = self.selection.mask(grid, indices)
        free = [axis for axis, dim in enumerate(grid.dims) if dim not in self.by]
        for axis in free:
            if mask.shape[axis] == 1 and grid.dims[axis] != STACKED:
                missing = missing * len(indices[grid.dims[axis]])
        left = mask.sum(axis=tuple(free), keepdims=True)
        grouped = [grid.dims.index(self.by[axis]) for axis in dims]
        shape = [1 if n in grid.stacked else left.shape[grid.dims.index(n)] for n in self.by]
        left = left.transpose(grouped + free).reshape(shape)
        return np.asarray(np.broadcast_to(missing * left, self.shape).ravel())

    def places(self, positions: Array) -> dict[str, Array]:
        """Return the index along every dimension of positions in the whole grid."""
        found = {}
        for dim, n in reversed(self.grid.sizes.items()):
            above = positions // n  # a third of the time of np.unravel_index
            positions, found[dim] = above, positions - above * n
        return found

    def narrowed(self, groups: Array) -> KernelPart:
        """Return the part about some of the groups and, it may be, others of the same values."""
        selection = self.selection
        places = np.unravel_index(groups, self.shape) if self.by else ()
        for name, of_groups in zip(self.by, places, strict=True):
            chosen = selection.indices[name][np.unique(of_groups)]
            selection = selection.narrowed(self.grid, name, chosen)
        return replace(self, selection=selection)


def dims_of(grid: Grid, by: Sequence[str]) -> tuple[str, ...]:
    """Return the dimensions and parameters of a list along which names form groups."""
    return tuple(dict.fromkeys(dim_of(grid, name) for name in by if _forms_groups(grid, name)))


def _forms_groups(grid: Grid, name: str) -> bool:
    """Return whether a name forms groups, rather than being constant in this kernel."""
    if dim_of(grid, name) in grid.dims or name in grid.stacked:
        return True
    coordinate = grid.coordinates.get(name)
    if name == "kernel" or (coordinate is not None and coordinate.values.ndim == 0):
        return False
    known = ("kernel", *grid.axes, *grid.listed)
    hint = "" if coordinate is not None else nearest(name, known)
    raise AbsentError(
        f"'{name}' is no dimension of kernel '{grid.kernel}'{hint} (dimensions: {', '.join(known)})"
    )


def _of_one_model(grid: Grid, selection: Selection, used: Sequence[str]) -> Selection:
    """Keep only the model whose own variables are asked for."""
    owners = {name: model for name in used if (model := grid.model_of(name)) is not None}
    if not owners or "model" not in grid.dims:
        return selection
    names = grid.coordinates["model"].values
    kept = [i for i in selection.indices["model"].tolist() if {str(names[i])} == {*owners.values()}]
    if not kept:
        listed = ", ".join(f"'{name}' is of {model}" for name, model in owners.items())
        raise AbsentError(f"no selected model gives all that is asked for: {listed}")
    return selection.narrowed(grid, "model", np.array(kept))


@dataclass(frozen=True, eq=False)
class Question:
    """A question asked of all kernels: their parts, and the groups that they may share.

    ``filters`` describes selection and condition; ``notes`` name the kernels that it does not fit.
    """

    parts: list[KernelPart]
    by: tuple[str, ...]
    filters: str = ""
    notes: tuple[str, ...] = ()

    def title(self, subject: str) -> str:
        """Return the question in words."""
        return subject + (f" by {', '.join(self.by)}" if self.by else "") + self.filters

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], int]:
        """Each group's values of ``by``, and its number."""
        self._check()
        keys = dict.fromkeys(chain.from_iterable(map(self._keys, self.parts)))
        return dict(zip(keys, range(len(keys)), strict=True))

    @cached_property
    def n_groups(self) -> int:
        """How many groups there are."""
        self._check()
        return self.parts[0].size if self._is_plain else len(self.groups)

    def _check(self) -> None:
        check_rows(sum(part.size for part in self.parts), "name fewer dimensions in `by`")

    @cached_property
    def _is_plain(self) -> bool:
        """Whether the groups are those of one part, as it numbers them, without their values."""
        part, by = self.parts[0], self.by
        is_product = len(self.parts) == 1 and all(dim_of(part.grid, name) == name for name in by)
        return is_product and all(len({*n}) == len(n) for n in map(part.labels, by))

    @cached_property
    def numbered(self) -> list[tuple[KernelPart, Array, int]]:
        """Each part with the numbers of its groups and where its positions begin."""
        if self._is_plain:
            return [(self.parts[0], np.arange(self.n_groups), 0)]
        found, offset = [], 0
        for part in self.parts:
            numbers = map(self.groups.__getitem__, self._keys(part))
            found.append((part, np.fromiter(numbers, np.int64, part.size), offset))
            offset += part.grid.points  # so that positions order the kernels too
        return found

    def narrowed(self, numbers: Sequence[int]) -> Iterator[KernelPart]:
        """Yield the parts about some groups, without the kernels that have none of them."""
        for part, own, _ in self.numbered:
            local = np.flatnonzero(np.isin(own, numbers))
            if local.size:
                yield part.narrowed(local)

    def _keys(self, part: KernelPart) -> Iterable[tuple[Any, ...]]:
        """Return the values of ``by`` for each group of a part; groups may have the same."""
        dims = [dim_of(part.grid, name) for name in self.by]
        if dims == list(self.by):
            return product(*(part.labels(name) for name in self.by))
        places = dict(zip(part.by, np.unravel_index(np.arange(part.size), part.shape), strict=True))
        columns = []
        for name, dim in zip(self.by, dims, strict=True):
            if dim not in places:
                columns.append(part.labels(name) * part.size)
                continue
            values = part.grid.axis_values(name)[part.selection.indices[dim]]
            columns.append(values[places[dim]].tolist())
        return zip(*columns, strict=True)

    def ordered(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the groups' numbers and values, ordered by the values of ``by`` in turn."""
        ranks = [
            {value: rank for rank, value in enumerate(dict.fromkeys(values))}
            for values in zip(*self.groups, strict=True)
        ]
        keys = sorted(self.groups, key=lambda k: [r[v] for r, v in zip(ranks, k, strict=True)])
        return [(self.groups[key], dict(zip(self.by, key, strict=True))) for key in keys]


def check_rows(rows: int, advice: str) -> None:
    """Refuse an answer with too many rows.

    Raises
    ------
    QueryError
        There would be more than :data:`MAX_ROWS` rows.
    """
    if rows > MAX_ROWS:
        raise QueryError(f"the answer would have {rows} rows, more than {MAX_ROWS}: {advice}")


def ask(
    data: Any,
    objectives: Sequence[str],
    senses: Sequence[str],
    by: Sequence[str] | None,
    where: str | Expression | None,
    select: Mapping[str, Any] | None,
    codes: Sequence[str] = (),
) -> Question:
    """Return a question asked of all kernels that it fits; ``codes`` are those to count.

    Raises
    ------
    QueryError
        It fits none of them.
    """
    for sense in senses:
        check_known(sense, SENSES, f"unknown sense '{sense}'", "known:")
    select = dict(select or {})
    condition = Expression.parse(where) if isinstance(where, str) else where
    wanted = (by,) if isinstance(by, str) else by

    def groups_of(grids: Sequence[Grid]) -> tuple[str, ...]:
        """Return the names that form groups: by default kernel, device and model."""
        if wanted is not None:
            return tuple(dict.fromkeys(wanted))
        known = [{"kernel", *grid.coordinates} for grid in grids]
        return tuple(name for name in DEFAULT_BY if all(name in names for names in known))

    parts, refused = those_that_fit(
        select_kernels(grids_of(data), select),
        lambda grid: KernelPart.of(
            grid, objectives, senses, groups_of([grid]), select, condition, codes
        ),
    )
    filters = "".join(f", {name}={as_written(value)}" for name, value in select.items())
    filters += "" if condition is None else f", where {condition.text}"
    notes: tuple[str, ...] = ()
    if refused:
        notes = (LeftOut(f"left out: {', '.join(refused)} ({next(iter(refused.values()))})"),)
    return Question(parts, groups_of([part.grid for part in parts]), filters, notes)

"""The part of a question that concerns one kernel: what is selected, grouped and read by block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.fields import STACKED
from sweep.query.filters import Condition, Selection, select_grid
from sweep.query.grid import POWER_VARIABLES, AbsentError, Grid
from sweep.reduction import Keep, Reduction

Array = NDArray[Any]

SENSES = {"min": 1, "max": -1}


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
        Dimensions, and parameters of a list, that form groups.
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
        groups = tuple(name for name in by if _is_dimension(grid, name))
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
        """Return the description for whoever reduces whole grids; None where conditions remain."""
        if self.condition is not None or self.selection.masks or self.list_groups is not None:
            return None
        of = tuple(names) if keep.kind == "codes" else self.objectives
        return Reduction(self.grid.kernel, of, self.signs, self.by, self.selection.indices, keep)

    # ------------------------------------------------------------------------ groups

    def places(self, name: str) -> Array:
        """Return the selected places among the values of a dimension or a list's parameter."""
        of = self.selection.axes if name in self.grid.stacked else self.selection.indices
        return of[name]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many groups there are along each of ``by``."""
        return tuple(len(self.places(name)) for name in self.by)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return math.prod(self.shape)

    @cached_property
    def strides(self) -> dict[str, int]:
        """What a step along each of ``by`` adds to a group's number."""
        return {name: math.prod(self.shape[i + 1 :]) for i, name in enumerate(self.by)}

    def labels(self) -> list[tuple[Any, ...]]:
        """Return the values of each group, as Python scalars, in group order."""
        values = [self.grid.axis_values(name)[self.places(name)].tolist() for name in self.by]
        return list(product(*values))

    @cached_property
    def list_groups(self) -> Array | None:
        """What its parameters add to the group's number, for each configuration of a list."""
        numbers = None
        for name in self.by:
            if name in self.grid.stacked:
                places = self.grid.stacked[name].places[self.selection.indices[STACKED]]
                step = np.searchsorted(self.places(name), places) * self.strides[name]
                numbers = step if numbers is None else numbers + step
        return numbers

    def absent(self) -> Array | None:
        """Return how many configurations of each group a list leaves out; None for a grid.

        A grid contains them, with the status that the list names (mostly ``constraint``).
        """
        stacked, indices, axes = self.grid.stacked, self.selection.indices, self.selection.axes
        if not stacked:
            return None
        searched = math.prod(len(axes[name]) for name in axes if name not in self.by)
        others = math.prod(len(indices[d]) for d in indices if d not in (STACKED, *self.by))
        numbers = np.zeros(len(indices[STACKED]), np.int64)
        if self.list_groups is not None:
            numbers = self.list_groups
        # Every combination of the dimensions has the same list.
        dims = tuple(axis for axis, name in enumerate(self.by) if name not in stacked)
        present = np.bincount(numbers, minlength=self.size).reshape(self.shape)
        present = np.broadcast_to(present.sum(axis=dims, keepdims=True), self.shape)
        return np.asarray((searched - present.ravel().astype(object)) * others)

    def narrowed(self, groups: Array, *, keeps_condition: bool = True) -> KernelPart:
        """Return the part about some of the groups and, it may be, others of the same values."""
        selection = self.selection
        places = np.unravel_index(groups, self.shape) if self.by else ()
        for name, of_groups in zip(self.by, places, strict=True):
            chosen = self.places(name)[np.unique(of_groups)]
            selection = selection.narrowed(self.grid, name, chosen)
        condition = self.condition if keeps_condition else None
        return replace(self, selection=selection, condition=condition)


def _is_dimension(grid: Grid, name: str) -> bool:
    """Return whether a name forms groups, rather than being constant in this kernel."""
    if name in grid.dims or name in grid.stacked:
        return True
    coordinate = grid.coordinates.get(name)
    if name == "kernel" or (coordinate is not None and coordinate.values.ndim == 0):
        return False
    known = ("kernel", *grid.axes)
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

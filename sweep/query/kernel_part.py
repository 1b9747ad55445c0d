"""The part of a question that concerns one kernel: what is selected, grouped and read by block."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, nearest
from sweep.query.filters import Condition, Selection, select_grid
from sweep.query.grid import POWER_VARIABLES, AbsentError, Grid
from sweep.query.grouping import Grouping
from sweep.reduction import Keep, Reduction

__all__ = ["SENSES", "Block", "KernelPart", "Slab"]

Array = NDArray[Any]

TARGET = 1 << 20
"""Configurations of a block: temporaries stay near the cache, overhead stays small."""
SENSES = {"min": 1, "max": -1}


@dataclass(frozen=True)
class Block:
    """A box of selected configurations: per dimension a range of the selected indices."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Slab:
    """A block's values, one row per group.

    ``columns`` holds one array of shape (groups, configurations) per objective, negated where it is
    maximised, NaN where a configuration cannot win; ``codes`` the codes asked for; ``satisfied``
    where selection and condition hold.
    """

    groups: Array
    columns: tuple[Array, ...]
    codes: dict[str, Array]
    satisfied: Array
    positions: Any


class KernelPart:
    """The part of a question that concerns one kernel.

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

    def __init__(
        self,
        grid: Grid,
        objectives: Sequence[str],
        senses: Sequence[str],
        by: Sequence[str],
        select: Mapping[str, Any],
        where: Any = None,
        codes: Sequence[str] = (),
    ) -> None:
        self.grid = grid
        self.objectives = tuple(grid.resolve(name) for name in objectives)
        for name in self.objectives:
            if grid.kind(name) != "float":
                raise QueryError(f"'{name}' is a {grid.kind(name)}, not a number with an order")
        self.signs = tuple(SENSES[sense] for sense in senses)
        self.condition = None if where is None else Condition(where, grid)
        self.by = tuple(name for name in by if self._is_dimension(name))
        for name in codes:
            if name not in grid.variables or grid.kind(name) != "code":
                known = f"codes: {', '.join(grid.names('code'))}"
                raise AbsentError(f"kernel '{grid.kernel}' has no code '{name}' ({known})")
        used = (*self.objectives, *codes, *self._of_condition)
        self.uses_power = bool(POWER_VARIABLES & set(used))
        self.selection = self._of_one_model(select_grid(grid, select), used)
        self.grouping = Grouping(grid, self.by, self.selection)

    def _is_dimension(self, name: str) -> bool:
        if name in self.grid.dims or name in self.grid.stacked:
            return True
        coordinate = self.grid.coordinates.get(name)
        if name == "kernel" or (coordinate is not None and coordinate.values.ndim == 0):
            return False
        known = ("kernel", *self.grid.axes)
        hint = "" if coordinate is not None else nearest(name, known)
        raise AbsentError(
            f"'{name}' is no dimension of kernel '{self.grid.kernel}'{hint}"
            f" (dimensions: {', '.join(known)})"
        )

    def _of_one_model(self, selection: Selection, used: Sequence[str]) -> Selection:
        """Keep only the model whose own variables are asked for."""
        owners = {name: self.grid.model_of(name) for name in used}
        models = {model for model in owners.values() if model is not None}
        if not models or "model" not in self.grid.dims:
            return selection
        names = self.grid.coordinates["model"].values
        kept = [int(i) for i in selection.indices["model"] if {str(names[i])} == models]
        if not kept:
            told = ", ".join(f"'{name}' is of {model}" for name, model in owners.items() if model)
            raise AbsentError(f"no selected model gives all that is asked for: {told}")
        return selection.with_indices(model=np.array(kept))

    @property
    def _of_condition(self) -> tuple[str, ...]:
        """The variables that the condition reads."""
        return tuple(self.condition.variables.values()) if self.condition else ()

    @property
    def status_names(self) -> tuple[str, ...]:
        """The codes that decide whether a configuration can win, as far as they are stored."""
        names = ("status", "power_status") if self.uses_power else ("status",)
        return tuple(name for name in names if name in self.grid.variables)

    def reduction(self, keep: Keep, names: Sequence[str]) -> Reduction | None:
        """Return the description for whoever reduces whole grids; None where conditions remain."""
        if self.condition is not None or self.selection.masks or self.grouping.parameters:
            return None
        of = tuple(names) if keep.kind == "codes" else self.objectives
        return Reduction(self.grid.kernel, of, self.signs, self.by, self.selection.indices, keep)

    def narrowed(self, groups: Array, *, keeps_condition: bool = True) -> KernelPart:
        """Return the part about some of the groups and, it may be, others of the same values."""
        found = copy.copy(self)
        places = np.unravel_index(groups, self.grouping.shape) if self.by else ()
        for name, of_groups in zip(self.by, places, strict=True):
            chosen = self.grouping.places(name)[np.unique(of_groups)]
            found.selection = found.selection.narrowed(self.grid, name, chosen)
        found.grouping = Grouping(self.grid, self.by, found.selection)
        found.condition = self.condition if keeps_condition else None
        return found

    def blocks(self, codes: Sequence[str] = ()) -> list[Block]:
        """Return the boxes to read: whole chunks, merged up to a good size, empty ones left out."""
        names = codes or (*self.objectives, *self.status_names)
        cuts = self.grid.boundaries([*names, *self._of_condition])
        parts: list[list[tuple[int, int]]] = []
        for dim in self.grid.dims:
            edges = np.searchsorted(self.selection.indices[dim], cuts[dim])
            parts.append([(int(a), int(b)) for a, b in pairwise(edges) if b > a])
        sizes = [max((b - a for a, b in part), default=0) for part in parts]
        for axis in reversed(range(len(parts))):
            others = int(np.prod([n for i, n in enumerate(sizes) if i != axis], dtype=np.int64))
            limit = max(sizes[axis], TARGET // max(others, 1))
            parts[axis] = list(_joined(parts[axis], limit))
            sizes[axis] = max((b - a for a, b in parts[axis]), default=0)
        return [Block(ranges) for ranges in product(*parts)]

    def _index(self, block: Block) -> dict[str, slice | Array]:
        index: dict[str, slice | Array] = {}
        for dim, (start, stop) in zip(self.grid.dims, block.ranges, strict=True):
            chosen = self.selection.indices[dim][start:stop]
            first, last = int(chosen[0]), int(chosen[-1])
            index[dim] = slice(first, last + 1) if last - first + 1 == len(chosen) else chosen
        return index

    def _satisfied(self, index: Mapping[str, slice | Array]) -> Array:
        """Return where masks and condition hold, with as many axes as the grid."""
        dims = self.grid.dims
        mask = np.ones((1,) * len(dims), bool)
        for of_dims, part in self.selection.masks:
            for axis, dim in enumerate(of_dims):
                part = part[(slice(None),) * axis + (index[dim],)]
            sizes = dict(zip(of_dims, part.shape, strict=True))
            mask = mask & part.reshape(tuple(sizes.get(d, 1) for d in dims))
        if self.condition is not None and mask.any():
            mask = mask & self.condition.mask(index)
        return mask

    def slab(self, block: Block, codes: Sequence[str] = ()) -> Slab | None:
        """Read a block's numbers, or the codes to count; None if nothing in it is asked for."""
        index = self._index(block)
        satisfied = self._satisfied(index)
        if not satisfied.any():
            return None
        objectives, statuses = ((), ()) if codes else (self.objectives, self.status_names)
        read = self.grid.read([*objectives, *statuses, *codes], index)
        valid = satisfied
        for name in statuses:
            valid = valid & (read[name] == 0)
        columns = []
        for name, sign in zip(objectives, self.signs, strict=False):
            values = read[name] if read[name].dtype.kind == "f" else read[name].astype(np.float64)
            values = -values if sign < 0 else values
            columns.append(np.where(valid, values, values.dtype.type(np.nan)))
        groups = self.grouping.of(block.ranges)
        return Slab(
            groups=groups.ids,
            columns=tuple(groups.rows(column, np.nan) for column in columns),
            codes={name: groups.rows(read[name], 0) for name in codes},
            satisfied=groups.rows(satisfied, False),
            positions=groups.positions,
        )

    def points(self, positions: Array) -> dict[str, Array]:
        """Return the index per dimension of positions in the whole grid."""
        if not self.grid.dims:
            return {}
        parts = np.unravel_index(positions, self.grid.shape)
        return dict(zip(self.grid.dims, parts, strict=True))


def _joined(parts: Sequence[tuple[int, int]], limit: int) -> Iterator[tuple[int, int]]:
    """Join neighbouring ranges while they stay within the limit."""
    current: tuple[int, int] | None = None
    for start, stop in parts:
        if current is not None and stop - current[0] <= limit:
            current = (current[0], stop)
            continue
        if current is not None:
            yield current
        current = (start, stop)
    if current is not None:
        yield current

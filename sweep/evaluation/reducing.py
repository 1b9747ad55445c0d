"""Reduction of a grid without its results: compiled passes that keep only what was asked for.

A question's grid is cut into pieces. Whoever has time takes a piece and adds it to an accumulator
of its own; accumulators hold a few numbers for each group, whatever the number of configurations,
and merge in any order into the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.compiler.passes import TILE, get_reducing_pass
from sweep.compiler.reduction_state import Counts, Kept, Key, Least, State
from sweep.evaluation.chunk import (
    BLOCK,
    LAUNCH_SOURCES,
    Maker,
    blocks,
    canonical,
    canonical_index,
    canonical_parts,
    is_small,
    tables_of,
    varying_inputs,
    with_last,
)
from sweep.evaluation.tables import Packed, Shared, form_of
from sweep.evaluation.variables import variables
from sweep.evaluation.workloads import grid_axes
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan, count_parts, cut_box

__all__ = [
    "Accumulator",
    "Kept",
    "Least",
    "Piece",
    "Reduction",
    "clock_names",
    "count_pieces",
    "pieces",
    "reducible",
]

Array = np.ndarray[Any, Any]
Index = tuple[slice, ...]

PIECE = 1 << 24
"""Configurations of a piece over clocks: some ten milliseconds."""
LAUNCHES = 1 << 19
"""Configurations of a piece of which each has its own launch: bounds the memory of tables."""
FEW = 1 << 14
"""Configurations of a group below which a pass of its own costs more than it saves."""
MOST_KEPT = 10_000
"""Configurations of a group that a sorted list keeps; more are better sorted once."""
MOST_PAIRS = BLOCK
"""Pairs of clocks, each a group by itself, that stay one block."""
OWN_TABLES = 1 << 22
"""Configurations of a piece from which on it has tables of its own."""
SIZES = 64
"""Values along an axis from which on it is worth to be the inner loop."""
ROOM = 256
"""Points of a front to begin with."""


@dataclass(frozen=True)
class Reduction:
    """A question to one kernel's grid.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    objectives : tuple of str
        Names of one to three variables.
    signs : tuple of int
        1 to minimise, -1 to maximise each.
    by : tuple of str
        Dimensions that form groups, ``"model"`` among them.
    indices : mapping
        Selected indices along every dimension, ascending.
    n : int
        How many of the smallest to keep; 0 for the front that nothing dominates.
    each : bool
        Whether both clocks are among the groups: then only the smallest, and the second smallest
        value, of every group are kept.
    counts : bool
        Whether to count instead: how often each code is there, or how many numbers lie between the
        ``cuts``.
    cuts : tuple of float, optional
        Borders of bins, ascending; a number equal to a border lies above it.
    """

    kernel: str
    objectives: tuple[str, ...]
    signs: tuple[int, ...]
    by: tuple[str, ...]
    indices: Mapping[str, Array]
    n: int = 0
    each: bool = False
    counts: bool = False
    cuts: tuple[float, ...] | None = None

    @property
    def keeps(self) -> str:
        """What a pass keeps."""
        if self.counts:
            return "counts" if self.cuts is None else "histogram"
        if self.each:
            return "least_of_each"
        if self.n:
            return "smallest"
        return {2: "front_of_two", 3: "front_of_three"}[len(self.objectives)]


@dataclass(frozen=True)
class Piece:
    """A box of the selected grid that belongs to one group of each model."""

    box: Box
    models: tuple[tuple[int, Key], ...]


def reducible(space: KernelSpace, plan: Plan, reduction: Reduction) -> bool:
    """Whether compiled passes can answer: everything is a model's, and groups are large."""
    own = {v.name: v for v in variables(space, plan)}
    for name in reduction.objectives:
        variable = own.get(name)
        is_code = reduction.counts and reduction.cuts is None
        if variable is None or variable.is_code != is_code:
            return False
        if variable.source in LAUNCH_SOURCES and variable.model is None:
            return False
    by = [d for d in reduction.by if not (reduction.each and d in clock_names(space))]
    groups = math.prod(len(reduction.indices[d]) for d in by)
    points = math.prod(len(i) for i in reduction.indices.values())
    if reduction.each:
        pairs = [len(reduction.indices[d]) for d in clock_names(space)]
        if form_of((1, math.prod(pairs))) != "clocks" or math.prod(pairs) > MOST_PAIRS:
            return False
    return reduction.n <= MOST_KEPT and points >= FEW * groups


def pieces(space: KernelSpace, reduction: Reduction) -> list[Piece]:
    """Return the pieces of a question's grid in order.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid, restricted to what is selected.
    reduction : Reduction
        The question.
    """
    alone = clock_names(space) if reduction.each else ()
    by = [name for name in reduction.by if name not in alone]
    grouped = [name for name in by if name != "model"]
    axes = [space.grid.names.index(name) for name in grouped]
    models = reduction.indices["model"].tolist()
    found: list[Piece] = []
    limit = 0
    for chosen in np.ndindex(*(space.grid.shape[axis] for axis in axes)):
        start, stop = [0] * len(space.grid.shape), list(space.grid.shape)
        for axis, i in zip(axes, chosen, strict=True):
            start[axis], stop[axis] = i, i + 1
        label = dict(zip(grouped, chosen, strict=True))
        keys = tuple(
            (model, tuple(int({**label, "model": i}[name]) for name in by))
            for i, model in enumerate(models)
        )
        whole = Box(tuple(start), tuple(stop))
        limit = limit or _limit(space, whole)  # the same for all groups
        found += [Piece(box, keys) for box in cut_box(whole, limit)]
    return found


def count_pieces(space: KernelSpace, by: Sequence[str]) -> int:
    """Return how many pieces a question by some dimensions has, without making them.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid, restricted to what is selected.
    by : sequence of str
        Dimensions that form groups.
    """
    axes = [i for i, name in enumerate(space.grid.names) if name in by]
    stop = [1 if axis in axes else n for axis, n in enumerate(space.grid.shape)]
    groups = math.prod(space.grid.shape[axis] for axis in axes)
    box = Box((0,) * len(stop), tuple(stop))
    return groups * count_parts(box, _limit(space, box))


def clock_names(space: KernelSpace) -> tuple[str, ...]:
    """Return the grid's dimensions that are clocks."""
    return tuple(d.name for d in space.grid.dimensions if d.kind in ("core", "memory"))


def _limit(space: KernelSpace, whole: Box) -> int:
    if form_of(canonical(space, whole)) == "clocks":
        return PIECE
    # Of a launch's tables only one or two have a number for each where sizes are the inner loop.
    return LAUNCHES * (2 if grid_axes(space) else 1)


@dataclass
class Accumulator:
    """What one thread keeps of the pieces that it was given.

    Attributes
    ----------
    space : KernelSpace
        The kernel's grid, restricted to what is selected.
    plan : Plan
        Models, variant, precision and options.
    reduction : Reduction
        The question.
    shape : tuple of int
        Of the whole grid, in which positions count.
    """

    space: KernelSpace
    plan: Plan
    reduction: Reduction
    shape: tuple[int, ...]
    _states: dict[tuple[int, Key], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lay out what every pass needs."""
        own = {v.name: v for v in variables(self.space, self.plan)}
        found = [own[name] for name in self.reduction.objectives]
        self._sources = tuple(v.source for v in found)
        self._tiles = [np.empty(TILE, v.dtype) for v in found]
        self._make = Maker()
        self._grid_axes = grid_axes(self.space)
        self._shared: dict[str, Shared] = {}
        self._varying: dict[str, frozenset[str]] = {}

    def add(self, piece: Piece) -> int:
        """Reduce a piece that lies after all earlier ones; return how many evaluations it has."""
        last = self._last_axis(piece.box)
        if last is None:
            # Tables of the whole grid serve small pieces; large ones would wait for them.
            is_part = is_small(self.space) and piece.box.n_points < OWN_TABLES
            make = tables_of if is_part else self._make
            tables = make(self.space, self.plan, piece.box)
            shape = canonical(self.space, piece.box)
            cut = blocks(shape)
        else:
            tables = self._make(self.space, self.plan, piece.box, last)
            shape = with_last(canonical(self.space, piece.box), last)
            cut = [tuple(slice(0, n) for n in shape)]
        for model, key in piece.models:
            # A state of its own for each model, also where models share a group: a pass counts on
            # positions that only rise, and those of one model follow those of the other.
            own = model, key
            if own not in self._states:
                self._states[own] = self._empty()
            inputs = tables.inputs(self.plan.models[model])
            for index in cut:
                self._pass(inputs, piece.box, index, own, last)
        return piece.box.n_points * len(piece.models)

    def _empty(self) -> State | Counts:
        dtype = np.dtype(self.plan.precision)
        if self.reduction.counts:
            return Counts.empty(len(self._sources), self.reduction.cuts)
        if not self.reduction.each:
            return State.empty(self.reduction.signs, dtype, self.reduction.n or ROOM)
        pairs = math.prod(canonical(self.space, self.space.grid.whole)[-2:])
        state = State.empty(self.reduction.signs, dtype, pairs)
        state.columns = np.full((2, pairs), np.nan, dtype)
        return state

    def _pass(
        self,
        inputs: Mapping[str, Array],
        box: Box,
        index: Index,
        own: tuple[int, Key],
        last: int | None,
    ) -> None:
        """Reduce a block of a box with one model."""
        model, keeps = own[0], self.reduction.keeps
        name = self.plan.models[model]
        packed = self._packed(inputs, box, index, name, last)
        compiled = get_reducing_pass(
            name,
            self.plan.variant,
            packed.form,
            self._sources,
            keeps,
            packed.length,
            packed.varying,
        )
        outer, inner = self._positions(box, index, model, packed.stride.shape[1], last)
        while True:
            state = self._states[own].arguments(keeps)
            with np.errstate(all="ignore"):
                if compiled(*packed.arguments, packed.n_rows, outer, inner, state, *self._tiles):
                    return
            self._states[own] = self._states[own].grown()

    def _last_axis(self, box: Box) -> int | None:
        """Return the dimension over which the inner loop of the form ``sizes`` runs, if any."""
        shape = canonical(self.space, box)
        if math.prod(shape[-2:]) > 1 or is_small(self.space) or self.reduction.each:
            return None
        found = max(self._grid_axes, key=lambda axis: box.shape[axis], default=None)
        return found if found is not None and box.shape[found] >= SIZES else None

    def _packed(
        self,
        inputs: Mapping[str, Array],
        box: Box,
        index: Index,
        name: str,
        last: int | None,
    ) -> Packed:
        """Return a model's tables of a block of a box as a pass reads them."""
        places = zip(with_last(canonical_index(self.space, box), last), index, strict=True)
        at = tuple(slice(a.start + b.start, a.start + b.stop) for a, b in places)
        shared, model = self._shared.setdefault(name, Shared()), get_model(name)
        if last is None:
            return shared.pack(inputs, model, index, at)
        if name not in self._varying:
            self._varying[name] = varying_inputs(self.space, self.plan, box, name, last)
        return shared.pack(inputs, model, index, at, "sizes", self._varying[name])

    def _positions(
        self, box: Box, index: Index, model: int, n_outer: int, last: int | None = None
    ) -> tuple[Array, Array]:
        """Return what indices outside the inner loop, and within, add to the position."""
        grid = self.space.grid
        step, parts = 1, []
        for name, start, length in zip(
            reversed(grid.names), reversed(box.start), reversed(self.shape), strict=True
        ):
            parts.append((step, start, self.reduction.indices[name]))
            step *= length
        places = canonical_parts(self.space, parts[::-1], (0, 0, np.zeros(1, np.int64)))
        places = with_last(places, last)
        axes = [
            stride * chosen[start + part.start : start + part.stop]
            for (stride, start, chosen), part in zip(places, index, strict=True)
        ]
        outer = np.zeros((n_outer, max([1, *map(len, axes[:n_outer])])), np.int64)
        for row, axis in zip(outer, axes[:n_outer], strict=True):
            row[: len(axis)] = axis
        inner = np.zeros(1, np.int64)
        for axis in axes[n_outer:]:
            inner = (inner[:, None] + axis).ravel()
        (outer[0] if n_outer else inner)[:] += model * step
        return outer, inner

    def result(self) -> list[Any]:
        """Return what is left: ``(key, Kept)`` of groups, or :class:`Least` of all clocks.

        Of a question that counts ``(key, counts)``, a line for each variable. A group that models
        share has a part from each.
        """
        if self.reduction.counts:
            return [(key, state.counts) for (_, key), state in self._states.items()]
        return self._least() if self.reduction.each else self._kept()

    def _least(self) -> list[Least]:
        """Return the smallest of each pair of clocks, where both are among the groups."""
        whole = self.space.grid.whole
        n_outer = len(canonical(self.space, whole)) - 2
        _, inner = self._positions(whole, canonical_index(self.space, whole), 0, n_outer)
        return [
            Least(key, state.columns[0], state.columns[1], state.positions + inner)
            for (_, key), state in self._states.items()
        ]

    def _kept(self) -> list[tuple[Key, Kept]]:
        """Return what is left of each group."""
        for state in self._states.values():
            state.settle()
        return [
            (
                key,
                Kept(
                    tuple(column[: state.held[0]].copy() for column in state.columns),
                    state.positions[: state.held[0]].copy(),
                ),
            )
            for (_, key), state in self._states.items()
        ]

"""Reduction of a grid without its results: compiled passes that keep only what was asked for.

A question's grid is cut into pieces. Each thread takes pieces and adds them to its accumulator,
which holds a few numbers for each group, whatever the number of configurations. What accumulators
keep merges in any order into the same answer.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.compiler.passes import TILE, get_reducing_pass
from sweep.compiler.reductions import Counts, Front, Gathered, LeastOfEach, Smallest
from sweep.evaluation import limits
from sweep.evaluation.chunk import blocks
from sweep.evaluation.launch import grid_axes
from sweep.evaluation.packing import Packed, Packer, form_of
from sweep.evaluation.step_cache import StepCache
from sweep.evaluation.tables import (
    Tables,
    canonical,
    canonical_index,
    canonical_parts,
    is_small,
    tables_of,
    with_last,
)
from sweep.evaluation.variables import variables
from sweep.models import get_model
from sweep.reduction import Kept, Reduction
from sweep.space import Box, KernelSpace, Plan, cut_box

__all__ = [
    "Accumulator",
    "Piece",
    "Progress",
    "pieces",
    "reduce_in_threads",
    "reducible",
    "restricted",
]

Array = np.ndarray[Any, Any]
Index = tuple[slice, ...]
State = Smallest | LeastOfEach | Front | Counts

Progress = Callable[[int, int], None]
"""Told evaluations done and evaluations in all, from any thread."""


@dataclass(frozen=True)
class Piece:
    """A box of the selected grid that belongs to one group of each model.

    ``models`` has the number of each model in the plan, and that of its group. Where each pair of
    clocks is a group, it is the first of the groups.
    """

    box: Box
    models: tuple[tuple[int, int], ...]


def reducible(space: KernelSpace, plan: Plan, reduction: Reduction) -> bool:
    """Whether compiled passes can answer: everything is a model's, and groups are large."""
    keep, own = reduction.keep, {v.name: v for v in variables(space, plan)}
    for name in reduction.variables:
        variable = own.get(name)
        if variable is None or variable.is_code != (keep.kind == "codes"):
            return False
        if variable.is_launch:
            return False
    by = reduction.by
    if keeps_each(space, reduction):
        by = _without_clocks(space, by)
        pairs = math.prod(len(reduction.indices[d]) for d in clock_names(space))
        if form_of((1, pairs)) != "clocks" or pairs > limits.BLOCK:
            return False
    groups = math.prod(len(reduction.indices[d]) for d in by)
    points = math.prod(len(i) for i in reduction.indices.values())
    return keep.n <= limits.MOST_KEPT and points >= limits.FEW * groups


def keeps_each(space: KernelSpace, reduction: Reduction) -> bool:
    """Whether each pair of clocks is a group by itself, of which only the best is wanted."""
    clocks = clock_names(space)
    return reduction.keep.value_only and bool(clocks) and set(clocks) <= set(reduction.by)


def _without_clocks(space: KernelSpace, by: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in by if name not in clock_names(space))


def pieces(space: KernelSpace, reduction: Reduction) -> list[Piece]:
    """Return the pieces of a question's grid in order.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid, restricted to what is selected.
    reduction : Reduction
        The question.
    """
    by = reduction.by
    if keeps_each(space, reduction):
        by = _without_clocks(space, by)
    axes = [(name, axis) for axis, name in enumerate(space.grid.names) if name in by]
    models = reduction.indices["model"].tolist()
    found: list[Piece] = []
    limit = 0
    for chosen in np.ndindex(*(space.grid.shape[axis] for _, axis in axes)):
        start, stop = [0] * len(space.grid.shape), list(space.grid.shape)
        place = dict.fromkeys(reduction.by, 0)
        for (name, axis), i in zip(axes, chosen, strict=True):
            start[axis], stop[axis], place[name] = i, i + 1, i
        groups = [reduction.groups([{**place, "model": i}[name] for name in reduction.by])
                  for i in range(len(models))]  # fmt: skip
        keys = tuple((model, int(group[0])) for model, group in zip(models, groups, strict=True))
        whole = Box(tuple(start), tuple(stop))
        limit = limit or _limit(space, whole)  # the same for all groups
        found += [Piece(box, keys) for box in cut_box(whole, limit)]
    return found


def clock_names(space: KernelSpace) -> tuple[str, ...]:
    """Return the grid's dimensions that are clocks."""
    return tuple(d.name for d in space.grid.dimensions if d.kind in ("core", "memory"))


def _limit(space: KernelSpace, whole: Box) -> int:
    if form_of(canonical(space, whole)) == "clocks":
        return limits.PIECE
    # Of a launch's tables only one or two have a number for each where sizes are the inner loop.
    return limits.LAUNCHES // (1 if grid_axes(space) else 2)


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
    _states: dict[tuple[int, int], State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Lay out what every pass needs."""
        own = {v.name: v for v in variables(self.space, self.plan)}
        found = [own[name] for name in self.reduction.variables]
        self._sources = tuple(v.source for v in found)
        self._tiles = [np.empty(TILE, v.dtype) for v in found]
        self._steps, self._each = StepCache(), keeps_each(self.space, self.reduction)
        self._gathered = Gathered(np.dtype(self.plan.precision), TILE)
        self._grid_axes = grid_axes(self.space)
        self._packers: dict[str, Packer] = {}
        self._varying: dict[str, frozenset[str]] = {}

    def add(self, piece: Piece) -> int:
        """Reduce a piece that lies after all earlier ones; return how many evaluations it has."""
        last = self._last_axis(piece.box)
        if last is None:
            tables = tables_of(self.space, piece.box, self._steps)
            shape = canonical(self.space, piece.box)
            cut = blocks(shape)
        else:
            tables = Tables(self.space, piece.box, self._steps, last)
            shape = with_last(canonical(self.space, piece.box), last)
            cut = [tuple(slice(0, n) for n in shape)]
        for model, key in piece.models:
            # A state of its own for each model, also where models share a group: a pass counts on
            # positions that only rise, and those of one model follow those of the other.
            own = model, key
            if own not in self._states:
                self._states[own] = self._empty()
            inputs = tables.inputs(self.plan, self.plan.models[model])
            for index in cut:
                self._pass(inputs, piece.box, index, own, last)
        return piece.box.n_points * len(piece.models)

    def _empty(self) -> State:
        keep, signs, dtype = self.reduction.keep, self.reduction.signs, self.plan.precision
        if keep.is_count:
            return Counts(keep, len(self._sources), TILE)
        if self._each:
            return LeastOfEach(*self._pairs(), signs, dtype)
        if keep.kind == "front":
            return Front(signs, dtype, self._gathered)
        return Smallest(keep, signs, dtype)

    def _pass(
        self, inputs: Mapping[str, Array], box: Box, index: Index, own: tuple[int, int],
        last: int | None,
    ) -> None:  # fmt: skip
        """Reduce a block of a box with one model."""
        model, state = own[0], self._states[own]
        name = self.plan.models[model]
        packed = self._packed(inputs, box, index, name, last)
        compiled = get_reducing_pass(
            name,
            self.plan.variant,
            packed.form,
            self._sources,
            "least_of_each" if self._each else self.reduction.keep.kind,
            packed.length,
            packed.varying,
        )
        outer, inner = self._positions(box, index, model, packed.stride.shape[1], last)
        tile = 0
        while tile >= 0:
            with np.errstate(all="ignore"):
                tile = compiled(
                    *packed.arguments, packed.n_rows, tile, outer, inner, state.arguments(),
                    *self._tiles,
                )  # fmt: skip
            state.make_room()

    def _last_axis(self, box: Box) -> int | None:
        """Return the dimension over which the inner loop of the form ``sizes`` runs, if any."""
        shape = canonical(self.space, box)
        if math.prod(shape[-2:]) > 1 or is_small(self.space) or self._each:
            return None
        found = max(self._grid_axes, key=lambda axis: box.shape[axis], default=None)
        return found if found is not None and box.shape[found] >= limits.SIZES else None

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
        pack = self._packers.setdefault(name, Packer(get_model(name)))
        if last is None:
            return pack(inputs, index, at)
        if name not in self._varying:
            self._varying[name] = self._varying_inputs(box, name, last)
        return pack(inputs, index, at, "sizes", self._varying[name])

    def _varying_inputs(self, box: Box, name: str, last: int) -> frozenset[str]:
        """Return a model's inputs that vary along the inner loop of the form ``sizes`` in some box.

        Where grids fill all multiprocessors fewer inputs vary than where they do not, and to
        compile a pass for either would take longer than to read what is constant as a row. The
        two ends of the grid show both.
        """
        shape = [*box.shape[:last], min(2, box.shape[last]), *box.shape[last + 1 :]]
        found: set[str] = set()
        for corner in (0, 1):
            sizes = zip(self.space.grid.shape, shape, strict=True)
            start = tuple(corner * (n - m) for n, m in sizes)
            end = Box(start, tuple(a + m for a, m in zip(start, shape, strict=True)))
            tables = Tables(self.space, end, last=last)
            inputs = tables.inputs(self.plan, name)
            found.update(Packer(get_model(name))(inputs, tables.index, form="sizes").varying)
        return frozenset(found)

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

    def _pairs(self) -> tuple[Array, Array]:
        """Return what each pair of clocks adds to the group's number, and to the position."""
        whole, reduction = self.space.grid.whole, self.reduction
        n_outer = len(canonical(self.space, whole)) - 2
        _, inner = self._positions(whole, canonical_index(self.space, whole), 0, n_outer)
        clocks = clock_names(self.space)
        places = np.indices([len(reduction.indices[name]) for name in clocks])
        of_clock = dict(zip(clocks, places.reshape(len(clocks), -1), strict=True))
        nothing = np.zeros(inner.size, np.int64)
        return reduction.groups([of_clock.get(name, nothing) for name in reduction.by]), inner

    def kept(self) -> list[Kept]:
        """Return what was kept; a group that models share has a part from each."""
        return [state.kept(group) for (_, group), state in self._states.items()]


def restricted(space: KernelSpace, reduction: Reduction) -> KernelSpace:
    """Return a kernel's grid with only what a question selects."""
    return space.restricted({n: reduction.indices[n].tolist() for n in space.grid.names})


def reduce_in_threads(
    space: KernelSpace,
    plan: Plan,
    reduction: Reduction,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[Kept]:
    """Let each thread take pieces until none is left; return what all have kept.

    Parameters
    ----------
    space : KernelSpace
        The kernel's whole grid.
    plan : Plan
        Models, variant, precision and options.
    reduction : Reduction
        What to keep.
    threads : int, optional
        How many; all cores by default.
    progress : callable, optional
        Told how far it is.
    """
    part = restricted(space, reduction)
    waiting, lock = iter(pieces(part, reduction)), threading.Lock()
    stopped = threading.Event()
    done, total = 0, part.n_points * len(reduction.indices["model"])

    def work(mine: Accumulator) -> None:
        nonlocal done
        while not stopped.is_set():
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            points = mine.add(piece)
            with lock:
                done += points
                if progress is not None:
                    progress(done, total)

    shape = space.grid.shape
    found = [
        Accumulator(part, plan, reduction, shape) for _ in range(threads or os.cpu_count() or 1)
    ]
    with ThreadPoolExecutor(len(found), thread_name_prefix="sweep-reduce") as pool:
        futures = [pool.submit(work, mine) for mine in found]
        try:
            for future in futures:
                future.result()
        finally:
            stopped.set()
    return [kept for mine in found for kept in mine.kept()]

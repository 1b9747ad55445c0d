"""Reduction of a grid without its results: compiled passes that keep only what was asked for.

A question's grid is cut into pieces. Each thread takes pieces and adds them to its accumulator,
which holds a few numbers for each group, whatever the number of configurations. What accumulators
keep merges in any order into the same answer.
"""

from __future__ import annotations

import math
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from sweep.compiler import reductions
from sweep.compiler.passes import get_pass
from sweep.evaluation import limits
from sweep.evaluation.chunk import blocks
from sweep.evaluation.counts import StepCache
from sweep.evaluation.launch import grid_axes
from sweep.evaluation.power_limit import limits_of
from sweep.evaluation.tables import Packed, Tables, form_of, is_small, pack, tables_of
from sweep.evaluation.variables import Variable, variables
from sweep.fields import Array
from sweep.models import get_model
from sweep.reduction import Kept, Reduction
from sweep.space import Box, KernelSpace, Plan, cut_box

Progress = Callable[[int, int], None]
"""Receives evaluations done and evaluations in all, from any thread."""


class Piece(NamedTuple):
    """A box of the selected grid that belongs to one group of each model.

    ``models`` has the number of each model in the plan, and that of its group. Where each pair of
    clocks is a group, it is the first of the groups.
    """

    box: Box
    models: tuple[tuple[int, int], ...]


class Task:
    """A question about one kernel, and the part of the grid that it selects, cut into pieces.

    Parameters
    ----------
    whole : KernelSpace
        The kernel's whole grid, in which positions count.
    plan : Plan
        Models, variant, precision and options.
    reduction : Reduction
        The question.
    """

    def __init__(self, whole: KernelSpace, plan: Plan, reduction: Reduction) -> None:
        self.whole, self.plan, self.reduction = whole, plan, reduction
        self.clocks = tuple(d.name for d in whole.grid.dimensions if d.is_clock)
        by = reduction.by
        #: Whether each pair of clocks is a group by itself, of which only the best is wanted.
        self.keeps_each = (
            reduction.keep.value_only and bool(self.clocks) and set(self.clocks) <= set(by)
        )
        self._by = tuple(n for n in by if not (self.keeps_each and n in self.clocks))
        self._axes = [whole.clocked.names.index(n) for n in self._by if n != "model"]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """What is asked about; empty if results have no such variable."""
        own = {v.name: v for v in variables(self.whole, self.plan)}
        names = self.reduction.variables
        return tuple(own[name] for name in names) if set(names) <= own.keys() else ()

    @property
    def is_reducible(self) -> bool:
        """Whether compiled passes answer.

        All is a model's, the kernel and groups are large, and no power limit lowers clocks.
        """
        if self.whole.n_points <= limits.UNCOMPILED or limits_of(self.whole, self.plan):
            return False
        keep, indices = self.reduction.keep, self.reduction.indices
        is_code = keep.kind == "codes"
        if not self.variables or any(v.is_launch or v.is_code != is_code for v in self.variables):
            return False
        if self.keeps_each:
            pairs = math.prod(len(indices[d]) for d in self.clocks)
            if form_of((1, pairs)) != "clocks" or pairs > limits.BLOCK:
                return False
        groups = math.prod(len(indices[d]) for d in self._by)
        points = math.prod(map(len, indices.values()))
        return keep.n <= limits.MOST_KEPT and points >= limits.FEW * groups

    @cached_property
    def selected(self) -> KernelSpace:
        """The kernel's grid with only what is selected."""
        indices = self.reduction.indices
        return self.whole.restricted({n: indices[n] for n in self.whole.grid.names})

    def _group(self, chosen: Sequence[int]) -> Box:
        """Return the box of the selected grid that belongs to one group, from its places."""
        start, stop = [0] * len(self.selected.clocked.shape), list(self.selected.clocked.shape)
        for axis, i in zip(self._axes, chosen, strict=True):
            start[axis], stop[axis] = i, i + 1
        return Box(tuple(start), tuple(stop))

    @cached_property
    def inner(self) -> str | None:
        """The dimension over which the inner loop of the form ``sizes`` runs, if any."""
        grid = self.selected.clocked
        if math.prod(grid.shape[-2:]) > 1 or self.keeps_each or is_small(self.selected):
            return None
        first = next(cut_box(self._group([0] * len(self._axes)), limits.LAUNCHES))
        lengths = dict(zip(grid.names, first.shape, strict=True))
        found = max(grid_axes(self.whole), key=lengths.__getitem__, default=None)
        return found if found is not None and lengths[found] >= limits.SIZES else None

    @cached_property
    def part(self) -> KernelSpace:
        """The same grid with the inner dimension last."""
        return self.selected.with_last(self.inner) if self.inner else self.selected

    @property
    def n_evaluations(self) -> int:
        """Selected configurations times models."""
        return self.part.n_points * len(self.reduction.indices["model"])

    @cached_property
    def pieces(self) -> list[Piece]:
        """The pieces in order."""
        grid, by = self.selected.clocked, self.reduction.by
        order = [grid.names.index(name) for name in self.part.clocked.names]
        models = self.reduction.indices["model"].tolist()
        # With sizes as the inner loop only one or two of a launch's tables are large.
        limit = limits.LAUNCHES // (1 if self.inner else 2)
        if form_of(self._group([0] * len(self._axes)).shape) == "clocks":
            limit = limits.PIECE
        found: list[Piece] = []
        for chosen in np.ndindex(*(grid.shape[axis] for axis in self._axes)):
            places: dict[str, Any] = dict.fromkeys(by, 0) | {"model": np.arange(len(models))}
            places |= {grid.names[axis]: i for axis, i in zip(self._axes, chosen, strict=True)}
            groups = self.reduction.groups([places[name] for name in by])
            numbers = np.broadcast_to(groups, len(models)).tolist()
            for box in cut_box(self._group(chosen), limit):
                ends = (tuple(end[i] for i in order) for end in (box.start, box.stop))
                found.append(Piece(Box(*ends), tuple(zip(models, numbers, strict=True))))
        return found

    def positions(self, box: Box, model: int, n_outer: int) -> tuple[Array, Array]:
        """Return what indices outside the inner loop, and within, add to the position."""
        grid = self.whole.grid
        steps = accumulate(reversed(grid.shape), mul, initial=1)
        strides = dict(zip(reversed(grid.names), steps, strict=False))
        axes = [
            strides.get(name, 0) * self.reduction.indices.get(name, np.zeros(1, np.int64))[part]
            for name, part in zip(self.part.clocked.names, box.slices, strict=True)
        ]
        outer = np.zeros((n_outer, max([1, *map(len, axes[:n_outer])])), np.int64)
        for row, axis in zip(outer, axes[:n_outer], strict=True):
            row[: len(axis)] = axis
        inner = np.zeros(1, np.int64)
        for axis in axes[n_outer:]:
            inner = (inner[:, None] + axis).ravel()
        (outer[0] if n_outer else inner)[:] += model * grid.n_points
        return outer, inner

    def pairs(self) -> tuple[Array, Array]:
        """Return what each pair of clocks adds to the group's number, and to the position."""
        whole = self.part.clocked.whole
        inner = self.positions(whole, 0, len(whole.shape) - 2)[1]
        places = np.indices([len(self.reduction.indices[name]) for name in self.clocks])
        of_clock = dict(zip(self.clocks, places.reshape(len(self.clocks), -1), strict=True))
        nothing = np.zeros(inner.size, np.int64)
        return self.reduction.groups([of_clock.get(n, nothing) for n in self.reduction.by]), inner

    @cached_property
    def varying(self) -> dict[str, frozenset[str]]:
        """By model the inputs that vary along the inner loop of the form ``sizes`` in some piece.

        Where grids fill all multiprocessors fewer inputs vary than where they do not, and to
        compile a pass for either would take longer than to read what is constant as a row. Both
        ends of the first and of the last piece show both.
        """
        models = [self.plan.models[i] for i in self.reduction.indices["model"]]
        found: dict[str, frozenset[str]] = dict.fromkeys(models, frozenset())
        for piece in (self.pieces[0], self.pieces[-1]):
            start, stop = piece.box.start, piece.box.stop
            first, end = start[-3], stop[-3]
            for low, high in ((first, min(first + 2, end)), (max(end - 2, first), end)):
                box = Box((*start[:-3], low, *start[-2:]), (*stop[:-3], high, *stop[-2:]))
                tables = Tables(self.part, box)
                for name in found:
                    inputs = tables.inputs(self.plan, name)
                    found[name] |= set(pack(get_model(name), inputs, box, box, "sizes").varying)
        return found


class Accumulator:
    """What one thread keeps of the pieces that it reduces.

    Parameters
    ----------
    task : Task
        The question.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        # One for each model and group, also where models share a group: a pass counts on positions
        # that only rise, and those of one model follow those of the other.
        self._states: dict[tuple[int, int], reductions.State] = defaultdict(self._empty)
        self._steps = StepCache()
        self._rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._sources = tuple(v.source for v in task.variables)
        self._tiles = [np.empty(reductions.TILE, v.dtype) for v in task.variables]
        self._gathered = reductions.gathering(task.plan.precision)

    def add(self, piece: Piece) -> int:
        """Reduce a piece that follows all earlier ones; return its number of evaluations."""
        task = self.task
        tables = tables_of(task.part, piece.box, self._steps)
        for model, group in piece.models:
            name = task.plan.models[model]
            inputs = tables.inputs(task.plan, name)
            layout: dict[str, Any] = {"rows": self._rows[name]}
            if task.inner:
                layout |= {"form": "sizes", "spread": task.varying[name]}
            for block in [piece.box] if task.inner else blocks(piece.box):
                packed = pack(get_model(name), inputs, tables.box, block, **layout)
                self._pass(packed, block, model, self._states[model, group])
        return piece.box.n_points * len(piece.models)

    def _empty(self) -> reductions.State:
        task, keep, signs = self.task, self.task.reduction.keep, self.task.reduction.signs
        dtype = task.plan.precision
        if keep.is_count:
            return reductions.Counts(keep, len(self._sources))
        if task.keeps_each:
            return reductions.LeastOfEach(*task.pairs(), signs, dtype)
        if keep.kind == "front":
            return reductions.Front(signs, dtype, self._gathered)
        return reductions.Smallest(keep.n, signs, dtype)

    def _pass(self, packed: Packed, box: Box, model: int, state: reductions.State) -> None:
        """Reduce a block with one model."""
        task = self.task
        name, variant = task.plan.models[model], task.plan.variant
        compiled = get_pass(packed.read_by(name, variant, self._sources, state.keeps))
        positions = task.positions(box, model, packed.stride.shape[1])
        tile = 0
        while tile >= 0:
            with np.errstate(all="ignore"):
                tile = compiled(*packed.arguments, packed.n_rows, tile, *positions,
                                state.arguments, *self._tiles)  # fmt: skip
            state.make_room()

    def kept(self) -> list[Kept]:
        """Return what was kept; a group that models share has a part from each."""
        return [state.kept(group) for (_, group), state in self._states.items()]


def reduce_in_threads(
    task: Task, threads: int | None = None, progress: Progress | None = None
) -> list[Kept]:
    """Let each thread take pieces until none is left; return what all have kept.

    Parameters
    ----------
    task : Task
        The question.
    threads : int, optional
        How many; all cores by default.
    progress : callable, optional
        Receives how far it is.
    """
    waiting, lock = deque(task.pieces), threading.Lock()
    done = 0

    def work(mine: Accumulator) -> None:
        nonlocal done
        while True:
            with lock:
                piece = waiting.popleft() if waiting else None
            if piece is None:
                return
            points = mine.add(piece)
            with lock:
                done += points
                if progress is not None:
                    progress(done, task.n_evaluations)

    found = [Accumulator(task) for _ in range(threads or os.cpu_count() or 1)]
    with ThreadPoolExecutor(len(found), thread_name_prefix="sweep-reduce") as pool:
        try:
            list(pool.map(work, found))
        finally:
            with lock:  # after an error no thread starts another piece
                waiting.clear()
    return [kept for mine in found for kept in mine.kept()]

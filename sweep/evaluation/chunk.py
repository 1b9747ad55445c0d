"""Evaluation of a box of the grid, in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from sweep.compiler.passes import get_pass, get_plain_pass
from sweep.evaluation.memo import Memo, Workspace
from sweep.evaluation.tables import Shared, form_of, pack, pass_inputs, restrict
from sweep.evaluation.variables import Variable, variables
from sweep.evaluation.workloads import Launch, build_launch
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan, cut_box

__all__ = [
    "Buffers",
    "Maker",
    "Tables",
    "blocks",
    "canonical",
    "canonical_index",
    "canonical_parts",
    "evaluate_box",
    "fill_model",
    "is_small",
    "launch_values",
    "restrict",
    "tables_of",
    "varying_inputs",
    "warm_up",
    "with_last",
]

T = TypeVar("T")

WHOLE_TABLES = 500_000
"""Launch configurations, and clock pairs, up to which tables are computed once for the whole
grid."""
BLOCK = 1 << 18
"""Configurations of one call of a pass, except where tables are small beside results: bounds the
memory of tables that are spread over the inner loop's axes."""
TABLED = 1 << 20
"""Configurations without clocks whose tables are made at once. Where small grids make them depend
on every axis, those of a whole chunk are fresh memory that costs as much as ten evaluations."""

LAUNCH_SOURCES = (
    "occupancy",
    "active_blocks_per_sm",
    "active_warps_per_sm",
    "threads_per_block",
    "blocks",
    "occupancy_limiter",
)


def evaluate_box(
    space: KernelSpace,
    plan: Plan,
    box: Box,
    wanted: Sequence[Variable] | None = None,
    buffers: Buffers | None = None,
) -> dict[str, np.ndarray]:
    """Evaluate all models of a plan over a box.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant, precision and options.
    box : Box
        The part of the grid.
    wanted : sequence of Variable, optional
        What to compute; all variables of the plan by default.
    buffers : Buffers, optional
        Where results lie, filled as needed: the caller has done with the last box's results when
        it evaluates the next with the same buffers. Fresh memory costs as much as the evaluation.

    Returns
    -------
    dict
        Variable name to array with the variable's dimensions, in the plan's precision.
    """
    wanted = tuple(variables(space, plan) if wanted is None else wanted)
    n_models = len(plan.models)
    result: dict[str, np.ndarray] = {}
    for variable in wanted:
        shape = box.shape
        if is_launched(variable):
            dimensions = zip(space.grid.dimensions, box.shape, strict=True)
            shape = tuple(n for d, n in dimensions if d.kind not in ("core", "memory"))
        elif variable.model is None:
            shape = (n_models, *shape)
        result[variable.name] = _memory(variable, shape, buffers)
    for part in _tabled(space, box):
        inside = tuple(
            slice(a - start, b - start)
            for a, b, start in zip(part.start, part.stop, box.start, strict=True)
        )
        _fill(space, plan, part, inside, wanted, result, None if buffers is None else buffers.make)
    return result


def is_launched(variable: Variable) -> bool:
    """Whether only the launch decides a variable: it has neither models nor clocks."""
    return variable.source in LAUNCH_SOURCES and variable.model is None


def _tabled(space: KernelSpace, box: Box) -> list[Box]:
    """Return the parts of a box, in order, whose tables are made at once."""
    if is_small(space) or form_of(canonical(space, box)) == "clocks":
        return [box]
    return list(cut_box(box, TABLED))


def _fill(
    space: KernelSpace,
    plan: Plan,
    part: Box,
    inside: tuple[slice, ...],
    wanted: Sequence[Variable],
    result: Mapping[str, np.ndarray],
    make: Maker | None,
) -> None:
    """Fill the part of a box's results that lies at ``inside``."""
    shape = canonical(space, part)
    tables = tables_of(space, plan, part, make)
    for variable in filter(is_launched, wanted):
        values = result[variable.name]
        values[inside[: values.ndim]] = _launch_variable(variable, tables.launch, tables.index[:-2])
    for i, name in enumerate(plan.models):
        outputs, arrays = [], []
        for variable in wanted:
            if variable.source in LAUNCH_SOURCES or variable.model not in (None, name):
                continue
            array = result[variable.name]
            outputs.append(variable.source)
            arrays.append((array if variable.model else array[i])[inside])
        if outputs:
            fill_model(tables.inputs(name), plan, name, shape, tuple(outputs), arrays)


def _memory(variable: Variable, shape: tuple[int, ...], buffers: Buffers | None) -> np.ndarray:
    """Return an array for a variable's results, its content arbitrary."""
    if buffers is None:
        return np.empty(shape, variable.dtype)
    size = math.prod(shape)
    held = buffers.get(variable.name)
    if held is None or held.size < size:
        held = buffers[variable.name] = np.empty(size, variable.dtype)
    return held[:size].reshape(shape)


class Tables:
    """Tables of all models over a box, each computed when it is first asked for."""

    def __init__(
        self,
        space: KernelSpace,
        plan: Plan,
        box: Box,
        memo: Memo | None = None,
        workspace: Workspace | None = None,
        last: int | None = None,
    ) -> None:
        self.space, self.plan, self.box = space, plan, box
        self.index = tuple(slice(0, n) for n in with_last(canonical(space, box), last))
        self.launch: Launch = build_launch(space, box, memo, workspace, last)
        self._inputs: dict[str, Mapping[str, np.ndarray]] = {}

    def inputs(self, name: str) -> Mapping[str, np.ndarray]:
        """Return a model's inputs by name."""
        # Two threads may both compute them the first time: the same numbers, no lock needed.
        if name not in self._inputs:
            options = self.plan.options.get(name, {})
            self._inputs[name] = pass_inputs(
                self.space, self.box, self.launch, get_model(name), self.plan.variant, options
            )
        return self._inputs[name]


class _Part:
    """A box's view of tables over the whole grid."""

    def __init__(self, whole: Tables, index: tuple[slice, ...]) -> None:
        self.launch, self._whole, self.index = whole.launch, whole, index

    def inputs(self, name: str) -> Mapping[str, np.ndarray]:
        return {
            key: table[restrict(table, self.index)]
            for key, table in self._whole.inputs(name).items()
        }


def canonical_parts(space: KernelSpace, parts: Sequence[T], absent: T) -> tuple[T, ...]:
    """Return something per dimension of the grid with both clocks, last, always present."""
    kinds = [d.kind for d in space.grid.dimensions]
    found = [p for p, kind in zip(parts, kinds, strict=True) if kind not in ("core", "memory")]
    for clock in ("core", "memory"):
        found.append(parts[kinds.index(clock)] if clock in kinds else absent)
    return tuple(found)


def canonical_index(space: KernelSpace, box: Box) -> tuple[slice, ...]:
    """Return a box as slices over the grid's axes with both clocks present."""
    return canonical_parts(space, box.slices, slice(0, 1))


def canonical(space: KernelSpace, box: Box) -> tuple[int, ...]:
    """Return a box's extent along the grid's axes with both clocks present."""
    return canonical_parts(space, box.shape, 1)


def with_last(parts: tuple[T, ...], last: int | None) -> tuple[T, ...]:
    """Return something per axis with one axis moved to the end, before the clocks."""
    if last is None:
        return parts
    return (*parts[:last], *parts[last + 1 : -2], parts[last], *parts[-2:])


@lru_cache(maxsize=2)  # work goes kernel by kernel: the one before and the one at hand
def _whole_tables(key: _Key) -> Tables:
    return Tables(key.space, key.plan, key.space.grid.whole)


class _Key:
    """A space and plan as a cache key, compared by identity: both are immutable."""

    def __init__(self, space: KernelSpace, plan: Plan) -> None:
        self.space, self.plan = space, plan

    def __hash__(self) -> int:
        return hash((id(self.space), id(self.plan)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.space is self.space and other.plan is self.plan


def is_small(space: KernelSpace) -> bool:
    """Whether tables over the whole grid take little memory."""
    whole = canonical(space, space.grid.whole)
    launches, pairs = math.prod(whole[:-2]), whole[0] * math.prod(whole[-2:])
    return max(launches, pairs) <= WHOLE_TABLES


class Maker:
    """Makes the tables of one box after another, and does again only what has changed.

    For one thread, and what it makes is valid until it makes the next.
    """

    def __init__(self) -> None:
        self._memo, self._workspace = Memo(), Workspace()

    def __call__(self, space: KernelSpace, plan: Plan, box: Box, last: int | None = None) -> Tables:
        """Return the tables of a box, whose axis ``last`` comes after all others but the clocks."""
        return Tables(space, plan, box, self._memo, self._workspace, last)


class Buffers(dict[str, np.ndarray]):
    """Memory of results, by variable, to be used again for the next box, and of its tables."""

    def __init__(self) -> None:
        super().__init__()
        self.make = Maker()


def tables_of(
    space: KernelSpace, plan: Plan, box: Box, make: Maker | None = None
) -> Tables | _Part:
    """Return the tables of a box; small ones are those of the whole grid, computed once."""
    if not is_small(space):
        return (make or Maker())(space, plan, box)
    return _Part(_whole_tables(_Key(space, plan)), canonical_index(space, box))


def varying_inputs(
    space: KernelSpace, plan: Plan, box: Box, name: str, last: int
) -> frozenset[str]:
    """Return a model's inputs that vary along the inner loop of the form ``sizes`` in some boxes.

    Where grids fill all multiprocessors fewer inputs vary than where they do not, and to compile a
    pass for either would take longer than to read what is constant as a row. The grid's two ends
    tell.

    Parameters
    ----------
    space, plan
        What is evaluated.
    box : Box
        As large as the boxes will be.
    name : str
        The model's.
    last : int
        The dimension of the inner loop.
    """
    shape = [*box.shape[:last], min(2, box.shape[last]), *box.shape[last + 1 :]]
    found: set[str] = set()
    for corner in (0, 1):
        start = tuple(corner * (n - m) for n, m in zip(space.grid.shape, shape, strict=True))
        end = Box(start, tuple(a + m for a, m in zip(start, shape, strict=True)))
        tables = Tables(space, plan, end, last=last)
        whole = with_last(canonical(space, end), last)
        found.update(pack(tables.inputs(name), get_model(name), whole, "sizes").varying)
    return frozenset(found)


def launch_values(variable: Variable, launch: Launch) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of a variable that only the launch decides, and the launch's status."""
    work = launch.workload
    name = "limiter" if variable.source == "occupancy_limiter" else variable.source
    return getattr(work.occupancy if hasattr(work.occupancy, name) else work, name), launch.status


def _launch_variable(variable: Variable, launch: Launch, index: tuple[slice, ...]) -> np.ndarray:
    """Return a variable that only the launch decides, spread over its dimensions."""
    values, status = (
        t[..., 0, 0][restrict(t[..., 0, 0], index)] for t in launch_values(variable, launch)
    )
    values = np.where(status == 0, values, 0 if variable.is_code else np.nan)
    return np.broadcast_to(values, tuple(s.stop - s.start for s in index))


def fill_model(
    inputs: Mapping[str, np.ndarray],
    plan: Plan,
    name: str,
    shape: tuple[int, ...],
    outputs: tuple[str, ...],
    arrays: list[np.ndarray],
    form: str | None = None,
    is_compiled: bool = True,
) -> None:
    """Fill the output arrays of one model over a box, block by block."""
    model, shared = get_model(name), Shared()
    for index in blocks(shape):
        packed = shared.pack(inputs, model, index, index, form)
        get = get_pass if is_compiled else get_plain_pass
        fill = get(name, plan.variant, packed.form, outputs, packed.length)
        rows = (packed.n_rows, packed.n_inner)
        views = [array.reshape(shape)[index].reshape(rows) for array in arrays]
        with np.errstate(all="ignore"):
            fill(*packed.arguments, *views)


def blocks(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Cut a box along its first axes into contiguous blocks of at most BLOCK points.

    A box with launches besides clocks is one block: its tables have a number for each launch and
    for each pair of clocks, its results for each of both.
    """
    whole = Box((0,) * len(shape), shape)
    is_one = form_of(shape) == "clocks" and math.prod(shape[-2:]) <= 2 * BLOCK
    if is_one or whole.n_points <= BLOCK:
        return [whole.slices]
    return [box.slices for box in cut_box(whole, BLOCK)]


def warm_up(spaces: Sequence[KernelSpace], plan: Plan) -> None:
    """Compile every pass that a run will need, before the clock starts."""
    for space in spaces:
        dimensions = zip(space.grid.dimensions, space.grid.box(0).stop, strict=True)
        # The form of a pass follows from the number of clocks.
        stop = tuple(n if d.kind in ("core", "memory") else 1 for d, n in dimensions)
        evaluate_box(space, plan, Box((0,) * len(stop), stop))

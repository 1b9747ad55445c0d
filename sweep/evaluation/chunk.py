"""Evaluation of a box of the grid, in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sweep.compiler.passes import get_pass, get_plain_pass
from sweep.evaluation import limits
from sweep.evaluation.launch import Launch
from sweep.evaluation.packing import Packer, form_of
from sweep.evaluation.step_cache import StepCache
from sweep.evaluation.tables import Index, canonical, is_small, restrict, tables_of
from sweep.evaluation.variables import Variable, variables
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan, cut_box

__all__ = ["Buffers", "blocks", "evaluate_box", "fill_model", "launch_values", "warm_up"]


class Buffers(dict[str, np.ndarray]):
    """Memory of results by variable, used again for the next box; and the cache of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = StepCache()

    def array(self, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array for a variable's results, its content arbitrary."""
        size = math.prod(shape)
        held = self.get(variable.name)
        if held is None or held.size < size:
            held = self[variable.name] = np.empty(size, variable.dtype)
        return held[:size].reshape(shape)


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
        Memory for the results: those of the last box with the same buffers are overwritten. Fresh
        memory costs as much as the evaluation.

    Returns
    -------
    dict
        Variable name to array with the variable's dimensions, in the plan's precision.
    """
    wanted = tuple(variables(space, plan) if wanted is None else wanted)
    buffers = Buffers() if buffers is None else buffers
    result: dict[str, np.ndarray] = {}
    for variable in wanted:
        shape = box.shape
        if variable.is_launch:
            dimensions = zip(space.grid.dimensions, box.shape, strict=True)
            shape = tuple(n for d, n in dimensions if d.kind not in ("core", "memory"))
        elif variable.model is None:
            shape = (len(plan.models), *shape)
        result[variable.name] = buffers.array(variable, shape)
    for part in _table_boxes(space, box):
        inside = tuple(
            slice(a - start, b - start)
            for a, b, start in zip(part.start, part.stop, box.start, strict=True)
        )
        _fill(space, plan, part, inside, wanted, result, buffers.steps)
    return result


def _table_boxes(space: KernelSpace, box: Box) -> list[Box]:
    """Return the parts of a box, in order, whose tables are made together."""
    if is_small(space) or form_of(canonical(space, box)) == "clocks":
        return [box]
    return list(cut_box(box, limits.LAUNCHES))


def _fill(
    space: KernelSpace,
    plan: Plan,
    part: Box,
    inside: Index,
    wanted: Sequence[Variable],
    result: Mapping[str, np.ndarray],
    steps: StepCache,
) -> None:
    """Fill the part of a box's results at ``inside``."""
    shape = canonical(space, part)
    tables = tables_of(space, part, steps)
    for variable in wanted:
        if variable.is_launch:
            values = result[variable.name]
            values[inside[: values.ndim]] = _launch_variable(
                variable, tables.launch, tables.index[:-2]
            )
    for i, name in enumerate(plan.models):
        own = [v for v in wanted if not v.is_launch and v.model in (None, name)]
        if own:
            arrays = [(result[v.name] if v.model else result[v.name][i])[inside] for v in own]
            outputs = tuple(v.source for v in own)
            fill_model(tables.inputs(plan, name), plan, name, shape, outputs, arrays)


def launch_values(variable: Variable, launch: Launch) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of a variable that only the launch decides, and the launch's status."""
    work = launch.workload
    name = "limiter" if variable.source == "occupancy_limiter" else variable.source
    return getattr(work.occupancy if hasattr(work.occupancy, name) else work, name), launch.status


def _launch_variable(variable: Variable, launch: Launch, index: Index) -> np.ndarray:
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
    pack = Packer(get_model(name))
    for index in blocks(shape):
        packed = pack(inputs, index, form=form)
        get = get_pass if is_compiled else get_plain_pass
        fill = get(name, plan.variant, packed.form, outputs, packed.length)
        rows = (packed.n_rows, packed.n_inner)
        views = [array.reshape(shape)[index].reshape(rows) for array in arrays]
        with np.errstate(all="ignore"):
            fill(*packed.arguments, *views)


def blocks(shape: tuple[int, ...]) -> list[Index]:
    """Cut a box along its first axes into contiguous blocks of at most BLOCK points.

    A box with launches besides clocks is one block: its tables have a number for each launch and
    for each pair of clocks, its results for each of both.
    """
    whole = Box((0,) * len(shape), shape)
    if form_of(shape) == "clocks" and math.prod(shape[-2:]) <= 2 * limits.BLOCK:
        return [whole.slices]
    return [box.slices for box in cut_box(whole, limits.BLOCK)]


def warm_up(spaces: Sequence[KernelSpace], plan: Plan) -> None:
    """Compile every pass that a run will need, before the clock starts."""
    for space in spaces:
        dimensions = zip(space.grid.dimensions, space.grid.box(0).stop, strict=True)
        # The form of a pass follows from the number of clocks.
        stop = tuple(n if d.kind in ("core", "memory") else 1 for d, n in dimensions)
        evaluate_box(space, plan, Box((0,) * len(stop), stop))

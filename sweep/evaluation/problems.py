"""Times of one kernel's configurations for a list of problems, which no grid of sizes holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known
from sweep.evaluation.chunk import Buffers, evaluate_box
from sweep.evaluation.reducing import Progress
from sweep.evaluation.variables import variables
from sweep.expressions import Expression
from sweep.fields import PROBLEM, STACKED, Array
from sweep.space import CLOCK_AXES, Box, Dimension, Grid, KernelSpace, Plan, Space, resolve
from sweep.space.grid import Configurations
from sweep.space.space import laid_out

POINTS = 1 << 18
"""Problems times configurations of a batch."""


@dataclass(frozen=True, eq=False)
class Problems:
    """One kernel on one device by one model, over listed problems and configurations.

    Attributes
    ----------
    space : KernelSpace
        The kernel with the sizes that are the same for all problems.
    plan : Plan
        The model, its variant and options.
    sizes : mapping of str to array
        A number for each problem.
    dimension : Dimension
        The configurations that are evaluated for every problem.
    buffers : Buffers
        What evaluations of the same configurations share.

    Examples
    --------
    >>> from sweep.space import Plan
    >>> plan = Plan(["vector_add"], ["gtx_980_paper"], ["wang_chu"])
    >>> listed = Problems.of(plan, {"n": np.array([1 << 20, 1 << 24])})
    >>> times = listed.times()
    >>> times.shape == (2, len(listed.configurations)), bool((times[0] < times[1]).all())
    (True, True)
    """

    space: KernelSpace
    plan: Plan
    sizes: Mapping[str, Array]
    dimension: Dimension
    buffers: Buffers = field(default_factory=lambda: Buffers(for_spaces=True))

    @classmethod
    def of(
        cls,
        source: Plan | Space,
        sizes: Mapping[str, Array],
        *,
        select: Mapping[str, Any] | None = None,
        configurations: Mapping[str, Array] | None = None,
    ) -> Problems:
        """Return the problems of a plan's kernel.

        Parameters
        ----------
        source : Plan or Space
            Constraints, values of parameters and clocks are its own; its values of the problems'
            sizes do not matter.
        sizes : mapping of str to array
            A number for each problem, by the kernel's names.
        select : mapping, optional
            ``kernel``, ``device``, ``model``, sizes, parameters and clocks to value, list of values
            or range (a pair), as in :func:`sweep.best`.
        configurations : mapping of str to array, optional
            Values of the kernel's parameters, one for each configuration; a parameter that is
            missing has a single value. By default the plan's.

        Raises
        ------
        QueryError
            A name is unknown, something has several values, or no configuration is left.
        """
        space, plan = narrowed(source, tuple(sizes), dict(select or {}))
        dimension = _stacked(space)
        if configurations is not None:
            dimension = _rows(_listed(space, dimension, configurations))
        return cls(space, plan, dict(sizes), dimension)

    def with_sizes(self, sizes: Mapping[str, Array]) -> Problems:
        """Return the same configurations for other problems, which is fast if there are few.

        Only one thread at a time may evaluate one of both.
        """
        return replace(self, sizes=dict(sizes))

    @property
    def configurations(self) -> Configurations:
        """The configurations that are evaluated for every problem."""
        assert self.dimension.stacked is not None
        return self.dimension.stacked

    def __len__(self) -> int:
        return len(next(iter(self.sizes.values())))

    @cached_property
    def _grid(self) -> KernelSpace:
        """The product of problems and configurations."""
        problems = Dimension.listed(PROBLEM, Configurations.of(self.sizes))
        return _with_dimensions(self.space, problems, self.dimension)

    def times(self) -> Array:
        """Return the times of all configurations for all problems [s].

        Returns
        -------
        array
            A row for each problem, a column for each configuration; NaN where there is no time.
        """
        return np.concatenate([times.copy() for _, times in self.batches()])

    def batches(self, progress: Progress | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield ranges of problems with their times, as :meth:`times` has them.

        A batch is overwritten by the next one.

        Parameters
        ----------
        progress : callable, optional
            Receives how many evaluations are done, of how many.
        """
        space, wide = self._grid, len(self.configurations)
        step = max(1, POINTS // wide)
        for part, found in _in_parts(space, self.plan, len(self), step, self.buffers):
            yield part, found.reshape(-1, wide)
            if progress is not None:
                progress(part.stop * wide, len(self) * wide)


def times_of_rows(
    problems: Problems, sizes: Mapping[str, Array], parameters: Mapping[str, Array]
) -> tuple[Array, Array]:
    """Return the times of pairs of a problem and a configuration.

    Parameters
    ----------
    problems : Problems
        The kernel; its problems do not matter, and its configurations give what all rows share.
    sizes, parameters : mapping of str to array
        A number for each row.

    Returns
    -------
    times : array
        A time for each row [s], NaN where there is none.
    distinct : array
        For each row the number of its configuration among the different ones.
    """
    columns = _listed(problems.space, problems.dimension, parameters)
    _, configuration = distinct_rows(columns)
    first, problem = distinct_rows(sizes)
    wanted, configurations = len(problem), int(configuration.max(initial=0)) + 1
    if len(first) * configurations <= 4 * wanted:  # the product is not much more than the rows
        chosen = np.unique(configuration, return_index=True)[1]
        some = replace(
            problems,
            sizes={name: np.asarray(column)[first] for name, column in sizes.items()},
            dimension=_rows({n: c[chosen] for n, c in columns.items()}),
        )
        return some.times()[problem, configuration], configuration
    space = _with_dimensions(problems.space, _rows({**sizes, **columns}))
    parts = _in_parts(space, problems.plan, wanted, POINTS, Buffers())
    return np.concatenate([found.flatten() for _, found in parts]), configuration


def _in_parts(
    space: KernelSpace, plan: Plan, n: int, step: int, buffers: Buffers
) -> Iterator[tuple[slice, Array]]:
    """Yield ranges of the second dimension of a space, and the times there."""
    time = [v for v in variables(space, plan) if v.name == "execution_time"]
    rest = space.grid.shape[2:]
    for start in range(0, n, step):
        stop = min(start + step, n)
        box = Box((0, start, *(0 for _ in rest)), (1, stop, *rest))
        yield slice(start, stop), evaluate_box(space, plan, box, time, buffers)["execution_time"]


def _rows(columns: Mapping[str, Array]) -> Dimension:
    return Dimension.listed(STACKED, Configurations.of(columns))


def _with_dimensions(space: KernelSpace, *dimensions: Dimension) -> KernelSpace:
    """Return a kernel over the device, some dimensions and the clocks."""
    device, *_, core, memory = space.clocked.dimensions
    return replace(space, grid=Grid((device, *dimensions, core, memory)))


# ---------------------------------------------------------------------------- lists


def distinct_rows(columns: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the first of each set of equal rows, and for each row the number of its set."""
    numbers: Array = np.zeros(len(next(iter(columns.values()))), np.int64)
    for column in columns.values():
        values, own = np.unique(np.asarray(column), return_inverse=True)
        # Renumbered at every step: the product of all lengths may exceed an integer.
        numbers = np.unique(numbers * len(values) + own, return_inverse=True)[1]
    return np.unique(numbers, return_index=True)[1], numbers


def _stacked(space: KernelSpace) -> Dimension:
    """Return the configurations of a space with one dimension for all parameters."""
    for dimension in space.grid.dimensions:
        if dimension.name == STACKED:
            return dimension
    raise QueryError(f"kernel '{space.kernel.key}' has no tuning parameters")


def _listed(
    space: KernelSpace, dimension: Dimension, columns: Mapping[str, Array]
) -> dict[str, Array]:
    """Return all parameters of given configurations; those that are not given have one value."""
    known = dimension.stacked
    assert known is not None
    full: dict[str, Array] = {}
    n = len(next(iter(columns.values())))
    for name, values in known.axes.items():
        if name in columns:
            full[name] = np.asarray(columns[name])
            continue
        several = np.unique(known.column(name))
        if len(several) > 1:
            texts = ", ".join(map(str, several[:6].tolist()))
            raise QueryError(
                f"kernel '{space.kernel.key}' has {len(several)} values of {name} ({texts}), which"
                f" the table lacks: select one with {name}=VALUE"
            )
        full[name] = np.full(n, several[0] if len(several) else values[0])
    return full


# ---------------------------------------------------------------------------- the plan


def narrowed(
    source: Plan | Space, sizes: Sequence[str], select: dict[str, Any]
) -> tuple[KernelSpace, Plan]:
    """Return one kernel on one device, and a plan of one model, with all parameters in a list.

    Parameters
    ----------
    source : Plan or Space
        What to take them from.
    sizes : sequence of str
        Sizes and parameters that problems have of their own.
    select : dict
        As in :meth:`Problems.of`.

    Raises
    ------
    QueryError
        A name is unknown, or something has several values.
    """
    whole = laid_out(source)
    by_key = {one.kernel.key: one for one in whole.kernels}
    space = by_key[_one("kernel", list(by_key), select.pop("kernel", None))]
    kernel = space.kernel
    devices = {device.key: device for device in space.devices}
    device = devices[_one("device", list(devices), select.pop("device", None))]
    model = _one("model", list(whole.plan.models), select.pop("model", None))
    for name in sizes:
        if name not in kernel.parameters:
            what = f"kernel '{kernel.key}' has no problem size '{name}'"
            check_known(name, kernel.sizes, what, "it has")
    axes = _axes(space, sizes, select)
    own = {constraint.text for constraint in space.constraints}
    texts = {Expression.parse(text).text: text for text in whole.plan.constraints}
    plan = replace(
        whole.plan,
        kernels=(kernel.key,),
        devices=(device.key,),
        models=(model,),
        axes={},
        kernel_axes={kernel.key: axes},
        problems={name: kernel.parameters.get(name, (1,))[:1] for name in sizes} or None,
        constraints=tuple(text for parsed, text in texts.items() if parsed in own),
        options={name: o for name, o in whole.plan.options.items() if name == model},
        outputs=("execution_time",),
        precision="float64",
        layout="stacked",
        chunk_points=None,
    )
    given = {"kernels": {kernel.key: kernel.text}, "devices": {device.key: device.text}}
    found = resolve(plan, given).kernels[0]
    shared = {d.name: d.values[0] for d in found.grid.dimensions if d.kind == "size"}
    return replace(found, fixed={**found.fixed, **shared}), plan


def _one(what: str, known: Sequence[str], wanted: Any) -> str:
    """Return the only one of some names, or the wanted one."""
    if wanted is None:
        if len(known) > 1:
            raise QueryError(
                f"there are several {what}s ({', '.join(known)}): select one with {what}=NAME"
            )
        return known[0]
    check_known(wanted, known, f"no {what} '{wanted}'", "there is")
    return str(wanted)


def _axes(space: KernelSpace, sizes: Sequence[str], select: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes of a kernel: all its parameters, and one value of everything else."""
    found: dict[str, Any] = {}
    known: dict[str, tuple[Any, ...]] = {}
    tuned = set(space.kernel.parameters)
    for dimension in space.grid.dimensions[1:]:
        for axis in dimension.axes:
            known[axis.name] = tuple(axis.values)
            tuned -= {axis.name} if dimension.kind == "problem" else set()
    fixed = {name: (value,) for name, value in space.fixed.items()}
    for name in select:
        if name not in CLOCK_AXES:
            check_known(name, (*known, *fixed), f"kernel '{space.kernel.key}' has no '{name}'")
    for name, values in {**fixed, **known}.items():
        if name in sizes:
            continue
        kept = values
        if name in select:
            of_size = name in space.kernel.sizes
            kept = selected_values(name, values, select[name], anything=of_size)
        if name not in tuned and len(kept) > 1:
            raise QueryError(
                f"{name} has {len(kept)} values, and the problems have none: select one with"
                f" {name}=VALUE"
            )
        if name in known or name in select:
            found[name] = kept
    for name in (n for n in select if n in CLOCK_AXES and n not in known):
        found[name] = selected_values(name, (), select[name], anything=True)
    return found


def selected_values(
    name: str, values: Sequence[Any], wanted: Any, *, anything: bool = False, of: str = "the plan"
) -> tuple[Any, ...]:
    """Return the selected values of an axis; with ``anything`` also values that are not its own.

    ``of`` says in an error what has the axis.
    """
    if isinstance(wanted, tuple):
        low = -math.inf if wanted[0] is None else wanted[0]
        high = math.inf if wanted[1] is None else wanted[1]
        kept = tuple(value for value in values if low <= value <= high)
    else:
        several = wanted if isinstance(wanted, list) else [wanted]
        kept = tuple(several) if anything else tuple(v for v in values if v in several)
    if not kept:
        raise QueryError(f"{name}={wanted}: {of} has none of these values")
    return kept

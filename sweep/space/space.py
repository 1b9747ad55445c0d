"""A plan with its specs: everything that is known before anything is computed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from sweep.errors import PlanError, SpecError, check_known, nearest
from sweep.expressions import Expression
from sweep.fields import PROBLEM, STACKED
from sweep.models import get_model, model_names
from sweep.space.completing import with_derived
from sweep.space.grid import CLOCK_AXES, Box, Configurations, Dimension, Grid
from sweep.space.plan import Plan, load_plan
from sweep.space.valid import Names, spread, valid_configurations
from sweep.specs import (
    DEVICE_NAMES,
    Device,
    Kernel,
    check_model_parameters,
    load_device,
    load_kernel,
    parse_device,
    parse_kernel,
)
from sweep.specs.names import LAUNCH_NAMES

Spec = TypeVar("Spec", Device, Kernel)


SMALL = 10_000
"""Points of the parameters' product up to which it is a grid whatever its conditions: dimensions
are handier than a list, and cost nothing."""

SHARE = 0.5
"""Least share of valid points of a larger grid."""

SAMPLE = 1 << 14
"""Points of the product that are tested to estimate the share."""


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """One kernel's share of a space: its grid over the devices, and what stays fixed.

    Spaces are compared by identity, so that tables can be cached by their space.

    Attributes
    ----------
    kernel : Kernel
        The workload.
    devices : tuple of Device
        Along the ``device`` dimension.
    grid : Grid
        All configurations.
    fixed : mapping
        Problem sizes that are not swept.
    constraints : tuple of Expression
        The kernel file's and the plan's.
    """

    kernel: Kernel
    devices: tuple[Device, ...]
    grid: Grid
    fixed: Mapping[str, float]
    constraints: tuple[Expression, ...]

    @property
    def n_points(self) -> int:
        """Configurations (devices included, models not)."""
        return self.grid.n_points

    @cached_property
    def clocked(self) -> Grid:
        """The grid with both clocks as the last dimensions; one that is not swept is nominal."""
        dimensions = {d.kind: d for d in self.grid.dimensions if d.is_clock}
        clocks = [dimensions.get(kind, Dimension(f"{kind}_clock_ratio", (1.0,), kind))
                  for kind in ("core", "memory")]  # fmt: skip
        launch = (d for d in self.grid.dimensions if not d.is_clock)
        return Grid((*launch, *clocks), self.grid.chunk_points)

    def clocked_box(self, box: Box) -> Box:
        """Return a box of the grid as a box of :attr:`clocked`."""
        ranges = dict(zip(self.grid.names, zip(box.start, box.stop, strict=True), strict=True))
        return Box(*zip(*(ranges.get(name, (0, 1)) for name in self.clocked.names), strict=True))

    def restricted(
        self, indices: Mapping[str, Sequence[int] | np.ndarray[Any, Any]]
    ) -> KernelSpace:
        """Return the same kernel over some of the values of some dimensions.

        Parameters
        ----------
        indices : mapping
            Dimension to the numbers of the values to keep; others stay whole.
        """
        dimensions = tuple(
            d.taken(indices[d.name]) if d.name in indices else d for d in self.grid.dimensions
        )
        kept = indices.get("device", range(len(self.devices)))
        devices = tuple(self.devices[i] for i in kept)
        return replace(self, devices=devices, grid=replace(self.grid, dimensions=dimensions))

    def listed(self, places: np.ndarray[Any, Any]) -> KernelSpace:
        """Return the same kernel over a list of launches, in place of their product.

        Parameters
        ----------
        places : array
            For each dimension between device and clocks of :attr:`clocked` a row with the numbers
            of its values, a column for each launch.
        """
        device, *launch, core, memory = self.clocked.dimensions
        axes: dict[str, Any] = {}
        indices: dict[str, Any] = {}
        for dimension, place in zip(launch, places, strict=True):
            held = dimension.stacked or Configurations(
                {dimension.name: dimension.values}, {dimension.name: np.arange(len(dimension))}
            )
            axes |= held.axes
            indices |= {name: index[place] for name, index in held.indices.items()}
        numbers: Any = range(places.shape[1])  # also where nothing but the clocks varies
        stacked = Dimension(STACKED, numbers, STACKED, Configurations(axes, indices))
        return replace(self, grid=replace(self.grid, dimensions=(device, stacked, core, memory)))

    @lru_cache(maxsize=4)  # noqa: B019 - one space for all boxes, so that they can share steps
    def with_last(self, name: str) -> KernelSpace:
        """Return the same kernel with a dimension moved behind all others but the clocks."""
        dimensions = sorted(self.grid.dimensions, key=lambda d: (d.is_clock, d.name == name))
        return replace(self, grid=replace(self.grid, dimensions=tuple(dimensions)))


@dataclass(frozen=True)
class Space:
    """All configurations of a plan."""

    plan: Plan
    devices: tuple[Device, ...]
    kernels: tuple[KernelSpace, ...]

    @property
    def n_points(self) -> int:
        """Configurations over all kernels; each is evaluated by every model."""
        return sum(kernel.n_points for kernel in self.kernels)

    @property
    def n_evaluations(self) -> int:
        """Model evaluations: configurations times models."""
        return self.n_points * len(self.plan.models)

    def __getitem__(self, key: str) -> KernelSpace:
        """Return one kernel's space by the kernel's name."""
        spaces = {space.kernel.key: space for space in self.kernels}
        if key not in spaces:
            raise PlanError(f"no kernel '{key}' in the plan{nearest(key, spaces)}")
        return spaces[key]


def resolve(
    plan: Plan,
    texts: Mapping[str, Mapping[str, str]] | None = None,
    kernel_of: Callable[[str], Kernel] = load_kernel,
) -> Space:
    """Load the specs that a plan names and lay out its grids.

    Parameters
    ----------
    plan : Plan
        The plan.
    texts : mapping, optional
        ``{"devices": {key: TOML text}, "kernels": {...}}`` to use in place of files: a store
        keeps these, so that its results can be computed again without the original files.
    kernel_of : callable, optional
        Loads a kernel by the name in the plan.

    Raises
    ------
    PlanError, SpecError
        A spec is missing or wrong, or the plan has an axis, an option or a constraint that fits
        none of its kernels.
    """
    devices = _specs(plan, "devices", texts, load_device, parse_device)
    kernels = _specs(plan, "kernels", texts, kernel_of, parse_kernel)
    for name in plan.models:
        _check_model(plan, name, devices)
    if plan.derive:
        # For all models, not the plan's alone: a rule may read what another model's rule gives.
        devices = tuple(with_derived(device, model_names()) for device in devices)
    if plan.power_limit is not None and not any("power.static" in d.values for d in devices):
        reason = "none of the devices has [power], and without it no clock can be lowered"
        raise PlanError(f"{plan.origin}: power_limit = {plan.power_limit:g} W: {reason}")
    _check_axes(plan, kernels)
    spaces = tuple(_kernel_space(plan, kernel, devices) for kernel in kernels)
    _check_constraints(plan, kernels)
    return Space(plan, devices, spaces)


def laid_out(plan: Plan | Space | str | os.PathLike[str]) -> Space:
    """Return the space of a plan, or of the name or path of one; a space as it is."""
    if isinstance(plan, Space):
        return plan
    return resolve(plan if isinstance(plan, Plan) else load_plan(plan))


def _specs(
    plan: Plan,
    kind: str,
    texts: Mapping[str, Mapping[str, str]] | None,
    load: Callable[[str], Spec],
    parse: Callable[[str, str], Spec],
) -> tuple[Spec, ...]:
    """Return the specs of a kind; an error says which plan asked for it."""
    if texts is not None:
        found = tuple(parse(text, key) for key, text in texts[kind].items())
    else:
        try:
            found = tuple(load(plan.place_of(name)) for name in getattr(plan, kind))
        except SpecError as error:
            raise SpecError(f"{plan.origin}: {kind}: {error}") from None
    if len({spec.key for spec in found}) < len(found):
        raise PlanError(f"{plan.origin}: {kind}: two of the files have the same name")
    return found


def _check_model(plan: Plan, name: str, devices: tuple[Device, ...]) -> None:
    model = get_model(name)
    for option, value in plan.options.get(name, {}).items():
        if option not in model.options:
            hint = nearest(option, model.options)
            known = f" (known: {', '.join(model.options)})" if model.options else ""
            raise PlanError(
                f"{plan.origin}: options.{name}.{option}: unknown option{hint}"
                + (known or f"; {name} has none")
            )
        if value not in model.options[option]:
            raise PlanError(
                f"{plan.origin}: options.{name}.{option} = {value!r}: "
                f"one of {', '.join(model.options[option])}"
            )
    for device in devices:
        check_model_parameters(device, name, model.parameters)
        for other in device.model_parameters:
            what = f"device '{device.key}': [model.{other}]: unknown model"
            check_known(other, model_names(), what, error=PlanError)


def _own_names(kernel: Kernel) -> tuple[str, ...]:
    return (*kernel.sizes, *kernel.parameters)


def _known_names(kernel: Kernel) -> set[str]:
    return {*_own_names(kernel), *kernel.derived, *LAUNCH_NAMES, *DEVICE_NAMES}


def _check_axes(plan: Plan, kernels: tuple[Kernel, ...]) -> None:
    """Every axis must be a clock, or belong to at least one kernel."""
    own = {kernel.key: _own_names(kernel) for kernel in kernels}
    tables = [("axes", plan.axes, [name for names in own.values() for name in names],
               "no kernel of the plan has this parameter or size")]  # fmt: skip
    for key, axes in plan.kernel_axes.items():
        what = f"{plan.origin}: kernel.{key}: the plan has no such kernel"
        check_known(key, own, what, error=PlanError)
        what = "the kernel has no such parameter or size"
        tables.append((f"kernel.{key}", axes, list(own[key]), what))
    if plan.problems is not None:
        tables.append(("problems", plan.problems, tables[0][2], tables[0][3]))
    for where, axes, names, what in tables:
        known = [*(CLOCK_AXES if where != "problems" else ()), *dict.fromkeys(names)]
        for name in axes:
            check_known(name, known, f"{plan.origin}: {where}.{name}: {what}", error=PlanError)


def _kernel_space(plan: Plan, kernel: Kernel, devices: tuple[Device, ...]) -> KernelSpace:
    own = plan.kernel_axes.get(kernel.key, {})
    # The kernel's own form of a clock, absolute or relative, replaces the plan's.
    replaced = {name.removesuffix("_ratio") for name in own if name in CLOCK_AXES}
    axes = {n: v for n, v in plan.axes.items() if n.removesuffix("_ratio") not in replaced}
    axes.update(own)
    problems = _problems(plan, kernel, axes)
    for listed, columns in ((False, axes), (True, problems)):
        for name, values in columns.items():
            for number, reason in _wrong_values(kernel, name, values):
                where = f"problems: row {number + 1}: {name}" if listed else f"axes.{name}"
                raise PlanError(f"{plan.origin}: {where} = {values[number]!r}: {reason}")
    dimensions = [Dimension("device", tuple(device.key for device in devices), "device")]
    dimensions += [Dimension(n, axes[n], "size") for n in kernel.sizes if n in axes]
    if problems:
        dimensions.append(Dimension.listed(PROBLEM, Configurations.of(problems)))
    swept = axes.keys() | problems.keys()
    fixed = {name: value for name, value in kernel.sizes.items() if name not in swept}
    tuned = {name: tuple(axes.get(name, values)) for name, values in kernel.parameters.items()
             if name not in problems}  # fmt: skip
    known = _known_names(kernel)
    extra = (Expression.parse(text) for text in plan.constraints)
    constraints = (*kernel.constraints, *(e for e in extra if e.names <= known))
    where = f"{plan.origin}: kernel '{kernel.key}'"
    names = Names(tuned, fixed, kernel.derived)
    dimensions += _parameter_dimensions(names, constraints, plan.layout, where)
    dimensions += [
        Dimension(name, axes[name], kind)
        for kind in ("core", "memory")
        for name in (f"{kind}_clock", f"{kind}_clock_ratio")
        if name in axes
    ]
    return KernelSpace(kernel, devices, Grid(tuple(dimensions), plan.chunk_points), fixed,
                       constraints)  # fmt: skip


def _problems(plan: Plan, kernel: Kernel, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the plan's list of problems that a kernel has: all of them, or none."""
    listed, own = plan.problems or {}, _own_names(kernel)
    found = {name: listed[name] for name in own if name in listed}
    for name in listed if found else ():
        if name not in own:
            raise PlanError(
                f"{plan.origin}: problems.{name}: kernel '{kernel.key}' has no such parameter or"
                f" size{nearest(name, own)}, and it has {', '.join(found)}"
            )
        if name in axes:
            raise PlanError(f"{plan.origin}: axes.{name}: the list of problems gives {name} too")
    return found


def _wrong_values(kernel: Kernel, name: str, values: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield the numbers of values that a size or parameter cannot have, and why."""
    like = kernel.parameters.get(name)
    for number, value in enumerate(values):
        if name in kernel.sizes and (isinstance(value, (str, bool)) or value <= 0):
            yield number, "a problem size is a number above 0"
        if like is not None and _kind(value) is not _kind(like[0]):
            yield number, f"the kernel file has values like {like[0]!r}"


def _kind(value: Any) -> type:
    return type(value) if isinstance(value, (str, bool)) else float


def _parameter_dimensions(
    names: Names, constraints: Sequence[Expression], layout: str | None, where: str
) -> list[Dimension]:
    """Return the dimensions of the tuning parameters: one for each, or one for all.

    A list has one dimension with the valid configurations; ``layout`` None chooses. Constraints
    that read swept sizes, the device or the launch are left to evaluation.
    """
    axes, own = names.axes, [c for c in constraints if names.knows(c)]
    if layout is None:
        points = math.prod(len(values) for values in axes.values())
        is_grid = points <= SMALL or _valid_share(names, own, points) >= SHARE
        layout = "grid" if is_grid else "stacked"
    if layout == "grid" or not axes:
        return [Dimension(name, values, "parameter") for name, values in axes.items()]
    try:
        found = valid_configurations(axes, own, fixed=names.fixed, derived=names.derived)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
    if not len(found):
        texts = "; ".join(f"`{c.text}`" for c in own)
        raise PlanError(f"{where}: no configuration satisfies all constraints ({texts})")
    return [Dimension.listed(STACKED, found)]


def _valid_share(names: Names, conditions: Sequence[Expression], points: int) -> float:
    """Return about which share of the product is valid, by testing points spread over it."""
    numbers = spread(points, SAMPLE)
    values = {}
    for name, axis in reversed(names.values.items()):
        values[name] = axis[[number % len(axis) for number in numbers]]
        numbers = [number // len(axis) for number in numbers]
    allowed = np.ones(len(numbers), bool)
    for condition in conditions:
        allowed &= names.holds(condition, values)
    return float(allowed.mean())


def _check_constraints(plan: Plan, kernels: tuple[Kernel, ...]) -> None:
    """Every constraint of the plan must apply to at least one kernel."""
    known = [_known_names(kernel) for kernel in kernels]
    for text in plan.constraints:
        names = Expression.parse(text).names
        if not any(names <= own for own in known):
            everything = set().union(*known)
            unknown = next((n for n in sorted(names) if n not in everything), sorted(names)[0])
            raise PlanError(
                f"{plan.origin}: constraints: `{text}`: no kernel of the plan knows "
                f"'{unknown}'{nearest(unknown, everything - {unknown})}"
            )

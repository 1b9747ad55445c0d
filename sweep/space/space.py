"""A plan with its specs: everything that is known before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sweep.errors import PlanError, SpecError, nearest
from sweep.expressions import Expression
from sweep.hardware.derived import DeviceFacts
from sweep.models import derived_parameters, get_model, model_names, stated_facts
from sweep.space.axes import CLOCK_AXES, Values
from sweep.space.grid import Dimension, Grid
from sweep.space.layout import Conditions, laid_out
from sweep.space.plan import Plan
from sweep.specs import (
    DEVICE_NAMES,
    Device,
    Kernel,
    Source,
    check_model_parameters,
    load_device,
    load_kernel,
    parse_device,
    parse_kernel,
)
from sweep.specs.names import LAUNCH_NAMES

__all__ = ["KernelSpace", "Space", "missing_parameters", "resolve", "with_derived"]

Spec = TypeVar("Spec", Device, Kernel)


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

    def restricted(self, indices: Mapping[str, Sequence[int]]) -> KernelSpace:
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


@dataclass(frozen=True)
class Space:
    """All configurations of a plan."""

    plan: Plan
    devices: tuple[Device, ...]
    kernels: tuple[KernelSpace, ...] = field(default_factory=tuple)

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
        for space in self.kernels:
            if space.kernel.key == key:
                return space
        names = [space.kernel.key for space in self.kernels]
        raise PlanError(f"no kernel '{key}' in the plan{nearest(key, names)}")


def resolve(plan: Plan, texts: Mapping[str, Mapping[str, str]] | None = None) -> Space:
    """Load the specs that a plan names and lay out its grids.

    Parameters
    ----------
    plan : Plan
        The plan.
    texts : mapping, optional
        ``{"devices": {key: TOML text}, "kernels": {...}}`` to use in place of files: a store
        keeps these, so that its results can be computed again without the original files.

    Raises
    ------
    PlanError, SpecError
        A spec is missing or wrong, or the plan has an axis, an option or a constraint that fits
        none of its kernels.
    """
    if texts is None:
        devices = tuple(_loaded(plan, "devices", name, load_device) for name in plan.devices)
        kernels = tuple(_loaded(plan, "kernels", name, load_kernel) for name in plan.kernels)
    else:
        devices = tuple(parse_device(text, key) for key, text in texts["devices"].items())
        kernels = tuple(parse_kernel(text, key) for key, text in texts["kernels"].items())
    for kind, specs in (("devices", devices), ("kernels", kernels)):
        keys: list[str] = [spec.key for spec in specs]
        if len(set(keys)) != len(keys):
            raise PlanError(f"{plan.origin}: {kind}: two of the files have the same name")
    for name in plan.models:
        _check_model(plan, name, devices)
    if plan.derive:
        # For all models, not the plan's alone: what one model's rule gives another may read.
        devices = tuple(with_derived(device, model_names()) for device in devices)
    _check_axes(plan, kernels)
    spaces = tuple(_kernel_space(plan, kernel, devices) for kernel in kernels)
    _check_constraints(plan, kernels)
    return Space(plan, devices, spaces)


def with_derived(device: Device, models: Iterable[str]) -> Device:
    """Return a device with every parameter that the models lack and a rule can derive.

    Parameters
    ----------
    device : Device
        A device as its file describes it; values of the file are never replaced.
    models : iterable of str
        The models whose parameters to complete.

    Returns
    -------
    Device
        The same device with further ``model_parameters``, each with a source of kind ``derived``.
    """
    given = device.model_parameters
    parameters = {name: dict(values) for name, values in given.items()}
    sources = dict(device.sources)
    facts = DeviceFacts(
        device.values, device.compute_capability, device.vendor, stated_facts(given)
    )
    for name, key, value, words in derived_parameters(facts, models, given):
        parameters.setdefault(name, {})[key] = value
        sources[f"model.{name}.{key}"] = Source("derived", words)
    return replace(device, model_parameters=parameters, sources=sources)


def missing_parameters(device: Device, model: str) -> tuple[str, ...]:
    """Return the required parameters of a model that a device lacks."""
    given = device.model_parameters.get(model, {})
    return tuple(p.key for p in get_model(model).parameters if p.required and p.key not in given)


def _loaded(plan: Plan, key: str, name: str, load: Callable[[str], Spec]) -> Spec:
    """Load one spec; an error says which plan asked for it."""
    try:
        return load(name)
    except SpecError as error:
        raise SpecError(f"{plan.origin}: {key}: {error}") from None


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
            if other not in model_names():
                raise PlanError(
                    f"device '{device.key}': [model.{other}]: unknown model"
                    f"{nearest(other, model_names())}"
                )


def _own_names(kernel: Kernel) -> tuple[str, ...]:
    return (*kernel.sizes, *kernel.parameters)


def _check_axes(plan: Plan, kernels: tuple[Kernel, ...]) -> None:
    """Every axis must be a clock, or belong to at least one kernel."""
    known = {name for kernel in kernels for name in _own_names(kernel)}
    for name in plan.axes:
        if name not in CLOCK_AXES and name not in known:
            raise PlanError(
                f"{plan.origin}: axes.{name}: no kernel of the plan has this parameter or size"
                f"{nearest(name, [*CLOCK_AXES, *known])}"
            )
    by_key = {kernel.key: kernel for kernel in kernels}
    for key, axes in plan.kernel_axes.items():
        if key not in by_key:
            raise PlanError(
                f"{plan.origin}: kernel.{key}: the plan has no such kernel{nearest(key, by_key)}"
            )
        own = _own_names(by_key[key])
        for name in axes:
            if name not in CLOCK_AXES and name not in own:
                raise PlanError(
                    f"{plan.origin}: kernel.{key}.{name}: the kernel has no such parameter or size"
                    f"{nearest(name, [*CLOCK_AXES, *own])}"
                )


def _kernel_space(plan: Plan, kernel: Kernel, devices: tuple[Device, ...]) -> KernelSpace:
    own = plan.kernel_axes.get(kernel.key, {})
    axes = {**plan.axes, **own}
    for clock in ("core_clock", "memory_clock"):
        if f"{clock}_ratio" in own or clock in own:  # the kernel's own form of a clock replaces
            for name in (clock, f"{clock}_ratio"):
                if name not in own:
                    axes.pop(name, None)
    dimensions = [Dimension("device", tuple(device.key for device in devices), "device")]
    fixed: dict[str, float] = {}
    for name, default in kernel.sizes.items():
        if name in axes:
            dimensions.append(Dimension(name, _numbers(plan, name, axes[name]), "size"))
        else:
            fixed[name] = default
    tuned = {}
    for name, values in kernel.parameters.items():
        tuned[name] = tuple(axes.get(name, values))
        _same_kind(plan, name, tuned[name], values)
    known = {*_own_names(kernel), *kernel.derived, *LAUNCH_NAMES, *DEVICE_NAMES}
    extra = (Expression.parse(text) for text in plan.constraints)
    constraints = (*kernel.constraints, *(e for e in extra if e.names <= known))
    conditions = Conditions(tuned, constraints, fixed, kernel.derived)
    dimensions += laid_out(conditions, plan.layout, f"{plan.origin}: kernel '{kernel.key}'")
    for clock, kind in (("core_clock", "core"), ("memory_clock", "memory")):
        for name in (clock, f"{clock}_ratio"):
            if name in axes:
                dimensions.append(Dimension(name, axes[name], kind))
    return KernelSpace(kernel, devices, Grid(tuple(dimensions), plan.chunk_points), fixed,
                       constraints)  # fmt: skip


def _numbers(plan: Plan, name: str, values: Values) -> Values:
    for value in values:
        if isinstance(value, (str, bool)) or value <= 0:
            raise PlanError(f"{plan.origin}: axes.{name} = {value!r}: a problem size is above 0")
    return values


def _same_kind(plan: Plan, name: str, chosen: Values, values: Values) -> None:
    """Refuse values of another kind than the kernel file gives a parameter."""

    def kind(value: Any) -> type:
        return type(value) if isinstance(value, (str, bool)) else float

    for value in chosen:
        if kind(value) is not kind(values[0]):
            raise PlanError(
                f"{plan.origin}: axes.{name} = {value!r}: the kernel file has values like "
                f"{values[0]!r}"
            )


def _check_constraints(plan: Plan, kernels: tuple[Kernel, ...]) -> None:
    """Every constraint of the plan must apply to at least one kernel."""
    known = [
        {*_own_names(kernel), *kernel.derived, *LAUNCH_NAMES, *DEVICE_NAMES} for kernel in kernels
    ]
    for text in plan.constraints:
        names = Expression.parse(text).names
        if not any(names <= own for own in known):
            everything = set().union(*known)
            unknown = next((n for n in sorted(names) if n not in everything), sorted(names)[0])
            raise PlanError(
                f"{plan.origin}: constraints: `{text}`: no kernel of the plan knows "
                f"'{unknown}'{nearest(unknown, everything - {unknown})}"
            )

"""What a kernel's results have: variables, coordinates, attributes, and what they assume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sweep import __version__
from sweep.errors import ModelError, PlanError, nearest
from sweep.evaluation.power_limit import limits_of
from sweep.fields import (
    COMMON_FIELDS,
    FITTED,
    PARAMETER,
    PLACEHOLDER,
    PROBLEM_SIZE,
    VARIANTS,
    Field,
    Flags,
)
from sweep.models import get_model, model_names
from sweep.space import CLOCK_AXES, Dimension, KernelSpace, Plan
from sweep.specs import Device, Kernel
from sweep.specs.compiled import target_number

DEFAULT_OUTPUTS = (
    "execution_time",
    "execution_cycles",
    "cycles_per_instruction",
    "power",
    "energy",
    "regime",
    "bound",
    "status",
    "power_status",
    "occupancy",
    "occupancy_limiter",
)
"""Kept when a plan does not say, together with the models' own variables; and, of a kernel on a
device whose power limit may lower clocks, ``actual_core_clock``."""


class Variable(NamedTuple):
    """One variable of a kernel's results.

    ``model`` is set for a variable that only this model gives (it has no ``model`` dimension and
    is named ``MODEL_NAME``); ``source`` is the name under which passes know it.
    """

    name: str
    source: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    model: str | None

    @property
    def is_code(self) -> bool:
        """Whether the variable holds flags rather than numbers."""
        return self.dtype.kind == "u"

    @property
    def is_launch(self) -> bool:
        """Whether only the launch decides the variable: it has neither models nor clocks."""
        return self.model is None and COMMON_FIELDS[self.source].depends == "launch"


def all_fields() -> dict[str, Field]:
    """Return every variable that a plan may keep, by the name it has in results."""
    return COMMON_FIELDS | {name: own for name, (_, own) in _own_fields(model_names()).items()}


def _own_fields(models: Iterable[str]) -> dict[str, tuple[str, Field]]:
    """Return models and their own variables, by the name that these have in results."""
    return {f"{model}_{own.name}": (model, own) for model in models
            for own in get_model(model).fields}  # fmt: skip


def regime_attributes() -> dict[str, Any]:
    """Return the CF flags of ``regime``: one enumeration over all models, codes permanent."""
    codes = {"none": 0}
    for name in model_names():
        for regime, code in get_model(name).regimes.items():
            if code in codes.values():
                other = next(known for known, taken in codes.items() if taken == code)
                raise ModelError(f"model '{name}': '{regime}' has the code {code} of '{other}'")
            codes[regime] = code
    return Flags(codes).attributes()


def _kept_names(plan: Plan, own: Mapping[str, tuple[str, Field]]) -> tuple[str, ...]:
    """Return the names of the variables that a plan keeps, ``status`` always among them.

    ``own`` are those of its models.

    Raises
    ------
    PlanError
        An output is unknown; the message gives the nearest name.
    """
    if plan.outputs is None:
        return (*DEFAULT_OUTPUTS, *own)
    kept: dict[str, None] = {}
    for output in plan.outputs:
        names = [name for name, (_, field) in own.items() if field.name == output] or [output]
        if names[0] not in COMMON_FIELDS and names[0] not in own:
            known = [*COMMON_FIELDS, *own, *(field.name for _, field in own.values())]
            raise PlanError(
                f"{plan.origin}: outputs: unknown variable '{output}'{nearest(output, known)}"
            )
        kept.update(dict.fromkeys(names))
    statuses = ["status", *(["power_status"] if {"power", "energy"} & kept.keys() else [])]
    return tuple(kept | dict.fromkeys(statuses))


def variables(space: KernelSpace, plan: Plan) -> tuple[Variable, ...]:
    """Return the variables of one kernel's results, in order.

    A variable has only the dimensions it depends on: what the launch decides has neither
    ``model`` nor clock dimensions.
    """
    clocked = space.grid.names
    launch = tuple(d.name for d in space.grid.dimensions if not d.is_clock)
    own, result = _own_fields(plan.models), []
    kept = _kept_names(plan, own)
    if plan.outputs is None and limits_of(space, plan):
        kept += ("actual_core_clock",)
    for name in kept:
        model, described = own[name] if name in own else (None, COMMON_FIELDS[name])
        dtype = np.dtype(np.uint8 if described.kind == "code" else plan.precision)
        attributes = {**described.attributes(), "source": _source(described, plan)}
        if name == "regime":
            attributes.update(regime_attributes())
        dims = launch if described.depends == "launch" else ("model", *clocked)
        if model is not None:
            attributes["model"], dims = model, clocked
        result.append(Variable(name, described.name, dims, dtype, attributes, model))
    return tuple(result)


def _source(described: Field, plan: Plan) -> str:
    """Return where a variable comes from: the paper, or the rule, that gives it."""
    owner = described.equation.split(" ")[0]
    if owner in model_names():
        return get_model(owner).reference
    if described.depends == "launch":
        return "launch geometry and occupancy rules of the compute capability"
    return f"the models of the model dimension, variant {plan.variant}"


# ---------------------------------------------------------------------------- labels


class Labelled(NamedTuple):
    """A small labelled array: a coordinate, or a variable that is known in advance."""

    name: str
    dims: tuple[str, ...]
    values: Any
    attributes: dict[str, Any]


def coordinates(space: KernelSpace, plan: Plan) -> tuple[Labelled, ...]:
    """Return the coordinates of one kernel's results.

    Every dimension has one; clocks are there in MHz however the plan gives them.
    """
    references = "; ".join(get_model(m).reference for m in plan.models)
    attributes = _attributes("performance model") | {"references": references}
    found = [Labelled("model", ("model",), list(plan.models), attributes)]
    for dimension in space.grid.dimensions:
        if dimension.stacked is not None:
            found += _listed(space, dimension)
            continue
        name, values = dimension.name, list(dimension.values)
        attributes = _attributes(f"{PARAMETER} {name}")
        if dimension.kind == "device":
            names = ", ".join(d.name for d in space.devices)
            attributes = _attributes("device") | {"device_names": names}
        elif dimension.kind == "size":
            attributes = _attributes(f"{PROBLEM_SIZE} {name}")
        elif dimension.is_clock:
            attributes = _clock_attributes(name)
        shown = values if isinstance(values[0], str) else np.asarray(values)
        found.append(Labelled(name, (name,), shown, attributes))
    for name, value in space.fixed.items():
        attributes = _attributes(f"{PROBLEM_SIZE} {name} of {space.kernel.key}")
        found.append(Labelled(name, (), np.asarray(value), attributes))
    return (*found, *_clock_coordinates(space))


def _attributes(long_name: str, units: str = "1") -> dict[str, Any]:
    return {"long_name": long_name, "units": units}


def _clock_attributes(name: str) -> dict[str, Any]:
    clock = name.removesuffix("_ratio").replace("_", " ")
    if name.endswith("_ratio"):
        return _attributes(f"{clock} relative to the device's nominal clock")
    return _attributes(clock, "MHz")


def _listed(space: KernelSpace, dimension: Dimension) -> list[Labelled]:
    """Return the coordinates of a list of configurations or problems: their numbers and values."""
    name, rows = dimension.name, dimension.stacked
    assert rows is not None
    is_of_problems = dimension.kind == "problem"
    if is_of_problems:
        numbers = np.asarray(dimension.values)
        attributes = _attributes(f"{PROBLEM_SIZE}s: number of the row in the plan's list, from 0")
    else:
        numbers = np.arange(len(rows))
        attributes = _attributes("number of the valid configuration")
        attributes |= {"stacks": list(rows.axes), "absent": "constraint"}
    found = [Labelled(name, (name,), numbers, attributes)]
    for own, values in rows.axes.items():
        is_size = is_of_problems and own in space.kernel.sizes
        attributes = _attributes(f"{PROBLEM_SIZE if is_size else PARAMETER} {own}")
        if not is_of_problems:
            attributes["axis_values"] = list(values)
        column = rows.column(own)
        shown: Any = column.tolist() if column.dtype.kind == "U" else column
        found.append(Labelled(own, (name,), shown, attributes))
    return found


def _clock_coordinates(space: KernelSpace) -> list[Labelled]:
    """Return clocks in MHz over device (and ratio), where they are not dimensions themselves."""
    found = []
    for dimension, name in zip(space.clocked.dimensions[-2:], CLOCK_AXES, strict=False):
        path = f"clocks.{dimension.kind}_nominal"
        nominal = np.array([d.values[path] / 1e6 for d in space.devices])
        attributes = _clock_attributes(name)
        if dimension.name == name:
            continue
        if dimension.name in space.grid.names:
            products = nominal[:, np.newaxis] * np.asarray(dimension.values, dtype=np.float64)
            # Twelve digits, as axes have: 1.4 x 700 MHz is labelled 980, not 979.9999999999999.
            values = np.vectorize(lambda mhz: float(f"{mhz:.12g}"))(products)
            found.append(Labelled(name, ("device", dimension.name), values, attributes))
        else:
            attributes["comment"] = "nominal"
            found.append(Labelled(name, ("device",), nominal, attributes))
    return found


WEAK = {"assumed": "", "fitted": FITTED}
"""Kinds of sources whose numbers in a kernel's file give answers a star, and what marks them."""


def assumptions(space: KernelSpace, plan: Plan) -> tuple[Labelled, ...]:
    """Return the assumed and fitted values that times, and power and energy, rest on.

    ``assumed(model, device)`` lists dotted paths of the device's file whose source is ``assumed``
    and that the model reads, and those of power if a limit of it may lower the clock;
    ``power_assumed(device)`` the same for power and energy, with fitted ones too. Assumed values of
    the kernel's file are listed as ``kernel: path``, fitted ones as ``kernel: path (fitted)``, and
    counts that nobody has made as ``kernel: path (placeholder)``.
    """
    kernel, of_kernel = space.kernel, _of_kernel(space.kernel)
    stated = {key for a in kernel.global_accesses for key, _ in a.expressions()}
    limited = {space.devices[number].key for number in limits_of(space, plan)}

    def of_time(model: str, device: Device) -> str:
        inputs = (i for i in get_model(model).inputs if not i.only_with or i.only_with in stated)
        paths = sorted({key for i in inputs for key in i.device_keys})
        own = device.assumed((*paths, "clocks.core_nominal", "clocks.memory_nominal"))
        lowered = _of_power(device, "clocks.power_limit") if device.key in limited else ()
        return ", ".join([*own, *lowered, *of_kernel, *_compiled_elsewhere(kernel, device)])

    time = [[of_time(model, device) for device in space.devices] for model in plan.models]
    power = [", ".join(_of_power(device)) for device in space.devices]
    attributes = _attributes("assumed, fitted values that the time rests on")
    of_power = _attributes("assumed, fitted values that power rests on")
    return (
        Labelled("assumed", ("model", "device"), np.array(time, dtype=object), attributes),
        Labelled("power_assumed", ("device",), np.array(power, dtype=object), of_power),
    )


def _of_kernel(kernel: Kernel) -> list[str]:
    """Return the weak values of a kernel's file; parameters and sizes are the question itself."""
    missing = kernel.placeholders()
    return [
        f"kernel: {path}{f' ({PLACEHOLDER})' if path in missing else WEAK[source.kind]}"
        for path, source in kernel.sources.items()
        if source.kind in WEAK and not path.startswith(("parameters", "sizes"))
    ]


def _of_power(device: Device, *more: str) -> list[str]:
    """Return the weak values of a device's file that power rests on, and those of more paths."""
    return [f"{path}{mark}" for kind, mark in WEAK.items()
            for path in device.assumed(("power", *more), kind)]  # fmt: skip


def _compiled_elsewhere(kernel: Kernel, device: Device) -> list[str]:
    """Return that a device's numbers were compiled for another one, if they were."""
    own = target_number(device.target)
    used = own if kernel.compiled is None else kernel.compiled.compiled_for(own)
    return [] if used in (None, own) else [f"kernel: compiled for {used:g}, not {own:g}"]


def group_attributes(space: KernelSpace, plan: Plan) -> dict[str, Any]:
    """Return the attributes of one kernel's dataset."""
    kernel = space.kernel
    return {
        "title": f"{kernel.name}: predicted by {', '.join(plan.models)}",
        "kernel": kernel.key,
        "description": kernel.description,
        "kernel_sha256": kernel.sha256,
        "plan": plan.name,
        "variant": plan.variant,
        "variant_meaning": VARIANTS[plan.variant],
        **({"compiled": kernel.compiled.described} if kernel.compiled else {}),
        "constraints": [c.text for c in space.constraints],
        "sweep_version": __version__,
        "Conventions": "CF-1.11",
    }

"""What every kernel's results carry besides the computed variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep import __version__
from sweep.models import get_model
from sweep.space import Configurations, KernelSpace, Plan
from sweep.specs import Device

__all__ = ["Labelled", "assumptions", "coordinates", "group_attributes"]

UNITS_OF_CLOCKS = {
    "core_clock": ("MHz", "core clock"),
    "memory_clock": ("MHz", "memory clock"),
    "core_clock_ratio": ("1", "core clock relative to the device's nominal clock"),
    "memory_clock_ratio": ("1", "memory clock relative to the device's nominal clock"),
}


@dataclass(frozen=True)
class Labelled:
    """A small labelled array: a coordinate, or a variable that is known in advance."""

    name: str
    dims: tuple[str, ...]
    values: Any
    attributes: dict[str, Any] = field(default_factory=dict)


def coordinates(space: KernelSpace, plan: Plan) -> tuple[Labelled, ...]:
    """Return the coordinates of one kernel's results.

    Every dimension has one; clocks are there in MHz however the plan gives them.
    """
    kernel = space.kernel
    found = [
        Labelled(
            "model",
            ("model",),
            list(plan.models),
            {"long_name": "performance model", "units": "1",
             "references": "; ".join(get_model(m).reference for m in plan.models)},
        )
    ]  # fmt: skip
    for dimension in space.grid.dimensions:
        if dimension.stacked is not None:
            found += _stacked(dimension.name, dimension.stacked)
            continue
        attributes: dict[str, Any] = {
            "long_name": f"tuning parameter {dimension.name}",
            "units": "1",
        }
        if dimension.kind == "device":
            names = ", ".join(d.name for d in space.devices)
            attributes["long_name"] = "device"
            attributes["device_names"] = names
        elif dimension.kind == "size":
            attributes["long_name"] = f"problem size {dimension.name}"
        elif dimension.kind in ("core", "memory"):
            units, long_name = UNITS_OF_CLOCKS[dimension.name]
            attributes = {"long_name": long_name, "units": units}
        is_text = isinstance(dimension.values[0], str)
        values: Any = list(dimension.values) if is_text else np.asarray(dimension.values)
        found.append(Labelled(dimension.name, (dimension.name,), values, attributes))
    for name, value in space.fixed.items():
        found.append(
            Labelled(name, (), np.asarray(value),
                     {"long_name": f"problem size {name} of {kernel.key}", "units": "1"})
        )  # fmt: skip
    found += _clock_coordinates(space)
    return tuple(found)


def _stacked(name: str, configurations: Configurations) -> list[Labelled]:
    """Return the coordinates of a list of configurations: their numbers and parameters."""
    attributes = {
        "long_name": "number of the valid configuration",
        "units": "1",
        "stacks": list(configurations.axes),
        "absent": "constraint",
    }
    found = [Labelled(name, (name,), np.arange(len(configurations)), attributes)]
    for parameter, values in configurations.axes.items():
        column = configurations.column(parameter)
        attributes = {
            "long_name": f"tuning parameter {parameter}",
            "units": "1",
            "axis_values": list(values),
        }
        shown: Any = column.tolist() if column.dtype.kind == "U" else column
        found.append(Labelled(parameter, (name,), shown, attributes))
    return found


def _clock_coordinates(space: KernelSpace) -> list[Labelled]:
    """Return clocks in MHz over device (and ratio), where they are not dimensions themselves."""
    found = []
    names = space.grid.names
    for clock in ("core", "memory"):
        name = f"{clock}_clock"
        units, long_name = UNITS_OF_CLOCKS[name]
        nominal = np.array([d.values[f"clocks.{clock}_nominal"] / 1e6 for d in space.devices])
        if name in names:
            continue
        attributes = {"units": units, "long_name": long_name}
        if f"{name}_ratio" in names:
            ratios = space.grid.dimensions[names.index(f"{name}_ratio")].values
            products = nominal[:, np.newaxis] * np.asarray(ratios, dtype=np.float64)
            # Twelve digits, as axes have: 1.4 x 700 MHz is labelled 980, not 979.9999999999999.
            values = np.vectorize(lambda mhz: float(f"{mhz:.12g}"))(products)
            found.append(Labelled(name, ("device", f"{name}_ratio"), values, attributes))
        else:
            attributes["comment"] = "nominal"
            found.append(Labelled(name, ("device",), nominal, attributes))
    return found


def _device_paths(plan: Plan, model: str) -> tuple[str, ...]:
    """Return the paths of a device file that a model's time rests on."""
    paths = {key for i in get_model(model).inputs for key in i.device_keys}
    return (*sorted(paths), "clocks.core_nominal", "clocks.memory_nominal")


def assumptions(space: KernelSpace, plan: Plan) -> tuple[Labelled, ...]:
    """Return the assumed values that times, and power and energy, rest on.

    ``assumed(model, device)`` lists dotted paths of the device's file whose source is ``assumed``
    and that the model reads; ``power_assumed(device)`` the same for power and energy. Assumed
    values of the kernel's file are listed as ``kernel: path``.
    """
    # Values to try and problem sizes are the question, not an assumption of the answer.
    of_kernel = [
        f"kernel: {path}"
        for path, source in space.kernel.sources.items()
        if source.kind == "assumed" and not path.startswith(("parameters", "sizes"))
    ]

    def listed(device: Device, prefixes: tuple[str, ...], extra: list[str]) -> str:
        return ", ".join([*device.assumed(prefixes), *extra])

    time = [
        [listed(d, _device_paths(plan, m), of_kernel) for d in space.devices] for m in plan.models
    ]
    power = [listed(d, ("power",), []) for d in space.devices]
    return (
        Labelled(
            "assumed",
            ("model", "device"),
            np.array(time, dtype=object),
            {"long_name": "assumed values that the time rests on", "units": "1"},
        ),
        Labelled(
            "power_assumed",
            ("device",),
            np.array(power, dtype=object),
            {"long_name": "assumed values that power and energy rest on", "units": "1"},
        ),
    )


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
        "constraints": [c.text for c in space.constraints],
        "sweep_version": __version__,
        "Conventions": "CF-1.11",
    }

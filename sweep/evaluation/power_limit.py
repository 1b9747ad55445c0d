"""Core clocks under a power limit.

A device with a power model and a limit lowers the core clock of what would take more power than the
limit, as its driver does: to the highest rung, of a ladder from the asked clock to the device's
lowest one, at which the predicted power meets the limit; to the lowest one if none does. All
results are those at this clock. The memory clock stays.

A rung is found by halving, as power does not fall when the clock rises: a fixed number of
evaluations, of the configurations above the limit only. Whether or not power is that regular, what
passes a lower limit at a rung passes a higher one: with a higher limit no clock is lower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sweep.compiler.arrays import get_arrays_pass
from sweep.compiler.source import Pass, input_names
from sweep.evaluation import limits
from sweep.evaluation.launch import clock_on_devices
from sweep.evaluation.tables import Tables, sequence_length
from sweep.fields import Array
from sweep.hardware.clocks import power_inputs
from sweep.models import get_model
from sweep.space import CLOCK_AXES, Dimension, Grid, KernelSpace, Plan

STEPS = 7
"""Halvings: the ladder has 2^7 rungs below the asked clock."""

RUNGS = 1 << STEPS


def limits_of(space: KernelSpace, plan: Plan) -> Mapping[int, float]:
    """Return the power limits that may lower a clock [W], by the number of the device.

    Without ``plan.power_limit``, a device's own limit holds for core clocks that the plan does not
    name. A device without a power model, or without a range of core clocks, has none. Neither has
    one that stays below its limit at full activity.
    """
    own = () if names_core_clock(space, plan) else space.devices
    if plan.power_limit is None and not any("clocks.power_limit" in d.values for d in own):
        return {}  # at once, and without keeping the space
    return _limits(space, plan.power_limit)


def names_core_clock(space: KernelSpace, plan: Plan) -> bool:
    """Whether a plan names the core clocks of a kernel."""
    named = {*plan.axes, *plan.kernel_axes.get(space.kernel.key, {})}
    return any(name in named for name in CLOCK_AXES if name.startswith("core"))


@lru_cache(maxsize=4)
def _limits(space: KernelSpace, everywhere: float | None) -> Mapping[int, float]:
    found = {}
    for number, device in enumerate(space.devices):
        limit = device.values.get("clocks.power_limit") if everywhere is None else everywhere
        has_model = {"power.static", "clocks.core_min"} <= device.values.keys()
        if limit is not None and has_model and (_full_power(space, number) > limit).any():
            found[number] = limit
    return found


def _full_power(space: KernelSpace, number: int) -> Array:
    """Return a device's power at full activity over the clocks [W]."""
    devices = space.devices[number : number + 1]
    core, memory = (
        clock_on_devices(d.kind, {d.name: np.array(d.values).reshape(shape)}, devices, 3)[0]
        for d, shape in zip(space.clocked.dimensions[-2:], ((1, -1, 1), (1, 1, -1)), strict=True)
    )
    return _full(power_inputs(devices, core, memory))


def _full(inputs: Mapping[str, Array]) -> Array:
    return inputs["static_power"] + inputs["core_watts"] + inputs["memory_watts"]


def lower_clocks(
    space: KernelSpace,
    plan: Plan,
    model_name: str,
    device: int,
    inputs: Mapping[str, Array],
    places: Sequence[Array],
    results: Mapping[str, Array],
) -> None:
    """Replace the results of a device's configurations that are above its power limit.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Variant, options and power limit.
    model_name : str
        The model.
    device : int
        The number of a device that has a limit.
    inputs : mapping
        The model's inputs, arrays that broadcast to the shape of the results.
    places : sequence of array
        The configurations' place along each dimension of :attr:`KernelSpace.clocked`, arrays that
        broadcast likewise.
    results : mapping
        What the model gives, by the names that passes know: changed in place.
    """
    if not results:
        return
    model, limit = get_model(model_name), limits_of(space, plan)[device]
    length = sequence_length(inputs, model)
    given = {name: np.asarray(table, float) for name, table in inputs.items()}
    with np.errstate(all="ignore"):
        power = _pass(model_name, plan, length, ("power",))(given)["power"]
    of_device = np.isin(places[0], np.arange(space.clocked.shape[0])[devices_at(space, device)])
    shape = next(iter(results.values())).shape
    # A configuration at full activity takes no more, whatever the model says of activities.
    above = (power > limit) & (_full(inputs) > limit) & of_device
    over = np.nonzero(np.broadcast_to(above, shape))
    sample, core, memory = (np.broadcast_to(places[axis], shape)[over] for axis in (0, -2, -1))
    launch, clocked = input_names(model, length)
    for asked in np.unique(core).tolist():
        ladder = _ladder(space, plan, model_name, device, asked, clocked)
        every = np.flatnonzero(core == asked)
        for start in range(0, len(every), limits.ARRAYS):
            chosen = every[start : start + limits.ARRAYS]
            at = tuple(axis[chosen] for axis in over)
            fixed = {name: np.broadcast_to(given[name], shape)[at] for name in launch}
            rows = _Rows(model_name, plan, length, fixed, ladder, sample[chosen], memory[chosen])
            for name, values in rows.at(rows.highest(limit), tuple(results)).items():
                results[name][at] = values


def _pass(model: str, plan: Plan, length: int, outputs: tuple[str, ...]) -> Any:
    return get_arrays_pass(Pass(model, plan.variant, "rows", outputs, length))


class _Rows(NamedTuple):
    """Configurations on a ladder.

    ``fixed`` are inputs that do not depend on the clocks, ``ladder`` the others: over device, rung
    and memory clock. ``sample`` and ``memory`` are the configurations' places there.
    """

    model: str
    plan: Plan
    length: int
    fixed: Mapping[str, Array]
    ladder: Mapping[str, Array]
    sample: Array
    memory: Array

    def at(self, rung: Array, outputs: tuple[str, ...]) -> dict[str, Array]:
        """Return outputs at a rung of each configuration."""
        clocked = {
            name: table[self.sample if len(table) > 1 else 0, rung, self.memory]
            for name, table in self.ladder.items()
        }
        with np.errstate(all="ignore"):
            found: dict[str, Array] = _pass(self.model, self.plan, self.length, outputs)(
                {**self.fixed, **clocked}
            )
        return found

    def highest(self, limit: float) -> Array:
        """Return the highest rung, of each configuration, whose power meets a limit [W]."""
        too_high, meets = np.zeros_like(self.memory), np.full_like(self.memory, RUNGS)
        for _ in range(STEPS):
            middle = (too_high + meets) // 2
            passes = self.at(middle, ("power",))["power"] <= limit
            meets = np.where(passes, middle, meets)
            too_high = np.where(passes, too_high, middle)
        return meets


def _ladder(
    space: KernelSpace, plan: Plan, model: str, device: int, asked: int, names: Sequence[str]
) -> dict[str, Array]:
    """Return a model's inputs that depend on the clocks: over device, rung and memory clock.

    The first rung is the asked clock. The device is one, or samples of one.
    """
    one = space if len(space.devices) == 1 else space.restricted({"device": [device]})
    *launch, core, memory = one.clocked.dimensions
    clock = rungs(one, core.values[asked], core.name)
    first = (launch[0], *(d.taken(range(1)) for d in launch[1:]))
    grid = Grid((*first, Dimension("core_clock", clock, "core"), memory))
    inputs = Tables(replace(one, grid=grid), grid.whole).inputs(plan, model)
    return {name: inputs[name].reshape(-1, len(clock), len(memory)) for name in names}


def devices_at(space: KernelSpace, device: int) -> slice:
    """Return the places along the device dimension that belong to a device, or to its samples."""
    return slice(None) if len(space.devices) == 1 else slice(device, device + 1)


def rungs(one: KernelSpace, asked: float, axis: str) -> tuple[float, ...]:
    """Return the core clocks of the ladder of a space's only device [MHz], the asked one first.

    Those below are whole numbers, so that a plan can name them.
    """
    column = {axis: np.array([float(asked)])}
    hertz, _, low, *_ = clock_on_devices("core", column, one.devices, 1)
    top, bottom = hertz.item() / 1e6, low.item() / 1e6
    below = (top - (top - bottom) * i / RUNGS for i in range(1, RUNGS + 1))
    return (top, *(max(bottom, float(np.floor(mhz))) for mhz in below))

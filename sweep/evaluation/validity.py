"""Whether a plan can have any result at all, without evaluating a model."""

from __future__ import annotations

import numpy as np

from sweep.evaluation import limits
from sweep.evaluation.launch import axis_arrays, clock_on_devices
from sweep.evaluation.step_cache import StepCache
from sweep.evaluation.tables import Tables
from sweep.fields import STATUS
from sweep.space import Box, KernelSpace, Plan, cut_box

__all__ = ["obstacles"]


def obstacles(space: KernelSpace, plan: Plan) -> dict[str, str]:
    """Return why no configuration of a kernel can have a time; empty if one can.

    Parameters
    ----------
    space : KernelSpace
        The kernel's grid.
    plan : Plan
        Models, variant and options.

    Returns
    -------
    dict
        By device, its commonest status in words. Empty too for a grid of so many launches that
        looking through all of them would take long.
    """
    found: dict[str, str] = {}
    for number, device in enumerate(space.devices):
        clocks = _clocks_in_range(space, number)
        if isinstance(clocks, str):
            found[device.key] = clocks
            continue
        chosen = {"device": number, **clocks}
        ranges = [
            (chosen[d.kind], chosen[d.kind] + 1) if d.kind in chosen else (0, len(d))
            for d in space.grid.dimensions
        ]
        whole = Box(*(tuple(ends) for ends in zip(*ranges, strict=True)))
        # Nearly always a few launches show that there is a time.
        if _statuses(space, plan, next(cut_box(whole, limits.FEW_LAUNCHES)))[0]:
            return {}
        counts = np.zeros(256, np.int64)
        for i, box in enumerate(cut_box(whole, limits.LAUNCHES)):
            if i == limits.MOST_BOXES:
                return {}
            counts += _statuses(space, plan, box)
            if counts[0]:
                return {}
        found[device.key] = STATUS.meaning(int(counts.argmax()))
    return found


def _clocks_in_range(space: KernelSpace, number: int) -> dict[str, int] | str:
    """Return the index of a clock in a device's range by kind of axis, or what is wrong."""
    device = space.devices[number]
    dimensions = space.grid.dimensions
    found = {}
    for kind in ("core", "memory"):
        # Every other axis at its first value: the two clocks' ranges are independent.
        own = [n for n, d in enumerate(dimensions) if d.kind == kind]
        start = tuple(number if d.kind == "device" else 0 for d in dimensions)
        stop = tuple(len(d) if n in own else a + 1
                     for n, (d, a) in enumerate(zip(dimensions, start, strict=True)))  # fmt: skip
        axes, ndim = axis_arrays(space, Box(start, stop), StepCache())
        hertz, _, inside = clock_on_devices(kind, axes, (device,), ndim)
        if not inside.any():
            swept = sorted({float(f / 1e6) for f in (hertz.min(), hertz.max())})
            low, high = (
                device.values.get(f"clocks.{kind}_{end}", device.values[f"clocks.{kind}_nominal"])
                for end in ("min", "max")
            )
            return (
                f"{kind} clock {' to '.join(f'{f:g}' for f in swept)} MHz outside "
                f"{low / 1e6:g} to {high / 1e6:g} MHz"
            )
        found[kind] = int(np.argmax(inside.ravel()))
    return found


def _statuses(space: KernelSpace, plan: Plan, box: Box) -> np.ndarray:
    """Return how often each status stands before any model runs, over a box and all models."""
    tables = Tables(space, box)
    counts = np.zeros(256, np.int64)
    for name in plan.models:
        inputs = tables.inputs(plan, name)
        status = np.where(
            inputs["launch_status"] == 0, inputs["clock_status"], inputs["launch_status"]
        )
        shape = np.broadcast_shapes(status.shape, inputs["core_hz"].shape)
        counts += np.bincount(
            np.broadcast_to(status, shape).astype(np.uint8).ravel(), minlength=256
        )
    return counts

"""Whether a plan can have any result at all, without evaluating a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sweep.evaluation.tables import pass_inputs
from sweep.evaluation.workloads import axis_arrays, build_launch, clock_on_devices
from sweep.fields import STATUS
from sweep.models import get_model
from sweep.space import Box, KernelSpace, Plan

__all__ = ["obstacles"]

FEW, LAUNCHES, MOST_BOXES = 1_000, 1_000_000, 64
"""Launch configurations that are looked at first, then together, and how often before giving up."""


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
        if _statuses(space, plan, next(_launch_boxes(space, number, clocks, FEW)))[0]:
            return {}
        counts = np.zeros(256, np.int64)
        for i, box in enumerate(_launch_boxes(space, number, clocks, LAUNCHES)):
            if i == MOST_BOXES:
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
        axes, ndim = axis_arrays(space, Box(start, stop))
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


def _launch_boxes(
    space: KernelSpace, number: int, clocks: dict[str, int], size: int
) -> Iterator[Box]:
    """Yield boxes of a size that cover the launches of one device at one pair of clocks."""
    dimensions = space.grid.dimensions
    whole = [
        slice(number, number + 1) if d.kind == "device"
        else slice(clocks[d.kind], clocks[d.kind] + 1) if d.kind in clocks
        else slice(0, len(d))
        for d in dimensions
    ]  # fmt: skip
    extents = [part.stop - part.start for part in whole]
    axis = 0
    while axis < len(whole) - 1 and math.prod(extents[axis + 1 :]) > size:
        axis += 1
    step = max(1, size // math.prod(extents[axis + 1 :]))
    for lead in np.ndindex(*extents[:axis]):
        for start in range(0, extents[axis], step):
            ranges = [(s.start + i, s.start + i + 1) for s, i in zip(whole, lead, strict=False)]
            first = whole[axis].start + start
            ranges.append((first, min(first + step, whole[axis].stop)))
            ranges += [(s.start, s.stop) for s in whole[axis + 1 :]]
            yield Box(*(tuple(ends) for ends in zip(*ranges, strict=True)))


def _statuses(space: KernelSpace, plan: Plan, box: Box) -> np.ndarray:
    """Return how often each status stands before any model runs, over a box and all models."""
    launch = build_launch(space, box)
    counts = np.zeros(256, np.int64)
    for name in plan.models:
        inputs = pass_inputs(
            space, box, launch, get_model(name), plan.variant, plan.options.get(name, {})
        )
        status = np.where(
            inputs["launch_status"] == 0, inputs["clock_status"], inputs["launch_status"]
        )
        shape = np.broadcast_shapes(status.shape, launch.workload.clocks.ratio.shape)
        counts += np.bincount(
            np.broadcast_to(status, shape).astype(np.uint8).ravel(), minlength=256
        )
    return counts

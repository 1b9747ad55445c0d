"""What tuning is worth: how rare good configurations are, whether one GPU's best suits another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known, counted
from sweep.fields import PARAMETER, STACKED, Array
from sweep.query.grid import CLOCKS
from sweep.query.question import KernelPart, ask
from sweep.query.texts import number, percent

FEW = 10
"""Configurations of a kernel below which there is nothing to tune."""

NEAR = 1.1
"""What counts as near the best, as a multiple of its time."""

MOST_POINTS = 20_000_000
"""Most selected points of a kernel: its times are read as a whole, 80 MB for these."""

PREFERRED = "combined"
"""The model to ask where several are in the results (see its measured accuracy)."""


@dataclass(frozen=True)
class Tuning:
    """One kernel's configurations on several devices, by one model.

    Attributes
    ----------
    kernel, model : str
        Which kernel, and which model predicts.
    devices : tuple of str
        The devices on which some configuration runs.
    slowdowns : tuple of ndarray
        For each device the times of the valid configurations, at their fastest clocks, over that
        of the best [1]; ascending.
    carried : ndarray
        Time of one device's best configuration (rows) on another device (columns) over that of its
        own best [1]; NaN where it does not run.
    clock : str
        The dimension of the core clock: relative to the nominal one, or in MHz.
    clocks : ndarray
        Its values, ascending; empty without one.
    clocked : ndarray
        For each device and core clock, the best time over that of all clocks [1]; NaN without one.
    """

    kernel: str
    model: str
    devices: tuple[str, ...]
    slowdowns: tuple[Array, ...]
    carried: Array
    clock: str
    clocks: Array
    clocked: Array


def tunings(
    data: Any, *, model: str | None = None, select: Mapping[str, Any] | None = None
) -> list[Tuning]:
    """Return what tuning is worth for each kernel.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    model : str, optional
        Which model predicts; by default ``combined``, or else the first one.
    select : mapping, optional
        As in :func:`sweep.query.best`.

    Returns
    -------
    list of Tuning
        Of kernels with one problem size, at least :data:`FEW` configurations and at most
        :data:`MOST_POINTS` points.

    Raises
    ------
    QueryError
        No kernel is such, or the question does not fit the results.
    """
    parts = ask(data, ["execution_time"], ["min"], (), None, select).parts
    found = [_tuning(part, model) for part in parts if _can_be_tuned(part)]
    tuned = [one for one in found if one is not None]
    if not tuned:
        raise QueryError(
            f"no kernel with one problem size, {FEW} to {MOST_POINTS:,} configurations and a time: "
            "select sizes, or fewer parameters"
        )
    return tuned


def _can_be_tuned(part: KernelPart) -> bool:
    """Return whether only parameters, devices, models and clocks vary, and not too many."""
    free = {"model", "device", STACKED, *part.grid.stacked, *CLOCKS}
    lengths = {name: len(part.selection.indices[name]) for name in part.grid.dims}
    sizes = [
        n for n in lengths if n not in free and not part.grid.long_name(n).startswith(PARAMETER)
    ]
    return all(lengths[name] == 1 for name in sizes) and math.prod(lengths.values()) <= MOST_POINTS


def _tuning(part: KernelPart, model: str | None) -> Tuning | None:
    """Return what tuning is worth for one kernel; None where there is nothing to tune."""
    devices, chosen, times = _times(part, model)
    clock = _clock(part, "core") or "core_clock_ratio"
    clocks = np.sort(part.labels(clock)) if clock in part.grid.dims else np.array([])
    fastest = times.min(axis=2)
    runs = np.isfinite(fastest).any(axis=1)
    if not runs.any() or np.isfinite(fastest).sum(axis=1).max() < FEW:
        return None
    times, fastest = times[runs], fastest[runs]
    best = fastest.min(axis=1)
    carried = fastest[:, fastest.argmin(axis=1)].T / best
    return Tuning(
        kernel=part.grid.kernel,
        model=chosen,
        devices=tuple(name for name, is_in in zip(devices, runs, strict=True) if is_in),
        slowdowns=tuple(np.sort(row[np.isfinite(row)]) / row.min() for row in fastest),
        carried=_finite(carried),
        clock=clock,
        clocks=clocks,
        clocked=_finite(times.min(axis=1) / best[:, np.newaxis]),
    )


def _finite(values: Array) -> Array:
    """Return values with NaN where there is no time."""
    return np.where(np.isfinite(values), values, np.nan)


def _clock(part: KernelPart, name: str) -> str | None:
    """Return the dimension of a clock; None without one."""
    names = (f"{name}_clock_ratio", f"{name}_clock")
    return next((dim for dim in names if dim in part.grid.dims), None)


def _times(part: KernelPart, model: str | None) -> tuple[list[str], str, Array]:
    """Return devices, model, and times by device, configuration and ascending core clock.

    Where there is no time it is infinite.
    """
    grid, indices = part.grid, {d: part.selection.indices[d] for d in part.grid.dims}
    models = part.labels("model")
    chosen = model or (PREFERRED if PREFERRED in models else models[0])
    check_known(chosen, models, f"the results have no model '{chosen}'", "models:")
    if "model" in indices:
        indices["model"] = indices["model"][[models.index(chosen)]]
    core, memory = _clock(part, "core") or "core", _clock(part, "memory")
    if core in indices:
        indices[core] = indices[core][np.argsort(part.labels(core))]
    times = grid.read(["execution_time"], indices)["execution_time"].astype(np.float64)
    times = np.where(np.isnan(times) | ~part.selection.mask(grid, indices), np.inf, times)
    if memory is not None:
        times = times.min(axis=grid.dims.index(memory), keepdims=True)
    names = list(grid.dims)
    for name in ("device", core):
        if name not in names:
            times, names = times[..., np.newaxis], [*names, name]
    times = np.moveaxis(times, (names.index("device"), names.index(core)), (0, -1))
    return part.labels("device"), chosen, times.reshape(times.shape[0], -1, times.shape[-1])


# ---------------------------------------------------------------------------- in words


def conclusions(found: Sequence[Tuning]) -> tuple[str, ...]:
    """Return in a sentence each: what tuning gains, what another GPU's best costs, and clocks."""
    lines = [_of_choice(found)]
    if any(len(one.devices) > 1 for one in found):
        lines.append(_of_devices(found))
    if any(one.clocks.size > 1 for one in found):
        lines.append(_of_clocks(found))
    return tuple(lines)


def _range(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Return the smallest and the largest value in words."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def _of_choice(found: Sequence[Tuning]) -> str:
    """Return how slow the median is, and how many configurations are near the best."""
    medians = [float(np.median(row)) for one in found for row in one.slowdowns]
    near = [float(np.mean(row <= NEAR)) for one in found for row in one.slowdowns]
    times = _range(medians, lambda value: number(value, 2))
    half = f"take more than {times} times as long as" if times != "1" else "are about as fast as"
    return (f"Half of the configurations {half} the best; "
            f"{_range(near, percent)} of all come within {percent(NEAR - 1)} of it.")  # fmt: skip


def _of_devices(found: Sequence[Tuning]) -> str:
    """Return what the best configuration of one device costs on another at most."""
    worst, words, fails = 1.0, "", 0
    for one in found:
        fails += int(np.isnan(one.carried).sum())
        here, there = np.unravel_index(np.nanargmax(one.carried), one.carried.shape)
        if one.carried[here, there] >= worst:
            worst = float(one.carried[here, there])
            words = f"{one.kernel}: that of {one.devices[here]} on {one.devices[there]}"
    none = f"; in {counted(fails, 'case')} it does not run on the other" if fails else ""
    if worst <= 1:
        return f"The best of one GPU is as fast as the best on another{none}."
    return (f"The best of one GPU takes up to {percent(worst - 1)} longer on another than the best"
            f" there ({words}){none}.")  # fmt: skip


def _of_clocks(found: Sequence[Tuning]) -> str:
    """Return what the lowest core clock costs, where least and where most."""
    costs = [
        (float(times[0]) - 1, f"{one.kernel} on {device}", one)
        for one in found
        if one.clocks.size > 1
        for device, times in zip(one.devices, one.clocked, strict=True)
    ]
    (least, where, one), (most, other, _) = (
        choose((cost for cost in costs if np.isfinite(cost[0])), key=itemgetter(0))
        for choose in (min, max)
    )
    unit = "of the nominal core clock" if one.clock.endswith("_ratio") else "MHz of core clock"
    return (f"At {number(one.clocks[0], 3)} {unit}, {where} takes {percent(least)} longer, "
            f"{other} {percent(most)}.")  # fmt: skip

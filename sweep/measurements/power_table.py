"""Measured powers over clocks, with activities: from a table, or from samples of our own kernels.

A time model implies activities as follows. The mixes of computation and memory traffic
(``mix.toml``), with many warps or few, whose times change over the clocks as the kernel's do are
taken, and the mean of their activities. Times over clocks tell what a kernel waits for, not how
many units it keeps busy: one that waits for latencies on the chip looks like one that computes.
Kernel files of profiles do tell: from their counts a model computes how busy the units are.

The samples of ``sweep calibrate --gpu`` tell activities: a kernel's rate of instructions, or of
bytes, over the best rate that any kernel of the same class reaches at these clocks.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, check_known, counted
from sweep.fields import Array
from sweep.importers.files import Source
from sweep.importers.microbenchmarks import own_samples
from sweep.importers.tuners.table import ClockTimes, Pair, PowerRow, read_clock_power, times_of
from sweep.measurements.clock_ranges import CLOCKS, clocks_not_held
from sweep.measurements.clock_validation import ACTIVITIES, mixes_at
from sweep.measurements.scaling import over_clocks
from sweep.microbenchmarks.power import drawn
from sweep.space import Plan
from sweep.specs import Device, Kernel

FEWEST_PAIRS = 3
"""Fewest pairs of clocks of a kernel from which its activities are implied."""

ALIKE = 0.01
"""Mixes whose root mean square error over the clocks is within this of the smallest are alike [1]:
neither times nor models are better than a hundredth."""


Activities = dict[str, dict[Pair, tuple[float, float]]]
"""Of core and memory, by kernel and pair of clocks [1]."""


@dataclass(frozen=True)
class PowerTable:
    """Measured powers, a line per kernel and pair of clocks.

    Attributes
    ----------
    name : str
        The file.
    kernels : tuple of str
        Names of the kernels.
    kernel : array of int
        The number of each line's kernel.
    core, memory : array
        Clocks [MHz].
    time, power : array
        Measured [s], [W].
    activities : array, shape (2, lines)
        Of the core and of the memory [1].
    counted : bool
        Whether the activities are counted, in the table or by a profiler, and not implied by times.
    actual : mapping of float to float
        Core clocks that the GPU did not hold, and what they were (already in ``core``) [MHz].
    """

    name: str
    kernels: tuple[str, ...]
    kernel: NDArray[np.intp]
    core: Array
    memory: Array
    time: Array
    power: Array
    activities: Array
    counted: bool
    actual: Mapping[float, float]

    def of(self, chosen: NDArray[np.bool_]) -> PowerTable:
        """Return the chosen lines."""
        names = ("kernel", "core", "memory", "time", "power")
        parts = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, **parts, activities=self.activities[:, chosen])


def read_power(
    source: Source,
    device: Device,
    model: str,
    variant: str,
    like: PowerTable | None = None,
    profiled: Mapping[str, Kernel] | None = None,
) -> PowerTable:
    """Return the measured powers of a file, with activities.

    Parameters
    ----------
    source : Source
        A file for :func:`sweep.importers.tuners.table.read_clock_power`, or of the samples of
        ``sweep calibrate --gpu``.
    device : Device
        The device, whose range covers the clocks.
    model, variant : str
        The time model that implies activities, if the file has none.
    like : PowerTable, optional
        A table of the same GPU that says which clocks it did not hold; by default the file itself.
    profiled : mapping of str to Kernel, optional
        The counts of each kernel, by its name in lower case, in place of activities in the file.

    Raises
    ------
    SweepError
        The file is wrong, or times over clocks are too few to imply activities.
    """
    of_samples = own_samples.READER.recognises(source.text)
    rows = _of_samples(source) if of_samples else read_clock_power(source)
    kernels = tuple(dict.fromkeys(row.kernel for row in rows))
    actual = clocks_not_held(times_of(rows)) if like is None else like.actual
    unique: dict[tuple[str, Pair], PowerRow] = {}
    for row in rows:  # of lines at the same actual clocks the first counts
        pair = actual.get(row.pair[0], row.pair[0]), row.pair[1]
        unique.setdefault((row.kernel, pair), row._replace(pair=pair))
    rows = [*unique.values()]
    times = times_of(rows)
    counted = bool(rows[0].activities) or profiled is not None
    found: Activities = {}
    if profiled is not None:
        found = profiled_activities(times, profiled, device, model, variant, source.name)
    elif not counted:
        found = implied_activities(times, device, model, variant, source.name)
    shares = [found[row.kernel][row.pair] if found else row.activities for row in rows]
    number = {kernel: i for i, kernel in enumerate(kernels)}
    of_kernel = np.array([number[row.kernel] for row in rows])
    core, memory = np.array([row.pair for row in rows]).T
    time, power = np.array([(row.time, row.power) for row in rows]).T
    return PowerTable(source.name, kernels, of_kernel, core, memory, time, power,
                      np.array(shares).T, counted, actual)  # fmt: skip


def _of_samples(source: Source) -> list[PowerRow]:
    """Return the powers of our own kernels, whose instructions and bytes are known."""
    samples, _ = own_samples.samples_of(source)
    rows = [
        PowerRow(f"{one.procedure}, {one.name}", (one.core, one.memory), one.seconds,
                 statistics.median(one.watts), shares)
        for one, shares in drawn(samples)
    ]  # fmt: skip
    if not rows:
        why = "the clocks were free" if any(s.watts for s in samples.found) else "NVML read none"
        raise source.error(f"no power at clocks that were held: {why}")
    return rows


def profiled_activities(
    times: ClockTimes,
    profiled: Mapping[str, Kernel],
    device: Device,
    model: str,
    variant: str,
    name: str,
) -> Activities:
    """Return the activities of core and memory that a model has for the counts of profiles.

    Units are busy for as long as predicted, however long the kernel takes.

    Raises
    ------
    QueryError
        A kernel has no file, or the model no time for it.
    """
    found: Activities = {}
    for kernel, own in times.items():
        check_known(
            kernel.lower(), profiled, f"{name}: kernel '{kernel}' has no file of its counts"
        )
        file = profiled[kernel.lower()]
        core, memory = (sorted({pair[i] for pair in own}) for i in (0, 1))
        axes: Any = dict(zip(CLOCKS, (core, memory), strict=True))
        plan = Plan((file.key,), (device.key,), (model,), variant=variant, layout="grid", axes=axes,
                    outputs=ACTIVITIES, precision="float64")  # fmt: skip
        results = over_clocks(plan, device, file.text).squeeze("model").transpose(*CLOCKS, ...)
        if len(results.sizes) > 2 or not np.isfinite(results["execution_time"]).all():
            raise QueryError(f"{file.path or file.key}: no time of one launch on {device.key}")
        at = [core.index(c) for c, _ in own], [memory.index(m) for _, m in own]
        time, *shares = (results[output].values[at] for output in ACTIVITIES)
        busy = np.minimum(1.0, np.array(shares) * time / [*own.values()])
        found[kernel] = dict(zip(own, map(tuple, busy.T.tolist()), strict=True))
    return found


def implied_activities(
    times: ClockTimes, device: Device, model: str, variant: str, name: str
) -> Activities:
    """Return the activities of core and memory that a model implies, for kernels with these times.

    Raises
    ------
    QueryError
        A kernel was measured at fewer than three pairs of clocks, or the model has no time.
    """
    few = next((k for k, own in times.items() if len(own) < FEWEST_PAIRS), None)
    if few is not None:
        raise QueryError(
            f"{name}: kernel '{few}' was measured at {counted(len(times[few]), 'pair')} of clocks:"
            f" its activities need {FEWEST_PAIRS}, or columns core_activity and memory_activity"
        )
    pairs = tuple(sorted({pair for own in times.values() for pair in own}))
    predicted, core, memory = mixes_at(pairs, device, model, variant)
    if not np.isfinite(predicted).any():
        raise QueryError(f"{model} has no time on {device.key}: see `sweep list models`")
    shares = np.nan_to_num(np.stack([core, memory]))
    found: Activities = {}
    groups: dict[tuple[Pair, ...], list[str]] = {}
    for kernel, own in times.items():
        groups.setdefault(tuple(own), []).append(kernel)
    for own_pairs, kernels in groups.items():  # all kernels that were measured at the same clocks
        at = [pairs.index(pair) for pair in own_pairs]
        measured = np.log([[times[kernel][pair] for pair in own_pairs] for kernel in kernels])
        shapes, own_shares = np.log(predicted[at]), np.ascontiguousarray(shares[:, at])
        shapes -= shapes.mean(axis=0)
        measured -= measured.mean(axis=1, keepdims=True)
        square = np.mean(shapes**2, axis=0)
        for kernel, shape in zip(kernels, measured, strict=True):
            # The variance over the clocks of the logarithm of predicted over measured.
            variance = square + np.mean(shape**2) - 2.0 / len(at) * (shape @ shapes)
            error = np.sqrt(np.maximum(variance, 0.0))
            alike = np.flatnonzero(error <= np.nanmin(error) + ALIKE)
            means = own_shares[..., alike].mean(axis=-1).T.tolist()
            found[kernel] = dict(zip(own_pairs, map(tuple, means), strict=True))
    return found

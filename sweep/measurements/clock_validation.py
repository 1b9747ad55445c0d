"""Predict times at many pairs of clocks from a few of them, with the models and simple rules.

A kernel of which only times are known is described as a mix of computation and memory traffic, of
which L2 serves a share, with some number of warps to hide it (``mix.toml``). A few times do not
tell these apart. For each hit rate and number of warps a model uses the computation with which it
is closest to the given times, and the prediction is the geometric mean over all of them that are as
close as the closest. No number is fitted to any other time; the other times test the predictions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.importers.files import read_source
from sweep.importers.tuners.table import ClockTimes, read_clock_times
from sweep.measurements.clock_ranges import clock_range, not_measured, widened
from sweep.measurements.scaling import over_clocks
from sweep.models import model_names
from sweep.query import Answer
from sweep.space import Plan
from sweep.specs import Device, load_device

if TYPE_CHECKING:
    import xarray as xr

Pair = tuple[float, float]

ACTIVITIES = ("execution_time", "core_activity", "memory_activity")
"""Results that tell how long core and memory are busy."""

CORE_RULE = "(time ~ 1/core clock)"
NO_CHANGE = "(no change)"
SUM_RULE = "(sum of shares)"
ROOF_RULE = "(larger share)"

SHARES = np.linspace(0.0, 1.0, 1001)

RULES: dict[str, Callable[[Array, Array], Array]] = {
    CORE_RULE: lambda core, memory: core,
    NO_CHANGE: lambda core, memory: np.ones_like(core),
    SUM_RULE: lambda core, memory: (1.0 - SHARES) * core + SHARES * memory,
    ROOF_RULE: lambda core, memory: (
        np.maximum((1.0 - SHARES) * core, SHARES * memory) / np.maximum(1.0 - SHARES, SHARES)
    ),
}
"""Rules without a model. The last two divide the time into a share of each clock, added or
overlapped, fitted to the same given times as the mix."""

COMPUTATION = (0.0, *(float(f"{x:.4g}") for x in np.geomspace(0.1, 1e4, 400)))
"""Instructions per load, from none to so many that memory does not matter."""

HIT_RATES = tuple(float(f"{x:.3g}") for x in np.linspace(0.0, 1.0, 21))
REGISTERS = (32, 64, 128, 255)
"""All warps that a multiprocessor of 65,536 registers holds, a half, a quarter, an eighth."""

MIXES = {"hit_rate": HIT_RATES, "registers": REGISTERS, "computation": COMPUTATION}
"""The axes of the mixes, in this order."""

FEW = {
    "hit_rate": HIT_RATES,
    "threads": (32, 64, 128),
    "shared": (49152,),
    "computation": COMPUTATION,
}
"""Axes of mixes with few warps: blocks that are small, and each with the most shared memory that
every GPU gives a block. Nothing hides their latencies."""

CLOSE = 1e-3
"""Mixes and shares whose error is within this of the smallest count as equal. Of those that differ
in their computation alone, and of shares, the middle one is used."""


@dataclass(frozen=True)
class Predicted:
    """Relative times of one kernel by one model or rule.

    Attributes
    ----------
    kernel, by : str
        The kernel; the model, or the rule in parentheses.
    pairs : tuple of Pair
        The pairs that are neither given nor the anchor.
    ratio, measured : array, shape (pairs,)
        Predicted and measured time over the measured time at the anchor [1].
    mix : tuple of float
        Instructions per load and L2 hit rate, the medians of all fitting mixes; empty for rules.
    """

    kernel: str
    by: str
    pairs: tuple[Pair, ...]
    ratio: Array
    measured: Array
    mix: tuple[float, ...] = ()

    @property
    def mape(self) -> float:
        """Mean absolute relative error over the pairs [1]."""
        return float(np.mean(np.abs(self.ratio / self.measured - 1.0)))


def validate_clocks(
    path: str | os.PathLike[str],
    *,
    device: str,
    given: Sequence[Pair],
    anchor: Pair | None = None,
    models: Sequence[str] = (),
    variant: str = "corrected",
    by_kernel: bool = False,
) -> Answer:
    """Return how well models predict times at other clocks from times at a few.

    Parameters
    ----------
    path : path
        CSV with the columns kernel, core clock, memory clock [MHz] and time.
    device : str
        The device.
    given : sequence of (float, float)
        Pairs of core and memory clock [MHz] whose times determine the mix: one pair determines its
        computation, more also its L2 hit rate and how many warps hide its latencies.
    anchor : (float, float), optional
        The pair to which times are relative; the device's nominal clocks by default.
    models : sequence of str
        The models; all by default.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.
    by_kernel : bool
        Whether to return a row per kernel and model instead of one per model.

    Returns
    -------
    Answer
        Mean absolute relative errors of the models and of the rules, over all pairs that are
        neither the anchor nor given.

    Raises
    ------
    SweepError
        The file is wrong, a kernel was not measured at the anchor or a given pair, or no other pair
        is left.
    """
    source = read_source(path)
    loaded = load_device(device)
    if anchor is None:
        anchor = clock_range(loaded, "core")[1], clock_range(loaded, "memory")[1]
    times = read_clock_times(source)
    pairs = [pair for own in times.values() for pair in own]
    core, memory = ((min(clocks), max(clocks)) for clocks in zip(*pairs, strict=True))
    covering, notes = widened(loaded, {"core": core, "memory": memory})
    try:
        found = predicted(times, covering, anchor, given, models, variant)
    except QueryError as error:
        raise QueryError(f"{path}: {error}") from None
    where = ", ".join(f"{core:g}/{memory:g}" for core, memory in (anchor, *given))
    title = f"{source.name} on {loaded.key}: times at other clocks from those at {where} MHz"
    return _of_kernels(found, title, notes) if by_kernel else _summary(found, title, notes)


def predicted(
    times: ClockTimes,
    device: Device,
    anchor: Pair,
    given: Sequence[Pair],
    models: Sequence[str] = (),
    variant: str = "corrected",
) -> list[Predicted]:
    """Return the predictions of all kernels by all models and rules.

    Parameters
    ----------
    times : ClockTimes
        The measured times.
    device, anchor, given, models, variant
        As for :func:`validate_clocks`, the device itself.

    Raises
    ------
    QueryError
        As :func:`validate_clocks`.
    """
    _check(times, anchor, given)
    names = tuple(models) or tuple(model_names())
    mixes, of_mixes = _of_mixes(times, device, names, variant)
    candidates = _candidates(of_mixes, anchor)
    result = []
    for kernel, measured in times.items():
        left = tuple(pair for pair in measured if pair != anchor and pair not in given)
        ratio = {pair: time / measured[anchor] for pair, time in measured.items()}
        truth, target = (np.array([ratio[pair] for pair in pairs]) for pairs in (left, given))
        for by, relative in candidates.items():
            values = relative(left)
            wrong = relative(given) / target[:, np.newaxis, np.newaxis] - 1.0
            complete = np.isfinite(values).all(axis=0)
            error = np.where(complete, np.sqrt(np.mean(wrong**2, axis=0)), np.inf)
            if not np.isfinite(error).any():
                raise QueryError(
                    f"{by} has no time on {device.key} at all clocks of the file: see"
                    f" `sweep list models --device {device.key}`"
                )
            lines, best = _middles(error <= error.min() + CLOSE)
            predicted = np.exp(np.mean(np.log(values[:, lines, best]), axis=1))
            mix = tuple(np.median(mixes[lines, best], axis=0).tolist()) if by in of_mixes else ()
            result.append(Predicted(kernel, by, left, predicted, truth, mix))
    return result


def _middles(near: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows that have true values, and the column of the middle one in each."""
    lines = np.flatnonzero(near.any(axis=1))
    found = (np.flatnonzero(near[line]) for line in lines)
    return lines, np.array([columns[len(columns) // 2] for columns in found])


def _check(times: ClockTimes, anchor: Pair, given: Sequence[Pair]) -> None:
    if not given:
        raise QueryError("no given pair of clocks: the anchor alone does not tell a kernel's mix")
    if len({anchor, *given}) <= len(given):
        raise QueryError("the given pairs of clocks and the anchor must differ from each other")
    for kernel, measured in times.items():
        for core, memory in (anchor, *given):
            if (core, memory) not in measured:
                raise not_measured(kernel, (core, memory), measured)
        if len(measured) <= len(given) + 1:
            raise QueryError(f"kernel '{kernel}' was measured at no further pair to judge by")


def _candidates(
    of_mixes: Mapping[str, Mapping[Pair, Array]], anchor: Pair
) -> dict[str, Callable[[Sequence[Pair]], Array]]:
    """Return what predicts relative times at pairs of clocks, by rule and model.

    The predictions have the shape (pairs, hit rates and registers, computations) or (pairs, 1,
    shares).
    """

    def of_rule(rule: Callable[[Array, Array], Array], pairs: Sequence[Pair]) -> Array:
        core, memory = (np.array(anchor) / np.array(pairs, float)).T[..., np.newaxis, np.newaxis]
        return rule(core, memory)

    def of_model(times: Mapping[Pair, Array], pairs: Sequence[Pair]) -> Array:
        return np.stack([times[pair] / times[anchor] for pair in pairs])

    rules = {name: partial(of_rule, rule) for name, rule in RULES.items()}
    return {**rules, **{name: partial(of_model, times) for name, times in of_mixes.items()}}


def _of_mixes(
    times: ClockTimes, device: Device, models: Sequence[str], variant: str
) -> tuple[Array, dict[str, dict[Pair, Array]]]:
    """Return all mixes, and for each model their times at each pair of clocks.

    Mixes have the shape (hit rates and registers, computations, 2): computation and hit rate.
    """
    pairs = {pair for own in times.values() for pair in own}
    core, memory = (sorted({pair[i] for pair in pairs}) for i in (0, 1))
    found = _mixes(core, memory, device, models, variant, ("execution_time",))["execution_time"]
    of_models = found.values.reshape(len(models), len(core) * len(memory), -1, len(COMPUTATION))
    by_pair = (dict(zip(product(core, memory), own, strict=True)) for own in of_models)
    hits, _, computation = np.meshgrid(*MIXES.values(), indexing="ij")
    mixes = np.stack([computation, hits], axis=-1).reshape(-1, len(COMPUTATION), 2)
    return mixes, dict(zip(models, by_pair, strict=True))


@lru_cache(maxsize=4)  # files of one device are often of the same clocks
def mixes_at(
    pairs: tuple[Pair, ...], device: Device, model: str, variant: str
) -> tuple[Array, Array, Array]:
    """Return time [s], core and memory activity [1] of mixes with many and few warps.

    Each has the shape (pairs, mixes), for pairs of clocks [MHz].
    """
    core, memory = (sorted({pair[i] for pair in pairs}) for i in (0, 1))
    at = [core.index(c) * len(memory) + memory.index(m) for c, m in pairs]
    lines, parts = len(core) * len(memory), []
    for mixes in (MIXES, FEW):
        found = _mixes(core, memory, device, (model,), variant, ACTIVITIES, mixes)
        parts.append([found[name].values.reshape(lines, -1)[at] for name in ACTIVITIES])
    time, busy, moving = (np.concatenate(of_name, axis=1) for of_name in zip(*parts, strict=True))
    return time, busy, moving


def _mixes(
    core: Sequence[float],
    memory: Sequence[float],
    device: Device,
    models: Sequence[str],
    variant: str,
    outputs: tuple[str, ...],
    mixes: Mapping[str, tuple[float, ...]] = MIXES,
) -> xr.Dataset:
    """Return results of all mixes, with the dimensions model, clocks and those of the mixes."""
    axes: Any = {**mixes, "core_clock": tuple(core), "memory_clock": tuple(memory)}
    plan = Plan(("mix",), (device.key,), tuple(models), variant=variant, layout="grid", axes=axes,
                outputs=outputs, precision="float64")  # fmt: skip
    text = files("sweep.measurements").joinpath("mix.toml").read_text(encoding="utf-8")
    found = over_clocks(plan, device, text)
    return found.transpose("model", "core_clock", "memory_clock", *mixes, missing_dims="ignore")


# ---------------------------------------------------------------------------- answers


def _summary(found: Sequence[Predicted], title: str, notes: Sequence[str]) -> Answer:
    rows = []
    for name in dict.fromkeys(one.by for one in found):
        own = [one for one in found if one.by == name]
        errors = np.array([one.mape for one in own])
        worst = own[int(errors.argmax())]
        row = {"by": name, "kernels": len(own), "predictions": sum(len(one.pairs) for one in own)}
        row |= {"mape": float(errors.mean()), "median": float(np.median(errors))}
        rows.append(row | {"worst": worst.mape, "worst_kernel": worst.kernel})
    note = "errors: the mean over the pairs of each kernel, then over kernels"
    return Answer.of(title, rows, ("by",), notes=(note, *notes))


def _of_kernels(found: Sequence[Predicted], title: str, notes: Sequence[str]) -> Answer:
    rows = [
        {"kernel": one.kernel, "by": one.by, "mape": one.mape}
        | dict(zip(("computation", "hit_rate"), one.mix or (None, None), strict=True))
        for one in found
    ]
    return Answer.of(title, rows, ("kernel", "by"), notes=notes)

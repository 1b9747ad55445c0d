"""Correct a kernel file by a few measured configurations: one scale, and its hit rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.evaluation.chunk import evaluate_points
from sweep.evaluation.reducing import Progress
from sweep.evaluation.variables import variables
from sweep.expressions import Expression
from sweep.fields import Array
from sweep.query.agreement import spearman
from sweep.query.pairing import Paired, paired
from sweep.runs.record import Source, space_of
from sweep.space import Space
from sweep.space.valid import GOLDEN
from sweep.specs import Kernel
from sweep.specs.corrections import SCALE, corrected, shift_names

FEWEST = 3
"""Fewest configurations from which anything can be fitted."""

COARSE = np.linspace(-1.0, 1.0, 9)
"""Shifts of a hit rate that are tried first."""

FINE = 8
"""Steps by which the best of them is then bracketed more closely, each by the golden ratio."""

REFINING = 1 + 2 * FINE
"""Trials that this takes."""

Times = Callable[[float, Mapping[str, float]], Array]
"""Times of the chosen configurations for a scale and shifts of hit rates."""


@dataclass(frozen=True)
class Calibrated:
    """A corrected kernel file, and what the correction does.

    Attributes
    ----------
    kernel : Kernel
        The corrected kernel; ``kernel.text`` is its file.
    pair : Paired
        What it was calibrated on: kernel, device and model.
    chosen : array of int
        Numbers of the configurations that the fit saw, among all that have both times.
    total : int
        Configurations that have both times.
    scale : float
        The factor of all counts [1].
    shifts : mapping
        What is added to hit rates, by path [1].
    errors, ranks : pair of float
        Of the others, before and after: median absolute relative error, Spearman's correlation.
    """

    kernel: Kernel
    pair: Paired
    chosen: Array
    total: int
    scale: float
    shifts: Mapping[str, float]
    errors: tuple[float, float]
    ranks: tuple[float, float]

    def lines(self) -> list[str]:
        """Return what was done, for people."""
        one, n = self.pair, len(self.chosen)
        changed = {SCALE: (1.0, self.scale), **{p: (0.0, s) for p, s in self.shifts.items()}}
        (error, error_after), (rank, rank_after) = self.errors, self.ranks
        return [
            f"{one.kernel} on {one.device} by {one.model}: fitted to {n} of {self.total:,} measured"
            " configurations, spread evenly over the order of predicted times",
            f"  all counts of a thread times {self.scale:.4g}",
            *(f"  {path}: {shift:+.3g}" for path, (_, shift) in changed.items() if path != SCALE),
            f"the other {self.total - n:,}, which the fit did not see: median absolute error"
            f" {error:.1%} before, {error_after:.1%} after; rank correlation {rank:.3f} before,"
            f" {rank_after:.3f} after",
        ]


def calibrate_kernel(
    data: Any,
    source: Source,
    measurements: Any,
    few: int = 20,
    *,
    select: Mapping[str, Any] | None = None,
    origin: str = "measurements",
    progress: Progress = lambda done, total: None,
) -> Calibrated:
    """Correct a kernel file's scale and hit rates by a few measured configurations.

    The few are spread evenly over the order of predicted times; measured times have no part in the
    choice. Of the logarithms of measured over predicted times the mean absolute deviation from the
    median is minimised, in which outliers count little: hit rates are added one by one, each by a
    bounded search, while Akaike's criterion improves, with the correction that Hurvich and
    Tsai (1989, doi:10.1093/biomet/76.2.297) give for small samples and normal errors. Then the
    scale follows.

    Parameters
    ----------
    data : path or results
        Predictions of one kernel, device and model, after ``select``.
    source : Source
        Their space: a plan, or the record of a store.
    measurements : Dataset or path
        Measured times.
    few : int
        How many measured configurations to use.
    select : mapping, optional
        As in :func:`sweep.query.paired`.
    origin : str
        The name of the measurements, which the file records.
    progress : callable, optional
        Called with the number of trials and their total, anew for each hit rate that is added.

    Raises
    ------
    SweepError
        There are too few configurations, or their times are constant, not positive or no numbers.
    """
    pairs = paired(data, measurements, select=select)
    if len(pairs) > 1:
        several = "; ".join(f"{one.kernel}, {one.device}, {one.model}" for one in pairs[:6])
        raise QueryError(f"one kernel, device and model can be calibrated: select one of {several}")
    (one,) = pairs
    timed = np.flatnonzero(np.isfinite(one.predicted))
    chosen = _chosen(one, timed, few)
    space = space_of(source)
    words = f"fitted: calibrated on {few} measured configurations of {origin}"
    kernel = space[one.kernel].kernel
    rates = shift_names(kernel)
    template = corrected(kernel, 1.0, dict.fromkeys(rates, 0.0), words)

    def times(scale: float, shifts: Mapping[str, float]) -> Array:
        values = {SCALE: scale} | {rates[path]: shift for path, shift in shifts.items()}
        own = {name: Expression.parse(repr(float(value))) for name, value in values.items()}
        trial = replace(template, derived={**template.derived, **own}, sha256=repr(values))
        return _times(space, trial, one, timed[chosen])

    scale, shifts = _fitted(times, one.measured[timed[chosen]], list(rates), progress)
    final = corrected(kernel, scale, shifts, words)
    others = np.delete(timed, chosen)
    measured = one.measured[others]
    both = [_times(space, k, one, others) for k in (kernel, final)]
    errors, ranks = (
        [float(of(values)) for values in both]
        for of in (
            lambda values: np.nanmedian(np.abs(values / measured - 1.0)),
            lambda values: spearman(np.nan_to_num(values, nan=np.inf), measured),
        )
    )
    return Calibrated(
        final, one, chosen, len(timed), scale, shifts,
        (errors[0], errors[1]), (ranks[0], ranks[1]),
    )  # fmt: skip


def _chosen(one: Paired, timed: Array, few: int) -> Array:
    """Return which configurations to fit to, as places among those that have both times."""
    where = f"{one.kernel} on {one.device}"
    wrong = ~(np.isfinite(one.measured) & (one.measured > 0.0))
    if wrong.any():
        raise QueryError(f"{where}: {int(wrong.sum())} measured times are not positive numbers")
    if few < FEWEST:
        raise QueryError(f"--few {few}: at least {FEWEST} configurations are needed for a fit")
    if few >= len(timed):
        raise QueryError(
            f"--few {few}: only {len(timed)} configurations of {where} have both times, and"
            " some must be left to judge the fit"
        )
    order = np.argsort(one.predicted[timed], kind="stable")
    chosen = np.sort(order[((np.arange(few) + 0.5) * len(timed) / few).astype(np.intp)])
    if np.ptp(one.measured[timed[chosen]]) == 0.0:
        raise QueryError(f"{where}: the {few} measured times are all equal, nothing can be fitted")
    return np.asarray(chosen)


def _times(space: Space, kernel: Kernel, one: Paired, rows: Array) -> Array:
    """Return the times [s] of paired configurations by another version of their kernel."""
    own = replace(space[one.kernel], kernel=kernel)
    plan = replace(space.plan, models=(one.model,))
    wanted = [v for v in variables(own, plan) if v.name == "execution_time"]
    points = {name: one.places[name][rows] for name in own.grid.names}
    found = evaluate_points(own, plan, points, wanted, is_last=True)["execution_time"]
    return np.asarray(found, np.float64).reshape(-1)


def _fitted(
    times: Times, measured: Array, paths: list[str], progress: Progress
) -> tuple[float, dict[str, float]]:
    """Return the scale and the shifts of hit rates that fit best."""
    n, shifts, scale = len(measured), dict[str, float](), 1.0
    done = trials = 0

    def spread(more: dict[str, float]) -> float:
        nonlocal done
        done += 1
        if trials:
            progress(done, trials)
        logs = np.log(measured / times(scale, shifts | more))
        return float(np.mean(np.abs(logs - np.median(logs)))) if np.isfinite(logs).all() else np.inf

    def criterion(deviation: float, k: int) -> float:
        if n - k - 1 <= 0:
            return np.inf
        return 2 * n * math.log(max(deviation, 1e-12)) + 2 * k + 2 * k * (k + 1) / (n - k - 1)

    best = criterion(spread({}), 2)  # the scale and the deviation
    while len(shifts) < len(paths):
        done, trials = 0, len(COARSE) * (len(paths) - len(shifts)) + REFINING
        tried = {path: min((spread({path: shift}), shift) for shift in COARSE.tolist())
                 for path in paths if path not in shifts}  # fmt: skip
        path = min(tried, key=lambda path: tried[path][0])
        deviation, shift = _refined(spread, path, tried[path][1])
        found = criterion(deviation, 3 + len(shifts))
        if not found < best:
            break
        best, shifts[path] = found, shift
    scale = _scaled(times, measured, shifts)
    done, trials = 0, 2 * len(shifts) * REFINING
    for path in [*shifts, *shifts]:  # what follows from each other
        shifts[path] = _refined(spread, path, shifts[path])[1]
        scale = _scaled(times, measured, shifts)
    return scale, shifts


def _scaled(times: Times, measured: Array, shifts: Mapping[str, float]) -> float:
    """Return the factor of all counts whose times have no error in the median of logarithms."""
    scale = 1.0
    for _ in range(20):  # a launch takes time that does not follow the counts
        step = math.exp(float(np.median(np.log(measured / times(scale, shifts)))))
        scale *= step
        if abs(step - 1.0) < 1e-6:
            break
    return scale


def _refined(
    spread: Callable[[dict[str, float]], float], path: str, shift: float
) -> tuple[float, float]:
    """Return the least deviation near a shift, by the golden section, and the shift."""
    step = float(COARSE[1] - COARSE[0])
    low, high = max(-1.0, shift - step), min(1.0, shift + step)
    found = [(spread({path: shift}), shift)]
    for _ in range(FINE):
        inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
        (left, a), (right, b) = pair = [(spread({path: x}), x) for x in inner]
        low, high = (low, b) if left <= right else (a, high)
        found += pair
    return min(found)

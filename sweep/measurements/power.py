"""The power of a device, fitted to measured power over clocks by equation (1) of Wang & Chu.

``P = static + C V^2 f (s + (1 - s) a) + C' f' (s' + (1 - s') a')`` for the core and, with a dash,
the memory. The activities ``a`` are those that a model implies, or counted ones of the table; ``s``
are the shares that remain without activity. For a given voltage curve this is linear in five
coefficients, none of which is negative: non-negative least squares of relative errors finds them.
Around it, the voltage curve is fitted: it rises from knot to knot, and stays above a floor of
each memory clock. Power tells the voltage only up to a factor, so it is 1 at the nominal clocks.

An activity does not tell which units are busy. So each kernel has a factor on its activities while
voltages and what remains without activity are fitted: these follow from how the power of each
kernel changes over the clocks. How far factors are from 1 is a variance that the table itself tells
(expectation and maximisation). For a kernel that nobody measured the factor is 1; one measured
power tells it (:func:`anchored`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.importers.tuners.table import Pair
from sweep.measurements.clock_ranges import not_measured
from sweep.measurements.power_table import PowerTable

KNOTS = 6
"""Most knots of the voltage curve between the lowest and the highest core clock."""

FEWEST_KERNELS, FEWEST_CLOCKS = 3, 3
"""Fewest kernels and core clocks from which anything is fitted."""

FOLDS = 10
"""Parts of the kernels, each of which is predicted from a fit to the others."""

STILL = 0.01
"""Activities and relative powers that differ by less over all lines tell nothing [1]."""

WEAK = 1e-3
"""Variance of relative errors over that of factors, before the table has told it."""

ROUNDS, UPDATES = 3, 6
"""How often the variances are updated; and in between, factors and coefficients."""

TERMS = ("static", "core idle", "core", "memory idle", "memory")
ACTIVE = [2, 4]
"""Those of :data:`TERMS` that are proportional to an activity."""

TINY = 1e-12


@dataclass(frozen=True)
class PowerFit:
    """Coefficients and voltages of equation (1).

    Attributes
    ----------
    coefficients : array, shape (5,)
        Static power [W]; core power without and with activity, memory power without and with
        activity [W/GHz at 1 V].
    knots : array, shape (knots, 2)
        Core clock [MHz] and voltage, 1 at the nominal clocks.
    floors : mapping of float to float
        The least voltage at a memory clock [MHz].
    deviations : array, shape (5,)
        Standard errors of the coefficients, by leaving out a part of the kernels at a time.
    unseen : array, shape (lines, 5)
        The terms of each line by a fit that had not seen its kernel [W].
    """

    coefficients: Array
    knots: Array
    floors: Mapping[float, float]
    deviations: Array
    unseen: Array

    def voltage(self, core: Array, memory: Array) -> Array:
        """Return the core voltage at clocks [MHz], 1 at the nominal ones."""
        return _voltage(core, memory, self.knots, self.floors)

    def terms(self, table: PowerTable) -> Array:
        """Return the five terms of each line's power [W], shape (lines, 5)."""
        return _columns(table, self.voltage(table.core, table.memory)) * self.coefficients


def _voltage(core: Array, memory: Array, knots: Array, floors: Mapping[float, float]) -> Array:
    volts = np.interp(core, *knots.T)
    if not floors:
        return volts
    return np.maximum(volts, np.interp(memory, [*floors], [*floors.values()]))


def _columns(table: PowerTable, voltage: Array) -> Array:
    core, memory = voltage**2 * table.core / 1e3, table.memory / 1e3
    busy, moving = table.activities
    return np.stack([np.ones_like(core), core, core * busy, memory, memory * moving], axis=-1)


def fitted(table: PowerTable, nominal: Pair) -> PowerFit:
    """Return the fit to a table, cross-validated by kernel.

    Parameters
    ----------
    table : PowerTable
        The measured powers.
    nominal : Pair
        The device's nominal core and memory clock [MHz], at which the voltage is 1.

    Raises
    ------
    QueryError
        There are too few kernels or clocks, or activities that stand still.
    """
    _check(table)
    whole = _fit(table, nominal)
    n = len(table.kernels)
    part = np.arange(n) * min(FOLDS, n) // n
    part = np.random.default_rng(0).permutation(part)[table.kernel]
    unseen, parts = np.empty((len(table.power), len(TERMS))), []
    for left_out in range(part.max() + 1):
        one = _fit(table.of(part != left_out), nominal)
        parts.append(one.coefficients)
        away = part == left_out
        unseen[away] = one.terms(table.of(away))
    folds = len(parts)
    spread = np.sqrt((folds - 1) / folds * np.sum((parts - np.mean(parts, axis=0)) ** 2, axis=0))
    return replace(whole, deviations=spread, unseen=unseen)


def _check(table: PowerTable) -> None:
    """Refuse what does not determine a fit; say what is missing."""
    kernels, clocks = len(table.kernels), len(np.unique(table.core))
    if kernels < FEWEST_KERNELS:
        kernel = "one kernel" if kernels == 1 else f"{kernels} kernels"
        reason = f"has {kernel}: a fit that is tested on kernels it has not seen needs"
        raise QueryError(f"{table.name}: {reason} {FEWEST_KERNELS} or more, of different mixes")
    if clocks < FEWEST_CLOCKS:
        reason = f"has {clocks} core clocks: a voltage curve needs {FEWEST_CLOCKS} or more"
        raise QueryError(f"{table.name}: {reason}")
    if np.ptp(table.power) < STILL * table.power.min():
        still = f"power is {table.power[0]:.4g} W in all lines"
        raise QueryError(f"{table.name}: {still}: a sensor that stands still tells no power")
    lines = np.column_stack([table.core, table.memory, table.time, table.power, *table.activities])
    series = [lines[table.kernel == k] for k in range(kernels)]
    names: dict[bytes, str] = {}
    for kernel, own in zip(table.kernels, series, strict=True):
        first = names.setdefault(own[np.lexsort(own.T)].tobytes(), kernel)
        if first != kernel:
            same = f"'{first}' and '{kernel}' are the same measurements under several names"
            raise QueryError(f"{table.name}: kernels {same}")
    times = [own[:, 2] for own in series if len(own) > 1]
    if not table.counted and times and not any(map(np.ptp, times)):
        still = "each kernel takes the same time at all clocks"
        raise QueryError(f"{table.name}: {still}: a timer that stands still tells no activity")
    for name, values in zip(("core", "memory"), table.activities, strict=True):
        if table.counted and np.ptp(values) < STILL:
            still = f"{name}_activity is {values[0]:.3g} in all lines"
            raise QueryError(f"{table.name}: {still}: a counter that stands still tells no power")


def _fit(table: PowerTable, nominal: Pair) -> PowerFit:
    """Return the fit to a table alone."""
    clocks = np.unique(table.core)
    at = np.unique(np.quantile(clocks, np.linspace(0.0, 1.0, min(KNOTS, len(clocks)))))
    memories = np.unique(table.memory)
    memories = memories if len(memories) > 1 else memories[:0]
    # With one memory clock, memory power without activity is part of the static power.
    idle = [0, 1, 3] if len(memories) > 1 else [0, 1]
    kernel = np.unique(table.kernel, return_inverse=True)[1]
    factors, weak = np.ones(kernel.max() + 1), WEAK

    def curve(steps: Array) -> tuple[Array, dict[float, float]]:
        volts = 1.0 + np.concatenate([[0.0], np.cumsum(steps[: len(at) - 1])])
        floors = 1.0 + steps[len(at) - 1 :]
        knots = np.stack([at, volts], axis=-1)
        return knots, dict(zip(memories.tolist(), floors.tolist(), strict=True))

    def relative(steps: Array) -> Array:
        columns = _columns(table, _voltage(table.core, table.memory, *curve(steps)))
        return columns / table.power[:, np.newaxis]

    def solved(steps: Array) -> tuple[Array, Array, Array]:
        """Return coefficients, factors and relative errors at these voltages."""
        return _with_factors(relative(steps), idle, kernel, factors, weak)

    def errors(steps: Array) -> Array:
        _, own, error = solved(steps)
        return np.concatenate([error, np.sqrt(weak) * (own - 1.0)])

    steps = np.concatenate([np.full(len(at) - 1, 0.05), np.full(len(memories), 0.1)])
    for _ in range(ROUNDS):
        steps = least_squares(errors, steps, bounds=(0.0, 1.0), diff_step=1e-3, loss="soft_l1",
                              f_scale=0.1, ftol=1e-5, xtol=1e-5).x  # fmt: skip
        coefficients, factors, error = solved(steps)
        noise = max(float(np.mean(error**2)), TINY)
        active = relative(steps)[:, ACTIVE] @ coefficients[ACTIVE]
        known = noise / (np.bincount(kernel, active**2) + weak)
        weak = noise / float(np.mean((factors - 1.0) ** 2 + known))
    # Of a kernel that is not here the factor is 1: what activity costs on average.
    columns = relative(steps)
    rest = 1.0 - columns[:, idle] @ coefficients[idle]
    coefficients[ACTIVE], _ = nnls(columns[:, ACTIVE], rest)
    knots, floors = curve(steps)
    # Only the product of capacitance and squared voltage is known: 1 at the nominal clocks.
    core, memory = (np.array(clock) for clock in nominal)
    scale = float(_voltage(core, memory, knots, floors))
    knots[:, 1] /= scale
    floors = {memory: volts / scale for memory, volts in floors.items()}
    coefficients[1:3] *= scale**2
    return PowerFit(coefficients, knots, floors, np.zeros(len(TERMS)), np.empty((0, len(TERMS))))


def _with_factors(
    columns: Array, idle: list[int], kernel: NDArray[np.intp], factors: Array, weak: float
) -> tuple[Array, Array, Array]:
    """Return coefficients, a factor of each kernel's activities with the mean 1, and errors.

    Factors and coefficients are least squares in turn; ``weak`` draws the factors to 1.
    """
    coefficients = np.zeros(len(TERMS))
    shown = sorted({*idle, *ACTIVE})
    for _ in range(UPDATES):
        scaled = columns.copy()
        scaled[:, ACTIVE] *= factors[kernel][:, np.newaxis]
        coefficients[shown], _ = nnls(scaled[:, shown], np.ones(len(scaled)))
        active, rest = (columns[:, own] @ coefficients[own] for own in (ACTIVE, idle))
        squares, product = (np.bincount(kernel, active * x) + weak for x in (active, 1.0 - rest))
        factors = np.maximum(product / squares, 0.0)
        factors = factors / max(float(factors.mean()), TINY)
    return coefficients, factors, rest + active * factors[kernel] - 1.0


def anchored(terms: Array, table: PowerTable, anchor: Pair) -> Array:
    """Return powers that meet each kernel's measured one at a pair of clocks [W].

    The kernel keeps a constant multiple of the activities: what remains without activity is the
    device's, whatever runs.

    Parameters
    ----------
    terms : array
        Of :meth:`PowerFit.terms`.
    table : PowerTable
        The measured powers.
    anchor : Pair
        Core and memory clock [MHz].

    Raises
    ------
    QueryError
        A kernel was not measured there.
    """
    active = terms[:, 2] + terms[:, 4]
    factor = np.full(len(table.kernels), np.nan)
    at = np.flatnonzero((table.core == anchor[0]) & (table.memory == anchor[1]))
    idle = terms.sum(axis=1) - active
    factor[table.kernel[at]] = np.maximum(table.power[at] - idle[at], 0.0) / active[at]
    missing = [i for i in np.unique(table.kernel) if np.isnan(factor[i])]
    if missing:
        own = table.kernel == missing[0]
        pairs = zip(table.core[own], table.memory[own], strict=True)
        error = not_measured(table.kernels[missing[0]], anchor, pairs)
        raise QueryError(f"{table.name}: {error}")
    return idle + factor[table.kernel] * active


def energy_losses(predicted: Array, table: PowerTable) -> Array:
    """Return by how much more energy than necessary each kernel takes at the clocks chosen [1].

    Parameters
    ----------
    predicted : array
        What is least at the clocks chosen, such as the predicted energy of each line.
    table : PowerTable
        The measured powers.
    """
    measured, losses = table.power * table.time, []
    for kernel in np.unique(table.kernel):
        own = np.flatnonzero(table.kernel == kernel)
        losses.append(measured[own[predicted[own].argmin()]] / measured[own].min() - 1.0)
    return np.array(losses)


def clocks_alone(table: PowerTable, others: PowerTable) -> Array:
    """Return the median power of a table at the clocks of other lines, NaN where there is none."""
    of_pair = {
        pair: float(np.median(table.power[(table.core == pair[0]) & (table.memory == pair[1])]))
        for pair in dict.fromkeys(zip(table.core.tolist(), table.memory.tolist(), strict=True))
    }
    pairs: Sequence[Pair] = list(zip(others.core.tolist(), others.memory.tolist(), strict=True))
    return np.array([of_pair.get(pair, np.nan) for pair in pairs])

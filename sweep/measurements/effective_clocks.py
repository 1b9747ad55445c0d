"""The clock at which a model predicts a measured time: what it misses, as more cycles.

A model counts the cycles of the chip and of DRAM. If it misses a measured time, one of both took
more or fewer cycles than the model counts: for uncounted instructions, replays and waiting on the
chip; for rows opened for few bytes in DRAM. K times the cycles take as long as the counted ones at
a K-th of the clock. So this module chooses one number, the ratio of an effective clock to the real
one, with which the model meets the measurement, and keeps it at all other clocks.

One measured time determines one number. It scales the clock that has to change least, and a change
of the memory clock counts :data:`KNOWN` times: a profile counts all traffic of DRAM, and the device
file has its measured service, while no counter tells barriers, replays and other waiting on the
chip. So a time is taken as cycles of DRAM only if few of them are missing. All else stays the
model's, above all how far chip and DRAM overlap at each pair of clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweep.fields import Array
from sweep.measurements.clock_ranges import possible

REACH = 16
"""Largest ratio of effective and real clocks that is searched, in either direction."""

KNOWN = 4
"""How many times better the cycles of DRAM are known than those of the chip [1]. Assumed: to some
5 %, as Wang & Chu measured DRAM's service, beside some 20 %; from 3 to 6 do about as well."""

STEPS = 32
"""Steps from a clock to its double: between two of them a time is interpolated."""


@dataclass(frozen=True)
class Effective:
    """The clock at which a model meets a measured time.

    Attributes
    ----------
    predicted : float
        Its time at the real clocks [s].
    clock : str
        ``core`` or ``memory``: the clock of the missing cycles.
    ratio : float
        Effective over real clock [1].
    """

    predicted: float
    clock: str
    ratio: float

    def of(self, clock: str, values: Sequence[float]) -> list[float]:
        """Return the clocks at which the model is taken, for real ``core`` or ``memory`` clocks."""
        return [value * self.ratio if clock == self.clock else value for value in values]


def searched(clock: str, own: float, *others: float) -> Array:
    """Return the clocks to search for an effective ``core`` or ``memory`` clock [MHz], ascending.

    ``own`` is that of the measurement and is among them. The effective ones of ``others`` stay in
    the range that device files allow.
    """
    low, high = possible(clock)
    ratios = 2.0 ** (np.arange(-STEPS * np.log2(REACH), STEPS * np.log2(REACH) + 1) / STEPS)
    fits = (ratios * min((own, *others)) >= low) & (ratios * max((own, *others)) <= high)
    return own * ratios[fits | (ratios == 1.0)]


def effective(
    measured: float,
    times: Mapping[str, Array],
    clocks: Mapping[str, Array],
    own: Mapping[str, float],
) -> Effective:
    """Return the clock at which a model meets a measured time.

    Parameters
    ----------
    measured : float
        The measured time [s].
    times : mapping of array
        For ``core`` and ``memory`` the model's times over that clock, the other one being that of
        the measurement [s].
    clocks : mapping of array
        These clocks, ascending [MHz].
    own : mapping of float
        The clocks of the measurement [MHz].
    """
    at = {name: int(np.searchsorted(line, own[name])) for name, line in clocks.items()}
    met = {
        name: _meeting(line / own[name], times[name] / measured, at[name])
        for name, line in clocks.items()
    }
    far = {name: abs(np.log(ratio)) for name, (_, ratio) in met.items()}
    far["memory"] *= KNOWN
    clock = min(met, key=lambda name: (met[name][0], far[name]))
    return Effective(float(times["core"][at["core"]]), clock, met[clock][1])


def _meeting(ratios: Array, times: Array, at: int) -> tuple[float, float]:
    """Return 0 and the ratio nearest to 1 at which a time is 1.

    Without one, return how far all times are off, in hundredths of the logarithm, and the ratio.
    """
    excess = np.log(times)
    crossed = np.flatnonzero(np.sign(excess[:-1]) * np.sign(excess[1:]) <= 0)
    if not len(crossed):
        off = np.round(np.abs(excess), 2)
        nearest = np.flatnonzero(off == np.nanmin(off))
        return float(np.nanmin(off)), float(ratios[nearest[np.argmin(np.abs(nearest - at))]])
    first = crossed[np.argmin(np.abs(crossed + 0.5 - at))]
    low, high = excess[first : first + 2]
    share = low / (low - high) if low != high else 0.0
    return 0.0, float(ratios[first] * (ratios[first + 1] / ratios[first]) ** share)

"""Values in the units of device files, at one clock."""

from __future__ import annotations

from dataclasses import replace

from sweep.errors import SweepError
from sweep.importers.microbenchmarks.measurement import PER_CYCLE, Measurement
from sweep.specs.formats import UNITS, Key


def said(one: Measurement) -> str:
    """Return a value and who says it."""
    value = one.value if isinstance(one.value, str) else f"{one.value:.6g}"
    unit = UNITS[one.unit].symbol if one.unit in UNITS else one.unit
    return f"{value} {unit}".strip() + f" ({one.place or one.tool})"


def converted(
    one: Measurement, key: Key, clock: float | None = None, n_sm: float | None = None
) -> Measurement | None:
    """Return a measurement in the unit of its key; ``None`` if that needs what is not known.

    Parameters
    ----------
    one : Measurement
        What a tool says.
    key : Key
        The key of device files.
    clock : float, optional
        The core clock to which all measured values belong [MHz]. What was measured at another one
        is taken over: the latency of DRAM as time, the bandwidth of caches as bytes in a cycle.
    n_sm : float, optional
        Multiprocessors of the device.

    Raises
    ------
    SweepError
        The unit is of another dimension.
    """
    wanted, own = key.unit, one.clocks.core or clock
    unit, factor = UNITS.get(one.unit), 1.0
    if one.unit == PER_CYCLE:
        if not n_sm or not clock:
            return None
        return times(one, n_sm * clock * 1e6 / (wanted.factor if wanted else 1.0), key)
    if unit is not None and wanted is not None and unit is not wanted:
        dimensions = unit.dimension, wanted.dimension
        if own and dimensions == ("time", "cycles"):
            factor = unit.factor * own * 1e6
        elif own and dimensions == ("cycles", "time"):
            factor = 1.0 / (own * 1e6 * wanted.factor)
        elif dimensions[0] == dimensions[1]:
            factor = unit.factor / wanted.factor
        else:
            dimension = f"a {unit.dimension}, not a {wanted.dimension}"
            raise SweepError(f"{one.place}: {one.key}: {dimension}")
    if clock and own and own != clock and follows_clock(one.key):
        factor *= clock / own
        note = f"measured at {own:g} MHz, taken over to {clock:g}"
        one = replace(one, note="; ".join([*filter(None, [one.note]), note]))
    return times(one, factor, key)


def follows_clock(path: str) -> bool:
    """Return whether a value changes with the core clock, in the unit that device files have."""
    name = path.removeprefix("microbenchmark.")
    of_dram = name.startswith(("dram_", "memory_side_cache_"))
    return name.endswith("_latency") if of_dram else name.endswith("_bandwidth")


def times(one: Measurement, factor: float, key: Key) -> Measurement:
    """Return a measurement times a factor, in the unit of its key."""
    spread = None if one.deviation is None else float(f"{one.deviation * factor:.4g}")
    value = float(f"{float(one.value) * factor:.7g}")
    suffix = key.unit.suffix if key.unit else ""
    return replace(one, value=value, deviation=spread, unit=suffix)

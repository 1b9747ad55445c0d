"""Units as they stand in the suffix of a key, and their conversion to base units.

A key of a device file says its unit itself: ``memory_bandwidth_GBps``. This table is the only
place that knows what a suffix means; a suffix that is not in it is part of a name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNITS", "Unit", "convert", "split_unit", "to_base"]


@dataclass(frozen=True)
class Unit:
    """One unit: the suffix in a key, the symbol for people, what it measures, its size.

    ``factor`` is the number of base units (Hz, B/s, bytes, bits, s, W, V) in one of this unit.
    """

    suffix: str
    symbol: str
    dimension: str
    factor: float = 1.0


UNITS: dict[str, Unit] = {
    unit.suffix: unit
    for unit in (
        Unit("MHz", "MHz", "clock", 1e6),
        Unit("GHz", "GHz", "clock", 1e9),
        Unit("kHz", "kHz", "clock", 1e3),
        Unit("Hz", "Hz", "clock"),
        Unit("GBps", "GB/s", "bandwidth", 1e9),
        Unit("TBps", "TB/s", "bandwidth", 1e12),
        Unit("MBps", "MB/s", "bandwidth", 1e6),
        Unit("kBps", "kB/s", "bandwidth", 1e3),
        Unit("Bps", "B/s", "bandwidth"),
        Unit("GiBps", "GiB/s", "bandwidth", 2.0**30),
        Unit("MiBps", "MiB/s", "bandwidth", 2.0**20),
        Unit("Gbps", "Gbit/s", "bandwidth", 1.25e8),
        Unit("bytes", "bytes", "size"),
        Unit("B", "bytes", "size"),
        Unit("KiB", "KiB", "size", 2.0**10),
        Unit("MiB", "MiB", "size", 2.0**20),
        Unit("GiB", "GiB", "size", 2.0**30),
        Unit("kB", "kB", "size", 1e3),
        Unit("MB", "MB", "size", 1e6),
        Unit("GB", "GB", "size", 1e9),
        Unit("bits", "bits", "width"),
        Unit("bit", "bits", "width"),
        Unit("W", "W", "power"),
        Unit("mW", "mW", "power", 1e-3),
        Unit("kW", "kW", "power", 1e3),
        Unit("V", "V", "voltage"),
        Unit("mV", "mV", "voltage", 1e-3),
        Unit("s", "s", "time"),
        Unit("ms", "ms", "time", 1e-3),
        Unit("us", "us", "time", 1e-6),
        Unit("ns", "ns", "time", 1e-9),
        Unit("cycles", "cycles", "cycles"),
        Unit("cycle", "cycles", "cycles"),
        Unit("MHzcycles", "MHz cycles", "clock times cycles", 1e6),
        Unit("W_per_V2GHz", "W/(V2 GHz)", "switched capacitance", 1e-9),
        Unit("W_per_V2MHz", "W/(V2 MHz)", "switched capacitance", 1e-6),
        Unit("W_per_V2Hz", "W/(V2 Hz)", "switched capacitance"),
        Unit("Gips", "Ginst/s", "instruction rate", 1e9),
        Unit("Gops", "Gop/s", "operation rate", 1e9),
        Unit("fraction", "1", "share"),
        Unit("percent", "%", "share", 1e-2),
    )
}
"""Every unit suffix; the first of a dimension that makes a value plausible is the one suggested."""

_BY_LENGTH = sorted(UNITS, key=len, reverse=True)


def split_unit(name: str, *, loose: bool = False) -> tuple[str, Unit | None]:
    """Split a key into its stem and the unit of its suffix (``None`` where it has none).

    ``loose`` forgives a wrong case (``core_nominal_mhz``) where no suffix fits exactly.
    """
    for suffix in _BY_LENGTH:
        if name.endswith("_" + suffix):
            return name[: -len(suffix) - 1], UNITS[suffix]
    for suffix in _BY_LENGTH if loose else ():
        if name.lower().endswith("_" + suffix.lower()):
            return name[: -len(suffix) - 1], UNITS[suffix]
    return name, None


def to_base(value: float, name: str) -> float:
    """Return the value of a key in base units: ``to_base(1.3, "core_GHz")`` is 1.3e9."""
    unit = split_unit(name)[1]
    if unit is None:
        return float(value)
    if unit.factor < 1:  # a division by 1e9 rounds once, a product with 1e-9 twice
        return value / round(1 / unit.factor)
    return value * unit.factor


def convert(value: float, given: Unit, wanted: Unit) -> float:
    """Return ``value`` of one unit in another unit of the same dimension.

    The result is rounded to 12 digits: it is printed for a person to copy into a file.
    """
    return float(f"{value * (given.factor / wanted.factor):.12g}")

"""Units in the suffixes of keys, and their conversion to base units.

The suffix of a key is its unit: ``memory_bandwidth_GBps``. Only this table defines suffixes; any
other suffix is part of the name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNITS", "Unit", "convert", "split_unit", "to_base"]


@dataclass(frozen=True)
class Unit:
    """One unit: suffix in a key, symbol, dimension and size.

    ``factor`` is the number of base units (Hz, B/s, bytes, bits, s, W, V) in one of this unit.
    """

    suffix: str
    symbol: str
    dimension: str
    factor: float = 1.0


_FACTORS: dict[str, dict[str, float]] = {
    "clock": {"MHz": 1e6, "GHz": 1e9, "kHz": 1e3, "Hz": 1},
    "bandwidth": {
        "GBps GB/s": 1e9, "TBps TB/s": 1e12, "MBps MB/s": 1e6, "kBps kB/s": 1e3, "Bps B/s": 1,
        "GiBps GiB/s": 2.0**30, "MiBps MiB/s": 2.0**20, "Gbps Gbit/s": 1.25e8,
    },
    "size": {
        "bytes": 1, "B bytes": 1, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
        "kB": 1e3, "MB": 1e6, "GB": 1e9,
    },
    "width": {"bits": 1, "bit bits": 1},
    "power": {"W": 1, "mW": 1e-3, "kW": 1e3},
    "voltage": {"V": 1, "mV": 1e-3},
    "time": {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "cycles": {"cycles": 1, "cycle cycles": 1},
    "clock times cycles": {"MHzcycles MHz cycles": 1e6},
    "switched capacitance": {
        "W_per_V2GHz W/(V2 GHz)": 1e-9, "W_per_V2MHz W/(V2 MHz)": 1e-6, "W_per_V2Hz W/(V2 Hz)": 1,
    },
    "instruction rate": {"Gips Ginst/s": 1e9},
    "operation rate": {"Gops Gop/s": 1e9},
    "share": {"fraction 1": 1, "percent %": 1e-2},
}  # fmt: skip
"""The units of each dimension: suffix, symbol if it differs, and size."""

UNITS: dict[str, Unit] = {}
"""All units by suffix; messages suggest the first unit that makes a value plausible."""

for _dimension, _units in _FACTORS.items():
    for _names, _factor in _units.items():
        _suffix, _, _symbol = _names.partition(" ")
        UNITS[_suffix] = Unit(_suffix, _symbol or _suffix, _dimension, float(_factor))

_BY_LENGTH = sorted(UNITS, key=len, reverse=True)


def split_unit(name: str, *, loose: bool = False) -> tuple[str, Unit | None]:
    """Split a key into its stem and the unit of its suffix (``None`` without a unit).

    ``loose`` accepts a wrong case (``core_nominal_mhz``) if no suffix matches exactly.
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
    if unit.factor < 1:  # dividing by 1e9 rounds once, multiplying with 1e-9 twice
        return value / round(1 / unit.factor)
    return value * unit.factor


def convert(value: float, unit: Unit, wanted: Unit) -> float:
    """Return ``value`` of one unit in another unit of the same dimension.

    The result is rounded to 12 digits, because messages suggest it for use in a file.
    """
    return float(f"{value * (unit.factor / wanted.factor):.12g}")

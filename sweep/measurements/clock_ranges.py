"""Clocks: the range of a device, one that covers what was measured, and those not held."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from sweep.errors import QueryError, SpecError
from sweep.importers.tuners.table import ClockTimes, Pair
from sweep.specs import Device, parse_device
from sweep.specs.formats import DEVICE

CLOCKS = ("core_clock", "memory_clock")

GIVEN = "microbenchmark: given with the measured times"

FEWEST_CLOCKS, FEWEST_KERNELS = 5, 5
"""Fewest core clocks of a kernel, and fewest kernels, that show that a clock was not held."""

CONSTANT, HELD = 0.003, 0.015
"""Largest median deviation of the cycles of a kernel that only computes, and of a clock that was
held [1]. Chosen in view of a GTX Titan X: all its clocks but one are within 1 %, one is 2 % off."""


def clock_range(device: Device, clock: str) -> tuple[float, float, float]:
    """Return the smallest, the nominal and the largest ``core`` or ``memory`` clock [MHz]."""
    nominal = device.values[f"clocks.{clock}_nominal"]
    low, high = (device.values.get(f"clocks.{clock}_{end}", nominal) for end in ("min", "max"))
    return low / 1e6, nominal / 1e6, high / 1e6


def not_measured(kernel: str, wanted: Pair, pairs: Iterable[Pair]) -> QueryError:
    """Return an error: a kernel was measured at other pairs of clocks, and which is nearest."""
    near = min(pairs, key=lambda pair: sum(abs(np.log(np.divide(pair, wanted)))))
    shown = (f"{core:g}/{memory:g} MHz" for core, memory in (wanted, near))
    return QueryError(f"kernel '{kernel}' was not measured at {', but at '.join(shown)}")


def possible(clock: str) -> tuple[float, float]:
    """Return the smallest and the largest ``core`` or ``memory`` clock of a device file [MHz]."""
    (key,) = (k for k in DEVICE["clocks"].keys if k.name == f"{clock}_nominal_MHz")
    return key.minimum, key.maximum


def widened(
    device: Device, wanted: Mapping[str, tuple[float, float]]
) -> tuple[Device, tuple[str, ...]]:
    """Return a device with ranges that cover other clocks, and a note for each widened one.

    Parameters
    ----------
    device : Device
        The device.
    wanted : mapping
        The smallest and the largest ``core`` and ``memory`` clock to cover [MHz].

    Raises
    ------
    QueryError
        The device file does not let its range be replaced; the message names clock and range.
    """
    text = device.text
    notes: list[str] = []
    covered: dict[str, float] = {}
    for name, (least, most) in wanted.items():
        low, _, high = clock_range(device, name)
        ends = {"min": (low, min(low, least)), "max": (high, max(high, most))}
        beyond = {end: new for end, (old, new) in ends.items() if abs(new / old - 1) > 1e-9}
        if not beyond:
            continue
        measured = ", ".join(f"{new:g}" for new in beyond.values())
        notes.append(
            f"the {name} clock was measured at {measured} MHz, beyond the range of {device.key},"
            f" {low:g} to {high:g} MHz: the range is widened for these predictions"
        )
        covered |= {f"clocks.{name}_{end}": new * 1e6 for end, new in beyond.items()}
        # Both ends: a device may have neither.
        for end, (_, new) in ends.items():
            key = f"{name}_{end}_MHz"
            text = _replaced(text, "clocks", key, f"{key} = {float(new)!r}")
            text = _replaced(text, "source", f'"clocks.{key}"', f'"clocks.{key}" = "{GIVEN}"')
    try:
        found = parse_device(text, device.key, device.path) if notes else device
        same = all(np.isclose(found.values[path], hertz) for path, hertz in covered.items())
    except (SpecError, KeyError):
        same = False
    if not same:
        raise QueryError(f"{notes[0].partition(':')[0]}; give a device file with that range")
    return found, tuple(notes)


def _replaced(text: str, table: str, key: str, line: str) -> str:
    """Return a TOML text with another line for a key, or a first line of its table."""
    found, n = re.subn(rf"(?m)^{re.escape(key)}[ \t]*=.*$", lambda _: line, text, count=1)
    return found if n else re.sub(rf"(?m)^\[{table}\]$", lambda m: f"{m[0]}\n{line}", text, count=1)


def clocks_not_held(times: ClockTimes) -> dict[float, float]:
    """Return the core clocks that were not held, and what they were instead [MHz].

    A kernel that only computes takes as many cycles at all clocks. Where five such kernels and more
    agree that it takes others, the GPU ran at another clock than was asked for, as one does
    that boosts or meets a limit.

    Parameters
    ----------
    times : mapping
        For each kernel, the times at pairs of clocks [s].
    """
    ratios: dict[float, list[float]] = defaultdict(list)
    for own in times.values():
        series: dict[float, dict[float, float]] = defaultdict(dict)  # cycles by memory clock
        for (core, memory), time in own.items():
            series[memory][core] = time * core
        if all(len(of) >= FEWEST_CLOCKS and _deviation(of) < CONSTANT for of in series.values()):
            usual = {memory: np.median([*of.values()]) for memory, of in series.items()}
            for core in sorted({core for core, _ in own}):
                there = [of[core] / usual[m] for m, of in series.items() if core in of]
                ratios[core].append(float(np.median(there)))
    found = {}
    for core, all_ratios in sorted(ratios.items()):
        low, ratio, high = np.quantile(all_ratios, (0.25, 0.5, 0.75))
        if len(all_ratios) >= FEWEST_KERNELS and high - low < HELD < abs(ratio - 1.0):
            found[core] = float(round(core / ratio))
    return found


def _deviation(cycles: Mapping[float, float]) -> float:
    """Return the median deviation from the median."""
    values = np.array([*cycles.values()])
    return float(np.median(np.abs(values / np.median(values) - 1.0)))

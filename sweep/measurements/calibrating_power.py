"""``sweep calibrate-power``: a device file with the power that was measured, and how good it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import QueryError, SpecError, counted
from sweep.fields import Array
from sweep.importers.files import read_source
from sweep.importers.tuners.table import Pair
from sweep.measurements.clock_ranges import clock_range, possible, widened
from sweep.measurements.power import PowerFit, anchored, clocks_alone, energy_losses, fitted
from sweep.measurements.power_table import PowerTable, read_power
from sweep.query import Answer
from sweep.specs import Device, Kernel, load_device, load_kernel, parse_device
from sweep.specs.kernel import toml

_HEADER = re.compile(r"\s*\[([\w.]+)\]\s*(?:#.*)?")

LEGEND = {
    "power_median": "of the relative errors of power, over all kernels and clocks",
    "energy_median": "of the extra energy at the clocks that the predicted energy chooses",
}


@dataclass(frozen=True)
class CalibratedPower:
    """A device with fitted power.

    Attributes
    ----------
    device : Device
        The device; ``device.text`` is its file.
    fit : PowerFit
        Coefficients, voltages, deviations.
    answer : Answer
        How far power, and the choice of clocks by energy, are off for kernels that were not fitted.
    """

    device: Device
    fit: PowerFit
    answer: Answer


def calibrate_power(
    measured: str | os.PathLike[str],
    *,
    device: str | Device,
    model: str = "combined",
    variant: str = "revised",
    judge: str | os.PathLike[str] | None = None,
    measured_power: Pair | None = None,
    profiles: str | os.PathLike[str] | None = None,
) -> CalibratedPower:
    """Fit a device's power to measured power over clocks.

    Parameters
    ----------
    measured : path
        CSV with the columns kernel, core clock, memory clock [MHz], time and power, and if they
        were counted core_activity and memory_activity [1]; or samples of ``sweep calibrate --gpu``.
    device : str or Device
        The device.
    model, variant : str
        The time model that implies activities where they were not counted.
    judge : path, optional
        A file of other kernels to judge the fit by, measured alike: a clock that ``measured`` shows
        not to have been held is taken for another here, too. By default each kernel of ``measured``
        is judged by a fit that has not seen it.
    measured_power : (float, float), optional
        Core and memory clock [MHz] at which the power of each judged kernel is given.
    profiles : path, optional
        A folder with a kernel file of each kernel's counts, as ``sweep profile`` writes them.

    Raises
    ------
    SweepError
        A file is wrong, or too little was measured; the message says what is missing.
    """
    loaded = load_device(device) if isinstance(device, str) else device
    wide, _ = widened(loaded, {name: possible(name) for name in ("core", "memory")})
    source, other = read_source(measured), read_source(judge) if judge is not None else None
    if other is not None and other.sha256 == source.sha256:
        raise other.error("the fit has seen these; without --judge each kernel is judged by a fit"
                          " to the others")  # fmt: skip
    profiled = None if profiles is None else _profiled(Path(profiles))
    table = read_power(source, wide, model, variant, profiled=profiled)
    nominal = clock_range(loaded, "core")[1], clock_range(loaded, "memory")[1]
    if measured_power is not None:
        core, memory = measured_power
        measured_power = table.actual.get(core, core), memory
    fit = fitted(table, nominal)
    activities = "counted activities" if table.counted else f"activities of {model}, {variant}"
    if profiled is not None:
        activities = f"activities of {model}, {variant}, for the counts of profiles"
    if other is None:
        others, terms, seen = table, fit.unseen, None
    else:
        others = read_power(other, wide, model, variant, table, profiled)
        terms, seen = fit.terms(others), table
    known = {name: np.hstack([getattr(one, name) for one in (table, others)])
             for name in ("core", "memory")}  # fmt: skip
    ranged, notes = widened(loaded, {name: (min(own), max(own)) for name, own in known.items()})
    answer = _answer(others, terms, seen, measured_power, [f"{n} and in the file" for n in notes])
    return CalibratedPower(with_power(ranged, fit, table, activities), fit, answer)


def _profiled(folder: Path) -> dict[str, Kernel]:
    """Return the kernels of a folder by their names in lower case."""
    found = [load_kernel(path) for path in sorted(folder.glob("*.toml"))]
    if not found:
        raise QueryError(f"{folder}: no folder with kernel files: `sweep profile` writes them")
    return {kernel.name.lower(): kernel for kernel in found}


def _answer(
    table: PowerTable,
    terms: Array,
    seen: PowerTable | None,
    anchor: Pair | None,
    beyond: list[str],
) -> Answer:
    """Return the errors of power, and of the clocks chosen by energy, with rules beside them."""
    powers = {"fitted power": terms.sum(axis=1)}
    if anchor is not None:
        name = f"... of the kernel known at {anchor[0]:g}/{anchor[1]:g} MHz"
        powers[name] = anchored(terms, table, anchor)
    if seen is not None:
        powers["(median power at these clocks)"] = clocks_alone(seen, table)
    rows: list[dict[str, Any]] = []
    for name, power in powers.items():
        error = np.abs(power / table.power - 1.0)
        finite = error[np.isfinite(error)]
        row: dict[str, Any] = {"power": name}
        if len(finite):
            row |= {"power_median": float(np.median(finite)), "power_mean": float(finite.mean())}
        rows.append(row | _losses(power * table.time, table))
    speed = table.core * (1.0 + table.memory)
    for name, order in (("(highest clocks)", -speed), ("(lowest clocks)", speed)):
        rows.append({"power": name} | _losses(order, table))
    kernels = counted(len(np.unique(table.kernel)), "kernel")
    pairs = counted(len({*zip(table.core, table.memory, strict=True)}), "pair")
    what = "not seen by the fit" if seen is not None else "each by a fit to the others"
    title = f"{table.name}: {kernels} at {pairs} of clocks, {what}"
    columns = ("power_median", "power_mean", "energy_median", "energy_mean")
    full = [dict.fromkeys(("power", *columns)) | row for row in rows]
    notes = [
        f"{core:g} MHz was not held: kernels that only compute take {core / actual:.3g} times as"
        f" many cycles there; taken as {actual:g} MHz"
        for core, actual in table.actual.items()
    ]
    return Answer.of(title, full, ("power",), notes=[*notes, *beyond], legend=LEGEND)


def _losses(predicted: Array, table: PowerTable) -> dict[str, float]:
    if not np.isfinite(predicted).all():
        return {}
    losses = energy_losses(predicted, table)
    return {"energy_median": float(np.median(losses)), "energy_mean": float(losses.mean())}


# ---------------------------------------------------------------------------- the file


def with_power(device: Device, fit: PowerFit, table: PowerTable, activities: str) -> Device:
    """Return a device whose file has the fitted ``[power]``, with a source beside each value.

    Raises
    ------
    SpecError
        A value is outside the range that device files allow.
    """
    lines = [*_without_power(device.text.splitlines())]
    values = dict(_values(fit, table))
    error = np.median(np.abs(fit.unseen.sum(axis=1) / table.power - 1.0))
    pairs = len({*zip(table.core, table.memory, strict=True)})
    taken = "".join(
        f"; {f:g} MHz taken as {found:g}, by cycles" for f, found in table.actual.items()
    )
    origin = (
        f"fitted: equation (1) of Wang & Chu 2017 to the power of {len(table.kernels)} kernels at"
        f" {pairs} pairs of clocks ({table.name}; {activities}{taken}), median error of kernels"
        f" that the fit had not seen {100 * error:.1f} %"
    )
    known = _deviations(fit)
    notes = {"memory_voltage": ", relative: its changes are not told apart from the clock's"}
    notes |= dict.fromkeys(
        ("core_voltage", "core_voltage_floor"), ", relative to the nominal clocks"
    )
    sources = [f'"power.{name}" = {toml(origin + notes.get(name, ""))}' for name in values]
    at = lines.index("[source]")
    end = next((i for i in range(at + 1, len(lines)) if _HEADER.fullmatch(lines[i])), len(lines))
    power = ["[power]", *(f"{name} = {text}" for name, text in values.items()), ""]
    lines = [*lines[:at], *power, *lines[at:end], *sources, *lines[end:]]
    errors = [f'"power.{name}" = {known[name]:.3g}' for name in values if name in known]
    if "[deviation]" in lines:
        at = lines.index("[deviation]") + 1
        lines[at:at] = errors
    else:
        at = lines.index("[source]")
        lines[at:at] = ["[deviation]", *errors, ""]
    try:
        return parse_device("\n".join(lines) + "\n", device.key, device.path)
    except SpecError as problem:
        raise SpecError(f"{table.name}: the fit gives no plausible power: {problem}") from None


def _without_power(lines: list[str]) -> Iterator[str]:
    """Yield a device file's lines but those of its power."""
    section = ""
    for line in lines:
        if header := _HEADER.fullmatch(line):
            section = header[1]
        if section != "power" and not line.startswith('"power.'):
            yield line


def _values(fit: PowerFit, table: PowerTable) -> Iterator[tuple[str, str]]:
    """Yield the keys of ``[power]`` and their values as TOML."""
    static, core_idle, core, memory_idle, memory = fit.coefficients
    yield "static_W", f"{static:.4g}"
    for name, idle, active in (("core", core_idle, core), ("memory", memory_idle, memory)):
        if idle + active <= 0:
            raise QueryError(
                f"{table.name}: the measured power does not depend on the {name} clock"
            )
        yield f"{name}_W_per_V2GHz", f"{idle + active:.4g}"
        yield f"{name}_idle_share", f"{idle / (idle + active):.4g}"
    yield "core_voltage", _rows(fit.knots.tolist())
    yield "memory_voltage", _rows([[clock, 1.0] for clock in np.unique(table.memory)])
    if fit.floors:
        yield "core_voltage_floor", _rows([[*row] for row in fit.floors.items()])


def _rows(rows: list[list[float]]) -> str:
    return f"[{', '.join(f'[{clock:g}, {volts:.4g}]' for clock, volts in rows)}]"


def _deviations(fit: PowerFit) -> dict[str, float]:
    static, *others = fit.deviations
    core, memory = float(np.hypot(*others[:2])), float(np.hypot(*others[2:]))
    return {"static_W": float(static), "core_W_per_V2GHz": core, "memory_W_per_V2GHz": memory}

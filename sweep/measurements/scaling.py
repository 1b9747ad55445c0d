"""The measured time of a launch at other clocks, with every model.

A model says how long a launch takes, and by how much a measured launch was slower or faster. What
limits the launch makes the difference: the chip, or DRAM if few of its cycles explain it. It took
more or fewer cycles than the model knows of, as if at another clock. The model's time at this
*effective* clock is the measured one, and at other clocks it is taken in the same proportion to the
clock. So the missing time follows the core or the memory clock, and how chip and DRAM overlap at
each pair of clocks remains what the model says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import QueryError, SpecError, check_known, counted
from sweep.fields import STATUS, Array
from sweep.hardware.clocks import power_inputs
from sweep.measurements.clock_ranges import CLOCKS, clock_range, possible, widened
from sweep.measurements.effective_clocks import STEPS, Effective, effective, searched
from sweep.models import model_names
from sweep.query import Answer
from sweep.query.agreement import or_none
from sweep.space import Plan, resolve
from sweep.specs import Device, Kernel, Measured, load_device, load_kernel

if TYPE_CHECKING:
    import xarray as xr

VALUES = 7
"""Default number of values of a clock over the device's range."""

OUTPUTS = ("execution_time", "power", "status")


def scale(
    kernels: Kernel | str | os.PathLike[str] | Sequence[Kernel | str | os.PathLike[str]],
    *,
    models: Sequence[str] = (),
    core_clock: Any = None,
    memory_clock: Any = None,
    select: Mapping[str, Any] | None = None,
    measured_power: float | None = None,
    variant: str = "corrected",
) -> Answer:
    """Return the time of measured launches at other clocks.

    The time is the predicted one at an effective core clock, at which the model predicts what was
    measured, or at an effective memory clock if that is much nearer to the real one (see
    :mod:`sweep.measurements.effective_clocks`).

    Parameters
    ----------
    kernels : Kernel, str or path, or a sequence of these
        Kernels whose files have a measured time (``[measured]``), such as ``sweep profile`` writes.
    models : sequence of str
        The models; all by default.
    core_clock, memory_clock : list or mapping, optional
        Clocks [MHz], as values or as ``{start, stop, step}``; by default seven over the range of
        the device.
    select : mapping, optional
        Tuning parameters and problem sizes of the measured launch, if the kernel has several
        values.
    measured_power : float, optional
        The power of the measured launch [W]: the model's activities are multiplied by the factor
        with which the power at its clocks is this one, at all other clocks too.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.

    Returns
    -------
    Answer
        One row per kernel and pair of clocks with a time per model [s]. With a single model, on a
        device with power parameters, also power [W] and energy [J].

    Raises
    ------
    SweepError
        There is no measured time, a parameter is open, or no model has a time at the clocks of the
        measurement.
    """
    several = not isinstance(kernels, (Kernel, str, os.PathLike))
    given: Any = kernels if several else (kernels,)
    found = [one if isinstance(one, Kernel) else load_kernel(one) for one in given]
    if not found:
        raise QueryError("no kernel to scale")
    clocks = {"core_clock": core_clock, "memory_clock": memory_clock}
    answers = [
        _scaled(kernel, models, clocks, select or {}, variant, measured_power) for kernel in found
    ]
    return _joined(found, answers) if several and len(found) > 1 else answers[0]


def _scaled(
    kernel: Kernel,
    models: Sequence[str],
    wanted: Mapping[str, Any],
    select: Mapping[str, Any],
    variant: str,
    watts: float | None,
) -> Answer:
    """Return the answer for one kernel."""
    measured = kernel.measured
    if measured is None:
        raise SpecError(
            f"{kernel.path or kernel.key}: no [measured] time to scale: `sweep profile` writes one"
        )
    if watts is not None and len(models) != 1:
        raise QueryError("a measured power needs a single model, whose activities it corrects")
    device = load_device(measured.device)
    clocks: dict[str, Any] = {}
    for name, values in wanted.items():
        low, _, high = clock_range(device, name.removesuffix("_clock"))
        steps = {float(round(value)) for value in np.linspace(low, high, VALUES)} - {0.0}
        clocks[name] = sorted(steps) if values is None else values
    plan = Plan(
        (kernel.key,),
        (device.key,),
        tuple(models) or tuple(model_names()),
        variant=variant,
        axes=clocks,
        kernel_axes={kernel.key: _chosen(kernel, select)},
        precision="float64",
        outputs=OUTPUTS,
        layout="grid",
        origin="scale",
    )
    if watts is not None and "power.static" not in device.values:
        raise QueryError(
            f"{device.path or device.key}: no [power] to scale: `sweep calibrate-power`"
        )
    scaled, met = _times(plan, kernel, device, measured)
    if watts is not None:
        scaled["power"] = _anchored_power(plan, kernel, device, measured, scaled, watts)
    return _answer(kernel, device, measured, scaled, met)


def _anchored_power(
    plan: Plan, kernel: Kernel, device: Device, measured: Measured, scaled: xr.Dataset, watts: float
) -> xr.DataArray:
    """Return predicted powers that meet the measured one: of multiplied activities [W]."""
    own: Any = {"core_clock": [measured.core_clock], "memory_clock": [measured.memory_clock]}
    wide, _ = widened(device, {n.removesuffix("_clock"): (v[0], v[0]) for n, v in own.items()})
    at = float(over_clocks(replace(plan, axes=own), wide, kernel.text)["power"].values.item())

    def idle(core: Any, memory: Any) -> Array:
        core, memory = (1e6 * np.asarray(clock, float) for clock in (core, memory))
        return power_inputs([device], core[None, :, None], memory[None, None, :])["static_power"][0]

    here, there = idle(*own.values()), idle(*(scaled[clock].values for clock in CLOCKS))
    factor = max(watts - here.item(), 0.0) / (at - here.item())
    return scaled["power"].copy(data=there + factor * (scaled["power"].values - there))


def _times(
    plan: Plan, kernel: Kernel, device: Device, measured: Measured
) -> tuple[xr.Dataset, dict[str, Effective | int]]:
    """Return scaled times, and how each model meets the measured one, or its status without a time.

    The dataset has ``time(model, core_clock, memory_clock)`` [s], of the models that have one, and
    ``power`` [W]. Both are NaN without a prediction, and beyond the clocks of the device and of the
    measurement.
    """
    own = {"core": measured.core_clock, "memory": measured.memory_clock}
    asked = {name: [float(v) for v in plan.axes[f"{name}_clock"]] for name in own}
    wide, _ = widened(device, {name: possible(name) for name in own})
    met = _met(plan, kernel, wide, measured.time, {n: [own[n], *asked[n]] for n in own})
    timed = {name: one for name, one in met.items() if isinstance(one, Effective)}
    if not timed:
        codes = {code for code in met.values() if isinstance(code, int)}
        words = sorted(STATUS.meaning(code).replace("_", " ") for code in codes)
        raise QueryError(
            f"kernel '{kernel.key}' has no predicted time on {device.key} at the clocks of the"
            f" measurement, {own['core']:g}/{own['memory']:g} MHz: {', '.join(words)}"
            f" ({', '.join(plan.models)})"
        )
    at, times = _at_effective_clocks(plan, kernel, wide, timed, own, asked)
    kept = at.sel({f"{name}_clock": values for name, values in asked.items()})
    kept["time"] = kept["execution_time"].copy(data=measured.time * times)
    for name, value in own.items():
        low, _, high = clock_range(device, name)
        clock = kept[f"{name}_clock"]
        inside = (clock >= min(low, value) * (1 - 1e-9)) & (clock <= max(high, value) * (1 + 1e-9))
        kept = kept.where(inside)
    return kept, met


def _at_effective_clocks(
    plan: Plan,
    kernel: Kernel,
    device: Device,
    met: Mapping[str, Effective],
    own: Mapping[str, float],
    asked: Mapping[str, Sequence[float]],
) -> tuple[xr.Dataset, Array]:
    """Return results at the clocks asked for and more, and relative times at the effective ones.

    The times have the shape (models, core clocks, memory clocks) [1].
    """
    taken = {
        model: [one.of(clock, [own[clock], *asked[clock]]) for clock in own]
        for model, one in met.items()
    }
    every = []
    for i, (clock, value) in enumerate(own.items()):
        # Some more clocks, so that all kernels take the form of a pass that the search took.
        more = searched(clock, value)[::STEPS].tolist()
        effective_ones = (v for both in taken.values() for v in both[i])
        every.append(sorted({*asked[clock], *effective_ones, *more}))
    axes: Any = dict(zip(CLOCKS, every, strict=True))
    at = over_clocks(replace(plan, models=tuple(met), axes=axes), device, kernel.text)
    times = []
    for model, both in taken.items():
        places = [[*map(line.index, values)] for line, values in zip(every, both, strict=True)]
        found = at["execution_time"].sel(model=model).values[np.ix_(*places)]
        times.append(found[1:, 1:] / found[0, 0])
    return at, np.array(times)


def _met(
    plan: Plan, kernel: Kernel, device: Device, time: float, clocks: Mapping[str, Sequence[float]]
) -> dict[str, Effective | int]:
    """Return how each model meets the measured time, or its status if it has none.

    ``clocks`` are ``core`` and ``memory`` clocks [MHz], that of the measurement first.
    """
    lines = {name: searched(name, *values) for name, values in clocks.items()}
    at = [int(np.searchsorted(line, clocks[name][0])) for name, line in lines.items()]
    axes: Any = {f"{name}_clock": line.tolist() for name, line in lines.items()}
    found = over_clocks(replace(plan, axes=axes), device, kernel.text)
    result: dict[str, Effective | int] = {}
    for name in plan.models:
        status, times = (found[v].sel(model=name).values for v in ("status", "execution_time"))
        along = {"core": times[:, at[1]], "memory": times[at[0], :]}
        own = {clock: values[0] for clock, values in clocks.items()}
        result[name] = int(status[*at]) or effective(time, along, lines, own)
    return result


def over_clocks(plan: Plan, device: Device, kernel: str) -> xr.Dataset:
    """Return the outputs of a plan that has one kernel on one device at several clocks.

    ``kernel`` is the text of its kernel file. The dimensions are ``model``, the kernel's axes of
    several values, ``core_clock`` and ``memory_clock``.
    """
    texts = {"devices": {device.key: device.text}, "kernels": {plan.kernels[0]: kernel}}
    from sweep.evaluation.planned import evaluate  # imports xarray

    dataset = evaluate(resolve(plan, texts))[plan.kernels[0]].to_dataset()
    single = [d for d, n in dataset.sizes.items() if n == 1 and d not in ("model", *CLOCKS)]
    return dataset[list(plan.outputs or ())].squeeze(single, drop=True).compute()


def _chosen(kernel: Kernel, select: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the axes of one launch, with one value per parameter."""
    known = (*kernel.parameters, *kernel.sizes)
    for name in select:
        check_known(name, known, f"kernel '{kernel.key}' has no '{name}'")
    axes = {name: (value,) for name, value in select.items()}
    for name, values in kernel.parameters.items():
        if name not in axes and len(values) > 1:
            listed = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
            raise QueryError(
                f"kernel '{kernel.key}': which {name} was measured is open: {name}=VALUE chooses"
                f" one of {listed}"
            )
    return axes


# ---------------------------------------------------------------------------- the answer


def _answer(
    kernel: Kernel,
    device: Device,
    measured: Measured,
    scaled: xr.Dataset,
    met: Mapping[str, Effective | int],
) -> Answer:
    models = scaled["model"].values.tolist()
    has_power = len(met) == 1 and bool(np.isfinite(scaled["power"]).any())
    title = (
        f"{kernel.name} on {measured.device}: {measured.time * 1e3:.5g} ms at"
        f" {measured.core_clock:g}/{measured.memory_clock:g} MHz, scaled by each model"
    )
    notes = [*_rules(measured, met)]
    notes += [
        f"{name} gives no time: {STATUS.meaning(code).replace('_', ' ')}"
        for name, code in met.items()
        if isinstance(code, int)
    ]
    assumed = [path for path in kernel.assumed() if path.startswith("measured.")]
    if assumed:
        notes.append(f"assumed of the measurement: {', '.join(assumed)}")
    if has_power and (guessed := device.assumed(("power",))):
        notes.append(f"power and energy rest on assumed values ({', '.join(guessed)})")
    units = {"memory_clock": "MHz", "core_clock": "MHz", "power": "W", "energy": "J"}
    by = ("memory_clock", "core_clock")
    rows = _rows(scaled, has_power=has_power)
    return Answer.of(title, rows, by, units | dict.fromkeys(models, "s"), notes)


def _rules(measured: Measured, met: Mapping[str, Effective | int]) -> Iterator[str]:
    """Yield how models meet the measured time, for those that chip and those that DRAM limits."""
    own = {"core": measured.core_clock, "memory": measured.memory_clock}
    what = {"core": "cycles of the chip", "memory": "cycles of DRAM"}
    for clock, words in what.items():
        texts = []
        for name, one in met.items():
            if isinstance(one, Effective) and one.clock == clock:
                share = 1.0 - one.predicted / measured.time
                kind = "misses" if share >= 0 else "exceeds by"
                as_if = f"as if at {own[clock] * one.ratio:.0f} MHz"
                texts.append(f"{name} {kind} {100 * abs(share):.0f} % ({as_if})")
        if texts:
            yield f"of the measured time, taken as {words}: {', '.join(texts)}"


def _joined(kernels: Sequence[Kernel], answers: Sequence[Answer]) -> Answer:
    """Return one answer with the rows of several kernels."""
    rows = (
        {"kernel": kernel.key, **row}
        for kernel, answer in zip(kernels, answers, strict=True)
        for row in answer
    )
    notes = [
        f"{kernel.key}: {note}"
        for kernel, answer in zip(kernels, answers, strict=True)
        for note in answer.notes
    ]
    units = {name: unit for answer in answers for name, unit in answer.units.items()}
    title = f"{counted(len(kernels), 'kernel')}, each from its measured time, scaled by each model"
    return Answer.of(title, rows, ("kernel", "memory_clock", "core_clock"), units, notes)


def _rows(scaled: xr.Dataset, *, has_power: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of clocks: the times and, of a single model, power and energy."""
    models = scaled["model"].values.tolist()
    for m, c in np.ndindex(scaled.sizes["memory_clock"], scaled.sizes["core_clock"]):
        at = scaled.isel(memory_clock=m, core_clock=c)
        times: list[Any] = [or_none(time) for time in at["time"].values.tolist()]
        row: dict[str, Any] = {clock: at[clock].item() for clock in ("memory_clock", "core_clock")}
        row |= dict(zip(models, times, strict=True))
        if has_power:
            own, watts = times[0], or_none(at["power"].item())
            is_known = own is not None and watts is not None
            row["power"] = watts if is_known else None
            row["energy"] = watts * own if is_known else None
        yield row

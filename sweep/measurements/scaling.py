"""The measured time of a launch at other clocks, with every model.

A model says how long a launch takes, and by how much a measured launch was slower: what the model
does not know, such as instructions that nobody counted, replays or conflicts. Nearly all of that
happens on the chip, whose clock is the core clock, so the missing time follows the core clock. Only
where DRAM limits the measured launch, the missing time is DRAM's, and the whole time follows the
prediction; so does a time that is shorter than the predicted one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import QueryError, SpecError, nearest
from sweep.fields import BOUND, STATUS
from sweep.models import model_names
from sweep.query import Answer
from sweep.query.agreement import or_none
from sweep.space import Plan, resolve
from sweep.specs import Device, Kernel, Measured, load_device, load_kernel

if TYPE_CHECKING:
    import xarray as xr

STEPS = 7
"""Default number of values of a clock over the device's range."""

CLOCKS = ("core_clock", "memory_clock")

OUTPUTS = ("execution_time", "power", "status", "bound", "core_activity", "memory_activity")


def scale(
    kernels: Kernel | str | os.PathLike[str] | Sequence[Kernel | str | os.PathLike[str]],
    *,
    models: Sequence[str] = (),
    core_clock: Any = None,
    memory_clock: Any = None,
    select: Mapping[str, Any] | None = None,
    variant: str = "corrected",
) -> Answer:
    """Return the time of measured launches at other clocks.

    The time is the predicted one and what the model misses at the clocks of the measurement, which
    follows the core clock (see :func:`at_other_clocks`). Where DRAM limits the measured launch, or
    the model predicts more than was measured, it is the measured time times the ratio of the
    predicted ones.

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
    answers = [_scaled(kernel, models, clocks, select or {}, variant) for kernel in found]
    return _joined(found, answers) if several and len(found) > 1 else answers[0]


def _scaled(
    kernel: Kernel,
    models: Sequence[str],
    wanted: Mapping[str, Any],
    select: Mapping[str, Any],
    variant: str,
) -> Answer:
    """Return the answer for one kernel."""
    measured = kernel.measured
    if measured is None:
        raise SpecError(
            f"{kernel.path or kernel.key}: no [measured] time to scale: `sweep profile` writes one"
        )
    device = load_device(measured.device)
    clocks: dict[str, Any] = {}
    for name, values in wanted.items():
        low, _, high = clock_range(device, name.removesuffix("_clock"))
        steps = {float(round(value)) for value in np.linspace(low, high, STEPS)} - {0.0}
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
    return _answer(kernel, device, measured, _times(plan, kernel, device, measured))


def clock_range(device: Device, clock: str) -> tuple[float, float, float]:
    """Return the smallest, the nominal and the largest ``core`` or ``memory`` clock [MHz]."""
    nominal = device.values[f"clocks.{clock}_nominal"]
    low, high = (device.values.get(f"clocks.{clock}_{end}", nominal) for end in ("min", "max"))
    return low / 1e6, nominal / 1e6, high / 1e6


def _times(plan: Plan, kernel: Kernel, device: Device, measured: Measured) -> xr.Dataset:
    """Return scaled times: ``time(model, core_clock, memory_clock)`` [s], and ``power`` [W].

    NaN without a prediction. ``status``, ``predicted`` [s] and ``by_dram`` are those of each model
    at the clocks of the measurement.
    """
    own = {"core_clock": measured.core_clock, "memory_clock": measured.memory_clock}
    asked = {name: [float(v) for v in plan.axes[name]] for name in CLOCKS}
    # The clocks of the measurement need not be among the requested ones.
    axes: Any = {name: sorted({*asked[name], own[name]}) for name in CLOCKS}
    found = over_clocks(replace(plan, axes=axes), device, kernel.text)
    base, kept = found.sel(own, drop=True), found.sel(asked)
    if bool(base["status"].all()):
        words = sorted({STATUS.meaning(int(code)).replace("_", " ") for code in base["status"]})
        raise QueryError(
            f"kernel '{kernel.key}' has no predicted time on {device.key} at the clocks of the"
            f" measurement, {measured.core_clock:g}/{measured.memory_clock:g} MHz:"
            f" {', '.join(words)} ({', '.join(plan.models)})"
        )
    by_dram = (base["bound"] == BOUND["memory"]) & (
        base["memory_activity"] >= base["core_activity"]
    )
    slower = own["core_clock"] / kept["core_clock"]
    at, predicted = base["execution_time"], kept["execution_time"]
    time = at_other_clocks(measured.time, at, predicted, slower, kept["memory_activity"], by_dram)
    return kept.assign(time=time, status=base["status"], predicted=at, by_dram=by_dram)


def at_other_clocks(
    measured: float, at: Any, predicted: Any, slower: Any, dram_busy: Any, by_dram: Any
) -> Any:
    """Return the time at other clocks, from the measured time and what a model predicts.

    Parameters
    ----------
    measured : float
        Measured time [s].
    at, predicted : array
        Predicted time at the clocks of the measurement, and at the other ones [s].
    slower : array
        Core clock of the measurement over the other core clock [1].
    dram_busy : array
        Share of the predicted time at the other clocks in which DRAM is busy [1]. So far, DRAM
        hides missing time of the chip: at a share of 1 the longer one of the predicted time and the
        measured one, which then is the chip's, counts.
    by_dram : array
        Whether DRAM limits the measured launch.
    """
    added = predicted + (measured - at) * slower
    hidden = dram_busy * np.maximum(added - measured * slower, 0.0)
    follows = np.maximum(predicted, added - hidden)
    return follows.where(~by_dram & (measured > at), predicted * (measured / at))


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
        if name not in known:
            raise QueryError(f"kernel '{kernel.key}' has no '{name}'{nearest(name, known)}")
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


def _answer(kernel: Kernel, device: Device, measured: Measured, scaled: xr.Dataset) -> Answer:
    models, codes = scaled["model"].values.tolist(), scaled["status"].values.tolist()
    timed = [name for name, code in zip(models, codes, strict=True) if not code]
    has_power = len(models) == 1 and bool(np.isfinite(scaled["power"]).any())
    title = (
        f"{kernel.name} on {measured.device}: {measured.time * 1e3:.5g} ms at"
        f" {measured.core_clock:g}/{measured.memory_clock:g} MHz, scaled by each model"
    )
    notes = [*_rules(measured.time, scaled.sel(model=timed))]
    notes += [
        f"{name} gives no time: {STATUS.meaning(code).replace('_', ' ')}"
        for name, code in zip(models, codes, strict=True)
        if code
    ]
    assumed = [path for path in kernel.assumed() if path.startswith("measured.")]
    if assumed:
        notes.append(f"assumed of the measurement: {', '.join(assumed)}")
    if has_power and (guessed := device.assumed(("power",))):
        notes.append(f"power and energy rest on assumed values ({', '.join(guessed)})")
    units = {"memory_clock": "MHz", "core_clock": "MHz", "power": "W", "energy": "J"}
    rows = _rows(scaled.sel(model=timed), has_power=has_power)
    by = ("memory_clock", "core_clock")
    return Answer.of(title, rows, by, units | dict.fromkeys(timed, "s"), notes)


def _rules(time: float, scaled: xr.Dataset) -> Iterator[str]:
    """Yield what becomes of the difference between measured and predicted time, by models."""
    missing = {"by the core clock": [], "DRAM": [], "more": []}  # type: dict[str, list[str]]
    for name in scaled["model"].values.tolist():
        own = scaled.sel(model=name)
        share = 1.0 - float(own["predicted"]) / time
        kind = "more" if share <= 0 else ("DRAM" if bool(own["by_dram"]) else "by the core clock")
        missing[kind].append(f"{name} ({100 * abs(share):.0f} %)")
    texts = {
        "by the core clock": "time that models miss follows the core clock: {}",
        "DRAM": "time that models miss is in proportion, as DRAM limits the launch: {}",
        "more": "in proportion, as more is predicted than measured: {}",
    }
    for kind, names in missing.items():
        if names:
            yield texts[kind].format(", ".join(names))


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
    title = f"{len(kernels)} kernels, each from its measured time, scaled by each model"
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

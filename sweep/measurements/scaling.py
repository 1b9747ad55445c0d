"""Predict the time of a measured launch at other clocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import QueryError, SpecError, nearest
from sweep.evaluation import evaluate
from sweep.fields import STATUS
from sweep.models import model_names
from sweep.query import Answer
from sweep.query.agreement import or_none
from sweep.space import Plan, resolve
from sweep.specs import Device, Kernel, Measured, load_device, load_kernel

__all__ = ["Scaled", "clock_range", "clock_values", "over_clocks", "predict", "scale"]

Array = NDArray[np.float64]

STEPS = 7
"""Default number of values of a clock over the device's range."""

CLOCKS = ("core_clock", "memory_clock")


@dataclass(frozen=True)
class Scaled:
    """Predictions of one launch over the two clocks, relative to those at the measured pair.

    Attributes
    ----------
    models : tuple of str
        The models.
    core_clock, memory_clock : array
        The clocks [MHz].
    ratio : array, shape (models, core clocks, memory clocks)
        Predicted time over the predicted time at the clocks of the measurement [1]; NaN without a
        prediction.
    power : array, shape as ratio
        Predicted power [W]; NaN without a prediction.
    status : array, shape (models,)
        Status code of each model at the clocks of the measurement; 0 if it gives a time.
    """

    models: tuple[str, ...]
    core_clock: Array
    memory_clock: Array
    ratio: Array
    power: Array
    status: NDArray[np.int64]


def scale(
    kernel: Kernel | str | os.PathLike[str],
    *,
    models: Sequence[str] = (),
    core_clock: Any = None,
    memory_clock: Any = None,
    select: Mapping[str, Any] | None = None,
    variant: str = "corrected",
) -> Answer:
    """Return the time of a measured launch at other clocks: its time times the predicted ratio.

    Parameters
    ----------
    kernel : Kernel, str or path
        A kernel whose file has a measured time (``[measured]``), such as ``sweep profile`` writes.
    models : sequence of str
        The models; all by default.
    core_clock, memory_clock : list or mapping, optional
        Clocks [MHz], as values or as ``{start, stop, step}``; by default seven over the range of
        the device.
    select : mapping, optional
        Tuning parameters and problem sizes of the measured launch, if the kernel has several
        values.
    variant : str
        ``"corrected"`` or ``"printed"``.

    Returns
    -------
    Answer
        One row per pair of clocks with a time per model [s]. With a single model, on a device with
        power parameters, also power [W] and energy [J].

    Raises
    ------
    SweepError
        There is no measured time, a parameter is open, or no model has a time at the clocks of the
        measurement.
    """
    found = kernel if isinstance(kernel, Kernel) else load_kernel(kernel)
    if found.measured is None:
        raise SpecError(
            f"{found.path or found.key}: no [measured] time to scale: `sweep profile` writes one"
        )
    device = load_device(found.measured.device)
    clocks = {
        "core_clock": clock_values(device, "core_clock", core_clock),
        "memory_clock": clock_values(device, "memory_clock", memory_clock),
    }
    scaled = predict(found, device, found.measured, clocks, models, select, variant)
    return _answer(found, device, found.measured, scaled)


def clock_range(device: Device, clock: str) -> tuple[float, float, float]:
    """Return the smallest, the nominal and the largest ``core`` or ``memory`` clock [MHz]."""
    nominal = device.values[f"clocks.{clock}_nominal"]
    low, high = (device.values.get(f"clocks.{clock}_{end}", nominal) for end in ("min", "max"))
    return low / 1e6, nominal / 1e6, high / 1e6


def clock_values(device: Device, name: str, given: Any = None) -> Sequence[float] | Any:
    """Return the given values of a clock, by default seven over the device's range [MHz]."""
    if given is not None:
        return given
    low, _, high = clock_range(device, name.removesuffix("_clock"))
    return sorted({float(round(value)) for value in np.linspace(low, high, STEPS)} - {0.0})


def predict(
    kernel: Kernel,
    device: Device,
    measured: Measured,
    clocks: Mapping[str, Any],
    models: Sequence[str] = (),
    select: Mapping[str, Any] | None = None,
    variant: str = "corrected",
) -> Scaled:
    """Return predictions relative to those at the clocks of a measurement.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    device : Device
        The device.
    measured : Measured
        The clocks to which predictions are relative; its time is not used.
    clocks : mapping
        ``core_clock`` and ``memory_clock`` [MHz], each a list of values or a range.
    models, select, variant
        As for :func:`scale`.

    Raises
    ------
    SweepError
        As :func:`scale`.
    """
    own = {"core_clock": measured.core_clock, "memory_clock": measured.memory_clock}
    plan = Plan(
        (kernel.key,),
        (device.key,),
        tuple(models) or tuple(model_names()),
        variant=variant,
        axes=dict(clocks),
        kernel_axes={kernel.key: _chosen(kernel, select or {})},
        precision="float64",
        outputs=("execution_time", "power", "status"),
        layout="grid",
        origin="scale",
    )
    # The clocks of the measurement need not be among the requested ones.
    axes: Any = {name: sorted({*map(float, plan.axes[name]), own[name]}) for name in CLOCKS}
    with_own = replace(plan, axes=axes)
    arrays = {name: of[:, 0] for name, of in over_clocks(with_own, device, kernel.text).items()}
    at = tuple(axes[name].index(own[name]) for name in CLOCKS)
    base, status = (arrays[name][:, at[0], at[1]] for name in ("execution_time", "status"))
    if status.all():
        raise QueryError(_no_time(kernel, device, measured, plan.models, status))
    kept = np.ix_(
        range(len(plan.models)),
        *([axes[name].index(float(v)) for v in plan.axes[name]] for name in CLOCKS),
    )
    ratio = (arrays["execution_time"] / base[:, None, None])[kept]
    core, memory = (np.array(plan.axes[name], float) for name in CLOCKS)
    return Scaled(plan.models, core, memory, ratio, arrays["power"][kept], status)


def over_clocks(plan: Plan, device: Device, kernel: str) -> dict[str, Any]:
    """Return the outputs of a plan that has one kernel on one device at several clocks.

    Parameters
    ----------
    plan : Plan
        The plan, with an axis for each clock.
    device : Device
        Its device.
    kernel : str
        The text of its kernel file.

    Returns
    -------
    dict of str to array, shape (models, configurations, core clocks, memory clocks)
        The plan's outputs by name.
    """
    texts = {"devices": {device.key: device.text}, "kernels": {plan.kernels[0]: kernel}}
    dataset: Any = evaluate(resolve(plan, texts))[plan.kernels[0]].to_dataset()
    names = plan.outputs or ()
    found = dataset[list(names)].squeeze("device").compute()
    shape = (len(plan.models), -1, *(dataset.sizes[name] for name in CLOCKS))
    return {
        name: found[name].transpose("model", ..., *CLOCKS).values.reshape(shape) for name in names
    }


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


def _no_time(
    kernel: Kernel,
    device: Device,
    measured: Measured,
    models: Sequence[str],
    status: NDArray[np.int64],
) -> str:
    """Return why no model gives a time at the clocks of the measurement."""
    why = {STATUS.meaning(int(code)) for code in status}
    text = ", ".join(sorted(word.replace("_", " ") for word in why))
    where = f"{measured.core_clock:g}/{measured.memory_clock:g} MHz"
    return (
        f"kernel '{kernel.key}' has no predicted time on {device.key} at the clocks of the"
        f" measurement, {where}: {text} ({', '.join(models)})"
    )


# ---------------------------------------------------------------------------- the answer


def _answer(kernel: Kernel, device: Device, measured: Measured, scaled: Scaled) -> Answer:
    timed = [i for i, code in enumerate(scaled.status) if not code]
    names = [scaled.models[i] for i in timed]
    single = len(scaled.models) == 1 and bool(np.isfinite(scaled.power).any())
    units = {"memory_clock": "MHz", "core_clock": "MHz", "power": "W", "energy": "J"}
    title = (
        f"{kernel.name} on {measured.device}: {measured.time * 1e3:.5g} ms at"
        f" {measured.core_clock:g}/{measured.memory_clock:g} MHz, scaled by each model"
    )
    notes = [
        f"{scaled.models[i]} gives no time: {STATUS.meaning(int(code)).replace('_', ' ')}"
        for i, code in enumerate(scaled.status)
        if code
    ]
    assumed = [path for path in kernel.assumed() if path.startswith("measured.")]
    if assumed:
        notes.append(f"assumed of the measurement: {', '.join(assumed)}")
    if single and (guessed := device.assumed(("power",))):
        notes.append(f"power and energy rest on assumed values ({', '.join(guessed)})")
    return Answer.of(
        title,
        _rows(measured, scaled, timed, single=single),
        ("memory_clock", "core_clock"),
        units | dict.fromkeys(names, "s"),
        notes,
    )


def _rows(
    measured: Measured, scaled: Scaled, timed: Sequence[int], *, single: bool
) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of clocks: the times and, of a single model, power and energy."""
    for m, memory in enumerate(scaled.memory_clock.tolist()):
        for c, core in enumerate(scaled.core_clock.tolist()):
            row: dict[str, Any] = {"memory_clock": memory, "core_clock": core}
            for i in timed:
                row[scaled.models[i]] = or_none(measured.time * float(scaled.ratio[i, c, m]))
            if single:
                time = row[scaled.models[timed[0]]]
                power = or_none(float(scaled.power[timed[0], c, m]))
                is_known = time is not None and power is not None
                row["power"] = power if is_known else None
                row["energy"] = power * time if is_known else None
            yield row

"""Measured launches: kernel files from profiles, and the measured time at other clocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import ProfileError, QueryError, SpecError, nearest
from sweep.fields import STATUS
from sweep.hardware.occupancy import occupancy
from sweep.hardware.occupancy_limits import limits_for
from sweep.importers.files import read_source
from sweep.importers.profiles.inputs import Given, inputs_of
from sweep.importers.profiles.kernel_file import Inputs, kernel_text
from sweep.importers.profiles.launches import bare_name, chosen
from sweep.importers.profiles.launches import read_profile as launches_of
from sweep.measurements.importing import device_keys
from sweep.models import model_names
from sweep.query import Answer
from sweep.query.agreement import or_none
from sweep.space import Plan, resolve
from sweep.specs import Device, Kernel, Measured, list_devices, load_device, load_kernel
from sweep.specs.kernel import key_of

if TYPE_CHECKING:
    import xarray as xr

STEPS = 7
"""Default number of values of a clock over the device's range."""

CLOCKS = ("core_clock", "memory_clock")

LOW = 0.8
"""Ratio of achieved to theoretical occupancy below which a note is added."""

GIVEN = "microbenchmark: given when the profile was read"


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
    clocks: dict[str, Any] = {}
    for name, values in (("core_clock", core_clock), ("memory_clock", memory_clock)):
        low, _, high = clock_range(device, name.removesuffix("_clock"))
        steps = {float(round(value)) for value in np.linspace(low, high, STEPS)} - {0.0}
        clocks[name] = sorted(steps) if values is None else values
    plan = Plan(
        (found.key,),
        (device.key,),
        tuple(models) or tuple(model_names()),
        variant=variant,
        axes=clocks,
        kernel_axes={found.key: _chosen(found, select or {})},
        precision="float64",
        outputs=("execution_time", "power", "status"),
        layout="grid",
        origin="scale",
    )
    return _answer(found, device, found.measured, _relative(plan, found, device, found.measured))


def clock_range(device: Device, clock: str) -> tuple[float, float, float]:
    """Return the smallest, the nominal and the largest ``core`` or ``memory`` clock [MHz]."""
    nominal = device.values[f"clocks.{clock}_nominal"]
    low, high = (device.values.get(f"clocks.{clock}_{end}", nominal) for end in ("min", "max"))
    return low / 1e6, nominal / 1e6, high / 1e6


def _relative(plan: Plan, kernel: Kernel, device: Device, measured: Measured) -> xr.Dataset:
    """Return predictions relative to those at the clocks of a measurement.

    ``ratio(model, core_clock, memory_clock)`` is the predicted time over the predicted time at the
    clocks of the measurement [1], ``power`` [W] has the same shape; NaN without a prediction.
    ``status(model)`` is the status at the clocks of the measurement.
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
    ratio = kept["execution_time"] / base["execution_time"]
    return kept.assign(ratio=ratio, status=base["status"])


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
    notes = [
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
    rows = _rows(measured.time, scaled.sel(model=timed), has_power=has_power)
    by = ("memory_clock", "core_clock")
    return Answer.of(title, rows, by, units | dict.fromkeys(timed, "s"), notes)


def _rows(time: float, scaled: xr.Dataset, *, has_power: bool) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of clocks: the times and, of a single model, power and energy."""
    models = scaled["model"].values.tolist()
    for m, c in np.ndindex(scaled.sizes["memory_clock"], scaled.sizes["core_clock"]):
        at = scaled.isel(memory_clock=m, core_clock=c)
        times: list[Any] = [or_none(time * ratio) for ratio in at["ratio"].values.tolist()]
        row: dict[str, Any] = {clock: at[clock].item() for clock in ("memory_clock", "core_clock")}
        row |= dict(zip(models, times, strict=True))
        if has_power:
            own, watts = times[0], or_none(at["power"].item())
            is_known = own is not None and watts is not None
            row["power"] = watts if is_known else None
            row["energy"] = watts * own if is_known else None
        yield row


# ---------------------------------------------------------------------------- profiles


@dataclass(frozen=True)
class Profiled:
    """A kernel file made from a profile.

    Attributes
    ----------
    key : str
        The kernel's key, derived from its name.
    text : str
        The file.
    remarks : tuple of str
        Values missing in the profile, and the assumptions made for them.
    """

    key: str
    text: str
    remarks: tuple[str, ...]


def read_profile(
    paths: Sequence[str | os.PathLike[str]],
    *,
    kernel: str | None = None,
    launch: int | None = None,
    given: Given | None = None,
    device: str | None = None,
    time: float | None = None,
    core_clock: float | None = None,
    memory_clock: float | None = None,
) -> Profiled:
    """Turn profiles of one program into the kernel file of one of its kernels.

    Parameters
    ----------
    paths : sequence of path
        CSV output of Nsight Compute (``ncu --csv``, page details or raw) or of nvprof (``--csv``
        with ``--metrics``, ``--events``, ``--print-gpu-trace`` or nothing), gzipped or not. Files
        complete each other.
    kernel : str, optional
        The kernel, if there are several.
    launch : int, optional
        Number of the launch, counted from 1; by default the mean over all launches.
    given : Given, optional
        Values from the user: block, grid, registers, shared memory, iterations.
    device : str, optional
        The device; by default the profile's, if there is a device file for it.
    time : float, optional
        Measured time of a launch [s]; by default the profile's.
    core_clock, memory_clock : float, optional
        Clocks of the measurement [MHz]; by default the profile's core clock, or else the device's
        nominal clocks, which are recorded as assumed.

    Raises
    ------
    SweepError
        A file is wrong, or a choice or a value that a kernel file needs is missing.
    """
    launches = []
    for path in paths:
        source = read_source(path)
        with _errors_of(str(source.path)):
            launches += launches_of(source.text)
    names = [Path(path).name for path in paths]
    with _errors_of(", ".join(names)):
        inputs = inputs_of(chosen(launches, kernel, launch), given)
    notes: list[str] = []
    clocks = {"core": core_clock, "memory": memory_clock}
    measured, sources = _measured(inputs, device, time, clocks, notes)
    text = kernel_text(inputs, sources=names, measured=measured, measured_sources=sources)
    return Profiled(key_of(bare_name(inputs.kernel)), text, (*inputs.remarks, *notes))


@contextmanager
def _errors_of(origin: str) -> Iterator[None]:
    """Name the file in errors of a profile."""
    try:
        yield
    except ProfileError as error:
        raise ProfileError(f"{origin}: {str(error)[:1000]}") from None


def _measured(
    inputs: Inputs,
    device: str | None,
    time: float | None,
    clocks: Mapping[str, float | None],
    notes: list[str],
) -> tuple[Measured | None, list[tuple[str, str]]]:
    """Return the measured time and the sources of its numbers, or ``None``, and add notes."""
    words = f"derived: profile, {inputs.time_words}" if time is None else GIVEN
    time = inputs.time if time is None else time
    if time is None or time <= 0:
        notes.append("no time of the launch: --measured-time anchors predictions to one")
        return None, []
    key = device_keys([inputs.device]).get(inputs.device)
    name = device or (key if key in list_devices() else None)
    if name is None:
        notes.append("the time of the launch is not kept without its device: give --device NAME")
        return None, []
    found = load_device(name)
    notes += _occupancy(inputs, found)
    sources = [("time_ms", words), ("device", GIVEN if device else "derived: profile")]
    measured = {}
    for clock, value in clocks.items():
        low, nominal, high = clock_range(found, clock)
        why = GIVEN
        if value is None and clock == "core" and inputs.core_clock:
            value = round(inputs.core_clock / 1e6)
            why = "derived: profile, core clock of the launch"
        elif value is None:
            value, why = nominal, f"assumed: the nominal clock of {found.key}"
            notes.append(
                f"the {clock} clock of the launch is assumed to be nominal, {nominal:g} MHz:"
                f" --{clock}-clock says otherwise"
            )
        measured[clock] = value
        sources.append((f"{clock}_clock_MHz", why))
        if not low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
            notes.append(
                f"the {clock} clock of the launch, {value:g} MHz, is outside the range of"
                f" {found.key}, {low:g} to {high:g} MHz: no model has a time there"
            )
    key = name if device and Path(device).suffix == ".toml" else found.key
    return Measured(time, key, measured["core"], measured["memory"]), sources


def _occupancy(inputs: Inputs, device: Device) -> Iterator[str]:
    """Yield a note if fewer warps were active than the models assume."""
    if inputs.occupancy is None:
        return
    launch = inputs.threads, inputs.registers, inputs.shared_memory, inputs.blocks
    limits, n_sm = limits_for([device.limits], (1,)), device.values["chip.sm_count"]
    share = np.asarray(occupancy(*launch, limits=limits, n_sm=n_sm).occupancy).item()
    if inputs.occupancy < LOW * share:
        yield (
            f"the achieved occupancy is {inputs.occupancy:.2f}, the launch allows {share:.2f} on"
            f" {device.key}: models assume the latter"
        )

"""Convert profiles to kernel files, with the measured time that anchors predictions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweep.errors import ProfileError, SweepError
from sweep.hardware.occupancy import limits_for, occupancy
from sweep.importers.files import read_source
from sweep.importers.profiles.inputs import Given, Inputs, inputs_of
from sweep.importers.profiles.kernel_file import kernel_text
from sweep.importers.profiles.launches import bare_name, chosen
from sweep.importers.profiles.launches import read_profile as launches_of
from sweep.measurements.importing import device_keys
from sweep.measurements.scaling import clock_range
from sweep.specs import Device, Measured, list_devices, load_device
from sweep.specs.kernel import key_of

__all__ = ["Profiled", "read_profile", "seconds"]

LOW = 0.8
"""Ratio of achieved to theoretical occupancy below which a note is added."""

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


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
        try:
            launches += launches_of(source.text)
        except ProfileError as error:
            raise ProfileError(f"{source.path}: {str(error)[:1000]}") from None
    names = [Path(path).name for path in paths]
    try:
        inputs = inputs_of(chosen(launches, kernel, launch), given)
    except ProfileError as error:
        raise ProfileError(f"{', '.join(names)}: {str(error)[:1000]}") from None
    notes: list[str] = []
    measured, sources = _measured(inputs, device, time, core_clock, memory_clock, notes)
    text = kernel_text(inputs, sources=names, measured=measured, measured_sources=sources)
    return Profiled(key_of(bare_name(inputs.kernel)), text, (*inputs.remarks, *notes))


def _measured(
    inputs: Inputs,
    device: str | None,
    time: float | None,
    core_clock: float | None,
    memory_clock: float | None,
    notes: list[str],
) -> tuple[Measured | None, list[tuple[str, str]]]:
    """Return the measured time and the sources of its numbers, or ``None`` and the reason."""
    words = f"derived: profile, {inputs.time_words}"
    if time is not None:
        words = "microbenchmark: given when the profile was read"
    else:
        time = inputs.time
    if time is None or time <= 0:
        notes.append("no time of the launch: --measured-time anchors predictions to one")
        return None, []
    name = device or _named(inputs.device)
    if name is None:
        notes.append("the time of the launch is not kept without its device: give --device NAME")
        return None, []
    found = load_device(name)
    notes += _occupancy(inputs, found)
    sources = [("time_ms", words), ("device", "derived: profile" if not device else GIVEN)]
    clocks = {}
    profiled = round(inputs.core_clock / 1e6) if inputs.core_clock else None
    for clock, own in (("core", core_clock), ("memory", memory_clock)):
        nominal = clock_range(found, clock)[1]
        if own is not None:
            clocks[clock], why = own, GIVEN
        elif clock == "core" and profiled is not None:
            clocks[clock], why = profiled, "derived: profile, core clock of the launch"
        else:
            clocks[clock], why = nominal, f"assumed: the nominal clock of {found.key}"
            notes.append(
                f"the {clock} clock of the launch is assumed to be nominal, {nominal:g} MHz:"
                f" --{clock}-clock says otherwise"
            )
        sources.append((f"{clock}_clock_MHz", why))
        notes += _outside(found, clock, clocks[clock])
    key = name if device and Path(device).suffix == ".toml" else found.key
    return Measured(time, key, clocks["core"], clocks["memory"]), sources


GIVEN = "microbenchmark: given when the profile was read"


def _named(profiled: str) -> str | None:
    """Return the key of the profile's device, if there is a device file for it."""
    if not profiled:
        return None
    key = device_keys([profiled])[profiled]
    return key if key in list_devices() else None


def _occupancy(inputs: Inputs, device: Device) -> Iterator[str]:
    """Yield a note if fewer warps were active than the models assume."""
    if inputs.occupancy is None:
        return
    allowed = occupancy(
        inputs.threads,
        inputs.registers,
        inputs.shared_memory,
        inputs.blocks,
        limits=limits_for([device.limits], (1,)),
        n_sm=device.values["chip.sm_count"],
    )
    share = float(np.asarray(allowed.occupancy).reshape(-1)[0])
    if inputs.occupancy < LOW * share:
        yield (
            f"the achieved occupancy is {inputs.occupancy:.2f}, the launch allows {share:.2f} on"
            f" {device.key}: models assume the latter"
        )


def _outside(device: Device, clock: str, megahertz: float) -> Iterator[str]:
    """Yield a note if a clock is outside the device's range, so that models give no time."""
    low, _, high = clock_range(device, clock)
    if not low * (1 - 1e-9) <= megahertz <= high * (1 + 1e-9):
        yield (
            f"the {clock} clock of the launch, {megahertz:g} MHz, is outside the range of"
            f" {device.key}, {low:g} to {high:g} MHz: no model has a time there"
        )


def seconds(text: str) -> float:
    """Return the seconds of a time with its unit: ``1.23ms``.

    Raises
    ------
    SweepError
        The text is not a time, or the time is not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([a-zµ]+)\s*", text)
    if match is None or match[2] not in TIME_UNITS or float(match[1]) <= 0:
        raise SweepError(
            f"a time of '{text}': must be a number above 0 and one of {', '.join(TIME_UNITS)},"
            " such as 1.23ms"
        )
    return float(match[1]) * TIME_UNITS[match[2]]

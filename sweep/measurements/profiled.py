"""Profiled launches: kernel files from profiles, with the measured time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import ProfileError
from sweep.hardware.occupancy import occupancy
from sweep.hardware.occupancy_limits import limits_for
from sweep.importers.files import read_source
from sweep.importers.profiles.inputs import NOT_IN_PROFILE, inputs_of
from sweep.importers.profiles.kernel_file import Given, Inputs, kernel_text
from sweep.importers.profiles.launches import Launch, bare_name, chosen, kernels_of
from sweep.importers.profiles.launches import read_profile as launches_of
from sweep.measurements.clock_ranges import clock_range
from sweep.measurements.importing import device_keys
from sweep.specs import Device, Measured, list_devices, load_device
from sweep.specs.kernel import key_of

LOW = 0.8
"""Ratio of achieved to theoretical occupancy below which a note is added."""

GIVEN = "microbenchmark: given when the profile was read"


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
    launches, origin = _launches(paths)
    with _errors_of(origin):
        inputs = inputs_of(chosen(launches, kernel, launch), given)
    notes: list[str] = []
    clocks = {"core": core_clock, "memory": memory_clock}
    measured, sources = _measured(inputs, device, time, clocks, notes)
    text = kernel_text(inputs, sources=origin, measured=measured, measured_sources=sources)
    return Profiled(key_of(bare_name(inputs.kernel)), text, (*inputs.remarks, *notes))


def profiled_kernels(paths: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the names of the kernels in profiles, in order."""
    return kernels_of(_launches(paths)[0])


def _launches(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Launch], str]:
    """Return the launches in all files, and the files' names."""
    launches = []
    for path in paths:
        source = read_source(path)
        with _errors_of(str(source.path)):
            launches += launches_of(source.text)
    return launches, ", ".join(Path(path).name for path in paths)


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
                f" {found.key}, {low:g} to {high:g} MHz: `sweep scale` widens that range to it"
            )
    key = name if device and Path(device).suffix == ".toml" else found.key
    return Measured(time, key, measured["core"], measured["memory"]), sources


def _occupancy(inputs: Inputs, device: Device) -> Iterator[str]:
    """Yield a note if fewer warps were active than the launch allows.

    If the profile lacks registers, assume the most that allow the achieved occupancy, but at most
    one for each instruction: blocks of short kernels end before others have begun.
    """
    if inputs.occupancy is None:
        return
    limits, n_sm = limits_for([device.limits], (1,)), device.values["chip.sm_count"]

    def allowed(registers: Any) -> Any:
        launch = inputs.threads, registers, inputs.shared_memory, inputs.blocks
        return np.ravel(occupancy(*launch, limits=limits, n_sm=n_sm).occupancy)

    (share,), path = allowed(inputs.registers), "resources.registers_per_thread"
    if inputs.occupancy >= LOW * share:
        return
    told = f"the achieved occupancy is {inputs.occupancy:.2f}, the launch allows {share:.2f} on"
    executed = sum(inputs.classes.values()) or inputs.computation
    numbers = np.arange(inputs.registers, max(inputs.registers, min(255, int(executed))) + 1)
    found = numbers[allowed(numbers) >= inputs.occupancy][-1]
    if inputs.sources[path] == NOT_IN_PROFILE and found > inputs.registers:
        inputs.registers, inputs.sources[path] = int(found), "assumed: achieved occupancy"
        yield f"{told} {device.key}: {found} registers a thread are assumed, which explain it"
    else:
        yield f"{told} {device.key}: models assume the latter"

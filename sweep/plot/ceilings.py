"""What a device can do at most: rates of instructions, bandwidths, latencies, by its file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sweep.errors import QueryError, SpecError
from sweep.hardware.derived import DeviceFacts, issue_slots, shared_cycles
from sweep.hardware.occupancy_limits import limits_for
from sweep.models import model_names
from sweep.space import with_derived
from sweep.specs import Device, load_device, parse_device
from sweep.store.root import inspect

Named = list[tuple[str, float]]
"""What lines of a picture show, by name."""

WORD = 4.0
LANES = {"FP32": "chip.lanes_per_sm", "FP64": "chip.fp64_lanes_per_sm"}
ALL_LANES = LANES | {"integer": "chip.integer_lanes_per_sm"}
TYPES = {"sp": "FP32", "int": "integer", "sf": "special functions", "dp": "FP64"}
"""Instruction types of Lemeire et al. and what pictures call them."""


def device_of(data: Any, key: str) -> Ceilings:
    """Return what the device of some results can do: from their store, their plan or its file.

    Raises
    ------
    QueryError
        The results do not contain the device's file, and there is none of this name.
    """
    if isinstance(data, str | os.PathLike):
        record: Any = inspect(data).record
        device = parse_device(record["devices"][key]["text"], key)
    elif hasattr(data, "space"):  # a plan
        device = next(d for d in data.space.devices if d.key == key)
    else:
        try:
            device = load_device(key)
        except SpecError as error:
            raise QueryError(
                f"results in memory do not contain the device's file: {error}"
            ) from None
    return Ceilings(with_derived(device, model_names()))


@dataclass(frozen=True)
class Ceilings:
    """What a device can do at some clocks, by default the nominal ones [MHz]."""

    device: Device
    core: float | None = None
    memory: float | None = None

    def _per_second(self, each: float) -> float:
        """Return what all multiprocessors do in a nanosecond that do so much in a cycle."""
        values = self.device.values
        return (
            each
            * values["chip.sm_count"]
            * values["clocks.core_nominal"]
            / 1e9
            * self._faster("core")
        )

    def _faster(self, clock: str) -> float:
        """Return a clock over the nominal one."""
        mhz = getattr(self, clock)
        return 1.0 if mhz is None else mhz * 1e6 / self.device.values[f"clocks.{clock}_nominal"]

    @property
    def _facts(self) -> DeviceFacts:
        device = self.device
        return DeviceFacts(device.values, device.compute_capability, device.vendor, {})

    def rates(self, is_floating: bool) -> Named:
        """Return threads' instructions a nanosecond by type, the highest last.

        Where all instructions count, that is what can be issued.
        """
        values = self.device.values
        found: dict[float, list[str]] = {}
        for name, path in (LANES if is_floating else ALL_LANES).items():
            if values.get(path):
                found.setdefault(self._per_second(values[path]), []).append(name)
        slots = None if is_floating else issue_slots(self._facts)
        if slots:
            found.setdefault(self._per_second(values["chip.warp_size"] / slots), []).append("issue")
        return [(", ".join(names), rate) for rate, names in sorted(found.items())]

    def bandwidths(self) -> Named:
        """Return the bandwidths that the file has, in bytes a nanosecond, that of DRAM first."""
        values = self.device.values
        found = [("DRAM", values["chip.memory_bandwidth"] / 1e9 * self._faster("memory"))]
        if l2 := values.get("microbenchmark.l2_read_bandwidth"):
            measured_at = values.get("microbenchmark.core_clock", values["clocks.core_nominal"])
            reached = l2 / 1e9 * self._faster("core") * values["clocks.core_nominal"] / measured_at
            found.append(("L2", reached))
        passes = shared_cycles(self._facts)
        banks = values.get("chip.shared_banks")
        if banks and passes:  # a pass is a word of each bank
            found.append(("shared memory", self._per_second(WORD * banks / passes)))
        return found

    def most_warps(self) -> float:
        """Return how many warps a multiprocessor holds."""
        return float(limits_for([self.device.limits], (1,)).max_warps_per_sm[0])

    def latencies(self) -> dict[str, tuple[float, float]]:
        """Return issue and completion latency of each type, without parallelism, and of DRAM."""
        own: Any = self.device.model_parameters.get("lemeire", {})
        found = {
            TYPES.get(str(kind), str(kind)): (float(issue), float(completion))
            for kind, parallel, issue, completion in own.get("latencies", ())
            if float(parallel) == 1.0
        }
        for width, issue, completion, *_ in own.get("global_memory", ()):
            if float(width) == WORD:
                found["loads of 4 B from DRAM"] = (float(issue), float(completion))
        return found

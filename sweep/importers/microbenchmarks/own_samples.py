"""Samples of ``sweep calibrate --gpu``: what its procedures find in them."""

from __future__ import annotations

import numpy as np

from sweep.errors import SweepError
from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import Clocks, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader
from sweep.microbenchmarks.case import Samples, Value
from sweep.microbenchmarks.procedures import MARK, all_values, from_json
from sweep.microbenchmarks.running import HELD


def samples_of(source: Source) -> tuple[Samples, str]:
    """Return the samples of a file and the version that wrote it, or raise an error about it."""
    document = source.document
    try:
        return from_json(document)
    except SweepError as error:
        raise source.error(str(error)) from None


def _read(source: Source) -> list[Measurement]:
    samples, version = samples_of(source)
    try:
        with np.errstate(all="ignore"):
            values = all_values(samples)
    except (OverflowError, ValueError) as error:  # a fit's errors or parameters are infinite
        raise source.error(f"numbers to which nothing can be fitted: {error}") from None
    found = Findings(source, "sweep", version)
    _identity(found, samples)
    for value in values:
        first = value.samples[0]
        clocks = Clocks(first.core, first.memory, all(s.locked for s in value.samples))
        found.add(value.key, value.value, value.unit, value.method, _place(value),
                  deviation=value.deviation, note=_note(value), clocks=clocks)  # fmt: skip
    return found.found


def _identity(found: Findings, samples: Samples) -> None:
    facts = samples.facts
    place = f"gpu, driver {facts.driver}"
    found.gpu(facts.name, "NVIDIA", place)
    found.query("compute_capability", facts.capability, place)
    for key, number, unit in (
        ("clocks.core_nominal", facts.core_nominal, "MHz"),
        ("clocks.memory_nominal", facts.memory_nominal, "MHz"),
        ("chip.sm_count", facts.sm_count, ""),
        ("chip.memory_bus_width", facts.bus_width_bits, "bits"),
        ("chip.l2", facts.l2_bytes, "bytes"),
    ):
        found.query(key, number, place, unit)
    for domain, clocks in (("core", facts.core_clocks), ("memory", facts.memory_clocks)):
        if clocks:
            found.clock_range(domain, min(clocks), max(clocks), place)


def _place(value: Value) -> str:
    names = [f"{s.procedure}, {s.name}" for s in value.samples]
    return names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1} more"


def _note(value: Value) -> str:
    """Return a value's note, and the range of the core clock if its samples had several."""
    own = [clock for s in value.samples if not s.is_extra for clock in (s.core, s.fell_from)]
    low, high = min(filter(None, own), default=0.0), max(own, default=0.0)
    several = f"the core's clock was {low:g} to {high:g} MHz" if low < (1.0 - HELD) * high else ""
    return "; ".join(filter(None, (value.note, several)))


READER = Reader("sweep calibrate --gpu", lambda text: f'"tool": "{MARK}"' in text[:200], _read)

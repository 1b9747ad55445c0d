"""The JSON of nvbench (https://github.com/NVIDIA/nvbench), ``--json``: devices, and bandwidths.

Its benchmarks are of any kernels. The highest bandwidth of global memory that one of them reached
is a lower bound of what DRAM sustains; more than the peak comes from caches and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import FIELDS, Clocks, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader, one_gpu

_RATE = "nv/cold/bw/global/bytes_per_second"
_NOISE = "nv/cold/time/gpu/stdev/relative"
_CLOCK = "nv/cold/sm_clock_rate/mean"


def _read(source: Source) -> list[Measurement]:
    found = Findings(source, "nvbench")
    data = source.document
    found.version = str(found.table(data, "meta", "version", "nvbench").get("string", ""))[:60]
    devices = _objects(source, data.get("devices"), "devices")
    states = [
        (f"benchmark {bench.get('name')}, state {state.get('name', number)}", state)
        for bench in _objects(source, data.get("benchmarks"), "benchmarks")
        for number, state in enumerate(_objects(source, bench.get("states"), "states"))
    ]
    used = [state.get("device") for _, state in states]
    chosen = [device for device in devices if not states or device.get("id") in used]
    one_gpu(source, "nvbench", [str(device.get("name")) for device in chosen], "--devices 0")
    device = chosen[0]
    found.gpu(device.get("name"), "NVIDIA", "devices")
    capability = found.number(device.get("sm_version"), "devices, sm_version")
    found.query("compute_capability", f"{capability / 100:.1f}", "devices, sm_version")
    for key, (name, unit) in FIELDS["nvbench"].items():
        found.query(key, device.get(name), f"devices, {name}", unit)
    peak = device.get("global_memory_bus_bandwidth")
    _bandwidth(found, states, found.number(peak, "global_memory_bus_bandwidth") if peak else 0.0)
    return found.found


def _bandwidth(found: Findings, states: list[tuple[str, Mapping[str, Any]]], peak: float) -> None:
    best: tuple[float, str, dict[str, float]] = (0.0, "", {})
    for place, state in states:
        if not state.get("is_skipped"):
            values = dict(_summaries(found, state, place))
            rate = values.get(_RATE, 0.0)
            if best[0] < rate and (not peak or rate <= peak):
                best = rate, place, values
    rate, place, values = best
    if rate:
        clock = values.get(_CLOCK)
        noise = values.get(_NOISE)
        found.add("microbenchmark.dram_read_bandwidth", rate, "Bps", "kernel", place,
                  deviation=None if noise is None else noise * rate,
                  note="the highest up to the peak: a lower bound",
                  clocks=Clocks(clock * 1e-6 if clock else None))  # fmt: skip


def _summaries(
    found: Findings, state: Mapping[str, Any], place: str
) -> Iterator[tuple[str, float]]:
    """Yield tag and value of a state's summaries that are of use."""
    summaries = state.get("summaries")
    if isinstance(summaries, dict):
        raise found.source.error("summaries without tags: written by nvbench before its version 1")
    for summary in _objects(found.source, summaries, f"{place}: summaries"):
        if summary.get("tag") in (_RATE, _NOISE, _CLOCK):
            rows = _objects(found.source, summary.get("data"), f"{place}: data")
            for row in (row for row in rows if row.get("name") == "value"):
                yield summary["tag"], found.number(row.get("value"), f"{place}, {summary['tag']}")


def _objects(source: Source, value: Any, place: str) -> list[Mapping[str, Any]]:
    """Return a list of objects, empty for nothing.

    Raises
    ------
    TuningError
        It is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise source.error(f"{place}: must be a list of objects")
    return value


READER = Reader("nvbench", lambda text: '"benchmarks"' in text and '"devices"' in text, _read)

"""The text of gpu-benches' ``gpu-stream``, ``gpu-strides`` and ``gpu-small-kernels``."""

from __future__ import annotations

import re
import statistics

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.gpu_benches_curves import check_rising, rows_of, stated_clock
from sweep.importers.microbenchmarks.measurement import PER_CYCLE, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader

BEST = 3
"""How many of the highest rates of a stream tell its spread: it rises until it saturates."""

LAST = 1024
"""The largest block, with which gpu-stream ends: smaller ones do not saturate DRAM."""

SMALLEST = 6
"""How many of the smallest kernels tell what a launch takes: they do hardly anything else."""

ELEMENT_BYTES = 16.0
"""What gpu-small-kernels moves for an element: a double is read, another one written [byte]."""

_STREAMS = {"init": "write", "read": "read", "scale": "scale", "triad": "triad"}
_STRIDE = re.compile(r"float stride +1 +1 +\S+ +(\S+)")
_SMALL = re.compile(r"^\d+ +\d+kB( +\S+)+ *$", re.MULTILINE)


def _stream(source: Source) -> list[Measurement]:
    found = Findings(source, "gpu-stream", "of gpu-benches")
    lines = source.text.splitlines()
    number, header = next((n, line) for n, line in enumerate(lines, 1) if "blockSize" in line)
    names = header.rpartition("|")[2].split()
    if missing := [name for name in _STREAMS if name not in names]:
        raise source.error(f"line {number}: no column '{missing[0]}'")
    rates: dict[str, list[float]] = {name: [] for name in _STREAMS}
    sizes = []
    for place, words in rows_of(source, 6 + len(names)):
        sizes.append(found.number(words[0], place))
        for name, word in zip(names, words[-len(names) :], strict=True):
            if name in rates:
                rates[name].append(found.number(word, f"{place}, {name}", "GB/s"))
    check_rising(source, sizes)
    if not sizes or sizes[-1] < LAST:
        raise source.error(f"ends before blocks of {LAST} threads: truncated?")
    for name, key in _STREAMS.items():
        best = sorted(rates[name])[-BEST:]
        found.add(f"microbenchmark.dram_{key}_bandwidth", best[-1], "GBps",
                  "plateau", f"column {name}", deviation=round(statistics.pstdev(best), 2),
                  note=f"the highest of {len(rates[name])} block sizes")  # fmt: skip
    return found.found


def _strides(source: Source) -> list[Measurement]:
    found = Findings(source, "gpu-strides", "of gpu-benches", stated_clock(source))
    rows = _STRIDE.findall(source.text)
    if len(rows) != 1:
        why = "two runs, or two GPUs, in one file" if rows else "truncated"
        raise source.error(f"{len(rows) or 'no'} rows 'float stride 1': {why}?")
    rate = found.number(rows[0], "float stride 1", "B/cycle")
    found.add("microbenchmark.l1_read_bandwidth", rate, PER_CYCLE, "saturated", "float stride 1",
              note="of one multiprocessor")  # fmt: skip
    return found.found


def _small_kernels(source: Source) -> list[Measurement]:
    found = Findings(source, "gpu-small-kernels", "of gpu-benches")
    sizes, times = [], []
    for place, words in rows_of(source, 3):
        sizes.append(found.number(words[0], place))
        best = max(found.number(word, place, "GB/s") for word in words[2:])
        times.append(sizes[-1] * ELEMENT_BYTES / best * 1e-3)
    check_rising(found.source, sizes)
    if len(times) < SMALLEST:
        raise source.error(f"{len(times)} sizes: truncated?")
    first = times[:SMALLEST]
    found.add("microbenchmark.kernel_launch", round(statistics.median(first), 3), "us", "plateau",
              f"{SMALLEST} smallest sizes", deviation=round(statistics.pstdev(first), 3),
              note="launches one behind the other, in a stream or a graph")  # fmt: skip
    return found.found


STREAM = Reader("gpu-stream", lambda text: "blockSize" in text and "triad" in text, _stream)
STRIDES = Reader("gpu-strides", lambda text: "float stride" in text, _strides)
SMALL_KERNELS = Reader("gpu-small-kernels", lambda text: bool(_SMALL.search(text)), _small_kernels)

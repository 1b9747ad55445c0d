"""The text of gpu-benches (https://github.com/RRZE-HPC/gpu-benches) over sizes of data.

``gpu-latency`` chases pointers; ``gpu-cache`` and ``gpu-l2-cache`` read. None says which GPU it ran
on, nor its own version; only ``gpu-latency`` and ``gpu-strides`` state the clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import Clocks, Measurement
from sweep.importers.microbenchmarks.plateaus import MOST_ROWS, Plateau, plateaus
from sweep.importers.microbenchmarks.reader import Findings, Reader

LARGEST_L1_KB = 512.0
"""A level that begins beyond this many kB is no L1 cache."""

LARGE_KB = 2.0**19
"""From this size on (512 MiB) misses of the TLB are a part of a DRAM latency [kB]."""

LIKE_DRAM = 0.8
"""A level with this share of a large latency, or more, is DRAM [1]: 0.87 on an MI210, where the TLB
makes a step. The far partition of L2 has 0.73 of it on H100 and A100."""

ONE_LEVEL = 1.15
"""Two levels below DRAM that differ by less are one, whose latency rises with its use [1]."""

RDNA_LEVELS = 3
"""Levels between the first and DRAM on GPUs with RDNA: an L1 of several units, L2, Infinity Cache.
NVIDIA's have one or two, the partitions of L2."""

_CHASE = re.compile(r"^ *\d+ +\d+ +\d+ +[\d.,]+ +[-\d.,]+ *$", re.MULTILINE)
_RATE = re.compile(r" *(?:([-\d.,]+) +kB +)?([-\d.,]+) +kB +\S+ +([-\d.,]+)% +([-\d.,]+) GB/s.*")


def stated_clock(source: Source) -> Clocks:
    """Return the clock of the line that shows how it ramps up, if there is one."""
    match = re.search(r"^clock:(?: +\d+)* +(\d+) *$", source.text, re.MULTILINE)
    return Clocks(float(match[1]) if match and int(match[1]) else None)


def rows_of(source: Source, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield place and words of the lines that begin with a number.

    Raises
    ------
    TuningError
        One has fewer words, or there are too many.
    """
    count = 0
    for number, line in enumerate(source.text.splitlines(), start=1):
        words = line.split()
        if not words or not words[0].lstrip("-")[:1].isdigit():
            continue
        count += 1
        place = f"line {number}"
        if len(words) < columns:
            raise source.error(f"{place}: {len(words)} of {columns} columns: truncated?")
        if count > MOST_ROWS:
            raise source.error(f"{place}: more than {MOST_ROWS} sizes, which no run prints")
        yield place, words


def check_rising(source: Source, sizes: list[float]) -> None:
    """Refuse sizes of rows that do not rise."""
    if any(a >= b for a, b in pairwise(sizes)):
        raise source.error("sizes do not rise: two runs, or two GPUs, in one file?")


def _levels(source: Source, rows: list[tuple[float, float]], least: int) -> list[Plateau]:
    """Return the levels of a curve.

    Raises
    ------
    TuningError
        There are fewer than expected, or the sizes do not rise.
    """
    check_rising(source, [size for size, _ in rows])
    found = plateaus(rows)
    if len(found) < least:
        raise source.error(
            f"{len(rows)} sizes with {len(found)} levels of about the same value, of {least} that"
            " caches and DRAM make: truncated?"
        )
    return found


# ---------------------------------------------------------------------------- latency


def _latency(source: Source) -> list[Measurement]:
    found = Findings(source, "gpu-latency", "of gpu-benches")
    rows, clocks = [], set()
    for place, words in rows_of(source, 5):
        _, clock, size, _, cycles = (found.number(word, place) for word in words[:5])
        rows.append((size, cycles))
        clocks.add(clock)
    if len(clocks) > 1:
        listed = ", ".join(f"{clock:g}" for clock in sorted(clocks)[:4])
        raise source.error(f"states several clocks ({listed} MHz): two runs in one file?")
    found.clocks = Clocks(clocks.pop())
    first, *others = _levels(source, rows, 2)
    large = Plateau(rows).between(LARGE_KB, math.inf)
    if large.first < LARGE_KB:
        raise source.error(f"ends at {rows[-1][0]:.0f} kB, and a whole run beyond 1 GB: truncated?")
    below = [level for level in others if level.value < LIKE_DRAM * large.value]
    between = _apart(below)
    if first.first > LARGEST_L1_KB or not between:
        raise source.error("lacks a level of the L1 or the L2 cache: are the small sizes missing?")
    levels = {"l1_latency": first, "l2_near_latency": between[len(between) >= RDNA_LEVELS]}
    if len(between) >= RDNA_LEVELS:
        levels["memory_side_cache_latency"] = between[RDNA_LEVELS - 1]
    if dram := others[len(below) :]:
        levels["dram_latency"] = dram[0].between(1.2 * dram[0].first, 3.0 * dram[0].first)
    levels["dram_large_latency"] = large
    for key, level in levels.items():
        value, deviation = round(level.value, 2), round(level.deviation, 3)
        found.add(f"microbenchmark.{key}", value, "cycles", "pointer_chase", level.place,
                  deviation=deviation)  # fmt: skip
    return found.found


def _apart(levels: list[Plateau]) -> list[Plateau]:
    """Return levels that differ from their neighbours, of those that do not the widest ones."""
    found: list[Plateau] = []
    for level in levels:
        if found and level.value < ONE_LEVEL * found[-1].value:
            level = max(found.pop(), level, key=lambda each: each.extent)
        found.append(level)
    return found


# ---------------------------------------------------------------------------- bandwidths


def _cache(source: Source) -> list[Measurement]:
    found = Findings(source, "gpu-cache", "of gpu-benches", stated_clock(source))
    _rate(found, "l1_read_bandwidth", _levels(source, _rates(found), 1)[0])
    return found.found


def _l2_cache(source: Source) -> list[Measurement]:
    """Read the rate of the widest level that is faster than the last one, DRAM."""
    found = Findings(source, "gpu-l2-cache", "of gpu-benches", stated_clock(source))
    *levels, _ = _levels(source, _rates(found), 2)
    _rate(found, "l2_read_bandwidth", max(levels, key=lambda level: level.extent))
    return found.found


def _rates(found: Findings) -> list[tuple[float, float]]:
    rows = []
    for place, words in rows_of(found.source, 6):
        match = _RATE.fullmatch(" ".join(words))
        if match is None:
            raise found.source.error(f"{place}: not a row of sizes, time, spread and GB/s")
        size, rate = found.number(match[2], place, "kB"), found.number(match[4], place, "GB/s")
        rows.append((size, rate))
    return rows


def _rate(found: Findings, key: str, level: Plateau) -> None:
    value, deviation = round(level.value, 1), round(level.deviation, 1)
    found.add(f"microbenchmark.{key}", value, "GBps", "plateau", level.place, deviation=deviation)


LATENCY = Reader(
    "gpu-latency", lambda text: "float stride" not in text and bool(_CHASE.search(text)), _latency
)
CACHE = Reader("gpu-cache", lambda text: "Eff. bw" in text and "L2 read" in text, _cache)
L2_CACHE = Reader("gpu-l2-cache", lambda text: "Eff. bw" in text and "L2 read" not in text,
                  _l2_cache)  # fmt: skip

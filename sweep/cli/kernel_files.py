"""``sweep ptx`` and ``sweep profile``: kernel files from PTX and from a profiler's counters."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.cli.parser import chosen
from sweep.errors import SweepError

if TYPE_CHECKING:
    from sweep.importers.ptx.analysis import Analysis

__all__ = ["profile", "ptx"]

MOST_REMARKS = 100
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def ptx(arguments: argparse.Namespace) -> int:
    """Read PTX and print the kernel file, or write it; remarks go to the error stream."""
    from sweep.importers.files import read_source
    from sweep.importers.ptx.analysis import analyse
    from sweep.importers.ptx.kernel_file import kernel_text
    from sweep.importers.ptx.parser import LARGEST_TEXT, read_ptx
    from sweep.importers.ptx.stages import instruction_costs
    from sweep.specs import load_device

    path = Path(arguments.file)
    text = read_source(path, LARGEST_TEXT).text
    costs = instruction_costs(load_device(arguments.device)) if arguments.device else None
    try:
        analysis = analyse(
            read_ptx(text).entry(arguments.entry),
            trips=_pairs("--trip", arguments.trip),
            branches=_pairs("--branch", arguments.branch),
            block=_sides("--block", arguments.block),
            stages=arguments.stages,
        )
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    kernel = kernel_text(
        analysis,
        source=path.name,
        grid=_sides("--grid", arguments.grid),
        costs=costs,
        **chosen(arguments, "registers", "dynamic_shared"),
    )
    return _deliver(arguments, kernel, path.name, _remarks(analysis))


def _remarks(analysis: Analysis) -> list[str]:
    """Return reservations about the kernel file, one per line."""
    remarks = [unknown.remark() for unknown in analysis.unknown[:MOST_REMARKS]]
    if len(analysis.unknown) > MOST_REMARKS:
        remarks.append(f"{len(analysis.unknown) - MOST_REMARKS} more opcodes are unknown")
    remarks += analysis.notes
    for loop in analysis.graph.loops:
        if loop.trips is None:
            label = loop.label.name
            remarks.append(
                f"the loop at {label} (line {loop.label.line}) has no constant trip count:"
                f" {loop.size} = 1, or give --trip '{label}=N'"
            )
    return remarks


def profile(arguments: argparse.Namespace) -> int:
    """Read a profile and print the kernel file, or write it; remarks go to the error stream."""
    from sweep.importers.profiles.inputs import Given
    from sweep.measurements.scaling import read_profile

    found = read_profile(
        arguments.files,
        given=Given(
            _sides("--block", arguments.block),
            _sides("--grid", arguments.grid),
            **chosen(arguments, "registers", "shared_memory", "outer"),
        ),
        time=_seconds(arguments.measured_time) if arguments.measured_time else None,
        **chosen(arguments, "kernel", "launch", "device", "core_clock", "memory_clock"),
    )
    return _deliver(arguments, found.text, found.key, found.remarks)


def _seconds(text: str) -> float:
    """Return the seconds of a time with its unit: ``1.23ms``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([a-zµ]+)\s*", text)
    if match is None or match[2] not in TIME_UNITS or float(match[1]) <= 0:
        raise SweepError(
            f"a time of '{text}': must be a number above 0 and one of {', '.join(TIME_UNITS)},"
            " such as 1.23ms"
        )
    return float(match[1]) * TIME_UNITS[match[2]]


def _deliver(arguments: argparse.Namespace, text: str, name: str, remarks: Iterable[str]) -> int:
    """Write the kernel file, or print it; remarks go to the error stream."""
    if arguments.output:
        _write(Path(arguments.output), text, overwrite=arguments.overwrite)
    else:
        print(text, end="")
    for remark in remarks:
        print(f"sweep: {name}: {remark}", file=sys.stderr)
    return 0


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a kernel file completely or not at all; the file's name must be a key."""
    from sweep.importers.files import write_whole
    from sweep.specs import parse_kernel

    if path.suffix != ".toml":
        raise SweepError(f"{path}: a kernel file is named KEY.toml")
    parse_kernel(text, path.stem, path)
    if path.exists() and not overwrite:
        raise SweepError(f"{path}: is there already; --overwrite replaces it")
    write_whole(path, text)


def _sides(option: str, text: str | None) -> tuple[int, int, int] | None:
    """Return the three sides of a block or grid; omitted ones are 1."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if len(parts) > 3 or not all(re.fullmatch(r"[1-9][0-9]{0,9}", part) for part in parts):
        raise SweepError(f"{option} {text}: must be one to three whole numbers, such as 16,16")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z


def _pairs(option: str, words: Sequence[str]) -> dict[str, float]:
    """Return the numbers of ``LABEL=NUMBER`` words by label."""
    result: dict[str, float] = {}
    for word in words:
        label, equals, text = word.partition("=")
        try:
            number = float(text)
        except ValueError:
            equals = ""
            number = 0.0
        if not label or not equals:
            raise SweepError(f"{option} {word}: must be LABEL=NUMBER")
        if label in result:
            raise SweepError(f"{option} {word}: the label is given twice")
        result[label] = number
    return result

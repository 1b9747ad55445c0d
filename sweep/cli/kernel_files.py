"""``sweep ptx`` and ``sweep profile``: kernel files from PTX and from a profiler's counters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.cli.parser import call_with
from sweep.errors import SweepError

if TYPE_CHECKING:
    from sweep.importers.ptx.analysis import Analysis

MOST_REMARKS = 100


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
        analysis = call_with(analyse, arguments, read_ptx(text).entry(arguments.entry))
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    kernel = call_with(kernel_text, arguments, analysis, source=path.name, costs=costs)
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

    given = call_with(Given, arguments)
    found = call_with(read_profile, arguments, arguments.files, given=given)
    return _deliver(arguments, found.text, found.key, found.remarks)


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

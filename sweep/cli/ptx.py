"""``sweep ptx``: from the PTX text of a kernel to a kernel file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.cli.kernel_files import sides, write_kernel
from sweep.errors import SweepError

if TYPE_CHECKING:
    from sweep.importers.ptx import Analysis

__all__ = ["add_ptx_arguments", "ptx"]

MOST_REMARKS = 100
STAGES = ("tasks", "barriers", "none")


def add_ptx_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep ptx`` to its parser."""
    parser.add_argument("file", metavar="FILE.ptx", help="PTX text of any version up to 9")
    parser.add_argument("--entry", metavar="NAME", help="the kernel, where there are several")
    parser.add_argument(
        "--trip",
        action="append",
        default=[],
        metavar="LABEL=N",
        help="iterations of the loop at a label, whenever it is entered (a leading $ may be left"
        " out); without it a loop of unknown length becomes a problem size",
    )
    parser.add_argument(
        "--branch",
        action="append",
        default=[],
        metavar="LABEL=SHARE",
        help="share of the conditional branches to a label that are taken, 0 to 1; without it both"
        " sides count in full",
    )
    parser.add_argument(
        "--registers", type=int, metavar="N", help="registers of a thread, instead of an estimate"
    )
    parser.add_argument(
        "--block", metavar="X[,Y[,Z]]", help="threads of a block (default: to be searched)"
    )
    parser.add_argument(
        "--grid", metavar="X[,Y[,Z]]", help="blocks of the grid (default: 2**20 threads in all)"
    )
    parser.add_argument(
        "--dynamic-shared", type=int, metavar="BYTES", help="shared memory that the launch adds"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="tell the tasks' costs by this device's instruction table"
    )
    parser.add_argument(
        "--stages",
        choices=STAGES,
        default=STAGES[0],
        help="cut the code into computation and memory tasks, at barriers, or not"
        " (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", metavar="KEY.toml", help="a file (default: the screen)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def ptx(arguments: argparse.Namespace) -> int:
    """Read PTX and print the kernel file, or write it; remarks go to the error stream."""
    from sweep.importers.files import read_source
    from sweep.importers.ptx import (
        LARGEST_TEXT,
        analyse,
        instruction_costs,
        kernel_text,
        read_ptx,
    )
    from sweep.specs import load_device

    path = Path(arguments.file)
    text = read_source(path, LARGEST_TEXT).text
    _check_numbers(arguments)
    costs = instruction_costs(load_device(arguments.device)) if arguments.device else None
    block = sides("--block", arguments.block)
    try:
        analysis = analyse(
            read_ptx(text).entry(arguments.entry),
            trips=_pairs("--trip", arguments.trip),
            branches=_pairs("--branch", arguments.branch),
            block=(block[0], block[1], block[2]) if block else None,
            stages=arguments.stages,
        )
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from None
    kernel = kernel_text(
        analysis,
        source=path.name,
        registers=arguments.registers,
        grid=sides("--grid", arguments.grid),
        dynamic_shared=arguments.dynamic_shared,
        costs=costs,
    )
    if arguments.output:
        write_kernel(Path(arguments.output), kernel, overwrite=arguments.overwrite)
    else:
        print(kernel, end="")
    for remark in _remarks(analysis):
        print(f"sweep: {path.name}: {remark}", file=sys.stderr)
    return 0


def _remarks(analysis: Analysis) -> list[str]:
    """Return what a user should know before trusting the file, a line each."""
    remarks = [unknown.remark() for unknown in analysis.unknown[:MOST_REMARKS]]
    if len(analysis.unknown) > MOST_REMARKS:
        remarks.append(f"{len(analysis.unknown) - MOST_REMARKS} more opcodes are unknown")
    remarks += analysis.notes
    for loop in analysis.counts.loops:
        if loop.trips is None:
            label = loop.loop.label
            remarks.append(
                f"the loop at {label} (line {loop.loop.line}) has no constant trip count:"
                f" {loop.size} = 1, or give --trip '{label}=N'"
            )
    return remarks


# ---------------------------------------------------------------------------- arguments


def _check_numbers(arguments: argparse.Namespace) -> None:
    registers, shared = arguments.registers, arguments.dynamic_shared
    if registers is not None and not 1 <= registers <= 255:
        raise SweepError(f"--registers {registers}: outside the range 1 to 255")
    if shared is not None and not 0 <= shared <= 2**20:
        raise SweepError(f"--dynamic-shared {shared}: outside the range 0 to {2**20} bytes")


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

"""``sweep profile``: from a profiler's counters to a kernel file."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from sweep.cli.kernel_files import sides, write_kernel
from sweep.errors import SweepError

__all__ = ["add_profile_arguments", "profile"]

RANGES = {
    "registers": (1, 255, ""),
    "shared_memory": (0, 2**20, " bytes"),
    "launch": (1, 10**9, ""),
}


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep profile`` to its parser."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="CSV of `ncu --csv` (page details or raw) or of `nvprof --csv` (--metrics, --events,"
        " --print-gpu-trace); several of one program complete each other",
    )
    parser.add_argument("--kernel", metavar="NAME", help="the kernel, where there are several")
    parser.add_argument(
        "--launch", type=int, metavar="N", help="which of its launches (default: the mean over all)"
    )
    parser.add_argument("--device", metavar="NAME", help="the device, if the profile does not tell")
    parser.add_argument(
        "--measured-time",
        metavar="TIME",
        help="time of a launch, such as 1.23ms (default: the profile's)",
    )
    for clock in ("core", "memory"):
        parser.add_argument(
            f"--{clock}-clock", type=float, metavar="MHZ", help=f"the {clock} clock while measured"
        )
    parser.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a block")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks of the grid")
    parser.add_argument("--registers", type=int, metavar="N", help="registers of a thread")
    parser.add_argument(
        "--shared-memory", type=int, metavar="BYTES", help="shared memory of a block"
    )
    parser.add_argument(
        "--outer",
        type=float,
        metavar="N",
        help="how often the kernel loads and computes in turn (wang_chu, with shared memory)",
    )
    parser.add_argument("-o", "--output", metavar="KEY.toml", help="a file (default: the screen)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def profile(arguments: argparse.Namespace) -> int:
    """Read a profile and print the kernel file, or write it; remarks go to the error stream."""
    from sweep.importers.profiles import Given
    from sweep.measurements.profiling import read_profile, seconds

    _check_numbers(arguments)
    found = read_profile(
        arguments.files,
        kernel=arguments.kernel,
        launch=arguments.launch,
        given=Given(
            block=sides("--block", arguments.block),
            grid=sides("--grid", arguments.grid),
            registers=arguments.registers,
            shared_memory=arguments.shared_memory,
            outer=arguments.outer,
        ),
        device=arguments.device,
        time=seconds(arguments.measured_time) if arguments.measured_time else None,
        core_clock=arguments.core_clock,
        memory_clock=arguments.memory_clock,
    )
    if arguments.output:
        write_kernel(Path(arguments.output), found.text, overwrite=arguments.overwrite)
    else:
        print(found.text, end="")
    for remark in found.remarks:
        print(f"sweep: {found.key}: {remark}", file=sys.stderr)
    return 0


def _check_numbers(arguments: argparse.Namespace) -> None:
    for name, (low, high, unit) in RANGES.items():
        number = getattr(arguments, name)
        if number is not None and not low <= number <= high:
            option = f"--{name.replace('_', '-')}"
            raise SweepError(f"{option} {number}: outside the range {low} to {high}{unit}")
    if arguments.outer is not None and not 1 <= arguments.outer <= 2**53:
        raise SweepError(f"--outer {arguments.outer:g}: outside the range 1 to 2**53")
    for clock, high in (("core", 5000), ("memory", 20_000)):
        megahertz = getattr(arguments, f"{clock}_clock")
        if megahertz is not None and not (math.isfinite(megahertz) and 50 <= megahertz <= high):
            raise SweepError(f"--{clock}-clock {megahertz:g}: outside the range 50 to {high} MHz")

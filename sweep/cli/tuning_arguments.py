"""What can be typed after the commands that deal with tuners."""

from __future__ import annotations

import argparse

__all__ = ["add_export_arguments", "add_import_arguments", "add_validate_arguments"]


def add_import_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep import``."""
    sub.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a T1 search space, a cache of Kernel Tuner, T4 results, KTT's output or CSV; .gz too",
    )
    sub.add_argument("-o", "--output", default=".", metavar="DIR", help="(default: %(default)s)")
    sub.add_argument("--kernel", metavar="NAME", help="the kernel's name, if not the files' own")
    sub.add_argument("--device", metavar="NAME", help="the device, if the files do not tell it")
    sub.add_argument(
        "--layout",
        choices=("auto", "grid", "stacked"),
        default="auto",
        help="a dimension per parameter, or one of configurations (default: %(default)s)",
    )
    sub.add_argument("--parameters", metavar="A,B,...", help="CSV: columns of tuning parameters")
    sub.add_argument("--time", metavar="COLUMN", help="CSV: the column of times")
    sub.add_argument("--unit", choices=("s", "ms", "us", "ns"), help="CSV: the unit of times")
    sub.add_argument("--overwrite", action="store_true", help="replace files that exist")


def add_validate_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep validate``."""
    sub.add_argument("data", metavar="DATA", help="predictions: a store or a plan")
    sub.add_argument(
        "measured", metavar="MEASURED", help="measured times: a store of `sweep import`, or a file"
    )
    sub.add_argument(
        "select",
        nargs="*",
        metavar="NAME=VALUE",
        help="which of the predictions; what was not measured needs one value",
    )
    sub.add_argument("--device", metavar="NAME", help="the device, if the file does not tell it")
    sub.add_argument(
        "--misses", type=int, default=5, metavar="N", help="worst misses shown (default: 5)"
    )
    sub.add_argument(
        "-o",
        "--output",
        default="validation.png",
        metavar="FILE",
        help="the figure: png, svg or pdf (default: %(default)s)",
    )
    sub.add_argument("--format", choices=("table", "json", "csv"), default="table")


def add_export_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep export``."""
    sub.add_argument("data", metavar="DATA", help="a store or a plan")
    sub.add_argument(
        "form",
        metavar="FORMAT",
        choices=("kernel_tuner", "t1", "triton", "csv", "parquet"),
        help="kernel_tuner (restrictions), t1, triton (perf_model, top_k), csv or parquet",
    )
    sub.add_argument(
        "select",
        nargs="*",
        metavar="NAME=VALUE",
        help="a tuner's file is about one kernel, device and model",
    )
    sub.add_argument("-n", type=int, default=100, metavar="N", help="how many (default: 100)")
    sub.add_argument("--where", metavar="CONDITION", help='e.g. "occupancy > 0.5"')
    sub.add_argument("-o", "--output", metavar="FILE", help="(default: by kernel and format)")

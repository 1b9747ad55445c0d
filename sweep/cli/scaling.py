"""``sweep scale``: a measured time at other clocks."""

from __future__ import annotations

import argparse
from typing import Any

from sweep.errors import SweepError

__all__ = ["add_scale_arguments", "scale"]


def add_scale_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep scale`` to its parser."""
    parser.description = (
        "Predict what a measured launch takes at other clocks: the time in the kernel file times"
        " predicted over predicted time, by each model."
    )
    parser.add_argument(
        "kernel", metavar="KERNEL", help="a kernel file with a measured time ([measured])"
    )
    parser.add_argument(
        "select", nargs="*", metavar="NAME=VALUE", help="parameters of the launch that was measured"
    )
    parser.add_argument("--model", metavar="NAME,...", help="(default: all)")
    for clock in ("core", "memory"):
        parser.add_argument(
            f"--{clock}-clock",
            metavar="MHZ,...",
            help="values, or LOW:HIGH:STEP (default: seven over the device's range)",
        )
    parser.add_argument("--variant", choices=("corrected", "printed"), default="corrected")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def scale(arguments: argparse.Namespace) -> int:
    """Print the measured time at other clocks."""
    from sweep import query
    from sweep.measurements.scaling import scale

    answer = scale(
        arguments.kernel,
        models=[name.strip() for name in (arguments.model or "").split(",") if name.strip()],
        core_clock=_clocks("--core-clock", arguments.core_clock),
        memory_clock=_clocks("--memory-clock", arguments.memory_clock),
        select=query.parse_selection(arguments.select),
        variant=arguments.variant,
    )
    form = arguments.format
    print({"table": answer.to_table, "json": answer.to_json, "csv": answer.to_csv}[form]())
    return 0


def _clocks(option: str, text: str | None) -> Any:
    """Return clocks as a plan takes them: a list, or a range with its step."""
    if text is None:
        return None
    parts = text.split(":")
    try:
        if len(parts) == 1:
            return [_number(part) for part in text.split(",")]
        start, stop, step = map(_number, parts)
    except ValueError:
        raise SweepError(
            f"{option} {text}: must be MHz, such as 700,800, or LOW:HIGH:STEP"
        ) from None
    return {"start": start, "stop": stop, "step": step}


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value

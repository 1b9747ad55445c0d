"""``sweep validate-clocks``: times at other clocks, from times at a few of them."""

from __future__ import annotations

import argparse

from sweep.errors import SweepError

__all__ = ["add_clocks_arguments", "validate_clocks"]


def add_clocks_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep validate-clocks`` to its parser."""
    parser.description = (
        "Predict times at other clocks from times that were measured at two or three pairs of them,"
        " with no counters, and hold them against the measured ones: each model by the mix of"
        " computation and memory traffic that fits best, beside rules without a model."
    )
    parser.add_argument(
        "times",
        metavar="TIMES",
        help="CSV with the columns kernel, core and memory clock (MHz) and time, gzipped or not",
    )
    parser.add_argument("--device", metavar="NAME", required=True)
    parser.add_argument(
        "--given",
        metavar="CORE/MEMORY,...",
        required=True,
        help="pairs of clocks whose times identify the mix, such as 975/810: at one of them memory"
        " should limit",
    )
    parser.add_argument(
        "--anchor",
        metavar="CORE/MEMORY",
        help="the pair to which times are relative (default: the nominal clocks)",
    )
    parser.add_argument("--model", metavar="NAME,...", help="(default: all)")
    parser.add_argument("--by-kernel", action="store_true", help="a row per kernel, with its mix")
    parser.add_argument("--variant", choices=("corrected", "printed"), default="corrected")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")


def validate_clocks(arguments: argparse.Namespace) -> int:
    """Print how far predictions at other clocks are off."""
    from sweep.measurements.clock_validation import validate_clocks

    answer = validate_clocks(
        arguments.times,
        device=arguments.device,
        given=[_pair("--given", word) for word in arguments.given.split(",")],
        anchor=_pair("--anchor", arguments.anchor) if arguments.anchor else None,
        models=[name.strip() for name in (arguments.model or "").split(",") if name.strip()],
        variant=arguments.variant,
        by_kernel=arguments.by_kernel,
    )
    form = arguments.format
    print({"table": answer.to_table, "json": answer.to_json, "csv": answer.to_csv}[form]())
    return 0


def _pair(option: str, text: str) -> tuple[float, float]:
    try:
        core, memory = map(float, text.split("/"))
    except ValueError:
        raise SweepError(
            f"{option} {text}: must be core and memory clock in MHz, such as 975/810"
        ) from None
    return core, memory

"""``sweep histogram``: how often each value, or each code, is among results."""

from __future__ import annotations

import argparse
from typing import Any

from sweep.errors import QueryError

__all__ = ["add_histogram_arguments", "histogram"]


def add_histogram_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sweep histogram`` to its parser, those of a question excepted."""
    parser.add_argument("data", metavar="DATA", help="a store, or a plan, which is then reduced")
    parser.add_argument(
        "variable",
        metavar="VARIABLE",
        help="a number, or a code such as regime, status or bound, whose shares are given",
    )
    parser.add_argument("--bins", type=int, metavar="N", help="how many bins (default: 30)")
    parser.add_argument(
        "--range",
        metavar="LOW:HIGH",
        help="ends of the bins in base units (default: the smallest and the largest number)",
    )
    parser.add_argument("--log", action="store_true", help="bins of equal width on a log scale")
    parser.add_argument("--figure", metavar="FILE", help="draw it too: png, svg or pdf")


def histogram(arguments: argparse.Namespace) -> int:
    """Count configurations by bin, or by meaning."""
    from sweep import query
    from sweep.cli.asking import asked, question_of, show

    if arguments.include:
        raise QueryError("--include: a histogram has no further variables")
    options: dict[str, Any] = {"log": arguments.log}
    if arguments.bins is not None:
        options["bins"] = arguments.bins
    if arguments.range is not None:
        options["within"] = _range_of(arguments.range)
    with asked(arguments) as data:
        question = question_of(arguments, data)
        question.pop("include", None)
        answer = query.histogram(data, arguments.variable, **options, **question)
    if arguments.figure is not None:
        from sweep.plot import histogram_plot, save

        save(histogram_plot(answer), arguments.figure)
    show(answer, arguments.format)
    if arguments.figure is not None and arguments.format == "table":
        print(f"figure: {arguments.figure}")
    return 0


def _range_of(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise QueryError(f"--range '{text}': two numbers in base units, LOW:HIGH") from None

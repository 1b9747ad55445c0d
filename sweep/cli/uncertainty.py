"""``sweep sensitivity``: what predictions depend on."""

from __future__ import annotations

import argparse

from sweep import plot as plots
from sweep.cli.figures import save_figure
from sweep.cli.parser import call_with
from sweep.cli.questions import show, source_of


def sensitivity(arguments: argparse.Namespace) -> int:
    """Show which uncertain numbers a time depends on, with a figure where one is asked for."""
    from sweep.uncertainty import sensitivity as answer_of

    source, select = source_of(arguments)
    answer = call_with(answer_of, arguments, source, select=select)
    show(answer, arguments)
    if arguments.output:
        save_figure(plots.tornado_plot(answer), arguments)
    return 0

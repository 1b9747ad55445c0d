"""``sweep sensitivity``: how sure predictions are."""

from __future__ import annotations

import argparse

from sweep import plot as plots
from sweep.cli.figures import save_figure
from sweep.cli.parser import call_with
from sweep.cli.questions import open_data, selection_of, show
from sweep.store.buckets import is_store


def sensitivity(arguments: argparse.Namespace) -> int:
    """Show which uncertain numbers a time depends on, with a figure where one is asked for."""
    from sweep.uncertainty import sensitivity as answer_of

    data = open_data(arguments.data)
    source = arguments.data if is_store(arguments.data) else data.space
    select = selection_of(arguments, data)
    answer = call_with(answer_of, arguments, source, select=select)
    show(answer, arguments)
    if arguments.output:
        save_figure(plots.tornado_plot(answer), arguments)
    return 0

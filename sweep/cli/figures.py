"""Commands that draw: ``sweep plot | compare | compare-models | sensitivity | reproduce``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import plot as plots
from sweep import query
from sweep.cli.parser import call_with
from sweep.cli.questions import open_data, selection_of, show, source_of
from sweep.errors import QueryError, counted
from sweep.importers.files import check_free
from sweep.query.grid import grids_of
from sweep.query.texts import terminal_width, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, arguments: argparse.Namespace) -> None:
    """Save a figure and print its path, on the error stream if the output is JSON or CSV."""
    plots.save(figure, arguments.output, overwrite=arguments.overwrite)
    output = sys.stdout if arguments.format == "table" else sys.stderr
    print(f"figure: {arguments.output}", file=output)


def with_counts(name: str) -> Any:
    """Return a plan's results, or those of a store's plan, with all that rooflines need.

    They are evaluated as they are read.

    Raises
    ------
    SweepError
        There is neither a store nor a plan of this name, or the store holds measured times.
    """
    from sweep.evaluation.planned import Planned
    from sweep.evaluation.variables import variables
    from sweep.plot.rooflines import COUNTS, RATES
    from sweep.runs.record import space_behind

    space = space_behind(name)
    names = [variable.name for variable in variables(space.kernels[0], space.plan)]
    outputs = tuple(dict.fromkeys((*names, *RATES, *COUNTS)))
    return Planned(replace(space, plan=replace(space.plan, outputs=outputs)))


def plot(arguments: argparse.Namespace) -> int:
    """Draw results into a file or a window."""
    output = Path(arguments.output or f"{arguments.kind}.png")
    if not arguments.show:
        check_free(output, overwrite=arguments.overwrite)
    is_roofline = arguments.kind.endswith("roofline")
    data = with_counts(arguments.data) if is_roofline else open_data(arguments.data)
    select = selection_of(arguments, data)
    if arguments.kind == "heatmap" and not (arguments.x and arguments.y):
        axes = dict.fromkeys(axis for grid in grids_of(data) for axis in grid.axes
                             if len(grid.axis_values(axis)) > 1)  # fmt: skip
        raise QueryError(f"a heatmap needs two dimensions: -x DIM -y DIM, of {', '.join(axes)}")
    figure = call_with(getattr(plots, plots.KINDS[arguments.kind]), arguments, data, select=select)
    if arguments.show:
        plots.show(figure)
        return 0
    plots.save(figure, output, overwrite=arguments.overwrite)
    print(f"wrote {output}")
    return 0


def compare(arguments: argparse.Namespace) -> int:
    """Show what changed between two results; return 1 if a best configuration became slower."""
    before, after = open_data(arguments.before), open_data(arguments.after)
    by = arguments.by or ()
    options = {"tolerance": arguments.tolerance, "n": arguments.n or 0, "by": by}
    found = query.changes(before, after, arguments.objective, **options)
    answer = shown = query.changes_table(found)
    if arguments.n is not None:
        shown = query.changed_table(found)
    show(shown, arguments)
    if arguments.output:
        figure = call_with(plots.changes_plot, arguments, before, after)
        plots.save(figure, arguments.output, overwrite=arguments.overwrite)
        print(f"figure: {arguments.output}", file=sys.stderr)
    return 1 if any(row["verdict"] == "slower" for row in answer) else 0


def compare_models(arguments: argparse.Namespace) -> int:
    """Show for which kernels models agree on the best configuration and ranking, with a figure."""
    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    show(call_with(query.compare_models, arguments, data, select=select), arguments)
    save_figure(call_with(plots.models_plot, arguments, data, select=select), arguments)
    return 0


def sensitivity(arguments: argparse.Namespace) -> int:
    """Show which uncertain numbers a time depends on, with a figure where one is asked for."""
    from sweep.uncertainty import sensitivity as answer_of

    source, select = source_of(arguments)
    answer = call_with(answer_of, arguments, source, select=select)
    show(answer, arguments)
    if arguments.output:
        save_figure(plots.tornado_plot(answer), arguments)
    return 0


def reproduce(arguments: argparse.Namespace) -> int:
    """Write a paper's tables and figures, as computed here, beside the printed values.

    As JSON or CSV, print a row for each number; a folder is then written only if one is named.
    """
    from sweep.papers import reproduce

    found = reproduce(arguments.paper)
    if arguments.format != "text":
        if arguments.output:
            page = call_with(found.write, arguments, arguments.output)
            print(f"wrote {page}", file=sys.stderr)
        return show(found.answer(), arguments)
    page = call_with(found.write, arguments, arguments.output or arguments.paper)
    for text in found.summary().splitlines():
        print("\n".join(wrapped(text, terminal_width(), indent=4)))
    tables, figures = counted(len(found.tables), "table"), counted(len(found.figures), "figure")
    print(f"wrote {page} with {tables} and {figures}")
    return 0

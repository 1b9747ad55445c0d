"""``sweep plot``."""

from __future__ import annotations

import argparse

from sweep import plot as plots
from sweep.cli.asking import open_data, selection_of
from sweep.errors import QueryError

__all__ = ["plot"]


def plot(arguments: argparse.Namespace) -> int:
    """Draw results into a file or a window."""
    data = open_data(arguments.data)
    select = selection_of(arguments, data)
    if arguments.kind == "heatmap":
        if not (arguments.x and arguments.y):
            raise QueryError("a heatmap needs two dimensions: -x DIM -y DIM")
        figure = plots.heatmap(
            data, arguments.x, arguments.y, variable=arguments.variable, select=select
        )
    elif arguments.kind == "pareto":
        figure = plots.pareto_plot(data, select=select)
    elif arguments.kind == "clocks":
        figure = plots.clocks_plot(data, select=select)
    else:
        figure = plots.occupancy_plot(
            data, **({"x": arguments.x} if arguments.x else {}), select=select
        )
    if arguments.show:
        plots.show(figure)
        return 0
    output = arguments.output or f"{arguments.kind}.png"
    plots.save(figure, output)
    print(f"wrote {output}")
    return 0

"""``sweep compare`` and ``sweep compare-models``."""

from __future__ import annotations

import argparse
import sys

from sweep import plot, query
from sweep.cli.asking import open_data

__all__ = ["compare", "compare_models"]


def compare_models(arguments: argparse.Namespace) -> int:
    """Show where models agree on the best configuration and the ranking, with a figure."""
    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    answer = query.compare_models(data, arguments.objective, select=select)
    text = {"table": answer.to_table, "json": answer.to_json, "csv": answer.to_csv}
    print(text[arguments.format]().rstrip("\n"))
    output = arguments.output or "compare-models.png"
    plot.save(plot.models_plot(data, arguments.objective, select=select), output)
    print(f"figure: {output}", file=sys.stderr if arguments.format != "table" else sys.stdout)
    return 0


def compare(arguments: argparse.Namespace) -> int:
    """Show what changed between two results; 1 where something became slower at its best."""
    before, after = open_data(arguments.before), open_data(arguments.after)
    found = query.changes(before, after, arguments.objective)
    answer = query.changes_table(found, arguments.tolerance)
    shown = answer
    if arguments.n is not None:
        shown = query.changed_table(found, arguments.n, arguments.tolerance)
    text = {"table": shown.to_table, "json": shown.to_json, "csv": shown.to_csv}
    print(text[arguments.format]().rstrip("\n"))
    if arguments.output:
        figure = plot.changes_plot(
            before, after, arguments.objective, tolerance=arguments.tolerance
        )
        plot.save(figure, arguments.output)
        print(f"figure: {arguments.output}", file=sys.stderr)
    return 1 if any(row["verdict"] == "slower" for row in answer) else 0

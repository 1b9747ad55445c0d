"""``sweep export``: the best configurations for auto-tuners, or as tables."""

from __future__ import annotations

import argparse

from sweep import query
from sweep.cli.asking import open_data

__all__ = ["export"]


def export(arguments: argparse.Namespace) -> int:
    """Write the N fastest configurations in a tuner's or a table's format."""
    from sweep.measurements.exporting import export as write

    data = open_data(arguments.data)
    done = write(
        data,
        arguments.form,
        arguments.output,
        n=arguments.n,
        select=query.parse_selection(arguments.select, data),
        where=arguments.where,
    )
    for note in done.notes:
        print(f"note: {note}")
    print(f"wrote {done.path}: {done.rows:,} configurations")
    return 0

"""``sweep validate``: predictions held against measured times."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sweep import plot, query
from sweep.cli.asking import open_data

__all__ = ["validate"]


def validate(arguments: argparse.Namespace) -> int:
    """Show how well predictions rank measured configurations, with a figure."""
    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    measured = _measured(arguments.measured, arguments.device)
    pairs = query.paired(data, measured, select=select)
    answer = query.validation(pairs)
    form = arguments.format
    print({"table": answer.to_table, "json": answer.to_json, "csv": answer.to_csv}[form]())
    if form == "table" and arguments.misses > 0:
        print()
        print(query.misses(pairs, arguments.misses).to_table())
    plot.save(plot.validation_plot(pairs), arguments.output)
    print(f"figure: {arguments.output}", file=sys.stdout if form == "table" else sys.stderr)
    return 0


def _measured(name: str, device: str | None) -> Any:
    """Return measured times: of a store, or of a tuner's file."""
    if Path(name).is_dir():
        return open_data(name)
    from sweep.measurements.importing import read_measured

    return read_measured([name], device=device)

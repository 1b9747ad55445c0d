"""``sweep report``: what results say, in one HTML file."""

from __future__ import annotations

import argparse
from contextlib import closing

from sweep import query
from sweep.cli.questions import ProgressBar, measured_times, open_data
from sweep.store.buckets import is_store


def report(arguments: argparse.Namespace) -> int:
    """Write the report of a store or plan."""
    from sweep.report import write_report

    data = open_data(arguments.data)
    record = None
    if not is_store(arguments.data):
        from sweep.runs.record import record_of

        record = record_of(data.space)
    measured = None
    select = query.parse_selection(arguments.select, data)
    if arguments.measured is not None:
        measured = measured_times(arguments.measured, arguments.device, data, select)
    with closing(ProgressBar("questions", first="reading the results")) as progress:
        path = write_report(
            data,
            arguments.output,
            record=record,
            select=select,
            measured=measured,
            overwrite=arguments.overwrite,
            progress=progress if is_store(arguments.data) else None,  # a plan shows its own
        )
    print(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB, open it in any browser")
    return 0

"""Measured times: ``sweep import | export | validate | calibrate-kernel | scale | ...``."""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.cli.figures import save_figure
from sweep.cli.parser import call_with
from sweep.cli.questions import (
    ProgressBar,
    measured_times,
    open_data,
    over_problems,
    selection_of,
    show,
)
from sweep.errors import SweepError, counted
from sweep.store.buckets import is_store

if TYPE_CHECKING:
    from sweep.importers.tuners.problem_table import ProblemTable

MANY = ("mapping", "time", "unit", "by", "by_group", "listed_within", "problems")
"""Arguments of tables of many problems."""

FIGURE = "validation.png"
"""Where the figure is, if nobody says."""


def import_(arguments: argparse.Namespace) -> int:
    """Import search spaces and measured times of tuners."""
    from sweep.importers.tuners.table import Columns
    from sweep.measurements.importing import import_files

    columns = call_with(Columns, arguments)
    folder = arguments.output
    imported = call_with(import_files, arguments, arguments.files, folder, columns=columns)
    print("\n".join([*imported.lines, *(f"wrote {path}" for path in imported.files)]))
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write the N fastest configurations in a tuner's or a table's format."""
    from sweep import query
    from sweep.measurements.exporting import export as write

    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    done = call_with(write, arguments, data, arguments.form, arguments.output, select=select)
    for note in done.notes:
        print(f"note: {note}")
    print(f"wrote {done.path}: {counted(done.rows, 'configuration')}")
    return 0


def validate(arguments: argparse.Namespace) -> int:
    """Show how well predictions rank measured configurations, with a figure."""
    from sweep import plot, query

    if (table := _problem_table(arguments)) is not None:
        return _validate_problems(arguments, table)
    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    times = measured_times(arguments.measured, arguments.device, data, select)
    pairs = query.paired(data, times, select=select)
    show(query.validation(pairs), arguments)
    if arguments.format == "table" and arguments.misses > 0:
        print()
        arguments.columns = None
        show(query.misses(pairs, arguments.misses), arguments)
    save_figure(plot.validation_plot(pairs), arguments)
    return 0


def _problem_table(arguments: argparse.Namespace) -> ProblemTable | None:
    """Return the table of measured times if it is one of many problems."""
    from sweep.evaluation.problems import distinct_rows
    from sweep.importers.files import read_source
    from sweep.importers.tuners.formats import recognise
    from sweep.importers.tuners.problem_table import MAX_BYTES, mapping_of, read_problem_table
    from sweep.importers.tuners.table import Columns

    asked = any(getattr(arguments, name) is not None for name in MANY)
    is_folder = Path(arguments.measured).is_dir()
    source = None if is_folder else read_source(arguments.measured, MAX_BYTES)
    if source is None or recognise(source) != "csv":
        if asked:
            raise SweepError(f"{arguments.measured}: many problems are read from a CSV table")
        return None
    if not asked and is_store(arguments.data):
        return None
    try:
        columns = call_with(Columns, arguments)
        table = read_problem_table(source, mapping_of(arguments.mapping or ()), columns)
    except SweepError:
        if asked:
            raise
        return None
    if asked:
        return table
    from sweep.runs.record import space_behind

    kernels = space_behind(arguments.data).kernels
    several = [sizes for one in kernels if (sizes := table.of_kernel(one.kernel.sizes))]
    return table if any(len(distinct_rows(sizes)[0]) > 1 for sizes in several) else None


def _validate_problems(arguments: argparse.Namespace, table: ProblemTable) -> int:
    """Show how good choices are, problem by problem."""
    from sweep import query
    from sweep.measurements.problem_validation import tables, validate_problems

    if arguments.output != FIGURE:
        raise SweepError(f"--output {arguments.output}: many problems give no figure")
    select = query.parse_selection(arguments.select)
    if arguments.device is not None:
        select["device"] = arguments.device
    answer = over_problems(validate_problems, arguments, select, table)
    if arguments.format != "table" or arguments.columns or arguments.wide:
        return show(answer, arguments)
    for number, part in enumerate(tables(answer)):
        if number:
            print()
        show(part, arguments)
    return 0


def calibrate_kernel(arguments: argparse.Namespace) -> int:
    """Correct a kernel file by a few measured configurations; write it and say what that does."""
    from sweep.importers.files import write_whole
    from sweep.measurements.calibrating import calibrate_kernel
    from sweep.store.root import inspect

    data = open_data(arguments.data)
    source = inspect(data).record if is_store(arguments.data) else data.space
    select, origin = selection_of(arguments, data), Path(arguments.measured).name
    times = measured_times(arguments.measured, arguments.device, data, select)
    with closing(ProgressBar("trials")) as bar:
        found = calibrate_kernel(data, source, times, arguments.few, select=select, origin=origin,
                                 progress=bar)  # fmt: skip
    path = Path(arguments.output or f"{found.kernel.key}_calibrated.toml")
    write_whole(path, found.kernel.text, overwrite=arguments.overwrite)
    print("\n".join([*found.lines(), f"wrote {path}: next, name it in the plan's kernels"]))
    return 0


def calibrate_power(arguments: argparse.Namespace) -> int:
    """Fit a device's power to measured power; write the device file and say how good it is."""
    from sweep.importers.files import check_free, write_whole
    from sweep.measurements.calibrating_power import calibrate_power

    path = Path(arguments.output or f"{Path(arguments.device).stem}_power.toml")
    check_free(path, overwrite=arguments.overwrite)
    found = call_with(calibrate_power, arguments, arguments.measured)
    show(found.answer, arguments)  # first, for a wrong --columns leaves nothing
    write_whole(path, found.device.text, overwrite=arguments.overwrite)
    print(f"wrote {path}", file=sys.stdout if arguments.format == "table" else sys.stderr)
    return 0


def validate_clocks(arguments: argparse.Namespace) -> int:
    """Print the errors of predictions at other clocks."""
    from sweep.measurements.clock_validation import validate_clocks

    return show(call_with(validate_clocks, arguments, arguments.times), arguments)


def scale(arguments: argparse.Namespace) -> int:
    """Print measured times at other clocks."""
    from sweep import query
    from sweep.measurements.scaling import scale

    words = [word for word in arguments.words if re.match(r"\w+=", word)]
    kernels = [word for word in arguments.words if word not in words]
    select = query.parse_selection(words)
    return show(call_with(scale, arguments, kernels, select=select), arguments)

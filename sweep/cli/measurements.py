"""Measured times: ``sweep import | export | validate | validate-clocks | scale``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sweep.cli.figures import save_figure
from sweep.cli.parser import chosen, two_numbers
from sweep.cli.questions import names_in, open_data, show
from sweep.errors import SweepError

__all__ = ["export", "import_", "scale", "validate", "validate_clocks"]


def import_(arguments: argparse.Namespace) -> int:
    """Import search spaces and measured times of tuners."""
    from sweep.importers.tuners.table import Columns
    from sweep.measurements.importing import import_files

    columns = Columns(
        list(names_in(arguments.parameters)), arguments.time or "", arguments.unit or ""
    )
    options = chosen(arguments, "kernel", "device", "layout", "overwrite")
    imported = import_files(arguments.files, arguments.output, columns=columns, **options)
    print("\n".join([*imported.lines, *(f"wrote {path}" for path in imported.files)]))
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write the N fastest configurations in a tuner's or a table's format."""
    from sweep import query
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


def validate(arguments: argparse.Namespace) -> int:
    """Show how well predictions rank measured configurations, with a figure."""
    from sweep import plot, query

    data = open_data(arguments.data)
    select = query.parse_selection(arguments.select, data)
    pairs = query.paired(data, _measured(arguments.measured, arguments.device), select=select)
    show(query.validation(pairs), arguments.format)
    if arguments.format == "table" and arguments.misses > 0:
        print()
        print(query.misses(pairs, arguments.misses).to_table())
    save_figure(plot.validation_plot(pairs), arguments.output, arguments.format)
    return 0


def _measured(name: str, device: str | None) -> Any:
    """Return measured times: of a store, or of a tuner's file."""
    if Path(name).is_dir():
        return open_data(name)
    from sweep.measurements.importing import read_measured

    return read_measured([name], device=device)


def validate_clocks(arguments: argparse.Namespace) -> int:
    """Print the errors of predictions at other clocks."""
    from sweep.measurements.clock_validation import validate_clocks

    answer = validate_clocks(
        arguments.times,
        given=[_pair("--given", word) for word in arguments.given.split(",")],
        anchor=_pair("--anchor", arguments.anchor) if arguments.anchor else None,
        models=names_in(arguments.model),
        **chosen(arguments, "device", "variant", "by_kernel"),
    )
    return show(answer, arguments.format)


def scale(arguments: argparse.Namespace) -> int:
    """Print the measured time at other clocks."""
    from sweep import query
    from sweep.measurements.scaling import scale

    answer = scale(
        arguments.kernel,
        models=names_in(arguments.model),
        core_clock=_clocks("--core-clock", arguments.core_clock),
        memory_clock=_clocks("--memory-clock", arguments.memory_clock),
        select=query.parse_selection(arguments.select),
        variant=arguments.variant,
    )
    return show(answer, arguments.format)


def _pair(option: str, text: str) -> tuple[float, float]:
    problem = f"{option} {text}: must be core and memory clock in MHz, such as 975/810"
    return two_numbers(text, "/", problem)


def _clocks(option: str, text: str | None) -> Any:
    """Return clocks in the form of a plan: a list, or a range with a step."""
    if text is None:
        return None
    parts = text.split(":")
    try:
        if len(parts) == 1:
            return [_number(part) for part in text.split(",")]
        start, stop, step = map(_number, parts)
    except ValueError:
        raise SweepError(
            f"{option} {text}: must be MHz, such as 700,800, or LOW:HIGH:STEP"
        ) from None
    return {"start": start, "stop": stop, "step": step}


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value

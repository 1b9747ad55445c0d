"""``sweep run``, ``sweep rerun`` and ``sweep extend``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sweep.cli.progress import bar_of
from sweep.errors import SweepError
from sweep.runs.extending import extend as grow
from sweep.runs.forecasting import (
    check_fits,
    check_valid,
    counted,
    forecast,
    human_bytes,
    parse_bytes,
)
from sweep.runs.record import recorded_space, space_of
from sweep.runs.running import Finished, Progress, store_path
from sweep.runs.running import run as run_plan
from sweep.runs.workers import Workers
from sweep.space import Space
from sweep.store import is_url, place_of, stored_bytes

__all__ = ["extend", "rerun", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Evaluate a plan into its store."""
    space = space_of(arguments.plan)
    return _run(arguments, space, store_path(space.plan, arguments.store))


def rerun(arguments: argparse.Namespace) -> int:
    """Evaluate what a store's record says into another store."""
    source = _place(arguments.source)
    space = recorded_space(source)
    if arguments.store:
        target = _place(arguments.store)
    else:
        named = source if source.name else source.resolve()
        target = _place(f"{str(named).removesuffix('.zarr')}-rerun.zarr")
    if place_of(target) == place_of(source):
        raise SweepError(f"--store {target}: is the store itself; give another path")
    return _run(arguments, space, target)


def extend(arguments: argparse.Namespace) -> int:
    """Grow a store to a larger plan."""
    if arguments.threads is not None and arguments.threads < 1:
        raise SweepError(f"--threads {arguments.threads}: at least 1")
    space = space_of(arguments.plan)
    path = _place(arguments.target)
    limit = parse_bytes(arguments.limit) if arguments.limit else None
    print(forecast(space).to_line())
    arguments.interrupted = f"; '{path}' is as it was, the same command continues"
    with bar_of(space.n_points) as bar:
        finished = grow(
            path,
            space,
            break_lock=arguments.break_lock,
            threads=arguments.threads,
            limit=limit,
            progress=_progress(bar),
        )
    print(_outcome(finished))
    arguments.interrupted = ""
    return 0


def _run(arguments: argparse.Namespace, space: Space, path: Path | None) -> int:
    names = ("scheduler", "scheduler_file", "workers", "threads")
    options = {name: getattr(arguments, name) for name in names}
    workers = Workers(*options.values())
    limit = parse_bytes(arguments.limit) if arguments.limit else None
    expected = forecast(space)
    if arguments.dry_run:
        print(expected.to_text())
        check_fits(expected, path, limit)
        check_valid(space)
        print("dry run: nothing was computed")
        return 0
    print(expected.to_line())
    if path is not None:
        without = " without --overwrite" if arguments.overwrite else ""
        arguments.interrupted = f"; the same command{without} continues '{path}'"
    with bar_of(space.n_points) as bar:
        finished = run_plan(
            space,
            path,
            overwrite=arguments.overwrite,
            break_lock=arguments.break_lock,
            limit=limit,
            progress=_progress(bar),
            **(options if path is not None else {}),
        )
    print(_outcome(finished))
    arguments.interrupted = ""
    if not arguments.no_report:
        from sweep.cli.questions import planned
        from sweep.cli.run_report import report

        print()
        source = str(path) if path is not None else arguments.plan
        with planned(space, workers) if path is None else nullcontext(path) as results:
            print(report(results, _figure_path(path, space), source))
    return 0


def _place(name: str) -> Path:
    return place_of(name) if is_url(name) else Path(name)


def _progress(bar: Any) -> Progress:
    def update(done: int, total: int, before: int) -> None:
        if not bar.disable and bar.desc:
            bar.set_description_str(None)
        bar.initial = before  # what an earlier run did is not this run's speed
        bar.update(done - bar.n)

    return update


def _outcome(finished: Finished) -> str:
    models = counted(len(finished.space.plan.models), "model")
    if finished.path is None:
        return (
            "the plan keeps no store: each question evaluates it and keeps nothing but the answer"
        )
    if not finished.computed:
        return f"{finished.path}: finished before, {finished.resumed:,} configurations"
    size = stored_bytes(finished.path)
    resumed = f", {finished.resumed:,} kept from an earlier run" if finished.resumed else ""
    return (
        f"{finished.path}: {finished.computed:,} configurations x {models} in "
        f"{finished.seconds:.1f} s{resumed}; {human_bytes(size)} on disk"
    )


def _figure_path(path: Path | None, space: Space) -> Path:
    place = path if path is not None else Path(f"{space.plan.name}.zarr")
    name = f"{place.name.removesuffix('.zarr')}.png"
    return Path(name) if is_url(place) else place.with_name(name)

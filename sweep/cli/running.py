"""``sweep run | rerun | extend | plan``: runs, and predictions of their cost."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from sweep.cli.parser import call_with
from sweep.cli.questions import COMPUTING, ProgressBar, place, planned
from sweep.errors import SweepError, counted
from sweep.runs import extending, running
from sweep.runs.record import recorded_space, space_of
from sweep.runs.run_size import check_fits, check_valid, forecast, human_bytes
from sweep.runs.workers import Workers
from sweep.space import Space
from sweep.store.buckets import files_of, is_url, place_of


def run(arguments: argparse.Namespace) -> int:
    """Evaluate a plan into its store."""
    space = space_of(arguments.plan)
    return _run(arguments, space, running.store_path(space.plan, arguments.store))


def rerun(arguments: argparse.Namespace) -> int:
    """Evaluate the plan in a store's record into another store."""
    source = place(arguments.source)
    space = recorded_space(source)
    named = source if source.name else source.resolve()
    target = place(arguments.store or f"{str(named).removesuffix('.zarr')}-rerun.zarr")
    if place_of(target) == place_of(source):
        raise SweepError(f"--store {target}: is the store itself; give another path")
    return _run(arguments, space, target)


def extend(arguments: argparse.Namespace) -> int:
    """Grow a store to a larger plan."""
    space, path = space_of(arguments.plan), place(arguments.target)
    print(forecast(space).to_line())
    arguments.interrupted = f"; '{path}' is as it was, the same command continues"
    with closing(ProgressBar("configurations", space.n_points)) as progress:
        finished = call_with(extending.extend, arguments, path, space, progress=progress)
    if finished.seconds and not finished.computed:
        models = counted(len(space.plan.models), "model")
        kept = f"its {counted(finished.resumed, 'configuration')}"
        print(f"{finished.path}: now {models} for {kept}, in {_taken(arguments.started)}")
    else:
        print(_outcome(finished, arguments.started))
    arguments.interrupted = ""
    return 0


def _run(arguments: argparse.Namespace, space: Space, path: Path | None) -> int:
    workers = Workers(*(getattr(arguments, name) for name in COMPUTING))
    expected = forecast(space)
    if arguments.dry_run:
        print(expected.to_text())
        check_fits(expected, path, arguments.limit)
        check_valid(space)
        print("dry run: nothing was computed")
        return 0
    print(expected.to_line())
    if path is not None:
        without = " without --overwrite" if arguments.overwrite else ""
        arguments.interrupted = f"; the same command{without} continues '{path}'"
    with closing(ProgressBar("configurations", space.n_points)) as progress:
        unstored = {} if path is not None else dict.fromkeys(COMPUTING)
        finished = call_with(running.run, arguments, space, path, progress=progress, **unstored)
    print(_outcome(finished, arguments.started))
    arguments.interrupted = ""
    if not arguments.no_report:
        from sweep.cli.run_report import report

        print()
        source = str(path) if path is not None else arguments.plan
        figure = _figure_path(path or Path(f"{space.plan.name}.zarr"))
        if arguments.overwrite:
            figure.unlink(missing_ok=True)
        with planned(space, workers) if path is None else nullcontext(path) as results:
            print(report(results, figure, source))
    return 0


def _taken(started: float) -> str:
    """Return the seconds since the command began, its start and compilation included."""
    jit = sys.modules.get("sweep.jit")  # what was never imported has compiled nothing
    compiling = jit.compile_seconds(started) if jit else 0.0
    taken = f"{time.perf_counter() - started:.1f} s"
    return f"{taken}, of which {compiling:.1f} s compiling" if compiling >= 0.1 else taken


def _outcome(finished: running.Finished, started: float) -> str:
    models = counted(len(finished.space.plan.models), "model")
    if finished.path is None:
        return (
            "the plan keeps no store: each question evaluates it and keeps nothing but the answer"
        )
    if not finished.computed:
        return f"{finished.path}: finished before, {counted(finished.resumed, 'configuration')}"
    size = files_of(finished.path).total_bytes()
    resumed = f", {finished.resumed:,} kept from an earlier run" if finished.resumed else ""
    return (
        f"{finished.path}: {counted(finished.computed, 'configuration')} x {models} in "
        f"{_taken(started)}{resumed}; {human_bytes(size)} on disk"
    )


def _figure_path(store: Path) -> Path:
    name = f"{store.name.removesuffix('.zarr')}.png"
    return Path(name) if is_url(store) else store.with_name(name)


def plan(arguments: argparse.Namespace) -> int:
    """Predict a run."""
    from sweep.runs.predicting import predict
    from sweep.runs.rates import load_rates, save_rates
    from sweep.runs.sampling import calibrate

    workers = Workers(processes=arguments.workers, threads=arguments.threads)
    space = space_of(arguments.plan)
    check_valid(space)
    if arguments.calibrate:
        save_rates(calibrate(space))
    stores = space.plan.store is not False and not arguments.no_store
    cost = call_with(predict, arguments, space, load_rates(), workers, stores=stores)
    if space.plan.store is False:
        many = "`sweep run` of a plan that keeps no store asks several such questions"
        cost["notes"] = (*cost["notes"], many)
    if arguments.format == "json":
        print(json.dumps(cost, indent=1))
    else:
        print(_cost_table(cost, workers.processes is not None))
    return 0


def _cost_table(cost: dict[str, Any], on_workers: bool) -> str:
    """Return a prediction of :func:`sweep.runs.predicting.predict` as text."""
    stores = cost["kind"] == "run"
    threads = counted(cost["slots"] // cost["processes"], "thread")
    who = f"{counted(cost['processes'], 'worker')} of {threads}" if on_workers else threads
    what = "sweep run, without its report," if stores else "sweep best, which stores nothing,"
    models = counted(cost["evaluations"] // max(cost["configurations"], 1), "model")
    size = f"{counted(cost['configurations'], 'configuration')} x {models}"
    lines = [f"plan {cost['plan']}: {size}; {what} on {who}", ""]
    if stores:
        results, stored = (human_bytes(cost[f"{name}_bytes"]) for name in ("result", "stored"))
        lines += [
            f"work          {counted(cost['chunks'], 'chunk')} in {counted(cost['tasks'], 'task')}",
            f"results       {results}, about {stored} compressed, in "
            f"{counted(cost['files'], 'file')}",
        ]
    lines += [f"memory        {human_bytes(cost['worker_bytes'])} per process", ""]
    parts = [f"{part} {_duration(cost['cpu_s'][part])}" for part in ("evaluation", "writing")]
    remarks = {
        "computing": f"   of all cores together: {', '.join(parts)}",
        "scheduler": "   while computing",
        "bandwidth": "   while computing",
    }
    for name, seconds in cost["elapsed_s"].items():
        if seconds:
            lines.append(f"{name:<12}{_duration(seconds):>10}{remarks.get(name, '')}")
    advice = f"more than {counted(cost['enough'], 'thread')} would not help"
    if not stores:
        advice = "each further thread helps"
    elif cost["enough"] > cost["slots"]:
        advice = f"up to {counted(cost['enough'], 'thread')} would help"
    lines += [f"{'together':<12}{_duration(cost['seconds']):>10}", ""]
    lines += [f"bottleneck: {cost['bottleneck']}; {advice}"]
    return "\n".join(lines + [f"note: {note}" for note in cost["notes"]])


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.3g} s"

"""``sweep plan``: what a run will take, and what bounds it, before it runs."""

from __future__ import annotations

import argparse
import json
import re

from sweep.errors import PlanError
from sweep.runs.forecasting import check_valid, counted, human_bytes, parse_bytes
from sweep.runs.predicting import Cost, Resources, predict
from sweep.runs.rates import load_rates, save_rates
from sweep.runs.sampling import calibrate
from sweep.space import load_plan, resolve

__all__ = ["parse_bandwidth", "plan"]

BANDWIDTH = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([kMGT]i?)?(B|bit)/s")


def plan(arguments: argparse.Namespace) -> int:
    """Predict a run."""
    bandwidth = parse_bandwidth(arguments.bandwidth) if arguments.bandwidth is not None else None
    resources = Resources(arguments.workers, arguments.threads, arguments.cores, bandwidth)
    space = resolve(load_plan(arguments.plan))
    check_valid(space)
    if arguments.calibrate:
        save_rates(calibrate(space))
    rates = load_rates()
    stores = space.plan.store is not False and not arguments.no_store
    cost = predict(space, rates, resources, stores=stores)
    if arguments.format == "json":
        print(json.dumps(cost.as_dict(), indent=1))
        return 0
    print(_table(cost, resources.workers is not None))
    return 0


def parse_bandwidth(text: str) -> float:
    """Return a bandwidth in bytes per second: ``"10GB/s"``, ``"500 MiB/s"``, ``"10Gbit/s"``.

    >>> parse_bandwidth("10Gbit/s")
    1250000000.0

    Raises
    ------
    PlanError
        It is none, or not above zero.
    """
    found = BANDWIDTH.fullmatch(text.strip())
    number = float(found[1]) if found else 0.0
    if found is None or not 0 < number < float("inf"):
        raise PlanError(
            f"--bandwidth '{text}': a number above 0 with its unit, such as 10GB/s, 500MiB/s or "
            "10Gbit/s"
        )
    return parse_bytes(f"{number}{found[2] or ''}") / (8 if found[3] == "bit" else 1)


def _table(cost: Cost, on_workers: bool) -> str:
    threads = counted(cost.slots // cost.processes, "thread")
    who = f"{counted(cost.processes, 'worker')} of {threads}" if on_workers else threads
    what = "a run" if cost.kind == "run" else "a question that stores nothing"
    models = counted(cost.evaluations // max(cost.configurations, 1), "model")
    lines = [
        f"plan {cost.plan}: {cost.configurations:,} configurations x {models}; {what} on {who}",
        "",
    ]
    if cost.kind == "run":
        lines += [
            f"work          {counted(cost.chunks, 'chunk')} in {counted(cost.tasks, 'task')}",
            f"results       {human_bytes(cost.result_bytes)}, about "
            f"{human_bytes(cost.stored_bytes)} compressed, in {counted(cost.files, 'file')}",
        ]
    lines += [f"memory        {human_bytes(cost.worker_bytes)} per process", ""]
    parts = [f"{part} {_duration(cost.cpu_s[part])}" for part in ("evaluation", "writing")]
    remarks = {
        "computing": f"   of all cores together: {', '.join(parts)}",
        "scheduler": "   while computing",
        "bandwidth": "   while computing",
    }
    for name, seconds in cost.elapsed_s.items():
        if seconds:
            lines.append(f"{name:<12}{_duration(seconds):>10}{remarks.get(name, '')}")
    advice = f"more than {counted(cost.enough, 'thread')} would not help"
    if cost.kind == "question":
        advice = "each further thread helps"
    elif cost.enough > cost.slots:
        advice = f"up to {counted(cost.enough, 'thread')} would help"
    lines += [f"{'together':<12}{_duration(cost.seconds):>10}", ""]
    lines += [f"bottleneck: {cost.bottleneck}; {advice}"]
    return "\n".join(lines + [f"note: {note}" for note in cost.notes])


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.3g} s"

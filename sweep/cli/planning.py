"""``sweep plan``: what a run will take, and what bounds it, before it runs."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from sweep.errors import PlanError

if TYPE_CHECKING:
    from sweep.runs.predicting import Cost

__all__ = ["parse_bandwidth", "plan"]

BANDWIDTH = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGT]i?)?(B|bit)/s")
FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
           "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}  # fmt: skip
NAMES = {
    "start": "start",
    "compilation": "compilation",
    "computing": "computing",
    "scheduler": "scheduler",
    "bandwidth": "bandwidth",
    "evaluation": "evaluation",
    "writing": "encoding and writing",
}


def plan(arguments: argparse.Namespace) -> int:
    """Predict a run."""
    from sweep.runs.forecasting import check_valid
    from sweep.runs.predicting import Resources, predict
    from sweep.runs.rates import load_rates, save_rates
    from sweep.runs.sampling import calibrate
    from sweep.space import load_plan, resolve

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
        import json

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
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    if found is None or not 0 < number < float("inf"):
        raise PlanError(
            f"--bandwidth '{text}': a number above 0 with its unit, such as 10GB/s, 500MiB/s or "
            "10Gbit/s"
        )
    return number * FACTORS[found[2] or ""] / (8 if found[3] == "bit" else 1)


def _table(cost: Cost, on_workers: bool) -> str:
    from sweep.runs.forecasting import counted, human_bytes

    threads = counted(cost.slots // cost.processes, "thread")
    who = f"{counted(cost.processes, 'worker')} of {threads}" if on_workers else threads
    what = "a run" if cost.kind == "run" else "a question that stores nothing"
    models = counted(cost.evaluations // max(cost.configurations, 1), "model")
    units = counted(cost.chunks, "chunk" if cost.kind == "run" else "piece")
    lines = [
        f"plan {cost.plan}: {cost.configurations:,} configurations x {models}; {what} on {who}",
        "",
    ]
    rows = [("work", f"{units} in {counted(cost.tasks, 'task')}")]
    if cost.kind == "run":
        rows.append(
            (
                "results",
                f"{human_bytes(cost.result_bytes)}, about {human_bytes(cost.stored_bytes)} "
                f"compressed, in {counted(cost.files, 'file')}",
            )
        )
    rows.append(("memory", f"{human_bytes(cost.worker_bytes)} per process"))
    lines += [f"{name:<12}  {text}" for name, text in rows]
    lines.append("")
    for name, seconds in cost.elapsed_s.items():
        if name in ("scheduler", "bandwidth") and not seconds:
            continue
        remark = ""
        if name == "computing":
            shown = {part: cost.cpu_s[part] for part in ("evaluation", "writing")}
            parts = [f"{NAMES[part]} {_spell(s)}" for part, s in shown.items() if s]
            remark = f"   of all cores together: {', '.join(parts)}"
        elif name in ("scheduler", "bandwidth"):
            remark = "   while computing"
        lines.append(f"{name:<12}{_spell(seconds):>10}{remark}".rstrip())
    lines.append(f"{'together':<12}{_spell(cost.seconds):>10}")
    lines += ["", f"bottleneck: {NAMES[cost.bottleneck]}; {_advice(cost)}"]
    lines += [f"note: {note}" for note in cost.notes]
    return "\n".join(lines)


def _advice(cost: Cost) -> str:
    from sweep.runs.forecasting import counted

    if cost.enough > cost.slots:
        return f"up to {counted(cost.enough, 'thread')} would help"
    return f"more than {counted(cost.enough, 'thread')} would not help"


def _spell(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds >= 86400 * 2:
        return f"{seconds / 86400:.3g} d"
    if seconds >= 3600 * 2:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.3g} s"

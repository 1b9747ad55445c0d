"""Where a kernel's time goes by the model of Zhang & Owens: its stages, and a bottleneck's causes.

Section 3 of the paper lists the causes of each bottleneck. A cause holds here if the component
would take less than :data:`LEAST` of its time without it; every one is a workload that lacks just
that, worked out by the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from sweep.explanation.operands import literal
from sweep.explanation.sections import Line, Section
from sweep.explanation.worked_inputs import Worked
from sweep.models import get_model
from sweep.models.base import Model
from sweep.models.workload import Array, Stage, Workload

__all__ = ["CAUSES", "LEAST", "bottlenecks", "breakdown", "causes"]

LEAST = 0.95
"""Share of a component's time that is left where a cause is not worth naming."""


def breakdown(work: Workload, variant: str = "corrected") -> list[dict[str, float]]:
    """Return the results of each stage by itself (the paper's Figures 4b, 6 and 11b).

    Parameters
    ----------
    work : Workload
        One configuration, with the model's device parameters.
    variant : str
        ``"corrected"`` or ``"printed"``.

    Returns
    -------
    list of dict
        For each of ``work.stages`` the model's variables by name; their cycles add up to the
        kernel's where stages are serial.
    """
    model = get_model("zhang_owens")
    inputs = model.prepare(work, variant)
    sequences = [i.symbol for i in model.inputs if i.sequence]
    return [
        model.evaluate(variant, {**inputs, **{name: inputs[name][k : k + 1] for name in sequences}})
        for k in range(len(work.stages))
    ]


def causes(work: Workload, bottleneck: str, variant: str = "corrected") -> tuple[str, ...]:
    """Return which causes of a bottleneck hold, in the paper's order.

    Parameters
    ----------
    work : Workload
        One configuration, with the model's device parameters.
    bottleneck : str
        ``instruction_pipeline``, ``shared_memory`` or ``global_memory``.
    variant : str
        ``"corrected"`` or ``"printed"``.
    """

    def time(workload: Workload) -> float:
        return sum(stage[f"{bottleneck}_time"] for stage in breakdown(workload, variant))

    now = time(work)
    return tuple(
        cause for cause, without in CAUSES[bottleneck].items() if time(without(work)) < LEAST * now
    )


def bottlenecks(worked: Worked, model: Model, variant: str) -> Iterator[Section]:
    """Yield the explanation's section on bottleneck, causes and stages; none by other models.

    Parameters
    ----------
    worked : Worked
        A configuration that has a time.
    model : Model
        The model.
    variant : str
        ``"corrected"`` or ``"printed"``.
    """
    meanings = {own.name: own.flags for own in model.fields if own.flags is not None}
    if model.name != "zhang_owens" or "bottleneck" not in meanings:
        return

    def words(results: Mapping[str, float], name: str = "bottleneck") -> str:
        return meanings[name].meaning(int(results[name])).replace("_", " ")

    work, results = worked.workload, worked.results
    bottleneck = words(results)
    found = causes(work, bottleneck.replace(" ", "_"), variant) or ("none that the paper lists",)
    following = words(results, "next_bottleneck")
    speedup = literal(results["speedup_if_removed"])
    notes = [
        f"Causes: {', '.join(found)}.",
        f"Without this bottleneck: {speedup} times as fast, then bound by {following}.",
    ]
    lines = []
    if len(work.stages) > 1:
        for stage, own in zip(work.stages, breakdown(work, variant), strict=True):
            times = {c: own[f"{c}_time"] for c in CAUSES}
            text = ", ".join(f"{c.replace('_', ' ')} {literal(t)} s" for c, t in times.items())
            lines.append(Line(f"stage {stage.name}", max(times.values()), "s", text,
                              f"bound by {words(own)}: {text}"))  # fmt: skip
    yield Section(f"Bottleneck: {bottleneck}", tuple(lines), tuple(notes))


# ---------------------------------------------------------------------------- without a cause


def _in_every_stage(change: Callable[[Stage], Stage]) -> Callable[[Workload], Workload]:
    def changed(work: Workload) -> Workload:
        return replace(work, stages=tuple(change(stage) for stage in work.stages))

    return changed


def _actual(stage: Stage) -> Array | None:
    """Return the instructions that compute; None where one number holds bookkeeping too."""
    if "computation" in stage.instructions:
        return None
    given = (stage.instructions.get(name) for name in ("fp32", "fp64", "special"))
    return sum((count for count in given if count is not None), start=0.0 * stage.barriers)


def _without_bookkeeping(stage: Stage) -> Stage:
    actual = _actual(stage)
    if actual is None:
        return stage
    return replace(stage, computation_instructions=actual, global_accesses=())


def _without_expensive(stage: Stage) -> Stage:
    return replace(stage, instructions={})  # all of them are then of type II


def _with_many_warps(stage: Stage) -> Stage:
    return replace(stage, warps=stage.warps * 1e6)


def _without_conflicts(stage: Stage) -> Stage:
    local = (replace(a, degree=np.minimum(a.degree, 1.0)) for a in stage.shared_accesses)
    return replace(stage, shared_accesses=tuple(local))


def _without_shared_bookkeeping(stage: Stage) -> Stage:
    """Leave one shared access for each instruction that computes."""
    actual = _actual(stage)
    if actual is None or not stage.shared_accesses:
        return stage
    asked = sum(a.count for a in stage.shared_accesses)
    share = np.where(asked > actual, actual / np.where(asked > 0, asked, 1.0), 1.0)
    local = (replace(a, count=a.count * share) for a in stage.shared_accesses)
    return replace(stage, shared_accesses=tuple(local))


def _without_latency(work: Workload) -> Workload:
    none = {"global_latency_cycles": 0.0 * work.n_sm}
    return replace(work, parameters={**work.parameters, **none})


def _coalesced(work: Workload) -> Workload:
    def change(stage: Stage) -> Stage:
        asked = (
            replace(a, moved_bytes=np.minimum(a.moved_bytes, a.bytes * work.lanes))
            for a in stage.global_accesses
        )
        return replace(stage, global_accesses=tuple(asked))

    return _in_every_stage(change)(work)


CAUSES: Mapping[str, Mapping[str, Callable[[Workload], Workload]]] = {
    "instruction_pipeline": {
        "low computational density": _in_every_stage(_without_bookkeeping),
        "expensive instructions": _in_every_stage(_without_expensive),
        "insufficient parallel warps": _in_every_stage(_with_many_warps),
    },
    "shared_memory": {
        "bank conflicts": _in_every_stage(_without_conflicts),
        "traffic of bookkeeping instructions": _in_every_stage(_without_shared_bookkeeping),
        "insufficient parallel warps": _in_every_stage(_with_many_warps),
    },
    "global_memory": {
        "insufficient parallelism": _without_latency,
        "uncoalesced accesses and large transactions": _coalesced,
    },
}
"""The causes of each bottleneck that Section 3 lists, and a workload without each."""

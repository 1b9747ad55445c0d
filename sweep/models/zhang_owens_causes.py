"""Bottlenecks by the model of Zhang & Owens: the time of each stage, and a bottleneck's causes.

Section 3 of the paper lists the causes of each bottleneck. A cause applies if the component would
take less than :data:`LEAST` of its time without it: the model evaluates a workload that lacks just
that cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from sweep.fields import Flags
from sweep.models import get_model
from sweep.models.base import Finding
from sweep.models.workload import Array, Stage, Workload, mean

LEAST = 0.95
"""A cause is named if the component takes less than this share of its time without it."""


def breakdown(work: Workload, variant: str = "corrected") -> list[dict[str, float]]:
    """Return the results of each stage by itself (the paper's Figures 4b, 6 and 11b).

    Parameters
    ----------
    work : Workload
        One configuration, with the model's device parameters.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.

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
    """Return which causes of a bottleneck apply, in the paper's order.

    Parameters
    ----------
    work : Workload
        One configuration, with the model's device parameters.
    bottleneck : str
        ``instruction_pipeline``, ``shared_memory`` or ``global_memory``.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.
    """

    def time(workload: Workload) -> float:
        return sum(stage[f"{bottleneck}_time"] for stage in breakdown(workload, variant))

    most = LEAST * time(work)
    return tuple(
        cause for cause, without in CAUSES[bottleneck].items() if time(without(work)) < most
    )


def findings(
    work: Workload, variant: str, results: Mapping[str, float], write: Callable[[float], str]
) -> Iterator[Finding]:
    """Yield the bottleneck with its causes and the times of the stages.

    See :attr:`sweep.models.base.Model.findings`.
    """

    def words(found: Mapping[str, float], name: str = "bottleneck") -> str:
        return BOTTLENECK.meaning(int(found[name])).replace("_", " ")

    bottleneck = words(results)
    found = causes(work, bottleneck.replace(" ", "_"), variant) or ("none that the counts show",)
    speedup, following = write(results["speedup_if_removed"]), words(results, "next_bottleneck")
    notes = (
        f"Causes: {', '.join(found)}.",
        f"Without this bottleneck: {speedup} times as fast, then bound by {following}.",
    )
    lines = []
    for stage, own in zip(work.stages, breakdown(work, variant), strict=True):
        times = {component: own[f"{component}_time"] for component in CAUSES}
        text = ", ".join(f"{c.replace('_', ' ')} {write(t)} s" for c, t in times.items())
        longest = max(times.values())
        lines.append((f"stage {stage.name}", longest, "s", text, f"bound by {words(own)}: {text}"))
    yield Finding(f"Bottleneck: {bottleneck}", tuple(lines) if len(lines) > 1 else (), notes)


# ---------------------------------------------------------------------------- without a cause


def _in_every_stage(change: Callable[[Stage], Stage]) -> Callable[[Workload], Workload]:
    return lambda work: replace(work, stages=tuple(map(change, work.stages)))


def _computing(stage: Stage) -> Array | None:
    """Return the instructions that compute; None where one number includes bookkeeping."""
    if "computation" in stage.instructions:
        return None
    counts = (stage.instructions.get(name) for name in ("fp32", "fp64", "special"))
    return sum((count for count in counts if count is not None), start=0.0 * stage.barriers)


def _without_bookkeeping(stage: Stage) -> Stage:
    computing = _computing(stage)
    if computing is None:
        return stage
    return replace(stage, computation_instructions=computing, global_accesses=())


def _without_shared_bookkeeping(stage: Stage) -> Stage:
    """Leave one shared access for each instruction that computes."""
    computing = _computing(stage)
    if computing is None or not stage.shared_accesses:
        return stage
    count = sum(a.count for a in stage.shared_accesses)
    share = np.minimum(mean(computing, count, 1.0), 1.0)
    accesses = (replace(a, count=a.count * share) for a in stage.shared_accesses)
    return replace(stage, shared_accesses=tuple(accesses))


def _without_conflicts(stage: Stage) -> Stage:
    accesses = (replace(a, degree=np.minimum(a.degree, 1.0)) for a in stage.shared_accesses)
    return replace(stage, shared_accesses=tuple(accesses))


def _without_latency(work: Workload) -> Workload:
    none = {"global_latency_cycles": 0.0 * work.n_sm}
    return replace(work, parameters={**work.parameters, **none})


def _coalesced(work: Workload) -> Workload:
    def change(stage: Stage) -> Stage:
        accesses = (
            replace(a, moved_bytes=np.minimum(a.moved_bytes, a.bytes * work.lanes))
            for a in stage.global_accesses
        )
        return replace(stage, global_accesses=tuple(accesses))

    return _in_every_stage(change)(work)


_with_many_warps = _in_every_stage(lambda stage: replace(stage, warps=stage.warps * 1e6))

CAUSES: Mapping[str, Mapping[str, Callable[[Workload], Workload]]] = {
    "instruction_pipeline": {
        "low computational density": _in_every_stage(_without_bookkeeping),
        # Without classes, all instructions are of type II.
        "expensive instructions": _in_every_stage(lambda stage: replace(stage, instructions={})),
        "insufficient parallel warps": _with_many_warps,
    },
    "shared_memory": {
        "bank conflicts": _in_every_stage(_without_conflicts),
        "traffic of bookkeeping instructions": _in_every_stage(_without_shared_bookkeeping),
        "insufficient parallel warps": _with_many_warps,
    },
    "global_memory": {
        "insufficient parallelism": _without_latency,
        "uncoalesced accesses and large transactions": _coalesced,
    },
}
"""The causes of each bottleneck that Section 3 lists, and a workload without each."""

BOTTLENECK = Flags({"none": 0} | {name: code for code, name in enumerate(CAUSES, start=1)})
"""The components of the model, which may be the bottleneck."""

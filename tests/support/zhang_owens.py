"""Configurations of Zhang & Owens' kernels on their GPU, and the model's results for them."""

from __future__ import annotations

import numpy as np

import sweep.models.zhang_owens_2011 as zo
from sweep.evaluation.launch import build_launch, build_workload
from sweep.space import Plan, resolve
from sweep.specs import load_kernel

__all__ = ["COMPONENTS", "evaluate", "run", "workload"]

COMPONENTS = zo.COMPONENTS
WORDS = {code: word.removeprefix("zhang_owens_") for word, code in zo.REGIMES.items()}


def workload(kernel, core_clock_ratio=1.0, memory_clock_ratio=1.0, **parameters):
    """Return one configuration of a shipped kernel on the paper's GPU.

    Parameters that are not given have their first value.
    """
    first = {name: values[0] for name, values in load_kernel(kernel).parameters.items()}
    plan = Plan(
        kernels=[kernel],
        devices=["gtx_285"],
        models=["zhang_owens"],
        axes={"core_clock_ratio": [core_clock_ratio], "memory_clock_ratio": [memory_clock_ratio]},
        kernel_axes={kernel: {name: [value] for name, value in (first | parameters).items()}},
    )
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    assert launch.status.item() == 0
    return build_workload(launch, zo.MODEL, {})


def evaluate(inputs, variant="corrected"):
    """Return the results of one configuration by name, codes as words, with its time."""
    found = zo.MODEL.evaluate(variant, inputs)
    found["time"] = found["execution_cycles"] / float(np.ravel(inputs["core_clock"])[0])
    for name in ("bottleneck", "next_bottleneck"):
        found[name] = zo.BOTTLENECK.meaning(int(found[name]))
    return found | {"regime": WORDS[found["regime"]]}


def run(kernel, variant="corrected", **parameters):
    """Return the results of one configuration of a shipped kernel."""
    return evaluate(zo.MODEL.prepare(workload(kernel, **parameters), variant), variant)

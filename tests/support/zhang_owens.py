"""Configurations of Zhang & Owens' kernels on their GPU, and the model's results for them."""

import numpy as np

import sweep.models.zhang_owens_2011 as zo
from sweep.models.zhang_owens_causes import BOTTLENECK, CAUSES
from sweep.papers.zhang_owens_2011 import workload

COMPONENTS = tuple(CAUSES)
WORDS = {code: word.removeprefix("zhang_owens_") for word, code in zo.REGIMES.items()}


def evaluate(inputs, variant="corrected"):
    """Return the results of one configuration by name, codes as words, with its time."""
    found = zo.MODEL.evaluate(variant, inputs)
    found["time"] = found["execution_cycles"] / float(np.ravel(inputs["core_clock"])[0])
    for name in ("bottleneck", "next_bottleneck"):
        found[name] = BOTTLENECK.meaning(int(found[name]))
    return found | {"regime": WORDS[found["regime"]]}


def run(kernel, variant="corrected", clocks=None, **parameters):
    """Return the results of one configuration of a shipped kernel."""
    return evaluate(zo.MODEL.prepare(workload(kernel, clocks, **parameters), variant), variant)

"""A kernel of computation and one of memory accesses gain from their own clock, and from no other.

Every model says so of kernels that leave no doubt what they wait for, on devices of three
generations.
"""

from __future__ import annotations

import numpy as np
import pytest

from sweep.evaluation import evaluate
from sweep.fields import BOUND
from sweep.models import model_names
from sweep.space import Plan

pytestmark = pytest.mark.slow  # every pass is compiled

KERNEL = """
schema = 1
name = "{name}"

[source]
default = "assumed: nothing but what the name says"

[launch]
threads_per_block = 256
blocks = 20000

[resources]
registers_per_thread = 16

[instructions]
computation = {instructions}

[[global_access]]
name = "data"
kind = "load"
count = {accesses}
bytes = 4
pattern = "coalesced"

[loops]
outer = {accesses}
"""

KERNELS = {"computing": (20000, 1), "moving": (64, 64)}
CLOCKS = {"core_clock_ratio": [0.8, 1.0], "memory_clock_ratio": [0.8, 1.0]}
ALMOST = 0.02
DEVICES = ("gtx_980", "gtx_280", "gtx_260")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The files of both kernels by name."""
    folder = tmp_path_factory.mktemp("kernels")
    paths = {name: folder / f"{name}.toml" for name in KERNELS}
    for name, (instructions, accesses) in KERNELS.items():
        text = KERNEL.format(name=name, instructions=instructions, accesses=accesses)
        paths[name].write_text(text)
    return paths


def gains(path, device, model):
    """Return the gain from 25 % of core clock, from 25 % of memory clock, and the bounds."""
    tree = evaluate(Plan([str(path)], [device], [model], axes=CLOCKS))
    dataset = tree[path.stem].to_dataset().squeeze(drop=True)
    time = dataset["execution_time"].transpose(*CLOCKS).to_numpy()
    assert np.isfinite(time).all()
    return time[0, 1] / time[1, 1], time[1, 0] / time[1, 1], set(np.unique(dataset["bound"]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", model_names())
def test_computation_follows_the_core_clock(kernels, model, device):
    core, memory, bounds = gains(kernels["computing"], device, model)
    assert core == pytest.approx(1.25, rel=ALMOST)
    assert memory == pytest.approx(1.0, rel=ALMOST)
    assert BOUND["memory"] not in bounds


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", model_names())
def test_accesses_follow_the_memory_clock(kernels, model, device):
    core, memory, bounds = gains(kernels["moving"], device, model)
    assert core == pytest.approx(1.0, rel=ALMOST)
    # DRAM is used better at higher memory clocks (Table III of Wang & Chu).
    assert 1.25 * (1 - ALMOST) < memory < 1.25 * 1.04
    assert bounds == {BOUND["memory"]}

"""What clocks, bandwidth and latency do to the time, in every model's corrected variant.

More bandwidth and a higher clock are never slower, a higher latency never faster, with inputs that
are random within what a device and a kernel can be. A kernel of computation and one of memory
accesses gain from their own clock, and from no other, on devices of three generations.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_inputs import KERNELS, numbers

from sweep.evaluation.planned import evaluate
from sweep.fields import BOUND
from sweep.models import get_model, model_names
from sweep.space import Plan

ROUNDING = 1 + 1e-11


# Bandwidth, or the service times that are its reciprocal; latencies of DRAM.
WIDER = {
    "hong_kim": {"mem_bandwidth": 1},
    "wang_chu": {"dm_del": -1},
    "luo_suda": {"gpu_bw": 1},
    "zhang_owens": {"peak_global": 1},
    "lemeire": {"memory_issue": -1},
    "combined": {"dram_bandwidth": 1, "l2_cycles": -1, "l1_cycles": -1, "shared_cycles": -1},
}
LATER = {
    "hong_kim": {"mem_ld": 1},
    "wang_chu": {"dm_lat": 1, "dm_lat_slope": 1, "dm_lat_intercept": 1},
    "luo_suda": {"t_mem_cycles": 1, "m_i": 1, "m_previous": 1},
    "zhang_owens": {"global_latency": 1},
    "lemeire": {"memory_completion": 1},
    "combined": {"dram_latency": 1, "cache_wait": 1, "shared_latency": 1, "alu_latency": 1},
}
# What a higher core clock raises: core cycles of DRAM's latency and service, and the clock itself.
QUICKER = {
    "hong_kim": {"core_freq": 1, "mem_ld": 1, "departure_del_uncoal": 1, "departure_del_coal": 1},
    "wang_chu": {"frequency_ratio": 1},
    "luo_suda": {"core_freq": 1, "t_mem_cycles": 1, "m_i": 1, "m_previous": 1},
    "zhang_owens": {"frequency": 1, "core_clock": 1, "global_latency": 1},
    "lemeire": {"memory_issue": 1, "memory_completion": 1},
    "combined": {"core_clock": 1, "dram_latency": 1},
}
CHANGES = {"bandwidth": WIDER, "latency": LATER, "core clock": QUICKER}

models = pytest.mark.parametrize("model", model_names())


def scaled(value, factor):
    return tuple(v * factor for v in value) if isinstance(value, tuple) else value * factor


def changed(inputs, by, factor):
    return inputs | {name: scaled(inputs[name], factor**power) for name, power in by.items()}


def cycles(model, inputs):
    """Return the corrected model's execution cycles."""
    return get_model(model).evaluate("corrected", inputs)["execution_cycles"]


@models
@pytest.mark.parametrize("change", CHANGES)
@given(data=st.data(), factor=numbers(1, 1.2) | numbers(1, 20))
def test_bandwidth_and_clocks_are_never_slower_and_latency_never_faster(
    model, change, data, factor
):
    inputs = data.draw(KERNELS[model]())
    before, after = (
        cycles(model, inputs),
        cycles(model, changed(inputs, CHANGES[change][model], factor)),
    )
    assert (0 < before < np.inf) == (0 < after < np.inf)
    if not 0 < before < np.inf:
        return
    if change == "latency":
        assert after >= before / ROUNDING
    elif change == "bandwidth":
        assert after <= before * ROUNDING
    else:
        # (6) of Luo & Suda rounds the computation of every period up to whole cycles.
        rounded = 0.0
        if model == "luo_suda":
            resident = inputs["active_blocks_per_sm"] * inputs["active_sm"]
            rounded = sum(inputs["weight"]) * max(1.0, inputs["blocks"] / resident)
        assert after / factor <= (before + rounded) * ROUNDING


@models
@given(st.data())
def test_time_is_positive_or_none(model, data):
    # What is not finite and positive is flagged by every pass (test_models_standard.py).
    found = cycles(model, data.draw(KERNELS[model]()))
    # Only (4) of Luo & Suda has an end, at 2m - 1 warps.
    assert 0 < found < np.inf or (model == "luo_suda" and not found > 0)


# --- Kernels that leave no doubt what they wait for -----------------------------------------------

KERNEL = """schema = 1
name = "{name}"
source = {{default = "assumed: nothing but what the name says"}}
launch = {{threads_per_block = 256, blocks = 20000}}
resources = {{registers_per_thread = 16}}
instructions = {{computation = {instructions}}}
loops = {{outer = {accesses}}}
[[global_access]]
name = "data"
kind = "load"
count = {accesses}
bytes = 4
pattern = "coalesced"
"""

OF_ONE_KIND = {"computing": (20000, 1), "moving": (64, 64)}
CLOCKS = {"core_clock_ratio": [0.8, 1.0], "memory_clock_ratio": [0.8, 1.0]}
ALMOST = 0.02
DEVICES = ("gtx_980", "gtx_280", "gtx_260")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The files of both kernels by name."""
    folder = tmp_path_factory.mktemp("kernels")
    paths = {name: folder / f"{name}.toml" for name in OF_ONE_KIND}
    for name, (instructions, accesses) in OF_ONE_KIND.items():
        paths[name].write_text(
            KERNEL.format(name=name, instructions=instructions, accesses=accesses)
        )
    return paths


def gains(path, device, model):
    """Return the gain from 25 % of core clock, from 25 % of memory clock, and the bounds."""
    tree = evaluate(Plan([str(path)], [device], [model], axes=CLOCKS))
    dataset = tree[path.stem].to_dataset().squeeze(drop=True)
    time = dataset["execution_time"].transpose(*CLOCKS).to_numpy()
    assert np.isfinite(time).all()
    return time[0, 1] / time[1, 1], time[1, 0] / time[1, 1], set(np.unique(dataset["bound"]))


@pytest.mark.slow
@models
@pytest.mark.parametrize("device", DEVICES)
def test_computation_and_accesses_follow_their_own_clock(kernels, model, device):
    core, memory, bounds = gains(kernels["computing"], device, model)
    assert core == pytest.approx(1.25, rel=ALMOST)
    assert memory == pytest.approx(1.0, rel=ALMOST)
    assert BOUND["memory"] not in bounds
    core, memory, bounds = gains(kernels["moving"], device, model)
    assert core == pytest.approx(1.0, rel=ALMOST)
    # DRAM is used better at higher memory clocks (Table III of Wang & Chu).
    assert 1.25 * (1 - ALMOST) < memory < 1.25 * 1.04
    assert bounds == {BOUND["memory"]}

"""More bandwidth and a higher clock are never slower, a higher latency never faster, corrected.

Inputs are random within what a device and a kernel can be.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_inputs import KERNELS, numbers

from sweep.models import get_model, model_names

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

models = pytest.mark.parametrize("model", model_names())


def scaled(value, factor):
    return tuple(v * factor for v in value) if isinstance(value, tuple) else value * factor


def changed(inputs, by, factor):
    return inputs | {name: scaled(inputs[name], factor**power) for name, power in by.items()}


def cycles(model, inputs):
    """Return the corrected model's execution cycles."""
    return get_model(model).evaluate("corrected", inputs)["execution_cycles"]


@models
@given(st.data(), numbers(1, 1.2) | numbers(1, 20))
def test_more_bandwidth_is_never_slower(model, data, factor):
    inputs = data.draw(KERNELS[model]())
    narrow = cycles(model, inputs)
    wide = cycles(model, changed(inputs, WIDER[model], factor))
    assert (0 < narrow < np.inf) == (0 < wide < np.inf)
    assert not 0 < narrow < np.inf or wide <= narrow * ROUNDING


@models
@given(st.data(), numbers(1, 1.2) | numbers(1, 20))
def test_higher_latency_is_never_faster(model, data, factor):
    inputs = data.draw(KERNELS[model]())
    soon = cycles(model, inputs)
    late = cycles(model, changed(inputs, LATER[model], factor))
    assert (0 < soon < np.inf) == (0 < late < np.inf)
    assert not 0 < soon < np.inf or late >= soon / ROUNDING


@models
@given(st.data(), numbers(1, 1.2) | numbers(1, 20))
def test_higher_core_clock_is_never_slower(model, data, factor):
    inputs = data.draw(KERNELS[model]())
    # (6) of Luo & Suda rounds the computation of every period up to whole cycles.
    rounded = 0.0
    if model == "luo_suda":
        resident = inputs["active_blocks_per_sm"] * inputs["active_sm"]
        rounded = sum(inputs["weight"]) * max(1.0, inputs["blocks"] / resident)
    slow = cycles(model, inputs)
    fast = cycles(model, changed(inputs, QUICKER[model], factor)) / factor
    assert (0 < slow < np.inf) == (0 < fast < np.inf)
    assert not 0 < slow < np.inf or fast <= (slow + rounded) * ROUNDING


@models
@given(st.data())
def test_time_is_positive_or_none(model, data):
    # What is not finite and positive is flagged by every pass (test_models_standard.py).
    found = cycles(model, data.draw(KERNELS[model]()))
    # Only (4) of Luo & Suda has an end, at 2m - 1 warps.
    assert 0 < found < np.inf or (model == "luo_suda" and not found > 0)

"""The queueing network of ``combined`` beside exact mean value analysis, and where it is exact."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_inputs import KERNELS

from sweep.models import combined
from sweep.models.combined import MODEL, round_cycles

ROUNDING = 1 + 1e-11
demands = st.floats(0.01, 10.0) | st.just(0.0)


def exact(n, stations, wait):
    """Return N/X of N customers by exact mean value analysis (Reiser & Lavenberg 1980)."""
    queues, time = np.zeros(len(stations)), 0.0
    for k in range(1, n + 1):
        residence = np.array(stations) * (1.0 + queues)
        time = wait + residence.sum()
        queues = k * residence / time
    return time


def exact_of_two_schedulers(n, own, shared, wait):
    """Return the same for two schedulers with n warps each: two classes, one lane station each."""

    @cache
    def solved(i, j):
        if (i, j) == (0, 0):
            return np.zeros((3, 2)), np.zeros(2)  # by station and class; time by class
        queues, times = np.zeros((3, 2)), np.zeros(2)
        for c, count in enumerate((i, j)):
            if count:
                before = solved(i - (c == 0), j - (c == 1))[0].sum(axis=1)
                residence = np.array([own * (c == 0), own * (c == 1), shared]) * (1.0 + before)
                times[c] = wait + residence.sum()
                queues[:, c] = count * residence / times[c]
        return queues, times

    return solved(n, n)[1][0]


@given(st.integers(1, 64), demands, demands, demands, st.floats(0.01, 100.0))
def test_round__within_eight_percent_of_exact_mva_and_never_below(n, a, s, m, z):
    """Schweitzer's approximation is pessimistic; one station or balanced ones are exact."""
    found, best = round_cycles(float(n), 1.0, a, s, m, z), exact(n, (a, s, m), z)
    assert best / ROUNDING <= found <= best * 1.08


@given(st.integers(1, 12), demands, demands, st.floats(0.01, 100.0))
def test_round__of_two_schedulers(n, a, s, z):
    found = round_cycles(2.0 * n, 2.0, a, s, 0.0, z)
    best = exact_of_two_schedulers(n, 2.0 * a, s, z)
    assert best / ROUNDING <= found <= best * 1.08


def schweitzer(n, m, demands, wait):
    """Return Schweitzer's fixed point by bisection; the first demand is on a scheduler's lanes."""
    own = [m * demands[0], *demands[1:]]
    others = [max(n - m, 0.0) * demands[0], *((n - 1.0) * d for d in demands[1:])]
    low, high = max(max(others), wait + sum(own)), wait + sum(own) + sum(others)
    for _ in range(200):
        t = 0.5 * (low + high)
        taken = wait + sum(d * t / (t - p) for d, p in zip(own, others, strict=True) if d)
        low, high = (t, high) if t < taken else (low, t)
    return high


@given(st.integers(1, 64), st.sampled_from([1.0, 2.0, 4.0]), demands, demands, demands,
       st.floats(0.01, 100.0))  # fmt: skip
def test_round__within_one_percent_of_schweitzers_fixed_point(n, schedulers, a, s, m, z):
    found = round_cycles(float(n), schedulers, a, s, m, z)
    best = schweitzer(float(n), schedulers, (a, s, m), z)
    assert best / ROUNDING <= found <= best * 1.01


def test_round__limits():
    assert round_cycles(1.0, 1.0, 3.0, 2.0, 1.0, 90.0) == 96  # alone
    assert round_cycles(10.0, 1.0, 10.0, 0.0, 0.0, 0.0) == 100  # one station
    assert round_cycles(10.0, 1.0, 0.0, 0.0, 0.0, 90.0) == 90
    assert round_cycles(48.0, 1.0, 1.0, 1.0, 1.0, 0.0) == pytest.approx(50, rel=1e-14)  # balanced
    assert round_cycles(1e6, 1.0, 10.0, 9.0, 3.0, 90.0) == pytest.approx(1e7, rel=1e-4)
    # Schweitzer's quadratic for one station and a wait.
    n, d, z = 12.0, 7.0, 60.0
    root = 0.5 * (n * d + z + np.sqrt((n * d - z) ** 2 + 4 * d * z))
    assert round_cycles(n, 1.0, d, 0.0, 0.0, z) == pytest.approx(root, rel=1e-14)
    assert round_cycles(5.0, 1.0, 0.0, 0.0, 0.0, 0.0) == pytest.approx(0.0, abs=1e-29)


def test_round__lanes_of_four_schedulers():
    # Arithmetic alone, 10 cycles of the whole SM: 40 on a scheduler's lanes, side by side.
    for n, cycles in ((1.0, 40), (4.0, 40), (7.0, 70), (64.0, 640)):
        assert round_cycles(n, 4.0, 10.0, 0.0, 0.0, 0.0) == pytest.approx(cycles, rel=1e-14)


# --- Every input of the model ---------------------------------------------------------------------

FASTER = ("parallelism", "dram_bandwidth")
NEITHER = {
    "active_blocks": "other whole rounds",
    "active_sm": "follows from blocks and SMs",
    "n_sm": "other whole rounds",
    "unified": "a choice",
    "one_pipe": "a choice",
    "schedulers": "more issue slots, and fewer lanes for each warp",
    "core_clock": "in cycles; as a time in test_models_monotone.py",
}
EVERY = [i.symbol for i in MODEL.inputs if i.symbol not in NEITHER]


def time(inputs):
    return MODEL.evaluate("corrected", inputs)["execution_cycles"]


@given(data=st.data(), factor=st.floats(1, 1.2) | st.floats(1, 20), added=st.integers(1, 40))
def test_time__never_falls_with_more_of_anything_but_rates(data, factor, added):
    inputs = data.draw(KERNELS["combined"]())
    before = time(inputs)
    for name in EVERY:
        value = inputs[name]
        if isinstance(value, tuple):  # of one stage
            k = added % len(value)
            more = (*value[:k], value[k] * factor, *value[k + 1 :])
        else:
            more = value + added if name in ("blocks", "warps_per_block") else value * factor
        changed = inputs | {name: more}
        if name == "blocks":
            changed["active_sm"] = min(more, inputs["n_sm"])
        after = time(changed)
        is_monotone = after <= before * ROUNDING if name in FASTER else after >= before / ROUNDING
        assert is_monotone, name


def test_time__of_half_the_lanes():
    """68 blocks of 64 threads with 100 loads at once on an RTX 2080 Ti: never faster."""
    a = combined.arithmetic(2100.0, 0.25, 2000.0, 0.5, 0.0, 0.5, 0.0, 2.0, 0.0, 16.0, 0.0, 0.0)
    for halved in (a, 2 * a, 4 * a, 8 * a):
        few = round_cycles(2.0, 4.0, halved, 800.0, 1600.0 * 5.46, 500.0)
        assert few > round_cycles(2.0, 4.0, 0.5 * halved, 800.0, 1600.0 * 5.46, 500.0)

"""The queueing network of ``combined`` beside exact mean value analysis, and where it is exact."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_inputs import KERNELS

from sweep.models import combined_equations as equations
from sweep.models.combined import MODEL

ROUNDING = 1 + 1e-11
demands = st.floats(0.01, 10.0) | st.just(0.0)
three = st.tuples(demands, demands, demands)


def round_of(n, m, wait, *demands):
    """Return (8) of up to six stations in a row: three sorts of lanes, three of the SM."""
    six = [*demands, *[0.0] * (6 - len(demands))]
    lanes, others = sorted(six[:3], reverse=True), six[3:]
    return equations.round_cycles(n, m, wait + m * sum(lanes) + sum(others), *lanes, *others)


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


@given(st.integers(1, 12), demands, demands, st.floats(0.01, 100.0))
def test_round__of_two_schedulers(n, a, s, z):
    found = round_of(2.0 * n, 2.0, z, a, 0.0, 0.0, s)
    best = exact_of_two_schedulers(n, 2.0 * a, s, z)
    assert best / ROUNDING <= found <= best * 1.08


def schweitzer(n, m, lanes, others, alone):
    """Return Schweitzer's fixed point by bisection."""
    stations = [(m * d, max(n - m, 0.0) * d) for d in lanes] + [(d, (n - 1.0) * d) for d in others]
    low, high = max(alone, *(p for _, p in stations)), alone + sum(d + p for d, p in stations)
    for _ in range(200):
        t = 0.5 * (low + high)
        taken = alone + sum(d * p / (t - p) for d, p in stations if d)
        low, high = (t, high) if t < taken else (low, t)
    return high


@given(st.integers(1, 64), three, three, st.floats(0.01, 100.0))
def test_round__is_never_below_exact_mva_and_within_eight_percent_of_it(n, a, s, z):
    """Beside Schweitzer's fixed point, also where a warp takes the services of a group at once."""
    best = exact(n, (*a, *s), z)
    assert best / ROUNDING <= round_of(float(n), 1.0, z, *a, *s) <= best * 1.08
    lanes = sorted(a, reverse=True)
    for m, own, served in ((1.0, sum(a), sum(s)), (4.0, max(a), s[0] + max(s[1:]))):
        found = equations.round_cycles(float(n), m, z + m * own + served, *lanes, *s)
        best = schweitzer(float(n), m, lanes, s, z + m * own + served)
        assert best / ROUNDING <= found <= best * 1.04


def test_round__limits():
    assert round_of(1.0, 1.0, 90.0, 3.0, 0.0, 0.0, 2.0, 1.0) == 96  # alone
    assert round_of(10.0, 1.0, 90.0) == 90
    assert round_of(48.0, 1.0, 0.0, *[1.0] * 3) == pytest.approx(50, rel=1e-14)  # balanced
    assert round_of(48.0, 1.0, 0.0, *[1.0] * 6) == pytest.approx(53, rel=1e-14)
    assert round_of(1e6, 1.0, 90.0, 10.0, 4.0, 1.0, 9.0, 3.0, 2.0) == pytest.approx(1e7, rel=1e-4)
    n, d, z = 12.0, 7.0, 60.0  # Schweitzer's quadratic for one station and a wait
    root = 0.5 * (n * d + z + np.sqrt((n * d - z) ** 2 + 4 * d * z))
    for before in range(6):
        assert round_of(10.0, 1.0, 0.0, *[0.0] * before, 10.0) == 100  # one station
        assert round_of(n, 1.0, z, *[0.0] * before, d) == pytest.approx(root, rel=1e-14)
    assert round_of(5.0, 1.0, 0.0) == pytest.approx(0.0, abs=1e-19)
    # Arithmetic alone, 10 cycles of the whole SM: 40 on a scheduler's lanes, side by side.
    for n, cycles in ((1.0, 40), (4.0, 40), (7.0, 70), (64.0, 640)):
        assert round_of(n, 4.0, 0.0, 10.0) == pytest.approx(cycles, rel=1e-14)


def test_by_length__classes_on_lanes_of_their_own_queue_apart():
    of = equations.by_length  # of issue, four classes; unified, one pipe
    assert of(4.0, 9.0, 7.0, 2.0, 1.0, 0.0, 0.0) == (9, 2, 7)
    assert sorted(of(4.0, 9.0, 8.0, 7.0, 6.0, 0.0, 0.0)) == [7, 8, 9]  # all but the shortest
    assert of(10.0, 9.0, 7.0, 2.0, 1.0, 0.0, 0.0) == (10, 2, 7)  # issue with the busiest lanes
    assert of(4.0, 16.0, 7.0, 2.0, 0.0, 1.0, 0.0) == (16, 2, 0)  # integers queue once
    assert of(4.0, 19.0, 7.0, 2.0, 1.0, 1.0, 1.0) == (19, 0, 0)


# --- Every input of the model ---------------------------------------------------------------------

FASTER = ("parallelism", "dram_bandwidth", "buffers", "entries", "asynchronous", "specialized")
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
    """Return the time, which is never less than what the busiest station takes."""
    found = MODEL.evaluate("corrected", inputs)
    busiest = max(found[f"{name}_cycles"] for name in ("arithmetic", "load_store", "memory"))
    assert busiest <= found["execution_cycles"] * ROUNDING
    return found["execution_cycles"]


@given(data=st.data(), factor=st.floats(1, 1.2) | st.floats(1, 20), added=st.integers(1, 40))
def test_time__never_falls_with_more_of_anything_but_rates(data, factor, added):
    inputs = data.draw(KERNELS["combined"]())
    before = time(inputs)
    for name in EVERY:
        value = inputs[name]
        if isinstance(value, tuple):  # of one stage
            k = added % len(value)
            more = (*value[:k], value[k] * factor, *value[k + 1 :])
        elif name in ("asynchronous", "in_order", "specialized"):
            more = 1.0  # a share, and two choices
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
    a = equations.arithmetic(2100.0 * 0.25, 2000.0 * 0.5, 0.0, 0.0, 0.0)
    rest = 0.0, 0.0, 800.0, 1600.0 * 5.46
    times = [round_of(2.0, 4.0, 500.0, a * x, *rest) for x in (0.5, 1.0, 2.0, 4.0, 8.0)]
    assert times == sorted(set(times))

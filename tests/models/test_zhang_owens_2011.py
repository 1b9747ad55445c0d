"""Zhang & Owens 2011: peaks, sustained throughput, stages, what-if, errata.

Constants bear the paper's symbols. A tolerance is half a unit of the last printed digit, unless a
comment says why it is not.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calling import digits, exact
from support.zhang_owens import COMPONENTS, evaluate, run, workload

import sweep.models.zhang_owens_2011 as zo
from sweep.fields import VARIANTS

FREQUENCY, SMS, WARP = 1.48e9, 30.0, 32.0
INSTRUCTION_TABLE = ((6, 8.39), (16, 9.05), (32, 9.33))  # Section 5.1
SHARED_TABLE = ((6, 870), (16, 1112), (32, 1165))
INSTRUCTION, SHARED, GLOBAL = COMPONENTS


# --- Section 4: peaks -----------------------------------------------------------------------------


def test_section4__peaks():
    mad = zo.peak_instruction(8.0, FREQUENCY, SMS, WARP)
    assert mad == digits(11.1e9, 0.1e9) == exact(11.1e9)
    assert mad * WARP == exact(355.2e9)
    assert zo.peak_flops(mad, WARP) == digits(710.4e9, 0.1e9)
    assert zo.peak_shared(8.0, SMS, FREQUENCY) == exact(1420.8e9)  # printed 1420
    memory = zo.peak_global(2.484e9, 512.0)
    assert memory == exact(158.976e9) == digits(158.98e9, 0.01e9)  # ZO-3: printed 160
    assert workload("dense_matmul", tile=16).memory_bandwidth.item() == exact(memory)


# --- Figure 2: sustained throughput ---------------------------------------------------------------


@pytest.mark.parametrize("table", [INSTRUCTION_TABLE, SHARED_TABLE])
def test_figure2__printed_points_and_lines_between(table):
    warps, values = np.array(table, dtype=float).T
    assert zo.sustained(table, warps).tolist() == values.tolist()
    assert zo.sustained(table, np.array([11.0]))[0] == exact((values[0] + values[1]) / 2)
    assert zo.sustained(table, np.array([0.0, 3.0])).tolist() == [0.0, exact(values[0] / 2)]
    assert zo.sustained(table, np.array([64.0]))[0] == values[2]
    assert np.isnan(zo.sustained(None, warps)).all()


def test_figure2__more_units_need_more_warps():
    # "The more functional units there are, the more parallel warps we need": 6 for type II.
    saturates = {}
    warps = np.linspace(0.05, 40, 8000)
    for kind, units in (("I", 10), ("II", 8), ("III", 4), ("IV", 1)):
        found = zo.sustained(INSTRUCTION_TABLE, warps, units / 8)
        assert found[-1] == exact(9.33 * units / 8)
        assert found[0] == exact(0.05 * 8.39 / 6)  # one warp waits for the pipeline, whatever type
        saturates[kind] = warps[np.flatnonzero(found >= 8.39 * units / 8)[0]]
    assert list(saturates.values()) == sorted(saturates.values(), reverse=True)
    assert saturates["II"] == pytest.approx(6, abs=0.01)
    assert saturates["III"] == pytest.approx(3, abs=0.01)


# --- Figure 3: global memory ----------------------------------------------------------------------


def bandwidth(blocks, threads=256.0, transactions=64.0, latency=450.0, peak=158.976e9):
    return zo.global_bandwidth(
        float(blocks), threads, transactions, latency, FREQUENCY, 10.0, peak, 0.85
    )


def test_figure3__sawtooth_with_a_period_of_10():
    reached = np.array([bandwidth(b) for b in range(1, 101)])
    best = reached[9::10]  # 10, 20, ...
    assert (reached[10::10] < best[:-1]).all()  # one block more than a multiple of 10
    assert (best[1:] > best[:-1]).all()
    drops = best[:-1] - reached[10::10]
    assert (drops[1:] < drops[:-1]).all()  # "the fluctuation becomes smaller"
    assert reached.max() < 0.85 * 158.976e9


def test_figure3__almost_linear_far_below_the_peak():
    few = np.array([bandwidth(b, 64.0, 1.0) for b in range(1, 11)])
    assert few / few[0] == pytest.approx(np.arange(1, 11), rel=0.01)
    # "almost free to have more memory transactions": twice of them, hardly more time
    time = 256 / bandwidth(1, 64.0, 1.0), 512 / bandwidth(1, 64.0, 2.0)
    assert time[1] < 1.07 * time[0]


@given(
    blocks=st.integers(1, 2000), threads=st.integers(1, 512), transactions=st.floats(0.01, 1e4),
    latency=st.floats(1, 1e4), peak=st.floats(1e9, 1e13), more=st.floats(1, 10),
)  # fmt: skip
def test_figure3__more_of_anything_but_latency_never_slower(
    blocks, threads, transactions, latency, peak, more
):
    given = (blocks, float(threads), transactions, latency, peak)
    reached = bandwidth(*given) * (1 - 1e-12)
    assert bandwidth(*given[:4], peak * more) >= reached
    assert bandwidth(*given[:3], latency / more, peak) >= reached
    assert bandwidth(blocks, threads * more, *given[2:]) >= reached
    assert bandwidth(blocks, float(threads), transactions * more, *given[3:]) >= reached


# --- Section 3 and the errata ---------------------------------------------------------------------

STAGES = {
    "n_ii": (300.0, 100.0, 50.0), "throughput_ii": (9e9, 9e9, 9e9),
    "shared_transactions": (10.0, 900.0, 50.0), "shared_bandwidth": (1e12, 1e12, 1e12),
    "global_bytes": (4096.0, 0.0, 512.0), "global_transactions": (32.0, 0.0, 4.0),
    "executions": (1.0, 1.0, 1.0), "barriers": (1.0, 1.0, 0.0),
}  # fmt: skip


def stages(blocks=600.0, active=1.0, frequency=FREQUENCY, **changed):
    """Return inputs with three stages, bound by instructions, shared memory and global memory."""
    unused = {f"n_{n}": (0.0,) * 3 for n in ("i", "iii", "iv")}
    unused |= {f"throughput_{n}": (1.0,) * 3 for n in ("i", "iii", "iv")}
    return {
        "blocks": blocks, "active_blocks_per_sm": active, "active_sm": min(blocks, SMS),
        "number_sm": SMS, "warps_per_block": 8.0, "threads_per_block": 256.0, "warp_size": WARP,
        "units_i": 10.0, "units_ii": 8.0, "units_iii": 4.0, "units_iv": 1.0,
        "cluster_count": 10.0, "global_share": 0.85, "frequency_measured": FREQUENCY,
        "frequency": frequency, "core_clock": frequency, "peak_global": 158.976e9,
        "global_latency": 450.0, **STAGES, **unused, **changed,
    }  # fmt: skip


def test_section3__serial_is_the_sum_and_overlapped_the_longest():
    serial, overlapped = evaluate(stages()), evaluate(stages(active=2.0))
    warps = 8 * 600.0
    instruction = [n / 9e9 * warps for n in STAGES["n_ii"]]
    shared = [n * 128 / 1e12 * warps for n in STAGES["shared_transactions"]]
    moved = [n * warps for n in STAGES["global_bytes"]]
    apart = [n and n / bandwidth(600, 256.0, m) for n, m in zip(
        moved, STAGES["global_transactions"], strict=True)]  # fmt: skip
    assert serial["time"] == exact(sum(map(max, instruction, shared, apart)))
    together = sum(moved) / bandwidth(600, 256.0, 36.0)
    assert overlapped["time"] == exact(max(sum(instruction), sum(shared), together))
    assert overlapped["time"] < serial["time"]
    assert serial["regime"] == "shared_serial"
    assert overlapped["regime"] == "shared_overlapped"


def test_section3__only_barriers_divide_a_program_and_a_repeated_stage_is_so_many_stages():
    one, serial, overlapped = (
        evaluate(stages(**changes))
        for changes in ({"barriers": (0.0, 0.0, 0.0)}, {}, {"active": 2.0})
    )
    assert one["time"] == exact(overlapped["time"])
    assert one["regime"] == "shared_serial"
    often = {name: tuple(5 * x for x in STAGES[name]) for name in STAGES
             if name not in ("throughput_ii", "shared_bandwidth")}  # fmt: skip
    assert evaluate(stages(**often))["time"] == exact(5 * serial["time"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_section3__nothing_is_left_if_the_only_component_vanishes(variant):
    none = {name: (0.0,) * 3 for name in ("shared_transactions", "global_bytes")}
    found = evaluate(stages(**none), variant)
    assert found["bottleneck"] == INSTRUCTION
    assert found["next_bottleneck"] == "none"
    assert found["speedup_if_removed"] == np.inf


def test_zo1__a_block_is_not_faster_than_its_instructions():
    # One block of 8 warps, each with 450 instructions, on one SM of 30.
    corrected, printed = (evaluate(stages(blocks=1.0), v) for v in ("corrected", "printed"))
    of_one_sm = 8 * 450 / (9e9 / 30)
    assert printed["instruction_pipeline_time"] == exact(of_one_sm / 30)
    assert corrected["instruction_pipeline_time"] == exact(of_one_sm)
    # Whole rounds are what they were; 20 blocks where 2 are active keep 10 SMs busy, not 20.
    for variant in VARIANTS:
        assert evaluate(stages(), variant)["time"] == exact(evaluate(stages())["time"])
    assert zo.busy_sm(30.0, 20.0, 2.0) == 10


@pytest.mark.parametrize(("kernel", "follows"), [("dense_matmul", 0), ("spmv_ell", 1)])
def test_clk__the_clock_of_the_bottleneck_sets_the_time(kernel, follows):
    ratios = ("core_clock_ratio", "memory_clock_ratio")
    nominal = run(kernel)["time"]
    faster = [run(kernel, clocks={name: [1.2]})["time"] for name in ratios]
    assert nominal / faster[follows] == pytest.approx(1.2, rel=0.002)
    assert nominal / faster[1 - follows] == pytest.approx(1, abs=0.002)
    # As printed, what was measured at the nominal clocks holds at all.
    for name in ratios:
        assert run(kernel, "printed", {name: [1.2]})["time"] == exact(nominal)

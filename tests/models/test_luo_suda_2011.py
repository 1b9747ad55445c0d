"""Luo & Suda 2011: every printed number, every period type, every erratum."""

from itertools import pairwise
from math import ceil, isnan

import numpy as np
import pytest

from sweep import Plan
from sweep.evaluation.launch import build_launch, build_workload
from sweep.fields import BOUND, VARIANTS
from sweep.models import luo_suda_2011 as ls
from sweep.space import resolve

A, B, C, D, M = 3.0, 11.0, 0.5, 80.0, 32.0  # GTX 260, Section 3.4
GTX_260_BW, N_SM, CORE_HZ, T_MEM = 111.9e9, 24.0, 1.242e9, 200.0  # Tables 1 and 2
SERVICE = 24 * 32 * 4 / 111.9e9 * CORE_HZ  # of a coalesced float access, 128 bytes [cycle]

ORDER = ("printed", "corrected", "revised")
TABLE_3 = {"svm": 0.2623, "matrix": 0.282, "linear": 0.4584, "sepia": 0.5297,
           "blackscholes-7": 0.7662, "blackscholes": 0.8697}  # fmt: skip


def body(variant="corrected", **given):
    """Evaluate the joined equations with the GTX 260's numbers where nothing else is given."""
    numbers = dict(
        n_act=32.0, n_sm=N_SM, active_sm=N_SM, active_blocks_per_sm=1.0, blocks=N_SM,
        warps_per_block=32.0, instructions=10.0, warp_bytes=128.0, moved_last=0.0,
        p=0.2623, a=A, b=B, c=C, d=D, m=M, n_thread=32.0, core_freq=CORE_HZ, gpu_bw=GTX_260_BW,
        t_mem_cycles=T_MEM,
    )  # fmt: skip
    periods = dict(c_i=(44.0,), c_previous=(0.0,), d_mem=(4.0,), n_trans=(2.0,), weight=(1.0,),
                   m_i=(200.0,), m_previous=(0.0,))  # fmt: skip
    values = {**numbers, **periods, **given}
    moved = tuple(128.0 if m > 0 else 0.0 for m in values["m_previous"])
    values.setdefault("moved_previous", moved)
    found = ls.MODEL.evaluate(variant, values)
    head = ("cycles", "cpi", "core", "memory", "regime", "bound", "mpd", "cpd")
    return {short: found[name] for short, name in zip(head, ls.MODEL.results, strict=True)}


@pytest.mark.parametrize(
    ("p", "n_act", "expected_cpd1", "expected_cpd2"),
    [(0.2623, 8.0, "2.29", "5.86"), (0.2623, 32.0, "7.99", "7.52"),
     (0.8697, 32.0, "-4.76", "13.93")],
)  # fmt: skip
def test_equations_3_to_5__printed_numbers(p, n_act, expected_cpd1, expected_cpd2):
    assert f"{ls.cpd1(C, p, n_act, B, A):.2f}" == expected_cpd1
    assert f"{ls.cpd2(ls.n(D, p, C), M, n_act, A):.2f}" == expected_cpd2


@pytest.mark.parametrize("n_act", [0.5, 64.0])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equation_4__no_time_outside_its_domain(n_act, variant):
    assert isnan(body(variant, n_act=n_act)["cycles"])


def test_equations_1_2__coalesced_float_load_on_the_gtx_260():
    warp_bw = ls.warp_bw(32.0, 4.0, 2.0, T_MEM / CORE_HZ)
    found = [ls.mpd(n, GTX_260_BW, N_SM, warp_bw) for n in (1.0, 4.0, 8.0, 16.0, 32.0)]
    assert found == [1, 4, 8, 11, 11]
    assert ls.warp_bw.info.result.symbol == "Warp_bwt"  # as the paper has it


def test_erratum_ls2__printed_mpd_is_zero_from_twelve_warps_on():
    warp_bw = ls.warp_bw(32.0, 4.0, 2.0, T_MEM / CORE_HZ)
    printed = [ls.mpd_printed(float(n), GTX_260_BW, N_SM, warp_bw) for n in range(1, 33)]
    assert printed[10] == 1
    assert printed[11:] == [0] * 21
    # (10) divides by it: a kernel with waiting periods has no time as printed, and one corrected.
    waiting = dict(c_previous=(44.0,), m_previous=(200.0,))
    assert not np.isfinite(body("printed", **waiting)["cycles"])
    assert 0 < body("corrected", **waiting)["cycles"] < np.inf


def test_erratum_ls3__high_proportions_and_never_below_one():
    high = dict(p=0.8697, m_i=(0.0,))
    assert body("printed", **high)["cpd"] < 0
    assert f"{body('corrected', **high)['cpd']:.2f}" == "13.93"
    assert body("printed", **high)["cycles"] < 0  # flagged as model_domain by the pass
    # Low proportions take the smaller of both in either variant.
    assert body("corrected")["cpd"] == pytest.approx(7.52, abs=0.005)
    assert body("printed")["cpd"] == pytest.approx(7.52, abs=0.005)
    # One warp at P = c - 0.4: (3) gives -1.0 there, as printed.
    assert body("printed", p=0.1, n_act=1.0)["cpd"] == pytest.approx(-1.0)
    assert body("corrected", p=0.1, n_act=1.0)["cpd"] == 1.0


def test_erratum_ls1__equation_13_lacks_its_zero():
    assert ls.t_c_type4_printed(200.0, 32.0, 44.0, 0.0) == 200.0 - 31 * 44.0 < 0
    assert ls.t_c_type4(200.0, 32.0, 44.0, 0.0) == 0.0
    # Both in a period of type 4, 8 warps and one at a time: 100 x 7 - 7 x 50 cover 600 - 7 x 50.
    period = dict(c_i=(50.0,), m_i=(600.0,), c_previous=(10.0,), m_previous=(100.0,))
    printed, corrected = (body(v, n_act=8.0, gpu_bw=1e10, **period) for v in ORDER[:2])
    cpd = min(ls.cpd1(C, 0.2623, 8.0, B, A), ls.cpd2(ls.n(D, 0.2623, C), M, 8.0, A))
    assert corrected["cycles"] == ceil(400 / cpd) + 350
    assert (printed["mpd"], corrected["mpd"]) == (0, 1)


def test_erratum_ls5__higher_latency_is_not_faster():
    # 32 warps with computation tasks of 2 cycles; their accesses wait for the bandwidth.
    latencies = [float(t) for t in range(100, 700)]
    mpd = [ls.mpd(32.0, GTX_260_BW, N_SM, ls.warp_bw(32.0, 4.0, 2.0, t / CORE_HZ))
           for t in latencies]  # fmt: skip
    waits = [ls.t_p(t, 32.0, n, 2.0) for t, n in zip(latencies, mpd, strict=True)]
    assert waits[0] == 5 * 100 - 62  # 32 warps, 5 at a time: 5 further waiting periods
    assert waits[-1] == 0  # a latency that is longer than the service of all
    assert sum(after < before for before, after in pairwise(waits)) == 5
    revised = ls.t_p_revised(32.0, ls.service(128.0, N_SM, CORE_HZ, GTX_260_BW), 2.0)
    assert revised == pytest.approx(32 * SERVICE - 62)
    # The same waits in the whole model: 62 cycles and the rest, by the floor and without it.
    period = dict(c_i=(2.0,), m_i=(0.0,), c_previous=(1.0,), p=0.2623)
    work = ceil(64 / body()["cpd"])
    for variant, wait in (("corrected", 5 * 100 - 62), ("revised", 32 * SERVICE - 62 / 7.5228)):
        found = body(variant, m_previous=(100.0,), t_mem_cycles=100.0, **period)
        assert found["cycles"] == pytest.approx(work + wait, abs=0.01)


@pytest.mark.parametrize(("n_trans", "moved"), [(2.0, 128.0), (4.0, 512.0), (16.0, 512.0)])
def test_erratum_ls6__no_more_than_the_bandwidth(n_trans, moved):
    # Two float loads, of four transactions in the second case: the latency serves too many warps.
    warp_bw = ls.warp_bw(32.0, moved / 32, n_trans, T_MEM / CORE_HZ)
    served = GTX_260_BW / (N_SM * warp_bw)  # (2) without the floor
    seconds = T_MEM / CORE_HZ
    assert served * moved * N_SM / seconds == pytest.approx(n_trans * GTX_260_BW)
    service = ls.service(moved, N_SM, CORE_HZ, GTX_260_BW) / CORE_HZ
    assert moved * N_SM / service == pytest.approx(GTX_260_BW)
    period = dict(c_i=(2.0,), m_i=(T_MEM,), c_previous=(2.0,), m_previous=(T_MEM,))
    found = body("revised", moved_previous=(moved,), n_trans=(n_trans,), **period)
    assert found["bound"] == BOUND["memory"]
    least = 32 * moved * N_SM / GTX_260_BW * CORE_HZ
    assert least < found["cycles"] < least + 4
    # Corrected, a saturated kernel is faster than that by almost as much.
    assert (
        body("corrected", n_trans=(n_trans,), d_mem=(moved / 32,), **period)["cycles"] < least / 1.8
    )


def test_erratum_ls6__the_bandwidth_moves_every_byte_once():
    # As many float loads as periods: each period waits for the one before, the end for the last.
    period = dict(c_i=(2.0, 2.0), c_previous=(0.0, 2.0), m_i=(T_MEM, T_MEM), weight=(1.0, 9.0),
                  m_previous=(0.0, T_MEM), d_mem=(4.0, 4.0), n_trans=(2.0, 2.0))  # fmt: skip
    found = body("revised", moved_last=128.0, warp_bytes=1280.0, **period)
    assert found["cycles"] > 10 * 32 * SERVICE
    assert 0.95 < found["memory"] < 1.0


def test_erratum_ls7__a_higher_core_clock_is_not_slower():
    # 8 warps in periods of 100 cycles that wait for 8 x 200 cycles, at higher and higher clocks.
    def seconds(variant, clock, work=100.0, before=1.0):
        waits = clock * T_MEM
        period = dict(c_i=(work,), c_previous=(work,), m_i=(waits,), m_previous=(waits * before,))
        found = body(variant, n_act=8.0, p=0.4, t_mem_cycles=waits, core_freq=clock * CORE_HZ,
                     **period)  # fmt: skip
        return found["cycles"] / clock

    clocks = np.linspace(0.4, 1.6, 25)
    printed = [seconds("printed", clock) for clock in clocks]
    revised = [seconds("revised", clock) for clock in clocks]
    assert any(after > 1.2 * before for before, after in pairwise(printed))
    # (8) without a wait before: 7 x 10 cycles cover what took 8 x 10/2.7.
    corrected = [seconds("corrected", clock, 10.0, 0.0) for clock in (0.4, 1.6)]
    assert corrected == [(30 + 80 - 70) / 0.4, (30 + 320 - 70) / 1.6]
    first, last = (seconds("revised", clock, 10.0, 0.0) for clock in (0.4, 1.6))
    assert last <= first
    assert all(after <= before + 1 / 0.4 for before, after in pairwise(revised))  # (6) rounds up


def test_erratum_ls4__at_least_one_round():
    few = dict(blocks=12.0)
    assert body("printed", **few)["cycles"] == pytest.approx(body("printed")["cycles"] / 2)
    assert body("corrected", **few)["cycles"] == body("corrected")["cycles"]


BEFORE = dict(c_i=(5.0,), m_i=(5.0,), c_previous=(1.0,), m_previous=(200.0,))
BOTH = dict(c_i=(2.0,), m_i=(1600.0,), c_previous=(1.0,), m_previous=(200.0,))
TYPES = [
    ("corrected", 1, 8.0, dict(c_i=(300.0,), c_previous=(300.0,)), lambda cpd: ceil(2400 / cpd)),
    # It waits after its own memory task, and by type 3 for the previous one.
    ("revised", 2, 4.0, dict(c_i=(10.0,)), lambda cpd: ceil(40 / cpd) + 200 - 3 * 10 / cpd),
    ("corrected", 2, 4.0, dict(c_i=(10.0,)), lambda cpd: ceil(40 / cpd) + 200 - 3 * 10),
    ("printed", 2, 4.0, dict(c_i=(10.0,)), lambda cpd: ceil(40 / cpd) + 200 - 3 * 10),
    # 32 warps: their accesses take 32 service times.
    ("revised", 3, 32.0, BEFORE, lambda cpd: ceil(160 / cpd) + 32 * SERVICE - 31 * 5 / cpd),
    # 32 warps, 11 at a time: one further waiting period (floor(32/11 - 1)), less than is covered.
    (
        "corrected",
        3,
        32.0,
        BEFORE | dict(c_i=(6.0,), m_i=(0.0,)),
        lambda cpd: ceil(192 / cpd) + 200 - 31 * 6,
    ),
    # Printed, 8 warps, one at a time: 7 further waiting periods.
    ("printed", 3, 8.0, BEFORE, lambda cpd: ceil(40 / cpd) + 200 * 7 - 7 * 5),
    # It waits for both: what the wait before covers of the one after does not lengthen the period.
    ("revised", 4, 32.0, BOTH, lambda cpd: ceil(64 / cpd) + 1600 - 31 * 2 / cpd),
    ("corrected", 4, 32.0, BOTH, lambda cpd: ceil(64 / cpd) + 1600 - 31 * 2),
    ("printed", 4, 8.0, BOTH, lambda cpd: ceil(16 / cpd) + 1600 - 7 * 2),
]


@pytest.mark.parametrize(("variant", "kind", "n_act", "period", "cycles"), TYPES)
def test_types_of_periods(variant, kind, n_act, period, cycles):
    found = body(variant, n_act=n_act, **period)
    cpd = min(ls.cpd1(C, 0.2623, n_act, B, A), ls.cpd2(ls.n(D, 0.2623, C), M, n_act, A))
    assert found["cycles"] == pytest.approx(cycles(cpd), rel=1e-12)
    assert found["regime"] == ls.REGIMES[f"luo_suda_type{kind}"]
    if kind == 3:
        assert found["mpd"] == (1 if variant == "printed" else 11)


@pytest.mark.parametrize(
    ("period", "bound"),
    [
        # 32 x 220 / 7.5 cycles of computation, which cover almost all of both waits.
        (dict(c_i=(220.0,), m_i=(1000.0,), c_previous=(220.0,), m_previous=(1000.0,)), "compute"),
        (dict(c_i=(2.0,), m_i=(2600.0,), c_previous=(1.0,), m_previous=(200.0,)), "latency"),
        (dict(c_i=(2.0,), m_i=(200.0,), c_previous=(2.0,), m_previous=(200.0,)), "memory"),
    ],
)
def test_bound__what_takes_most_of_the_time(period, bound):
    found = body("revised", **period)
    assert found["regime"] == ls.REGIMES["luo_suda_type4"]
    assert found["bound"] == BOUND[bound]


def test_sequence__of_any_length_is_the_sum_over_its_periods():
    rng = np.random.default_rng(7)
    given = {name: rng.uniform(1, 300, 40) for name in ("c_i", "m_i")}
    given |= {f"{name[0]}_previous": np.r_[0.0, values[:-1]] for name, values in given.items()}
    given |= {"d_mem": np.full(40, 4.0), "n_trans": np.full(40, 2.0), "weight": np.ones(40)}
    given["moved_previous"] = 4 * given["m_previous"]

    def total(index):
        return body(n_act=16.0, **{name: tuple(v[index]) for name, v in given.items()})["cycles"]

    parts = sum(total(slice(i, i + 1)) for i in range(40))
    assert total(slice(None)) == pytest.approx(parts, rel=1e-12)


def test_equation_14__accuracy():
    assert ls.accuracy(2.0, 3.0) == ls.accuracy(3.0, 2.0) == 2 / 3
    assert ls.accuracy(5.0, 5.0) == 1.0


@pytest.mark.parametrize(("name", "p"), TABLE_3.items())
def test_table_3__kernel_files_have_the_printed_proportions(name, p):
    plan = Plan(["luo_suda_" + name.replace("-", "_")], ["gtx_260"], ["luo_suda"])
    work = build_workload(build_launch(resolve(plan).kernels[0]), ls.MODEL, {})
    assert np.unique(ls.MODEL.prepare(work, "corrected")["p"]) == pytest.approx(p, abs=5e-5)

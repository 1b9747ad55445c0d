"""Wang & Chu 2017: what each erratum breaks as printed, and that the correction mends it.

WC-3, a fact about Table II, is in ``test_wang_chu_2017.py``. The last part goes through kernel and
device files: the option ``dram_latency`` and the scaling behaviour of Figure 2.
"""

import re

import numpy as np
import pytest
from support import golden
from support.calling import call, digits, evaluated, exact

import sweep.models.wang_chu_2017 as wc
from sweep.fields import STATUS
from sweep.specs import load_device, load_kernel

GOLDEN, ROUND = golden.columns("wang_chu_2017"), golden.ROUND


def both(inputs, variants=("printed", "corrected"), **changed):
    """Return the results of two variants."""
    given = {"uses_fit": 0} | inputs | changed
    return tuple(call(wc, variant, given) for variant in variants)


REVISED = ("corrected", "revised")


def test_wc1__saturated_memory_and_few_warps():
    printed, corrected = both(ROUND, comp_inst=5)[0], both(ROUND, comp_inst=6 * 5)[1]
    service = 10 * 64 * 6  # DRAM alone needs this for all transactions of a round
    assert (printed["regime"], corrected["regime"]) == ("eq13", "eq11")
    assert printed["round_cycles"] == 640 + 505 + 505 * 5 < service
    assert corrected["round_cycles"] == 505 + service
    printed, corrected = both(ROUND, comp_inst=5, aw=8)[0], both(ROUND, comp_inst=30, aw=8)[1]
    alone = 6 * (5 + 500)  # one warp's own six periods
    assert (printed["regime"], corrected["regime"]) == ("eq11", "eq13")
    assert printed["round_cycles"] == 505 + 10 * 4 * 6 < alone
    assert corrected["round_cycles"] == 10 * 8 + alone


def test_wc2__regimes_meet_at_their_border_with_all_active_warps():
    aw, wpb = 51.5, 4.0  # 5 + 500 = 10 x (51.5 - 1)
    few = wc.t_active_13(10.0, aw, 500.0, 5.0, 6.0)
    assert abs(wc.t_active_11(500.0, 5.0, 10.0, aw, 6.0) / few - 1) < 1 / aw
    assert wc.t_active_11(500.0, 5.0, 10.0, wpb, 6.0) / few < 0.25
    _, corrected = both(ROUND, comp_inst=6 * 5, aw=aw)
    assert corrected["round_cycles"] == 505 + 10 * aw * 6
    # As the saturated memory of (3).
    all_requests = wc.t_lat_saturated(500.0, 10.0, 6.0, 64.0)
    assert wc.t_active_11(500.0, 5.0, 10.0, 64.0, 6.0) == all_requests + 5


@pytest.mark.parametrize("uses_fit", [0, 1])  # the option decides, not the variant
def test_wc4__dram_is_not_faster_than_the_l2_cache(uses_fit):
    case = GOLDEN["compute_slow"]  # core at 400 MHz, memory at 1000 MHz, no hits
    assert case["frequency_ratio"] == 0.4
    latency = 222.78 * 0.4 + 277.32 if uses_fit else 500.1 * 0.4
    assert [r["memory_latency"] for r in both(case, uses_fit=uses_fit)] == [exact(latency)] * 2
    assert (latency > case["l2_lat"]) == uses_fit
    same = both(GOLDEN["compute"], uses_fit=uses_fit)  # at equal clocks
    assert [r["memory_latency"] for r in same] == [exact(500.1)] * 2


def test_wc5__a_throughput_where_warps_queue_and_a_latency_where_one_waits():
    # An SM of 128 lanes issues a warp instruction in a quarter of a cycle; its result takes four.
    lanes = {"issue_cycles": 0.25, "inst_latency": 4}
    printed, corrected = both(ROUND, **lanes, comp_inst=6000)
    issue = 0.25 * 6000 * 64
    assert (printed["regime"], corrected["regime"]) == ("eq9", "eq9")
    # Sixteen times by the latency, and six by the iterations, which (7a) leaves in (WC-6).
    assert printed["round_cycles"] == 16 * 6 * issue + 500
    assert corrected["round_cycles"] == issue + 500
    _, corrected = both(ROUND, **lanes, comp_inst=6 * 100, aw=4)
    assert corrected["regime"] == "eq15"
    assert corrected["round_cycles"] == 25 * 3 + (400 + 500) * 6


@pytest.mark.parametrize("case", ["memory", "uncoalesced"])
def test_wc6__every_sector_is_served(case):
    values = GOLDEN[case]
    sectors = values["gld_trans"] * values["o_itrs"]
    service = values["agl_del"] * values["aw"] * sectors
    printed, corrected = both(values)
    assert printed["round_cycles"] < service
    assert service < corrected["round_cycles"] < 1.1 * service


def test_wc6__equation_7a_divides_by_the_transactions_of_one_iteration():
    # 120 instructions of a warp in 6 iterations of 2 sectors: 60 a period as printed, else 10.
    printed, corrected = both(ROUND | {"gld_trans": 2, "comp_inst": 120})
    assert wc.avr_inst(120.0, 2.0) == 60
    assert (printed["computation_period"], corrected["computation_period"]) == (60, 10)
    # Printed: a period of each of 64 warps in each of 6 iterations. Corrected: 12 periods of 10
    # instructions in a warp, whose issue is as long as the service of their sectors.
    assert (printed["regime"], printed["round_cycles"]) == ("eq9", 60 * 64 * 6 + 500)
    assert (corrected["regime"], corrected["round_cycles"]) == ("eq9", 120 * 64 + 500)


def test_wc6__one_sector_a_request_is_as_printed_and_shared_memory_counts_all_iterations():
    for inputs in ({"comp_inst": 600}, {"comp_inst": 200, "aw": 20}):
        printed, _ = both(ROUND | inputs, comp_inst=inputs["comp_inst"] / 6)
        _, corrected = both(ROUND | inputs)
        assert printed["round_cycles"] == corrected["round_cycles"]
        assert printed["regime"] == corrected["regime"]
    case = ROUND | {"uses_shared": 1, "i_itrs": 1}
    printed, corrected = both(case, comp_inst=2)[0], both(case, comp_inst=12)[1]
    assert (printed["regime"], corrected["regime"]) == ("eq17", "eq17")
    assert printed["round_cycles"] == 2 + 500 + 10 * 64
    assert corrected["round_cycles"] == 2 + 500 + 10 * 64 * 6


def test_wc7__no_global_accesses():
    printed, corrected = both(GOLDEN["no_memory"])
    assert np.isnan(printed["execution_cycles"])
    assert corrected["regime"] == "no_memory"
    assert corrected["execution_cycles"] == 0.25 * 1000 * 32
    assert (corrected["core_activity"], corrected["memory_activity"]) == (0.5, 0)  # half a round


def test_wc8__at_least_one_round():
    case = GOLDEN["part_round"]
    assert case["rounds"] == 0.625  # 20 blocks on 16 SMs, two active
    printed, corrected = both(case)
    assert printed["execution_cycles"] == exact(0.625 * printed["round_cycles"])
    assert corrected["execution_cycles"] == corrected["round_cycles"]


def test_wc9__a_period_of_computation_is_not_spent_at_every_shared_access():
    # 100 instructions of a warp in each of 6 iterations, 40 shared accesses between them.
    case = ROUND | {"uses_shared": 1, "i_itrs": 40, "comp_inst": 600, "aw": 4}
    corrected, revised = both(case, REVISED)
    assert (corrected["regime"], revised["regime"]) == ("eq21", "eq21")
    phase1, phase3 = 200 + 10 * 4 + 530, 200 + 10 * 4 + 530
    assert corrected["round_cycles"] == phase1 + (300 + (100 + 30) * 40 + phase3) * 6
    assert revised["round_cycles"] == phase1 + (300 + 100 + 30 * 40 + phase3) * 6
    # Whether the same computation is interrupted often or rarely costs the accesses only.
    more = both(case | {"i_itrs": 80}, REVISED)
    assert more[0]["round_cycles"] - corrected["round_cycles"] == 40 * (30 + 100) * 6
    assert more[1]["round_cycles"] - revised["round_cycles"] == 40 * 30 * 6


def mended(c, d, cl, lat, aw):
    """Return what (8) to (14) choose, with the inequalities of WC-1."""
    if wc.is_compute_dominated(c, d, aw, lat):
        return "eq9"
    if wc.is_memory_saturated(c, d, cl, lat, aw):
        return "eq11"
    return "eq13" if wc.is_few_short(c, d, cl, lat, aw) else "eq15"


def test_wc10__higher_latency_is_not_faster():
    # c + lat = d (Aw - 1) at a latency of 605: (11) gives way to (13).
    before, after = (wc.t_active_11(604.0, 5.0, 10.0, 62.0, 6.0),
                     wc.t_active_13(10.0, 62.0, 606.0, 5.0, 6.0))  # fmt: skip
    assert mended(5.0, 10.0, 5.0, 604.0, 62.0) == "eq11"
    assert mended(5.0, 10.0, 5.0, 606.0, 62.0) == "eq13"
    assert after < before
    (low, first), (high, second) = (
        both(ROUND, REVISED, comp_inst=30, aw=62, dm_lat=lat) for lat in (604, 606)
    )
    assert (low["round_cycles"], high["round_cycles"]) == (before, after)
    assert first["round_cycles"] == before < second["round_cycles"]


def test_wc10__no_round_is_shorter_than_one_of_its_warps():
    # Two warps, each of 6 periods of 50 instructions with a latency of 16 issue cycles.
    case = ROUND | {"issue_cycles": 0.25, "inst_latency": 4, "comp_inst": 6 * 50, "aw": 2}
    case |= {"dm_lat": 12, "dm_del": 5}
    alone = 6 * (4 * 50 + 12)
    assert mended(12.5, 5.0, 200.0, 12.0, 2.0) == "eq9"
    assert wc.t_active_9(12.5, 2.0, 6.0, 12.0) < alone
    corrected, revised = both(case, REVISED)
    assert (corrected["regime"], revised["regime"]) == ("eq9", "eq15")
    assert corrected["round_cycles"] == 12.5 * 2 * 6 + 12 < alone
    assert revised["round_cycles"] == 12.5 + alone


@pytest.mark.parametrize("case", GOLDEN)
def test_wc10__away_from_the_borders_the_conditions_choose(case):
    values, found = GOLDEN[case], both(GOLDEN[case], REVISED, uses_fit=1)[1]
    if values["gld_trans"] and not values["uses_shared"]:
        c, d, cl = (values[f"corrected_{n}"] for n in ("avr_comp", "d", "latency_comp"))
        assert found["regime"] == mended(c, d, cl, values["corrected_agl_lat"], values["aw"])


def test_wc11__faster_memory_is_not_slower():
    # c + sh_lat = d (Aw - Wpb) at a service time of 8: (17) gives way to (21).
    case = ROUND | {"uses_shared": 1, "i_itrs": 16, "comp_inst": 12, "aw": 8}
    slow, fast = (both(case, REVISED, dm_del=d) for d in (8.001, 7.999))
    assert [found["regime"] for found in (slow[0], fast[0])] == ["eq17", "eq21"]
    assert fast[0]["round_cycles"] > 5 * slow[0]["round_cycles"]
    assert fast[1]["round_cycles"] <= slow[1]["round_cycles"]
    # Both sides of the border are (21), which meets itself there; (17) takes over further on.
    assert slow[1]["round_cycles"] == pytest.approx(fast[1]["round_cycles"], rel=1e-4)
    assert [found["regime"] for found in (slow[1], fast[1])] == ["eq21", "eq21"]
    assert both(case, REVISED, dm_del=500)[1]["regime"] == "eq17"


def test_wc11__no_round_is_shorter_than_its_issue_and_service():
    issue = {"uses_shared": 1, "i_itrs": 1, "comp_inst": 6 * 1000, "aw": 64}
    _, found = both(ROUND, REVISED, **issue)
    assert (found["regime"], found["round_cycles"]) == ("eq9", 6000 * 64 + 500)
    # Computation just above the service time: not (16), but the service of all is yet longer.
    service = {"issue_cycles": 0.25, "inst_latency": 4, "comp_inst": 6 * 40.4, "dm_lat": 50}
    corrected, found = both(ROUND, REVISED, **issue | service)
    assert (corrected["regime"], found["regime"]) == ("eq21", "eq17")
    assert found["round_cycles"] == exact(4 * 40.4 + 50 + 10 * 64 * 6)


# --- From files -----------------------------------------------------------------------------------

SAMPLES = {
    "vector_add": {"block_size": [256], "elements_per_thread": [1], "vector_width": [1]},
    "transpose": {"tile": [32], "block_rows": [16], "padding": [1], "tiles_per_block": [1]},
    "blackscholes": {"block_size": [128], "vector_width": [1], "grid_blocks_per_sm": [32]},
    "matrixmul_global": {"block_x": [32], "block_y": [32], "work_per_thread": [1], "unroll": [4]},
    "micro_coalesced": {"benchmark": [1], "block_size": [256]},
}


def sample(kernel, clocks, *, variant="corrected", latency="auto", lost=()):
    """Return a sample's results on the GTX 980, which may lose parameters, over both clocks."""
    text, own = load_device("gtx_980_paper").text, "|".join(lost)
    lines = (line for line in text.splitlines() if not re.search(rf"\b({own})\b", line))
    texts = {"kernels": {kernel: load_kernel(kernel).text},
             "devices": {"gtx_980_paper": "\n".join(lines) if lost else text}}  # fmt: skip
    return evaluated(
        kernel, "gtx_980_paper", "wang_chu", texts, variant=variant, axes=SAMPLES[kernel] | clocks,
        options={"wang_chu": {"dram_latency": latency}}, derive=False,
    )  # fmt: skip


SLOW = {"core_clock": [400], "memory_clock": [1000]}
FIT = ("dm_lat_slope_cycles", "dm_lat_intercept_cycles")
EQ4, EQ5A = 222.78 * 0.4 + 277.32, 500.1 * 0.4


@pytest.mark.parametrize(
    ("variant", "latency", "lost", "value"),
    [
        ("corrected", "auto", (), EQ4),
        ("printed", "auto", (), EQ5A),
        ("printed", "eq4", (), EQ4),
        ("corrected", "eq5a", (), EQ5A),
        ("corrected", "auto", FIT, EQ5A),  # without the fit
        ("printed", "auto", FIT, EQ5A),
        ("corrected", "auto", ("dm_lat_cycles",), EQ4),
        ("corrected", "eq5a", ("dm_lat_cycles",), EQ5A),  # 222.78 + 277.32 at equal clocks
    ],
)
def test_option_dram_latency(variant, latency, lost, value):
    found = sample("vector_add", SLOW, variant=variant, latency=latency, lost=lost)
    assert found["wang_chu_memory_latency"] == exact(value)


@pytest.mark.parametrize(("latency", "lost"), [("eq4", FIT), ("auto", (*FIT, "dm_lat_cycles"))])
def test_option_dram_latency__missing_parameters(latency, lost):
    found = sample("vector_add", SLOW, latency=latency, lost=lost)
    assert found["status"] == STATUS["missing_parameters"]
    assert np.isnan(found["execution_time"])


def test_wc7__from_the_kernel_file():
    for variant, status in (("corrected", "valid"), ("printed", "model_domain")):
        assert sample("micro_coalesced", SLOW, variant=variant)["status"] == STATUS[status]


def test_section6__49_settings():
    clocks = list(range(400, 1001, 100))
    found = sample("vector_add", {"core_clock": clocks, "memory_clock": clocks})
    assert found["status"].shape == (7, 7)
    assert not found["status"].any()


ENDS = {"core_clock": [400, 1000], "memory_clock": [400, 1000]}


@pytest.mark.parametrize("kernel", ["vector_add", "transpose", "blackscholes"])
def test_figure2__memory_kernels(kernel):
    # "Almost over 2.5x speedup by increasing 2.5x memory frequency", "core frequency has little
    # effects"; more than 2.5 because DRAM is used better at higher clocks, 10.06 / 9.0 (Table III).
    time = sample(kernel, ENDS)["execution_time"]
    assert (time[:, 0] / time[:, 1] >= 2.5).all()
    assert (time[:, 0] / time[:, 1] <= 2.5 * 10.06 / 9.0).all()
    assert (time[0] / time[1] < 1.07).all()


def test_figure2__matrix_product_from_global_memory():
    time = sample("matrixmul_global", ENDS)["execution_time"]
    (slow, fast_memory), (fast_core, _) = time
    assert slow / fast_memory < 1.02  # "negligible speedup"
    assert 2.25 < slow / fast_core <= 2.5


def test_section6__l2_hit_rate_of_the_matrix_product():
    found = sample("matrixmul_global", {"core_clock": [700], "memory_clock": [700]})
    # agl_lat = 222 l2_hr + 500.1 (1 - l2_hr); 97.5% was measured, of matrices of 1024 rows.
    hits = (500.1 - found["wang_chu_memory_latency"]) / (500.1 - 222)
    assert hits == digits(0.975, 0.005)
    assert load_kernel("matrixmul_global").sizes["n"] == 1024

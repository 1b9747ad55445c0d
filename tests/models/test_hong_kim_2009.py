"""Hong & Kim 2009: every printed number, every equation, every regime.

Its errata are in ``test_hong_kim_2009_errata.py``.

Constants bear the paper's symbols. A tolerance is half a unit of the last printed digit, unless an
ERRATA comment says why it is not. ``golden/hong_kim_2009.csv`` holds all intermediates in exact
arithmetic.
"""

import pytest
from support import golden
from support.calling import call, digits, exact
from support.golden import make_golden

import sweep.models.hong_kim_2009 as hk
from sweep.fields import BOUND, VARIANTS
from sweep.models.base import EquationInfo

GOLDEN = golden.columns("hong_kim_2009")
EQUATIONS = {
    name: f for name, f in vars(hk).items() if isinstance(getattr(f, "info", None), EquationInfo)
}
QUANTITY = {"active_warps": "n"}  # where the golden quantity is not named as the equation is


def run(variant, inputs):
    return call(hk, variant, inputs)


# --- Table 2: the model applied to Figure 12 ------------------------------------------------------

FIGURE12 = GOLDEN["figure12"]  # to which test_equations__golden holds each equation
PRINTED = {
    "n": (20, 1), "weight_uncoal": (1, 1), "weight_coal": (0, 1), "departure_delay": (320, 1),
    "mem_l_uncoal": (730, 1), "mem_l": (730, 1), "mwp_without_bw_full": (2.28, 0.01),
    "bw_per_warp": (0.175e9, 0.001e9), "mwp": (2.28, 0.01), "comp_cycles": (132, 1),
    "mem_cycles": (4380, 1), "cwp_full": (34.18, 0.01), "cwp": (20, 1), "rep": (1, 1),
}  # fmt: skip
Departure_delay, Mem_L, N, Rep, Comp_cycles, Mem_cycles = 320.0, 730.0, 20.0, 1.0, 132.0, 4380.0
MWP, Uncoal_Mem_insts, Active_SMs = 2.28125, 6.0, 16.0
Exec_cycles_app, Synch_cost, Final_Time = 38428.1875, 12300.0, 50728.1875


@pytest.mark.parametrize("quantity", PRINTED)
def test_table2_intermediates(quantity):
    assert FIGURE12[quantity] == digits(*PRINTED[quantity])


def test_table2_mwp_peak_bw():
    bw_per_warp = hk.bw_per_warp(1e9, 128.0, Mem_L)
    assert hk.mwp_peak_bw(80e9, bw_per_warp, Active_SMs) == exact(28.515625)
    # ERRATA: the paper prints 28.57, from the bandwidth of a warp rounded to 0.175 GB/s.
    assert hk.mwp_peak_bw(80e9, 0.175e9, Active_SMs) == digits(28.57, 0.01)


def test_table2_times__printed_from_rounded_numbers():
    comp_p = Comp_cycles / Uncoal_Mem_insts
    assert hk.comp_p(Comp_cycles, Uncoal_Mem_insts) == comp_p
    app, rounded = (
        hk.exec_cycles_app_23(Mem_cycles, N, mwp, Comp_cycles, Uncoal_Mem_insts, mwp - 1.0, Rep)
        for mwp in (MWP, 2.28)
    )
    assert app == exact(Exec_cycles_app)
    # ERRATA: printed 38450, for which MWP is rounded to 2.28; the formula then gives 38449.2.
    assert rounded == digits(38449.2, 0.1)
    assert rounded == pytest.approx(38450, abs=1)
    # (1) has Comp_p x MWP, (23) Comp_p x (MWP - 1): Table 2 goes by the latter.
    assert hk.exec_cycles_cwp_greater(Mem_cycles, N, 2.28, comp_p) - rounded == exact(comp_p)
    assert hk.synch_cost(Departure_delay, MWP - 1, 6.0, 5.0, Rep) == exact(Synch_cost)
    # ERRATA: printed 12288, with MWP rounded to 2.28.
    assert hk.synch_cost(Departure_delay, 2.28 - 1, 6.0, 5.0, Rep) == digits(12288, 1)
    assert hk.exec_cycles_with_synch(Exec_cycles_app, Synch_cost) == exact(Final_Time)
    total = hk.exec_cycles_with_synch(38449.2, 12288.0)
    assert total == digits(50737.2, 0.1)
    assert total == pytest.approx(50738, abs=1)  # ERRATA: printed from 38450


def test_table2_whole_model():
    # test_model__golden holds every variant to these.
    for variant in VARIANTS:
        assert FIGURE12[f"{variant}_total"] == Final_Time
        assert FIGURE12[f"{variant}_synch_cost"] == Synch_cost  # HK-2: (26) is kept as printed
        assert FIGURE12[f"{variant}_regime"] == hk.REGIMES["hong_kim_eq23"]  # "CWP is greater"
    assert (FIGURE12["mwp"], FIGURE12["cwp"]) == (MWP, N)


def test_section32__cases():
    # One computation period is 1, one memory period 3 (Figures 5 to 8).
    assert hk.exec_cycles_cwp_greater(3.0, 8.0, 2.0, 1.0) == 14  # 1: 8 warps of one period each
    assert hk.exec_cycles_cwp_greater(6.0, 4.0, 2.0, 1.0) == 14  # 2: 4 warps of two periods each
    assert hk.exec_cycles_mwp_greater(3.0, 1.0, 8.0) == 11  # 3
    assert hk.exec_cycles_mwp_greater(3.0, 2.0, 4.0) == 11  # 4
    # 5: computation longer than memory; "the total execution cycles are the same".
    assert hk.exec_cycles_mwp_greater(1.0, 1.0, 8.0) == 8 + 1
    assert hk.exec_cycles_few_warps(3.0, 1.0, 1.0, 1.0, 1.0) == 4  # 6
    assert hk.rep(40.0, 2.0, 4.0) == 5  # Section 3.4.1


# --- Every equation and the whole model against exact arithmetic ----------------------------------


def test_golden__file_is_of_its_program():
    assert golden.stored("hong_kim_2009.csv") == make_golden.golden()["hong_kim_2009.csv"]


# Equations with the cases that have a value for the result and for every argument.
COMPUTABLE = [
    (name, case)
    for name, equation in EQUATIONS.items()
    for case, values in GOLDEN.items()
    if {QUANTITY.get(name, name), *equation.info.arguments} <= set(values)
]


@pytest.mark.parametrize(("name", "case"), COMPUTABLE)
def test_equations__golden(name, case):
    values, equation = GOLDEN[case], EQUATIONS[name]
    result = equation(*(values[argument] for argument in equation.info.arguments))
    assert result == exact(values[QUANTITY.get(name, name)])


def test_equations__all_have_golden_values():
    conditions = {name for name, f in EQUATIONS.items() if f.info.kind == "condition"}
    assert {name for name, _ in COMPUTABLE} == set(EQUATIONS) - conditions


@pytest.mark.parametrize("case", GOLDEN)
@pytest.mark.parametrize("variant", VARIANTS)
def test_model__golden(variant, case):
    values, found = GOLDEN[case], run(variant, GOLDEN[case])
    assert hk.REGIMES[f"hong_kim_{found['regime']}"] == values[f"{variant}_regime"]
    assert found["execution_cycles"] == exact(values[f"{variant}_total"])
    assert found["cycles_per_instruction"] == exact(values[f"{variant}_cpi"])
    assert found["synchronisation_cycles"] == exact(values[f"{variant}_synch_cost"])
    if values["mem_insts"]:
        assert found["memory_warp_parallelism"] == exact(values["mwp"])
        assert found["computation_warp_parallelism"] == exact(values["cwp"])
    rounds = values["rep"] if variant == "printed" else max(1.0, values["rep"])
    assert found["rounds"] == exact(rounds)


# --- Which equation applies -----------------------------------------------------------------------


def test_equation22__needs_both():
    assert hk.is_few_warps(8.0, 8.0, 8.0)
    assert not hk.is_few_warps(8.0, 8.0, 7.5)
    assert not hk.is_few_warps(7.5, 8.0, 8.0)


def test_equation23__condition_as_printed():
    assert hk.is_memory_bound(8.0, 8.0, 1.0, 2.0)
    assert hk.is_memory_bound(1.42, 8.0, 10000.0, 4200.0)  # the second clause
    assert not hk.is_memory_bound(7.0, 8.0, 2.0, 2.0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_regimes__and_what_bounds_them(variant):
    cases = {"few_warps": ("eq22", "latency"), "sepia": ("eq23", "memory"),
             "svm": ("eq24", "compute"), "mb1": ("no_memory", "compute")}  # fmt: skip
    for case, (regime, bound) in cases.items():
        found = run(variant, GOLDEN[case])
        assert (found["regime"], found["bound"]) == (regime, BOUND[bound])


def test_bound__synchronisation_when_barriers_cost_more_than_the_rest():
    found = run("corrected", GOLDEN["figure12"] | {"synch_insts": 30})
    assert found["synchronisation_cycles"] > found["execution_cycles"] / 2
    assert found["bound"] == BOUND["synchronisation"]


def test_equations23_and_24__same_time_is_23():
    # MWP 2 and four warps of one access: 2 x 384 + 128 = 384 + 4 x 128.
    tie = {"mem_ld": 384, "departure_del_coal": 192, "comp_insts": 31, "coal_mem_insts": 1}
    inputs = GOLDEN["hk1"] | tie | {"threads_per_block": 64, "n": 4}
    found = run("corrected", inputs)
    assert (found["memory_warp_parallelism"], found["regime"]) == (2, "eq23")
    assert found["execution_cycles"] == 896


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_memory_instructions__issue_alone(variant):
    # Mb1 of Table 4; the guard is ours. Barriers cost nothing without memory warps.
    found = run(variant, GOLDEN["mb1"] | {"synch_insts": 7})
    assert found["execution_cycles"] == 4 * 23000 * 24 * 1920 / (6 * 16)
    assert found["synchronisation_cycles"] == 0
    assert found["memory_activity"] == 0
    assert found["core_activity"] == 1

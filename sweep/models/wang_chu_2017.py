"""Wang & Chu 2017: execution time under core and memory frequency scaling.

Q. Wang and X. Chu, "GPGPU Performance Estimation with Core and Memory Frequency Scaling",
arXiv:1701.05308 (2017); journal version IEEE TPDS 31(12), 2020, doi:10.1109/TPDS.2020.3004623.

Scope: kernels whose warps alternate computation and global memory transactions, with or without
shared memory; DRAM runs on the memory clock, everything else on the core clock (Table I). Cycles
are core cycles. A transaction, which the paper leaves open, is a 32-byte sector, as profilers count
them. Equation (1) is in :mod:`sweep.hardware.clocks`.

Errata (``corrected`` applies them, ``printed`` does not):

WC-1  (10b) and (12b) have their inequalities exchanged: memory is saturated when the other warps'
      service time covers a warp's own round trip, as (16b), the same situation with shared
      memory, is printed.
WC-2  (11) has #Wpb where (3) and (17) have all active warps #Aw.
WC-3  Table II's core-frequency column repeats the memory one; (4) reproduces its latencies only
      with the core at 400 MHz (a fact about data: no equation changes).
WC-4  (5a) scales the whole DRAM latency with core_f/mem_f, (4), which was fitted to measurements,
      only part of it. Option ``dram_latency``: "eq4" takes (4) without a further factor, "eq5a" the
      printed form; "auto" is eq4 in corrected where the device has the fit, else eq5a.
WC-5  inst_cycle is a throughput in (9) and a latency in (13) and (15): corrected keeps
      issue cycles and instruction latency apart; printed has the latency (Table IV) everywhere.
WC-6  (9) to (15) repeat "one computation period and one global memory transaction", while
      gld_trans counts sectors of one iteration, and comp_inst instructions of all, which (7a)
      divides by it. corrected has p = gld_trans x o_itrs / k periods of k sectors each, k sectors
      being one request, with d = k x agl_del and comp_inst/p instructions in each.
WC-7  A kernel without global accesses divides by zero in (7a): corrected takes
      inst_cycle x comp_inst x #Aw (ours); printed has no time.
WC-8  Rounds below 1 in (6), for a grid that does not fill the GPU: corrected takes at least 1.

Revisions, which make another model of it (``revised`` applies them and the errata):

WC-9  (19) takes the computation between two global requests i_itrs times, once for each shared
      transaction. revised takes the computation of one iteration, however many shared
      transactions are in between.
WC-10 (9) to (15) do not meet at their borders: with a higher latency (13) takes over from (11) and
      is faster, with a higher core clock (11) and (15) take over from (9) and are slower, and (9)
      can be shorter than one of its warps takes alone. revised takes the largest of the four,
      which is what (8) to (14) choose away from their borders, with the inequalities of WC-1.
WC-11 (17) and (21) do not meet at the border (16): with faster memory (21) takes over and is
      slower. (17) can be shorter than the phases of a block, (21) than the issue of all warps and
      than their service. revised takes the largest of (9), (17) and (21); (21) with a service
      time no longer than at the border, as beyond it the memory traffic hides the phases.

``core_f/mem_f`` in (4) to (5b) is relative to the ratio at which the device's latency and delay
were measured, so that nothing changes at its nominal clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.fields import Field
from sweep.hardware import derived
from sweep.hardware.l2_rates import l2_latency, l2_service
from sweep.models.base import Input, Model, Symbol, equations, regimes, symbols_of
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, SHARED, of_device, parameter, provided
from sweep.models.workload import Array, Workload, mean, total

INPUTS = (
    provided("aw", "#Aw", "active warps on an SM", "active_warps_per_sm"),
    provided("wpb", "#Wpb", "warps of a block", "warps_per_block"),
    provided("blocks", "#B", "blocks of the grid"),
    provided("n_sm", "#SM", "SMs of the GPU"),
    provided("active_sm", "#Asm", "SMs that have work"),
    provided("comp_inst", "comp_inst", "computation instructions of a warp",
             "computation_instructions"),
    Input("gld_trans", "gld_trans", "1", "global transactions of a warp in one iteration",
          "kernel access patterns, 32-byte sectors of a warp an iteration"),
    provided("o_itrs", "o_itrs", "iterations of the first level", "outer_iterations"),
    provided("i_itrs", "i_itrs", "shared memory transactions of phase 2", "inner_iterations"),
    Input("transactions_per_request", "k", "1", "transactions of one request of a warp",
          "kernel access patterns, mean sectors of a request"),
    provided("l2_hr", "l2_hr", "L2 hit rate of all transactions", "l2_hit_rate"),
    Input("uses_shared", "shared", "1", "1 if the kernel uses shared memory",
          "kernel shared accesses"),
    of_device("issue_cycles", "inst_cycle (issue)", "cycle", "issue cycles of an instruction"),
    of_device("inst_latency", "inst_cycle (latency)", "cycle", "latency of an instruction",
              "inst_latency_cycles"),
    Input("sh_lat", "sh_lat", "cycle", "shared memory latency", "device", ("sh_lat_cycles",)),
    of_device("l2_lat", "l2_lat", "cycle", "L2 latency", "l2_lat_cycles"),
    of_device("l2_del", "l2_del", "cycle", "L2 service time of a transaction", "l2_del_cycles"),
    Input("dm_lat", "dm_lat", "cycle", "DRAM latency of a transaction without contention",
          "device", ("dm_lat_cycles",)),
    Input("dm_lat_slope", "222.78", "cycle", "DRAM share of the latency's fit", "device",
          ("dm_lat_slope_cycles",)),
    Input("dm_lat_intercept", "277.32", "cycle", "on-chip share of the latency's fit", "device",
          ("dm_lat_intercept_cycles",)),
    Input("uses_fit", "eq4", "1", "1 if (4) gives the DRAM latency",
          "option dram_latency and the device's fit"),
    Input("dm_del", "dm_del", "cycle", "service time of one DRAM transaction",
          "device, at the memory clock", ("dm_del_table",), clocked=True),
    provided("frequency_ratio", "core_f/mem_f", "core over memory clock, relative to nominal",
             "clock_ratio"),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "inter_arr": Symbol("interArr", "cycle", "time between two memory requests"),
    "w": Symbol("#W", "1", "warps"),
    "t_lat": Symbol("T_lat", "cycle", "time of all memory requests"),
    "t_active": Symbol("T_active", "cycle", "time of one round of active warps on an SM"),
    "rounds": Symbol("#Wpb*#B/(#Aw*#SM)", "1", "rounds of active warps"),
    "inst_cycle": Symbol("inst_cycle", "cycle", "cycles of a computation instruction"),
    "latency_comp": Symbol("avr_comp (latency)", "cycle", "computation time of a lone warp"),
    "periods": Symbol("periods", "1", "requests of a warp in one iteration"),
    "border_del": Symbol("agl_del (16)", "cycle", "service time at the border of (16)"),
    "core_freq": Symbol("core_f", "Hz", "core clock"),
}
_equation = equations("wang_chu", SYMBOLS)

# --- Section IV: memory ---------------------------------------------------------------------------


@_equation("2", "t_lat")
def t_lat_infrequent(inter_arr, w, dm_lat, gld_trans):
    """Time of all memory requests when they do not queue."""
    return inter_arr * w + dm_lat * gld_trans


@_equation("3", "t_lat")
def t_lat_saturated(dm_lat, dm_del, gld_trans, w):
    """Time of all memory requests when DRAM is saturated."""
    return dm_lat + dm_del * gld_trans * w


@_equation("4", "dm_lat")
def dm_lat_fit(dm_lat_slope, frequency_ratio, dm_lat_intercept):
    """DRAM latency as fitted to measurements on the GTX 980 (R^2 0.9959)."""
    return dm_lat_slope * frequency_ratio + dm_lat_intercept


@_equation("5a", "agl_lat", "cycle", "mean latency of a global transaction")
def agl_lat(l2_lat, l2_hr, dm_lat, frequency_ratio):
    """Mean latency of a global transaction."""
    return l2_lat * l2_hr + dm_lat * frequency_ratio * (1.0 - l2_hr)


@_equation("5b", "agl_del", "cycle", "mean service time of a global transaction")
def agl_del(l2_del, l2_hr, dm_del, frequency_ratio):
    """Mean service time of a global transaction."""
    return l2_del * l2_hr + dm_del * frequency_ratio * (1.0 - l2_hr)


# --- Section V: execution time --------------------------------------------------------------------


@_equation("6", "T_exec", "cycle", "execution time of the kernel")
def t_exec(t_active, rounds):
    """Execution time: rounds of active warps."""
    return t_active * rounds


@_equation("6", "rounds")
def rounds(wpb, blocks, aw, n_sm):
    """Rounds of active warps: the factor of T_active."""
    return wpb * blocks / (aw * n_sm)


@_equation("7a", "avr_inst", "1", "computation instructions before a transaction")
def avr_inst(comp_inst, gld_trans):
    """Computation instructions before each global transaction."""
    return comp_inst / gld_trans


@_equation("7b", "avr_comp", "cycle", "computation time before a transaction")
def avr_comp(inst_cycle, avr_inst):
    """Computation time before each global transaction."""
    return inst_cycle * avr_inst


@_equation("8", kind="condition")
def is_compute_dominated(avr_comp, agl_del, aw, agl_lat):
    """Computation hides the memory latency."""
    return (avr_comp >= agl_del) and (avr_comp * (aw - 1.0) >= agl_lat)


@_equation("9", "t_active")
def t_active_9(avr_comp, aw, o_itrs, agl_lat):
    """Compute-dominated."""
    return avr_comp * aw * o_itrs + agl_lat


@_equation("10 as printed", kind="condition")
def is_memory_saturated_printed(avr_comp, agl_del, agl_lat, aw):
    """Memory is saturated, with the inequality of (10b) as printed (WC-1)."""
    return (avr_comp <= agl_del) and (avr_comp + agl_lat >= agl_del * (aw - 1.0))


@_equation("10", kind="condition")
def is_memory_saturated(avr_comp, agl_del, latency_comp, agl_lat, aw):
    """Memory is saturated: the other warps' service time covers a warp's own round trip (WC-1)."""
    return (avr_comp <= agl_del) and (latency_comp + agl_lat <= agl_del * (aw - 1.0))


@_equation("11", "t_active")
def t_active_11(agl_lat, avr_comp, agl_del, w, o_itrs):
    """Memory-dominated; ``w`` is #Wpb as printed, #Aw corrected (WC-2)."""
    return agl_lat + avr_comp + agl_del * w * o_itrs


@_equation("12 as printed", kind="condition")
def is_few_short_printed(avr_comp, agl_del, agl_lat, aw):
    """Few warps, short computation, with the inequality of (12b) as printed (WC-1)."""
    return (avr_comp <= agl_del) and (avr_comp + agl_lat <= agl_del * (aw - 1.0))


@_equation("12", kind="condition")
def is_few_short(avr_comp, agl_del, latency_comp, agl_lat, aw):
    """Few warps, short computation: only a warp's first request waits (WC-1)."""
    return (avr_comp <= agl_del) and (latency_comp + agl_lat >= agl_del * (aw - 1.0))


@_equation("13", "t_active")
def t_active_13(agl_del, aw, agl_lat, avr_comp, o_itrs):
    """Few warps with short computation periods."""
    return agl_del * aw + agl_lat + avr_comp + (avr_comp + agl_lat) * (o_itrs - 1.0)


@_equation("14", kind="condition")
def is_few_long(avr_comp, agl_del, aw, agl_lat):
    """Few warps, long computation: what remains when (8), (10) and (12) do not hold."""
    return (avr_comp >= agl_del) and (avr_comp * (aw - 1.0) <= agl_lat)


@_equation("15", "t_active")
def t_active_15(avr_comp, aw, latency_comp, agl_lat, o_itrs):
    """Few warps with long computation periods, the case (14) that remains."""
    return avr_comp * (aw - 1.0) + (latency_comp + agl_lat) * o_itrs


@_equation("16", kind="condition")
def is_shared_infrequent(avr_comp, agl_del, sh_lat, aw, wpb):
    """Shared memory requests are infrequent: the memory traffic hides them."""
    return (avr_comp <= agl_del) and (avr_comp + sh_lat <= agl_del * (aw - wpb))


@_equation("16 revised", "border_del")
def border_del(avr_comp, sh_lat, aw, wpb):
    """Service time from which on shared memory requests are infrequent (WC-11)."""
    return max(avr_comp, (avr_comp + sh_lat) / (aw - wpb))


@_equation("17", "t_active")
def t_active_17(latency_comp, agl_lat, agl_del, aw, gld_trans):
    """Infrequent shared memory requests."""
    return latency_comp + agl_lat + agl_del * aw * gld_trans


@_equation("18", "T_phase1", "cycle", "first load, all warps contending")
def t_phase1(avr_comp, agl_del, gld_trans, aw, agl_lat, sh_lat):
    """Phase 1: all active warps load."""
    return avr_comp * 2.0 + agl_del * gld_trans * aw + agl_lat + sh_lat


@_equation("19", "T_phase2", "cycle", "work in shared memory")
def t_phase2(avr_comp, wpb, latency_comp, sh_lat, i_itrs):
    """Phase 2: a block works in shared memory, a whole period each time (WC-9)."""
    return avr_comp * (wpb - 1.0) + (latency_comp + sh_lat) * i_itrs


@_equation("19 revised", "t_phase2")
def t_phase2_revised(avr_comp, wpb, latency_comp, periods, sh_lat, i_itrs):
    """Phase 2: a block works in shared memory, its computation once (WC-9)."""
    return avr_comp * (wpb - 1.0) + latency_comp * periods + sh_lat * i_itrs


@_equation("20", "T_phase3", "cycle", "load of a block while others compute")
def t_phase3(avr_comp, agl_del, gld_trans, wpb, agl_lat, sh_lat):
    """Phase 3: a block loads while others compute."""
    return avr_comp * 2.0 + agl_del * gld_trans * wpb + agl_lat + sh_lat


@_equation("21", "t_active")
def t_active_21(t_phase1, t_phase2, t_phase3, o_itrs):
    """Intensive shared memory requests."""
    return t_phase1 + (t_phase2 + t_phase3) * o_itrs


@_equation("guard", "t_active")
def t_active_no_memory(issue_cycles, comp_inst, aw):
    """No global accesses: the issue of all warps (WC-7, ours)."""
    return issue_cycles * comp_inst * aw


# --- The model -----------------------------------------------------------------------------------

REGIMES = regimes("wang_chu", 20, "eq9", "eq11", "eq13", "eq15", "eq17", "eq21", "no_memory")
EQ9, EQ11, EQ13, EQ15, EQ17, EQ21, NO_MEMORY = map(float, REGIMES.values())


def printed_round(
    aw, wpb, comp_inst, gld_trans, o_itrs, i_itrs, inst_latency, sh_lat, lat, delay, shared,
    no_memory,
):  # fmt: skip
    """Join (7) to (21) as the paper has them."""
    c = avr_comp(inst_latency, avr_inst(comp_inst, gld_trans))
    compute = is_compute_dominated(c, delay, aw, lat)
    saturated = is_memory_saturated_printed(c, delay, lat, aw)
    few_short = is_few_short_printed(c, delay, lat, aw)
    T = t_active_9(c, aw, o_itrs, lat) if compute else (
        t_active_11(lat, c, delay, wpb, o_itrs) if saturated else (
            t_active_13(delay, aw, lat, c, o_itrs) if few_short
            else t_active_15(c, aw, c, lat, o_itrs)))  # fmt: skip
    regime = EQ9 if compute else (EQ11 if saturated else (EQ13 if few_short else EQ15))
    bound = COMPUTE if compute else (MEMORY if saturated else LATENCY)
    infrequent = is_shared_infrequent(c, delay, sh_lat, aw, wpb)
    Tphase1 = t_phase1(c, delay, gld_trans, aw, lat, sh_lat)
    Tphase2 = t_phase2(c, wpb, c, sh_lat, i_itrs)
    Tphase3 = t_phase3(c, delay, gld_trans, wpb, lat, sh_lat)
    T17 = t_active_17(c, lat, delay, aw, gld_trans)
    T21 = t_active_21(Tphase1, Tphase2, Tphase3, o_itrs)
    T = (T17 if infrequent else T21) if shared else T
    regime = (EQ17 if infrequent else EQ21) if shared else regime
    bound = (MEMORY if infrequent else SHARED) if shared else bound
    T = np.nan if no_memory else T
    return T, c, regime, bound


def corrected_round(
    aw, wpb, comp_inst, gld_trans, o_itrs, i_itrs, k, sectors, issue_cycles, inst_latency, sh_lat,
    lat, delay, shared, no_memory, revised,
):  # fmt: skip
    """Join (7) to (21), with the errata applied, and the revisions."""
    periods = sectors / k  # WC-5, WC-6
    d = k * delay  # WC-5, WC-6
    per_period = avr_inst(comp_inst, periods)  # WC-5, WC-6
    c = avr_comp(issue_cycles, per_period)  # WC-5, WC-6
    cl = avr_comp(inst_latency, per_period)  # WC-5, WC-6
    T9 = t_active_9(c, aw, periods, lat)  # WC-5, WC-6
    T11 = t_active_11(lat, cl, d, aw, periods)  # WC-2
    T13 = t_active_13(d, aw, lat, cl, periods)  # WC-5, WC-6
    T15 = t_active_15(c, aw, cl, lat, periods)  # WC-5, WC-6
    T17 = t_active_17(cl, lat, delay, aw, sectors)  # WC-5, WC-6
    if revised:
        border = border_del(c, sh_lat, aw, wpb)  # WC-11
        served = delay if d <= border else border / k  # WC-11
    else:
        served = delay
    Tphase1 = t_phase1(c, served, gld_trans, aw, lat, sh_lat)  # WC-5, WC-6
    if revised:
        Tphase2 = t_phase2_revised(c, wpb, cl, gld_trans / k, sh_lat, i_itrs)  # WC-9
    else:
        Tphase2 = t_phase2(c, wpb, cl, sh_lat, i_itrs)  # WC-5
    Tphase3 = t_phase3(c, served, gld_trans, wpb, lat, sh_lat)  # WC-5, WC-6
    T21 = t_active_21(Tphase1, Tphase2, Tphase3, o_itrs)  # WC-5, WC-6
    second = T17 if shared else T11
    if revised:
        third = T21 if shared else max(T13, T15)  # WC-10
        T = max(T9, max(second, third))  # WC-10, WC-11
        compute = T9 >= T  # WC-10, WC-11
        memory = second >= T  # WC-10, WC-11
        few_short = T13 >= T15  # WC-10
    else:
        compute = (not shared) and is_compute_dominated(c, d, aw, lat)
        infrequent = is_shared_infrequent(c, d, sh_lat, aw, wpb)
        saturated = is_memory_saturated(c, d, cl, lat, aw)  # WC-1
        few_short = is_few_short(c, d, cl, lat, aw)  # WC-1
        memory = infrequent if shared else saturated
        third = T21 if shared else (T13 if few_short else T15)
        T = T9 if compute else (second if memory else third)
    few = EQ13 if few_short else EQ15
    regime = EQ9 if compute else (
        (EQ17 if shared else EQ11) if memory else (EQ21 if shared else few))  # fmt: skip
    bound = COMPUTE if compute else (
        MEMORY if memory else (SHARED if shared else LATENCY))  # fmt: skip
    T = t_active_no_memory(issue_cycles, comp_inst, aw) if no_memory else T  # WC-7
    regime = NO_MEMORY if no_memory else regime
    bound = COMPUTE if no_memory else bound
    return T, c, regime, bound


def body(
    aw, wpb, blocks, n_sm, active_sm, comp_inst, gld_trans, o_itrs, i_itrs,
    transactions_per_request, l2_hr, uses_shared, issue_cycles, inst_latency, sh_lat, l2_lat,
    l2_del, dm_lat, dm_lat_slope, dm_lat_intercept, uses_fit, dm_del, frequency_ratio, corrected,
    revised,
):  # fmt: skip
    """Join the equations."""
    # (4) has the clock ratio inside; (5a) then takes it without a further factor (WC-4).
    fit = dm_lat_fit(dm_lat_slope, frequency_ratio, dm_lat_intercept)
    latency = fit if uses_fit == 1.0 else dm_lat
    scale = 1.0 if uses_fit == 1.0 else frequency_ratio
    lat = agl_lat(l2_lat, l2_hr, latency, scale)
    delay = agl_del(l2_del, l2_hr, dm_del, frequency_ratio)
    sectors = gld_trans * o_itrs
    no_memory = sectors == 0.0
    shared = uses_shared == 1.0
    if corrected:
        k = transactions_per_request  # WC-5, WC-6
        T, c, regime, bound = corrected_round(
            aw, wpb, comp_inst, gld_trans, o_itrs, i_itrs, k, sectors, issue_cycles, inst_latency,
            sh_lat, lat, delay, shared, no_memory, revised,
        )  # fmt: skip
    else:
        T, c, regime, bound = printed_round(
            aw, wpb, comp_inst, gld_trans, o_itrs, i_itrs, inst_latency, sh_lat, lat, delay, shared,
            no_memory,
        )  # fmt: skip
    Rounds = rounds(wpb, blocks, aw, n_sm)
    Rounds = max(1.0, Rounds) if corrected else Rounds  # WC-8
    Texec = t_exec(T, Rounds)

    requests = sectors / transactions_per_request
    CPI = Texec / ((comp_inst + requests) * wpb * (blocks / active_sm))
    issued = wpb * blocks / n_sm  # warps of an SM on average, over all rounds
    core_activity = min(1.0, issue_cycles * comp_inst * issued / Texec)
    dram = dm_del * frequency_ratio * (1.0 - l2_hr) * sectors
    memory_activity = min(1.0, dram * issued / Texec)
    return {
        "execution_cycles": Texec,
        "cycles_per_instruction": CPI,
        "core_activity": core_activity,
        "memory_activity": memory_activity,
        "regime": regime,
        "bound": bound,
        "memory_latency": lat,
        "memory_delay": delay,
        "computation_period": c,
        "round_cycles": T,
    }


def _dm_del_at(table, memory, slope, intercept):
    """Return Table III at a memory clock [Hz]; outside it the authors' later fit, if there is one.

    The fit (805.03/mem_f + 8.1762, with mem_f in MHz) is of the authors' published benchmark code.
    """
    if table is None:
        return np.full(memory.shape, np.nan)
    mhz = memory / 1e6
    clocks, cycles = np.array(table, dtype=np.float64).T
    inside = np.interp(mhz, clocks, cycles)
    fitted = slope / mhz + intercept
    outside = (mhz < clocks[0]) | (mhz > clocks[-1])
    return np.where(outside & np.isfinite(fitted), fitted, inside)


def _prepare(work: Workload, variant: str) -> dict[str, Array]:
    """Return what Table IV has besides values of the workload."""
    device = work.parameters
    requests, sectors = work.total("count"), work.total("count", "sectors")
    shared = total(np.zeros_like(work.n_sm), work.shared_accesses, "count")
    with np.errstate(invalid="ignore", divide="ignore"):
        gld_trans = sectors / work.outer_iterations
    slope, intercept = device["dm_lat_slope_cycles"], device["dm_lat_intercept_cycles"]
    has_fit = np.isfinite(slope) & np.isfinite(intercept)
    choice = work.options.get("dram_latency", "auto")
    wants_fit = choice == "eq4" or (choice == "auto" and variant != "printed")
    without = np.nan if choice == "eq4" else 0.0  # eq4 asked for, and the device has no fit
    measured = np.where(np.isfinite(device["dm_lat_cycles"]), device["dm_lat_cycles"],
                        slope + intercept)  # fmt: skip
    later = (device[f"dm_del_fit_{key}"] for key in ("slope_MHzcycles", "intercept_cycles"))
    return {
        "gld_trans": gld_trans,
        "transactions_per_request": mean(sectors, requests, 1.0),
        "uses_shared": np.where(shared > 0, 1.0, 0.0),
        "sh_lat": np.where(shared > 0, device["sh_lat_cycles"], 0.0),
        "dm_lat": measured,
        "dm_lat_slope": np.where(has_fit, slope, 0.0),
        "dm_lat_intercept": np.where(has_fit, intercept, measured),
        "uses_fit": np.where(has_fit, 1.0, without) if wants_fit else np.zeros_like(slope),
        "dm_del": work.per_device(_dm_del_at, "dm_del_table", work.clocks.memory, *later),
    }


def _facts(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return latencies, the share of DRAM's that follows its clock, by the fit (4), and dm_del."""
    slope, intercept = own.get("dm_lat_slope_cycles"), own.get("dm_lat_intercept_cycles")
    has_fit = slope is not None and intercept is not None
    return {
        "dram_latency": own.get("dm_lat_cycles"),
        "l2_latency": own.get("l2_lat_cycles"),
        "shared_latency": own.get("sh_lat_cycles"),
        "instruction_latency": own.get("inst_latency_cycles"),
        "dram_share": slope / (slope + intercept) if has_fit else None,
        "dram_service": own.get("dm_del_table"),
    }


MODEL = Model(
    name="wang_chu",
    title="core and memory frequency scaling",
    reference=(
        "Q. Wang and X. Chu, GPGPU Performance Estimation with Core and Memory Frequency "
        "Scaling, arXiv:1701.05308, 2017"
    ),
    doi="10.1109/TPDS.2020.3004623",
    purpose="other core and memory clocks of GPUs with an L2 cache",
    accuracy=(61, 30, 2.0),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("memory_latency", "cycle",
              "mean latency of a transaction with L2 or DRAM", "agl_lat", "(5a)"),
        Field("memory_delay", "cycle",
              "mean service time of a transaction with L2 or DRAM", "agl_del", "(5b)"),
        Field("computation_period", "cycle",
              "computation of a warp before each transaction", "avr_comp", "(7b)"),
        Field("round_cycles", "cycle",
              "time of one round of active warps on a multiprocessor", "T_active", "(9) to (21)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    facts=_facts,
    parameters=(
        parameter("issue_cycles", ("inst_cycle", "cycle", "issue cycles of a warp instruction"),
                  1e-3, 64, derived.issue_cycles),
        parameter("inst_latency_cycles", ("inst_cycle", "cycle", "latency of an instruction"),
                  1e-3, 1e3, derived.instruction_latency),
        parameter("sh_lat_cycles", SYMBOLS["sh_lat"], 1, 1e4, derived.shared_latency),
        parameter("l2_lat_cycles", SYMBOLS["l2_lat"], 1, 1e5, l2_latency),
        parameter("l2_del_cycles", ("l2_del", "cycle", "L2 service time"), 1e-3, 1e4,
                  l2_service),
        parameter("dm_lat_cycles", ("dm_lat", "cycle", "DRAM latency at the nominal clocks"), 1,
                  1e5, derived.dram_latency, required=False),
        parameter("dm_lat_slope_cycles", ("222.78", "cycle", "slope of (4)"), 0, 1e5,
                  required=False),
        parameter("dm_lat_intercept_cycles", ("277.32", "cycle", "intercept of (4)"), 0, 1e5,
                  required=False),
        parameter("dm_del_table", ("dm_del", "cycle", "DRAM service time by memory clock"), 0,
                  np.inf, derived.dram_service_table,
                  columns=("memory_clock_MHz", "dm_del_cycles")),
        parameter("dm_del_fit_slope_MHzcycles", ("805.03", "MHz cycle", "later fit of dm_del"), 0,
                  1e6, required=False),
        parameter("dm_del_fit_intercept_cycles", ("8.1762", "cycle", "later fit of dm_del"), 0,
                  1e4, required=False),
    ),
    errata={
        "WC-1": "inequalities of (10b) and (12b) exchanged",
        "WC-2": "all active warps in (11)",
        "WC-4": "DRAM latency by (4) where the device has the fit (option dram_latency)",
        "WC-5": "issue cycles and instruction latency kept apart",
        "WC-6": "periods of one request of k sectors",
        "WC-7": "kernels without global accesses",
        "WC-8": "at least one round",
    },
    revisions={
        "WC-9": "the computation of one iteration in (19), not a period for each shared access",
        "WC-10": "the largest of (9), (11), (13) and (15)",
        "WC-11": "with shared memory the largest of (9), (17) and (21), which meet at (16)",
    },
    options={"dram_latency": ("auto", "eq4", "eq5a")},
)  # fmt: skip

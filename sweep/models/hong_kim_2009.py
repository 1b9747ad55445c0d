"""Hong & Kim 2009: memory and computation warp parallelism (MWP, CWP).

S. Hong and H. Kim, "An Analytical Model for a GPU Architecture with Memory-level and Thread-level
Parallelism Awareness", ISCA 2009, pages 152-163, doi:10.1145/1555754.1555775.

Scope: one kernel on a GPU without a cache for global memory; all threads alike; computation
instructions all cost the same. Instruction counts are dynamic, per thread; shared accesses,
barriers and branches are computation instructions (Section 3.6); a memory instruction is coalesced
only if the whole warp needs a single transaction (footnote 8).

Errata (``corrected`` applies them, ``printed`` does not):

HK-1  The second condition of (23), "or Comp_cycles > Mem_cycles", contradicts Section 3.2.2,
      Case 5, by which such a kernel takes (3), that is (24); (23) would lose the factor N on the
      computation and fall below the issue bound N x Comp_cycles.
HK-3  Without that clause (23) still falls below the issue bound for
      CWP_full - 1 < MWP <= CWP, so that more bandwidth can make a kernel slower. For both,
      corrected takes (22) when MWP = CWP = N and otherwise the larger of (23) and (24).
HK-2  (26) is kept as printed in all variants, but for HK-4 and HK-8.
HK-4  MWP below 1 makes (MWP - 1) negative: corrected takes max(MWP - 1, 0).
HK-5  #Rep (21) below 1, for a grid that does not fill the GPU, is less than one warp's own
      latency: corrected takes max(1, #Rep).
HK-6  (25) divides Exec_cycles_app, without the barriers of (27): corrected takes the total, so that
      the CPI is that of the time given.
HK-9  Less than one memory instruction a thread (those of some warps only, on average) makes Comp_p
      longer than the computation, and (22) shorter than the latency: corrected takes one period.
CLK   corrected re-expresses DRAM latency, departure delays and bandwidth at the swept clocks (see
      :mod:`sweep.hardware.clocks`); printed has the core clock in (7) and in the conversion to
      seconds only.

Revisions, which make another model of it (``revised`` applies them and the errata):

HK-7  (22) adds Comp_cycles to (23) just where MWP reaches N, so that a little more bandwidth makes
      a kernel slower. Where CWP = N, revised takes the larger of (22), with MWP = N, and (23).
HK-8  The barriers of (26) cost more with a larger MWP, so that less bandwidth can make a kernel
      faster. revised takes at least the total time that MWP_Without_BW (17) would give. An
      effective delay of Mem_L/MWP in (26) in its place was tried and breaks the promise, as
      Mem_L - Mem_L/MWP still rises with MWP: 8 warps that meet at 500 barriers take 533,600
      cycles at 9.8 GB/s (MWP 2) and 922,450 at 39 GB/s (MWP 8).

Not in the paper: the guard for kernels without memory instructions (its own micro-benchmark Mb1 is
one), Comp_cycles x N x #Rep without synchronisation cost, and the activities for power.
"""

from __future__ import annotations

import numpy as np

from sweep.fields import Field
from sweep.hardware import derived
from sweep.hardware.clocks import bandwidth, latency, service_time
from sweep.models.base import Input, Model, Symbol, equations, symbols_of
from sweep.models.terms import (
    COMPUTE,
    LATENCY,
    MEMORY,
    SYNCHRONISATION,
    of_device,
    parameter,
    provided,
)
from sweep.models.workload import Array, Workload, mean

INPUTS = (
    provided("n", "N", "active warps on an SM", "active_warps_per_sm"),
    provided("active_blocks_per_sm", "#Active_blocks_per_SM", "active blocks on an SM"),
    provided("active_sm", "#Active_SMs", "SMs that have work"),
    provided("n_sm", "#SM", "SMs of the GPU"),
    provided("blocks", "#Blocks", "blocks of the grid"),
    provided("threads_per_block", "#Threads_per_block", "threads in a block"),
    provided("threads_per_warp", "#Threads_per_warp", "threads in a warp", "warp_size"),
    provided("comp_insts", "#Comp_insts", "computation instructions of a thread",
             "computation_instructions"),
    Input("uncoal_mem_insts", "#Uncoal_Mem_insts", "1", "uncoalesced accesses of a thread",
          "kernel accesses that need several transactions a warp"),
    Input("coal_mem_insts", "#Coal_Mem_insts", "1", "coalesced accesses of a thread",
          "kernel accesses that need one transaction a warp"),
    provided("synch_insts", "#Synch_insts", "barriers of a thread", "barriers"),
    Input("uncoal_per_mw", "#Uncoal_per_mw", "1", "transactions of an uncoalesced access",
          "kernel access patterns under the device's coalescing rule"),
    Input("load_bytes_per_warp", "Load_bytes_per_warp", "B", "bytes of a warp's access",
          "kernel access sizes, mean over the accesses"),
    of_device("issue_cycles", "Issue_cycles", "cycle", "cycles to issue one warp instruction"),
    provided("core_freq", "Freq", "clock of the SM processor", "core_clock"),
    Input("mem_bandwidth", "Mem_Bandwidth", "B/s", "bandwidth between DRAM and GPU cores",
          "device, at the clock", ("chip.memory_bandwidth_GBps",), clocked=True),
    Input("mem_ld", "Mem_LD", "cycle", "DRAM access latency", "device, at the clocks",
          ("mem_ld_cycles",), clocked=True),
    Input("departure_del_uncoal", "Departure_del_uncoal", "cycle",
          "delay between two uncoalesced transactions", "device, at the clocks",
          ("departure_del_uncoal_cycles",), clocked=True),
    Input("departure_del_coal", "Departure_del_coal", "cycle",
          "delay between two coalesced transactions", "device, at the clocks",
          ("departure_del_coal_cycles",), clocked=True),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "mem_insts": Symbol("#Mem_insts", "1", "memory instructions of a thread"),
    "total_insts": Symbol("#Total_insts", "1", "instructions of a thread"),
    "mem_p": Symbol("Mem_p", "cycle", "one memory waiting period"),
    "unlimited": Symbol("(MWP_Without_BW - 1)", "1", "the same if bandwidth set no limit"),
    "periods": Symbol("periods", "1", "memory instructions of a thread, at least one"),
    "overlapped": Symbol("(MWP - 1)", "1", "memory warps besides the first"),
    "exec_cycles": Symbol("Exec_cycles", "cycle", "cycles of one round (Section 3.2)"),
    "exec_cycles_app": Symbol("Exec_cycles_app", "cycle", "execution cycles of the kernel"),
}
_equation = equations("hong_kim", SYMBOLS)

# --- Section 3.2: the cost of executing multiple warps -------------------------------------------


@_equation("1", "exec_cycles")
def exec_cycles_cwp_greater(mem_cycles, n, mwp, comp_p):
    """Cycles of a round when CWP > MWP: memory periods hide the computation (Cases 1, 2)."""
    return mem_cycles * n / mwp + comp_p * mwp


@_equation("2", "Comp_p", "cycle", "one computation period")
def comp_p(comp_cycles, mem_insts):
    """Length of one computation period."""
    return comp_cycles / mem_insts


@_equation("3", "exec_cycles")
def exec_cycles_mwp_greater(mem_p, comp_cycles, n):
    """Cycles of a round when MWP > CWP: computation hides the memory periods (Cases 3 to 5)."""
    return mem_p + comp_cycles * n


@_equation("4", "exec_cycles")
def exec_cycles_few_warps(mem_cycles, n, mwp, comp_cycles, comp_p):
    """Cycles of a round when there are not enough warps (Cases 6, 7)."""
    return mem_cycles * n / mwp + comp_cycles * n / mwp + comp_p * (mwp - 1.0)


# --- Section 3.3: the degree of warp parallelism -------------------------------------------------


@_equation("5", "MWP", "1", "memory warp parallelism")
def mwp(mwp_without_bw, mwp_peak_bw, n):
    """Warps that can access memory during one memory waiting period."""
    return min(min(mwp_without_bw, mwp_peak_bw), n)


@_equation("6", "MWP_peak_BW", "1", "MWP by the peak bandwidth")
def mwp_peak_bw(mem_bandwidth, bw_per_warp, active_sm):
    """MWP at which the active SMs reach the peak bandwidth."""
    return mem_bandwidth / (bw_per_warp * active_sm)


@_equation("7", "BW_per_warp", "B/s", "bandwidth that one warp draws")
def bw_per_warp(core_freq, load_bytes_per_warp, mem_l):
    """Bandwidth that one warp draws."""
    return core_freq * load_bytes_per_warp / mem_l


@_equation("8", "CWP_full", "1", "CWP with enough warps")
def cwp_full(mem_cycles, comp_cycles):
    """CWP when there are enough warps."""
    return (mem_cycles + comp_cycles) / comp_cycles


@_equation("9", "CWP", "1", "computation warp parallelism")
def cwp(cwp_full, n):
    """Warps whose computation fits into one memory waiting period, plus one."""
    return min(cwp_full, n)


@_equation("10", "Mem_L_Uncoal", "cycle", "latency of an uncoalesced warp access")
def mem_l_uncoal(mem_ld, uncoal_per_mw, departure_del_uncoal):
    """Latency of an uncoalesced access: the last of its transactions leaves last."""
    return mem_ld + (uncoal_per_mw - 1.0) * departure_del_uncoal


@_equation("11", "Mem_L_Coal", "cycle", "latency of a coalesced warp access")
def mem_l_coal(mem_ld):
    """Latency of a coalesced access."""
    return mem_ld


@_equation("12", "Mem_L", "cycle", "mean latency of a warp's access")
def mem_l(mem_l_uncoal, weight_uncoal, mem_l_coal, weight_coal):
    """Mean latency of a memory instruction."""
    return mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal


@_equation("13", "Weight_uncoal", "1", "share of uncoalesced accesses")
def weight_uncoal(uncoal_mem_insts, coal_mem_insts):
    """Share of uncoalesced memory instructions."""
    return uncoal_mem_insts / (uncoal_mem_insts + coal_mem_insts)


@_equation("14", "Weight_coal", "1", "share of coalesced accesses")
def weight_coal(coal_mem_insts, uncoal_mem_insts):
    """Share of coalesced memory instructions."""
    return coal_mem_insts / (coal_mem_insts + uncoal_mem_insts)


@_equation("15", "Departure_delay", "cycle", "least distance of two memory warps")
def departure_delay(
    departure_del_uncoal, uncoal_per_mw, weight_uncoal, departure_del_coal, weight_coal
):
    """Least distance between the departures of two memory warps."""
    uncoalesced = (departure_del_uncoal * uncoal_per_mw) * weight_uncoal
    return uncoalesced + departure_del_coal * weight_coal


@_equation("16", "MWP_Without_BW_full", "1", "MWP by departure delay")
def mwp_without_bw_full(mem_l, departure_delay):
    """MWP as the departure delay allows."""
    return mem_l / departure_delay


@_equation("17", "MWP_Without_BW", "1", "MWP by departure delay, at most N")
def mwp_without_bw(mwp_without_bw_full, n):
    """MWP as departure delay and active warps allow."""
    return min(mwp_without_bw_full, n)


@_equation("18", "Mem_cycles", "cycle", "memory waiting cycles of a warp")
def mem_cycles(mem_l_uncoal, uncoal_mem_insts, mem_l_coal, coal_mem_insts):
    """Memory waiting cycles of one warp."""
    return mem_l_uncoal * uncoal_mem_insts + mem_l_coal * coal_mem_insts


@_equation("19", "Comp_cycles", "cycle", "computation cycles of a warp")
def comp_cycles(issue_cycles, total_insts):
    """Computation cycles of one warp."""
    return issue_cycles * total_insts


# --- Section 3.4: putting it all together --------------------------------------------------------


@_equation("20", "n")
def active_warps(active_blocks_per_sm, threads_per_block, threads_per_warp):
    """Active warps on an SM: active blocks times (whole) warps of a block."""
    return active_blocks_per_sm * np.ceil(threads_per_block / threads_per_warp)


@_equation("21", "#Rep", "1", "rounds of active blocks on an SM")
def rep(blocks, active_blocks_per_sm, active_sm):
    """Rounds of active blocks that an SM executes."""
    return blocks / (active_blocks_per_sm * active_sm)


@_equation("22", kind="condition")
def is_few_warps(mwp, n, cwp):
    """Too few warps: both degrees of parallelism are limited by N."""
    return (mwp == n) and (cwp == n)


@_equation("22 revised", kind="condition")
def is_cwp_limited(cwp, n):
    """CWP is limited by N: (22) is a lower bound whatever MWP is (HK-7)."""
    return cwp == n


@_equation("23", kind="condition")
def is_memory_bound(cwp, mwp, comp_cycles, mem_cycles):
    """Memory periods dominate, as printed (see HK-1 for the second clause)."""
    return (cwp >= mwp) or (comp_cycles > mem_cycles)


@_equation("22", "exec_cycles_app")
def exec_cycles_app_22(mem_cycles, comp_cycles, mem_insts, overlapped, rep):
    """Execution cycles when there are not enough warps."""
    return (mem_cycles + comp_cycles + comp_cycles / mem_insts * overlapped) * rep


@_equation("23", "exec_cycles_app")
def exec_cycles_app_23(mem_cycles, n, mwp, comp_cycles, mem_insts, overlapped, rep):
    """Execution cycles when memory periods dominate."""
    return (mem_cycles * n / mwp + comp_cycles / mem_insts * overlapped) * rep


@_equation("24", "exec_cycles_app")
def exec_cycles_app_24(mem_l, comp_cycles, n, rep):
    """Execution cycles when computation dominates."""
    return (mem_l + comp_cycles * n) * rep


@_equation("25", "CPI", "cycle", "cycles per warp instruction")
def cpi(exec_cycles_app, total_insts, threads_per_block, threads_per_warp, blocks, active_sm):
    """Cycles per warp instruction on an active SM."""
    warps = threads_per_block / threads_per_warp
    return exec_cycles_app / (total_insts * warps * (blocks / active_sm))


@_equation("26", "Synch_cost", "cycle", "additional delay by barriers")
def synch_cost(departure_delay, overlapped, synch_insts, active_blocks_per_sm, rep):
    """Additional delay by barriers."""
    return departure_delay * overlapped * synch_insts * active_blocks_per_sm * rep


@_equation("27", "Exec_cycles_with_synch", "cycle", "total execution cycles")
def exec_cycles_with_synch(exec_cycles_app, synch_cost):
    """Total execution cycles."""
    return exec_cycles_app + synch_cost


@_equation("guard", "exec_cycles_app")
def exec_cycles_app_no_memory(comp_cycles, n, rep):
    """Execution cycles of a kernel without memory instructions (ours; Mb1 is one)."""
    return comp_cycles * n * rep


# --- The model -----------------------------------------------------------------------------------

REGIMES = {"hong_kim_eq22": 10, "hong_kim_eq23": 11, "hong_kim_eq24": 12, "hong_kim_no_memory": 13}
EQ22, EQ23, EQ24, NO_MEMORY = map(float, REGIMES.values())


def latencies(
    uncoal_mem_insts, coal_mem_insts, uncoal_per_mw, mem_ld, departure_del_uncoal,
    departure_del_coal,
):  # fmt: skip
    """Join (10) to (15): latencies of accesses, and the distance of their departures."""
    Weight_uncoal = weight_uncoal(uncoal_mem_insts, coal_mem_insts)
    Weight_coal = weight_coal(coal_mem_insts, uncoal_mem_insts)
    Mem_L_Uncoal = mem_l_uncoal(mem_ld, uncoal_per_mw, departure_del_uncoal)
    Mem_L_Coal = mem_l_coal(mem_ld)
    Mem_L = mem_l(Mem_L_Uncoal, Weight_uncoal, Mem_L_Coal, Weight_coal)
    Departure_delay = departure_delay(
        departure_del_uncoal, uncoal_per_mw, Weight_uncoal, departure_del_coal, Weight_coal
    )
    return Mem_L_Uncoal, Mem_L_Coal, Mem_L, Departure_delay


def printed_time(
    n, MWP, CWP, Mem_L, Mem_cycles, Comp_cycles, mem_insts, Departure_delay, overlapped,
    synch_insts, active_blocks_per_sm, Rep,
):  # fmt: skip
    """Join (22) to (26) as the paper has them."""
    T22 = exec_cycles_app_22(Mem_cycles, Comp_cycles, mem_insts, overlapped, Rep)
    T23 = exec_cycles_app_23(Mem_cycles, n, MWP, Comp_cycles, mem_insts, overlapped, Rep)
    T24 = exec_cycles_app_24(Mem_L, Comp_cycles, n, Rep)
    Synch = synch_cost(Departure_delay, overlapped, synch_insts, active_blocks_per_sm, Rep)
    few = is_few_warps(MWP, n, CWP)
    memory_bound = is_memory_bound(CWP, MWP, Comp_cycles, Mem_cycles)
    Exec = T22 if few else (T23 if memory_bound else T24)
    regime = EQ22 if few else (EQ23 if memory_bound else EQ24)
    bound = LATENCY if few else (MEMORY if memory_bound else COMPUTE)
    return Exec, Synch, regime, bound


def corrected_time(
    n, MWP, MWP_Without_BW, CWP, Mem_L, Mem_cycles, Comp_cycles, mem_insts, Departure_delay,
    overlapped, synch_insts, active_blocks_per_sm, Rep, revised,
):  # fmt: skip
    """Join (22) to (26), with the errata applied."""
    Rep = max(1.0, Rep)  # HK-5
    overlapped = max(overlapped, 0.0)  # HK-4
    periods = max(mem_insts, 1.0)  # HK-9
    waited = max(Mem_cycles, Mem_L)  # HK-9
    among = n - 1.0 if revised else overlapped  # HK-7
    T22 = exec_cycles_app_22(waited, Comp_cycles, periods, among, Rep)
    T23 = exec_cycles_app_23(Mem_cycles, n, MWP, Comp_cycles, periods, overlapped, Rep)
    T24 = exec_cycles_app_24(Mem_L, Comp_cycles, n, Rep)
    Synch = synch_cost(Departure_delay, overlapped, synch_insts, active_blocks_per_sm, Rep)
    if revised:
        limited = is_cwp_limited(CWP, n)  # HK-7
        least = T22 if limited else T24  # HK-7
        memory_bound = T23 >= least  # HK-1, HK-3, HK-7
        Exec = T23 if memory_bound else least
        regime = EQ23 if memory_bound else (EQ22 if limited else EQ24)
        bound = MEMORY if memory_bound else (LATENCY if limited else COMPUTE)
        unlimited = max(MWP_Without_BW - 1.0, 0.0)
        Free23 = exec_cycles_app_23(Mem_cycles, n, MWP_Without_BW, Comp_cycles, periods, unlimited,
                                    Rep)  # fmt: skip
        Free_synch = synch_cost(Departure_delay, unlimited, synch_insts, active_blocks_per_sm, Rep)
        Synch = max(Synch, Free_synch - (Exec - max(Free23, least)))  # HK-8
    else:
        few = is_few_warps(MWP, n, CWP)
        memory_bound = T23 >= T24  # HK-1, HK-3
        Exec = T22 if few else (T23 if memory_bound else T24)
        regime = EQ22 if few else (EQ23 if memory_bound else EQ24)
        bound = LATENCY if few else (MEMORY if memory_bound else COMPUTE)
    return Exec, Synch, regime, bound, Rep


def body(
    n, active_blocks_per_sm, active_sm, n_sm, blocks, threads_per_block, threads_per_warp,
    comp_insts, uncoal_mem_insts, coal_mem_insts, synch_insts, uncoal_per_mw, load_bytes_per_warp,
    issue_cycles, core_freq, mem_bandwidth, mem_ld, departure_del_uncoal, departure_del_coal,
    corrected, revised,
):  # fmt: skip
    """Join the equations."""
    mem_insts = uncoal_mem_insts + coal_mem_insts
    total_insts = comp_insts + mem_insts
    Mem_L_Uncoal, Mem_L_Coal, Mem_L, Departure_delay = latencies(
        uncoal_mem_insts, coal_mem_insts, uncoal_per_mw, mem_ld, departure_del_uncoal,
        departure_del_coal,
    )  # fmt: skip
    MWP_full = mwp_without_bw_full(Mem_L, Departure_delay)
    MWP_Without_BW = mwp_without_bw(MWP_full, n)
    BW_per_warp = bw_per_warp(core_freq, load_bytes_per_warp, Mem_L)
    MWP_peak_BW = mwp_peak_bw(mem_bandwidth, BW_per_warp, active_sm)
    MWP = mwp(MWP_Without_BW, MWP_peak_BW, n)
    Mem_cycles = mem_cycles(Mem_L_Uncoal, uncoal_mem_insts, Mem_L_Coal, coal_mem_insts)
    Comp_cycles = comp_cycles(issue_cycles, total_insts)
    CWP_full = cwp_full(Mem_cycles, Comp_cycles)
    CWP = cwp(CWP_full, n)
    Rep = rep(blocks, active_blocks_per_sm, active_sm)
    overlapped = MWP - 1.0
    issued = n * Rep * active_sm / n_sm  # warps of an SM on average, over all rounds
    if corrected:
        Exec, Synch, regime, bound, Rep = corrected_time(
            n, MWP, MWP_Without_BW, CWP, Mem_L, Mem_cycles, Comp_cycles, mem_insts,
            Departure_delay, overlapped, synch_insts, active_blocks_per_sm, Rep, revised,
        )  # fmt: skip
    else:
        Exec, Synch, regime, bound = printed_time(
            n, MWP, CWP, Mem_L, Mem_cycles, Comp_cycles, mem_insts, Departure_delay, overlapped,
            synch_insts, active_blocks_per_sm, Rep,
        )  # fmt: skip
    memory_busy = max(Departure_delay, Mem_L / MWP_peak_BW) * mem_insts
    no_memory = mem_insts == 0.0
    Exec = exec_cycles_app_no_memory(Comp_cycles, n, Rep) if no_memory else Exec
    Synch = 0.0 if no_memory else Synch
    regime = NO_MEMORY if no_memory else regime
    bound = COMPUTE if no_memory else bound
    memory_busy = 0.0 if no_memory else memory_busy
    Total = exec_cycles_with_synch(Exec, Synch)
    bound = SYNCHRONISATION if Synch > Exec else bound
    # The total has the barriers (HK-6).
    CPI = cpi(Total if corrected else Exec, total_insts, threads_per_block, threads_per_warp,
              blocks, active_sm)  # fmt: skip
    used = issued / Total
    return {
        "execution_cycles": Total,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, Comp_cycles * used),
        "memory_activity": min(1.0, memory_busy * used),
        "regime": regime,
        "bound": bound,
        "memory_warp_parallelism": MWP,
        "computation_warp_parallelism": CWP,
        "rounds": Rep,
        "synchronisation_cycles": Synch,
    }


def _prepare(work: Workload, variant: str) -> dict[str, Array]:
    """Return what Table 1 has besides values of the workload."""
    zero, accesses = np.zeros_like(work.n_sm), work.global_accesses
    uncoal = sum((a.count * ~a.coalesced for a in accesses), start=zero)
    transactions = sum((a.count * ~a.coalesced * a.transactions for a in accesses), start=zero)
    mem = work.total("count")
    loaded = work.total("count", "bytes") * work.lanes
    device, clocks = work.parameters, work.clocks.seen_by(variant)
    return {
        "uncoal_mem_insts": uncoal,
        "coal_mem_insts": mem - uncoal,
        "uncoal_per_mw": mean(transactions, uncoal, 1.0),
        "load_bytes_per_warp": mean(loaded, mem, 4.0 * work.lanes),
        "mem_bandwidth": bandwidth(work.memory_bandwidth, clocks.memory, clocks.memory_nominal),
        "mem_ld": latency(device["mem_ld_cycles"], clocks.ratio, work.dram_share),
        "departure_del_uncoal": service_time(device["departure_del_uncoal_cycles"], clocks.ratio),
        "departure_del_coal": service_time(device["departure_del_coal_cycles"], clocks.ratio),
    }


MODEL = Model(
    name="hong_kim",
    title="MWP/CWP: memory and computation warp parallelism",
    reference=(
        "S. Hong and H. Kim, An Analytical Model for a GPU Architecture with Memory-level and "
        "Thread-level Parallelism Awareness, ISCA 2009"
    ),
    doi="10.1145/1555754.1555775",
    purpose="GPUs of 2008: whether memory or computation parallelism limits a kernel",
    accuracy=(42, 17, 1.9),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("memory_warp_parallelism", "1",
              "warps of a multiprocessor that access memory at the same time", "MWP", "(5)"),
        Field("computation_warp_parallelism", "1",
              "warps that can compute while one waits for memory, plus that one", "CWP", "(9)"),
        Field("rounds", "1", "rounds of active blocks on a multiprocessor", "#Rep", "(21)"),
        Field("synchronisation_cycles", "cycle", "cycles that barriers add", "Synch_cost", "(26)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    facts=lambda own: {"dram_latency": own.get("mem_ld_cycles")},
    parameters=(
        parameter("issue_cycles", ("Issue_cycles", "cycle", "cycles to issue a warp instruction"),
                  1e-3, 64, derived.issue_cycles),
        parameter("mem_ld_cycles", SYMBOLS["mem_ld"], 1, 1e5, derived.dram_latency),
        parameter("departure_del_uncoal_cycles", SYMBOLS["departure_del_uncoal"], 1e-3, 1e4,
                  derived.departure_del_uncoal),
        parameter("departure_del_coal_cycles", SYMBOLS["departure_del_coal"], 1e-3, 1e4,
                  derived.departure_del_coal),
    ),
    errata={
        "HK-1": "(23) without its clause 'or Comp_cycles > Mem_cycles'",
        "HK-3": "the larger of (23) and (24), so that no time is below the issue bound",
        "HK-4": "max(MWP - 1, 0)",
        "HK-5": "max(1, #Rep)",
        "HK-6": "CPI (25) of the total time (27)",
        "HK-9": "at least one memory period",
        "CLK": "DRAM quantities follow the swept clocks",
    },
    revisions={
        "HK-7": "(22) as a lower bound wherever CWP = N",
        "HK-8": "barriers cost no less with less bandwidth",
    },
)  # fmt: skip

"""Luo & Suda 2011: memory and computation parallel degrees (MPD, CPD) over calculate periods.

C. Luo and R. Suda, "An Execution Time Prediction Analytical Model for GPU with Instruction-level
and Thread-level Parallelism Awareness", IPSJ SIG Technical Report on High Performance Computing,
2011.

Scope: a warp's code is a sequence of calculate periods, each a computation task followed by a
memory access task; a task costs the sum of its instructions' costs (Table 1 for the GTX 260).
One round of active warps; rounds are those of the launch, as in the other models.

Errata (``corrected`` applies them, ``printed`` does not):

LS-1  (8) writes n, which (5) defines otherwise, for N_act (all variants use N_act); (13) lacks
      the 0 of its maximum: printed takes its argument as it is, possibly negative.
LS-2  N_act in the denominator of (2) makes MPD 0 from 12 warps on for a plain coalesced load on the
      paper's own GPU, so that (10) divides by zero, while the paper reports 32 warps. corrected:
      the bandwidth bound of an SM is GPU_bwt / (N_sm x Warp_bwt), and MPD is at least 1.
LS-3  With P > c, CPD1 falls with the warps and becomes negative (-4.76 at 32 warps for P = 0.8697),
      though the paper reports 88 % accuracy there; the text introduces (3) for low and (4) for high
      proportions. corrected: CPD2 for P >= c, else the smaller of both, and never below 1.
LS-4  Rounds below 1, for a grid that does not fill the GPU: corrected takes at least 1.
CLK   corrected re-expresses t_mem, memory tasks and bandwidth at the swept clocks.

Revisions, which make another model of it (``revised`` applies them and the errata):

LS-5  floor(N_act/MPD - 1) in (10) and (12) jumps with MPD, which (2) makes proportional to the
      latency: a higher latency can make a kernel faster. The accesses of a bandwidth-bound SM end
      one service time apart, which m/MPD approximates before it is rounded and limited. revised:
      those of a period take N_act service times, whatever the latency, also those of the last.
LS-6  (1) divides by N_trans, as if the transactions of an access followed one another, while the
      access costs t_mem once (Table 1). (2) then serves as many times the warps that the bandwidth
      allows as an access has transactions: 2 for words of 4 bytes, 4 for words of 16 bytes at
      compute capability 1.3, and the more, the worse it coalesces. A saturated kernel exceeds
      GPU_bwt by that factor. revised: a service time is that of the bytes which the transactions
      move, at an SM's share of GPU_bwt. MPD stays (2)'s, but no longer enters the time.
LS-7  (8), (10), (12) and (13) let computation of (N_act - 1) x c_i cover a wait, though by (6) it
      takes but 1/CPD of that: a higher core clock can make a waiting kernel slower. Nor does c < m
      then tell whether a period waits: at c = m the time jumps. revised: a warp's c_i/CPD covers
      a wait, and a period is of the type that the waits left over make it.

P is taken at the nominal clocks, and stays what it is at others: it is the proportion of the code
that CPD was fitted to.

(4) is undefined outside 1 <= N_act <= 2m - 1: no time there. A kernel file without stages is one
stretch of equal periods, one per memory instruction; files with stages give the sequence, a period
per execution of a stage. MPD is that of the memory task that a period waits for.
"""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np

from sweep.fields import Field
from sweep.hardware import derived
from sweep.hardware.clocks import bandwidth, latency
from sweep.models.base import Input, Model, Symbol, counted, equations, symbols_of
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, of_device, parameter, provided
from sweep.models.workload import Array, Stage, Workload, gathered, mean, total

INPUTS = (
    provided("n_act", "N_act", "active warps on an SM", "active_warps_per_sm"),
    provided("n_sm", "N_sm", "SMs of the GPU"),
    provided("active_sm", "active SMs", "SMs that have work"),
    provided("active_blocks_per_sm", "active blocks", "active blocks on an SM"),
    provided("blocks", "blocks", "blocks of the grid"),
    provided("warps_per_block", "warps a block", "warps of a block"),
    Input("instructions", "instructions", "1", "instructions of a thread",
          "kernel instructions and accesses"),
    Input("warp_bytes", "N_thread*D_mem total", "B", "bytes of a warp: accessed, or moved (LS-6)",
          "kernel accesses"),
    Input("p", "P", "1", "computation instruction proportion",
          "kernel instructions with the device's costs", ("class_cost", "t_mem_cycles")),
    of_device("a", "a", "1", "empirical parameter"),
    of_device("b", "b", "1", "empirical parameter"),
    of_device("c", "c", "1", "empirical parameter"),
    of_device("d", "d", "1", "empirical parameter"),
    Input("m", "m", "1", "most warps on an SM", "device, or the occupancy table", ("m",)),
    provided("n_thread", "N_thread", "threads of a warp", "lanes"),
    Input("c_i", "c_i", "cycle", "computation task of a period",
          "kernel stages with the device's costs", ("class_cost",), sequence=True),
    Input("c_previous", "c_(i-1)", "cycle", "computation task of the previous period",
          "kernel stages with the device's costs", ("class_cost",), sequence=True),
    Input("d_mem", "D_mem", "B", "bytes of a thread and memory access",
          "kernel accesses, mean of the previous period", sequence=True),
    counted("n_trans", "N_trans", "transactions of a memory access instruction",
            "kernel access patterns, mean of the previous period"),
    Input("moved_previous", "bytes_(i-1)", "B", "moved by a warp's previous memory task",
          "kernel access patterns by the device's rule", sequence=True),
    counted("weight", "repetitions", "how often a period follows this predecessor",
            "kernel stages and loops"),
    Input("moved_last", "bytes_k", "B", "moved by a warp's last memory task",
          "kernel access patterns by the device's rule"),
    provided("core_freq", "f", "core clock", "core_clock"),
    Input("gpu_bw", "GPU_bwt", "B/s", "bandwidth of the GPU", "device, at the memory clock",
          ("chip.memory_bandwidth_GBps",), clocked=True),
    Input("t_mem_cycles", "t_mem", "cycle", "latency of a memory access", "device, at the clocks",
          ("t_mem_cycles",), clocked=True),
    Input("m_i", "m_i", "cycle", "memory access task of a period",
          "kernel accesses, at the clocks", ("t_mem_cycles",), clocked=True, sequence=True,
          factor="t_mem_factor"),
    Input("m_previous", "m_(i-1)", "cycle", "memory access task of the previous period",
          "kernel accesses, at the clocks", ("t_mem_cycles",), clocked=True, sequence=True,
          factor="t_mem_factor"),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "t_mem": Symbol("t_mem", "s", "latency of a memory access"),
    "moved": Symbol("bytes", "B", "moved by a warp's memory task"),
    "cpd": Symbol("CPD", "1", "computation parallel degree"),
    "t_c": Symbol("T_c", "cycle", "extra time by this period's memory task"),
    "t_p": Symbol("T_p", "cycle", "extra time by the previous period's memory task"),
    "t_test": Symbol("T_test", "s", "measured time"),
    "t_model": Symbol("T_model", "s", "predicted time"),
    "mpd": Symbol("MPD", "1", "memory access parallel degree"),
}
_equation = equations("luo_suda", SYMBOLS)

# --- Section 3.3: memory access parallel degree ---------------------------------------------------


@_equation("1", "Warp_bwt", "B/s", "bandwidth of one warp during a memory access")
def warp_bw(n_thread, d_mem, n_trans, t_mem):
    """Bandwidth that one warp uses during a memory access."""
    return n_thread * d_mem / (n_trans * t_mem)


@_equation("2 as printed", "mpd")
def mpd_printed(n_act, gpu_bw, n_sm, warp_bw):
    """Warps that access memory in parallel, with N_act in the denominator (LS-2)."""
    return min(n_act, np.floor(gpu_bw / (n_act * n_sm * warp_bw)))


@_equation("2")
def mpd(n_act, gpu_bw, n_sm, warp_bw):
    """Warps that access memory in parallel: the bandwidth bound is an SM's (LS-2)."""
    return max(1.0, min(n_act, np.floor(gpu_bw / (n_sm * warp_bw))))


@_equation("1, 2 revised", "service", "cycle", "an SM's share of the bandwidth for these bytes")
def service(moved, n_sm, core_freq, gpu_bw):
    """Time in which an SM's share of the bandwidth moves what a memory task needs (LS-5, LS-6)."""
    return moved * n_sm * core_freq / gpu_bw


# --- Section 3.4: computation parallel degree -----------------------------------------------------


@_equation("3", "CPD1", "1", "computation parallel degree at low proportions")
def cpd1(c, p, n_act, b, a):
    """Computation parallel degree at low proportions."""
    return (c - p) * (n_act - b) + a


@_equation("4", "CPD2", "1", "computation parallel degree at high proportions")
def cpd2(n, m, n_act, a):
    """Computation parallel degree at high proportions; undefined outside 1 <= N_act <= 2m-1."""
    return n / (m - 1.0) * np.sqrt((m - 1.0) ** 2 - (n_act - m) ** 2) + a


@_equation("5", "n", "1", "height of (4)")
def n(d, p, c):
    """Height of the arc that (4) describes."""
    return d * (p - c) ** 2


@_equation("3, 4", kind="condition")
def is_high_proportion(p, c):
    """The proportion is one that the text has (4) for (LS-3)."""
    return p >= c


# --- Section 3.5: calculate periods ---------------------------------------------------------------


@_equation("type", kind="condition")
def waited_before(m_previous, c_previous):
    """The previous memory task outlasts its computation: types 3 and 4."""
    return c_previous < m_previous


@_equation("type revised", kind="condition")
def waited_before_revised(t_p):
    """The other warps' computation leaves some of (10): types 3 and 4 (LS-7)."""
    return t_p > 0.0


@_equation("type", kind="condition")
def waits_after(c_i, m_i):
    """The memory task of the period outlasts its computation: types 2 and 4."""
    return c_i < m_i


@_equation("type revised", kind="condition")
def waits_after_revised(m_i, n_act, hidden):
    """The other warps' computation leaves some of (8): types 2 and 4 (LS-7)."""
    return (n_act - 1.0) * hidden < m_i


@_equation("6 of one warp", "c_i/CPD", "cycle", "computation of one warp, of CPD at once")
def hidden(c_i, cpd):
    """Computation of one warp, of CPD at once (LS-7)."""
    return c_i / cpd


@_equation("6", "ceil(N_act*c_i/CPD)", "cycle", "computation of a period")
def computing(n_act, c_i, cpd):
    """Computation of all warps in a period: the whole of type 1, a term of the others."""
    return np.ceil(n_act * c_i / cpd)


@_equation("8", "t_c")
def t_c_type2(m_i, n_act, c_i):
    """Extra time after a period whose predecessor does not wait; n is N_act (LS-1)."""
    return max(m_i - (n_act - 1.0) * c_i, 0.0)


@_equation("8 revised", "t_c")
def t_c_type2_revised(m_i, n_act, hidden):
    """Extra time after a period whose predecessor does not wait (LS-7)."""
    return max(m_i - (n_act - 1.0) * hidden, 0.0)


@_equation("10, 12", "t_p")
def t_p(m_previous, n_act, mpd, c_i):
    """Extra time before a period's computation, in whole waiting periods (LS-5)."""
    return max(m_previous * np.floor(n_act / mpd - 1.0) - (n_act - 1.0) * c_i, 0.0)


@_equation("10, 12 revised", "t_p")
def t_p_revised(n_act, service, hidden):
    """Extra time before a period's computation, of as many accesses as warps (LS-5, LS-7)."""
    return max(n_act * service - (n_act - 1.0) * hidden, 0.0)


@_equation("10 revised, at the end", "t_p")
def t_p_end(n_act, service):
    """Extra time after the last period, of its accesses, which nothing covers (LS-5)."""
    return n_act * service


@_equation("13 as printed", "t_c")
def t_c_type4_printed(m_i, n_act, c_i, t_p):
    """Extra time after a period of type 4, without the 0 (LS-1)."""
    return m_i - ((n_act - 1.0) * c_i + t_p)


@_equation("13", "t_c")
def t_c_type4(m_i, n_act, c_i, t_p):
    """Extra time after a period of type 4 (LS-1)."""
    return max(m_i - ((n_act - 1.0) * c_i + t_p), 0.0)


@_equation("13 revised", "t_c")
def t_c_type4_revised(m_i, n_act, hidden, t_p):
    """Extra time after a period of type 4 (LS-7)."""
    return max(m_i - ((n_act - 1.0) * hidden + t_p), 0.0)


@_equation("6, 7, 9, 11", "T_i", "cycle", "time of a calculate period")
def t_i(computing, t_p, t_c):
    """Time of a calculate period; T_p and T_c are 0 in types whose equation lacks them."""
    return computing + t_p + t_c


@_equation("rounds", "rounds", "1", "rounds of active warps")
def rounds(blocks, active_blocks_per_sm, active_sm):
    """Rounds of active blocks that an SM executes (ours; the paper's runs are one round)."""
    return blocks / (active_blocks_per_sm * active_sm)


@_equation("14", "P_acc", "1", "accuracy")
def accuracy(t_test, t_model):
    """Accuracy of a prediction: the smaller of both times over the larger."""
    return min(t_test, t_model) / max(t_test, t_model)


# --- The model -----------------------------------------------------------------------------------

REGIMES = {"luo_suda_type1": 30, "luo_suda_type2": 31, "luo_suda_type3": 32, "luo_suda_type4": 33}
TYPE1, TYPE2, TYPE3, TYPE4 = map(float, REGIMES.values())


def degrees(p, a, b, c, d, m, n_act):
    """Return CPD2, and the smaller of CPD1 and CPD2."""
    CPD1 = cpd1(c, p, n_act, b, a)
    CPD2 = cpd2(n(d, p, c), m, n_act, a)
    # Where (4) is undefined CPD2 is NaN and so is the time.
    smaller = CPD2 if CPD2 != CPD2 else min(CPD1, CPD2)
    return CPD2, smaller


def corrected_cpd(p, c, CPD2, smaller):
    """Return the degree of (3) or (4) that the proportion asks for, at least 1 (LS-3)."""
    CPD = CPD2 if is_high_proportion(p, c) else smaller
    return CPD if CPD != CPD else max(CPD, 1.0)


def waits(n_act, MPD, c_i, c_previous, m_i, m_previous, corrected):
    """Join (8) to (13) for one period."""
    Tp = t_p(m_previous, n_act, MPD, c_i)
    before = waited_before(m_previous, c_previous)
    after = waits_after(c_i, m_i)
    Tc2 = t_c_type2(m_i, n_act, c_i)
    if corrected:
        Tc4 = t_c_type4(m_i, n_act, c_i, Tp)  # LS-1
    else:
        Tc4 = t_c_type4_printed(m_i, n_act, c_i, Tp)
    return Tp, before, after, Tc2, Tc4


def revised_waits(n_act, n_sm, core_freq, gpu_bw, CPD, c_i, m_i, moved_previous):
    """Join (8) to (13) for one period, with the revisions."""
    each = hidden(c_i, CPD)
    served = service(moved_previous, n_sm, core_freq, gpu_bw)  # LS-6
    Tp = t_p_revised(n_act, served, each)  # LS-5, LS-7
    before = waited_before_revised(Tp)  # LS-7
    after = waits_after_revised(m_i, n_act, each)  # LS-7
    Tc2 = t_c_type2_revised(m_i, n_act, each)  # LS-7
    Tc4 = t_c_type4_revised(m_i, n_act, each, Tp)  # LS-7
    return Tp, before, after, Tc2, Tc4


def outcome(busy, before_it, after_it, type1, type2, type3, type4):
    """Return the cycles of a round, regime and bound."""
    cycles = type1 + type2 + type3 + type4
    first, second = max(type1, type2), max(type3, type4)
    earlier = TYPE1 if type1 >= type2 else TYPE2
    later = TYPE3 if type3 >= type4 else TYPE4
    regime = earlier if first >= second else later
    waits = MEMORY if before_it >= after_it else LATENCY
    bound = COMPUTE if busy >= before_it + after_it else waits
    return cycles, regime, bound


def body(
    n_act, n_sm, active_sm, active_blocks_per_sm, blocks, warps_per_block, instructions, warp_bytes,
    p, a, b, c, d, m, n_thread, c_i, c_previous, d_mem, n_trans, moved_previous, weight, moved_last,
    core_freq, gpu_bw, t_mem_cycles, m_i, m_previous, corrected, revised,
):  # fmt: skip
    """Join the equations."""
    t_mem = t_mem_cycles / core_freq
    CPD2, smaller = degrees(p, a, b, c, d, m, n_act)
    CPD = corrected_cpd(p, c, CPD2, smaller) if corrected else smaller  # LS-3
    type1 = type2 = type3 = type4 = busy = before_it = after_it = 0.0
    MPD = n_act
    for i in range(len(c_i)):
        Warp_bw = warp_bw(n_thread, d_mem[i], n_trans[i], t_mem)
        work = computing(n_act, c_i[i], CPD)
        if corrected:
            MPD = mpd(n_act, gpu_bw, n_sm, Warp_bw)  # LS-2
        else:
            MPD = mpd_printed(n_act, gpu_bw, n_sm, Warp_bw)
        if revised:
            Tp, before, after, Tc2, Tc4 = revised_waits(
                n_act, n_sm, core_freq, gpu_bw, CPD, c_i[i], m_i[i], moved_previous[i]
            )
        else:
            Tp, before, after, Tc2, Tc4 = waits(
                n_act, MPD, c_i[i], c_previous[i], m_i[i], m_previous[i], corrected
            )
        Tc = Tc4 if before else Tc2
        Tp = Tp if before else 0.0
        Tc = Tc if after else 0.0
        T = t_i(work, Tp, Tc)
        T = T * weight[i] if weight[i] > 0.0 else 0.0
        busy += work * weight[i]
        before_it += Tp * weight[i] if weight[i] > 0.0 else 0.0
        after_it += Tc * weight[i] if weight[i] > 0.0 else 0.0
        type1 += 0.0 if before or after else T
        type2 += T if after and not before else 0.0
        type3 += T if before and not after else 0.0
        type4 += T if before and after else 0.0
    if revised:
        Tp = t_p_end(n_act, service(moved_last, n_sm, core_freq, gpu_bw))  # LS-5, LS-6
        before_it += Tp
        type3 += Tp
    cycles, regime, bound = outcome(busy, before_it, after_it, type1, type2, type3, type4)
    Rounds = rounds(blocks, active_blocks_per_sm, active_sm)
    Rounds = max(1.0, Rounds) if corrected else Rounds  # LS-4
    Total = cycles * Rounds
    used = active_sm / n_sm
    drawn = warp_bytes * n_act * n_sm * core_freq / (gpu_bw * cycles)
    return {
        "execution_cycles": Total,
        "cycles_per_instruction": Total / (instructions * warps_per_block * (blocks / active_sm)),
        "core_activity": min(1.0, busy / cycles * used),
        "memory_activity": min(1.0, drawn * used),
        "regime": regime,
        "bound": bound,
        "memory_parallel_degree": MPD,
        "computation_parallel_degree": CPD,
    }


def _costs(work: Workload) -> dict[str, Array]:
    """Return the device's cost of an instruction by class, as arrays along the devices [cycle]."""
    rows = [dict(table or ()) for table in work.tables["class_cost"]]
    names = {name for row in rows for name in row}
    return {name: work.by_device([row.get(name, np.nan) for row in rows]) for name in names}


def _task(stage: Stage, costs: dict[str, Array], zero: Array) -> Array:
    """Return the cost of a stage's computation over all its executions [cycle].

    A class that does not occur needs no cost. One number for all computation instructions has
    shared accesses and barriers in it already.
    """
    counts = dict(stage.instructions)
    if "computation" not in counts:
        counts["barrier"] = stage.barriers
        counts["shared"] = total(zero, stage.shared_accesses, "count")
    tasks = (
        np.where(count > 0, count * costs.get(name, np.nan), 0.0) for name, count in counts.items()
    )
    return sum(tasks, start=zero)


def _sequence(work: Workload, t_mem: Array) -> list[dict[str, Array]]:
    """Return the periods with their predecessors and how often each pair occurs.

    Stages of one loop alternate: the first follows what precedes the loop once, and the loop's last
    stage in every further iteration.
    """
    costs, zero = _costs(work), np.zeros_like(work.n_sm)
    periods = []
    for stage in work.stages:
        asked = stage.global_accesses
        count = total(zero, asked, "count")
        declared = len(work.stages) > 1 or stage.name != "kernel"
        executions = stage.executions if declared else np.maximum(count, 1.0)
        periods.append({
            "loop": stage.loop,
            "executions": executions,
            "c_i": mean(_task(stage, costs, zero), executions, 0.0),
            "m_i": mean(count * t_mem, executions, 0.0),
            "d_mem": mean(total(zero, asked, "count", "bytes"), count, 4.0),
            "n_trans": mean(total(zero, asked, "count", "transactions"), count, 1.0),
            "moved": mean(total(zero, asked, "count", "moved_bytes"), executions, 0.0),
        })  # fmt: skip
    # Before the first period: c_0 = m_0 = 0.
    nothing = {"c_i": zero, "m_i": zero, "d_mem": zero + 4.0, "n_trans": zero + 1.0, "moved": zero}
    pairs, previous = [], nothing
    for _, group in groupby(periods, key=lambda period: period["loop"] or id(period)):
        first, *_ = stages = list(group)
        often = first["executions"]
        pairs.append((first, previous, np.minimum(often, 1.0)))
        pairs.append((first, stages[-1], np.maximum(often - 1.0, 0.0)))
        pairs += [(now, before, now["executions"]) for before, now in pairwise(stages)]
        previous = stages[-1]
    return [
        {"c_i": now["c_i"], "m_i": now["m_i"], "c_previous": before["c_i"],
         "m_previous": before["m_i"], "d_mem": before["d_mem"], "n_trans": before["n_trans"],
         "moved_previous": before["moved"], "weight": weight}
        for now, before, weight in pairs
    ]  # fmt: skip


def _prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into tasks and periods."""
    device = work.parameters
    t_mem = device["t_mem_cycles"]
    clocks = work.clocks.seen_by(variant)
    # P compares costs at the nominal clocks: it is a property of the code.
    sequence = _sequence(work, t_mem)
    computation = sum(s["c_i"] * s["weight"] for s in sequence)
    memory = sum(s["m_i"] * s["weight"] for s in sequence)
    factor = latency(np.ones_like(work.n_sm), clocks.ratio, work.dram_share)
    accessed, moved = work.total("count", "bytes") * work.lanes, work.total("count", "moved_bytes")
    waited_for = sum(s["moved_previous"] * s["weight"] for s in sequence)
    return gathered(sequence) | {
        "instructions": work.computation_instructions + work.total("count"),
        "warp_bytes": moved if variant == "revised" else accessed,  # LS-6
        "p": computation / (computation + memory),
        "m": np.where(np.isfinite(device["m"]), device["m"], work.most_warps),
        "moved_last": np.maximum(moved - waited_for, 0.0),
        "gpu_bw": bandwidth(work.memory_bandwidth, clocks.memory, clocks.memory_nominal),
        "t_mem_cycles": t_mem * factor,
        "t_mem_factor": factor,
    }


SCALED = "scaled by instruction latency over issue cycles"  # which are 22 and 4 on the GTX 260


def _fit(name: str, value: float, how: str = SCALED) -> derived.Rule:
    """Return the rule that takes over a fit of the GTX 260."""

    def rule(device: derived.DeviceFacts) -> float | None:
        wait, issue = derived.instruction_latency(device), derived.issue_cycles(device)
        if how != SCALED:
            return value
        return None if wait is None or issue is None else value * (wait / issue / (22.0 / 4.0))

    rule.__doc__ = f"Fit {name} = {value:g} of the GTX 260, {how}; not measured."
    return rule


def class_cost(device: derived.DeviceFacts) -> derived.Value | None:
    """Cost of an instruction: its completion latency, as Table 1's 22 cycles are on the GTX 260."""
    base = derived.instruction_latency(device)
    rows = derived.type_latencies(device)
    if base is None or not isinstance(rows, tuple):
        return None
    by_type = {str(row[0]): row[3] for row in rows}
    integer = by_type.get("int", base)
    shared = derived.shared_latency(device) or base
    costs = {
        "computation": base, "fp32": base, "integer": integer, "conversion": integer,
        "control": integer, "move": integer, "special": by_type.get("sf", base), "shared": shared,
        "barrier": base, "matrix": base,
    }  # fmt: skip
    if "dp" in by_type:
        costs["fp64"] = by_type["dp"]
    return tuple(costs.items())


MODEL = Model(
    name="luo_suda",
    title="memory and computation parallel degrees over calculate periods",
    reference=(
        "C. Luo and R. Suda, An Execution Time Prediction Analytical Model for GPU with "
        "Instruction-level and Thread-level Parallelism Awareness, IPSJ SIG Technical Report, 2011"
    ),
    doi="",
    purpose="GPUs of 2008: kernels that compute and wait in turn, period by period",
    accuracy=(61, 9.7, 2.6),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("memory_parallel_degree", "1",
              "warps that access memory at the same time, in the last period", "MPD", "(2)"),
        Field("computation_parallel_degree", "1", "warps that compute at the same time", "CPD",
              "(3), (4)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    facts=lambda own: {
        "dram_latency": own.get("t_mem_cycles"), "memory_cost": own.get("t_mem_cycles"),
        "class_costs": own.get("class_cost"), "opcode_costs": own.get("instruction_cost"),
    },
    parameters=(
        parameter("a", ("a", "1", "empirical parameter of CPD"), -1000, 1e3, _fit("a", 3.0)),
        parameter("b", ("b", "1", "empirical parameter of CPD"), -1000, 1e3,
                  _fit("b", 11.0, "a number of warps, taken over")),
        parameter("c", ("c", "1", "empirical parameter of CPD"), 0, 1,
                  _fit("c", 0.5, "a proportion, taken over")),
        parameter("d", ("d", "1", "empirical parameter of CPD"), 0, 1e5, _fit("d", 80.0)),
        parameter("m", SYMBOLS["m"], 2, 1e3, required=False),
        parameter("t_mem_cycles", SYMBOLS["t_mem_cycles"], 1, 1e5, derived.dram_latency),
        parameter("class_cost", ("cost", "cycle", "cost of an instruction by class"), 0, 1e5,
                  class_cost, columns=("class_name", "cost_cycles")),
        parameter("instruction_cost", ("cost", "cycle", "Table 1: cost by PTX instruction"), 0,
                  1e5, columns=("instruction_name", "cost_cycles"), required=False),
    ),
    errata={
        "LS-1": "max(..., 0) in (13)",
        "LS-2": "bandwidth bound of an SM in (2), MPD at least 1",
        "LS-3": "CPD2 at high proportions, CPD at least 1",
        "LS-4": "at least one round",
        "CLK": "memory latency and bandwidth follow the swept clocks",
    },
    revisions={
        "LS-5": "(10), (12) without whole waiting periods: N_act service times",
        "LS-6": "accesses are served as their bytes are moved",
        "LS-7": "what covers a wait takes 1/CPD, as (6) counts it",
    },
)  # fmt: skip

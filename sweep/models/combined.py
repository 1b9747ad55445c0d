"""Throughput, latency and barriers together: for tuned kernels on GPUs with caches.

No paper's model: it puts the ingredients of the five papers together, and one result of queueing
theory between them. What each part is and comes from:

- Components of throughput and the bottleneck (Zhang & Owens, HPCA 2011): a warp demands time of
  the arithmetic pipelines and the issue slots, of the load-store pipeline with shared memory and
  L1, and of L2 and DRAM. Pipelines by instruction type are theirs and those of Lemeire et al.
  (PDP 2016).
- Issue and completion latency, instruction-level parallelism (Lemeire et al.; Luo & Suda 2011):
  what a warp waits for the results of its own instructions.
- Warps that hide each other's waiting (Hong & Kim, ISCA 2009, MWP/CWP): here a closed queueing
  network of all resident warps, each of which is served (demand) and waits (latency) in turn, in
  Schweitzer's approximation (P. Schweitzer, "Approximate analysis of multiclass closed networks of
  queues", 1979), which for one class is a quadratic equation. One warp alone takes demand plus
  latency, many take their demands: Little's law on both sides.
- Hits of L2 and DRAM latency over the clocks (Wang & Chu 2017); hits of L1 from the kernel file.
- Stages between barriers: serial if a single block is resident, as Zhang & Owens have it; of N
  resident blocks, all are in the same stage for one N-th of the time.
- Whole rounds of blocks (Hong & Kim's repetitions), with a last round of fewer blocks on an SM.

``variant="printed"`` is the plain throughput bound: the longest component, with perfect overlap,
no latencies and no rounds. ``"corrected"`` applies what it leaves out:

CB-1  Components overlap in part: the root of the sum of their squares, which lies between the
      longest (perfect overlap) and the sum (none), and near the longest where one dominates.
CB-2  Warps wait for results, and too few of them leave the pipelines idle.
CB-3  Stages between barriers overlap only with those of other blocks.
CB-4  Blocks come in whole rounds; the last one has fewer of them.
CB-5  A warp belongs to one of the SM's m schedulers and its lanes: alone it cannot use the others,
      however independent its instructions are. In the network of (8), m slow servers are one that
      is m times as fast and a wait of m - 1 times its service (Seidmann, Schweitzer and
      Shalev-Oren, "Computerized closed queueing network models of flexible manufacturing
      systems", 1987); nobody queues because of this wait.
CLK   DRAM bandwidth and latency follow the swept clocks.

Parameters are the device's own: data sheets and micro-benchmarks, by rules of
`sweep.hardware.derived`.
The exponent in CB-1 is the one number that was chosen by a measurement of a kernel: a convolution
on an RTX 2080 Ti with its hardware counters, which exponents of 1.5 to 2.5 fit about equally well.
No other number is fitted, but CB-5 was added with that kernel's times in view. (How wide words pass
the banks of shared memory and L1, a rule of the hardware that no manual states, was found by times
of an SGEMM on that card: `sweep.hardware.memory_rules`.)
Instruction caches, bank conflicts of registers, the order of instructions, power limits and TLBs
are not in the model.
"""

from __future__ import annotations

import numpy as np

from sweep.fields import Field
from sweep.hardware import derived
from sweep.hardware.clocks import bandwidth, latency
from sweep.models.base import Input, Model, Symbol, counted, equations, regimes, symbols_of
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, SHARED, of_device, parameter, provided
from sweep.models.workload import Array, Stage, Workload, gathered, total

INPUTS = (
    provided("blocks", "blocks", "thread blocks of the grid"),
    provided("active_blocks", "N_b", "thread blocks resident on an SM", "active_blocks_per_sm"),
    provided("active_sm", "active SMs", "SMs that have work"),
    provided("n_sm", "SMs", "SMs of the device"),
    provided("warps_per_block", "W_b", "warps of a block"),
    counted("instructions", "n", "instructions of a warp, memory accesses included",
            "kernel instructions"),
    counted("fp32", "n_fp32", "single-precision instructions of a warp", "kernel instructions"),
    counted("integer", "n_int", "integer instructions of a warp", "kernel instructions"),
    counted("special", "n_special", "special functions and conversions of a warp",
            "kernel instructions"),
    counted("fp64", "n_fp64", "double-precision instructions of a warp", "kernel instructions"),
    counted("accesses", "n_ls", "accesses of a warp to shared and global memory",
            "kernel accesses"),
    counted("wavefronts", "n_wave", "passes of a warp's accesses through shared memory",
            "kernel shared accesses and banks"),
    counted("l1_sectors", "n_L1", "time of accesses in the first-level cache, in sectors",
            "kernel access patterns by the device's rule"),
    counted("l2_sectors", "n_L2", "sectors that it does not serve",
            "the same, less what L1 serves"),
    counted("dram_sectors", "n_DRAM", "sectors that L2 does not serve either",
            "the same, less what L2 serves"),
    counted("chain", "n_chain", "arithmetic instructions that a warp waits for",
            "kernel instructions"),
    counted("shared_loads", "n_shared", "loads from shared memory that a warp waits for",
            "kernel shared accesses"),
    Input("cache_wait", "wait_cache", "cycle", "what a warp waits for loads that caches serve",
          "kernel loads, over those under way at once, by the device's latencies",
          ("l1_latency_cycles", "l2_latency_cycles"), sequence=True),
    counted("dram_loads", "n_miss", "loads from DRAM that a warp waits for",
            "kernel loads, over those under way at once"),
    counted("barriers", "n_bar", "barriers of a warp", "kernel stages"),
    of_device("issue_cycles", "t_issue", "cycle", "issue of an instruction, per SM"),
    of_device("fp32_cycles", "t_fp32", "cycle", "single-precision instruction, per SM"),
    of_device("integer_cycles", "t_int", "cycle", "integer instruction, per SM"),
    of_device("special_cycles", "t_special", "cycle", "special function, per SM"),
    Input("fp64_cycles", "t_fp64", "cycle", "double-precision instruction, per SM", "device",
          ("fp64_cycles",)),
    of_device("unified", "unified", "1", "whether integers take single-precision lanes (0 or 1)"),
    of_device("load_store_cycles", "t_ls", "cycle", "access of a warp, per SM"),
    of_device("shared_cycles", "t_wave", "cycle", "pass through shared memory"),
    of_device("l1_cycles", "t_L1", "cycle", "sector through the first-level cache"),
    of_device("l2_cycles", "t_L2", "cycle", "sector from L2, of one SM"),
    of_device("alu_latency", "L_alu", "cycle", "latency of a dependent arithmetic instruction",
              "alu_latency_cycles"),
    of_device("shared_latency", "L_shared", "cycle", "latency of shared memory",
              "shared_latency_cycles"),
    of_device("launch_cycles", "L_launch", "cycle", "launching of a block"),
    of_device("schedulers", "m", "1", "schedulers of an SM, each with lanes of its own"),
    provided("parallelism", "ILP", "independent instructions of a thread",
             "instruction_parallelism"),
    Input("dram_bandwidth", "bandwidth", "B/s", "sustained DRAM bandwidth", "device, at the clock",
          ("chip.memory_bandwidth_GBps", "dram_share_fraction"), clocked=True),
    Input("dram_latency", "L_DRAM", "cycle", "latency of DRAM", "device, at the clocks",
          ("dram_latency_cycles",), clocked=True),
    Input("core_clock", "f", "Hz", "core clock", "swept core clock; nominal as printed",
          clocked=True),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "overlapped": Symbol("T_overlapped", "cycle", "round whose stages overlap"),
    "serial": Symbol("T_serial", "cycle", "round whose stages follow one another"),
    "tail_cycles": Symbol("T_tail", "cycle", "time of the last round"),
    "demand": Symbol("D", "cycle", "demand of a warp, components overlapped in part"),
}
_equation = equations("combined", SYMBOLS)

SECTOR_BYTES = 32.0

# --- What a warp demands --------------------------------------------------------------------------


@_equation("1", "A", "cycle", "demand of a warp on issue slots and arithmetic pipelines")
def arithmetic(
    instructions, issue_cycles, fp32, fp32_cycles, integer, integer_cycles, special,
    special_cycles, fp64, fp64_cycles, unified,
):  # fmt: skip
    """Longest of issue and the pipelines, which work side by side."""
    return max(
        max(instructions * issue_cycles, (fp32 + unified * integer) * fp32_cycles),
        max(max(integer * integer_cycles, special * special_cycles), fp64 * fp64_cycles),
    )


@_equation("2", "S", "cycle", "demand of a warp on the load-store pipeline")
def load_store(
    accesses, load_store_cycles, wavefronts, shared_cycles, l1_sectors, l1_cycles
):  # fmt: skip
    """Addresses of accesses, or their data: shared memory and L1 are one memory."""
    return max(accesses * load_store_cycles, wavefronts * shared_cycles + l1_sectors * l1_cycles)


@_equation("3", "t_DRAM", "cycle", "sector from DRAM, of one SM")
def dram_cycles(core_clock, active_sm, dram_bandwidth):
    """Cycles of a sector at an SM's share of the bandwidth."""
    return SECTOR_BYTES * core_clock * active_sm / dram_bandwidth


@_equation("4", "M", "cycle", "demand of a warp on L2 and DRAM")
def memory(l2_sectors, l2_cycles, dram_sectors, dram_cycles):
    """Longest of L2 and DRAM."""
    return max(l2_sectors * l2_cycles, dram_sectors * dram_cycles)


@_equation("5 as printed", "demand")
def demand_printed(arithmetic, load_store, memory):
    """Longest component: all overlap perfectly."""
    return max(max(arithmetic, load_store), memory)


@_equation("5")
def demand(arithmetic, load_store, memory):
    """Components overlap in part (CB-1)."""
    return np.sqrt(arithmetic * arithmetic + load_store * load_store + memory * memory)


# --- What a warp waits ----------------------------------------------------------------------------


@_equation("6a", "Z_own", "cycle", "what a warp's arithmetic takes longer on its own lanes")
def own_lanes(arithmetic, schedulers):
    """What a warp's arithmetic takes longer on one scheduler's lanes than on all (CB-5)."""
    return (schedulers - 1.0) * arithmetic


@_equation("6b", "Z_A", "cycle", "what a warp alone waits for its arithmetic")
def arithmetic_wait(chain, alu_latency, parallelism, own_lanes):
    """Latency of arithmetic results, or of the lanes themselves."""
    return max(chain * alu_latency / parallelism, own_lanes)


@_equation("6", "Z", "cycle", "what a warp alone would wait")
def wait(
    arithmetic_wait, shared_loads, barriers, shared_latency, parallelism, cache_wait, dram_loads,
    dram_latency,
):  # fmt: skip
    """Latency of the results that a warp needs, one after the other; barriers are as far away."""
    return (
        arithmetic_wait + shared_loads * shared_latency / parallelism
        + barriers * shared_latency + cache_wait + dram_loads * dram_latency
    )  # fmt: skip


# --- Many warps -----------------------------------------------------------------------------------


@_equation("7", "N", "1", "warps resident on an SM")
def warps(active_blocks, warps_per_block):
    """Warps resident on an SM."""
    return active_blocks * warps_per_block


@_equation("8", "T", "cycle", "time of a round")
def round_cycles(warps, demand, wait, own_lanes):
    """Return the time in which each of the warps is served and waits once.

    The positive root of ``T**2 - (N D + Z) T + (N - 1) D Z + D Z_own = 0``: each warp finds those
    of the others that do not wait queueing before it. D + Z for one warp, N D for many.
    """
    served = warps * demand
    root = np.sqrt((served - wait) * (served - wait) + 4.0 * demand * (wait - own_lanes))
    return max(0.5 * (served + wait + root), demand + wait)


@_equation("9", "round_cycles")
def with_barriers(overlapped, serial, active_blocks):
    """Time of a round: for one N-th of it all blocks are in the same stage (CB-3)."""
    return overlapped + max(serial - overlapped, 0.0) / active_blocks


@_equation("10", "rounds", "1", "rounds in which all SMs hold all blocks that they can")
def full_rounds(blocks, active_blocks, n_sm):
    """Rounds that fill all SMs (CB-4)."""
    return np.floor(blocks / (active_blocks * n_sm))


@_equation("11", "N_tail", "1", "blocks of an SM in the last round")
def tail_blocks(blocks, full_rounds, active_blocks, n_sm):
    """Blocks of the busiest SM in the last round (CB-4)."""
    return np.ceil((blocks - full_rounds * active_blocks * n_sm) / n_sm)


@_equation("12", "T_exec", "cycle", "execution time")
def exec_cycles(full_rounds, round_cycles, tail_cycles):
    """All rounds one after the other."""
    return full_rounds * round_cycles + tail_cycles


@_equation("12 as printed", "exec_cycles")
def exec_cycles_printed(blocks, warps_per_block, active_sm, demand):
    """Demands of all warps, spread evenly over the SMs."""
    return blocks * warps_per_block / active_sm * demand


# --- The model ------------------------------------------------------------------------------------

REGIMES = regimes("combined", 70, "arithmetic", "load_store", "memory", "latency")
ARITHMETIC, LOAD_STORE, GLOBAL, WAITING = map(float, REGIMES.values())


@_equation("13", kind="condition")
def is_latency_bound(warps, demand, wait):
    """Too few warps: those that are served cannot cover the waiting of one."""
    return warps * demand < wait


def printed_time(blocks, warps_per_block, active_sm, longest):
    """Return the throughput bound, in which nobody waits."""
    return exec_cycles_printed(blocks, warps_per_block, active_sm, longest), False


def corrected_time(
    active_blocks, schedulers, N, rounds, left, has_tail, N_tail, all_a, all_s, all_m, all_z,
    serial, serial_tail,
):  # fmt: skip
    """Join (5) to (13), with the errata applied."""
    D = demand(all_a, all_s, all_m)
    all_own = own_lanes(all_a, schedulers)
    T = with_barriers(round_cycles(N, D, all_z, all_own), serial, active_blocks)
    T_tail = has_tail * with_barriers(round_cycles(N_tail, D, all_z, all_own), serial_tail,
                                      max(left, 1.0))  # fmt: skip
    return exec_cycles(rounds, T, T_tail), is_latency_bound(N, D, all_z)


def body(
    blocks, active_blocks, active_sm, n_sm, warps_per_block, instructions, fp32, integer, special,
    fp64, accesses, wavefronts, l1_sectors, l2_sectors, dram_sectors, chain, shared_loads,
    cache_wait, dram_loads, barriers, issue_cycles, fp32_cycles, integer_cycles, special_cycles,
    fp64_cycles, unified, load_store_cycles, shared_cycles, l1_cycles, l2_cycles, alu_latency,
    shared_latency, launch_cycles, schedulers, parallelism, dram_bandwidth, dram_latency,
    core_clock, corrected,
):  # fmt: skip
    """Join the equations."""
    t_dram = dram_cycles(core_clock, active_sm, dram_bandwidth)
    N = warps(active_blocks, warps_per_block)
    rounds = full_rounds(blocks, active_blocks, n_sm)
    left = tail_blocks(blocks, rounds, active_blocks, n_sm)
    has_tail = 1.0 if left > 0.0 else 0.0
    N_tail = warps(max(left, 1.0), warps_per_block)
    all_a = all_s = all_m = all_shared = all_l1 = all_dram = executed = 0.0
    a = s = m = own = serial = serial_tail = 0.0
    z = all_z = launch_cycles
    for k in range(len(instructions)):
        a_k = arithmetic(instructions[k], issue_cycles, fp32[k], fp32_cycles, integer[k],
                         integer_cycles, special[k], special_cycles, fp64[k], fp64_cycles,
                         unified)  # fmt: skip
        s_k = load_store(accesses[k], load_store_cycles, wavefronts[k], shared_cycles,
                         l1_sectors[k], l1_cycles)  # fmt: skip
        m_k = memory(l2_sectors[k], l2_cycles, dram_sectors[k], t_dram)
        own_k = own_lanes(a_k, schedulers)
        z_k = arithmetic_wait(chain[k], alu_latency, parallelism, own_k)
        z_k = wait(z_k, shared_loads[k], barriers[k], shared_latency, parallelism,
                   cache_wait[k], dram_loads[k], dram_latency)  # fmt: skip
        all_a += a_k
        all_s += s_k
        all_m += m_k
        all_z += z_k
        all_shared += wavefronts[k] * shared_cycles
        all_l1 += l1_sectors[k] * l1_cycles
        all_dram += dram_sectors[k] * t_dram
        executed += instructions[k]
        a += a_k
        s += s_k
        m += m_k
        z += z_k
        own += own_k
        # Stages without a barrier between them are one.
        if k == len(instructions) - 1 or barriers[k] > 0.0:
            d = demand(a, s, m)
            serial += round_cycles(N, d, z, own)
            serial_tail += round_cycles(N_tail, d, z, own)
            a = s = m = z = own = 0.0

    longest = demand_printed(all_a, all_s, all_m)
    if corrected:
        cycles, waits = corrected_time(
            active_blocks, schedulers, N, rounds, left, has_tail, N_tail, all_a, all_s, all_m,
            all_z, serial, serial_tail,
        )  # fmt: skip
    else:
        cycles, waits = printed_time(blocks, warps_per_block, active_sm, longest)
    by_arithmetic = all_a >= longest
    by_load_store = all_s >= longest
    # The load-store pipeline serves shared memory and L1: the one with more to do.
    served = SHARED if all_shared >= all_l1 else MEMORY
    component = ARITHMETIC if by_arithmetic else (LOAD_STORE if by_load_store else GLOBAL)
    bottleneck = COMPUTE if by_arithmetic else (served if by_load_store else MEMORY)
    regime = WAITING if waits else component
    bound = LATENCY if waits else bottleneck
    per_sm = blocks * warps_per_block / active_sm
    CPI = cycles / (executed * per_sm)
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, all_a * per_sm / cycles),
        "memory_activity": min(1.0, all_dram * per_sm / cycles),
        "regime": regime,
        "bound": bound,
        "arithmetic_cycles": all_a * per_sm,
        "load_store_cycles": all_s * per_sm,
        "memory_cycles": all_m * per_sm,
        "wait_cycles": all_z,
        "utilisation": min(1.0, longest * per_sm / cycles),
    }


def _traffic(stage: Stage, zero: Array) -> dict[str, Array]:
    """Return the sectors of a warp on each level of the memory."""
    l1 = l2 = dram = zero
    for access in stage.global_accesses:
        moved = access.count * access.moved_bytes / SECTOR_BYTES
        beyond = moved * (1.0 - access.l1_hit_rate)
        # A pass through L1 takes the time of four sectors, however few lanes or banks it uses.
        passed = np.maximum(moved, 4.0 * access.count * access.wavefronts)
        l1, l2, dram = l1 + passed, l2 + beyond, dram + beyond * (1.0 - access.l2_hit_rate)
    return {"l1_sectors": l1, "l2_sectors": l2, "dram_sectors": dram}


def _waiting(work: Workload, stage: Stage, zero: Array) -> dict[str, Array]:
    """Return what a warp waits for its loads: in cycles for caches, as a number for DRAM.

    A store is waited for by nobody. Of the loads that a thread has under way at once one is waited
    for, at least one in all.
    """
    device = work.parameters
    loads = cached = missed = zero
    for access in stage.global_accesses:
        if access.kind == "load":
            beyond = access.count * (1.0 - access.l1_hit_rate)
            loads = loads + access.count
            cached = cached + (access.count - beyond) * device["l1_latency_cycles"]
            cached = cached + beyond * access.l2_hit_rate * device["l2_latency_cycles"]
            missed = missed + beyond * (1.0 - access.l2_hit_rate)
    least = np.minimum(1.0, 1.0 / np.where(loads > 0, loads, 1.0))
    share = np.maximum(1.0 / work.memory_parallelism, least)
    return {"cache_wait": np.where(loads > 0, cached, 0.0) * share, "dram_loads": missed * share}


def _stage(work: Workload, stage: Stage) -> dict[str, Array]:
    """Return one stage's part of the inputs."""
    zero = np.zeros_like(work.n_sm)
    count = {name: stage.instructions.get(name, zero) for name in
             ("computation", "fp32", "integer", "special", "conversion", "fp64")}  # fmt: skip
    on_special = count["conversion"] * work.parameters["special_conversions"]
    requests = total(zero, stage.global_accesses, "count")
    local = total(zero, stage.shared_accesses, "count")
    chain = np.maximum(stage.computation_instructions - local - stage.barriers, 0.0)
    # Where the file gives one number for all instructions, they are taken for single precision.
    fp32 = chain if "computation" in stage.instructions else count["fp32"]
    loads = [access for access in stage.shared_accesses if access.kind == "load"]
    return {
        "instructions": stage.computation_instructions + requests,
        "fp32": fp32,
        "integer": count["integer"] + count["conversion"] - on_special,
        "special": count["special"] + on_special,
        "fp64": count["fp64"],
        "accesses": requests + local,
        "wavefronts": total(zero, stage.shared_accesses, "count", "wavefronts"),
        "chain": chain,
        "shared_loads": total(zero, loads, "count"),
        "barriers": stage.barriers,
        **_traffic(stage, zero),
        **_waiting(work, stage, zero),
    }


def _prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into what a warp demands and waits, stage by stage."""
    inputs = gathered([_stage(work, stage) for stage in work.stages])
    device, clocks = work.parameters, work.clocks.seen_by(variant)
    # A device need not have what the kernel does not execute.
    has_fp64 = sum(inputs["fp64"]) > 0
    rate = work.memory_bandwidth * device["dram_share_fraction"]
    return inputs | {
        "fp64_cycles": np.where(has_fp64, device["fp64_cycles"], 0.0),
        "dram_bandwidth": bandwidth(rate, clocks.memory, clocks.memory_nominal),
        "dram_latency": latency(device["dram_latency_cycles"], clocks.ratio, work.dram_share),
        "core_clock": clocks.core,
    }


MODEL = Model(
    name="combined",
    title="throughput, latency and barriers of a queueing network of warps, with caches",
    reference=(
        "no paper: components of Zhang & Owens, latencies of Lemeire et al., rounds of Hong & "
        "Kim and clocks of Wang & Chu, joined by Schweitzer's approximation of closed "
        "queueing networks"
    ),
    doi="",
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("arithmetic_cycles", "cycle", "cycles that an SM issues and computes", "A", "(1)"),
        Field("load_store_cycles", "cycle", "cycles of an SM's load-store pipeline", "S", "(2)"),
        Field("memory_cycles", "cycle", "cycles of L2 and DRAM for an SM", "M", "(4)"),
        Field("wait_cycles", "cycle", "what a warp alone would wait", "Z", "(6)"),
        Field("utilisation", "1", "longest component over the time", "", "(5)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    parameters=(
        parameter("issue_cycles", SYMBOLS["issue_cycles"], 1e-3, 1e5, derived.issue_slots),
        parameter("fp32_cycles", SYMBOLS["fp32_cycles"], 1e-3, 1e5, derived.issue_cycles),
        parameter("integer_cycles", SYMBOLS["integer_cycles"], 1e-3, 1e5, derived.integer_cycles),
        parameter("special_cycles", SYMBOLS["special_cycles"], 1e-3, 1e5, derived.special_cycles),
        parameter("load_store_cycles", SYMBOLS["load_store_cycles"], 1e-3, 1e5,
                  derived.load_store_cycles),
        parameter("shared_cycles", SYMBOLS["shared_cycles"], 1e-3, 1e5, derived.shared_cycles),
        parameter("l1_cycles", SYMBOLS["l1_cycles"], 1e-3, 1e5, derived.l1_cycles),
        parameter("l2_cycles", SYMBOLS["l2_cycles"], 1e-3, 1e5, derived.l2_service),
        parameter("fp64_cycles", SYMBOLS["fp64_cycles"], 1e-3, 1e5, derived.fp64_cycles,
                  required=False),
        parameter("unified", ("unified", "1", "whether integers take single-precision lanes"), 0, 1,
                  derived.unified_lanes),
        parameter("special_conversions",
                  ("w_conv", "1", "share of conversions that take the lanes of special functions;"
                   " the others take those of integers"),
                  0, 1, derived.special_conversions),
        parameter("alu_latency_cycles", SYMBOLS["alu_latency"], 0.1, 1e5,
                  derived.instruction_latency),
        parameter("shared_latency_cycles", SYMBOLS["shared_latency"], 0.1, 1e5,
                  derived.lookup_latency),
        parameter("l1_latency_cycles",
                  ("L_L1", "cycle", "latency of a load that the first-level cache serves"), 0.1,
                  1e5, derived.l1_latency),
        parameter("l2_latency_cycles",
                  ("L_L2", "cycle", "latency of a load that the L2 cache serves"), 0.1, 1e5,
                  derived.cache_latency),
        parameter("dram_latency_cycles", SYMBOLS["dram_latency"], 0.1, 1e5, derived.memory_latency),
        parameter("launch_cycles", SYMBOLS["launch_cycles"], 1e-3, 1e5, derived.launch_cycles),
        parameter("schedulers", SYMBOLS["schedulers"], 1, 16, derived.schedulers),
        parameter("dram_share_fraction",
                  ("share", "1", "share of the peak DRAM bandwidth that is sustained"), 0.01, 1,
                  derived.dram_read_share),
    ),
    errata={
        "CB-1": "components overlap in part",
        "CB-2": "warps wait for results (Schweitzer's approximation)",
        "CB-3": "stages between barriers overlap with those of other blocks only",
        "CB-4": "whole rounds of blocks, the last one with fewer",
        "CB-5": "a warp has the lanes of one scheduler (Seidmann's approximation)",
        "CLK": "DRAM bandwidth and latency follow the swept clocks",
    },
)  # fmt: skip

"""Throughput, latency and barriers together: for tuned kernels on GPUs with caches.

No paper's model: it puts the ingredients of the five papers together, and one result of queueing
theory between them. What each part is and comes from:

- Components of throughput and the bottleneck (Zhang & Owens, HPCA 2011): a warp demands time of
  the issue slots, of the pipelines of each instruction type (theirs, and those of Lemeire et al.,
  PDP 2016), of the load-store pipeline with shared memory and L1, of L2 and of DRAM.
- Issue and completion latency, instruction-level parallelism (Lemeire et al.; Luo & Suda 2011):
  what a warp waits for the results of its own instructions.
- Warps that hide each other's waiting (Hong & Kim, ISCA 2009, MWP/CWP): here a closed queueing
  network of all resident warps, which pass the stations one after the other and wait in between, by
  approximate mean value analysis (P. Schweitzer, "Approximate analysis of multiclass closed
  networks of queues", 1979). `docs/models/combined_network.md` derives the equations.
- Hits of L2 and DRAM latency over the clocks (Wang & Chu 2017); hits of L1 from the kernel file.
- Stages between barriers: serial if a single block is resident, as Zhang & Owens have it; of N
  resident blocks, all are in the same stage for one N-th of the time.
- Whole rounds of blocks (Hong & Kim's repetitions), with a last round of fewer blocks on an SM.

``variant="printed"`` is the plain throughput bound: the longest component, with perfect overlap,
no latencies and no rounds. ``"corrected"`` applies what it leaves out:

CB-1  Warps queue at each component, not only at the longest: approximate mean value analysis. Exact
      for one warp, one station, balanced stations and many warps.
CB-2  Warps wait for results, and too few of them leave the pipelines idle.
CB-3  Stages between barriers overlap only with those of other blocks.
CB-4  Blocks come in whole rounds; the last one has fewer of them.
CB-5  A warp belongs to one of the SM's m schedulers and its lanes: alone it cannot use the others,
      however independent its instructions are, and it queues with one m-th of the warps.
CB-6  The second issue slot of a scheduler, as Kepler to Pascal have it, takes an instruction only
      if it is independent of the first: "each scheduler issues two independent instructions for one
      of its assigned warps" (NVIDIA, CUDA C Programming Guide, compute capability 3.x). On Kepler
      warps of dependent instructions leave a third of the lanes idle.
CB-7  Asynchronous copies bring what a block needs next while it works on what has come: of a stage
      with copies the time is that of the busiest station, or of a warp's longer part.
CB-8  DRAM is the whole chip's: SMs that copies feed are out of step, and copies of others go on
      while a block has none under way.
CB-9  Blocks start one after the other on the whole chip.
CB-10 Blocks of an SM that copies feed begin in step: each waits for what those before it have
      begun, their first instructions or copies.
CB-11 Of two activities of blocks that copies feed the shorter hides behind the longer, but not
      wholly, unless warps of their own issue the copies (warp specialization). Warps that load
      themselves what they multiply, at the units' full rate (as mma on Ampere), hide less.
CB-12 Copies into a single buffer take a little longer in DRAM.
CLK   DRAM bandwidth and latency follow the swept clocks.

Parameters are the device's own: data sheets and micro-benchmarks (`sweep.hardware.derived`).
No number is fitted to the time of a kernel; CB-5 was added with times of a convolution on an RTX
2080 Ti in view. (How wide words pass the banks of shared memory and L1, which no manual states, was
found by times of an SGEMM on that card: `sweep.hardware.memory_rules`.)
(12a) knows from the fastest measured product of a device what power allows to matrix units. (3b),
(9a), (10a), (10c), (14f), (14g) and turns without the first were written with times of products on
an H200 or H100 in view, (14d) also with lists of an A100.
The time is never less than the busiest station takes, and never falls with more of any demand,
latency, block or warp of a block. `docs/models/combined_copies.md` names exceptions.
Instruction caches and order, register banks and TLBs are not in the model.
"""

from __future__ import annotations

from typing import NamedTuple

from sweep.fields import Field
from sweep.models.base import Model, added, regimes
from sweep.models.combined_equations import (
    ahead_of_copies,
    all_rounds,
    alone,
    arithmetic,
    arithmetic_wait,
    beside_copies,
    beside_dram,
    by_length,
    dependent,
    dram_cycles,
    drawing,
    entry,
    exec_cycles,
    exec_cycles_printed,
    first_round,
    full_rounds,
    in_step,
    is_latency_bound,
    issue,
    load_store,
    load_wait,
    longest,
    memory,
    of_buffers,
    of_l2,
    round_cycles,
    share_of_last,
    single_precision,
    slots,
    tail_blocks,
    through_dram,
    turn,
    wait,
    warps,
    with_barriers,
    within_power,
    work_alone,
)
from sweep.models.combined_inputs import INPUTS, PARAMETERS, SYMBOLS, prepare
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, SHARED

REGIMES = regimes("combined", 70, "arithmetic", "load_store", "memory", "latency")
ARITHMETIC, LOAD_STORE, GLOBAL, WAITING = map(float, REGIMES.values())


class Grid(NamedTuple):
    """Rounds of blocks on an SM."""

    full: float  # rounds (10)
    active: float  # blocks in each of them
    left: float  # blocks in the last one (11)
    least: float  # the same, at least one
    share: float  # of the last one (14c)


class Demands(NamedTuple):
    """What a warp demands of each station, D = n t, in a stage or in several [cycle]."""

    slots: float  # issue slots, or matrix units
    single: float  # lanes of single precision, then those of the other classes
    integers: float
    specials: float
    doubles: float
    load_store: float
    l2: float
    dram: float


class Times(NamedTuple):
    """What a warp takes alone, or a block that copies feed, in a stage or in several [cycle]."""

    work: float  # without the copies (14a)
    one: float  # T_1, or the longer of work and turns
    turns: float  # of the buffers (14b)
    fed: float  # stages that copies feed


class Rounds(NamedTuple):
    """What a full round and the last one take [cycle]."""

    full: float
    last: float


NO_DEMANDS, NO_TIMES, NO_ROUNDS = Demands(*[0.0] * 8), Times(*[0.0] * 4), Rounds(0.0, 0.0)


def rounds_of_grid(blocks, active_blocks, n_sm, active_sm):
    """Return in which rounds the blocks of the grid come to the SMs."""
    full = full_rounds(blocks, active_blocks, n_sm)
    left = tail_blocks(blocks, full, active_blocks, n_sm)
    least = max(left, 1.0)
    of_last = share_of_last(blocks, full, active_blocks, n_sm, active_sm, least)
    return Grid(full, active_blocks, left, least, of_last)


def demands_in_stage(
    issued, matrix, fp32, integer, special, fp64, accesses, wavefronts, l1_sectors, l2_sectors,
    dram_sectors, link_time, fp32_cycles, integer_cycles, special_cycles, fp64_cycles, unified,
    one_pipe, load_store_cycles, shared_cycles, l1_cycles, t_l2, t_dram, active_sm, core_clock,
    buffers,
):  # fmt: skip
    """Return what a warp demands of each station in a stage, (1) without matrix units, and (4)."""
    on_slots = slots(issued, matrix)
    integers, specials = integer * integer_cycles, special * special_cycles
    doubles, through_l2 = fp64 * fp64_cycles, l2_sectors * t_l2
    on_single = single_precision(fp32, fp32_cycles, integer, unified, specials, doubles, one_pipe)
    served = load_store(
        accesses, load_store_cycles, wavefronts, shared_cycles, l1_sectors, l1_cycles
    )
    beyond = through_dram(dram_sectors, t_dram, link_time, active_sm, core_clock)
    beyond = of_buffers(beyond, buffers)
    D = Demands(on_slots, on_single, integers, specials, doubles, served, through_l2, beyond)
    return D, arithmetic(issued, on_single, integers, specials, doubles), memory(through_l2, beyond)


def times_in_stage(demand, M, on_lanes, C, Z, Z_M, buffers, schedulers, W, asynchronous):
    """Return what a warp, or a block that copies feed, takes in a stage, and Z_A + Z."""
    A = arithmetic(demand.slots, demand.single, demand.integers, demand.specials, demand.doubles)
    own_wait = arithmetic_wait(C, schedulers, A) + Z
    work = one = turns = alone(A, demand.load_store, M, own_wait + Z_M, schedulers)
    fed = 0.0
    if buffers > 0.0:
        work = work_alone(A, demand.load_store, C, Z, schedulers, W, asynchronous)
        ahead = ahead_of_copies(work, on_lanes, C, Z, schedulers, W, asynchronous)
        turns = turn(ahead, Z_M, W, demand.l2, buffers)
        one, fed = max(work, turns), 1.0
    return Times(work, one, turns, fed), own_wait


def demands_on_lanes(demand, unified, one_pipe):
    """Return what a warp demands of lanes, the longest first."""
    return by_length(
        demand.slots, demand.single, demand.integers, demand.specials, demand.doubles, unified,
        one_pipe,
    )  # fmt: skip


def times_of_round(blocks, share, W, schedulers, demand, time, lanes, special, mma):
    """Return the time of a round of blocks: (8), or (14), without DRAM.

    Warps are customers of all stations. Blocks that copies feed are in step: they are customers of
    one station, lanes and load-store pipeline side by side, where (8) is its bound (8c).
    """
    N, m, D_1, kept, work = warps(blocks, W), schedulers, lanes.first, 1.0, time.work
    if time.fed > 0.0:
        D_1 = W * in_step(lanes.first, demand.load_store, special, mma)
        # Stages without copies count what one warp takes alone (8a): all take at least this long.
        N, m, kept = blocks, 1.0, 0.0
        work = max(work, W * max(lanes.first, demand.load_store))
    T = round_cycles(
        N, m, work, D_1, kept * lanes.second, kept * lanes.third, kept * demand.load_store,
        kept * demand.l2, kept * demand.dram,
    )  # fmt: skip
    if time.fed > 0.0:
        T = beside_copies(T, blocks * W * share * demand.l2, time.one, special)
    return T


def times_of_rounds(grid, W, schedulers, demand, time, lanes, special, mma):
    """Return the times of a full round and of the last one."""
    full = times_of_round(grid.active, 1.0, W, schedulers, demand, time, lanes, special, mma)
    last = times_of_round(grid.least, grid.share, W, schedulers, demand, time, lanes, special, mma)
    return Rounds(full, last)


def with_all_barriers(overlapped, serial, grid):
    """Return the times of rounds whose stages overlap with those of other blocks only (CB-3)."""
    return Rounds(
        with_barriers(overlapped.full, serial.full, grid.active),
        with_barriers(overlapped.last, serial.last, grid.least),
    )


def cycles_of_rounds(grid, T, demand, time, T_entry, W, blocks, n_sm, block_start, specialized):
    """Return the time of all rounds: the first, in which blocks start, later ones and the last."""
    if time.fed > 0.0:
        N, N_last = warps(grid.active, W), warps(grid.least, W) * grid.share
        T = Rounds(
            beside_dram(T.full, N * demand.dram, specialized),
            beside_dram(T.last, N_last * demand.dram, specialized),
        )
    else:
        T_entry = 0.0
    T_first = first_round(T.full, time.one, T_entry, blocks, grid.active, n_sm, block_start)
    T_only = first_round(T.last, time.one, T_entry, blocks, grid.active, n_sm, block_start)
    T_last = T.last if grid.full > 0.0 else T_only
    return all_rounds(grid.full, T_first, T.full, T_last if grid.left > 0.0 else 0.0)


def results_of(
    cycles, waits, total, A, D_max, in_shared, in_l1, D_power, executed, waited, per_sm, used
):
    """Return the results by name, with the component that the time is due to."""
    by_arithmetic = A >= D_max
    by_load_store = total.load_store >= D_max
    # The load-store pipeline serves shared memory and L1: the one with more to do.
    served = SHARED if in_shared >= in_l1 else MEMORY
    component = ARITHMETIC if by_arithmetic else (LOAD_STORE if by_load_store else GLOBAL)
    bottleneck = COMPUTE if by_arithmetic else (served if by_load_store else MEMORY)
    CPI = cycles / (executed * per_sm)
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, D_power * per_sm / cycles) * used,
        "memory_activity": min(1.0, total.dram * per_sm / cycles),
        "regime": WAITING if waits else component,
        "bound": LATENCY if waits else bottleneck,
        "arithmetic_cycles": A * per_sm,
        "load_store_cycles": total.load_store * per_sm,
        "memory_cycles": max(total.l2, total.dram) * per_sm,
        "wait_cycles": waited,
        "utilisation": min(1.0, D_max * per_sm / cycles),
    }


def body(
    blocks, active_blocks, active_sm, n_sm, warps_per_block, instructions, fp32, integer, special,
    fp64, accesses, wavefronts, l1_sectors, l2_sectors, dram_sectors, chain, shared_loads,
    cache_wait, dram_loads, link_time, link_wait, barriers, matrix, matrix_chain, matrix_time,
    asynchronous, in_order, specialized, buffers, entries, begun, issue_cycles, fp32_cycles,
    integer_cycles, special_cycles, fp64_cycles, unified, one_pipe, load_store_cycles,
    shared_cycles, l1_cycles, l2_cycles, alu_latency, shared_latency, launch_cycles, block_start,
    kernel_launch, schedulers, parallelism, dram_bandwidth, dram_latency, core_clock, corrected,
):  # fmt: skip
    """Join the equations."""
    W, N, share = warps_per_block, warps(active_blocks, warps_per_block), 1.0 / parallelism
    t_dram = dram_cycles(core_clock, active_sm, dram_bandwidth)
    t_l2 = of_l2(l2_cycles, active_sm, n_sm)
    t_i = issue(issue_cycles, schedulers, share) if corrected else issue_cycles
    grid = rounds_of_grid(blocks, active_blocks, n_sm, active_sm)
    # Sums over all stages, and over those since the last barrier.
    total, since, serial = NO_DEMANDS, NO_DEMANDS, NO_ROUNDS
    total_time = since_time = Times(launch_cycles, launch_cycles, launch_cycles, 0.0)
    waited = executed = in_shared = in_l1 = in_matrix = D_matrix = 0.0
    for k in range(len(instructions)):
        D, on_lanes, M = demands_in_stage(
            instructions[k] * t_i, matrix[k], fp32[k], integer[k], special[k], fp64[k], accesses[k],
            wavefronts[k], l1_sectors[k], l2_sectors[k], dram_sectors[k], link_time[k], fp32_cycles,
            integer_cycles, special_cycles, fp64_cycles, unified, one_pipe, load_store_cycles,
            shared_cycles, l1_cycles, t_l2, t_dram, active_sm, core_clock,
            buffers[k] if corrected else 0.0,
        )  # fmt: skip
        if k == 0:
            T_entry = entry(W, on_lanes, D.load_store, M, begun, entries)
        C = dependent(chain[k], alu_latency, share, matrix_chain[k])
        Z = wait(shared_loads[k], barriers[k], shared_latency, share)
        Z_M = load_wait(cache_wait[k], dram_loads[k], dram_latency, link_wait[k], core_clock)
        time, own_wait = times_in_stage(
            D, M, on_lanes, C, Z, Z_M, buffers[k], schedulers, W, asynchronous
        )
        total, total_time = added(total, D), added(total_time, time)
        since, since_time = added(since, D), added(since_time, time)
        waited, executed = waited + own_wait + Z_M, executed + instructions[k]
        in_shared += wavefronts[k] * shared_cycles
        in_l1, in_matrix = in_l1 + l1_sectors[k] * l1_cycles, in_matrix + matrix_time[k]
        D_matrix = D_matrix + matrix[k]
        # Stages without a barrier between them are one; a single one cannot overlap with others.
        if len(instructions) > 1 and (k == len(instructions) - 1 or barriers[k] > 0.0):
            lanes = demands_on_lanes(since, unified, one_pipe)
            T = times_of_rounds(
                grid, W, schedulers, since, since_time, lanes, specialized, in_order
            )
            serial, since, since_time = added(serial, T), NO_DEMANDS, NO_TIMES

    total_lanes = demands_on_lanes(total, unified, one_pipe)
    D_max = longest(total_lanes.first, total.load_store, total.l2, total.dram)
    if corrected:
        T = times_of_rounds(
            grid, W, schedulers, total, total_time, total_lanes, specialized, in_order
        )
        if len(instructions) > 1:
            T = with_all_barriers(T, serial, grid)
        cycles = cycles_of_rounds(grid, T, total, total_time, T_entry, W, blocks, n_sm, block_start,
                                  specialized)  # fmt: skip
        cycles = exec_cycles(cycles, blocks, block_start, kernel_launch, core_clock)
        cycles = within_power(cycles, blocks, W, in_matrix, core_clock)
        waits = is_latency_bound(N, D_max, total_time.turns)
    else:
        cycles = exec_cycles_printed(blocks, W, active_sm, D_max)
        waits = False
    per_sm = blocks * W / active_sm
    D_power = drawing(total.single, total.integers, total.specials, total.doubles, D_matrix,
                      total.load_store, unified, one_pipe, fp32_cycles, fp64_cycles)  # fmt: skip
    return results_of(cycles, waits, total, total_lanes.first, D_max, in_shared, in_l1, D_power,
                      executed, launch_cycles + waited, per_sm, active_sm / n_sm)  # fmt: skip


MODEL = Model(
    name="combined",
    title="throughput, latency and barriers of a queueing network of warps, with caches",
    reference=(
        "no paper: components of Zhang & Owens, Lemeire et al., Hong & Kim and Wang & Chu, joined"
        " by Schweitzer's approximate mean value analysis of closed queueing networks"
    ),
    doi="",
    purpose="tuned kernels on GPUs with caches, NVIDIA's from Kepler on and AMD's: begin with it",
    accuracy=(0, 6.2, 2.2),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("arithmetic_cycles", "cycle",
              "how long a multiprocessor's issue slots or busiest lanes work", "A", "(1)"),
        Field("load_store_cycles", "cycle",
              "how long a multiprocessor's load-store pipeline works", "S", "(2)"),
        Field("memory_cycles", "cycle",
              "how long L2 or DRAM works for a multiprocessor", "M", "(4)"),
        Field("wait_cycles", "cycle", "latency that a warp alone would wait for", "Z", "(6)"),
        Field("utilisation", "1", "share of the time in which the busiest component works", "",
              "(5)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=prepare,
    parameters=PARAMETERS,
    errata={
        "CB-1": "warps queue at each component (approximate mean value analysis)",
        "CB-2": "warps wait for results, and too few leave pipelines idle",
        "CB-3": "stages between barriers overlap with those of other blocks only",
        "CB-4": "whole rounds of blocks, the last one with fewer",
        "CB-5": "a warp has the lanes of one scheduler, with an m-th of the warps",
        "CB-6": "a scheduler's second issue slot takes independent instructions only",
        "CB-7": "asynchronous copies overlap with the work of the same warp",
        "CB-8": "SMs that copies feed are out of step, and share all of DRAM",
        "CB-9": "blocks start one after the other",
        "CB-10": "blocks that copies feed begin in step",
        "CB-11": "copies and work hide one another, but not wholly",
        "CB-12": "copies into a single buffer take a little longer in DRAM",
        "CLK": "DRAM bandwidth and latency follow the swept clocks",
    },
)  # fmt: skip

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
CB-8  DRAM is the whole chip's: after the first round of blocks SMs are out of step, and copies of
      others go on while a block has none under way.
CB-9  Blocks start one after the other on the whole chip.
CB-10 Blocks of an SM that copies feed begin in step: each waits for what those before it have
      begun, their first instructions or copies.
CB-11 Of two activities of blocks that copies feed the shorter hides behind the longer, but not
      wholly, unless warps of their own issue the copies (warp specialization).
CLK   DRAM bandwidth and latency follow the swept clocks.

Parameters are the device's own: data sheets and micro-benchmarks (`sweep.hardware.derived`).
No number is fitted to the time of a kernel; CB-5 was added with times of a convolution on an RTX
2080 Ti in view. (How wide words pass the banks of shared memory and L1, which no manual states, was
found by times of an SGEMM on that card: `sweep.hardware.memory_rules`.)
(12a) knows from the fastest measured product of a device what power allows to matrix units. (3b),
(10a), (10c), (14d), (14f), (14g) and turns without the first were written with times of products
on an H200 or H100 in view.
The time is never less than the busiest station takes, and never falls with more of any demand,
latency, block or warp of a block. `docs/models/combined_copies.md` names exceptions.
Instruction caches and order, register banks and TLBs are not in the model.
"""

from __future__ import annotations

from sweep.fields import Field
from sweep.models.base import Model, regimes
from sweep.models.combined_equations import (
    a_buffer,
    after_first,
    ahead_of_copies,
    all_rounds,
    alone,
    arithmetic,
    arithmetic_wait,
    by_length,
    dependent,
    dram_cycles,
    entry,
    exec_cycles,
    exec_cycles_printed,
    first_round,
    full_rounds,
    is_latency_bound,
    issue,
    load_store,
    load_wait,
    longest,
    memory,
    of_l2,
    round_of,
    share_of_last,
    single_precision,
    slots,
    tail_blocks,
    through_dram,
    turn,
    undisturbed,
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


def body(
    blocks, active_blocks, active_sm, n_sm, warps_per_block, instructions, fp32, integer, special,
    fp64, accesses, wavefronts, l1_sectors, l2_sectors, dram_sectors, chain, shared_loads,
    cache_wait, dram_loads, link_time, link_wait, barriers, matrix, matrix_chain, matrix_time,
    asynchronous, specialized, buffers, entries, begun, issue_cycles, fp32_cycles, integer_cycles,
    special_cycles, fp64_cycles, unified, one_pipe, load_store_cycles, shared_cycles, l1_cycles,
    l2_cycles, alu_latency, shared_latency, launch_cycles, block_start, kernel_launch, schedulers,
    parallelism, dram_bandwidth, dram_latency, core_clock, corrected,
):  # fmt: skip
    """Join the equations."""
    t_dram = dram_cycles(core_clock, active_sm, dram_bandwidth)
    share = 1.0 / parallelism
    t_l2 = of_l2(l2_cycles, active_sm, n_sm)
    t_i = issue(issue_cycles, schedulers, share) if corrected else issue_cycles
    W, N = warps_per_block, warps(active_blocks, warps_per_block)
    rounds = full_rounds(blocks, active_blocks, n_sm)
    left = tail_blocks(blocks, rounds, active_blocks, n_sm)
    least = max(left, 1.0)
    N_tail = warps(least, warps_per_block)
    fewer = share_of_last(blocks, rounds, active_blocks, n_sm, active_sm, least)
    # Demands D = n t of all stages (all_...) and since the last barrier: i slots, f single
    # precision, n integers, u special functions, x double precision, s load-store, c L2, h DRAM.
    # one is T_1, own without copies, turns that of the buffers, free (14e), e (14h), t at the
    # rate that power allows. T_f and T_cf are rounds in which DRAM is free.
    all_i = all_f = all_n = all_u = all_x = all_s = all_c = all_h = all_shared = all_l1 = 0.0
    i = f = n = u = x = s = c = h = serial = serial_tail = executed = all_z = e = all_e = 0.0
    all_t = serial_free = serial_free_tail = 0.0
    one = all_one = own = all_own = turns = all_turn = free = all_free = launch_cycles
    for k in range(len(instructions)):
        i_k = slots(instructions[k] * t_i, matrix[k])
        n_k, u_k = integer[k] * integer_cycles, special[k] * special_cycles
        x_k = fp64[k] * fp64_cycles
        f_k = single_precision(fp32[k], fp32_cycles, integer[k], unified, u_k, x_k, one_pipe)
        s_k = load_store(accesses[k], load_store_cycles, wavefronts[k], shared_cycles,
                         l1_sectors[k], l1_cycles)  # fmt: skip
        c_k = l2_sectors[k] * t_l2
        h_k = through_dram(dram_sectors[k], t_dram, link_time[k], active_sm, core_clock)
        a_k = arithmetic(i_k, f_k, n_k, u_k, x_k)
        d_k = dependent(chain[k], alu_latency, share, matrix_chain[k])
        z_k = wait(shared_loads[k], barriers[k], shared_latency, share)
        y_k = arithmetic_wait(d_k, schedulers, a_k) + z_k
        l_k = arithmetic(instructions[k] * t_i, f_k, n_k, u_k, x_k)
        if k == 0:
            T_entry = entry(W, l_k, s_k, memory(c_k, h_k), begun, entries)
        m_k = load_wait(cache_wait[k], dram_loads[k], dram_latency, link_wait[k], core_clock)
        e_k = 0.0
        one_k = own_k = turn_k = free_k = alone(a_k, s_k, memory(c_k, h_k), y_k + m_k, schedulers)
        if buffers[k] > 0.0:
            own_k = work_alone(a_k, s_k, d_k, z_k, schedulers, W, asynchronous)
            b_k = ahead_of_copies(own_k, l_k, d_k, z_k, schedulers, W, asynchronous)
            turn_k = turn(b_k, m_k, W, memory(c_k, h_k), buffers[k])
            one_k, e_k = max(own_k, turn_k), a_buffer(W, memory(c_k, h_k), buffers[k])
            free_k = undisturbed(own_k, turn_k, W, memory(c_k, h_k), c_k, buffers[k])
        all_i, all_f, all_n, all_u = all_i + i_k, all_f + f_k, all_n + n_k, all_u + u_k
        all_x, all_s, all_c, all_h = all_x + x_k, all_s + s_k, all_c + c_k, all_h + h_k
        all_z, all_one, all_own = all_z + y_k + m_k, all_one + one_k, all_own + own_k
        all_shared += wavefronts[k] * shared_cycles
        all_l1, executed = all_l1 + l1_sectors[k] * l1_cycles, executed + instructions[k]
        all_t, all_turn = all_t + matrix_time[k], all_turn + turn_k
        i, f, n, u, x = i + i_k, f + f_k, n + n_k, u + u_k, x + x_k
        s, c, h, one, own = s + s_k, c + c_k, h + h_k, one + one_k, own + own_k
        turns, free, all_free = turns + turn_k, free + free_k, all_free + free_k
        e, all_e = e + e_k, all_e + e_k
        # Stages without a barrier between them are one; a single one cannot overlap with others.
        if len(instructions) > 1 and (k == len(instructions) - 1 or barriers[k] > 0.0):
            p, q, r = by_length(i, f, n, u, x, unified, one_pipe)
            T, T_f = round_of(active_blocks, 1.0, W, schedulers, own, one, turns, free,
                              p, q, r, s, c, h, e, specialized)  # fmt: skip
            T_c, T_cf = round_of(least, fewer, W, schedulers, own, one, turns, free,
                                 p, q, r, s, c, h, e, specialized)  # fmt: skip
            serial, serial_tail = serial + T, serial_tail + T_c
            serial_free, serial_free_tail = serial_free + T_f, serial_free_tail + T_cf
            i = f = n = u = x = s = c = h = one = own = turns = free = e = 0.0

    all_a, q, r = by_length(all_i, all_f, all_n, all_u, all_x, unified, one_pipe)
    D_max = longest(all_a, all_s, all_c, all_h)
    if corrected:
        s, c, h, own, one, turns, free = all_s, all_c, all_h, all_own, all_one, all_turn, all_free
        T, T_f = round_of(active_blocks, 1.0, W, schedulers, own, one, turns, free,
                          all_a, q, r, s, c, h, all_e, specialized)  # fmt: skip
        T_c, T_cf = round_of(least, fewer, W, schedulers, own, one, turns, free,
                             all_a, q, r, s, c, h, all_e, specialized)  # fmt: skip
        if len(instructions) > 1:
            T, T_c = with_barriers(T, serial, active_blocks), with_barriers(T_c, serial_tail, least)
            T_f = with_barriers(T_f, serial_free, active_blocks)
            T_cf = with_barriers(T_cf, serial_free_tail, least)
        T_later = after_first(T, T_f, N, memory(c, h), specialized)
        T_entry = T_entry if all_e > 0.0 else 0.0
        T = first_round(T, one, T_entry, blocks, active_blocks, n_sm, block_start)
        T_only = first_round(T_c, one, T_entry, blocks, active_blocks, n_sm, block_start)
        T_c = (
            after_first(T_c, T_cf, N_tail * fewer, memory(c, h), specialized)
            if rounds > 0.0
            else T_only
        )
        cycles = all_rounds(rounds, T, T_later, T_c if left > 0.0 else 0.0)
        cycles = exec_cycles(cycles, blocks, block_start, kernel_launch, core_clock)
        cycles = within_power(cycles, blocks, W, all_t, core_clock)
        waits = is_latency_bound(N, D_max, all_turn)
    else:
        cycles = exec_cycles_printed(blocks, warps_per_block, active_sm, D_max)
        waits = False
    by_arithmetic = all_a >= D_max
    by_load_store = all_s >= D_max
    # The load-store pipeline serves shared memory and L1: the one with more to do.
    served = SHARED if all_shared >= all_l1 else MEMORY
    component = ARITHMETIC if by_arithmetic else (LOAD_STORE if by_load_store else GLOBAL)
    bottleneck = COMPUTE if by_arithmetic else (served if by_load_store else MEMORY)
    regime = WAITING if waits else component
    bound_code = LATENCY if waits else bottleneck
    per_sm = blocks * warps_per_block / active_sm
    CPI = cycles / (executed * per_sm)
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, all_a * per_sm / cycles),
        "memory_activity": min(1.0, all_h * per_sm / cycles),
        "regime": regime,
        "bound": bound_code,
        "arithmetic_cycles": all_a * per_sm,
        "load_store_cycles": all_s * per_sm,
        "memory_cycles": max(all_c, all_h) * per_sm,
        "wait_cycles": launch_cycles + all_z,
        "utilisation": min(1.0, D_max * per_sm / cycles),
    }


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
        "CB-8": "SMs are out of step after the first round, and share all of DRAM",
        "CB-9": "blocks start one after the other",
        "CB-10": "blocks that copies feed begin in step",
        "CB-11": "copies and work hide one another, but not wholly",
        "CLK": "DRAM bandwidth and latency follow the swept clocks",
    },
)  # fmt: skip

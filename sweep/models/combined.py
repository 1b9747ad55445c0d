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
CLK   DRAM bandwidth and latency follow the swept clocks.

Parameters are the device's own: data sheets and micro-benchmarks (`sweep.hardware.derived`).
No number is fitted to the time of a kernel; CB-5 was added with times of a convolution on an RTX
2080 Ti in view. (How wide words pass the banks of shared memory and L1, which no manual states, was
found by times of an SGEMM on that card: `sweep.hardware.memory_rules`.)
(12a) knows from the fastest measured product of a device what power allows to matrix units. (3b),
(10a), (10c), (14d), (14f) and turns without the first were written with times of products on an
H200 in view.
The time never falls with more of any demand, latency, block or warp of a block.
Instruction caches and order, register banks and TLBs are not in the model.
"""

from __future__ import annotations

import numpy as np

from sweep.fields import Field
from sweep.models.base import Model, equations, regimes
from sweep.models.combined_inputs import INPUTS, PARAMETERS, SECTOR_BYTES, SYMBOLS, prepare
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, SHARED

_equation = equations("combined", SYMBOLS)

NOTHING = 1e-20  # cycles, so that a stage without demands divides nothing by zero

# --- What a warp demands --------------------------------------------------------------------------


@_equation("1a", "t_i", "cycle", "issue of an instruction, at the kernel's parallelism")
def issue(issue_cycles, schedulers, share):
    """Issue slots, of which a scheduler fills more than one a cycle by independent instructions.

    Kepler, Maxwell and Pascal have two a scheduler; Kepler has more lanes than one slot each fills.
    """
    return max(issue_cycles, share / schedulers)


@_equation("1b", "D_fp32", "cycle", "demand of a warp on the lanes of single precision")
def single_precision(fp32, fp32_cycles, integer, unified, specials, doubles, one_pipe):
    """Lanes of single precision. Where other classes take them, too, the times add up."""
    return (fp32 + unified * integer) * fp32_cycles + one_pipe * (specials + doubles)


@_equation("1", "A", "cycle", "demand of a warp on the busiest of issue slots and pipelines")
def arithmetic(issued, single_precision, integers, specials, doubles):
    """Longest of issue or matrix units and the pipelines, which work side by side."""
    return max(max(issued, single_precision), max(max(integers, specials), doubles))


@_equation("1c", "D_slots", "cycle", "demand of a warp on issue slots or matrix units")
def slots(issued, matrix):
    """Matrix instructions take their unit for many cycles; other instructions issue meanwhile."""
    return max(issued, matrix)


def by_length(issued, single_precision, integers, specials, doubles, unified, one_pipe):
    """Return the three longest demands on lanes, the longest first.

    The slots go with the busiest lanes; what takes single precision's is part of their demand.
    """
    integers_apart, others_apart = 1.0 - unified, 1.0 - one_pipe
    more, less = max(single_precision, integers), integers_apart * min(single_precision, integers)
    longer, shorter = others_apart * max(specials, doubles), others_apart * min(specials, doubles)
    return max(max(more, longer), issued), min(more, longer), max(less, shorter)


@_equation("2", "S", "cycle", "demand of a warp on the load-store pipeline")
def load_store(
    accesses, load_store_cycles, wavefronts, shared_cycles, l1_sectors, l1_cycles
):  # fmt: skip
    """Addresses of accesses, or their data: shared memory and L1 are one memory."""
    return max(accesses * load_store_cycles, wavefronts * shared_cycles + l1_sectors * l1_cycles)


@_equation("3", "t_DRAM", "cycle", "sector from DRAM, of one SM")
def dram_cycles(core_clock, active_sm, dram_bandwidth):
    """Cycles of a sector at an SM's share of the bandwidth."""
    return active_sm * (SECTOR_BYTES * core_clock / dram_bandwidth)


@_equation("3a", "D_DRAM", "cycle", "demand of a warp on DRAM, or on what lies beside it")
def through_dram(dram_sectors, dram_cycles, link_time, active_sm, core_clock):
    """Longer of both: link and memory-side cache work beside DRAM, at rates of their own."""
    return max(dram_sectors * dram_cycles, link_time * (active_sm * core_clock))


@_equation("3b", "t_L2", "cycle", "sector from L2, of an SM among those that have work")
def of_l2(l2_cycles, active_sm, n_sm):
    """SMs that have work share L2; one alone takes 64 bytes a cycle.

    Loads of one SM of an H200 reach 118 bytes, copies beside matrix products about 48; 64, between
    them, was chosen with times of products in view.
    """
    return max(l2_cycles * active_sm / n_sm, min(l2_cycles, 0.5))


@_equation("4", "M", "cycle", "time of a warp alone in L2 and DRAM")
def memory(through_l2, through_dram):
    """Longest of L2 and DRAM, which its sectors pass one behind the other."""
    return max(through_l2, through_dram)


@_equation("5", "D_max", "cycle", "demand of a warp on the busiest station")
def longest(arithmetic, load_store, through_l2, through_dram):
    """Longest component: what all warps take if nobody waits and all components overlap."""
    return max(max(arithmetic, load_store), max(through_l2, through_dram))


# --- What a warp waits ----------------------------------------------------------------------------


@_equation("6c", "C", "cycle", "chain of dependent instructions of a warp")
def dependent(chain, alu_latency, share, matrix_chain):
    """Longer of the chains of arithmetic and of matrix instructions, each at its latency."""
    return max(chain * alu_latency * share, matrix_chain)


@_equation("6a", "Z_A", "cycle", "what a warp waits for its arithmetic")
def arithmetic_wait(dependent, schedulers, arithmetic):
    """Latency of arithmetic results, of which the time on the lanes is a part (CB-5)."""
    return max(dependent - schedulers * arithmetic, 0.0)


@_equation("6b", "Z_M", "cycle", "what a warp alone would wait for loads")
def load_wait(cache_wait, dram_loads, dram_latency, link_wait, core_clock):
    """Latency of loads, or of asynchronous copies, over those that are under way at once."""
    return cache_wait + dram_loads * dram_latency + link_wait * core_clock


@_equation("6", "Z", "cycle", "what a warp alone would wait for shared memory and barriers")
def wait(shared_loads, barriers, shared_latency, share):
    """Latency of the results that a warp needs, one after the other; barriers are as far away."""
    return shared_loads * shared_latency * share + barriers * shared_latency


# --- Many warps: docs/models/combined_network.md derives this -------------------------------------


@_equation("7", "N", "1", "warps resident on an SM")
def warps(active_blocks, warps_per_block):
    """Warps resident on an SM."""
    return active_blocks * warps_per_block


@_equation("8a", "T_1", "cycle", "time of a warp alone")
def alone(arithmetic, load_store, memory, wait, schedulers):
    """Serve and wait without any other warp, on one scheduler's lanes (CB-5)."""
    return wait + schedulers * arithmetic + load_store + memory


@_equation("8b", "N_A", "1", "what the others of a scheduler demand, over a warp's demand")
def others_on_lanes(warps, schedulers):
    """Each scheduler has N/m of the warps, for which its lanes take m times as long (CB-5)."""
    return max(warps - schedulers, 0.0)


@_equation("8c", "T_0", "cycle", "bound of the time of a round")
def bound(alone, most, queued):
    """Root of ``T = T_1 + sum(D_k P_k)/(T - P_max)``: all stations as close as the busiest."""
    return 0.5 * (alone + most + np.sqrt((alone - most) * (alone - most) + 4.0 * queued))


def apart_from_busiest(until, most, others, a, b, c):
    """Return the sums of ``D_k**2 d_k/x_k`` times y and ``D_k**2 d_k/x_k**2`` times y**2, and y.

    Of three stations with the demands a, b, c; ``d_k = P_max - P_k``, ``x_k = T_0 - P_k``, y is the
    product of all x_k. A division for each station would take more time.
    """
    p_a, p_b, p_c = others * a, others * b, others * c
    x_a, x_b, x_c = until - p_a, until - p_b, until - p_c
    bc, ac, ab = x_b * x_c, x_a * x_c, x_a * x_b
    e_a, e_b, e_c = a * a * (most - p_a) * bc, b * b * (most - p_b) * ac, c * c * (most - p_c) * ab
    return e_a + e_b + e_c, e_a * bc + e_b * ac + e_c * ab, x_a * bc


def round_cycles(warps, schedulers, alone, first, second, third, load_store, l2, dram):
    """Return (8): the time in which each of the warps is served and waits once (CB-1, CB-2).

    Schweitzer's ``T = T_1 + sum(D_k P_k/(T - P_k))`` by one step of Newton's method from the bound
    (8c). Demands on lanes are sorted, the longest first.
    """
    on_lanes, on_sm = others_on_lanes(warps, schedulers), warps - 1.0
    most = max(on_lanes * first, on_sm * max(load_store, max(l2, dram)))
    of_lanes, single = schedulers * on_lanes, alone + NOTHING
    of_sm = on_sm * (load_store * load_store + l2 * l2 + dram * dram)
    queued = of_lanes * (first * first + second * second + third * third) + of_sm
    until = bound(single, most, queued)
    lanes, lanes_slope, y = apart_from_busiest(until, most, on_lanes, first, second, third)
    sm, sm_slope, y_sm = apart_from_busiest(until, most, on_sm, load_store, l2, dram)
    both, early = y * y_sm, of_lanes * lanes * y_sm + on_sm * sm * y
    slope = of_lanes * lanes_slope * (y_sm * y_sm) + on_sm * sm_slope * (y * y)
    return until - early * both / ((until - single + until - most) * both * both - slope)


# --- Beside asynchronous copies -------------------------------------------------------------------


@_equation("14a", "T_work", "cycle", "time of a block alone without its copies")
def work_alone(arithmetic, load_store, dependent, wait, schedulers, warps_per_block, asynchronous):
    """All warps of a block work on what copies brought, between two barriers; then they wait.

    Loads from shared memory go on beside matrix instructions, and warps beside a warp's own chain.
    """
    work = max(max(schedulers, warps_per_block) * arithmetic, warps_per_block * load_store)
    return max(work + (1.0 - asynchronous) * wait, dependent + wait)


@_equation("14f", "T_ahead", "cycle", "work of a block before its next copies")
def ahead_of_copies(
    work_alone, on_lanes, dependent, wait, schedulers, warps_per_block, asynchronous
):  # fmt: skip
    """A block does all its work first, but products that nobody waits for (wgmma).

    The next copies begin when those products do.
    """
    ahead = max(max(schedulers, warps_per_block) * on_lanes, dependent) + wait
    return min(work_alone, ahead) if asynchronous > 0.0 else work_alone


@_equation("14b", "T_turn", "cycle", "time of a block's buffers, filled and worked on in turn")
def turn(ahead_of_copies, load_wait, warps_per_block, memory, buffers):
    """Copy and work of all executions, as one buffer would take them, over the buffers."""
    return (ahead_of_copies + load_wait + warps_per_block * memory) / buffers


@_equation("14", "T", "cycle", "time of a round beside copies")
def beside_copies(round_cycles, copied, turn):
    """Longest of work, of copies of all blocks, and of the turns of a block's buffers (CB-7)."""
    return max(round_cycles, max(copied, turn))


@_equation("14d", "T_copies", "cycle", "time of a round's copies")
def of_copies(blocks, buffers, copy, turn):
    """Buffers of all blocks are customers of L2 and DRAM, by the bound (8c).

    A copy is hundreds of requests, served in equal times: it waits half as long as (8c) has it
    for times at random (Pollaczek and Khinchine).
    """
    others = (blocks - 1.0 / buffers) * copy
    return max(blocks * copy, bound(turn, others, 0.5 * others * copy / buffers))


@_equation("14e", "T_free", "cycle", "time of a block whose copies meet nobody in DRAM")
def undisturbed(work_alone, turn, warps_per_block, memory, through_l2, buffers):
    """Longer of work and of the buffers' turns, in which copies take their time in L2 alone."""
    return max(work_alone, turn - warps_per_block * (memory - through_l2) / buffers)


def round_of(
    blocks, share, warps_per_block, schedulers, own, one, turn, free, first, second, third,
    load_store, l2, dram, buffers,
):  # fmt: skip
    """Return the time of a round of blocks: (8), or (14), and what it is where DRAM is free.

    Warps are customers of all stations. Blocks that copies feed are in step: they are customers of
    one station, the busier of lanes and load-store pipeline, where (8) is its bound (8c).
    """
    N, m, D_1, kept = warps(blocks, warps_per_block), schedulers, first, 1.0
    if buffers > 0.0:
        N, m, D_1, kept = blocks, 1.0, warps_per_block * max(first, load_store), 0.0
    T = T_free = round_cycles(
        N, m, own, D_1, kept * second, kept * third, kept * load_store, kept * l2, kept * dram
    )
    if buffers > 0.0:
        copy = warps_per_block * share * memory(l2, dram)
        T = beside_copies(T, of_copies(blocks, buffers, copy, turn), one)
        T_free = beside_copies(T_free, blocks * warps_per_block * share * l2, free)
    return T, T_free


@_equation("9", "T", "cycle", "time of a round")
def with_barriers(overlapped, serial, active_blocks):
    """Time of a round: for one N-th of it all blocks are in the same stage (CB-3)."""
    return overlapped + max(serial - overlapped, 0.0) / active_blocks


@_equation("9a", "T_later", "cycle", "time of a round after the first")
def after_first(round_cycles, soonest, warps, memory):
    """SMs are out of step after the first round, and others take what one leaves of DRAM (CB-8)."""
    return min(round_cycles, max(soonest, warps * memory))


@_equation("10", "rounds", "1", "rounds that fill all SMs")
def full_rounds(blocks, active_blocks, n_sm):
    """Rounds in which all SMs hold all blocks that they can (CB-4)."""
    return np.floor(blocks / (active_blocks * n_sm))


@_equation("10c", "T_entry", "cycle", "what a block takes before others come to their first copies")
def entry(warps_per_block, on_lanes, load_store, memory, begun, entries):
    """Longer of two: its warps issue the first stage once; L2 and DRAM bring all first copies."""
    return warps_per_block * max(max(on_lanes, load_store), begun * memory) / entries


@_equation("10a", "T_first", "cycle", "time of the first round, from the first start on")
def first_round(round_cycles, alone, entry, blocks, active_blocks, n_sm, block_start):
    """Blocks start one after the other on the whole chip, the last one after all others (CB-9).

    Blocks of an SM that copies feed begin in step: each waits for the entries before it (CB-10).
    """
    begins, last = min(blocks, n_sm) * block_start, min(blocks, active_blocks * n_sm)
    later = max(last * block_start, begins + max(np.ceil(last / n_sm) - 1.0, 0.0) * entry)
    return max(round_cycles + begins, alone + later)


@_equation("10b", "T_rounds", "cycle", "all rounds one after the other")
def all_rounds(full_rounds, round_cycles, after_first, tail_cycles):
    """The first round, the later full ones and the last."""
    first = min(full_rounds, 1.0) * (round_cycles - after_first)
    return full_rounds * after_first + first + tail_cycles


@_equation("11", "N_tail", "1", "blocks of an SM in the last round")
def tail_blocks(blocks, full_rounds, active_blocks, n_sm):
    """Blocks of the busiest SM in the last round (CB-4)."""
    return np.ceil((blocks - full_rounds * active_blocks * n_sm) / n_sm)


@_equation("14c", "share_tail", "1", "blocks of an SM in the last round, over the busiest SM's")
def share_of_last(blocks, full_rounds, active_blocks, n_sm, active_sm, tail_blocks):
    """L2 and DRAM serve the blocks that are left, not as many on each SM as on the busiest."""
    return (blocks - full_rounds * active_blocks * n_sm) / (active_sm * tail_blocks)


@_equation("12", "T_exec", "cycle", "execution time")
def exec_cycles(rounds_cycles, blocks, block_start, kernel_launch, core_clock):
    """All rounds, or what it takes to start all blocks, after the launch."""
    return max(rounds_cycles, blocks * block_start) + kernel_launch * core_clock


@_equation("12a", "T_exec", "cycle", "execution time under the power limit")
def within_power(exec_cycles, blocks, warps_per_block, matrix_time, core_clock):
    """Beyond the rate that power allows at full clock, a rate grows as its square root.

    Matrix units take most of the power. The energy of an operation goes with the square of the
    voltage, and the voltage about with the square root of the clock.
    """
    allowed = blocks * warps_per_block * matrix_time * core_clock
    return max(exec_cycles, np.sqrt(exec_cycles * allowed))


@_equation("12 as printed", "exec_cycles")
def exec_cycles_printed(blocks, warps_per_block, active_sm, longest):
    """Demands of all warps on the busiest station, spread evenly over the SMs."""
    return blocks * warps_per_block / active_sm * longest


# --- The model ------------------------------------------------------------------------------------

REGIMES = regimes("combined", 70, "arithmetic", "load_store", "memory", "latency")
ARITHMETIC, LOAD_STORE, GLOBAL, WAITING = map(float, REGIMES.values())


@_equation("13", kind="condition")
def is_latency_bound(warps, longest, alone):
    """Too few warps: what all demand of the busiest station is less than one takes alone.

    A block with asynchronous copies takes the turns of its buffers alone (14b).
    """
    return warps * longest < alone


def body(
    blocks, active_blocks, active_sm, n_sm, warps_per_block, instructions, fp32, integer, special,
    fp64, accesses, wavefronts, l1_sectors, l2_sectors, dram_sectors, chain, shared_loads,
    cache_wait, dram_loads, link_time, link_wait, barriers, matrix, matrix_chain, matrix_time,
    asynchronous, buffers, entries, begun, issue_cycles, fp32_cycles, integer_cycles,
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
    # one is T_1, own without copies, turns that of the buffers, free (14e), t at the rate that
    # power allows; e buffers of copies. T_f and T_cf are rounds in which DRAM is free.
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
        one_k = own_k = turn_k = free_k = alone(a_k, s_k, memory(c_k, h_k), y_k + m_k, schedulers)
        if buffers[k] > 0.0:
            own_k = work_alone(a_k, s_k, d_k, z_k, schedulers, W, asynchronous)
            b_k = ahead_of_copies(own_k, l_k, d_k, z_k, schedulers, W, asynchronous)
            turn_k = turn(b_k, m_k, W, memory(c_k, h_k), buffers[k])
            one_k = max(own_k, turn_k)
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
        e, all_e = max(buffers[k], e), max(buffers[k], all_e)
        # Stages without a barrier between them are one; a single one cannot overlap with others.
        if len(instructions) > 1:
            if k == len(instructions) - 1 or barriers[k] > 0.0:
                p, q, r = by_length(i, f, n, u, x, unified, one_pipe)
                T, T_f = round_of(active_blocks, 1.0, W, schedulers, own, one, turns, free,
                                  p, q, r, s, c, h, e)  # fmt: skip
                T_c, T_cf = round_of(least, fewer, W, schedulers, own, one, turns, free,
                                     p, q, r, s, c, h, e)  # fmt: skip
                serial, serial_tail = serial + T, serial_tail + T_c
                serial_free, serial_free_tail = serial_free + T_f, serial_free_tail + T_cf
                i = f = n = u = x = s = c = h = one = own = turns = free = e = 0.0

    all_a, q, r = by_length(all_i, all_f, all_n, all_u, all_x, unified, one_pipe)
    D_max = longest(all_a, all_s, all_c, all_h)
    if corrected:
        s, c, h, own, one, turns, free = all_s, all_c, all_h, all_own, all_one, all_turn, all_free
        T, T_f = round_of(active_blocks, 1.0, W, schedulers, own, one, turns, free,
                          all_a, q, r, s, c, h, all_e)  # fmt: skip
        T_c, T_cf = round_of(least, fewer, W, schedulers, own, one, turns, free,
                             all_a, q, r, s, c, h, all_e)  # fmt: skip
        if len(instructions) > 1:
            T, T_c = with_barriers(T, serial, active_blocks), with_barriers(T_c, serial_tail, least)
            T_f = with_barriers(T_f, serial_free, active_blocks)
            T_cf = with_barriers(T_cf, serial_free_tail, least)
        T_later = after_first(T, T_f, N, memory(c, h))
        T_entry = T_entry if all_e > 0.0 else 0.0
        T = first_round(T, one, T_entry, blocks, active_blocks, n_sm, block_start)
        T_only = first_round(T_c, one, T_entry, blocks, active_blocks, n_sm, block_start)
        T_c = after_first(T_c, T_cf, N_tail * fewer, memory(c, h)) if rounds > 0.0 else T_only
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
        Field("arithmetic_cycles", "cycle", "cycles that an SM issues and computes", "A", "(1)"),
        Field("load_store_cycles", "cycle", "cycles of an SM's load-store pipeline", "S", "(2)"),
        Field("memory_cycles", "cycle", "cycles of L2 and DRAM for an SM", "M", "(4)"),
        Field("wait_cycles", "cycle", "what a warp alone would wait", "Z", "(6)"),
        Field("utilisation", "1", "longest component over the time", "", "(5)"),
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
        "CLK": "DRAM bandwidth and latency follow the swept clocks",
    },
)  # fmt: skip

"""The equations of :mod:`sweep.models.combined`, which says what they are and joins them.

They go from one warp to the whole kernel: what a warp demands (1 to 5) and waits (6), many warps
(7, 8), blocks beside asynchronous copies (14), rounds of blocks (9 to 11), the execution time (12).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sweep.models.base import equations
from sweep.models.combined_inputs import SECTOR_BYTES, SYMBOLS

_equation = equations("combined", SYMBOLS)

NOTHING = 1e-20  # cycles, so that a stage without demands divides nothing by zero

SPECIALS, FEW_DOUBLES, PIPELINE = 1.1, 0.37, 0.61
"""Power of busy units relative to the lanes of single precision: special functions, double
precision on 4 lanes, and the load-store pipeline (as shared memory). Published coefficients of a
GTX Titan X, J. Guerreiro et al., TPDS 2019 (hpc-ulisboa/gpupowermodel@2c2ac48,
model_dvfs_gtxtitanx.csv). Their 0.84 of L2 is left out, as it makes power no better."""

ONE_BUFFER = 1.005
"""Time in DRAM of copies into one buffer, over that into several. Assumed: it decides between
configurations that are alike otherwise. Tuners rarely list two stages of Triton's MoE, which have
one buffer with mma: 4 to 16 % of products of up to 64 tokens on six GPUs, not 29 to 60 %."""

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


class Lanes(NamedTuple):
    """Demands of a warp on lanes, the longest first [cycle]."""

    first: float
    second: float
    third: float


def by_length(issued, single_precision, integers, specials, doubles, unified, one_pipe):
    """Return the three longest demands on lanes, the longest first.

    The slots go with the busiest lanes; what takes single precision's is part of their demand.
    """
    integers_apart, others_apart = 1.0 - unified, 1.0 - one_pipe
    more, less = max(single_precision, integers), integers_apart * min(single_precision, integers)
    longer, shorter = others_apart * max(specials, doubles), others_apart * min(specials, doubles)
    return Lanes(max(max(more, longer), issued), min(more, longer), max(less, shorter))


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


@_equation("3c", "D_DRAM", "cycle", "demand of a warp on DRAM, with so many buffers")
def of_buffers(through_dram, buffers):
    """While a block works on its only buffer, it asks DRAM for nothing (CB-12)."""
    return through_dram * (ONE_BUFFER if buffers == 1.0 else 1.0)


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
def turn(ahead_of_copies, load_wait, warps_per_block, through_l2, buffers):
    """Copy and work of all executions, as one buffer would take them, over the buffers.

    How long they wait for others in DRAM is in (9a).
    """
    return (ahead_of_copies + load_wait + warps_per_block * through_l2) / buffers


@_equation("14g", "T_both", "cycle", "time of two activities side by side")
def side_by_side(single_time, other, specialized):
    """The shorter hides behind the longer, but not wholly (CB-11); wholly if warps specialize."""
    both = np.sqrt(np.sqrt((single_time**2) ** 2 + (other**2) ** 2))
    return max(single_time, max(other, both if specialized == 0.0 else 0.0))


@_equation("14d", "T_both", "cycle", "time of a block's lanes and load-store pipeline")
def in_step(single_time, other, specialized, in_order):
    """Warps that load what they multiply (mma) do both in order, and hide less (CB-11)."""
    beside = side_by_side(single_time, other, specialized)
    in_turn = np.sqrt(beside * np.sqrt(single_time**2 + other**2))
    return in_turn if in_order > specialized else beside


@_equation("14", "T", "cycle", "time of a round beside copies")
def beside_copies(round_cycles, copied, turn, specialized):
    """Work beside the longer of copies of all blocks and the turns of a block's buffers (CB-7)."""
    return side_by_side(round_cycles, max(copied, turn), specialized)


@_equation("9", "T", "cycle", "time of a round")
def with_barriers(overlapped, serial, active_blocks):
    """Time of a round: for one N-th of it all blocks are in the same stage (CB-3)."""
    return overlapped + max(serial - overlapped, 0.0) / active_blocks


@_equation("9a", "T", "cycle", "time of a round of blocks that copies feed, beside DRAM")
def beside_dram(round_cycles, through_dram, specialized):
    """SMs are out of step, and others take what one leaves of DRAM (CB-8)."""
    return side_by_side(round_cycles, through_dram, specialized)


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
def all_rounds(full_rounds, first_round, round_cycles, tail_cycles):
    """The first round, the later full ones and the last."""
    longer = min(full_rounds, 1.0) * (first_round - round_cycles)
    return full_rounds * round_cycles + longer + tail_cycles


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


@_equation("12b", "D_power", "cycle", "demand of a warp on units, by what they draw")
def drawing(
    single_precision, integers, specials, doubles, matrix, load_store, unified, one_pipe,
    fp32_cycles, fp64_cycles,
):  # fmt: skip
    """Time on all units, each with its part of the power of the single-precision lanes.

    An operation in double precision is taken to draw twice as much as one in single precision.
    """
    of_doubles = min(max(FEW_DOUBLES, 2.0 * fp32_cycles / max(fp64_cycles, NOTHING)), 1.0)
    others = (1.0 - one_pipe) * (SPECIALS * specials + of_doubles * doubles)
    lanes = single_precision + (1.0 - unified) * integers + others
    return lanes + matrix + PIPELINE * load_store


@_equation("12 as printed", "exec_cycles")
def exec_cycles_printed(blocks, warps_per_block, active_sm, longest):
    """Demands of all warps on the busiest station, spread evenly over the SMs."""
    return blocks * warps_per_block / active_sm * longest


@_equation("13", kind="condition")
def is_latency_bound(warps, longest, alone):
    """Too few warps: what all demand of the busiest station is less than one takes alone.

    A block with asynchronous copies takes the turns of its buffers alone (14b).
    """
    return warps * longest < alone

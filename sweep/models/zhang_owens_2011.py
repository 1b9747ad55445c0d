"""Zhang & Owens 2011: throughput of the instruction pipeline, shared and global memory.

Y. Zhang and J. D. Owens, "A Quantitative Performance Analysis Model for GPU Architectures", 17th
International Symposium on High Performance Computer Architecture (HPCA), 2011, pages 382-393,
doi:10.1109/HPCA.2011.5749745.

Scope: three components, each with a throughput that micro-benchmarks measured; a kernel takes as
long as the component that takes longest, its bottleneck. Stages between barriers follow one another
where an SM holds one block, and overlap where it holds several. No caches. The paper has few
equations: rules bear the number of their section, table or figure.

Instruction types (Table 1) of the classes of a kernel file: ``special`` is type III, ``fp64`` type
IV, everything else type II, shared accesses, barriers and the instructions of global accesses too;
type I (mul) is no class of its own. A transaction of shared memory serves a warp, a word of 4 bytes
a lane, once for each way of a bank conflict.

Derived, where the paper has only a figure: throughput is linear between the warps that the device
file gives and through (0, 0) below them; of another type than II it is type II's curve with both
axes scaled by the functional units (the pipeline is as deep and saturates as well). A run of the
global benchmark takes the latency of memory and the time of the cluster with most blocks; this
is linear in the transactions far below the peak, and near it a sawtooth with the period of the
clusters that becomes weaker with more blocks (Section 4.3).

Errata (``corrected`` applies them, ``printed`` does not):

ZO-1  The peaks have all SMs, also where the grid does not fill them: corrected takes the SMs that
      a grid of whole rounds would keep busy, #blocks / #active blocks, so that no block is faster
      than its own instructions.
ZO-2  "For CR-NBC ... bank conflicts are removed": one word of padding in 16 leaves two-way
      conflicts in steps 5 to 8 (a fact about data: no equation changes).
ZO-3  Table 2 prints min(16, 348, 8) for min(16, 47, 8), and 512 threads, a block's limit, among
      those of an SM; Section 4.3 rounds 158.98 GB/s to 160 (facts about data).
CLK   corrected scales throughput of instructions and shared memory with the core clock, that of
      global memory with the memory clock; printed has what was measured, at the nominal clocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sweep.fields import Field
from sweep.hardware import derived
from sweep.hardware.clocks import bandwidth, latency
from sweep.models.base import Input, Model, Symbol, counted, equations, regimes, symbols_of
from sweep.models.terms import COMPUTE, MEMORY, SHARED, of_device, parameter, provided
from sweep.models.workload import Array, Stage, Workload, gathered, total
from sweep.models.zhang_owens_causes import BOTTLENECK, findings

TYPES = ("I", "II", "III", "IV")


def _by_type(of_all: Input) -> list[Input]:
    """Return an input for each instruction type."""
    return [
        replace(of_all, symbol=f"{of_all.symbol}_{kind.lower()}",
                printed=f"{of_all.printed}_{kind}", meaning=f"{of_all.meaning}, type {kind}")
        for kind in TYPES
    ]  # fmt: skip


INPUTS = (
    provided("blocks", "#blocks", "blocks of the grid"),
    provided("active_blocks_per_sm", "#active blocks", "blocks resident on an SM"),
    provided("active_sm", "#active SMs", "SMs that have work"),
    provided("number_sm", "numberSM", "SMs of the GPU", "n_sm"),
    provided("warps_per_block", "#warps of a block", "warps of a block"),
    provided("threads_per_block", "#threads of a block", "threads of a block"),
    provided("warp_size", "warpSize", "threads of a warp"),
    *_by_type(Input("units", "units", "1", "functional units of an SM", "device",
                    ("functional_units",))),
    of_device("cluster_count", "#clusters", "1", "clusters of SMs with a memory pipeline each"),
    of_device("global_share", "share", "1", "share of the peak that many blocks sustain",
              "global_share_fraction"),
    *_by_type(counted("n", "n", "instructions of a warp", "kernel instructions")),
    *_by_type(Input("throughput", "throughput", "1/s", "warp instructions per second of the GPU",
                    "device, at the stage's warps and the type's units",
                    ("instruction_throughput", "functional_units"), sequence=True)),
    counted("shared_transactions", "transactions_shared", "of a warp, conflicts included",
            "kernel shared accesses and banks"),
    Input("shared_bandwidth", "bandwidth_shared", "B/s", "sustained by the shared memory",
          "device, at the stage's warps", ("shared_bandwidth",), sequence=True),
    Input("global_bytes", "bytes_global", "B", "bytes of a warp's hardware transactions",
          "kernel access patterns by the device's rule", sequence=True),
    counted("global_transactions", "M", "memory transactions of a thread", "kernel accesses"),
    counted("executions", "executions", "how often a thread passes a stage", "kernel stages"),
    counted("barriers", "barriers", "barriers of a thread", "kernel stages"),
    provided("frequency_measured", "frequency_0", "core clock of the micro-benchmarks",
             "core_nominal"),
    Input("frequency", "frequency", "Hz", "core clock of the throughput",
          "swept core clock; nominal as printed", clocked=True),
    provided("core_clock", "core clock", "swept core clock"),
    Input("peak_global", "peak global bandwidth", "B/s", "peak of the global memory",
          "device, at the clock", ("chip.memory_bandwidth_GBps",), clocked=True),
    Input("global_latency", "latency", "cycle",
          "latency of the memory pipeline", "device, at the clocks",
          ("global_latency_cycles",), clocked=True),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "number_functional_units": Symbol("numberFunctionalUnits", "1", "functional units of an SM"),
    "number_sp": Symbol("numberSP", "1", "scalar processors of an SM"),
    "memory_frequency": Symbol("memoryFrequency", "Hz", "data rate of the memory"),
    "bus_width": Symbol("busWidth", "bit", "width of the memory's bus"),
    "warps": Symbol("#warps", "1", "warps of the grid"),
    "peak_i": Symbol("peak_I", "1/s", "peak warp instructions per second, type I"),
    "peak_ii": Symbol("peak_II", "1/s", "peak warp instructions per second, type II"),
    "peak_iii": Symbol("peak_III", "1/s", "peak warp instructions per second, type III"),
    "peak_iv": Symbol("peak_IV", "1/s", "peak warp instructions per second, type IV"),
    "instructions": Symbol("instructions", "1", "instructions of a warp"),
    "issued": Symbol("issued", "s", "time of the instructions at the peak"),
    "requests": Symbol("M_stage", "1", "transactions of a thread from barrier to barrier"),
    "moved": Symbol("bytes_moved", "B", "bytes that all warps move"),
    "stage_time": Symbol("t_stage", "s", "time of the longest component"),
    "t_i": Symbol("t_I", "s", "time of the instruction pipeline since the last barrier"),
    "t_s": Symbol("t_S", "s", "time of the shared memory since the last barrier"),
    "t_g": Symbol("t_G", "s", "time of the global memory since the last barrier"),
    "by_i": Symbol("T_by_I", "s", "time bound by the instruction pipeline"),
    "by_s": Symbol("T_by_S", "s", "time bound by the shared memory"),
    "by_g": Symbol("T_by_G", "s", "time bound by the global memory"),
    "left": Symbol("T_left", "s", "time without the bottleneck"),
    "total": Symbol("T", "s", "time of the kernel"),
}
_equation = equations("zhang_owens", SYMBOLS)

# --- Sections 4.1 to 4.3: peaks -------------------------------------------------------------------


@_equation("4.1", "peak", "1/s", "peak warp instructions per second")
def peak_instruction(number_functional_units, frequency, number_sm, warp_size):
    """Peak throughput of an instruction type, in warp instructions."""
    return number_functional_units * frequency * number_sm / warp_size


@_equation("4.1", "peak FLOPS", "1/s", "peak floating-point operations per second")
def peak_flops(peak_instruction, warp_size):
    """Peak floating-point performance: a multiply-add is two operations."""
    return peak_instruction * warp_size * 2.0


@_equation("4.2", "peak shared bandwidth", "B/s", "peak of the shared memory")
def peak_shared(number_sp, number_sm, frequency):
    """Peak bandwidth of the shared memory: a word of 4 bytes a processor and cycle."""
    return number_sp * number_sm * frequency * 4.0


@_equation("4.3")
def peak_global(memory_frequency, bus_width):
    """Peak bandwidth of the global memory."""
    return memory_frequency * bus_width / 8.0


# --- Figures 2 and 3: sustained throughput --------------------------------------------------------


@_equation("Table 2", "#active warps", "1", "warps resident on an SM")
def active_warps(active_blocks_per_sm, warps_per_block):
    """Warps resident on an SM."""
    return active_blocks_per_sm * warps_per_block


@_equation("guard", "busy SMs", "1", "SMs that whole rounds of blocks keep busy")
def busy_sm(number_sm, blocks, active_blocks_per_sm):
    """SMs that whole rounds of active blocks keep busy (ZO-1)."""
    return min(number_sm, blocks / active_blocks_per_sm)


@_equation("Figure 2", "scale", "1", "throughput over what was measured")
def scale(frequency, frequency_measured, busy_sm, number_sm):
    """What was measured on all SMs, on other SMs and at another clock."""
    return frequency / frequency_measured * (busy_sm / number_sm)


@_equation("Figure 3", "bandwidth_global", "B/s", "sustained by the global memory")
def global_bandwidth(
    blocks, threads_per_block, requests, global_latency, frequency, cluster_count, peak_global,
    global_share,
):  # fmt: skip
    """Sustained bandwidth of a benchmark of words of 4 bytes: blocks go to clusters uniformly."""
    of_block = 4.0 * threads_per_block * requests
    cluster = np.ceil(blocks / cluster_count) * of_block / (peak_global * global_share)
    return blocks * of_block / (global_latency / frequency + cluster * cluster_count)


# --- Section 3: times of the components -----------------------------------------------------------


@_equation("3", "t_instruction", "s", "time of the instruction pipeline")
def instruction_time(
    n_i, throughput_i, n_ii, throughput_ii, n_iii, throughput_iii, n_iv, throughput_iv, warps, scale
):  # fmt: skip
    """Time of the instruction pipeline: a linear combination over the types."""
    first = n_i / throughput_i + n_ii / throughput_ii
    return (first + n_iii / throughput_iii + n_iv / throughput_iv) * warps / scale


@_equation("3", "t_shared", "s", "time of the shared memory")
def shared_time(shared_transactions, warp_size, warps, shared_bandwidth, scale):
    """Time of the shared memory, with the transactions that bank conflicts make."""
    return shared_transactions * (4.0 * warp_size) * warps / (shared_bandwidth * scale)


@_equation("3", "t_global", "s", "time of the global memory")
def global_time(moved, global_bandwidth):
    """Time of the global memory."""
    return moved / global_bandwidth if moved > 0.0 else 0.0


@_equation("3", kind="condition")
def is_serial(active_blocks_per_sm):
    """With one block on an SM, stages between barriers follow one another."""
    return active_blocks_per_sm <= 1.0


@_equation("3", "stage_time")
def longest(instruction_time, shared_time, global_time):
    """Time of a stage: that of its bottleneck, which covers the other components."""
    return max(max(instruction_time, shared_time), global_time)


# --- The model -----------------------------------------------------------------------------------

NONE, INSTRUCTION_PIPELINE, SHARED_MEMORY, GLOBAL_MEMORY = map(float, BOTTLENECK.codes.values())
REGIMES = regimes("zhang_owens", 40, "instruction_serial", "shared_serial", "global_serial",
                  "instruction_overlapped", "shared_overlapped", "global_overlapped")  # fmt: skip
SERIAL_I, SERIAL_S, SERIAL_G, OVERLAPPED_I, OVERLAPPED_S, OVERLAPPED_G = map(
    float, REGIMES.values()
)


def given_to_bottleneck(by_i, by_s, by_g, t_i, t_s, t_g, t_stage):
    """Return the times that each component bounds, with the time of one more stage."""
    if t_i >= t_s and t_i >= t_g:
        by_i += t_stage
    elif t_s >= t_g:
        by_s += t_stage
    else:
        by_g += t_stage
    return by_i, by_s, by_g


def given_to_following(
    i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s, t_i, t_s, t_g
):  # fmt: skip
    """Return what is left if one component vanished, by the bottleneck that follows.

    ``s_less_i`` are stages that shared memory bounds where instructions take no time.
    """
    if t_s >= t_g:
        s_less_i += t_s
    else:
        g_less_i += t_g
    if t_i >= t_g:
        i_less_s += t_i
    else:
        g_less_s += t_g
    if t_i >= t_s:
        i_less_g += t_i
    else:
        s_less_g += t_s
    return i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s


def verdict(
    by_i, by_s, by_g, i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s, serial
):  # fmt: skip
    """Return regime, bound and bottleneck, what follows it, and the time left without it."""
    instruction_bound = by_i >= max(by_s, by_g)
    shared_bound = by_s >= by_g
    serial_regime = SERIAL_I if instruction_bound else (SERIAL_S if shared_bound else SERIAL_G)
    regime = serial_regime if serial else (
        OVERLAPPED_I if instruction_bound else (
            OVERLAPPED_S if shared_bound else OVERLAPPED_G))  # fmt: skip
    bound = COMPUTE if instruction_bound else (SHARED if shared_bound else MEMORY)
    bottleneck = INSTRUCTION_PIPELINE if instruction_bound else (
        SHARED_MEMORY if shared_bound else GLOBAL_MEMORY)  # fmt: skip
    left_i = 0.0 if instruction_bound else (i_less_s if shared_bound else i_less_g)
    left_s = s_less_i if instruction_bound else (0.0 if shared_bound else s_less_g)
    left_g = g_less_i if instruction_bound else (g_less_s if shared_bound else 0.0)
    left = left_i + left_s + left_g
    following = INSTRUCTION_PIPELINE if left_i >= max(left_s, left_g) else (
        SHARED_MEMORY if left_s >= left_g else GLOBAL_MEMORY)  # fmt: skip
    following = following if left > 0.0 else NONE
    return regime, bound, bottleneck, following, left


def body(
    blocks, active_blocks_per_sm, active_sm, number_sm, warps_per_block, threads_per_block,
    warp_size, units_i, units_ii, units_iii, units_iv, cluster_count, global_share, n_i, n_ii,
    n_iii, n_iv, throughput_i, throughput_ii, throughput_iii, throughput_iv, shared_transactions,
    shared_bandwidth, global_bytes, global_transactions, executions, barriers, frequency_measured,
    frequency, core_clock, peak_global, global_latency, corrected,
):  # fmt: skip
    """Join the equations."""
    sms = busy_sm(number_sm, blocks, active_blocks_per_sm) if corrected else number_sm  # ZO-1
    factor = scale(frequency, frequency_measured, sms, number_sm)
    peak_i = peak_instruction(units_i, frequency, number_sm, warp_size)
    peak_ii = peak_instruction(units_ii, frequency, number_sm, warp_size)
    peak_iii = peak_instruction(units_iii, frequency, number_sm, warp_size)
    peak_iv = peak_instruction(units_iv, frequency, number_sm, warp_size)
    serial, warps = is_serial(active_blocks_per_sm), warps_per_block * blocks
    instructions = issued = transferred = 0.0
    t_i = t_s = requests = moved = 0.0  # since the last barrier that counts
    all_i = all_s = all_g = total = by_i = by_s = by_g = 0.0
    i_less_s = i_less_g = s_less_i = s_less_g = g_less_i = g_less_s = 0.0
    for k in range(len(n_i)):
        instructions += n_i[k] + n_ii[k] + n_iii[k] + n_iv[k]
        issued += warps * (n_i[k] / peak_i + n_ii[k] / peak_ii + n_iii[k] / peak_iii
                           + n_iv[k] / peak_iv)  # fmt: skip
        t_i += instruction_time(n_i[k], throughput_i[k], n_ii[k], throughput_ii[k], n_iii[k],
                                throughput_iii[k], n_iv[k], throughput_iv[k], warps,
                                factor)  # fmt: skip
        t_s += shared_time(shared_transactions[k], warp_size, warps, shared_bandwidth[k], factor)
        moved += global_bytes[k] * warps
        requests += global_transactions[k] / (executions[k] if serial else 1.0)
        # A stage ends at a barrier if they are serial, the last one with the kernel.
        if k == len(n_i) - 1 or (serial and barriers[k] > 0.0):
            t_g = global_time(moved, global_bandwidth(
                blocks, threads_per_block, requests, global_latency, frequency, cluster_count,
                peak_global, global_share))  # fmt: skip
            t_stage = longest(t_i, t_s, t_g)
            total += t_stage
            by_i, by_s, by_g = given_to_bottleneck(by_i, by_s, by_g, t_i, t_s, t_g, t_stage)
            i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s = given_to_following(
                i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s, t_i, t_s, t_g
            )
            all_i, all_s, all_g = all_i + t_i, all_s + t_s, all_g + t_g
            transferred += moved
            t_i = t_s = requests = moved = 0.0

    regime, bound, bottleneck, following, left = verdict(
        by_i, by_s, by_g, i_less_s, i_less_g, s_less_i, s_less_g, g_less_i, g_less_s, serial
    )
    speedup = total / left  # infinite if nothing is left
    cycles = total * core_clock
    CPI = cycles / (instructions * warps / active_sm)
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, issued / total),
        "memory_activity": min(1.0, transferred / peak_global / total),
        "regime": regime,
        "bound": bound,
        "bottleneck": bottleneck,
        "next_bottleneck": following,
        "speedup_if_removed": speedup,
        "instruction_pipeline_time": all_i,
        "shared_memory_time": all_s,
        "global_memory_time": all_g,
    }


def sustained(rows: Any, warps: Array, relative_units: float = 1.0) -> Array:
    """Return a throughput at a number of warps: linear between rows, and from (0, 0) to the first.

    Parameters
    ----------
    rows : sequence of (warps, throughput), or None
        What was measured; beyond the last row nothing is gained.
    warps : ndarray
        Warps on an SM [1].
    relative_units : float
        Functional units over those of the type that was measured: scales both axes [1].
    """
    if rows is None:
        return np.full(np.shape(warps), np.nan)
    at, values = np.array(sorted(rows), dtype=np.float64).T * relative_units
    return np.interp(warps, [0.0, *at], [0.0, *values])


def _sustained(
    work: Workload, table: str, is_used: Array, warps: Array, relative_units: Any = None
) -> Array:
    """Return a throughput [1/s, B/s] by the devices' tables, which have it in units of 1e9.

    1 where the stage does not use it.
    """
    if not is_used.any():
        return np.ones((1,) * warps.ndim)
    relative = np.ones_like(work.n_sm) if relative_units is None else relative_units
    found = work.per_device(
        lambda rows, at, units: sustained(rows, at, units.item()), table, warps, relative
    )
    return np.where(is_used, found * 1e9, 1.0)


def _units(work: Workload) -> dict[str, list[float]]:
    """Return the functional units of each type by device; NaN where they are missing."""
    tables = [dict(table or ()) for table in work.tables["functional_units"]]
    return {kind: [float(table.get(kind, np.nan)) for table in tables] for kind in TYPES}


def _stage(work: Workload, stage: Stage, units: dict[str, list[float]]) -> dict[str, Array]:
    """Return one stage's part of the inputs; NaN only for what the stage uses."""
    zero = np.zeros_like(work.n_sm)
    warps = work.occupancy.active_blocks_per_sm * stage.warps
    special, double = (stage.instructions.get(name, zero) for name in ("special", "fp64"))
    requests = total(zero, stage.global_accesses, "count")
    rest = np.maximum(stage.computation_instructions - special - double, 0.0)
    counts = {"I": zero, "II": rest + requests, "III": special, "IV": double}
    found = {}
    for kind, count in counts.items():
        relative = work.by_device(units[kind]) / work.by_device(units["II"])
        found[f"n_{kind.lower()}"] = count
        found[f"throughput_{kind.lower()}"] = _sustained(
            work, "instruction_throughput", count > 0, warps, relative
        )
    transactions = total(zero, stage.shared_accesses, "degree", "count")
    return found | {
        "shared_transactions": transactions,
        "shared_bandwidth": _sustained(work, "shared_bandwidth", transactions > 0, warps),
        "global_bytes": total(zero, stage.global_accesses, "moved_bytes", "count"),
        "global_transactions": requests,
        "executions": np.maximum(stage.executions, 1.0),
        "barriers": stage.barriers,
    }


def _prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into counts and throughput per stage."""
    units = _units(work)
    inputs = gathered([_stage(work, stage, units) for stage in work.stages])
    for kind, number in units.items():
        own = work.by_device(number)
        needed = np.isfinite(own) | (sum(inputs[f"n_{kind.lower()}"]) > 0)
        inputs[f"units_{kind.lower()}"] = np.where(needed, own, 1.0)
    clocks, delay = work.clocks.seen_by(variant), work.parameters["global_latency_cycles"]
    return inputs | {
        "frequency": clocks.core,
        "peak_global": bandwidth(work.memory_bandwidth, clocks.memory, clocks.memory_nominal),
        "global_latency": latency(delay, clocks.ratio, work.dram_share),
    }


def functional_units(device: derived.DeviceFacts) -> derived.Value | None:
    """Lanes of an SM by instruction type; type I (mul) also has the special units on 1.x."""
    lanes = device.number("chip.lanes_per_sm")
    special = device.number("chip.special_lanes_per_sm")
    double = device.number("chip.fp64_lanes_per_sm")
    if not lanes:
        return None
    mul = lanes + (special or 0.0) if device.compute_capability.startswith("1.") else lanes
    rows = (("I", mul), ("II", lanes), ("III", special), ("IV", double))
    return tuple((kind, units) for kind, units in rows if units)


SUSTAINED_SHARED = 0.82  # 1165 of 1420.8 GB/s at 32 warps, Section 5.1
SUSTAINED = 0.84  # 9.33 of 11.1 G warp instructions per second at 32 warps, Section 5.1


def _rate(device: derived.DeviceFacts, per_sm_cycle: float) -> float | None:
    """Return 1e9 per second of the whole GPU of something an SM does per core cycle."""
    core, n_sm = map(device.number, ("clocks.core_nominal", "chip.sm_count"))
    return None if not core or not n_sm else per_sm_cycle * core * n_sm / 1e9


def instruction_throughput(device: derived.DeviceFacts) -> derived.Value | None:
    """Peak of the lanes times 0.84, the share that the GTX 285 sustains, once latency is hidden.

    It is hidden from latency over issue cycles warps on.
    """
    issue, wait = derived.issue_cycles(device), derived.instruction_latency(device)
    rate = None if issue is None else _rate(device, SUSTAINED / issue)
    if issue is None or wait is None or rate is None:
        return None
    return ((max(wait / issue, 1.0), rate),)


def shared_rate(device: derived.DeviceFacts) -> derived.Value | None:
    """Four bytes a bank (a lane, where fewer) and cycle, times 0.82 as the GTX 285 sustains."""
    banks, lanes, warp = map(
        device.number, ("chip.shared_banks", "chip.lanes_per_sm", "chip.warp_size")
    )
    wait = derived.shared_latency(device)
    if not banks or not lanes or wait is None or not warp:
        return None
    words = min(banks, lanes)
    rate = _rate(device, SUSTAINED_SHARED * 4.0 * words)
    return None if rate is None else ((max(wait * words / warp, 1.0), rate),)


def clusters(device: derived.DeviceFacts) -> float | None:
    """Clusters of 2 or 3 SMs on compute capability 1.x; later every SM has its own pipeline."""
    n_sm = device.number("chip.sm_count")
    per_cluster = {"1.0": 2.0, "1.1": 2.0, "1.2": 3.0, "1.3": 3.0}
    return None if not n_sm else max(1.0, n_sm // per_cluster.get(device.compute_capability, 1.0))


MODEL = Model(
    name="zhang_owens",
    title="throughput of instruction pipeline, shared and global memory",
    reference=(
        "Y. Zhang and J. D. Owens, A Quantitative Performance Analysis Model for GPU "
        "Architectures, HPCA 2011"
    ),
    doi="10.1109/HPCA.2011.5749745",
    purpose="the bottleneck: instructions, shared or global memory, and what conflicts cost",
    accuracy=(27, 19, 3.2),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("bottleneck", "1", "the component that takes the longest", "", "(3)",
              "code", flags=BOTTLENECK),
        Field("next_bottleneck", "1", "what would take the longest without the bottleneck", "",
              "(3)", "code", flags=BOTTLENECK),
        Field("speedup_if_removed", "1",
              "how many times as fast without the bottleneck; infinite if nothing else takes time",
              "", "(3)"),
        Field("instruction_pipeline_time", "s", "time that the instruction pipeline takes",
              "T_instruction", "(3)"),
        Field("shared_memory_time", "s", "time that shared memory takes", "T_shared", "(3)"),
        Field("global_memory_time", "s", "time that global memory takes", "T_global", "(3)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    findings=findings,
    parameters=(
        parameter("functional_units", ("numberFunctionalUnits", "1", "units by instruction type"),
                  0, 1024, functional_units, columns=("type_name", "units")),
        parameter("instruction_throughput",
                  ("throughput", "1/s",
                   "type II warp instructions by warps on an SM, in 1e9 per second of the GPU"),
                  1e-3, 1e6, instruction_throughput, columns=("warps", "throughput")),
        parameter("shared_bandwidth",
                  ("bandwidth", "B/s",
                   "bandwidth of the shared memory by warps on an SM, of the GPU"),
                  1e-3, 1e7, shared_rate, columns=("warps", "bandwidth_GBps")),
        parameter("global_latency_cycles", SYMBOLS["global_latency"], 1, 1e5, derived.dram_latency),
        parameter("global_share_fraction",
                  ("share", "1", "share of the peak bandwidth that many blocks sustain"), 0.01, 1,
                  derived.dram_read_share),
        parameter("cluster_count", SYMBOLS["cluster_count"], 1, 1024, clusters),
    ),
    errata={
        "ZO-1": "SMs that whole rounds of blocks keep busy",
        "CLK": "throughput follows the swept clocks",
    },
)  # fmt: skip

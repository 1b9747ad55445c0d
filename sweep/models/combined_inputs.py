"""What a warp demands and waits, from a workload: the inputs of :mod:`sweep.models.combined`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from sweep.hardware import derived, matrix_units
from sweep.hardware.clocks import bandwidth, latency, share_at
from sweep.hardware.l2_rates import cache_latency, l2_service
from sweep.hardware.paths import PIECES, piece_factor
from sweep.models.base import Input, Symbol, counted, symbols_of
from sweep.models.terms import of_device, parameter, provided
from sweep.models.workload import (
    Array,
    GlobalAccess,
    Stage,
    Workload,
    demand_beside_dram,
    gathered,
    total,
)

SECTOR_BYTES = 32.0

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
    Input("dram_sectors", "n_DRAM", "1", "sectors that L2 does not serve either, as of long pieces",
          "the same, less what L2 serves; short pieces by the device's factors",
          tuple(f"piece_{size}_factor" for size in PIECES), sequence=True,
          only_with="piece_bytes"),
    counted("chain", "n_chain", "arithmetic instructions that a warp waits for",
            "kernel instructions"),
    counted("shared_loads", "n_shared", "loads from shared memory that a warp waits for",
            "kernel shared accesses"),
    Input("cache_wait", "wait_cache", "cycle", "what a warp waits for loads that caches serve",
          "kernel loads, over those under way at once, by the device's latencies",
          ("l1_latency_cycles", "l2_latency_cycles", "copy_latency_cycles"), sequence=True),
    Input("dram_loads", "n_miss", "1", "loads from DRAM that a warp waits for",
          "kernel loads, over those under way at once; a tile's rows by the device's factor",
          ("tile_dram_factor",), sequence=True),
    Input("link_time", "t_link", "s", "time of a warp's accesses beside DRAM: link, or cache",
          "kernel accesses to mapped memory, and what L2 does not serve, by the device's rates",
          ("microbenchmark.memory_side_cache_bandwidth_GBps",), sequence=True),
    Input("link_wait", "wait_link", "s", "what a warp waits for loads from there",
          "the same, over those under way at once",
          ("microbenchmark.memory_side_cache_latency_cycles",), sequence=True),
    counted("barriers", "n_bar", "barriers of a warp", "kernel stages"),
    Input("matrix", "D_matrix", "cycle", "demand of a warp on matrix units",
          "kernel matrix instructions and their multiply-adds, by the device's rate",
          tuple(f"{kind}_matrix_cycles" for kind in matrix_units.MATRIX_CYCLES), sequence=True),
    Input("matrix_chain", "C_matrix", "cycle", "chain of a warp's matrix instructions",
          "kernel, by the device's latency", ("matrix_latency_cycles",), sequence=True),
    Input("matrix_time", "t_matrix", "s", "their time at the rate that power allows at full clock",
          "device", tuple(f"{kind}_full_clock_TFLOPps" for kind in matrix_units.MATRIX_RATES),
          sequence=True),
    provided("asynchronous", "async", "share of matrix instructions beside which warps wait"),
    Input("in_order", "in_order", "1", "1: warps load what they multiply, at the units' full rate",
          "kernel matrix instructions, by the device's rate of one warp",
          ("single_warp_slowness",)),
    provided("specialized", "special", "1: warps of their own issue asynchronous copies"),
    Input("buffers", "n_buffers", "1", "buffers that asynchronous copies fill", "kernel stages",
          sequence=True, is_switch=True),
    Input("entries", "n_entry", "1", "executions of the first stage", "kernel stages"),
    Input("begun", "n_begun", "1", "executions whose copies begin with the first", "kernel stages"),
    of_device("issue_cycles", "t_issue", "cycle", "issue of an instruction, per SM"),
    of_device("fp32_cycles", "t_fp32", "cycle", "single-precision instruction, per SM"),
    of_device("integer_cycles", "t_int", "cycle", "integer instruction, per SM"),
    of_device("special_cycles", "t_special", "cycle", "special function, per SM"),
    Input("fp64_cycles", "t_fp64", "cycle", "double-precision instruction, per SM", "device",
          ("fp64_cycles",)),
    of_device("unified", "unified", "1", "whether integers take single-precision lanes (0 or 1)"),
    of_device("one_pipe", "one pipe", "1",
              "whether special functions and double precision take them, too (0 or 1)"),
    of_device("load_store_cycles", "t_ls", "cycle", "access of a warp, per SM"),
    of_device("shared_cycles", "t_wave", "cycle", "pass through shared memory"),
    of_device("l1_cycles", "t_L1", "cycle", "sector through the first-level cache"),
    of_device("l2_cycles", "t_L2", "cycle", "sector from L2, of one SM"),
    of_device("alu_latency", "L_alu", "cycle", "latency of a dependent arithmetic instruction",
              "alu_latency_cycles"),
    of_device("shared_latency", "L_shared", "cycle", "latency of shared memory",
              "shared_latency_cycles"),
    of_device("launch_cycles", "L_launch", "cycle", "launching of a block"),
    Input("block_start", "t_start", "cycle", "from the start of a block to that of the next",
          "device, in cycles of the core or in fixed time",
          ("block_start_cycles", "block_start_ns"), clocked=True),
    Input("kernel_launch", "L_kernel", "s", "overhead of launching the kernel",
          "device, times the kernel's launches", ("kernel_launch_us",)),
    of_device("schedulers", "m", "1", "schedulers of an SM, each with lanes of its own"),
    provided("parallelism", "ILP", "independent instructions of a thread",
             "instruction_parallelism"),
    Input("dram_bandwidth", "bandwidth", "B/s", "sustained DRAM bandwidth", "device, at the clock",
          ("chip.memory_bandwidth_GBps", "dram_share_fraction", "dram_share_table"), clocked=True),
    Input("dram_latency", "L_DRAM", "cycle", "latency of DRAM", "device, at the clocks",
          ("dram_latency_cycles",), clocked=True),
    Input("core_clock", "f", "Hz", "core clock", "swept core clock; nominal as printed",
          clocked=True),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "copied": Symbol("T_copies", "cycle", "time of a round's copies"),
    "filled": Symbol("T_buffer", "cycle", "time of the copies that fill one buffer of each stage"),
    "single_time": Symbol("T_a", "cycle", "time of one of two activities alone"),
    "other": Symbol("T_b", "cycle", "time of the other alone"),
    "copy": Symbol("W_b M", "cycle", "time of a block's copies in L2 and DRAM"),
    "turn": Symbol("T_turn", "cycle", "time of a block's buffers, filled and worked on in turn"),
    "W": Symbol("W_b", "1", "warps of a block"),
    "overlapped": Symbol("T_overlapped", "cycle", "round whose stages overlap"),
    "soonest": Symbol("T_free", "cycle", "round whose copies meet nobody in DRAM"),
    "serial": Symbol("T_serial", "cycle", "round whose stages follow one another"),
    "round_cycles": Symbol("T", "cycle", "time of a round"),
    "rounds_cycles": Symbol("T_rounds", "cycle", "all rounds one after the other"),
    "tail_cycles": Symbol("T_tail", "cycle", "time of the last round"),
    "share": Symbol("1/ILP", "1", "of independent instructions, the one that is waited for"),
    "most": Symbol("P_max", "cycle", "largest P_k"),
    "queued": Symbol("sum(D_k P_k)", "cycle^2", "the same of all stations"),
    "on_lanes": Symbol("A_lanes", "cycle", "demand of a warp on slots and lanes, not matrix units"),
    "issued": Symbol("D_issue", "cycle", "demand of a warp on issue slots"),
    "integers": Symbol("D_int", "cycle", "demand of a warp on the lanes of integers"),
    "specials": Symbol("D_special", "cycle", "demand of a warp on those of special functions"),
    "doubles": Symbol("D_fp64", "cycle", "demand of a warp on those of double precision"),
    "through_l2": Symbol("D_L2", "cycle", "demand of a warp on L2"),
}

PARAMETERS = (
    parameter("issue_cycles", SYMBOLS["issue_cycles"], 1e-3, 1e5, derived.issue_slots),
    parameter("fp32_cycles", SYMBOLS["fp32_cycles"], 1e-3, 1e5, derived.fp32_cycles),
    parameter("integer_cycles", SYMBOLS["integer_cycles"], 1e-3, 1e5, derived.integer_cycles),
    parameter("special_cycles", SYMBOLS["special_cycles"], 1e-3, 1e5, derived.special_cycles),
    parameter("load_store_cycles", SYMBOLS["load_store_cycles"], 1e-3, 1e5,
              derived.load_store_cycles),
    parameter("shared_cycles", SYMBOLS["shared_cycles"], 1e-3, 1e5, derived.shared_cycles),
    parameter("l1_cycles", SYMBOLS["l1_cycles"], 1e-3, 1e5, derived.l1_cycles),
    parameter("l2_cycles", SYMBOLS["l2_cycles"], 1e-3, 1e5, l2_service),
    parameter("fp64_cycles", SYMBOLS["fp64_cycles"], 1e-3, 1e5, derived.fp64_cycles,
              required=False),
    parameter("unified", SYMBOLS["unified"], 0, 1, derived.unified_lanes),
    parameter("one_pipe", SYMBOLS["one_pipe"], 0, 1, derived.one_pipe),
    parameter("apart", ("apart", "1", "whether L1 and shared memory are one (0), two (0.5) or two"
              " with addresses of their own (1)"),
              0, 1, derived.apart),
    parameter("special_conversions", ("w_conv", "1", "share of conversions on special"
              " functions' lanes, others on integers'"), 0, 1, derived.special_conversions),
    parameter("alu_latency_cycles", SYMBOLS["alu_latency"], 0.1, 1e5,
              derived.instruction_latency),
    parameter("shared_latency_cycles", SYMBOLS["shared_latency"], 0.1, 1e5,
              derived.lookup_latency),
    parameter("l1_latency_cycles", ("L_L1", "cycle", "latency of a load that L1 serves"), 0.1,
              1e5, derived.l1_latency),
    parameter("l2_latency_cycles", ("L_L2", "cycle", "latency of a load that L2 serves"), 0.1,
              1e5, cache_latency),
    parameter("dram_latency_cycles", SYMBOLS["dram_latency"], 0.1, 1e5, derived.dram_latency),
    parameter("copy_latency_cycles", ("L_copy", "cycle", "latency of an asynchronous copy that"
              " L2 serves"), 0.1, 1e5, matrix_units.copy_latency),
    parameter("tile_dram_factor", ("r_tile", "1", "latency of a tile's rows from DRAM, over"
              " that of one load"), 1, 100, matrix_units.tile_dram_factor),
    *(parameter(f"piece_{size}_factor", (f"r_{size}", "1", f"time of a piece of {size} bytes in"
                " DRAM, over that of as many bytes of a long one"), 1, 100, rule)
      for size, rule in PIECES.items()),
    parameter("matrix_latency_cycles", ("L_matrix", "cycle", "dependent matrix instruction"),
              0.1, 1e5, matrix_units.matrix_latency),
    parameter("single_warp_slowness", ("s_mma", "1", "time of mma, over that of wgmma"), 1, 1e3,
              matrix_units.single_warp_slowness),
    parameter("launch_cycles", SYMBOLS["launch_cycles"], 1e-3, 1e5, derived.launch_cycles),
    parameter("block_start_cycles", SYMBOLS["block_start"], 0, 1e5, derived.block_start),
    parameter("block_start_ns", ("t_start'", "ns", "least time between starts of two blocks"),
              0, 1e5, derived.block_start_ns),
    parameter("kernel_launch_us", SYMBOLS["kernel_launch"], 0, 1e5, derived.kernel_launch),
    parameter("schedulers", SYMBOLS["schedulers"], 1, 16, derived.schedulers),
    *(parameter(f"{kind}_matrix_cycles",
                (f"t_{kind}", "cycle", f"multiply-add of {kind} by matrix units, per SM"),
                1e-6, 1e3, rule, required=False)
      for kind, rule in matrix_units.MATRIX_CYCLES.items()),
    *(parameter(f"{kind}_full_clock_TFLOPps",
                (f"R_{kind}", "TFLOP/s", f"rate of {kind} that power allows at full clock"),
                1e-3, 1e9, rule, required=False)
      for kind, rule in matrix_units.MATRIX_RATES.items()),
    parameter("dram_share_fraction",
              ("share", "1", "share of the peak DRAM bandwidth that is sustained"), 0.01, 1,
              derived.dram_read_share),
    parameter("dram_share_table",
              ("share", "1", "the same by memory clock; replaces dram_share_fraction"),
              0.01, 1e5, derived.dram_shares,
              columns=("memory_clock_MHz", "dram_share_fraction"), required=False),
)  # fmt: skip


def _traffic(work: Workload, stage: Stage, zero: Array) -> dict[str, Array]:
    """Return what a warp demands of memories. Of two side by side the faster takes no time."""
    device, passes = work.parameters, total(zero, stage.shared_accesses, "count", "wavefronts")
    of_pieces = {size: device[f"piece_{size}_factor"] for size in PIECES}
    l1 = l2 = dram = zero
    for access in stage.global_accesses:
        moved = access.count * access.moved_bytes / SECTOR_BYTES
        beyond = moved * access.passed_on
        # A pass through L1 takes the time of four sectors, however few lanes or banks it uses.
        passed = np.maximum(moved, 4.0 * access.count * access.wavefronts)
        l1, l2 = l1 + passed, l2 + beyond
        short = piece_factor(access.piece_bytes, of_pieces)
        dram = dram + beyond * (access.missed_rate * short)
    used, _ = demand_beside_dram(work, zero, stage.global_accesses)
    apart, in_l1 = device["apart"] > 0, l1 * device["l1_cycles"] > passes * device["shared_cycles"]
    return {"wavefronts": np.where(apart & in_l1, 0.0, passes), "l2_sectors": l2,
            "l1_sectors": np.where(apart & ~in_l1, 0.0, l1), "dram_sectors": dram,
            "link_time": used}  # fmt: skip


def _loads(stage: Stage) -> list[GlobalAccess]:
    return [access for access in stage.global_accesses if access.kind == "load"]


def _waiting(work: Workload, stage: Stage, before: Stage | None, zero: Array) -> dict[str, Array]:
    """Return what a warp waits for its loads: cycles of caches, seconds of the link, DRAM's number.

    A store is waited for by nobody. Of the loads that a thread has under way at once one is waited
    for, at least one in all; of the copies of an execution the slowest.
    """
    accesses = _loads(stage)
    loads = total(zero, accesses, "count")
    _, beside = demand_beside_dram(work, zero, stage.global_accesses)
    least = np.minimum(1.0, 1.0 / np.where(loads > 0, loads, 1.0))
    share = np.maximum(1.0 / work.memory_parallelism, least)
    are_copies = stage.buffers > 0
    if accesses and are_copies.all():
        return _copies_waiting(work, stage, before, accesses, loads, beside)
    # A device need not have what the kernel does not execute.
    near, far = (
        np.where(loads > 0, work.parameters[f"{level}_latency_cycles"], 0.0) * share
        for level in ("l1", "l2")
    )
    cached = missed = zero
    for access in accesses:  # what hit rates multiply is small: they may differ for each problem
        beyond = access.count * (1.0 - access.l1_hit_rate)
        awaited, far_rate, rows = access.missed_rate, access.l2_hit_rate, 1.0
        if access.awaited_rate is not None:
            awaited, rows = access.awaited_rate, work.parameters["tile_dram_factor"]
            far_rate = np.minimum(far_rate, 1.0 - awaited)
        cached = cached + (access.count - beyond) * near + (beyond * far) * far_rate
        missed = missed + (beyond * share) * (awaited * rows)
    waits = {"cache_wait": cached, "dram_loads": missed, "link_wait": beside * share}
    if accesses and are_copies.any():
        copied = _copies_waiting(work, stage, before, accesses, loads, beside)
        waits = {name: np.where(are_copies, copied[name], wait) for name, wait in waits.items()}
    return waits


def _turns(stage: Stage, before: Stage | None) -> Array:
    """Return how often all buffers of a stage are filled and waited for.

    Copies of the first executions, one for each buffer, are under way together. If the stage before
    loads, it has begun them, and waited for the first.
    """
    begun = 0.0 if before is None else total(np.zeros(1), _loads(before), "count") > 0
    turns = np.ceil(stage.executions / np.where(stage.buffers > 0, stage.buffers, 1.0))
    return np.maximum(turns - begun, 0.0)


def _copies_waiting(
    work: Workload, stage: Stage, before: Stage | None, accesses: Sequence[GlobalAccess],
    loads: Array, beside: Array,
) -> dict[str, Array]:  # fmt: skip
    """Return the same of copies: those of an execution are under way together."""
    times = np.where(loads > 0, stage.buffers * _turns(stage, before), 0.0)
    share = times / np.where(loads > 0, loads, 1.0)
    missed = reduce(np.maximum, (access.waits_for_dram for access in accesses))
    # A device need not have what the kernel does not execute.
    near, from_l2 = (
        times * np.where(loads > 0, work.parameters[f"{name}_latency_cycles"], 0.0)
        for name in ("copy", "l2")
    )
    if any(access.awaited_rate is not None for access in accesses):  # rows of tiles
        cached, rows = near * (1.0 - missed), work.parameters["tile_dram_factor"]
    else:
        cached, rows = near - from_l2 * missed, 1.0
    return {"cache_wait": cached, "dram_loads": (times * rows) * missed,
            "link_wait": beside * share}  # fmt: skip


def _matrix(work: Workload, count: Array) -> tuple[Array, Array]:
    """Return the time of a warp's matrix instructions: cycles of an SM, and seconds of all SMs.

    The cycles are NaN of a type that units lack. The seconds are those at the rate that power
    allows at full clock, 0 where none is known.
    """
    cycles = seconds = np.zeros_like(work.n_sm)
    for kind, multiply_adds in work.matrix.items():
        # A device need not have what the kernel does not execute.
        each = np.where(multiply_adds * count > 0, work.parameters[f"{kind}_matrix_cycles"], 0.0)
        # Double precision has nothing but mma.
        slower = 0.0 if kind == "fp64" else work.parameters["single_warp_slowness"] - 1.0
        rate = work.parameters[f"{kind}_full_clock_TFLOPps"] * 1e12
        shape = (1.0 + slower * work.single_warp) * (1.0 + work.half_rate)
        cycles = cycles + count * multiply_adds * each * shape
        seconds = seconds + np.where(rate > 0, count * multiply_adds * (2.0 / rate), 0.0)
    return cycles, seconds


def _stage(work: Workload, stage: Stage, before: Stage | None) -> dict[str, Array]:
    """Return one stage's part of the inputs."""
    zero = np.zeros_like(work.n_sm)
    classes = "computation", "fp32", "integer", "special", "conversion", "fp64", "move", "matrix"
    count = {name: stage.instructions.get(name, zero) for name in classes}
    on_special = count["conversion"] * work.parameters["special_conversions"]
    # Where all share one pipe, moves between registers take it, too.
    moves = count["move"] * work.parameters["one_pipe"]
    requests = total(zero, stage.global_accesses, "count")
    local = total(zero, stage.shared_accesses, "count")
    chain = np.maximum(stage.computation_instructions - local - stage.barriers, 0.0)
    # Where the file gives one number for all instructions, they are taken for single precision.
    fp32 = chain if "computation" in stage.instructions else count["fp32"]
    loads = [access for access in stage.shared_accesses if access.kind == "load"]
    # RDNA's lanes multiply matrices, too (WMMA); CDNA has units for it that work beside them.
    on_lanes = work.parameters["one_pipe"] * (work.warp_size == 32) * (count["matrix"] > 0)
    matrix, matrix_time = _matrix(work, count["matrix"])
    vector = (fp32 + count["integer"] + count["conversion"] + moves) * on_lanes
    return {
        "instructions": stage.computation_instructions + requests,
        "fp32": fp32,
        "integer": count["integer"] + count["conversion"] - on_special + moves,
        "special": count["special"] + on_special,
        "fp64": count["fp64"],
        "accesses": requests + local * (work.parameters["apart"] < 1.0),
        "chain": chain,
        # What a warp waits for is a latency over the parallelism of instructions.
        "shared_loads": total(zero, loads, "count")
        * (work.instruction_parallelism / work.shared_parallelism),
        "barriers": stage.barriers,
        "matrix": matrix + vector * work.parameters["integer_cycles"],
        "matrix_time": matrix_time,
        "matrix_chain": (count["matrix"] / work.matrix_parallelism)
        * work.parameters["matrix_latency_cycles"],
        "buffers": stage.buffers,
        **_traffic(work, stage, zero),
        **_waiting(work, stage, before, zero),
    }


def prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into what a warp demands and waits, stage by stage."""
    before = (None, *work.stages[:-1])
    inputs = gathered([_stage(work, *two) for two in zip(work.stages, before, strict=True)])
    begun = [np.minimum(stage.executions, stage.buffers) for stage in work.stages[1:]]
    device, clocks = work.parameters, work.clocks.seen_by(variant)
    # A device need not have what the kernel does not execute.
    has_fp64 = sum(inputs["fp64"]) > 0
    rate = work.memory_bandwidth * work.per_device(
        share_at, "dram_share_table", clocks.memory, device["dram_share_fraction"]
    )
    return inputs | {
        "entries": np.maximum(work.stages[0].executions, 1.0),
        "in_order": work.single_warp * (device["single_warp_slowness"] <= 1.0),
        "begun": reduce(np.maximum, begun, np.ones_like(work.n_sm)),
        "fp64_cycles": np.where(has_fp64, device["fp64_cycles"], 0.0),
        "dram_bandwidth": bandwidth(rate, clocks.memory, clocks.memory_nominal),
        "dram_latency": latency(device["dram_latency_cycles"], clocks.ratio, work.dram_share),
        "block_start": np.maximum(
            device["block_start_cycles"], device["block_start_ns"] * 1e-9 * clocks.core
        ),
        "kernel_launch": device["kernel_launch_us"] * 1e-6 * work.launches,
        "core_clock": clocks.core,
    }

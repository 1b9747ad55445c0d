"""What a warp demands and waits, from a workload: the inputs of :mod:`sweep.models.combined`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from sweep.hardware.clocks import bandwidth, latency, share_at
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


def _traffic(work: Workload, stage: Stage, zero: Array) -> dict[str, Array]:
    """Return what a warp demands of memories. Of two side by side the faster takes no time."""
    device, passes = work.parameters, total(zero, stage.shared_accesses, "count", "wavefronts")
    l1 = l2 = dram = zero
    for access in stage.global_accesses:
        moved = access.count * access.moved_bytes / SECTOR_BYTES
        beyond = moved * access.passed_on
        # A pass through L1 takes the time of four sectors, however few lanes or banks it uses.
        passed = np.maximum(moved, 4.0 * access.count * access.wavefronts)
        l1, l2, dram = l1 + passed, l2 + beyond, dram + beyond * access.missed_rate
    used, _ = demand_beside_dram(work, zero, stage.global_accesses)
    apart, in_l1 = device["apart"] > 0, l1 * device["l1_cycles"] > passes * device["shared_cycles"]
    return {"wavefronts": np.where(apart & in_l1, 0.0, passes), "l2_sectors": l2,
            "l1_sectors": np.where(apart & ~in_l1, 0.0, l1), "dram_sectors": dram,
            "link_time": used}  # fmt: skip


def _waiting(work: Workload, stage: Stage, zero: Array) -> dict[str, Array]:
    """Return what a warp waits for its loads: cycles of caches, seconds of the link, DRAM's number.

    A store is waited for by nobody. Of the loads that a thread has under way at once one is waited
    for, at least one in all; of the copies of an execution the slowest.
    """
    accesses = [access for access in stage.global_accesses if access.kind == "load"]
    loads = total(zero, accesses, "count")
    _, beside = demand_beside_dram(work, zero, stage.global_accesses)
    least = np.minimum(1.0, 1.0 / np.where(loads > 0, loads, 1.0))
    share = np.maximum(1.0 / work.memory_parallelism, least)
    are_copies = stage.buffers > 0
    if accesses and are_copies.all():
        return _copies_waiting(work, stage, accesses, loads, beside)
    # A device need not have what the kernel does not execute.
    near, far = (
        np.where(loads > 0, work.parameters[f"{level}_latency_cycles"], 0.0) * share
        for level in ("l1", "l2")
    )
    cached = missed = zero
    for access in accesses:  # what hit rates multiply is small: they may differ for each problem
        beyond = access.count * (1.0 - access.l1_hit_rate)
        cached = cached + (access.count - beyond) * near + (beyond * far) * access.l2_hit_rate
        missed = missed + (beyond * share) * access.missed_rate
    waits = {"cache_wait": cached, "dram_loads": missed, "link_wait": beside * share}
    if accesses and are_copies.any():
        copied = _copies_waiting(work, stage, accesses, loads, beside)
        waits = {name: np.where(are_copies, copied[name], wait) for name, wait in waits.items()}
    return waits


def _copies_waiting(
    work: Workload, stage: Stage, accesses: Sequence[GlobalAccess], loads: Array, beside: Array
) -> dict[str, Array]:
    """Return the same of copies: those of an execution are under way together."""
    times = np.minimum(stage.executions, loads)
    share = times / np.where(loads > 0, loads, 1.0)
    missed = reduce(np.maximum, (access.missed_rate for access in accesses))
    far = times * np.where(loads > 0, work.parameters["l2_latency_cycles"], 0.0)
    return {"cache_wait": far * (1.0 - missed), "dram_loads": times * missed,
            "link_wait": beside * share}  # fmt: skip


def _matrix_cycles(work: Workload, count: Array) -> Array:
    """Return the cycles of an SM's matrix units for an instruction; NaN of a type they lack."""
    cycles = np.zeros_like(work.n_sm)
    for kind, multiply_adds in work.matrix.items():
        # A device need not have what the kernel does not execute.
        each = np.where(multiply_adds * count > 0, work.parameters[f"{kind}_matrix_cycles"], 0.0)
        # Double precision has nothing but mma.
        slower = 0.0 if kind == "fp64" else work.parameters["single_warp_slowness"] - 1.0
        cycles = cycles + multiply_adds * each * (1.0 + slower * work.single_warp)
    return cycles


def _stage(work: Workload, stage: Stage) -> dict[str, Array]:
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
    vector = (fp32 + count["integer"] + count["conversion"] + moves) * on_lanes
    return {
        "instructions": stage.computation_instructions + requests,
        "fp32": fp32,
        "integer": count["integer"] + count["conversion"] - on_special + moves,
        "special": count["special"] + on_special,
        "fp64": count["fp64"],
        "accesses": requests + (1.0 - work.parameters["apart"]) * local,
        "chain": chain,
        # What a warp waits for is a latency over the parallelism of instructions.
        "shared_loads": total(zero, loads, "count")
        * (work.instruction_parallelism / work.shared_parallelism),
        "barriers": stage.barriers,
        "matrix": count["matrix"] * _matrix_cycles(work, count["matrix"])
        + vector * work.parameters["integer_cycles"],
        "matrix_chain": (count["matrix"] / work.matrix_parallelism)
        * work.parameters["matrix_latency_cycles"],
        "buffers": stage.buffers,
        **_traffic(work, stage, zero),
        **_waiting(work, stage, zero),
    }


def prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into what a warp demands and waits, stage by stage."""
    inputs = gathered([_stage(work, stage) for stage in work.stages])
    device, clocks = work.parameters, work.clocks.seen_by(variant)
    # A device need not have what the kernel does not execute.
    has_fp64 = sum(inputs["fp64"]) > 0
    rate = work.memory_bandwidth * work.per_device(
        share_at, "dram_share_table", clocks.memory, device["dram_share_fraction"]
    )
    return inputs | {
        "fp64_cycles": np.where(has_fp64, device["fp64_cycles"], 0.0),
        "dram_bandwidth": bandwidth(rate, clocks.memory, clocks.memory_nominal),
        "dram_latency": latency(device["dram_latency_cycles"], clocks.ratio, work.dram_share),
        "kernel_launch": device["kernel_launch_us"] * 1e-6 * work.launches,
        "core_clock": clocks.core,
    }

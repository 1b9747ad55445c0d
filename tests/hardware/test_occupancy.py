"""Occupancy against the papers' tables, hand-worked rules and an independent derivation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.errors import SpecError
from sweep.fields import LIMITER, STATUS
from sweep.hardware.occupancy import occupancy
from sweep.hardware.occupancy_limits import compute_capabilities, limits_for

PLENTY = 10**9  # blocks: the grid limits nothing


def occupied(cc, threads, registers, shared_memory, blocks=PLENTY, n_sm=16):
    return occupancy(threads, registers, shared_memory, blocks, limits=limits_for(cc), n_sm=n_sm)


def test_table__capabilities_in_order():
    known = compute_capabilities()
    assert known[0] == "1.0" and known[-1] == "12.1" and len(known) == len(set(known))
    assert list(known) == sorted(known, key=lambda cc: [int(part) for part in cc.split(".")])


@pytest.mark.parametrize("cc", compute_capabilities())
def test_table__rows_are_consistent(cc):
    limits = limits_for(cc)
    assert limits.max_threads_per_sm == 32 * limits.max_warps_per_sm
    assert limits.regs_per_sm % limits.max_regs_per_block == 0
    assert limits.smem_per_sm_bytes % limits.smem_alloc_unit_bytes == 0
    reserved = limits.smem_reserved_per_block_bytes
    assert limits.smem_per_block_bytes + reserved <= limits.smem_per_sm_bytes
    assert reserved == (1024 if float(cc) >= 8 else 0)
    assert limits.reg_per_block_style == (float(cc) < 2)


def test_limits_for__stacks_along_devices():
    limits = limits_for(["1.3", "5.2"], (-1, 1, 1))
    for name, values in vars(limits).items():
        assert values.shape == (() if name == "warp_size" else (2, 1, 1))
    assert limits.max_warps_per_sm.ravel().tolist() == [32, 64]
    assert limits_for(["5.2"]).max_warps_per_sm.shape == (1,)
    assert limits_for("5.2").max_warps_per_sm.shape == ()
    with pytest.raises(SpecError, match="unknown compute capability '5.9': .* 5.0, 5.2, 5.3, 6.0"):
        limits_for(["1.3", "5.9"])


def test_zhang_owens_table_2__limits_on_the_gtx_285():
    counts = occupied("1.3", 64, [16, 30, 58], [348, 1088, 4284])
    assert counts.active_warps_per_sm.tolist() == [16, 16, 6]
    assert counts.limit_by_registers.tolist() == [16, 8, 4]
    assert counts.limit_by_shared_memory.tolist() == [32, 10, 3]
    names = [LIMITER.meaning(code) for code in counts.limiter]
    assert names == ["blocks_per_sm", "registers", "shared_memory"]


@pytest.mark.parametrize(
    ("cc", "threads", "registers", "shared_memory", "expected"),
    [
        # 1.1: 3 warps count as 4 for registers: 4 * 32 * 20 = 2560, three times in 8192.
        ("1.1", 96, 20, 0, 3),
        # 1.0: 256-register units: 2 * 32 * 17 = 1088 -> 1280, six times in 8192.
        ("1.0", 64, 17, 0, 6),
        # 1.2: 512-register units: 1088 -> 1536, ten times in 16384, at most 8 blocks.
        ("1.2", 64, 17, 0, 8),
        # 1.3: 16 B of parameters and 4 KiB: 4112 -> 4608 bytes, three times in 16 KiB.
        ("1.3", 128, 8, 4112, 3),
        # 2.0: 20 * 32 = 640 a warp: 16384 // 640 = 25 warps in each half: 50 over 8 -> 6 blocks.
        ("2.0", 256, 20, 0, 6),
        # 2.0: 21 registers are allocated in units of 128: 768 a warp, 21 * 2 = 42 warps: 5 blocks.
        ("2.0", 256, 21, 0, 5),
        # 2.1: 23 * 32 = 736 -> 768 in units of 64 as well.
        ("2.1", 256, 23, 0, 5),
        # 3.5: 40 * 32 = 1280; 16384 // 1280 = 12 warps a partition: 48 warps: 6 blocks of 8.
        ("3.5", 256, 40, 0, 6),
        # 3.7 has twice the registers of 3.5 for an SM, but not for a block.
        ("3.7", 256, 40, 0, 8),
        ("3.7", 1024, 72, 0, 0),
        # 6.0: 22 warps of 88 registers fit two partitions (22 * 2816 = 61952), but not four.
        ("6.0", 704, 88, 0, 0),
        ("6.0", 640, 88, 0, 1),
        # 8.0: 1 KiB of every block is reserved: 166912 + 1024 = 164 KiB is all there is.
        ("8.0", 32, 16, 166912, 1),
        ("8.0", 32, 16, 166913, 0),
        ("8.0", 32, 16, 0, 32),
        # 8.9, 11.0 and 12.x hold 24 blocks, 8.6 only 16.
        ("8.6", 32, 16, 0, 16),
        ("8.9", 32, 16, 0, 24),
        ("11.0", 32, 16, 0, 24),
        ("12.0", 32, 16, 0, 24),
    ],
)
def test_rules__worked_by_hand(cc, threads, registers, shared_memory, expected):
    assert occupied(cc, threads, registers, shared_memory).active_blocks_per_sm == expected


# An independent derivation: place blocks one by one until something is used up


def place_blocks(cc, threads, registers, shared_memory):
    """Return the active blocks by allocating integers, without any of the module's formulas."""
    limits = limits_for(cc)
    warps = -(-threads // 32)
    if threads > limits.max_threads_per_block or registers > limits.max_regs_per_thread:
        return 0
    unit = int(limits.reg_alloc_unit)
    if cc.startswith("2.") and registers in (21, 22, 29, 30, 37, 38, 45, 46):
        unit = 128
    partitions = 1 if float(cc) < 2 else int(limits.warp_alloc_granularity)
    if float(cc) < 2:
        needed = (warps + warps % 2) * 32 * registers
        needed += -needed % unit
    else:
        needed = 32 * registers + -(32 * registers) % unit
        checked = 4 if float(cc) >= 3 else 2
        if (warps + -warps % checked) * needed > limits.max_regs_per_block:
            return 0
    smem = shared_memory + int(limits.smem_reserved_per_block_bytes)
    smem += -smem % int(limits.smem_alloc_unit_bytes)
    if shared_memory > limits.smem_per_block_bytes:
        return 0
    free_warps, free_smem = int(limits.max_warps_per_sm), int(limits.smem_per_sm_bytes)
    free_registers = [int(limits.regs_per_sm) // partitions] * partitions
    blocks = 0
    while blocks < limits.max_blocks_per_sm and free_warps >= warps and free_smem >= smem:
        for _ in range(1 if float(cc) < 2 else warps):
            emptiest = free_registers.index(max(free_registers))
            free_registers[emptiest] -= needed
        if min(free_registers) < 0:
            break
        free_warps, free_smem, blocks = free_warps - warps, free_smem - smem, blocks + 1
    return blocks


@pytest.mark.parametrize("cc", compute_capabilities())
def test_active_blocks__as_placed_one_by_one(cc):
    generator = np.random.default_rng(int(float(cc) * 10))
    limits = limits_for(cc)
    threads = generator.integers(1, int(limits.max_threads_per_block) + 40, 300)
    registers = generator.integers(0, int(limits.max_regs_per_thread) + 3, 300)
    registers[:200] = generator.integers(1, 64, 200)
    shared = generator.integers(0, int(limits.smem_per_block_bytes) + 600, 300)
    shared[:150] //= 16
    expected = [
        place_blocks(cc, *point)
        for point in zip(threads.tolist(), registers.tolist(), shared.tolist(), strict=True)
    ]
    assert occupied(cc, threads, registers, shared).active_blocks_per_sm.tolist() == expected


@given(st.sampled_from(compute_capabilities()),
       *(st.integers(*ends) for ends in ((1, 1024), (0, 255), (0, 50_000), (1, 10_000), (1, 200))),
)  # fmt: skip
def test_occupancy__resources_are_not_exceeded(cc, threads, registers, shared, blocks, n_sm):
    limits, counts = limits_for(cc), occupied(cc, threads, registers, shared, blocks, n_sm)
    active = counts.active_blocks_per_sm
    assert 0 <= active <= limits.max_blocks_per_sm
    assert active * counts.warps_per_block <= limits.max_warps_per_sm
    assert active * registers * threads <= limits.regs_per_sm
    assert active * shared <= limits.smem_per_sm_bytes
    assert active <= math.ceil(blocks / n_sm)
    assert counts.active_sm == min(blocks, n_sm)
    assert counts.occupancy == active * counts.warps_per_block / limits.max_warps_per_sm <= 1
    assert (counts.status == STATUS["valid"]) == (active > 0)
    assert counts.limiter != LIMITER["none"]


def test_occupancy__broadcasts_and_stays_small():
    limits = limits_for(compute_capabilities(), (-1, 1, 1))
    threads = np.arange(32, 1056, 32).reshape(1, -1, 1)
    registers = np.arange(8, 250, 3).reshape(1, 1, -1)
    counts = occupancy(threads, registers, 1024, 4096, limits=limits, n_sm=16)
    n = len(compute_capabilities())
    assert counts.active_blocks_per_sm.shape == (n, 32, 81)
    assert counts.warps_per_block.shape == (1, 32, 1)
    assert counts.limit_by_warps.shape == (n, 32, 1)
    assert counts.limit_by_shared_memory.shape == (n, 1, 1)
    assert counts.limit_by_grid.shape == ()
    one = occupied("7.0", threads[0, 3], registers[0, 0, 5], 1024, 4096)
    at = compute_capabilities().index("7.0")
    names = [*counts.counts(), "limiter", "occupancy", "status"]
    for many, single in ((getattr(counts, name), getattr(one, name)) for name in names):
        if many.shape == counts.active_blocks_per_sm.shape:
            assert many[at, 3, 5] == single
        assert isinstance(many, np.ndarray) and isinstance(single, np.ndarray)
    assert counts.limiter.dtype == counts.status.dtype == np.uint8


@pytest.mark.parametrize(
    ("threads", "registers", "shared_memory", "blocks", "limiter"),
    [
        (256, 16, 0, PLENTY, "warps"),
        (256, 64, 0, PLENTY, "registers"),
        (64, 16, 20_000, PLENTY, "shared_memory"),
        (32, 16, 0, PLENTY, "blocks_per_sm"),
        (256, 16, 0, 16, "grid"),
        (256, 32, 0, PLENTY, "warps"),  # tie with registers: the first in the calculator's order
        (64, 32, 0, PLENTY, "warps"),  # tie with registers and blocks
        (64, 16, 1024, 32 * 16, "warps"),  # tie with the grid
    ],
)
def test_limiter__is_the_first_to_attain_the_minimum(
    threads, registers, shared_memory, blocks, limiter
):
    counts = occupied("5.0", threads, registers, shared_memory, blocks)
    assert LIMITER.meaning(counts.limiter) == limiter
    assert counts.status == STATUS["valid"]


@pytest.mark.parametrize(
    ("threads", "registers", "shared_memory", "blocks", "status", "limiter"),
    [
        (1025, 16, 0, 100, "block_too_large", "warps"),
        (2000, 300, 10**6, 0.5, "block_too_large", "warps"),
        (1024, 80, 0, 100, "registers", "registers"),
        (32, 256, 10**6, 100, "registers", "registers"),
        (32, 16, 49153, 100, "shared_memory", "shared_memory"),
        *((*given, "no_active_block", "none") for given in (
            (32, 16, 0, 0), (32, 16, 0, -4), (0, 16, 0, 100), (-32, 16, 0, 100), (32, -1, 0, 100),
            (32, 16, -1, 100), (math.nan, 16, 0, 100), (32, math.nan, 0, 100),
            (32, 16, math.nan, 100), (32, 16, 0, math.nan), (math.inf, 16, 0, 100),
        )),
    ],
)  # fmt: skip
def test_status__why_a_launch_fails(threads, registers, shared_memory, blocks, status, limiter):
    counts = occupied("5.2", threads, registers, shared_memory, blocks)
    assert STATUS.meaning(counts.status) == status
    assert LIMITER.meaning(counts.limiter) == limiter
    assert counts.active_blocks_per_sm == counts.active_warps_per_sm == counts.occupancy == 0


@pytest.mark.parametrize(
    ("cc", "columns", "blocks", "status"),
    [("10.0", 0, 16, "valid"), ("10.0", 1, 16, "valid"), ("10.0", 64, 8, "valid"),
     ("10.0", 65, 4, "valid"), ("10.0", 512, 1, "valid"), ("10.0", 513, 0, "tensor_memory"),
     ("9.0", 32, 0, "tensor_memory"), ("10.0", -1, 0, "no_active_block")],
)  # fmt: skip
def test_tensor_memory__columns_are_powers_of_two_from_32(cc, columns, blocks, status):
    limits = limits_for(cc)
    counts = occupancy(
        128, 16, 0, PLENTY, limits=limits, n_sm=1, tensor_memory_columns=[columns, 0]
    )
    assert counts.active_blocks_per_sm.tolist() == [blocks, 16]
    assert STATUS.meaning(counts.status[0]) == status
    limiter = "none" if columns < 0 else ("warps" if columns < 64 else "tensor_memory")
    assert LIMITER.meaning(counts.limiter[0]) == (limiter if cc == "10.0" else "tensor_memory")


def test_limits__infinite_where_a_resource_is_not_used():
    counts = occupied("5.2", 64, 0, 0)
    assert counts.limit_by_registers == counts.limit_by_shared_memory == math.inf
    assert counts.active_blocks_per_sm == 32


def test_grids_that_fill_all_multiprocessors_limit_nothing():
    """What is active then needs no number for each grid, and is the same."""
    threads, blocks = np.array([32, 64, 1000]), np.array([[16 * 32], [1000], [1e6]])
    large = occupied("5.2", threads, 30, 0, blocks)
    assert large.active_blocks_per_sm.shape == (3,) and large.active_sm.shape == ()
    small = occupied("5.2", threads, 30, 0, np.vstack([blocks, [[3]]]))
    for name, numbers in large.counts().items():
        alike = np.broadcast_to(getattr(small, name), (4, 3))[:3]
        np.testing.assert_array_equal(np.broadcast_to(numbers, (3, 3)), alike, err_msg=name)
    np.testing.assert_array_equal(np.broadcast_to(large.limiter, (3, 3)), small.limiter[:3])

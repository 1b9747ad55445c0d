"""Blocks and warps that a multiprocessor holds at once, as NVIDIA's occupancy calculators count.

From compute capability 3.0 on, every limit agrees with ``cuda_occupancy.h`` of CUDA 13 for the
largest shared-memory carve-out, shared memory opted into where that is needed, and partitioned
global caching off. 1.x and 2.x, which that header has dropped, follow the calculator spreadsheet
and the CUDA C Programming Guide. (Only for odd numbers of warps on 1.x do NVIDIA's sources differ:
the header of CUDA 7 also rounds the warps up to pairs where it counts warp slots, the spreadsheet
and the guide round them for the registers alone; so does this module.)

Registers of AMD's devices follow the rule of 2.0 and later, which is AMD's too: a wavefront's
registers, rounded up, in the partition of one SIMD unit.
All arithmetic is float64 on integers far below 2**53, hence exact.

Examples
--------
>>> from sweep.hardware.occupancy_limits import limits_for
>>> limits = limits_for("1.3")
>>> counts = occupancy([64, 64, 64], [16, 30, 58], [348, 1088, 4284], 1000, limits=limits, n_sm=30)
>>> counts.active_blocks_per_sm  # Zhang & Owens, HPCA 2011, Table 2
array([8., 8., 3.])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sweep.fields import LIMITER, STATUS, Array
from sweep.hardware.occupancy_limits import Limits

# Registers per thread for which Fermi allocates in units of 128 and not of 64: listed by the
# calculator spreadsheet (version 5.1, sheet "GPU Data") and by cuda_occupancy.h of CUDA 7.
_FERMI_COARSE = (21, 22, 29, 30, 37, 38, 45, 46)

# What ``tcgen05.alloc`` takes at least; it waits until there is room.
_FEWEST_COLUMNS = 32.0


@dataclass(frozen=True)
class BlockLimits:
    """Result of :func:`block_limits`: what a block takes is the same in every grid.

    A limit that does not apply (no registers, no shared memory) is infinite. ``fitting`` are the
    blocks that find room, 0 where ``launchable`` is false; ``status`` does not know the grid.
    """

    warps_per_block: Array
    limit_by_blocks: Array
    limit_by_warps: Array
    limit_by_registers: Array
    limit_by_shared_memory: Array
    limit_by_tensor_memory: Array
    launchable: Array
    fitting: Array
    status: Array


@dataclass(frozen=True)
class Occupancy(BlockLimits):
    """Result of :func:`occupancy`: float64 arrays (codes: uint8), each as small as its inputs.

    Where the launch fails, ``status`` says why, and active blocks, warps and occupancy are 0.
    """

    active_blocks_per_sm: Array
    active_warps_per_sm: Array
    active_sm: Array
    max_warps_per_sm: Array
    blocks: Array
    n_sm: Array

    # Computed when they are asked for: no model needs them, and there may be millions.

    @cached_property
    def limit_by_grid(self) -> Array:
        """Most blocks of the grid that any multiprocessor gets [1]."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(blocks_by_grid(self.blocks, self.n_sm))

    @cached_property
    def occupancy(self) -> Array:
        """Active warps relative to the most that the multiprocessor holds [1]."""
        return np.asarray(self.active_warps_per_sm / self.max_warps_per_sm)

    @cached_property
    def limiter(self) -> Array:
        """What limits the active blocks, by `sweep.fields.LIMITER`."""
        return _first(
            (~self.launchable, LIMITER["none"]),
            (self.limit_by_grid < self.fitting, LIMITER["grid"]),
            (self.limit_by_warps == self.fitting, LIMITER["warps"]),
            (self.limit_by_registers == self.fitting, LIMITER["registers"]),
            (self.limit_by_shared_memory == self.fitting, LIMITER["shared_memory"]),
            (self.limit_by_tensor_memory == self.fitting, LIMITER["tensor_memory"]),
            otherwise=LIMITER["blocks_per_sm"],
        )

    def counts(self) -> dict[str, Array]:
        """Return warps of a block, limits and what is active, by name."""
        kinds = ("limit_by_", "active_", "warps_")
        found = {name: numbers for name, numbers in vars(self).items() if name.startswith(kinds)}
        return {**found, "limit_by_grid": self.limit_by_grid}


# The rules, one function each


def _round_up(value: Array, unit: Array) -> Array:
    """Return the smallest multiple of ``unit`` that is not below ``value``."""
    return np.ceil(value / unit) * unit


def _count(available: Array, used: Array) -> Array:
    """Return how many times ``used`` fits into ``available``: infinitely often if it is 0."""
    return np.where(used > 0, np.floor(available / np.where(used > 0, used, 1.0)), np.inf)


def blocks_by_warps(warps: Array, threads_per_block: Array, limits: Limits) -> Array:
    """Return the blocks whose warps find a slot; none if a block has too many threads."""
    too_many = threads_per_block > limits.max_threads_per_block
    return np.where(too_many, 0.0, _count(limits.max_warps_per_sm, warps))


def registers_of_warp(registers_per_thread: Array, limits: Limits) -> Array:
    """Return the registers that a warp gets (2.0 and later): rounded up to the unit."""
    coarse = limits.fermi & np.isin(registers_per_thread, _FERMI_COARSE)
    unit = np.where(coarse, 2.0 * limits.reg_alloc_unit, limits.reg_alloc_unit)
    return _round_up(registers_per_thread * limits.warp_size, unit)


def registers_of_block(warps: Array, registers_per_thread: Array, limits: Limits) -> Array:
    """Return the registers that a block gets (1.x): for pairs of warps, rounded up to the unit."""
    allocated_warps = _round_up(warps, limits.warp_alloc_granularity)
    registers = allocated_warps * registers_per_thread * limits.warp_size
    return _round_up(registers, limits.reg_alloc_unit)


def _blocks_by_warp_registers(warps: Array, registers_per_thread: Array, limits: Limits) -> Array:
    """Return the blocks that find registers (2.0 and later), allocated warp by warp.

    The register file is divided among the partitions of the multiprocessor; each holds whole
    warps. A launch is checked as if the block's warps filled all partitions evenly.
    """
    per_warp = registers_of_warp(registers_per_thread, limits)
    partitions = limits.warp_alloc_granularity
    warps_per_sm = _count(limits.regs_per_sm / partitions, per_warp) * partitions
    checked = per_warp * _round_up(warps, limits.check_granularity)
    return np.where(checked > limits.max_regs_per_block, 0.0, _count(warps_per_sm, warps))


def blocks_by_registers(warps: Array, registers_per_thread: Array, limits: Limits) -> Array:
    """Return the blocks that find registers; none if a thread or block needs too many."""
    per_block = registers_of_block(warps, registers_per_thread, limits)
    blocks = np.where(
        limits.reg_per_block_style,
        _count(limits.regs_per_sm, per_block),
        _blocks_by_warp_registers(warps, registers_per_thread, limits),
    )
    return np.where(registers_per_thread > limits.max_regs_per_thread, 0.0, blocks)


def blocks_by_shared_memory(shared_memory_per_block: Array, limits: Limits) -> Array:
    """Return the blocks that find shared memory, with what the system reserves of each block."""
    reserved = limits.smem_reserved_per_block_bytes
    allocated = _round_up(shared_memory_per_block + reserved, limits.smem_alloc_unit_bytes)
    blocks = _count(limits.smem_per_sm_bytes, allocated)
    return np.where(allocated > limits.smem_per_block_bytes + reserved, 0.0, blocks)


def blocks_by_tensor_memory(columns_per_block: Array, limits: Limits) -> Array:
    """Return the blocks that find columns of tensor memory: powers of two, from 32 on."""
    wanted = np.where(columns_per_block > 0, np.maximum(columns_per_block, _FEWEST_COLUMNS), 1.0)
    allocated = np.where(columns_per_block > 0, 2.0 ** np.ceil(np.log2(wanted)), 0.0)
    return _count(limits.tensor_memory_columns, allocated)


def blocks_by_grid(blocks: Array, n_sm: Array) -> Array:
    """Return the most blocks of the grid that any multiprocessor gets (not NVIDIA's: ours)."""
    return np.maximum(np.ceil(blocks / n_sm), 0.0)


def occupancy(
    threads_per_block: ArrayLike,
    registers_per_thread: ArrayLike,
    shared_memory_per_block: ArrayLike,
    blocks: ArrayLike,
    *,
    limits: Limits,
    n_sm: ArrayLike,
    tensor_memory_columns: ArrayLike = 0.0,
) -> Occupancy:
    """Return how many blocks and warps a multiprocessor holds at once, and what limits them.

    Parameters
    ----------
    threads_per_block : array_like
        Threads of a block [1].
    registers_per_thread : array_like
        Registers that the compiler gives a thread [1].
    shared_memory_per_block : array_like
        Static and dynamic shared memory of a block [byte].
    blocks : array_like
        Blocks of the grid [1].
    limits : Limits
        Of the devices, from :func:`sweep.hardware.occupancy_limits.limits_for`; broadcasts with
        the other arguments.
    n_sm : array_like
        Multiprocessors of the device [1].
    tensor_memory_columns : array_like, optional
        Columns of tensor memory that a block allocates, of 128 lanes of 4 bytes [1].

    Returns
    -------
    Occupancy
        Counts; the ``limiter`` (`sweep.fields.LIMITER`), which is the first of warps, registers,
        shared memory, tensor memory, blocks and grid that attains the minimum; and the ``status``
        (`sweep.fields.STATUS`): ``block_too_large``, ``registers``, ``shared_memory`` or
        ``tensor_memory`` if not even one block fits, in this order, and ``no_active_block`` if
        there is nothing to launch (no threads, no blocks, a negative or undefined number).
    """
    block = block_limits(
        threads_per_block, registers_per_thread, shared_memory_per_block, limits,
        tensor_memory_columns,
    )  # fmt: skip
    return grid_occupancy(block, blocks, limits, n_sm)


def block_limits(
    threads_per_block: ArrayLike,
    registers_per_thread: ArrayLike,
    shared_memory_per_block: ArrayLike,
    limits: Limits,
    tensor_memory_columns: ArrayLike = 0.0,
) -> BlockLimits:
    """Return how many blocks find room on a multiprocessor, however many there are."""
    given = (
        threads_per_block, registers_per_thread, shared_memory_per_block, tensor_memory_columns
    )  # fmt: skip
    threads, registers, shared_memory, columns = (np.asarray(x, dtype=np.float64) for x in given)
    with np.errstate(invalid="ignore", over="ignore"):
        warps = np.asarray(np.ceil(threads / limits.warp_size))  # the last may be partly empty
        by_blocks = np.asarray(limits.max_blocks_per_sm)
        by_warps = blocks_by_warps(warps, threads, limits)
        by_registers = blocks_by_registers(warps, registers, limits)
        by_shared_memory = blocks_by_shared_memory(shared_memory, limits)
        by_tensor_memory = blocks_by_tensor_memory(columns, limits)
        fits = (threads > 0) & (registers >= 0) & (shared_memory >= 0)
        fits &= np.isfinite(threads + registers + shared_memory + columns) & (columns >= 0)
        of_memory = np.minimum(by_shared_memory, by_tensor_memory)
        fitting = np.minimum(np.minimum(by_warps, by_registers), of_memory)
        fitting = np.where(fits, np.minimum(fitting, by_blocks), 0.0)
    status = _first(
        (by_warps == 0, STATUS["block_too_large"]),
        (by_registers == 0, STATUS["registers"]),
        (by_shared_memory == 0, STATUS["shared_memory"]),
        (by_tensor_memory == 0, STATUS["tensor_memory"]),
        otherwise=STATUS["valid"],
    )
    return BlockLimits(
        warps_per_block=warps,
        limit_by_blocks=by_blocks,
        limit_by_warps=by_warps,
        limit_by_registers=by_registers,
        limit_by_shared_memory=by_shared_memory,
        limit_by_tensor_memory=by_tensor_memory,
        launchable=fits,
        fitting=fitting,
        status=np.where(fits, status, np.uint8(STATUS["no_active_block"])),
    )


def grid_occupancy(
    block: BlockLimits, blocks: ArrayLike, limits: Limits, n_sm: ArrayLike
) -> Occupancy:
    """Return what a multiprocessor holds of a grid: its size may be swept, so little is left.

    Parameters
    ----------
    block : BlockLimits
        What a block takes.
    blocks, limits, n_sm
        As for :func:`occupancy`.
    """
    grid, sms = (np.asarray(x, dtype=np.float64) for x in (blocks, n_sm))
    with np.errstate(invalid="ignore", over="ignore"):
        fitting, launchable, status = block.fitting, block.launchable, block.status
        if grid.size > 0 and (fewest := grid.min()) > 0 and grid.max() < np.inf:
            # As below, without what cannot be. Grids that fill every multiprocessor limit nothing:
            # what is active then follows from the block alone.
            active, active_sm = fitting, sms
            if not np.ceil(fewest / sms.max()) >= fitting.max():
                active = np.minimum(fitting, np.ceil(grid / sms))
            if fewest < sms.max():
                active_sm = np.minimum(sms, grid)
        else:
            is_grid = (grid > 0) & np.isfinite(grid)
            launchable = launchable & is_grid
            status = np.where(launchable, status, np.uint8(STATUS["no_active_block"]))
            active = np.minimum(fitting, np.where(is_grid, blocks_by_grid(grid, sms), 0.0))
            active_sm = np.where(grid > 0, np.minimum(sms, grid), 0.0)
        active_warps = active * np.where(block.launchable, block.warps_per_block, 0.0)
    changed = {"launchable": launchable, "status": status}
    return Occupancy(
        **(vars(block) | changed),
        active_blocks_per_sm=np.asarray(active),
        active_warps_per_sm=np.asarray(active_warps),
        active_sm=np.asarray(active_sm),
        max_warps_per_sm=np.asarray(limits.max_warps_per_sm),
        blocks=grid,
        n_sm=sms,
    )


def _first(*cases: tuple[Array, int], otherwise: Array | int) -> Array:
    """Return the code of the first case that holds, ``otherwise`` if none does."""
    code = np.asarray(otherwise, dtype=np.uint8)
    for holds, value in reversed(cases):
        code = np.where(holds, np.uint8(value), code)
    return code

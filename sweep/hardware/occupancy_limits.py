"""What one multiprocessor of each compute capability offers to blocks and warps.

The numbers are in ``occupancy_limits.csv``, one row per compute capability, each with its source.
A device without compute capability (AMD's) brings its own. Column ``l1_kb`` is what NVIDIA's
architecture whitepapers and the CUDA C++ Programming Guide (technical specifications, and the
sections on each compute capability) state of the first-level cache; that of 10.7 is assumed.
``tensor_memory_columns`` are those of NVIDIA's Tilus (512 columns of 128 lanes, sm_100 and later;
https://nvidia.github.io/tilus, TMemoryTensor), whose instructions 12.x lacks; of 10.7 assumed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from sweep.errors import SpecError
from sweep.fields import Array


@dataclass(frozen=True, eq=False)
class Limits:
    """What one multiprocessor offers: each field a float64 array over devices (or a scalar).

    Attributes
    ----------
    max_warps_per_sm, max_threads_per_sm, max_blocks_per_sm : ndarray
        Most resident warps, threads and blocks [1].
    regs_per_sm, max_regs_per_block, max_regs_per_thread : ndarray
        32-bit registers [1]. A thread has at most 255 from 3.2 on, which is the instruction set's
        limit (``cuda_occupancy.h`` lets 256 pass from 7.0 on).
    reg_alloc_unit : ndarray
        Unit of register allocation [registers].
    reg_per_block_style : ndarray of bool
        Whether registers are allocated per block (1.x) and not per warp.
    warp_alloc_granularity : ndarray
        Warps are allocated in multiples of this: per block (1.x), over the partitions of the
        multiprocessor (later).
    check_granularity : ndarray
        The multiple to which the launch check of the registers rounds a block's warps. GP100
        distributes the warps of a block over two partitions, all later chips over four. For the
        sake of programs moving between the chips of the Pascal family, NVIDIA's calculator refuses
        on GP100 a block that four partitions could not hold.
    fermi : ndarray of bool
        Whether some register counts are allocated in units of 128 (2.x).
    smem_per_sm_bytes, smem_per_block_bytes : ndarray
        Shared memory, largest carve-out; largest that a block can opt into [byte].
    smem_alloc_unit_bytes, smem_reserved_per_block_bytes : ndarray
        Unit of allocation, and what the system takes of every block from 8.0 on [byte].
    tensor_memory_columns : ndarray
        Columns of tensor memory (tcgen05), 0 without any [1].
    max_threads_per_block : ndarray
        Threads [1].
    warp_size : ndarray
        Threads of a warp [1]; a scalar where all devices have the same.
    """

    max_warps_per_sm: Array
    max_threads_per_sm: Array
    max_blocks_per_sm: Array
    regs_per_sm: Array
    max_regs_per_block: Array
    max_regs_per_thread: Array
    reg_alloc_unit: Array
    reg_per_block_style: Array
    warp_alloc_granularity: Array
    smem_per_sm_bytes: Array
    smem_per_block_bytes: Array
    smem_alloc_unit_bytes: Array
    smem_reserved_per_block_bytes: Array
    tensor_memory_columns: Array
    max_threads_per_block: Array
    check_granularity: Array
    fermi: Array
    warp_size: Array


@cache
def _table() -> dict[str, dict[str, float]]:
    """Return the limits by compute capability, as :class:`Limits` names them, and ``l1_kb``."""
    text = files("sweep.hardware").joinpath("occupancy_limits.csv").read_text(encoding="utf-8")
    names = ("l1_kb", *(f.name for f in fields(Limits)))
    rows = csv.DictReader(text.splitlines())
    return {row["cc"]: {name: float(row[name]) for name in names} for row in rows}


def compute_capabilities() -> tuple[str, ...]:
    """Return the compute capabilities of the table, oldest first: ``("1.0", ..., "12.1")``."""
    return tuple(_table())


def l1_bytes_of(compute_capability: str) -> float:
    """Return the bytes of a multiprocessor's first-level cache of global memory.

    1.x has none; on 2.x it is the part that is left beside 48 KiB of shared memory; on 3.x the
    read-only cache; on 5.x and 6.x the unified L1 and texture cache; from 7.0 on what L1 and shared
    memory have together. A device without compute capability, given as an empty text, has 0.
    """
    return 1024.0 * _limits_of(compute_capability)["l1_kb"] if compute_capability else 0.0


def local_l1_bytes_of(compute_capability: str) -> float:
    """Return the bytes of the first-level cache that local memory goes through.

    2.x and 3.x have 16 KiB beside 48 KiB of shared memory (on 3.x for local memory alone). 5.x
    caches it in L2 only (Maxwell Tuning Guide, 1.4.2.1), 6.x in the unified cache again (Pascal
    Tuning Guide, 1.4.3.1), and from 7.0 on L1 has what shared memory leaves of both.
    """
    major = int(compute_capability.split(".")[0] or 0)
    if major in (2, 3):
        return 16 * 1024.0
    return 0.0 if major in (1, 5) else l1_bytes_of(compute_capability)


def cluster_blocks_of(compute_capability: str) -> float:
    """Return the most blocks of a cluster; 1 where there are no clusters.

    Clusters began with 9.0. Eight blocks are portable; 9.0 and 10.x take 16 of a kernel that asks
    for it (Hopper Tuning Guide, 1.4.1.3; Blackwell Tuning Guide, thread block clusters).
    """
    major = int(compute_capability.split(".")[0] or 0)
    if major in (9, 10):
        return 16.0
    return 8.0 if major > 10 else 1.0


OwnLimits = Mapping[str, float]
"""The limits of a device without compute capability: the fields of :class:`Limits` by name.

Such a device allocates registers per warp. It may leave out the fields that only NVIDIA's older
chips need: ``reg_per_block_style``, ``check_granularity`` and ``fermi``; and tensor memory.
"""


def limits_for(
    devices: str | OwnLimits | Sequence[str | OwnLimits], shape: tuple[int, ...] = (-1,)
) -> Limits:
    """Return the limits of devices, stacked along one axis.

    Parameters
    ----------
    devices : str or mapping, or a sequence of them
        Per device its compute capability, such as ``"5.2"``, or its own limits. A single device
        gives scalars.
    shape : tuple of int, optional
        Shape of the arrays, such as ``(-1, 1, 1)`` for the devices along the first of three axes.

    Returns
    -------
    Limits
        One element per device.

    Raises
    ------
    SpecError
        If a compute capability is not in the table.
    """
    if isinstance(devices, str | Mapping):
        rows, shape = [_limits_of(devices)], ()
    else:
        rows = [_limits_of(device) for device in devices]
    columns: dict[str, Any] = {}
    for name in (f.name for f in fields(Limits)):
        values = np.array([row[name] for row in rows], dtype=np.float64)
        same = name == "warp_size" and len(set(values)) == 1
        values = np.asarray(values[0]) if same else values.reshape(shape)
        columns[name] = values != 0 if name in ("reg_per_block_style", "fermi") else values
    return Limits(**columns)


def _limits_of(device: str | OwnLimits) -> Mapping[str, float]:
    if not isinstance(device, str):
        rest = {"reg_per_block_style": 0.0, "fermi": 0.0, "tensor_memory_columns": 0.0}
        return rest | {"check_granularity": device["warp_alloc_granularity"]} | dict(device)
    table = _table()
    if device not in table:
        known = ", ".join(table)
        raise SpecError(f"unknown compute capability '{device}': the table has {known}")
    return table[device]

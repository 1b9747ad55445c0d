"""What a model may know about a kernel on a device: counts, launch, occupancy, clocks.

A :class:`Workload` holds every number as an array that broadcasts over one common order of axes
``(device, sizes..., parameters..., core clock, memory clock)``; an array has length 1 along each
axis that it does not depend on. NumPy's own broadcasting thereby keeps every table as small as
what it depends on, and each paper's ``prepare`` is plain arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sweep.hardware.occupancy import Occupancy

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GlobalAccess:
    """One global memory access of the kernel, per thread and per warp.

    ``count`` is dynamic per thread; ``bytes`` per thread and access; ``transactions`` are the
    hardware transactions of one warp's access under the device's rule, ``moved_bytes`` the bytes
    that they move, ``sectors`` the 32-byte sectors that it touches; of a texture, which has a cache
    on every device, what that cache does not serve. ``l1_hit_rate`` is the share
    of the sectors that L1, texture or read-only cache serves, ``l2_hit_rate`` the share of the rest
    that L2 does, ``cached_hit_rate`` what L2 and a memory-side cache do together (the same without
    such a cache). ``wavefronts`` are the passes of one warp's access through the first-level cache,
    each of 128 bytes (see :func:`sweep.hardware.memory_rules.cache_rule_of`), or their equal in
    time of the texture units. ``memory`` is where the words lie. Accesses to mapped host memory
    (``host``) have an L2 hit rate of 1, so that none of it counts as DRAM's, and what lies beyond
    L2 apart: ``link_time`` for which a warp's access occupies the link [s], and its latency [s].
    ``awaited_rate`` is the share of the reads that wait for DRAM, be it for what another block
    fetches, where that is known; it is no less than what misses. ``piece_bytes`` is the length of
    the contiguous pieces that are read at a time.
    """

    name: str
    kind: str
    count: Array
    bytes: Array
    transactions: Array
    sectors: Array
    coalesced: Array
    moved_bytes: Array
    l1_hit_rate: Array
    l2_hit_rate: Array
    cached_hit_rate: Array
    wavefronts: Array
    memory: str = "global"
    link_time: Array | None = None
    link_latency: Array | None = None
    awaited_rate: Array | None = None
    piece_bytes: Array | float = np.inf

    @property
    def passed_on(self) -> Array | float:
        """Share of ``moved_bytes`` that the first-level cache does not serve [1]."""
        return 1.0 if self.memory == "texture" else 1.0 - self.l1_hit_rate

    @cached_property
    def missed_rate(self) -> Array:
        """Share of what the first-level cache passes on that no other cache serves [1]."""
        return 1.0 - self.cached_hit_rate

    @property
    def waits_for_dram(self) -> Array:
        """Share of the reads that wait for DRAM, be it for what another block fetches [1]."""
        return self.missed_rate if self.awaited_rate is None else self.awaited_rate


@dataclass(frozen=True)
class SharedAccess:
    """One access to shared or constant memory: dynamic count per thread, bank-conflict degree.

    ``wavefronts`` are the passes that one warp's access takes in all: its requests (a warp's, but
    a half-warp's for words of 8 bytes and a quarter's for 16) times ``degree``.
    """

    name: str
    kind: str
    count: Array
    degree: Array
    wavefronts: Array
    memory: str = "shared"


@dataclass(frozen=True)
class Stage:
    """A stretch of the kernel's code, in order; counts are totals over all its executions.

    Where only some warps of a block pass a stage, its counts are the mean over all of them, so that
    the kernel's totals are sums over its stages.

    Attributes
    ----------
    name : str
        Its name; ``"kernel"`` where the file gives totals only.
    loop : str or None
        Neighbouring stages of one loop alternate.
    warps : array
        Warps of a block that pass the stage [1].
    executions : array
        How often they do [1].
    computation_instructions : array
        Dynamic instructions of a thread that are not global memory accesses [1].
    instructions : mapping
        The same by class (``fp32``, ``integer``, ...), without shared accesses and barriers; the
        class is ``computation`` where the file gives one number [1].
    barriers : array
        Dynamic barriers of a thread [1].
    buffers : array
        Buffers that asynchronous copies fill in turn; 0 where loads are waited for [1].
    """

    name: str
    loop: str | None
    warps: Array
    executions: Array
    computation_instructions: Array
    instructions: Mapping[str, Array]
    barriers: Array
    buffers: Array
    global_accesses: tuple[GlobalAccess, ...]
    shared_accesses: tuple[SharedAccess, ...]


@dataclass(frozen=True)
class Clocks:
    """Swept and nominal clocks [Hz], and their ratio relative to nominal [1]."""

    core: Array
    memory: Array
    core_nominal: Array
    memory_nominal: Array
    ratio: Array

    def seen_by(self, variant: str) -> Clocks:
        """Return the clocks that a variant knows: these, or the nominal ones as printed (CLK)."""
        if variant != "printed":
            return self
        nominal = (self.core_nominal, self.memory_nominal)
        return Clocks(*nominal, *nominal, np.ones_like(self.core_nominal))


@dataclass(frozen=True)
class Workload:
    """Everything a model's ``prepare`` reads.

    Attributes
    ----------
    threads_per_block, blocks, launches : array
        The launch, and how many a call starts [1].
    lanes : array
        Threads in use in a full warp: ``min(threads_per_block, warp_size)`` [1].
    shared_memory_per_block, shared_memory_per_sm : array
        Shared memory that a block asks for, and that a multiprocessor has [B].
    computation_instructions : array
        Dynamic instructions of a thread that are not global memory accesses [1].
    instructions : mapping
        The same by class, without shared accesses and barriers (see :class:`Stage`) [1].
    barriers : array
        Dynamic barriers of a thread [1].
    matrix : mapping
        Multiply-adds of a warp's matrix instruction by type (``fp16``, ``fp8``, ...) [1].
    single_warp : array
        Share of them that a single warp issues (``mma``), not several together (``wgmma``) [1].
    half_rate : array
        Share of them that have too few rows for their units and take twice as long [1].
    asynchronous : array
        Share of them that go on while their warps wait [1].
    specialized : array
        1 where warps of their own issue the asynchronous copies, 0 where all warps do [1].
    stages : tuple of Stage
        The kernel's code in order; one stage with all of it where the file has none.
    outer_iterations, inner_iterations : array
        Loop trip counts ``o_itrs`` and ``i_itrs`` [1].
    l2_hit_rate : array
        Share of sector accesses served by the L2 cache [1].
    instruction_parallelism, shared_parallelism, memory_parallelism, matrix_parallelism : array
        Independent instructions that a thread can issue back to back, loads from shared memory that
        it waits for together, and global loads that it has under way at once [1].
    memory_bandwidth : array
        DRAM bandwidth at the nominal memory clock [B/s].
    side_bandwidth, side_latency : array
        Bandwidth [B/s] of a memory-side cache, infinite without one, and latency of its loads [s].
    dram_share : array
        Share of a DRAM latency that belongs to DRAM (see
        :func:`sweep.hardware.clocks.dram_share`) [1].
    parameters : mapping
        The model's own device parameters by key, NaN where a device lacks them.
    tables : mapping
        Table parameters by key: one tuple of rows per device, ``None`` where it is missing.
    options : mapping
        The model's options, as the plan gives them.
    """

    threads_per_block: Array
    blocks: Array
    launches: Array
    lanes: Array
    shared_memory_per_block: Array
    shared_memory_per_sm: Array
    occupancy: Occupancy
    computation_instructions: Array
    instructions: Mapping[str, Array]
    barriers: Array
    matrix: Mapping[str, Array]
    single_warp: Array
    half_rate: Array
    asynchronous: Array
    specialized: Array
    stages: tuple[Stage, ...]
    outer_iterations: Array
    inner_iterations: Array
    l2_hit_rate: Array
    instruction_parallelism: Array
    shared_parallelism: Array
    memory_parallelism: Array
    matrix_parallelism: Array
    global_accesses: tuple[GlobalAccess, ...]
    shared_accesses: tuple[SharedAccess, ...]
    warp_size: Array
    n_sm: Array
    lanes_per_sm: Array
    memory_bandwidth: Array
    side_bandwidth: Array
    side_latency: Array
    dram_share: Array
    clocks: Clocks
    parameters: Mapping[str, Array]
    tables: Mapping[str, tuple[tuple[tuple[float, ...], ...] | None, ...]]
    options: Mapping[str, str]

    @property
    def most_warps(self) -> Array:
        """Most warps on a multiprocessor; 1 where a launch fails, which lacks no parameter [1]."""
        share = self.occupancy.occupancy
        return np.where(share > 0, self.occupancy.active_warps_per_sm / share, 1.0)

    @property
    def floating_point_instructions(self) -> Array:
        """Floating-point instructions of all threads, a multiply-add as one [1]."""
        zero = np.zeros_like(self.blocks)
        each = sum((self.instructions.get(kind, zero) for kind in ("fp32", "fp64")), start=zero)
        return each * self.threads_per_block * self.blocks

    @property
    def thread_instructions(self) -> Array:
        """Instructions of all threads [1]."""
        each = self.computation_instructions + self.total("count")
        return each * self.threads_per_block * self.blocks

    @property
    def dram_bytes(self) -> Array:
        """Bytes that all accesses move from and to DRAM: what no cache serves [B]."""
        zero = np.zeros((1,) * self.n_sm.ndim)
        moved = (
            access.count * access.moved_bytes * access.passed_on * (1.0 - access.cached_hit_rate)
            for access in self.global_accesses
        )
        warps = np.ceil(self.threads_per_block / self.warp_size) * self.blocks
        return sum(moved, start=zero) * warps

    def value(self, path: str) -> Array:
        """Return the value at a dotted path, such as ``occupancy.active_sm``."""
        found: Any = self
        for name in path.split("."):
            found = found[name] if isinstance(found, Mapping) else getattr(found, name)
        return cast(Array, found)

    def total(self, *factors: str) -> Array:
        """Return the sum over global accesses of the product of the named attributes.

        ``total("count")`` is the number of memory instructions of a thread,
        ``total("count", "sectors")`` the sectors of a warp.
        """
        return total(np.zeros((1,) * self.n_sm.ndim), self.global_accesses, *factors)

    def per_device(self, function: Callable[..., Array], table: str, *values: Array) -> Array:
        """Return ``function(rows, *values)`` of each device, for its rows of one of the tables.

        A device gets its own part of the values, and the only one all. Rows are ``None`` where the
        device lacks them.
        """
        if len(self.tables[table]) == 1:
            return function(self.tables[table][0], *values)
        parts = []
        for i, rows in enumerate(self.tables[table]):
            own = (v[i : i + 1] if v.shape[0] > 1 else v for v in values)
            parts.append(function(rows, *own))
        return np.concatenate(parts)

    def by_device(self, values: Sequence[float]) -> Array:
        """Return a number for each device as an array along the devices."""
        return np.reshape(np.array(values, np.float64), (-1,) + (1,) * (self.n_sm.ndim - 1))


def total(zero: Array, accesses: Iterable[GlobalAccess | SharedAccess], *factors: str) -> Array:
    """Return the sum over accesses of the product of the named attributes, begun at ``zero``."""
    parts = (math.prod(getattr(access, name) for name in factors) for access in accesses)
    return sum(parts, start=zero)


def demand_beside_dram(
    work: Workload, zero: Array, accesses: Sequence[GlobalAccess]
) -> tuple[Array, Array]:
    """Return a warp's time on the link to the host or in a memory-side cache, and latencies [s].

    The longer of both times: they work side by side. The link is full duplex: loads and stores
    pass it side by side. All that L2 does not serve passes a memory-side cache. A store is waited
    for by nobody.
    """
    times, latency, side = {"load": zero, "store": zero}, zero, zero
    for access in accesses:
        if access.link_time is not None and access.link_latency is not None:
            count = access.count * (1.0 - access.l1_hit_rate)
            times[access.kind] = times[access.kind] + count * access.link_time
            if access.kind == "load":
                latency = latency + count * access.link_latency
    time, latency = (
        np.where(part > 0, part, 0.0) for part in (np.maximum(*times.values()), latency)
    )
    if not np.isfinite(work.side_bandwidth).any():
        return time, latency
    for access in accesses:
        count = access.count * access.passed_on
        side = side + count * access.moved_bytes * (1.0 - access.l2_hit_rate)
        if access.kind == "load":
            served = access.cached_hit_rate - access.l2_hit_rate
            latency = latency + count * served * work.side_latency
    return np.maximum(time, side / work.side_bandwidth), latency


def mean(total: Array, count: Array, otherwise: Array | float) -> Array:
    """Return a total over a count, and something else where the count is 0."""
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), otherwise)


def gathered(stages: Sequence[Mapping[str, Array]]) -> dict[str, list[Array]]:
    """Return the inputs of all stages, given stage by stage, as sequences by name."""
    return {name: [stage[name] for stage in stages] for name in stages[0]}

"""A kernel's blocks, memory accesses and stages over a box, under each device's rules."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from sweep.evaluation.counts import Evaluator, device_array
from sweep.evaluation.device_names import of_facts
from sweep.evaluation.first_cache import (
    SECTORS_OF_PASS,
    bank_passes,
    cache_passes,
    cached,
    kept,
    rules_of,
)
from sweep.expressions import Expression
from sweep.hardware.affine_accesses import Affine, access_transactions, affine_transactions
from sweep.hardware.memory_rules import LINE_BYTES, bank_conflict_degree
from sweep.hardware.paths import link_bandwidth, link_latency, link_request_bytes, texture_passes
from sweep.hardware.warp_simulation import SECTOR_BYTES, Cost
from sweep.models.workload import Array, GlobalAccess, SharedAccess, Stage
from sweep.specs import Access, Device, Kernel

TOTALS = ("instructions.", "synchronisation.")
BANKS = {"1": 16}  # banks (and lanes that are served together) by major compute capability
BANKS_LATER = 32


@dataclass(frozen=True)
class Block:
    """The threads of a block and how they become warps; width and height where they matter.

    ``share`` is their share of the whole block's warps; counts are multiplied by it.
    """

    threads: Array
    warp_size: Array
    x: Array | None = None
    y: Array | None = None
    share: Array | float = 1.0

    @cached_property
    def lanes(self) -> Array:
        """Lanes in use of a full warp."""
        return np.minimum(self.threads, self.warp_size)

    def first(self, threads: Array) -> Block:
        """Return the part of the block that are its first threads."""
        warps, of_block = (np.ceil(n / self.warp_size) for n in (threads, self.threads))
        part = replace(self, threads=threads, share=warps / of_block)
        if self.x is None or self.y is None:
            return part
        rows = np.ceil(threads / self.x)
        return replace(part, x=np.minimum(self.x, threads), y=np.minimum(self.y, rows))

    def taken(self, probability: Array) -> Block:
        """Return the part of the warps that execute a branch: any of their threads takes it."""
        return replace(self, share=self.share * (1.0 - (1.0 - probability) ** self.lanes))

    def addresses(self, base: Any = 0, x: Any = 0, y: Any = 0, z: Any = 0) -> Affine:
        """Return the addresses of an affine access."""
        assert self.x is not None and self.y is not None  # see block_of
        return Affine(base, x, y, z, self.x, self.y, self.threads, self.warp_size)

    @cached_property
    def linear(self) -> Affine:
        """Addresses of consecutive words."""
        return self.addresses().linear()

    def row(self, step: Any) -> Affine:
        """Return the addresses of one warp whose lanes access words ``step`` words apart."""
        return Affine(0, step, 0, 0, self.lanes, 1, self.lanes, self.warp_size)


def block_of(kernel: Kernel, evaluate: Evaluator, threads: Array, warp_size: Array) -> Block:
    """Return the block; its shape is evaluated only if an access depends on it."""
    accesses = (*kernel.global_accesses, *kernel.shared_accesses)
    if not any(access.affine or access.pattern == "tiled" for access in accesses):
        return evaluate.steps(Block, threads, warp_size)
    x, y = (evaluate(kernel.expressions[f"launch.block_{axis}"]) for axis in "xy")
    return evaluate.steps(Block, threads, warp_size, x, y)


def stages_of(
    kernel: Kernel,
    evaluate: Evaluator,
    block: Block,
    l2_hits: tuple[Array, Array],
    reused: Mapping[str, tuple[Array, ...]],
) -> tuple[tuple[Stage, ...], tuple[GlobalAccess, ...], tuple[SharedAccess, ...]]:
    """Evaluate the kernel's stages, and its global and shared accesses in the file's order.

    A file without stages is one stage. ``l2_hits`` is the kernel's own L2 hit rate, and that
    with a memory-side cache; ``reused`` has them, and what waits for DRAM, by factor of a product.
    """
    parts: dict[str | None, Block] = {None: block}
    for stage in kernel.stages:
        parts[stage.name] = block
        if "threads" in stage.expressions:
            threads = evaluate(stage.expressions["threads"])
            evaluate.note(threads > block.threads)
            parts[stage.name] = evaluate.steps(Block.first, block, threads)
        if "probability" in stage.expressions:
            probability = evaluate.share(stage.expressions["probability"])
            parts[stage.name] = evaluate.steps(Block.taken, parts[stage.name], probability)
    loads = tuple(
        _global_access(a, evaluate, parts[a.stage], reused.get(a.reuse or "", l2_hits))
        for a in kernel.global_accesses
    )
    local = tuple(_shared_access(a, evaluate, parts[a.stage]) for a in kernel.shared_accesses)
    specs = kernel.global_accesses, kernel.shared_accesses
    stages: list[tuple[Any, ...]] = [(s.name, s.loop, s.expressions) for s in kernel.stages]
    if not stages:
        totals = {p.split(".")[1]: e for p, e in kernel.expressions.items() if p.startswith(TOTALS)}
        stages = [(None, None, totals)]
    found = []
    for name, loop, expressions in stages:
        own: list[Any] = [
            tuple(a for a, spec in zip(accesses, given, strict=True) if spec.stage == name)
            for accesses, given in zip((loads, local), specs, strict=True)
        ]
        found.append(_stage(name or "kernel", loop, expressions, evaluate, parts[name], *own))
    return tuple(found), loads, local


def _stage(
    name: str,
    loop: str | None,
    expressions: Mapping[str, Expression],
    evaluate: Evaluator,
    part: Block,
    accesses: tuple[GlobalAccess, ...],
    shared: tuple[SharedAccess, ...],
) -> Stage:
    """Evaluate one stage.

    All instructions that are not global accesses are given as one number, or are the sum over the
    classes, the shared accesses and the barriers.
    """
    executions = evaluate(expressions.get("executions"), default=1.0)
    numbers = {
        key: evaluate(expression) * part.share
        for key, expression in expressions.items()
        if key not in ("executions", "threads", "probability", "buffers")
    }
    buffers = evaluate(expressions.get("buffers"))
    barriers = numbers.pop("barriers", evaluate.constant(0.0))
    computation = numbers.get("computation")
    if computation is None:
        counts = [*numbers.values(), barriers, *(access.count for access in shared)]
        computation = summed(counts, evaluate)
    warps = np.ceil(part.threads / part.warp_size)
    return Stage(name, loop, warps, executions, computation, numbers, barriers, buffers,
                 accesses, shared)  # fmt: skip


def summed(arrays: Sequence[Array], evaluate: Evaluator) -> Array:
    """Return the sum of arrays over the same axes; zero where there are none."""
    return reduce(operator.add, arrays, evaluate.constant(0.0))


def _global_access(
    access: Access, evaluate: Evaluator, block: Block, l2_hits: tuple[Array, ...]
) -> GlobalAccess:
    """Evaluate an access to global memory, under each device's rule."""
    steps = evaluate.steps
    count = steps(operator.mul, evaluate(access.count), block.share)
    size = evaluate(access.bytes)
    cost, aligned, passes = _costs(access, evaluate, block, size)
    cost = Cost(*(evaluate.of_hardware(part, count) for part in cost))
    l1_hits, l2_hit_rate, cached_hit_rate = _hit_rates(access, evaluate, l2_hits)
    more: dict[str, Any] = {"awaited_rate": l2_hits[2]} if access.reuse else {}
    if access.piece_bytes is not None:
        more["piece_bytes"] = evaluate(access.piece_bytes)
    is_coalesced = _coalesced(cost, aligned)
    if access.memory == "texture":
        passes = np.maximum(
            passes, steps(of_facts, evaluate.devices, texture_passes, evaluate.ndim)
        )
        cost = Cost(*(steps(_beyond, part, l1_hits) for part in cost))
    if access.memory == "host":
        l2_hit_rate = cached_hit_rate = evaluate.constant(1.0)
        more |= _link(cost, _requests(access, evaluate, block, size, cost), evaluate)
    return GlobalAccess(
        name=access.name, kind=access.kind, memory=access.memory, count=count, bytes=size,
        transactions=cost.transactions, sectors=cost.sectors, moved_bytes=cost.bytes,
        coalesced=is_coalesced, l1_hit_rate=l1_hits, l2_hit_rate=l2_hit_rate,
        cached_hit_rate=cached_hit_rate, wavefronts=evaluate.of_hardware(passes, count), **more,
    )  # fmt: skip


def _hit_rates(
    access: Access, evaluate: Evaluator, l2_hits: tuple[Array, ...]
) -> tuple[Array, Array, Array]:
    """Return the hit rates of L1, of L2, and of L2 with a memory-side cache."""
    if access.l2_hit_rate is not None:
        l2_hits = evaluate.l2_hits(access.l2_hit_rate)
    l1_hits, l2_bytes = evaluate.share(access.l1_hit_rate), evaluate.values["l2_bytes"]
    if access.reuse:
        l2_hits = tuple(evaluate.steps(_of_the_others, hits, l1_hits) for hits in l2_hits[:2])
    may_keep = cached(access, evaluate)
    (still, l2), (_, beyond) = (
        evaluate.steps(kept, l1_hits, hits, may_keep, l2_bytes) for hits in l2_hits
    )
    return still, l2, beyond


def _costs(
    access: Access, evaluate: Evaluator, block: Block, size: Array
) -> tuple[Cost, Cost, Array]:
    """Return what a warp's access costs, what consecutive words would, and passes through L1."""
    steps = evaluate.steps
    rules = steps(rules_of, evaluate.devices, "global", evaluate.ndim)
    if access.affine:
        words = _addresses(access, evaluate, block)
        cost, aligned = (
            steps(affine_transactions, part, size, rules) for part in (words, block.linear)
        )
        passes = cache_passes(words, size, evaluate)
    elif access.pattern == "tiled":
        sectors = steps(_tiled_sectors, block, size)
        cost = aligned = Cost(sectors, sectors * SECTOR_BYTES, sectors)
        passes = np.ceil(sectors / SECTORS_OF_PASS)
    elif access.transactions is not None:
        # Counted in sectors, whatever the device's rule; beside it what consecutive words need.
        sectors = np.maximum(np.ceil(size * block.lanes / SECTOR_BYTES), 1.0)
        cost, aligned = (
            Cost(n, n * SECTOR_BYTES, n) for n in (evaluate(access.transactions), sectors)
        )
        passes = np.maximum(np.ceil(cost.sectors / SECTORS_OF_PASS), 1.0)
    else:
        stride = None if access.stride is None else evaluate(access.stride)
        cost, aligned = (
            Cost(*steps(access_transactions, pattern, size, distance, block.lanes, rules))
            for pattern, distance in ((access.pattern, stride), ("coalesced", None))
        )
        step = steps(_word_distance, access.pattern, stride, size)
        passes = cache_passes(steps(Block.row, block, step), size, evaluate)
    return cost, aligned, passes


def _of_the_others(hit_rate: Array, l1_hit_rate: Array) -> Array:
    """Return L2's hit rate of what L1, or a block beside, does not serve, from that of all reads.

    DRAM serves the same number of them: the first ones.
    """
    if not l1_hit_rate.any():
        return hit_rate
    others = np.maximum(1.0 - l1_hit_rate, 1e-12)
    return np.maximum(1.0 - (1.0 - hit_rate) / others, 0.0)


def _beyond(part: Array, hit_rate: Array) -> Array:
    """Return what a first-level cache passes on."""
    return part * (1.0 - hit_rate)


def _requests(access: Access, evaluate: Evaluator, block: Block, size: Array, cost: Cost) -> Array:
    """Return the requests of a warp's access to the host: one for each line of 128 bytes."""
    lines = np.full_like(size, "line", dtype="<U4")
    if access.affine:
        words = _addresses(access, evaluate, block)
        return evaluate.steps(affine_transactions, words, size, lines).transactions
    if access.transactions is not None:
        return cost.sectors
    stride = None if access.stride is None else evaluate(access.stride)
    found, *_ = access_transactions(access.pattern, size, stride, block.lanes, lines)
    return found


def _link(cost: Cost, requests: Array, evaluate: Evaluator) -> dict[str, Array]:
    """Return what a warp's access to mapped host memory takes of the link, in bytes that it moves.

    Each request has a least cost.
    """
    rules = (link_bandwidth, link_latency, link_request_bytes)
    bandwidth, latency, least = (
        evaluate.steps(of_facts, evaluate.devices, rule, evaluate.ndim) for rule in rules
    )
    moved = np.maximum(cost.bytes, requests * least)
    return {"link_time": moved / bandwidth, "link_latency": latency}


def _coalesced(cost: Cost, aligned: Cost) -> Any:
    """Return whether a warp's access counts as coalesced.

    Consecutive aligned words are, on every device (compute capability 1.x serves each half-warp
    on its own, which the papers count as one), and so is what costs just the same; any other
    access is if it needs one transaction.
    """
    same = [part == other for part, other in zip(cost, aligned, strict=True)]
    one: Any = cost.transactions <= 1.0
    return one | (same[0] & same[1] & same[2])


def _shared_access(access: Access, evaluate: Evaluator, block: Block) -> SharedAccess:
    """Evaluate an access to shared memory, with the conflicts of each device's banks."""
    steps = evaluate.steps
    count = steps(operator.mul, evaluate(access.count), block.share)
    size = evaluate(access.bytes)
    if access.affine:
        words = _addresses(access, evaluate, block)
        passes, requests = bank_passes(words, size, access.memory, evaluate)
        degree = passes / np.where(requests == 0, 1.0, requests)
    elif access.transactions is not None:
        degree = passes = evaluate(access.transactions)
    else:
        stride = evaluate(access.stride, default=1.0)
        passes, _ = bank_passes(steps(Block.row, block, stride), size, access.memory, evaluate)
        banks = steps(_banks, evaluate.devices, evaluate.ndim)
        degree = steps(bank_conflict_degree, stride, banks, banks)
    if access.memory == "constant":
        degree = passes
    degree, passes = (evaluate.of_hardware(part, count) for part in (degree, passes))
    return SharedAccess(access.name, access.kind, count, degree, passes, access.memory)


def _addresses(access: Access, evaluate: Evaluator, block: Block) -> Affine:
    """Return the addresses of an affine access."""
    factors = (evaluate(expression, signed=True) for expression in access.affine)
    return evaluate.steps(Block.addresses, block, *factors)


# Steps of an access


def _tiled_sectors(block: Block, size: Array) -> Array:
    """Return the sectors of a warp's neighbours in a 2-D texture.

    In NVIDIA's block-linear layout a sector is 16 bytes wide and two rows high. Tiles that do not
    begin at a sector's corner are left out.
    """
    assert block.x is not None  # see block_of
    columns = np.minimum(block.x, block.lanes)
    rows = np.ceil(block.lanes / columns)
    return np.ceil(columns * size / 16.0) * np.ceil(rows / 2.0)


def _banks(devices: tuple[Device, ...], ndim: int) -> Array:
    """Return the banks of each device's shared memory."""
    major = (d.compute_capability.split(".")[0] for d in devices)
    return device_array([BANKS.get(m, BANKS_LATER) for m in major], ndim)


def _word_distance(pattern: str, stride: Array | None, size: Array) -> Array:
    """Return the distance of neighbouring lanes' words in a named pattern, for their banks."""
    if pattern == "uncoalesced":
        return LINE_BYTES / size
    return stride if stride is not None else np.full_like(size, pattern != "broadcast")

"""Warps whose addresses are an affine function of a thread's place in its block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.hardware.access_classes import distinct_blocks
from sweep.hardware.distinct_rows import combinations, rows_of
from sweep.hardware.transaction_rules import BANK_RULES, RULES, WORD_BYTES, codes_of
from sweep.hardware.warp_addresses import LARGEST_ADDRESS, Cost, bank_layout, merged
from sweep.hardware.warp_simulator import LINE_BYTES, bank_passes, warp_transactions

__all__ = ["Affine", "affine_bank_conflicts", "affine_bank_passes", "affine_transactions"]

MOST_THREADS = 4096
"""Threads of a block beyond which it is not followed: four times what any GPU takes."""

WARPS_AT_ONCE = 1 << 15  # bounds the memory of the addresses: 16 MiB

BANKS_BYTES = 256
"""What all rules' rows of banks divide, such as 32 banks of 8 bytes."""


class Affine(NamedTuple):
    """Addresses ``base + x * threadIdx.x + y * threadIdx.y + z * threadIdx.z``, in words.

    Threads are numbered as CUDA does, x fastest, and warps are cut from this order. The arrays
    broadcast.

    Attributes
    ----------
    base : array_like
        Word that the first thread accesses; word 0 is at a multiple of 128 bytes [words].
    x, y, z : array_like
        Distance of neighbouring threads' words in each direction; may be negative [words].
    block_x, block_y : array_like
        Width and height of a block; its depth is what they leave of the threads [1].
    threads : array_like
        Threads of a block [1].
    warp_size : array_like
        Lanes of a warp [1].
    """

    base: ArrayLike
    x: ArrayLike
    y: ArrayLike
    z: ArrayLike
    block_x: ArrayLike
    block_y: ArrayLike
    threads: ArrayLike
    warp_size: ArrayLike = 32

    def linear(self) -> Affine:
        """Return consecutive words from an aligned address, for the same block."""
        width = np.asarray(self.block_x)
        return self._replace(base=0, x=1, y=width, z=width * np.asarray(self.block_y))


def affine_transactions(affine: Affine, word_bytes: ArrayLike, rule: ArrayLike) -> Cost:
    """Return what an affine access to global memory costs, as the mean over a block's warps.

    Parameters
    ----------
    affine : Affine
        The addresses.
    word_bytes : array_like
        Size of a lane's word: 1, 2, 4, 8 or 16 [byte].
    rule : array_like of str
        One of `RULES` (see :func:`rule_of`); the arguments broadcast.

    Returns
    -------
    Cost
        float64. 0 where there are no threads; NaN where there is no such access: another word
        size, numbers that are no integers or too large, a block that its width and height do not
        divide.

    Raises
    ------
    SpecError
        If a rule is unknown.
    """

    def simulate(warps: _Warps) -> NDArray[np.int64]:
        header = (warps.word_bytes, warps.code)
        return warp_transactions(rows_of(warps.addresses, warps.active, LINE_BYTES, header))

    given = (affine, word_bytes, codes_of(rule, RULES))
    sums, n_warps = _over_blocks(*given, LINE_BYTES, simulate)
    return Cost(*np.moveaxis(sums / np.maximum(n_warps, 1.0)[..., None], -1, 0))


def affine_bank_conflicts(affine: Affine, word_bytes: ArrayLike, rule: ArrayLike) -> NDArray[Any]:
    """Return the bank-conflict degree of an affine access to shared memory.

    Parameters
    ----------
    affine, word_bytes, rule
        As for :func:`affine_bank_passes`.

    Returns
    -------
    ndarray
        Passes of a request, as the mean over all requests of a block; float64, 1 without
        conflicts. 0 and NaN as for :func:`affine_transactions`.

    Raises
    ------
    SpecError
        If a rule is unknown.
    """
    passes, requests = affine_bank_passes(affine, word_bytes, rule)
    return passes / np.where(requests == 0, 1.0, requests)


def affine_bank_passes(
    affine: Affine, word_bytes: ArrayLike, rule: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what an affine access to shared memory costs, as the mean over a block's warps.

    Parameters
    ----------
    affine : Affine
        The addresses.
    word_bytes : array_like
        Size of a lane's word: 1, 2, 4, 8 or 16 [byte].
    rule : array_like of str
        One of `BANK_RULES` (see :func:`bank_rule_of`); the arguments broadcast.

    Returns
    -------
    passes, requests : ndarray
        Passes of a warp's access (wavefronts), and the requests of which it consists; float64.
        0 and NaN as for :func:`affine_transactions`.

    Raises
    ------
    SpecError
        If a rule is unknown.
    """

    def simulate(warps: _Warps) -> NDArray[np.int64]:
        banks, bank_bytes, together = bank_layout(warps.word_bytes, warps.code)
        together = merged(together, warps.word_bytes, warps.code, warps.addresses, warps.active)
        header = (warps.word_bytes, banks, bank_bytes, together)
        return bank_passes(rows_of(warps.addresses, warps.active, banks * bank_bytes, header))

    given = (affine, word_bytes, codes_of(rule, BANK_RULES))
    sums, n_warps = _over_blocks(*given, BANKS_BYTES, simulate)
    warps = np.maximum(n_warps, 1.0)
    return sums[..., 0] / warps, sums[..., 1] / warps


class _Warps(NamedTuple):
    """All warps of some blocks, one row each."""

    addresses: NDArray[np.int64]
    active: NDArray[np.bool_]
    word_bytes: NDArray[np.int64]
    code: NDArray[np.int64]
    block: NDArray[np.int64]  # which block a warp belongs to


def _over_blocks(
    affine: Affine,
    word_bytes: ArrayLike,
    code: NDArray[np.int64],
    period: int,
    simulate: Callable[[_Warps], NDArray[np.int64]],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sums of a simulation's results over the warps of each block, and their number.

    Of the combinations of all arguments, those that cost the same are simulated once; ``period`` is
    that of :func:`distinct_blocks` [byte].
    """
    table, place = combinations(*affine, word_bytes, code)
    valid = _is_valid(table)
    given = table[valid].astype(np.int64)
    given[:, 6] = np.minimum(given[:, 6], MOST_THREADS)
    blocks, form = distinct_blocks(given, period)
    n_warps = -(-blocks[:, 6] // blocks[:, 7])
    sums = np.zeros((len(blocks), 3))
    step = max(1, WARPS_AT_ONCE // max(1, int(n_warps.max(initial=1))))
    for start in range(0, len(blocks), step):
        warps = _expand(blocks[start : start + step])
        np.add.at(sums, start + warps.block, simulate(warps))
    result = np.full((len(table), 3), np.nan)
    result[valid] = sums[form]
    number = np.ones(len(table))
    number[valid] = n_warps[form]
    return result[place], number[place]


def _is_valid(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows (the fields of :class:`Affine`, word size, rule) describe an access."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        base, x, y, z, width, height, threads, warp_size, word_bytes, _ = table.T
        depth = threads / (width * height)
        reach = np.abs(base) + sum(np.abs(a * b) for a, b in ((x, width), (y, height), (z, depth)))
        valid = np.isin(word_bytes, WORD_BYTES) & (reach * word_bytes < LARGEST_ADDRESS)
        valid &= (width >= 1) & (height >= 1) & (threads >= 0) & (warp_size >= 1)
        valid &= (threads < 2.0**53) & (depth == np.floor(depth))
        for column in (base, x, y, z, width, height, threads, warp_size):
            valid &= column == np.floor(column)
    return valid


def _expand(blocks: NDArray[np.int64]) -> _Warps:
    """Return the addresses of all lanes of some blocks."""
    n_warps = -(-blocks[:, 6] // blocks[:, 7])
    block = np.repeat(np.arange(len(blocks)), n_warps)
    within = np.arange(len(block)) - np.repeat(np.cumsum(n_warps) - n_warps, n_warps)
    base, x, y, z, width, height, threads, warp_size, word_bytes, code = blocks[block].T[..., None]
    lane = np.arange(int(blocks[:, 7].max()))
    thread = within[:, None] * warp_size + lane
    column, row, layer = thread % width, thread // width % height, thread // (width * height)
    return _Warps(
        addresses=word_bytes * (base + x * column + y * row + z * layer),
        active=(lane < warp_size) & (thread < threads),
        word_bytes=word_bytes[:, 0],
        code=code[:, 0],
        block=block,
    )

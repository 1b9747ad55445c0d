"""Accesses given by a formula: affine in a thread's place in its block, or a named pattern.

What an access costs depends on where its words lie within a period (a line of global memory, a row
of banks) and on which of them lie near each other. Of a base only the remainder counts, therefore,
and of a stride that carries words beyond everything before them no more: a matrix's rows that share
no line cost the same, however wide the matrix is. Blocks of the same cost are simulated once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.hardware.memory_rules import (
    BANK_RULES,
    HALF_WARP,
    LINE_BYTES,
    RULES,
    WORD_BYTES,
    check_choice,
    codes_of,
)
from sweep.hardware.warp_simulation import (
    LARGEST_ADDRESS,
    Cost,
    bank_passes,
    combinations,
    distinct_rows,
    warp_transactions,
)

PATTERNS = ("coalesced", "misaligned", "strided", "uncoalesced", "broadcast")
"""The named patterns of a warp's addresses (see :func:`access_transactions`)."""

MAX_LANES = 64  # of the widest warps

MOST_THREADS = 4096
"""Threads of a block beyond which it is not followed: four times what any GPU takes."""

WARPS_AT_ONCE = 1 << 15  # bounds the memory of the addresses: 16 MiB

BANKS_BYTES = 256
"""What all rules' rows of banks divide, such as 32 banks of 8 bytes."""


BASE, STRIDES, WIDTH, HEIGHT, THREADS, WARP_SIZE, SIZE = 0, slice(1, 4), 4, 5, 6, 7, 8
"""Columns of a table of blocks: the fields of :class:`Affine`, the word's size, the rule."""


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
    given = (affine, word_bytes, codes_of(rule, RULES))
    return Cost(*_mean_over_warps(*given, LINE_BYTES, warp_transactions))


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
    given = (affine, word_bytes, codes_of(rule, BANK_RULES))
    passes, requests, _ = _mean_over_warps(*given, BANKS_BYTES, bank_passes)
    return passes, requests


def _mean_over_warps(
    affine: Affine,
    word_bytes: ArrayLike,
    code: NDArray[np.int64],
    period: int,
    simulate: Callable[..., NDArray[np.int64]],
) -> tuple[NDArray[Any], ...]:
    """Return the means of a simulation's three results over the warps of each block.

    Of the combinations of all arguments, those that cost the same are simulated once; ``period`` is
    that of :func:`distinct_blocks` [byte].
    """
    table, place = combinations(*affine, word_bytes, code)
    valid = _is_valid(table)
    given = table[valid].astype(np.int64)
    given[:, THREADS] = np.minimum(given[:, THREADS], MOST_THREADS)
    blocks, form = distinct_blocks(given, period)
    n_warps = -(-blocks[:, THREADS] // blocks[:, WARP_SIZE])
    sums = np.zeros((len(blocks), 3))
    step = max(1, WARPS_AT_ONCE // max(1, int(n_warps.max(initial=1))))
    for start in range(0, len(blocks), step):
        block, *warps = _expand(blocks[start : start + step])
        np.add.at(sums, start + block, simulate(*warps))
    result = np.full((len(table), 3), np.nan)
    result[valid] = (sums / np.maximum(n_warps, 1)[:, None])[form]
    # Arrays of their own: a view of one mean would keep the others in memory.
    return tuple(column[place] for column in result.T)


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


def _expand(blocks: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Return the block of each warp, then its lanes' addresses, which take part, word and rule."""
    n_warps = -(-blocks[:, THREADS] // blocks[:, WARP_SIZE])
    block = np.repeat(np.arange(len(blocks)), n_warps)
    within = np.arange(len(block)) - np.repeat(np.cumsum(n_warps) - n_warps, n_warps)
    base, x, y, z, width, height, threads, warp_size, word_bytes, code = blocks[block].T[..., None]
    lane = np.arange(int(blocks[:, WARP_SIZE].max()))
    thread = within[:, None] * warp_size + lane
    column, row, layer = thread % width, thread // width % height, thread // (width * height)
    addresses = word_bytes * (base + x * column + y * row + z * layer)
    active = (lane < warp_size) & (thread < threads)
    return block, addresses, active, word_bytes[:, 0], code[:, 0]


def distinct_blocks(
    blocks: NDArray[np.int64], period: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return blocks of different cost, and which of them has each block's.

    Parameters
    ----------
    blocks : ndarray of int, shape (blocks, 10)
        Base and strides [words], width, height and threads of a block, warp size, bytes of a word,
        rule: valid ones.
    period : int
        Where to move all words by this many bytes changes nothing, nor to move one word by a
        multiple of it, as long as it stays farther than a period from all others [byte].

    Returns
    -------
    blocks : ndarray of int
        Some of the forms that accesses can have with this cost, each once.
    place : ndarray of int
        Where each of the given blocks has its form.
    """
    found = blocks.copy()
    words = period // blocks[:, SIZE]
    found[:, BASE] %= words
    found[:, STRIDES] = _strides(blocks, words)
    return distinct_rows(found)


def _extents(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many places along each axis the threads have, at least 1."""
    threads = np.maximum(blocks[:, THREADS], 1)
    width = np.minimum(blocks[:, WIDTH], threads)
    height = np.minimum(blocks[:, HEIGHT], -(-threads // width))
    return np.stack([width, height, -(-threads // (width * height))], axis=1)


def _strides(blocks: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return strides of the same cost: as small as they can be without bringing words together.

    Along a stride that is larger than the reach of all smaller ones by more than a period, words
    lie so far apart that nothing but their places within the period counts, if that holds of all
    larger strides, too.
    """
    extents = _extents(blocks)
    given: NDArray[Any] = np.where(extents > 1, blocks[:, STRIDES], 0)
    order = np.argsort(np.abs(given), axis=1, kind="stable")
    sizes, along = (np.take_along_axis(part, order, axis=1) for part in (given, extents))
    is_far = np.ones(len(blocks), bool)
    reach = (np.abs(sizes) * (along - 1)).cumsum(axis=1)
    far = [is_far] * 3
    for i in (2, 1, 0):
        before = reach[:, i - 1] if i else 0
        is_far = is_far & (np.abs(sizes[:, i]) > before + words)
        far[i] = is_far
    new_reach = np.zeros(len(blocks), np.int64)
    for i in range(3):
        least = new_reach + words + 1
        sizes[:, i] = np.where(far[i], least + (sizes[:, i] - least) % words, sizes[:, i])
        new_reach = new_reach + np.abs(sizes[:, i]) * (along[:, i] - 1)
    np.put_along_axis(given, order, sizes, axis=1)
    return given


def access_transactions(
    pattern: str, word_bytes: ArrayLike, stride: ArrayLike | None, lanes: ArrayLike, rule: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what a warp's access of a named pattern costs, for arrays of its parameters.

    Parameters
    ----------
    pattern : str
        ``coalesced``: consecutive words from an aligned address. ``misaligned``: consecutive words
        from an address that is no multiple of what a half-warp accesses (at most 128 bytes), the
        mean over all such addresses. ``strided``: words ``stride`` words apart, the first aligned;
        0 is a broadcast, 1 coalesced. ``uncoalesced``: every lane in 128 bytes of its own.
        ``broadcast``: the same word for all lanes.
    word_bytes : array_like
        Size of a lane's word: 1, 2, 4, 8 or 16 [byte].
    stride : array_like or None
        Distance of neighbouring lanes' words, for ``strided`` only [words].
    lanes : array_like
        Lanes in use, the first ones of the warp [1].
    rule : array_like of str
        One of `RULES` (see :func:`rule_of`); the arguments broadcast.

    Returns
    -------
    transactions_per_warp, bytes_per_warp, sectors_per_warp : ndarray
        Transactions, bytes that they move, and sectors of 32 bytes that the words touch, whatever
        the rule; float64. NaN where there is no such access: another word size, a stride or number
        of lanes that is negative or no integer, more than 64 lanes.

    Raises
    ------
    SpecError
        If the pattern or a rule is unknown.
    """
    check_choice("access pattern", pattern, PATTERNS)
    strides = np.asarray(1 if stride is None or pattern != "strided" else stride, np.float64)
    # Farther apart than a line, lanes share nothing, and all cost the same: the table stays small.
    strides = np.where(strides == np.floor(strides), np.minimum(strides, LINE_BYTES), np.nan)
    table, place = combinations(word_bytes, strides, lanes, codes_of(rule, RULES))
    result = _costs(pattern, *table.T[..., None])[place]
    return result[..., 0], result[..., 1], result[..., 2]


def _costs(
    pattern: str, words: NDArray[Any], steps: NDArray[Any], lanes: NDArray[Any], code: NDArray[Any]
) -> NDArray[Any]:
    """Return transactions, bytes and sectors of each column of arguments, as means over starts."""
    with np.errstate(invalid="ignore"):
        valid = np.isin(words, WORD_BYTES) & (steps >= 0) & (lanes >= 0) & (lanes <= MAX_LANES)
    in_line = LINE_BYTES / np.where(valid, words, 1.0)  # words of 128 bytes
    if pattern in ("broadcast", "uncoalesced"):
        steps = 0.0 * steps if pattern == "broadcast" else in_line
    steps = np.where(valid, np.minimum(steps, in_line), np.nan)
    base = np.zeros(1)
    is_start = np.ones((len(words), 1), bool)
    if pattern == "misaligned":
        base = np.arange(1.0, LINE_BYTES)
        is_start = (base < in_line) & (base % np.minimum(HALF_WARP, in_line) != 0)
    warp = Affine(base, steps, 0, 0, np.maximum(lanes, 1), 1, lanes, MAX_LANES)
    rules = np.array(RULES)[code.astype(np.int64)]
    costs = np.stack(affine_transactions(warp, words, rules), axis=-1)
    return (costs * is_start[..., None]).sum(axis=1) / is_start.sum(axis=1, keepdims=True)

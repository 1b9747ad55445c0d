"""Blocks of threads whose affine accesses cost the same, brought to one form.

What an access costs depends on where its words lie within a period (a line of global memory, a row
of banks) and on which of them lie near each other. Of a base only the remainder counts, therefore,
and of a stride that carries words beyond everything before them no more: a matrix's rows that share
no line cost what they cost, however wide the matrix is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["combinations", "distinct_blocks"]

BASE, STRIDES, WORD_BYTES = 0, slice(1, 4), 8
WIDTH, HEIGHT, THREADS = 4, 5, 6


def combinations(*arguments: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct combinations of arguments that broadcast.

    Parameters
    ----------
    *arguments : array_like of numbers
        Arguments, of shapes that broadcast.

    Returns
    -------
    table : ndarray, shape (n, arguments)
        The combinations.
    place : ndarray of int
        Where in the table each element's combination stands; of the broadcast shape.
    """
    arrays = [np.asarray(argument, np.float64) for argument in arguments]
    table = np.zeros((1, 0))
    place = np.zeros((1,) * max(array.ndim for array in arrays), np.int64)
    for array in arrays:  # one by one: a number for every combination so far stays small
        if array.size == 1:
            table = np.column_stack([table, np.full(len(table), array.item())])
            continue
        values, inverse = np.unique(array, return_inverse=True)
        number = place * len(values) + inverse.reshape(array.shape)
        kept, inverse = np.unique(number, return_inverse=True)
        place = inverse.reshape(number.shape)
        table = np.column_stack([table[kept // len(values)], values[kept % len(values)]])
    return table, place


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
    words = period // blocks[:, WORD_BYTES]
    found[:, BASE] %= words
    found[:, STRIDES] = _strides(blocks, words)
    # As bytes, rows are compared as a whole: sorting them by columns would take far longer.
    whole = np.ascontiguousarray(found).view(np.dtype((np.void, found.shape[1] * 8)))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return found[first], place


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

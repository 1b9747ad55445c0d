"""Warps whose addresses are given, one for each lane."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.errors import SpecError
from sweep.hardware.distinct_rows import rows_of
from sweep.hardware.transaction_rules import BANK_RULES, RULES, check_words, codes_of
from sweep.hardware.warp_simulator import HALF_WARP, LINE_BYTES, bank_passes, warp_transactions

__all__ = [
    "Cost",
    "bank_conflicts_of_addresses",
    "bank_layout",
    "merged",
    "simulate_bank_conflicts",
    "simulate_transactions",
    "transactions_of_addresses",
]

LARGEST_ADDRESS = 2**61


class Cost(NamedTuple):
    """What warps' accesses to global memory cost.

    Attributes
    ----------
    transactions : ndarray
        Transactions of a warp [1].
    bytes : ndarray
        Bytes that they move [byte].
    sectors : ndarray
        Sectors of 32 bytes that the words touch, whatever the rule [1].
    """

    transactions: NDArray[Any]
    bytes: NDArray[Any]
    sectors: NDArray[Any]


def transactions_of_addresses(
    addresses: ArrayLike, word_bytes: int, rule: str, active: ArrayLike | None = None
) -> tuple[int, int]:
    """Return the transactions of one warp's access and the bytes that they move.

    Parameters
    ----------
    addresses : array_like of int
        Byte address of each lane's word, in the order of the lanes.
    word_bytes : int
        Size of a word: 1, 2, 4, 8 or 16 [byte].
    rule : str
        One of `RULES`.
    active : array_like of bool, optional
        Which lanes take part; all if not given.

    Returns
    -------
    count, bytes_moved : int
        Transactions, and the sum of their sizes [byte].

    Raises
    ------
    SpecError
        If the word size or the rule is unknown.
    """
    cost = simulate_transactions(addresses, word_bytes, rule, active)
    return int(cost.transactions), int(cost.bytes)


def simulate_transactions(
    addresses: ArrayLike, word_bytes: ArrayLike, rule: ArrayLike, active: ArrayLike | None = None
) -> Cost:
    """Return what the accesses of many warps to global memory cost.

    Parameters
    ----------
    addresses : array_like of int, shape (..., lanes)
        Byte address of each lane's word, in the order of the lanes.
    word_bytes : array_like of int
        Size of a warp's words: 1, 2, 4, 8 or 16; broadcasts over the warps [byte].
    rule : array_like of str
        One of `RULES`; broadcasts over the warps.
    active : array_like of bool, optional
        Which lanes take part; all if not given.

    Returns
    -------
    Cost
        Integers for each warp.

    Raises
    ------
    SpecError
        If a word size or a rule is unknown, or an address beyond 2**61.
    """
    lanes = _checked(addresses)
    header = (check_words(word_bytes), codes_of(rule, RULES))
    found = warp_transactions(rows_of(lanes, active, LINE_BYTES, header))
    return Cost(*(found[:, i].reshape(lanes.shape[:-1]) for i in range(3)))


def bank_conflicts_of_addresses(
    addresses: ArrayLike,
    word_bytes: ArrayLike = 4,
    *,
    banks: ArrayLike = 32,
    bank_bytes: ArrayLike = 4,
    active: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Return the largest number of distinct words in one bank, of lanes that are served together.

    Parameters
    ----------
    addresses : array_like of int, shape (..., lanes)
        Byte address of each lane's word in shared memory.
    word_bytes : array_like of int
        Size of the lanes' words: 1, 2, 4, 8 or 16 [byte].
    banks : array_like of int
        Banks; neighbouring words lie in neighbouring banks [1].
    bank_bytes : array_like of int
        What a bank gives at a time: 4 or, in the 8-byte mode of 3.x, 8 [byte].
    active : array_like of bool, optional
        Which lanes take part; all if not given.

    Returns
    -------
    ndarray of int64
        Passes that the access takes: 1 without conflict, 0 without lanes.

    Raises
    ------
    SpecError
        If a word size is unknown, there is no bank or no byte in it, or an address beyond 2**61.
    """
    lanes = _checked(addresses)
    layout = np.asarray(banks, np.int64), np.asarray(bank_bytes, np.int64)
    if any((part < 1).any() for part in layout):
        raise SpecError("shared memory has at least one bank, and a bank at least one byte")
    header = (check_words(word_bytes), *layout, max(lanes.shape[-1], 1))
    found = bank_passes(rows_of(lanes, active, layout[0] * layout[1], header))
    return found[:, 2].reshape(lanes.shape[:-1])


def simulate_bank_conflicts(
    addresses: ArrayLike, word_bytes: ArrayLike, rule: ArrayLike, active: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the passes that the accesses of many warps to shared memory take, and the requests.

    Parameters
    ----------
    addresses : array_like of int, shape (..., lanes)
        Byte address of each lane's word in shared memory.
    word_bytes : array_like of int
        Size of a warp's words: 1, 2, 4, 8 or 16; broadcasts over the warps [byte].
    rule : array_like of str
        One of `BANK_RULES`; broadcasts over the warps.
    active : array_like of bool, optional
        Which lanes take part; all if not given.

    Returns
    -------
    passes, requests : ndarray of int64
        Without conflicts there are as many passes as requests.

    Raises
    ------
    SpecError
        If a word size or a rule is unknown, or an address beyond 2**61.
    """
    lanes = _checked(addresses)
    words = check_words(word_bytes)
    banks, bank_bytes, together = bank_layout(words, codes_of(rule, BANK_RULES))
    together = merged(together, words, codes_of(rule, BANK_RULES), lanes, active)
    header = (words, banks, bank_bytes, together)
    found = bank_passes(rows_of(lanes, active, banks * bank_bytes, header))
    return found[:, 0].reshape(lanes.shape[:-1]), found[:, 1].reshape(lanes.shape[:-1])


def bank_layout(word_bytes: NDArray[Any], code: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return banks, bytes of a bank, and lanes that are served together, by word and rule."""
    is_half_warp = code == BANK_RULES.index("half_warp")
    is_wide = (code == BANK_RULES.index("wide_bank")) & (word_bytes >= 8)
    banks = np.where(is_half_warp, 16, 32)
    bank_bytes = np.where(is_wide, 8, 4)
    together = np.minimum(32, banks * bank_bytes // word_bytes)
    return banks, bank_bytes, np.where(is_half_warp, HALF_WARP, together)


def merged(
    together: NDArray[Any],
    word_bytes: NDArray[Any],
    code: NDArray[Any],
    addresses: NDArray[np.int64],
    active: ArrayLike | None,
) -> NDArray[Any]:
    """Return the lanes that are served together where requests may merge.

    Rule ``merging``: if each lane wants the same word as its neighbour (lane xor 1), or as the one
    after that (lane xor 2), two requests of words of 8 or 16 bytes are one.

    Parameters
    ----------
    together : array
        Lanes that are served together without merging [1].
    word_bytes, code : array
        Size of a warp's words and place of its rule in `BANK_RULES`; broadcast over the warps.
    addresses, active : array, shape (..., lanes)
        As for :func:`simulate_bank_conflicts`.
    """
    may = (code == BANK_RULES.index("merging")) & (word_bytes >= 8)
    if not np.any(may):
        return together
    takes_part = np.broadcast_to(True if active is None else np.asarray(active), addresses.shape)
    lane = np.arange(addresses.shape[-1])
    merges = np.zeros(addresses.shape[:-1], bool)
    for distance in (1, 2):
        other = lane ^ distance
        there = np.minimum(other, max(len(lane) - 1, 0))
        alone = (other != there) | ~takes_part | ~takes_part[..., there]
        merges |= (alone | (addresses == addresses[..., there])).all(axis=-1)
    return np.where(may & merges, 2 * together, together)


def _checked(addresses: ArrayLike) -> NDArray[np.int64]:
    lanes = np.atleast_1d(np.asarray(addresses)).astype(np.int64)
    if lanes.size and (lanes.max() >= LARGEST_ADDRESS or lanes.min() <= -LARGEST_ADDRESS):
        raise SpecError("an address is beyond 2**61 bytes")
    return lanes

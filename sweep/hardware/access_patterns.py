"""Named patterns of a warp's addresses, and the conflicts of strided words in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.hardware.affine_accesses import Affine, affine_transactions
from sweep.hardware.distinct_rows import combinations
from sweep.hardware.transaction_rules import RULES, WORD_BYTES, check_choice, codes_of
from sweep.hardware.warp_simulator import HALF_WARP, LINE_BYTES

__all__ = ["PATTERNS", "access_transactions", "bank_conflict_degree"]

PATTERNS = ("coalesced", "misaligned", "strided", "uncoalesced", "broadcast")
"""The named patterns of a warp's addresses (see :func:`access_transactions`)."""

MAX_LANES = 64  # of the widest warps


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
    strides = _at_most(strides, LINE_BYTES)  # which keeps the table small
    table, place = combinations(word_bytes, strides, lanes, codes_of(rule, RULES))
    result = _costs(pattern, *table.T[..., None])[place]
    return result[..., 0], result[..., 1], result[..., 2]


def _at_most(strides: NDArray[Any], far: ArrayLike) -> NDArray[Any]:
    """Bound whole strides: farther apart than a line, lanes share nothing, and all cost the same.

    Others, which no access has, stay as they are.
    """
    return np.where(strides == np.floor(strides), np.minimum(strides, far), strides)


def _costs(
    pattern: str, words: NDArray[Any], steps: NDArray[Any], lanes: NDArray[Any], code: NDArray[Any]
) -> NDArray[Any]:
    """Return transactions, bytes and sectors of each column of arguments, as means over starts."""
    with np.errstate(invalid="ignore"):
        valid = np.isin(words, WORD_BYTES) & (steps >= 0) & (lanes >= 0) & (lanes <= MAX_LANES)
    in_line = LINE_BYTES / np.where(valid, words, 1.0)  # words of 128 bytes
    if pattern in ("broadcast", "uncoalesced"):
        steps = 0.0 * steps if pattern == "broadcast" else in_line
    steps = np.where(valid, _at_most(steps, in_line), np.nan)
    base = np.zeros(1)
    is_start = np.ones((len(words), 1), bool)
    if pattern == "misaligned":
        base = np.arange(1.0, LINE_BYTES)
        is_start = (base < in_line) & (base % np.minimum(HALF_WARP, in_line) != 0)
    warp = Affine(base, steps, 0, 0, np.maximum(lanes, 1), 1, lanes, MAX_LANES)
    rules = np.array(RULES)[code.astype(np.int64)]
    costs = np.stack(affine_transactions(warp, words, rules), axis=-1)
    return (costs * is_start[..., None]).sum(axis=1) / is_start.sum(axis=1, keepdims=True)


def bank_conflict_degree(
    stride_words: ArrayLike, banks: ArrayLike, lanes: ArrayLike
) -> NDArray[Any]:
    """Return the largest number of distinct words that lanes access in one bank.

    The word of lane i is ``i * stride``. Strided lanes meet the same bank again after
    ``banks / gcd(stride, banks)`` lanes, so that with as many lanes as banks the degree is
    ``gcd(stride, banks)`` (Zhang & Owens, HPCA 2011, Section 4.2).

    Parameters
    ----------
    stride_words : array_like
        Distance of neighbouring lanes' words [words of 4 bytes]; 0 is a broadcast.
    banks : array_like
        Banks of the shared memory: 16 on 1.x, 32 later [1].
    lanes : array_like
        Lanes that are served together: a half-warp's on 1.x, a warp's later [1].

    Returns
    -------
    ndarray
        Passes that the access takes; 1 without conflict, 0 without lanes, NaN where a number is
        negative or no integer.
    """
    stride, bank, lane = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (stride_words, banks, lanes))
    )
    with np.errstate(invalid="ignore"):
        valid = (stride >= 0) & (bank >= 1) & (lane >= 0) & (stride + bank + lane < 2.0**53)
        valid &= (stride == np.floor(stride)) & (bank == np.floor(bank)) & (lane == np.floor(lane))
    whole = [np.where(valid, x, 1.0).astype(np.int64) for x in (stride, bank, lane)]
    period = whole[1] // np.gcd(whole[0], whole[1])
    degree = np.where(whole[0] == 0, np.minimum(whole[2], 1), -(-whole[2] // period))
    return np.where(valid, degree.astype(np.float64), np.nan)

"""Memory transactions of one warp's access, and bank conflicts in shared memory.

How many transactions the addresses of a warp cost depends on the compute capability
(CUDA C Programming Guide; the second rule also Zhang & Owens, HPCA 2011, Section 4.3):

======== =============== ==========================================================================
rule     capability      what a warp's access costs
======== =============== ==========================================================================
strict   1.0, 1.1        a half-warp whose lanes access consecutive aligned words: one transaction
                         (two for words of 16 bytes); any other: one of 32 bytes for every lane
segment  1.2, 1.3        a half-warp: the segment that holds the address of its first waiting lane,
                         halved while one half holds all, serves every lane in it; and so on
line     2.x             lines of 128 bytes, of every 128 bytes that the warp requests at once
sector   3.0 and later   sectors of 32 bytes of the whole warp
======== =============== ==========================================================================

:func:`transactions_of_addresses` follows the rules for given addresses;
:func:`access_transactions` gives the same for named patterns, over arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.errors import SpecError, nearest

__all__ = [
    "PATTERNS",
    "RULES",
    "WORD_BYTES",
    "access_transactions",
    "bank_conflict_degree",
    "rule_of",
    "transactions_of_addresses",
]

RULES = ("strict", "segment", "line", "sector")
"""The rules by which addresses become transactions, oldest first."""

PATTERNS = ("coalesced", "misaligned", "strided", "uncoalesced", "broadcast")
"""The named patterns of a warp's addresses (see :func:`access_transactions`)."""

WORD_BYTES = (1, 2, 4, 8, 16)
"""The sizes of the words that one instruction can load or store."""

MAX_LANES = 64  # of the widest warps
LINE_BYTES = 128
SECTOR_BYTES = 32
HALF_WARP = 16

Access = tuple[int, int]  # transactions, bytes that they move


def rule_of(compute_capability: str) -> str:
    """Return the rule of a compute capability, such as ``"segment"`` for ``"1.3"``.

    Raises
    ------
    SpecError
        If it is no compute capability.
    """
    match = re.fullmatch(r"([1-9][0-9]*)\.([0-9]+)", compute_capability)
    if match is None:
        raise SpecError(f"'{compute_capability}' is no compute capability such as '5.2'")
    major, minor = int(match[1]), int(match[2])
    if major == 1:
        return "strict" if minor < 2 else "segment"
    return "line" if major == 2 else "sector"


# One warp, given addresses


def transactions_of_addresses(
    addresses: ArrayLike, word_bytes: int, rule: str, active: ArrayLike | None = None
) -> Access:
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
    _check_word(word_bytes)
    _check_word_of("transaction rule", rule, RULES)
    lanes = np.asarray(addresses, dtype=np.int64)
    takes_part = np.ones(lanes.shape, bool) if active is None else np.asarray(active, bool)
    count = moved = 0
    for part in _requests(len(lanes), word_bytes, rule):
        served = _SERVE[rule](lanes[part], takes_part[part], word_bytes)
        count, moved = count + served[0], moved + served[1]
    return count, moved


def _requests(lanes: int, word_bytes: int, rule: str) -> Iterator[slice]:
    """Yield the lanes served together: half-warps; those requesting 128 bytes (2.x); the warp."""
    size = {
        "strict": HALF_WARP,
        "segment": HALF_WARP,
        "line": min(2 * HALF_WARP, LINE_BYTES // word_bytes),
        "sector": max(lanes, 1),
    }[rule]
    return (slice(start, start + size) for start in range(0, lanes, size))


def _strict(addresses: NDArray[Any], active: NDArray[Any], word_bytes: int) -> Access:
    """Serve a half-warp by the rule of 1.0 and 1.1.

    The k-th lane must access the k-th word of an aligned segment of 16 words (for words of 16
    bytes: of two segments of 128 bytes one after the other); inactive lanes leave gaps. Words of
    1 and 2 bytes are never coalesced.
    """
    n_active = int(active.sum())
    if n_active == 0:
        return 0, 0
    first_word = (addresses - word_bytes * np.arange(len(addresses)))[active]
    segment = min(HALF_WARP * word_bytes, LINE_BYTES)
    in_sequence = (first_word == first_word[0]).all() and first_word[0] % segment == 0
    if in_sequence and word_bytes >= 4:
        count = HALF_WARP * word_bytes // segment
        return count, count * segment
    return n_active, n_active * SECTOR_BYTES


def _segment(addresses: NDArray[Any], active: NDArray[Any], word_bytes: int) -> Access:
    """Serve a half-warp by the rule of 1.2 and 1.3 (Zhang & Owens, Section 4.3, steps 1 to 4)."""
    waiting = addresses[active]
    count = moved = 0
    while len(waiting):
        size = min(32 * word_bytes, LINE_BYTES)
        start = waiting[0] // size * size
        inside = (waiting >= start) & (waiting < start + size)
        first, last = waiting[inside].min(), waiting[inside].max() + word_bytes
        while size > SECTOR_BYTES and (last <= start + size // 2 or first >= start + size // 2):
            size //= 2
            start = start if last <= start + size else start + size
        count, moved = count + 1, moved + size
        waiting = waiting[~inside]
    return count, moved


def _blocks(addresses: NDArray[Any], active: NDArray[Any], word_bytes: int, size: int) -> Access:
    """Serve lanes by the aligned blocks of ``size`` bytes that their words touch."""
    first = addresses[active] // size
    last = (addresses[active] + word_bytes - 1) // size
    count = len(np.union1d(first, last))
    return count, count * size


def _line(addresses: NDArray[Any], active: NDArray[Any], word_bytes: int) -> Access:
    """Serve one request by the rule of 2.x: cache lines of 128 bytes."""
    return _blocks(addresses, active, word_bytes, LINE_BYTES)


def _sector(addresses: NDArray[Any], active: NDArray[Any], word_bytes: int) -> Access:
    """Serve a warp by the rule of 3.0 and later: sectors of 32 bytes."""
    return _blocks(addresses, active, word_bytes, SECTOR_BYTES)


_SERVE = {"strict": _strict, "segment": _segment, "line": _line, "sector": _sector}


def _check_word(word_bytes: int) -> None:
    if word_bytes not in WORD_BYTES:
        allowed = ", ".join(map(str, WORD_BYTES))
        raise SpecError(f"a memory access has words of {allowed} bytes, not {word_bytes} bytes")


def _check_word_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        hint = nearest(given, known)
        raise SpecError(f"unknown {what} '{given}': allowed are {', '.join(known)}{hint}")


# Patterns, vectorised


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
    _check_word_of("access pattern", pattern, PATTERNS)
    for name in np.unique(np.asarray(rule)):
        _check_word_of("transaction rule", str(name), RULES)
    strides: ArrayLike = 1 if stride is None or pattern != "strided" else stride
    words, steps, used, rules = np.broadcast_arrays(word_bytes, strides, lanes, np.asarray(rule))
    words, steps, used = (np.asarray(x, dtype=np.float64) for x in (words, steps, used))
    with np.errstate(invalid="ignore"):
        valid = np.isin(words, WORD_BYTES) & (used >= 0) & (used <= MAX_LANES) & (steps >= 0)
        valid &= (steps == np.floor(steps)) & (used == np.floor(used))
        # Farther apart than a line, lanes share nothing: all such strides cost the same.
        steps = np.minimum(steps, LINE_BYTES / np.where(valid, words, 1.0))
    codes = np.searchsorted(_SORTED_RULES, rules.astype(np.str_))
    key = np.where(valid, ((words * 256 + steps) * 256 + used) * len(RULES) + codes, 0.0)
    unique, inverse = np.unique(key.astype(np.int64), return_inverse=True)
    costs = np.array([_cost(pattern, *_split(int(x))) for x in unique]).reshape(-1, 3)
    result = np.where(valid[..., None], costs[inverse.reshape(valid.shape)], np.nan)
    return result[..., 0], result[..., 1], result[..., 2]


_SORTED_RULES = sorted(RULES)


def _split(key: int) -> tuple[int, int, int, str]:
    """Return word size, stride, lanes and rule from the number that stands for all four."""
    key, code = divmod(key, len(RULES))
    key, lanes = divmod(key, 256)
    word_bytes, stride = divmod(key, 256)
    return word_bytes, stride, lanes, _SORTED_RULES[code]


@lru_cache(maxsize=65536)
def _cost(
    pattern: str, word_bytes: int, stride: int, lanes: int, rule: str
) -> tuple[float, float, float]:
    """Return transactions, bytes and sectors of one access: the mean over its start addresses."""
    if word_bytes == 0 or lanes == 0:  # no access: an invalid element, or no lane
        return 0.0, 0.0, 0.0
    step = {"broadcast": 0, "uncoalesced": LINE_BYTES}.get(pattern, stride * word_bytes)
    starts = np.array([0])
    if pattern == "misaligned":
        starts = np.arange(0, LINE_BYTES, word_bytes)
        starts = starts[starts % min(HALF_WARP * word_bytes, LINE_BYTES) != 0]
    costs = []
    for start in starts:
        addresses = start + step * np.arange(lanes)
        count, moved = transactions_of_addresses(addresses, word_bytes, rule)
        sectors, _ = transactions_of_addresses(addresses, word_bytes, "sector")
        costs.append((count, moved, sectors))
    transactions, moved_bytes, touched = np.mean(costs, axis=0)
    return float(transactions), float(moved_bytes), float(touched)


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

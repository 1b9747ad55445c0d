"""Simulation of warps whose byte addresses are known, each distinct warp once.

A warp is a row of integers: a few that describe the access, then the byte address of each lane.
Loops over the lanes run as plain Python or compiled, the same lines in both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.fields import Array
from sweep.hardware.memory_rules import HALF_WARP, LINE_BYTES, bank_layout
from sweep.jit import compilable, compiled

SECTOR_BYTES = 32
# The places of their names in RULES.
STRICT, SEGMENT, LINE, SECTOR, LINE64, TEXTURE, LINE128 = range(7)

HEADER = 4
"""Integers of a row before its addresses."""

INACTIVE = -(2**62)
"""Stands for the address of a lane that takes no part."""

PATIENCE = 4000
"""Distinct warps of a process up to which interpreting them is quicker than compiling."""

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

    transactions: Array
    bytes: Array
    sectors: Array


def rows_of(addresses: Array, active: Array, period: ArrayLike, *header: ArrayLike) -> Array:
    """Return warps as rows: what describes the access, then the addresses.

    Parameters
    ----------
    addresses : array of int, shape (warps, lanes)
        Byte address of each lane's word.
    active : array of bool
        Which lanes take part.
    period : array_like of int
        Where to move all of a warp's addresses by this many bytes changes nothing [byte]; the
        first lane in use is then moved to the beginning, so that equal warps become equal rows.
    *header : array_like of int
        At most :data:`HEADER` integers for each warp.

    Returns
    -------
    ndarray of int64, shape (warps, HEADER + lanes)
    """
    rows = np.zeros((len(addresses), HEADER + addresses.shape[1]), np.int64)
    for i, column in enumerate(header):
        rows[:, i] = column
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    step = np.reshape(period, (-1, 1))
    rows[:, HEADER:] = np.where(active, addresses - first // step * step, INACTIVE)
    return rows


def distinct_rows(rows: Array) -> tuple[Array, Array]:
    """Return each distinct row of a table once, and the place of each row among them.

    As bytes, rows are compared as a whole: sorting them by columns would take far longer.
    """
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * 8)))[:, 0]
    distinct, place = np.unique(whole, return_inverse=True)
    return distinct.view(np.int64).reshape(-1, rows.shape[1]), place


class Rows:
    """A function of one row of integers, over the rows of a table, each distinct row once.

    The first :data:`PATIENCE` distinct rows of the process are interpreted and remembered. With
    more, the loop is compiled. Both run the same lines on integers: nobody can tell the results
    apart.

    Parameters
    ----------
    function : callable
        A function of a row that returns three integers (see :func:`sweep.jit.compilable`).
    """

    def __init__(self, function: Callable[[Any], tuple[int, int, int]]) -> None:
        def interpreted(row: bytes) -> tuple[int, int, int]:
            return function(np.frombuffer(row, np.int64).tolist())

        def over_rows(rows: Any, results: Any) -> None:
            for i in range(len(rows)):
                results[i, 0], results[i, 1], results[i, 2] = function(rows[i])

        self.interpreted = lru_cache(maxsize=PATIENCE)(interpreted)
        self.compiled = compiled(over_rows)

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return three integers for each row."""
        distinct, place = distinct_rows(rows)
        results = np.zeros((len(distinct), 3), np.int64)
        if self.interpreted.cache_info().misses + len(distinct) <= PATIENCE:
            for i, row in enumerate(distinct):
                results[i] = self.interpreted(row.tobytes())
        else:
            self.compiled(distinct, results)
        return results[place]


# Loops over the lanes of one warp


@compilable
def strict(addresses: Any, start: Any, stop: Any, word_bytes: Any) -> Any:
    """Serve a half-warp by the rule of 1.0 and 1.1; return transactions and their bytes.

    The k-th lane must access the k-th word of an aligned segment of 16 words (for words of 16
    bytes: of two segments of 128 bytes one after the other); inactive lanes leave gaps. Words of
    1 and 2 bytes are never coalesced.
    """
    segment_bytes = min(HALF_WARP * word_bytes, LINE_BYTES)
    active = 0
    first_word = 0
    in_sequence = word_bytes >= 4
    for i in range(start, stop):
        if addresses[i] != INACTIVE:
            word = addresses[i] - word_bytes * (i - start)
            if active == 0:
                first_word = word
            elif word != first_word:
                in_sequence = False
            active += 1
    if active == 0:
        return 0, 0
    if in_sequence and first_word % segment_bytes == 0:
        count = HALF_WARP * word_bytes // segment_bytes
        return count, count * segment_bytes
    return active, active * SECTOR_BYTES


@compilable
def segment(addresses: Any, start: Any, stop: Any, word_bytes: Any) -> Any:
    """Serve a half-warp by the rule of 1.2 and 1.3; return transactions and their bytes.

    Zhang & Owens, HPCA 2011, Section 4.3, steps 1 to 4. Words lie at multiples of their size.
    """
    count = 0
    moved = 0
    served = 0  # a bit for each lane
    for lead in range(start, stop):
        if addresses[lead] == INACTIVE or (served >> (lead - start)) & 1 == 1:
            continue
        size = min(32 * word_bytes, LINE_BYTES)
        begin = addresses[lead] - addresses[lead] % size  # step 1
        low = begin + size
        high = begin
        for i in range(lead, stop):  # step 2; no lane before the lead is waiting
            address = addresses[i]
            waiting = (served >> (i - start)) & 1 == 0 and address != INACTIVE
            if waiting and begin <= address < begin + size:
                served |= 1 << (i - start)
                low = min(low, address)
                high = max(high, address + word_bytes)
        while size > SECTOR_BYTES:  # step 3
            size //= 2
            if low >= begin + size:
                begin += size
            elif high > begin + size:
                size *= 2
                break
        count += 1
        moved += size
    return count, moved


@compilable
def is_new(addresses: Any, start: Any, lane: Any, word_bytes: Any, block: Any, size: Any) -> Any:
    """Return whether no lane before this one touches an aligned block of ``size`` bytes."""
    begin = block * size
    for i in range(lane - 1, start - 1, -1):  # neighbours share most often
        if begin - word_bytes < addresses[i] < begin + size:
            return False
    return True


@compilable
def blocks(addresses: Any, start: Any, stop: Any, word_bytes: Any, size: Any) -> Any:
    """Return how many aligned blocks of ``size`` bytes the words of some lanes touch."""
    count = 0
    for i in range(start, stop):
        if addresses[i] != INACTIVE:
            first = addresses[i] // size
            last = (addresses[i] + word_bytes - 1) // size
            for block in range(first, last + 1):
                if is_new(addresses, start, i, word_bytes, block, size):
                    count += 1
    return count


@compilable
def one_warp(row: Any) -> Any:
    """Return transactions of a warp's access, their bytes, and the sectors that it touches.

    The row begins with the word's size and the rule.
    """
    word_bytes = row[0]
    rule = row[1]
    addresses = row[HEADER:]
    lanes = len(addresses)
    sectors = blocks(addresses, 0, lanes, word_bytes, SECTOR_BYTES)
    if rule == SECTOR:
        return sectors, sectors * SECTOR_BYTES, sectors
    if rule == LINE64 or rule == LINE128:
        size = LINE_BYTES if rule == LINE128 else LINE_BYTES // 2
        lines = blocks(addresses, 0, lanes, word_bytes, size)
        return lines, lines * size, sectors
    together = HALF_WARP
    if rule == LINE:  # 2.x: the lanes that request 128 bytes at once
        together = min(2 * HALF_WARP, LINE_BYTES // word_bytes)
    elif rule == TEXTURE:  # 5.x and 6.x: those that receive 32 bytes
        together = min(HALF_WARP // 2, SECTOR_BYTES // word_bytes)
    transactions = 0
    moved = 0
    for start in range(0, lanes, together):
        stop = min(start + together, lanes)
        if rule == STRICT:
            count, size = strict(addresses, start, stop, word_bytes)
        elif rule == SEGMENT:
            count, size = segment(addresses, start, stop, word_bytes)
        else:
            count = blocks(addresses, start, stop, word_bytes, LINE_BYTES)
            if rule == TEXTURE:  # 4 of them at a time
                count = (count + 3) // 4
                size = count * SECTOR_BYTES
            else:
                size = count * LINE_BYTES
        transactions += count
        moved += size
    return transactions, moved, sectors


@compilable
def one_warp_in_banks(row: Any) -> Any:
    """Return the passes of a warp's access to shared memory, its requests, and the worst of them.

    The row begins with the word's size, the banks, the bytes that a bank gives at a time and the
    lanes that are served together. A request passes as often as the bank that is asked for most
    distinct words: lanes that want the same word share it.
    """
    word_bytes = row[0]
    banks = row[1]
    bank_bytes = row[2]
    together = row[3]
    addresses = row[HEADER:]
    lanes = len(addresses)
    passes = 0
    requests = 0
    worst = 0
    for start in range(0, lanes, together):
        words_of_bank = np.zeros(banks, np.int64)
        degree = 0
        for i in range(start, min(start + together, lanes)):
            if addresses[i] != INACTIVE:
                first = addresses[i] // bank_bytes
                last = (addresses[i] + word_bytes - 1) // bank_bytes
                for word in range(first, last + 1):
                    if is_new(addresses, start, i, word_bytes, word, bank_bytes):
                        words_of_bank[word % banks] += 1
                        degree = max(degree, words_of_bank[word % banks])
        if degree > 0:
            passes += degree
            requests += 1
            worst = max(worst, degree)
    return passes, requests, worst


_transactions, _passes = Rows(one_warp), Rows(one_warp_in_banks)


def warp_transactions(addresses: Array, active: Array, word_bytes: Array, code: Array) -> Array:
    """Return transactions, bytes and sectors of each warp; ``code`` is its rule's place in `RULES`.

    Addresses and active lanes have the shape (warps, lanes).
    """
    return _transactions(rows_of(addresses, active, LINE_BYTES, word_bytes, code))


def bank_passes(addresses: Array, active: Array, word_bytes: Array, code: Array) -> Array:
    """Return passes, requests and most passes of a request, for each warp.

    ``code`` is the place of its rule in `BANK_RULES`; the rest is as for :func:`warp_transactions`.
    """
    layout = banks, bank_bytes, _ = bank_layout(addresses, active, word_bytes, code)
    return _passes(rows_of(addresses, active, banks * bank_bytes, word_bytes, *layout))


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
        values, inverse = _distinct(array)
        kept, place = _distinct(place * len(values) + inverse)
        table = np.column_stack([table[kept // len(values)], values[kept % len(values)]])
    return table, place


def _distinct(numbers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct numbers in rising order, and the place of each number among them.

    Whole numbers of a small range are marked in a table, in a fifth of the time of sorting.
    """
    with np.errstate(invalid="ignore"):  # infinity less infinity
        lowest = numbers.min(initial=0)
        span = numbers.max(initial=0) - lowest
    is_short = span < 4 * numbers.size
    if is_short and (numbers.dtype.kind == "i" or (numbers == np.floor(numbers)).all()):
        offsets = (numbers - lowest).astype(np.int64, copy=False)
        occurs = np.zeros(int(span) + 1, bool)
        occurs[offsets] = True
        return np.flatnonzero(occurs) + lowest, (np.cumsum(occurs) - 1)[offsets]
    values, places = np.unique(numbers, return_inverse=True)
    return values, places.reshape(numbers.shape)

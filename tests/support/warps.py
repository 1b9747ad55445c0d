"""Costs of single warps and blocks, from the functions for many of them."""

from __future__ import annotations

import numpy as np

from sweep.hardware.affine_accesses import affine_bank_passes
from sweep.hardware.memory_rules import BANK_RULES, LINE_BYTES, RULES, bank_layout, codes_of, merged
from sweep.hardware.warp_simulation import Cost, bank_passes, rows_of, warp_transactions


def simulate_transactions(addresses, word_bytes, rule, active=None):
    """Return what the accesses of many warps to global memory cost, from each lane's address."""
    lanes = np.atleast_1d(np.asarray(addresses)).astype(np.int64)
    header = (np.asarray(word_bytes, np.int64), codes_of(rule, RULES))
    found = warp_transactions(rows_of(lanes, active, LINE_BYTES, header))
    return Cost(*(found[:, i].reshape(lanes.shape[:-1]) for i in range(3)))


def simulate_bank_conflicts(addresses, word_bytes, rule, active=None):
    """Return passes and requests of the accesses of many warps to shared memory."""
    lanes = np.atleast_1d(np.asarray(addresses)).astype(np.int64)
    words, code = np.asarray(word_bytes, np.int64), codes_of(rule, BANK_RULES)
    banks, bank_bytes, together = bank_layout(words, code)
    header = (words, banks, bank_bytes, merged(together, words, code, lanes, active))
    found = bank_passes(rows_of(lanes, active, banks * bank_bytes, header))
    return tuple(found[:, i].reshape(lanes.shape[:-1]) for i in (0, 1))


def transactions_of_addresses(addresses, word_bytes, rule, active=None):
    """Return the transactions of one warp's access, and the bytes that they move."""
    cost = simulate_transactions(addresses, word_bytes, rule, active)
    return int(cost.transactions), int(cost.bytes)


def bank_conflicts_of_addresses(addresses, word_bytes=4, *, banks=32, bank_bytes=4, active=None):
    """Return the most words in one bank where all lanes of a warp are served together."""
    lanes = np.atleast_1d(np.asarray(addresses)).astype(np.int64)
    header = (word_bytes, banks, bank_bytes, max(lanes.shape[-1], 1))
    found = bank_passes(rows_of(lanes, active, banks * bank_bytes, header))
    return found[:, 2].reshape(lanes.shape[:-1])


def affine_bank_conflicts(affine, word_bytes, rule):
    """Return the passes of a request, as the mean over all requests of a block."""
    passes, requests = affine_bank_passes(affine, word_bytes, rule)
    return passes / np.where(requests == 0, 1.0, requests)

"""Costs of single warps and blocks, from the functions for many of them."""

import numpy as np

from sweep.hardware.affine_accesses import affine_bank_passes
from sweep.hardware.memory_rules import BANK_RULES, RULES, codes_of
from sweep.hardware.warp_simulation import Cost, bank_passes, warp_transactions


def simulate_transactions(addresses, word_bytes, rule, active=None):
    """Return what the accesses of many warps to global memory cost, from each lane's address."""
    return Cost(*_of_warps(warp_transactions, addresses, active, word_bytes, codes_of(rule, RULES)))


def simulate_bank_conflicts(addresses, word_bytes, rule, active=None):
    """Return passes and requests of the accesses of many warps to shared memory."""
    return _of_warps(bank_passes, addresses, active, word_bytes, codes_of(rule, BANK_RULES))[:2]


def _of_warps(simulate, addresses, active, *columns):
    """Return the three results of a simulation, of the shape of the warps."""
    lanes = np.asarray(addresses, np.int64)
    shape = lanes.shape[:-1]
    takes_part = np.broadcast_to(True if active is None else np.asarray(active), lanes.shape)
    table = [part.reshape(-1, lanes.shape[-1]) for part in (lanes, takes_part)]
    table += [np.broadcast_to(np.asarray(column, np.int64), shape).ravel() for column in columns]
    return tuple(np.moveaxis(simulate(*table).reshape(*shape, 3), -1, 0))


def transactions_of_addresses(addresses, word_bytes, rule, active=None):
    """Return the transactions of one warp's access, and the bytes that they move."""
    cost = simulate_transactions(addresses, word_bytes, rule, active)
    return int(cost.transactions), int(cost.bytes)


def affine_bank_conflicts(affine, word_bytes, rule):
    """Return the passes of a request, as the mean over all requests of a block."""
    passes, requests = affine_bank_passes(affine, word_bytes, rule)
    return passes / np.where(requests == 0, 1.0, requests)

"""Memory transactions of one warp's access, and bank conflicts in shared memory.

How many transactions the addresses of a warp cost depends on the compute capability
(CUDA C Programming Guide; the second rule also Zhang & Owens, HPCA 2011, Section 4.3):

======== =============== ==========================================================================
rule     capability      what a warp's access to global memory costs
======== =============== ==========================================================================
strict   1.0, 1.1        a half-warp whose lanes access consecutive aligned words: one transaction
                         (two for words of 16 bytes); any other: one of 32 bytes for every lane
segment  1.2, 1.3        a half-warp: the segment that holds the address of its first waiting lane,
                         halved while one half holds all, serves every lane in it; and so on
line     2.x             lines of 128 bytes, of every 128 bytes that the warp requests at once
sector   3.0 and later   sectors of 32 bytes of the whole warp
line64   none: AMD       lines of 64 bytes of the whole wavefront (the first cache, GCN to CDNA 2)
======== =============== ==========================================================================

Shared memory serves the lanes of a request at once, unless several distinct words lie in one bank:
the request takes as many passes as the most wanted bank has words (Zhang & Owens, Section 4.2;
CUDA C Programming Guide). Lanes that want the same word share it.

========= ============ ============================================================================
rule      capability   banks and requests
========= ============ ============================================================================
half_warp 1.x          16 banks of 4 bytes; each half-warp is a request
wide_bank 3.x          32 banks of 8 bytes for words of 8 and 16 bytes (the 8-byte mode), of 4 bytes
                       for smaller ones (the mode in which a program starts; that two words 32 words
                       apart can share a pass then is left out); a request is the warp, for words of
                       16 bytes a half-warp
warp      2.x; AMD     32 banks of 4 bytes; a request is the warp, a half-warp for words of 8 bytes,
                       a quarter for 16 (what 2.x needs beyond that for 16 bytes is left out); of a
                       wavefront of AMD 32 lanes, or that share of them
merging   5.0 and      the same, but two such requests of wide words are one where each lane wants
          later        the same word as its neighbour, or each as the one after that
========= ============ ============================================================================

That requests merge is documented nowhere; measured times tell it: operands that half the lanes of
SGEMM share cost half the passes from shared memory (``tests/kernels/test_xgemm.py``). Loads from
global memory that a first-level cache of 7.0 and later serves meet the same banks, without merging.

Addresses come one by one (:func:`transactions_of_addresses`, :func:`simulate_transactions`,
:func:`bank_conflicts_of_addresses`, :func:`simulate_bank_conflicts`), as an affine function of a
thread's place in its block (:func:`affine_transactions`, :func:`affine_bank_passes`), or as a
named pattern (:func:`access_transactions`, :func:`bank_conflict_degree`). All take arrays, and
simulate each distinct warp once.
"""

from __future__ import annotations

from sweep.hardware.access_patterns import PATTERNS, access_transactions, bank_conflict_degree
from sweep.hardware.affine_accesses import (
    Affine,
    affine_bank_conflicts,
    affine_bank_passes,
    affine_transactions,
)
from sweep.hardware.transaction_rules import BANK_RULES, RULES, WORD_BYTES, bank_rule_of, rule_of
from sweep.hardware.warp_addresses import (
    Cost,
    bank_conflicts_of_addresses,
    simulate_bank_conflicts,
    simulate_transactions,
    transactions_of_addresses,
)

__all__ = [
    "BANK_RULES",
    "PATTERNS",
    "RULES",
    "WORD_BYTES",
    "Affine",
    "Cost",
    "access_transactions",
    "affine_bank_conflicts",
    "affine_bank_passes",
    "affine_transactions",
    "bank_conflict_degree",
    "bank_conflicts_of_addresses",
    "bank_rule_of",
    "rule_of",
    "simulate_bank_conflicts",
    "simulate_transactions",
    "transactions_of_addresses",
]

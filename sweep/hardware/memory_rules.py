"""The rules by which a warp's addresses cost memory transactions and passes through banks.

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
line64   AMD: gfx9       lines of 64 bytes of the whole wavefront (GCN, CDNA and CDNA 2)
line128  AMD: gfx94x,    lines of 128 bytes of the whole wavefront (CDNA 3 and later, RDNA)
         gfx10 and later
======== =============== ==========================================================================

AMD's lines are those of the first vector cache in the tables of AMD's Linux driver
(torvalds/linux@01bdb31, drivers/gpu/drm/amd/amdkfd/kfd_crat.c; for gfx94x and gfx11, whose tables
the chip gives without lines, what later versions of that file put). L2 has the same lines, but
for gfx90a, of 128 bytes; what it reads from DRAM for half a line is not told: half a line is taken.

What a request takes in the first-level cache differs from what it costs beyond:

========= ============ ============================================================================
rule      capability   passes through the first-level cache
========= ============ ============================================================================
line      2.x, 3.x     lines of 128 bytes of what the warp requests at once: a half-warp's words of
                       8 bytes, a quarter's of 16 (CUDA C Programming Guide, 2.x, global memory)
texture   5.x, 6.x     requests of 8 lanes, of 4 for words of 8 bytes, of 2 for 16; a request looks
                       up 4 lines of 128 bytes a cycle and takes a quarter of a pass for each four
                       (G. Smith of NVIDIA, https://forums.developer.nvidia.com/t/49571/14)
banks     others       as for shared memory, which from 7.0 on is the same memory; never merged
========= ============ ============================================================================

Not every load may use it (see :data:`PATHS`).

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
constant  constant     one bank: "a request is split into as many separate requests as there are
          memory       different memory addresses" (CUDA C Programming Guide); on AMD, where vector
                       loads serve indices that differ, the rule of shared memory
========= ============ ============================================================================

G. Smith of NVIDIA says that requests merge, of loads from shared memory on 7.0 to 7.5
(https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228). Measured times
show it too: operands that half the lanes of SGEMM share cost half the passes
(``tests/kernels/test_xgemm.py``). Loads from global memory that a first-level cache of 7.0 and
later serves meet the same banks, without merging.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.errors import SpecError, nearest

RULES = ("strict", "segment", "line", "sector", "line64", "texture", "line128")
"""The rules by which addresses of global memory become transactions: NVIDIA's, oldest first, and
AMD's; ``texture`` is of the first-level cache of 5.x and 6.x only."""

BANK_RULES = ("half_warp", "wide_bank", "warp", "merging", "constant")
"""The rules of shared memory banks, and that of constant memory."""

WORD_BYTES = (1, 2, 4, 8, 16)
"""The sizes of the words that one instruction can load or store."""

HALF_WARP = 16
LINE_BYTES = 128

PATHS = ("global", "read_only", "local", "texture", "host")
"""How a load reaches memory: a plain load, one of data declared as read-only (``__ldg``,
``const __restrict__``), one of a thread's local memory, one through a texture, or one of mapped
host memory."""


def _version(compute_capability: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]*)\.([0-9]+)", compute_capability)
    if match is None:
        raise SpecError(f"'{compute_capability}' is no compute capability such as '5.2'")
    return int(match[1]), int(match[2])


def rule_of(target: str) -> str:
    """Return the rule of a compute capability, such as ``"segment"`` for ``"1.3"``.

    Parameters
    ----------
    target : str
        The compute capability, or what AMD's compiler calls the device, such as ``"gfx90a"``;
        ``""`` is a GPU of AMD that this compiler does not know (GCN and older).

    Raises
    ------
    SpecError
        If it is neither.
    """
    if not target or target.startswith("gfx"):
        is_long = re.match(r"gfx(9[45]|1\d)", target) is not None
        return "line128" if is_long else "line64"
    major, minor = _version(target)
    if major == 1:
        return "strict" if minor < 2 else "segment"
    return "line" if major == 2 else "sector"


def bank_rule_of(compute_capability: str, *, local: bool = True) -> str:
    """Return the rule of shared memory, such as ``"half_warp"`` for ``"1.3"``.

    A device without compute capability, given as an empty text, is one of AMD (``"warp"``: its 32
    banks serve a wavefront of 64 as two requests of 32 lanes).

    Parameters
    ----------
    compute_capability : str
        Such as ``"5.2"``.
    local : bool
        Whether the access is to shared memory. Global loads meet the same banks where
        :func:`cache_rule_of` says so, but their requests never merge.

    Raises
    ------
    SpecError
        If it is no compute capability.
    """
    if not compute_capability:
        return "warp"
    major = _version(compute_capability)[0]
    if major >= 5 and local:
        return "merging"
    return {1: "half_warp", 3: "wide_bank"}.get(major, "warp")


def cache_rule_of(compute_capability: str) -> str:
    """Return the rule of passes through the first-level cache: ``line``, ``texture`` or ``banks``.

    Raises
    ------
    SpecError
        If it is no compute capability.
    """
    major = _version(compute_capability)[0] if compute_capability else 0
    return {2: "line", 3: "line", 5: "texture", 6: "texture"}.get(major, "banks")


def is_cached(compute_capability: str, path: str) -> bool:
    """Return whether the first-level cache keeps what a load of one of `PATHS` brings, by default.

    1.x has no such cache. 3.x keeps local memory in L1, and from 3.2 on read-only data in the
    texture cache; "in contrast, GP104 follows Kepler and Maxwell in caching global loads in L2
    only", but GP100 keeps them; Maxwell's "local loads also are cached in L2 only", Pascal keeps
    them (NVIDIA, tuning guides of Kepler, Maxwell and Pascal, 1.4). From 7.0 on, on 2.x and on
    AMD's devices the first cache serves all loads. Textures have a cache everywhere.

    Raises
    ------
    SpecError
        If it is no compute capability.
    """
    version = _version(compute_capability) if compute_capability else (7, 0)
    plain = version >= (7, 0) or version[0] == 2 or version == (6, 0)
    kept = {"global": plain, "host": plain, "texture": True,
            "read_only": version[0] == 2 or version >= (3, 2),
            "local": version[0] not in (1, 5)}  # fmt: skip
    return kept[path]


def codes_of(given: ArrayLike, rules: Sequence[str]) -> NDArray[Any]:
    """Return the place of each name among the rules.

    Raises
    ------
    SpecError
        If a name is not among them.
    """
    names = np.asarray(given).astype(np.str_)
    codes = np.zeros(names.shape, dtype=np.int64)
    for name in np.unique(names):
        check_choice("transaction rule" if rules is RULES else "bank rule", str(name), rules)
        codes[names == name] = rules.index(str(name))
    return codes


def check_choice(what: str, given: str, known: Sequence[str]) -> None:
    """Refuse a name that is not among the known ones.

    Raises
    ------
    SpecError
        Naming the nearest right one.
    """
    if given not in known:
        hint = nearest(given, known)
        raise SpecError(f"unknown {what} '{given}': allowed are {', '.join(known)}{hint}")


def bank_layout(
    addresses: NDArray[Any], active: NDArray[Any], word_bytes: NDArray[Any], code: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """Return banks, bytes of a bank, and lanes that are served together, for each warp.

    Rule ``merging``: if each lane wants the same word as its neighbour (lane xor 1), or as the one
    after that (lane xor 2), two requests of words of 8 or 16 bytes are one.

    Parameters
    ----------
    addresses, active : array, shape (warps, lanes)
        Byte address of each lane's word, and which lanes take part.
    word_bytes, code : array
        Size of a warp's words and place of its rule in `BANK_RULES`.
    """
    is_half_warp, is_wide_bank, is_merging, is_constant = (
        code == BANK_RULES.index(rule) for rule in ("half_warp", "wide_bank", "merging", "constant")
    )
    banks = np.where(is_half_warp, 16, 32)
    bank_bytes = np.where(is_wide_bank & (word_bytes >= 8), 8, 4)
    together = np.where(is_half_warp, HALF_WARP, np.minimum(32, banks * bank_bytes // word_bytes))
    may_merge = is_merging & (word_bytes >= 8)
    if np.any(may_merge):
        lane = np.arange(addresses.shape[1])
        merges = np.zeros(len(addresses), bool)
        for distance in (1, 2):
            other = lane ^ distance
            there = np.minimum(other, len(lane) - 1)
            alone = (other != there) | ~active | ~active[:, there]
            merges |= (alone | (addresses == addresses[:, there])).all(axis=1)
        together = np.where(may_merge & merges, 2 * together, together)
    if np.any(is_constant):
        banks = np.where(is_constant, 1, banks)
        bank_bytes = np.where(is_constant, word_bytes, bank_bytes)
        together = np.where(is_constant, addresses.shape[1], together)
    return banks, bank_bytes, together


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

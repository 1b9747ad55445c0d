"""Which rule a compute capability serves a warp's access by, and what the rules have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.errors import SpecError, nearest

__all__ = [
    "BANK_RULES",
    "RULES",
    "WORD_BYTES",
    "bank_rule_of",
    "check_choice",
    "check_words",
    "codes_of",
    "rule_of",
]

RULES = ("strict", "segment", "line", "sector", "line64")
"""The rules by which addresses of global memory become transactions: NVIDIA's, oldest first, and
AMD's."""

BANK_RULES = ("half_warp", "wide_bank", "warp", "merging")
"""The rules of shared memory banks (see `sweep.hardware.transactions`)."""

WORD_BYTES = (1, 2, 4, 8, 16)
"""The sizes of the words that one instruction can load or store."""


def _version(compute_capability: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9][0-9]*)\.([0-9]+)", compute_capability)
    if match is None:
        raise SpecError(f"'{compute_capability}' is no compute capability such as '5.2'")
    return int(match[1]), int(match[2])


def rule_of(compute_capability: str) -> str:
    """Return the rule of a compute capability, such as ``"segment"`` for ``"1.3"``.

    A device without compute capability, given as an empty text, is one of AMD (``"line64"``).

    Raises
    ------
    SpecError
        If it is no compute capability.
    """
    if not compute_capability:
        return "line64"
    major, minor = _version(compute_capability)
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
        Whether the access is to shared memory. Global loads that a first-level cache serves meet
        the same banks, but their requests never merge.

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


def check_words(word_bytes: ArrayLike) -> NDArray[Any]:
    """Return sizes of words as integers.

    Raises
    ------
    SpecError
        If there is no such word.
    """
    sizes = np.asarray(word_bytes)
    known = np.isin(sizes, WORD_BYTES)
    if not known.all():
        allowed = ", ".join(map(str, WORD_BYTES))
        wrong = np.atleast_1d(sizes)[~np.atleast_1d(known)][0]
        raise SpecError(f"a memory access has words of {allowed} bytes, not {wrong} bytes")
    return sizes.astype(np.int64)


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

"""Names and words from untrusted files, and which names are taken."""

from __future__ import annotations

import keyword
import re

from sweep.errors import SpecError, SweepError
from sweep.expressions import FUNCTIONS
from sweep.fields import COMMON_FIELDS, PROBLEM, STACKED
from sweep.specs.formats import DEVICE_NAMES

MAX_NAME = 100
"""Largest length of the name of a kernel, device, model, parameter or dimension."""

NAME_PATTERN = rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}"
"""Pattern of the names that the author of a kernel file chooses."""

LAUNCH_NAMES = ("threads_per_block", "blocks", "registers_per_thread", "shared_memory_bytes",
                "tensor_memory_columns")  # fmt: skip
"""Names that a plan's constraints may use in addition to those of the kernel."""

_MEANINGS: dict[str, str] = {
    **dict.fromkeys(keyword.kwlist, "it is a word of the expressions' language"),
    **dict.fromkeys(FUNCTIONS, "it is a function of expressions"),
    **dict.fromkeys(LAUNCH_NAMES, "conditions of a plan mean the launch by it"),
    **{name: f"it means {meaning}" for name, meaning in DEVICE_NAMES.items()},
}

RESERVED_NAMES = frozenset(_MEANINGS)
"""Names with another meaning in expressions."""

_DIMENSIONS = ("model", "device", "kernel", "core_clock", "core_clock_ratio", "memory_clock",
               "memory_clock_ratio", "assumed", "power_assumed")  # fmt: skip

RESERVED_DIMENSIONS = frozenset({*_DIMENSIONS, STACKED, PROBLEM, *COMMON_FIELDS})
"""Names with another meaning in a dataset, which sizes and parameters must not have."""


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a size, parameter, derived value or access."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def is_word(text: str) -> bool:
    """Return whether a text can be the value of a parameter: not blank and all printable.

    NumPy drops NUL characters at the end of a word, so two different words would become equal.
    """
    return bool(text.strip()) and text.isprintable()


def check_name(
    name: object, what: str = "name", where: str = "", error: type[SweepError] = SpecError
) -> str:
    """Return a name from an untrusted file, if it is an identifier of bounded length.

    Readers of tuners' files, and writers of files for them, call this before they use a name of a
    kernel, device or parameter.

    Parameters
    ----------
    name : object
        The value that was read.
    what : str
        The kind of name for the message: ``dimension``.
    where : str
        The file and the place in it, for the message.
    error : type of SweepError
        The error to raise.

    Raises
    ------
    SweepError
        The name is not a string, not an identifier of ASCII letters, digits and ``_``, or has more
        than `MAX_NAME` characters.
    """
    if isinstance(name, str) and re.fullmatch(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}", name):
        return name
    shown = repr(name if not isinstance(name, str) else name[:60])[:80]
    reason = f"a {what} is a letter, then letters, digits and _, at most {MAX_NAME} characters"
    raise error(f"{where}: {shown}: {reason}" if where else f"{shown}: {reason}")


def why_not_a_name(name: str, *, dimension: bool) -> str:
    """Return why a name is refused, ``""`` if it is allowed.

    Parameters
    ----------
    name : str
        The name.
    dimension : bool
        Whether it becomes a dimension of the results (sizes and parameters do).
    """
    if not is_name(name):
        if len(name) > MAX_NAME:
            return f"a name has at most {MAX_NAME} characters"
        return "must be a name: a letter, then letters, digits, _"
    meaning = _MEANINGS.get(name, "")
    if not meaning and dimension and name in RESERVED_DIMENSIONS:
        meaning = "the results have something else of that name"
    return f"the name is taken: {meaning}" if meaning else ""

"""Errors meant for people.

Everything a user can do wrong ends in a :class:`SweepError`: one line that names the file, the
key, the value, the unit, the allowed range and the nearest right name. The command line prints it
and exits with code 2; anything else that escapes is a defect of this package.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from typing import Any


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with everything escaped that a terminal would not print as a character.

    Use it wherever text from a file reaches the terminal: escape sequences in a name could move the
    cursor, change the window's title or hide a part of a line.

    Parameters
    ----------
    text : str
        Any text.
    keep : str
        Control characters that stay, such as ``"\n"``.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def counted(n: int, noun: str) -> str:
    """Return a number with its noun in the right form: ``1 chunk``, ``2 chunks``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


class SweepError(ValueError):
    """Base of all errors that a user can cause and correct: one printable line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(" ".join(message.splitlines())))


class SpecError(SweepError):
    """A device or kernel file is wrong: the message names file, key, value and allowed range."""


class PlanError(SweepError):
    """A plan is wrong, or what it asks for cannot be evaluated."""


class ModelError(SweepError):
    """A model's source has something that cannot be lowered: file and line are given."""


class StoreError(SweepError):
    """A store cannot be created, opened, resumed or trusted."""


class UnfinishedWarning(UserWarning):
    """A store is read before its run has finished."""


def warn_if_unfinished(is_finished: bool, store: Any) -> None:
    """Warn that the run of a store has not finished."""
    if not is_finished:
        text = f"'{store}' is unfinished: answers are of what was computed so far;"
        text = printable(f"{text} `sweep run` continues it")
        # With this line as its place, Python shows the warning once for each store, mostly.
        warnings.warn(text, UnfinishedWarning, stacklevel=1)


class QueryError(SweepError):
    """A question does not fit the results it is asked of."""


class TuningError(SweepError):
    """A tuner's file is wrong, or does not fit what it is imported for."""


class ProfileError(SweepError):
    """A profile is wrong, or lacks what a kernel file needs."""


_LONGEST_WORD = 200
_MOST_WORDS = 500


def _plain(word: str) -> str:
    """Return letters and digits only, in lower case."""
    return "".join(filter(str.isalnum, word)).lower()


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known word closest to ``word``, or ``""``.

    A known word that contains it comes first: ``A100`` means ``a100_40gb``, ``time`` means
    ``execution_time``. Case, spaces and underscores do not count.

    Nothing is suggested for a long word or out of very many: comparing them takes too long.
    """
    known = list(known)
    if len(word) > _LONGEST_WORD or len(known) > _MOST_WORDS:
        return ""
    part = _plain(word)
    containing = [name for name in known if len(part) > 2 and part in _plain(name)]
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    swapped = [name for name in found if sorted(name) == sorted(word)]  # 'setp' is step, not stop
    best = sorted(containing, key=len) or swapped or found
    return f"; did you mean '{best[0]}'?" if best else ""


def check_known(
    name: Any,
    known: Iterable[str],
    message: str,
    listed: str = "",
    error: type[SweepError] = QueryError,
) -> None:
    """Refuse a name that is not among the known ones.

    Parameters
    ----------
    name : str
        The name.
    known : iterable of str
        All names.
    message : str
        What is wrong, such as ``"kernel 'saxpy' has no 'M'"``; the nearest name follows it.
    listed : str
        Words before the list of all names, such as ``"it has"``; without them there is no list.
    error : type
        What is raised.
    """
    known = list(known)
    if name not in known:
        names = f" ({listed} {', '.join(known)})" if listed else ""
        raise error(f"{message}{nearest(str(name), known)}{names}")

"""Which files of a store are damaged. A finished one says what it should hold, without Numba."""

from __future__ import annotations

import contextlib
import os

from sweep.store import verify as checks
from sweep.store.root import DamagedRootError, inspect


def verify(store: str | os.PathLike[str]) -> list[checks.Damage]:
    """Return the files of a store that are missing, truncated or changed.

    Parameters
    ----------
    store : path
        A store, finished or not. Findings are recorded in it, if it is writable.

    Returns
    -------
    list of Damage
        The path of each damaged file in the store (``key``) and the damage (``problem``); empty for
        a sound store.

    Raises
    ------
    StoreError
        There is no store.
    """
    layout = None
    with contextlib.suppress(DamagedRootError):  # the check reports it
        info = inspect(store)
        if not info.is_finished:
            from sweep.runs.record import layout_of, space_of

            layout = layout_of(space_of(info.record))
    return checks.verify(store, layout)

"""Which configurations changed between two results: optima, largest changes, fronts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.query.answer import Answer, Row
from sweep.query.changes import Change, changes, checked_tolerance

__all__ = ["changed_configurations", "changed_table"]

OUTCOME = ("what", "before", "after", "change", "regime_before", "regime_after")


def changed_configurations(
    before: Any,
    after: Any,
    n: int = 10,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
) -> Answer:
    """Return which configurations changed between two results: optima, fronts, largest changes.

    Parameters
    ----------
    before, after
        As in :func:`compare_results`.
    n : int
        Configurations to name per kernel, device and model, besides the best before and after:
        those that became valid or invalid, then the largest changes beyond the tolerance, and as
        many that entered or left the time-energy front.
    objective, tolerance
        As in :func:`compare_results`.

    Returns
    -------
    Answer
        A row per configuration: what happened to it, its objective before and after, the relative
        change and its regimes.

    Raises
    ------
    QueryError
        As :func:`compare_results`.
    """
    return changed_table(changes(before, after, objective), n, tolerance)


def changed_table(found: Sequence[Change], n: int, tolerance: float) -> Answer:
    """Return the table of :func:`changed_configurations` for changes that were found before."""
    checked_tolerance(tolerance)
    if n < 0:
        raise QueryError(f"n = {n}: a number of configurations from 0 on")
    rows = [row for change in found for row in _named(change, n, tolerance)]
    names = dict.fromkeys(name for row in rows for name in row if name not in OUTCOME)
    columns = (*names, *OUTCOME)
    return Answer(
        f"changed configurations, {found[0].objective}",
        columns,
        [Row({name: row.get(name) for name in columns}, tuple(names)) for row in rows],
        {"before": found[0].units, "after": found[0].units},
        tuple(names),
    )


def _named(change: Change, n: int, tolerance: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group: the optima, then what changed most, then the fronts."""
    events: dict[int, list[str]] = {}

    def note(number: Any, event: str) -> None:
        events.setdefault(int(number), []).append(event)

    for best, event in zip(change.best(), ("best before", "best after"), strict=True):
        if best.any():
            note(np.argmax(best), event)
    was, now = np.isfinite(change.before), np.isfinite(change.after)
    size = np.where(was ^ now, np.inf, 0.0)
    both = was & now
    ratio = change.ratio
    size[both] = np.where(np.abs(ratio - 1.0) > tolerance, np.abs(np.log(ratio)), 0.0)
    for number in np.argsort(-size, kind="stable")[:n]:
        if size[number] > 0.0:
            note(number, _event(change, int(number)))
    fronts = change.fronts()
    if fronts is not None:
        for number in sorted(fronts[0] ^ fronts[1])[:n]:
            note(number, "left the front" if number in fronts[0] else "joined the front")
    for number, happened in events.items():
        yield _row_of(change, number, ", ".join(happened))


def _event(change: Change, number: int) -> str:
    """Return in words what happened to a configuration's objective."""
    one, other = change.before[number], change.after[number]
    if np.isfinite(one) and np.isfinite(other):
        return "slower" if other > one else "faster"
    return "became valid" if np.isfinite(other) else "became invalid"


def _row_of(change: Change, number: int, happened: str) -> dict[str, Any]:
    """Return a configuration and what happened to it as a row."""
    one, other = float(change.before[number]), float(change.after[number])
    regimes = (change.before_regimes, change.after_regimes)
    return {
        "kernel": change.kernel,
        "device": change.device,
        "model": change.model,
        **change.configuration(number),
        "what": happened,
        "before": one if np.isfinite(one) else None,
        "after": other if np.isfinite(other) else None,
        "change": other / one - 1.0 if np.isfinite(one) and np.isfinite(other) else None,
        "regime_before": None if regimes[0] is None else str(regimes[0][number]),
        "regime_after": None if regimes[1] is None else str(regimes[1][number]),
    }

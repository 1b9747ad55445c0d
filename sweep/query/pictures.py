"""What prints in place of many rows: bars of a histogram, and one row for each kind of the best."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sweep.errors import counted
from sweep.query.answer import Answer, Row, rows_by
from sweep.query.grid import CLOCKS
from sweep.query.texts import bar, number, quantity, sparkline

BARS = 40
"""Most bars of a group; more bins than that share a bar."""

NEAR = 0.01
"""Relative difference of objectives up to which other clocks are no row of their own."""

MOST = 60
"""Characters of the names that a note proposes at most."""

BINS = ("lowest", "highest")


def pictured(answer: Answer, hint: str) -> Answer:
    """Return a histogram with bars: a row for each bin of one group, or for each of several groups.

    Parameters
    ----------
    answer : Answer
        Of :func:`sweep.query.histogram`.
    hint : str
        How to see all rows.
    """
    by = answer.coordinates
    groups = rows_by(answer, by)
    if len(groups) < 2:
        return _of_one(answer, hint)
    of_codes = BINS[0] not in answer.columns
    rows = [
        dict(zip(by, key, strict=True))
        | (_shares(own, str(answer.marked)) if of_codes else _line(own))
        for key, own in groups.items()
    ]
    title = answer.title if of_codes else f"{answer.title}; {_range(answer)}"
    return Answer.of(title, rows, by, answer.units, answer.notes)


def _of_one(answer: Answer, hint: str) -> Answer:
    """Return one group's histogram with a bar in each row."""
    of_codes = BINS[0] not in answer.columns
    rows = [row for row in answer if of_codes or not _has_no_value(row)]
    joined = rows if of_codes else _joined(rows)
    most = max((row["count"] for row in joined), default=0)
    each = [
        dict(row) | {"share": _percent(row["share"]), "bar": bar(row["count"] / most) or " "}
        for row in joined
        if row["count"] or (most and not of_codes)
    ]
    notes = list(answer.notes)
    without = sum(row["count"] for row in answer) - sum(row["count"] for row in rows)
    if without:
        has = "has" if without == 1 else "have"
        notes.append(f"{counted(without, 'configuration')} {has} no value")
    if len(joined) < len(rows):
        notes.append(f"a bar is up to {math.ceil(len(rows) / BARS)} of {len(rows)} bins ({hint})")
    columns = (*answer.columns, "bar")
    return Answer.of(answer.title, each, answer.coordinates, answer.units, notes, columns)


def _has_no_value(row: Row) -> bool:
    return row["lowest"] is None and row["highest"] is None


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3g} %"


def _joined(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows of bins, several neighbours as one where there are too many."""
    inside = [row for row in rows if None not in (row["lowest"], row["highest"])]
    step = math.ceil(len(inside) / BARS) or 1
    if step == 1:
        return [dict(row) for row in rows]
    found = [dict(row) for row in rows if row["lowest"] is None and row["highest"] is not None]
    for start in range(0, len(inside), step):
        own = inside[start : start + step]
        shares = [row["share"] for row in own if row["share"] is not None]
        count = sum(row["count"] for row in own)
        found.append(dict(own[0]) | {"highest": own[-1]["highest"], "count": count,
                                     "share": sum(shares) if shares else None})  # fmt: skip
    return found + [dict(row) for row in rows if row["highest"] is None and not _has_no_value(row)]


def _shares(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """Return a group's number of configurations and the shares of codes, the commonest first."""
    ordered = sorted(rows, key=lambda row: -row["count"])
    shares = {row[name]: float(row["share"]) for row in ordered if row["count"]}
    return {"points": sum(row["count"] for row in rows), name: shares}


def _line(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many numbers a group has, how many are in no bin, and a line of bars."""
    bins = [row["count"] for row in _joined(rows) if None not in (row["lowest"], row["highest"])]
    valid = sum(row["count"] for row in rows if row["share"] is not None)
    outside = {"outside": valid - sum(bins)} if valid > sum(bins) else {}
    return {"valid": valid} | outside | {"histogram": sparkline(bins)}


def _range(answer: Answer) -> str:
    """Return in words where the bins begin and end."""
    lowest = [value for value in answer.column("lowest") if value is not None]
    highest = [value for value in answer.column("highest") if value is not None]
    bins = len({row["lowest"] for row in answer if None not in (row["lowest"], row["highest"])})
    low, high = (quantity(end, answer.units.get("lowest", ""))
                 for end in (min(lowest), max(highest)))  # fmt: skip
    return f"{bins} bins from {low} to {high}"


def folded(answer: Answer, by: Sequence[str], dims: Collection[str], hint: str) -> Answer:
    """Return the best rows without those that say what a better row of their group says.

    A row is folded if all its results print like a better one's, or if it differs from a better
    one in nothing but the clocks and its objective is within :data:`NEAR` of that one's.

    Parameters
    ----------
    answer : Answer
        Of :func:`sweep.query.top`.
    by : sequence of str
        Dimensions whose values are groups of their own.
    dims : collection of str
        All dimensions, of which the note proposes some.
    hint : str
        How to see all rows.
    """
    free = [name for name in answer.coordinates if name not in CLOCKS]
    apart = [name for name in free if name in {*by, "kernel", "device", "model"}]
    apart += [name for name in answer.columns if name not in (*answer.coordinates, "rank")]
    main = str(answer.marked)
    best: dict[str, float] = {}
    seen: set[str] = set()
    kept = []
    for row in answer:
        place = repr([row[name] for name in free])
        results = repr([number(row[name]) for name in apart])
        is_near = place in best and abs(row[main] - best[place]) <= NEAR * abs(best[place])
        if not is_near:
            best[place] = row[main]
            if results not in seen:
                kept.append(row)
        seen.add(results)
    if len(kept) == len(answer):
        return answer
    swept = [n for n in free if n in dims and n not in by and answer[0][n] is not None]
    names = [name for name in swept if len({row[name] for row in kept}) > 1] or swept
    words = names if 0 < sum(map(len, names)) < MOST else ["NAME", "..."]
    option = f"--distinct {','.join(words)}" if "--" in hint else f"distinct={words}"
    note = (
        f"{len(answer) - len(kept)} of {len(answer)} rows left out, which tie with a better row or"
        f" are within {100 * NEAR:g} % of it at other clocks ({hint}); other rows: {option}"
    )
    return replace(answer, rows=kept, notes=(note, *answer.notes))

"""An answer as people read it: a table that fits the output, and what to know about it.

Values that all rows share stand above the table. Groups without any result are one line below it.
Where the columns do not fit, kernels with parameters of their own get a table each; what is still
too wide is shortened or left out, and a line names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweep.query.table import Column, Fitted, fitted, lines_of
from sweep.query.texts import (
    ELLIPSIS,
    NoResult,
    Stars,
    in_words,
    listed,
    number,
    percent,
    quantity,
    scaled,
    terminal_width,
    wrapped,
)

Answer = Any
"""A :class:`sweep.query.answer.Answer`, whose module imports this one."""
Row = Mapping[str, Any]

NOTES = 3
"""Most footnotes of a table; the other forms have all."""
NOTE_LENGTH = 200
"""Characters of a note that are shown whole, in two lines or in more narrower ones."""
NAMED = 6
"""Places without a result that the line about them names, for each reason and model."""
AGREEING = 1.5
"""Factor between the bests of several models above which a note says so."""
SHARES = frozenset({"runner_up", "loss_of_first", "loss_of_second", "largest_slowdown",
                    "largest_speedup", "optimum_change", "change", "cost_of_median",
                    "cost_of_worst", "regret_95", "regret_mean", "loss_mean", "loss_p90",
                    "loss_max"})  # fmt: skip
"""Columns that tables show in percent."""
COUNTS = ("valid", "configurations")
"""Columns that are 0 in a group without any result."""
IN_PYTHON = "all: to_table(wide=True)"


@dataclass(frozen=True)
class Layout:
    """The parts of an answer's text."""

    above: list[str]
    tables: list[tuple[str, list[Column]]]
    below: list[str]


def text(
    answer: Answer, width: int | None = None, *, wide: bool = False, hint: str = IN_PYTHON
) -> str:
    """Return an answer as text.

    Parameters
    ----------
    answer : Answer
        What to show.
    width : int, optional
        Characters of a line; by default as :func:`sweep.query.texts.terminal_width`.
    wide : bool
        Whether all columns and notes are shown, however wide.
    hint : str
        How to see what is not shown.
    """
    answer = answer.picture(hint) if answer.picture and not wide else answer
    limit = None if wide else width or terminal_width()
    parts = layout(answer, limit, hint)
    lines = list(parts.above)
    for number_, (title, columns) in enumerate(parts.tables):
        if title:
            lines += [*([""] if number_ else []), *wrapped(title, limit)]
        lines += lines_of(columns)
    return "\n".join([*lines, *parts.below])


def layout(answer: Answer, width: int | None, hint: str = "", *, by_kernel: bool = False) -> Layout:
    """Return what stands above an answer's tables, the tables, and what stands below.

    Each kernel gets its own table if one table would be wider than ``width``, or with
    ``by_kernel``.
    """
    rows, absent = with_result(answer)
    above = wrapped(answer.title, width) if answer.title else []
    tables: list[tuple[str, list[Column]]] = []
    missing: list[str] = []
    names: set[str] = set()
    is_starred = False
    if rows:
        columns, shared = columns_of(answer, rows)
        above += wrapped(f"all rows: {shared}", width) if shared else []
        tables, missing = _tables(answer, rows, columns, width, by_kernel)
        names = {column.name for _, columns in tables for column in columns}
        texts = (text for _, columns in tables for column in columns for text in column.texts)
        is_starred = any("*" in text for text in (*texts, shared, *(title for title, _ in tables)))
    elif not absent:
        above.append("(no rows)")
    below = wrapped(absent, width) if absent else []
    notes = [n for n in _notes(answer, names) if is_starred or not isinstance(n, Stars)]
    if width is not None and len(notes) > NOTES:
        further, notes = len(notes) - NOTES, notes[:NOTES]
        missing.append(f"{further} more {'note' if further == 1 else 'notes'}")
    shown = note_lines(notes, width)
    if any(line.endswith(ELLIPSIS) for line in shown):
        missing.append("notes shortened")
    below += shown
    if missing:
        below += wrapped(f"{'; '.join(missing)}{f' ({hint})' if hint else ''}", width)
    return Layout(above, tables, below)


def note_lines(notes: Iterable[str], width: int | None) -> list[str]:
    """Return notes in lines; the ends of long ones are missing where there is a width."""
    most = max(2, -(-NOTE_LENGTH // width)) if width else None
    return [line for note in notes for line in wrapped(note, width, most)]


def _notes(answer: Answer, names: Iterable[str]) -> list[str]:
    """Return the legend of the columns that have one, then the notes, those of stars first."""
    names = list(names)
    known = [
        f"{name}: {meaning}"
        for name, meaning in answer.legend.items()
        if any(n == name or (name.endswith("_K") and n.startswith(name[:-1])) for n in names)
    ]
    notes = sorted(answer.notes, key=lambda note: not isinstance(note, Stars))
    return [*(["; ".join(known)] if known else []), *notes]


# ---------------------------------------------------------------------------- tables


def _tables(
    answer: Answer, rows: Sequence[Row], columns: list[Column], width: int | None, by_kernel: bool
) -> tuple[list[tuple[str, list[Column]]], list[str]]:
    """Return one table, or one for each kernel, and what they do not show."""
    if answer.is_chosen:
        return [("", columns)], []
    one = fitted(columns, width, _kept(answer, columns), answer.marked)
    if len(rows) == 1 and one.left_out:  # a line for each value shows them all
        texts = [f"{c.texts[0].strip()} {c.unit}".strip() for c in columns]
        lines = [Column("column", "", [c.name for c in columns]), Column("value", "", texts)]
        one = fitted(lines, width, {"column", "value"})
    found: list[tuple[str, Fitted]] = [("", one)]
    if (by_kernel or not one.is_whole) and any(c.name == "configuration" for c in columns):
        least = 2 if by_kernel or "configuration" in one.cut else 3
        found = _by_kernel(answer, rows, width, least) or found
    left_out = dict.fromkeys(name for _, fit in found for name in fit.left_out)
    cut = dict.fromkeys(name for _, fit in found for name in fit.cut)
    missing = [f"columns left out: {', '.join(left_out)}"] if left_out else []
    missing += [f"shortened: {', '.join(cut)}"] if cut else []
    return [(title, fit.columns) for title, fit in found], missing


def _kept(answer: Answer, columns: Sequence[Column]) -> set[str]:
    """Return the columns that say what a row is about, and its first result."""
    clocks = [f"{domain}_clock_ratio" for domain in ("core", "memory")]
    redundant = {name for name in clocks if name.removesuffix("_ratio") in answer.columns}
    names = {"rank", "configuration", "verdict", answer.marked, *answer.coordinates}.difference(
        redundant
    )
    return {column.name for column in columns if column.name in names}


def _by_kernel(
    answer: Answer, rows: Sequence[Row], width: int | None, least: int
) -> list[tuple[str, Fitted]]:
    """Return a table for each kernel, under its name and what its rows share.

    None where kernels alternate, or have fewer rows than ``least`` on average.
    """
    kernels = [row.get("kernel") for row in rows]
    names = list(dict.fromkeys(kernels))
    changes = sum(a != b for a, b in zip(kernels, kernels[1:], strict=False))
    if changes != len(names) - 1 or least * len(names) > len(rows):
        return []
    above = {name for name in answer.coordinates if len({row[name] for row in rows}) == 1}
    found = []
    for name in names:
        own = [row for row in rows if row["kernel"] == name]
        inside, shared = columns_of(answer, own, without={"kernel", *above})
        fit = fitted(inside, width, _kept(answer, inside), answer.marked)
        found.append((f"{name}: {shared}" if shared else str(name), fit))
    return found


def columns_of(
    answer: Answer, rows: Sequence[Row], without: Iterable[str] = ()
) -> tuple[list[Column], str]:
    """Return the columns of a table, and in words the values that all its rows share.

    Parameters
    ----------
    answer : Answer
        What is shown.
    rows : sequence of Row
        Those of the table.
    without : iterable of str
        Columns that are not shown.
    """
    if answer.is_chosen:
        return [_column(answer, rows, name) for name in answer.columns], ""
    hidden = {"rests_on_assumed", *without, *["status"] * (not _counts_statuses(answer))}
    values = {c: [row[c] for row in rows] for c in answer.columns if c not in hidden}
    names = [c for c in values if any(value is not None for value in values[c])]
    apart = ("rank", answer.marked) if rows[1:] else names
    shared = [c for c in names if c not in apart and all(v == values[c][0] for v in values[c])]
    # Coordinates that only some kernels have share a column.
    partial = [c for c in answer.coordinates if c in names and None in values[c]]
    columns: list[Column] = []
    for name in names:
        if name in partial[:1]:
            texts = [
                " ".join(_assignment(c, row[c], answer) for c in partial if row[c] is not None)
                for row in rows
            ]
            columns.append(Column("configuration", "", [text or "-" for text in texts]))
        elif name not in (*shared, *partial):
            columns.append(_column(answer, rows, name))
    said = re.split("[,;] ", answer.title)
    texts = [_assignment(name, rows[0][name], answer, rows[0]) for name in shared]
    return columns, ", ".join(text for text in texts if text not in said)


def _assignment(name: str, value: Any, answer: Answer, row: Row | None = None) -> str:
    unit = answer.units.get(name, "1")
    factor = 1.0
    if name not in answer.coordinates and isinstance(value, float):
        factor, unit = scaled([value], unit)
    shown = _share(name, value) if name in SHARES.difference(answer.coordinates) else number(
        value / factor if isinstance(value, float) else value)  # fmt: skip
    star = "*" if row is not None and name in answer.stars_of(row) else ""
    return f"{name}={shown}{star}" + ("" if unit in ("", "1") else f" {unit}")


def _column(answer: Answer, rows: Sequence[Row], name: str) -> Column:
    """Return one column of results or coordinates, its numbers scaled, with their stars."""
    values = [row[name] for row in rows]
    if name in SHARES.difference(answer.coordinates):
        return Column(name, "", [_share(name, value) for value in values])
    unit, factor = answer.units.get(name, ""), 1.0
    numbers = [value for value in values if isinstance(value, int | float)]
    if name not in answer.coordinates:
        factor, unit = scaled(numbers, unit) if numbers else (1.0, "")
    texts = [_text(v / factor if isinstance(v, float) else v, unit) for v in values]
    stars = [name in answer.stars_of(row) for row in rows]
    if any(stars):
        plain = "" if any(isinstance(value, str) for value in values) else " "
        texts = [t + ("*" if star else plain) for t, star in zip(texts, stars, strict=True)]
    return Column(name, "" if unit == "1" else unit, texts)


def _share(name: str, value: Any) -> str:
    """Return a share in percent; none of a runner-up is a tie."""
    return "tie" if name == "runner_up" and value == 0 else percent(value)


def _text(value: Any, unit: str) -> str:
    """Return a value; statistics, which have no unit, in three digits."""
    is_statistic = isinstance(value, float) and not unit and abs(value) < 100
    return number(value, 3) if is_statistic else number(value)


# ---------------------------------------------------------------------------- without a result


def with_result(answer: Answer) -> tuple[list[Row], NoResult]:
    """Return the rows that have a result, and the line about groups without any."""
    whole = answer if answer.whole is None else answer.whole  # chosen columns need not say why
    if _counts_statuses(whole):
        return list(answer), NoResult("")
    rows = [row for row, of in zip(answer, whole, strict=True) if reason_of(of) is None]
    return rows, absent_line(whole.rows, whole.coordinates)


def _counts_statuses(answer: Answer) -> bool:
    """Return whether statuses are what was counted, not reasons."""
    return "status" in answer.columns and answer.marked in ("status", "points")


def reason_of(row: Mapping[str, Any]) -> str | None:
    """Return why a row is about a group without any result; None if it has one."""
    status = row.get("status")
    if status not in (None, "valid"):
        return str(status)
    if any(name in row and row[name] == 0 for name in COUNTS):
        return furthest(row.get("statuses") or (), "no value")
    return None


def furthest(reasons: Iterable[str], none: str) -> str:
    """Return the first of reasons, commonest first, whose configurations came furthest.

    Power comes last, after the time. Combinations that constraints exclude are no candidates.
    """
    return max(reasons, key=lambda r: r.startswith("power: ") - (r == "constraint"), default=none)


def absent_line(rows: Sequence[Row], coordinates: Sequence[str]) -> NoResult:
    """Return the line about groups without any result; empty if all have one.

    Parameters
    ----------
    rows : sequence of Row
        Of all groups.
    coordinates : sequence of str
        The columns that may say which group a row is about.
    """
    empty = [(reason, row) for row in rows if (reason := reason_of(row)) is not None]
    kernels = {row.get("kernel") for row in rows}
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for reason, row in empty:
        named = {name: row[name] for name in coordinates if row.get(name) is not None}
        model = str(named.pop("model", row.get("ranking", "")))
        kernel = str(named.pop("kernel", ""))
        places.setdefault((reason, model), {}).setdefault(in_words(named), []).append(kernel)
    models: dict[tuple[str, str, str], list[str]] = {}
    for (reason, model), devices in places.items():
        words = [
            device if len(own) == len(kernels) and device
            else f"{listed(own, NAMED)} on {device}" if device and any(own)
            else listed(own, NAMED)
            for device, own in devices.items()
        ]  # fmt: skip
        joint = " on " if all(word in devices for word in words) else ": "
        models.setdefault((reason, joint, listed(words, NAMED)), []).append(model)
    texts = []
    for (reason, joint, where), names in models.items():
        place = joint.join(filter(None, [", ".join(filter(None, names)), where]))
        texts.append(f"{place} ({reason})" if place else reason)
    groups = f" for {len(empty)} of {len(rows)} groups" if rows[1:] else ""
    return NoResult(f"no result{groups}: {'; '.join(texts)}" if texts else "")


# ---------------------------------------------------------------------------- models


def models_apart(answer: Answer, by: Sequence[str]) -> list[str]:
    """Return the note that names the largest factor between models, if they differ by much."""
    if "model" not in by or answer.marked is None:
        return []
    others = [name for name in by if name != "model"]
    places: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in answer:
        if 0 < (row[answer.marked] or 0) < math.inf:
            key = tuple(row[name] for name in others)
            places.setdefault(key, {})[row["model"]] = row[answer.marked]
    ends = {key: sorted((v, k) for k, v in of.items()) for key, of in places.items()}
    factors = {key: of[-1][0] / of[0][0] for key, of in ends.items() if len(of) > 1}
    far = {key: factor for key, factor in factors.items() if factor > AGREEING}
    if not far:
        return []
    most = max(far, key=far.__getitem__)
    unit = answer.units.get(answer.marked, "")
    values = (
        f"{model} {quantity(value, unit)}" for value, model in (ends[most][0], ends[most][-1])
    )
    where = in_words(dict(zip(others, most, strict=True)))
    return [
        f"models differ up to {far[most]:.3g}-fold{f' ({where})' if where else ''}:"
        f" {', '.join(values)}; more than {AGREEING:g}-fold in {len(far)} of {len(factors)} groups"
    ]

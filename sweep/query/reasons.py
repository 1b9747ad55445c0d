"""Why a group has no answer: the commonest status of what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from functools import partial

import numpy as np

from sweep.query._threads import each
from sweep.query.cells import cells_of
from sweep.query.question import Question
from sweep.query.view import Block, View

__all__ = ["why_empty"]

NO_REASON = 256  # the status is valid: there merely is no value
N_REASONS = 512


def why_empty(question: Question, empty: Set[int]) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return why groups have no valid configuration.

    Parameters
    ----------
    question : Question
        What was asked.
    empty : set of int
        Numbers of groups without an answer.

    Returns
    -------
    reasons : dict
        Number to the commonest status among the configurations that selection and condition leave;
        where a condition on results leaves nothing because all are invalid, among all of them.
    notes : tuple of str
        Names the groups that have nothing to do with the question: none of their configurations
        satisfies the condition.
    """
    satisfied: dict[int, Counter[str]] = {number: Counter() for number in sorted(empty)}
    selected: dict[int, Counter[str]] = {number: Counter() for number in sorted(empty)}
    on_results: dict[int, bool] = {}
    for view, numbers in zip(question.views, question.numbers, strict=True):
        local = np.flatnonzero(np.isin(numbers, list(empty)))
        if not local.size:
            continue
        of_view = bool(view.condition and view.condition.variables)
        on_results.update(dict.fromkeys(numbers[local].tolist(), of_view))
        absent = view.grouping.absent()
        if absent is not None:  # what a list leaves out, mostly since it violates a constraint
            for group in local.tolist():
                number, left_out = int(numbers[group]), int(absent[group])
                why = {view.grid.absent: left_out} if left_out else {}
                selected[number].update(why)
                if view.condition is None:
                    satisfied[number].update(why)
        known = _from_index(view, local)
        if known is not None:
            for group, counted in known.items():
                satisfied[int(numbers[group])].update(counted)
                selected[int(numbers[group])].update(counted)
            continue
        count = partial(_count, view, set(local.tolist()))
        for groups, kept, everything in each(count, view.blocks()):
            for group, some, every in zip(groups, kept, everything, strict=True):
                number = int(numbers[group])
                satisfied[number].update(_named(view, some))
                selected[number].update(_named(view, every))
    reasons, missing = {}, []
    for number in sorted(empty):
        invalid = "no value" not in selected[number]
        if satisfied[number]:
            reasons[number] = _commonest(satisfied[number])
        elif on_results.get(number) and invalid and selected[number]:
            reasons[number] = _commonest(selected[number])
        else:
            missing.append(number)
    note = f"no configuration satisfies the condition{question.named(missing)}"
    return reasons, (note,) if missing else ()


def _commonest(reasons: Counter[str]) -> str:
    """Return what occurs most often; of several the first word."""
    return min(reasons, key=lambda reason: (-reasons[reason], reason))


def _from_index(view: View, groups: np.ndarray) -> dict[int, dict[str, int]] | None:
    """Return how often each reason occurs in groups that the index of a store knows whole."""
    cells = cells_of(view)
    if cells is None or not cells.is_grouped:
        return None
    wanted = cells.selected & np.isin(cells.groups, groups)
    if not (cells.is_whole | ~wanted).all() or "status" not in view.status_names:
        return None
    counts = {code: n for code, n in cells.counts("status").items() if code}
    timed = {NO_REASON: cells.counts("status").get(0, np.zeros(cells.shape, np.int64))}
    if "power_status" in view.status_names:
        timed = {NO_REASON + code: n for code, n in cells.counts("power_status").items()}
    found: dict[int, dict[str, int]] = {int(group): {} for group in groups}
    for reason, n in {**counts, **timed}.items():
        sums = np.bincount(cells.groups[wanted], n[wanted], minlength=view.groups)
        for group in groups[sums[groups] > 0].tolist():
            found[group][view.reason_name(reason)] = int(sums[group])
    return found


def _count(
    view: View, wanted: Set[int], block: Block
) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """Return the wanted groups of a block with how often each reason occurs."""
    if not wanted & set(view.group_ids(block).tolist()):
        return [], [], []
    groups, reasons, satisfied = view.reasons(block)
    rows = [row for row, group in enumerate(groups.tolist()) if group in wanted]
    kept = [np.bincount(reasons[r][satisfied[r]], minlength=N_REASONS) for r in rows]
    everything = [np.bincount(reasons[r][reasons[r] >= 0], minlength=N_REASONS) for r in rows]
    return [int(groups[r]) for r in rows], kept, everything


def _named(view: View, counts: np.ndarray) -> dict[str, int]:
    return {view.reason_name(int(r)): int(counts[r]) for r in np.flatnonzero(counts)}

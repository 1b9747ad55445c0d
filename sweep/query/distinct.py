"""The best configurations that differ in chosen dimensions: each combination by its best member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sweep.errors import QueryError
from sweep.query.question import MAX_ROWS, Question
from sweep.query.reduce import reduce
from sweep.reduction import Keep, Kept


def distinct_best(question: Question, by: Sequence[str], n: int) -> tuple[Question, Kept]:
    """Return the best configuration of each of the ``n`` best combinations.

    Parameters
    ----------
    question : Question
        Asked by the groups' dimensions and, after them, those that must differ.
    by : sequence of str
        The groups' dimensions alone.
    n : int
        How many combinations of each group.

    Returns
    -------
    question : Question
        Asked by the groups' dimensions alone.
    kept : Kept
        As :func:`sweep.query.reduce.reduce` for it: of equal combinations, and of equal
        configurations of one, the first in dimension order.

    Raises
    ------
    QueryError
        There are more combinations than :data:`sweep.query.question.MAX_ROWS`.
    """
    combinations = sum(part.size for part in question.parts)
    if combinations > MAX_ROWS:
        raise QueryError(
            f"{combinations:,} combinations of {', '.join(question.by)} are too many to compare:"
            " name fewer dimensions, or select some values"
        )
    parts = [replace(p, by=tuple(name for name in p.by if name in by)) for p in question.parts]
    outer = replace(question, parts=parts, by=tuple(by))
    found = reduce(question, Keep("smallest", 1))
    groups = np.array([outer.groups[key[: len(by)]] for key in question.groups], np.int64)
    keep = Keep("smallest", n)
    return outer, keep.merged([found._replace(groups=groups[found.groups])])

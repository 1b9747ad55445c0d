"""A thinned-out cloud of configurations, for pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.query._threads import each
from sweep.query.question import Question
from sweep.query.view import Block, View

__all__ = ["cloud"]

Array = NDArray[Any]

MAX_BLOCKS = 64  # of large results only blocks spread over the space are read


def cloud(question: Question, n: int) -> dict[tuple[Any, ...], tuple[Array, ...]]:
    """Return some valid configurations of each group, always the same ones.

    Parameters
    ----------
    question : Question
        What was asked; its objectives give the columns.
    n : int
        About how many in all.

    Returns
    -------
    dict
        The group's values of ``by`` to one array per objective, in the objectives' own sign.
    """
    found: dict[int, list[tuple[Array, ...]]] = {}
    for view, numbers in zip(question.views, question.numbers, strict=True):
        blocks = view.blocks()
        chosen = np.linspace(0, len(blocks) - 1, min(len(blocks), MAX_BLOCKS)).astype(int)
        share = max(1, n // (len(chosen) * len(question.views)))
        for parts in each(partial(_thinned, view, share), [blocks[i] for i in chosen]):
            for group, columns in parts:
                found.setdefault(int(numbers[group]), []).append(columns)
    keys = {number: key for key, number in question.groups.items()}
    return {
        keys[number]: tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        for number, parts in sorted(found.items())
    }


def _thinned(view: View, share: int, block: Block) -> list[tuple[int, tuple[Array, ...]]]:
    """Return some valid configurations of a block, group by group."""
    slab = view.slab(block)
    if slab is None:
        return []
    found = []
    per_group = max(1, share // len(slab.groups))
    for row, group in enumerate(slab.groups.tolist()):
        columns = [column[row] for column in slab.columns]
        valid = np.flatnonzero(~np.logical_or.reduce([np.isnan(c) for c in columns]))
        # An odd step, since axes often have an even number of values: it meets all of them.
        step = max(1, valid.size // per_group) | 1
        points = valid[::step]
        signed = zip(columns, view.signs, strict=True)
        found.append((group, tuple(sign * column[points] for column, sign in signed)))
    return found

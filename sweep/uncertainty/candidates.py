"""The configurations whose times are examined: the best of each group with the files' numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sweep import query
from sweep.errors import QueryError
from sweep.evaluation.planned import Planned
from sweep.query.answer import Row, rows_by
from sweep.query.question import DEFAULT_BY
from sweep.runs.record import Source, space_behind
from sweep.space import Space
from sweep.store.buckets import is_store


def candidates(
    data: Source,
    n: int,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    select: Mapping[str, Any] | None = None,
) -> tuple[Space, list[list[Row]]]:
    """Return a space, and the ``n`` best configurations of each of its groups.

    Parameters
    ----------
    data : Plan, Space, str or path
        A plan, its name or path, or a store's path.
    n : int
        How many of each kernel, device and model, and of each value of ``by``.
    by, where, select
        As in :func:`sweep.top`.

    Raises
    ------
    QueryError
        No configuration has a time.
    """
    space = space_behind(data)
    is_path = isinstance(data, str | os.PathLike) and is_store(data)
    results = data if is_path else Planned.of(space)
    names = tuple(dict.fromkeys((*DEFAULT_BY, *by)))
    groups = rows_by(query.top(results, n, by=names, where=where, select=select), names)
    if not groups:
        status = query.best(results, by=names, where=where, select=select)[0]["status"]
        raise QueryError(f"no configuration has a time, so nothing can be said of it ({status})")
    return space, list(groups.values())

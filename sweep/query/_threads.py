"""Blocks in threads: NumPy, decompression and dask release the interpreter while they work."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["each"]

T = TypeVar("T")
R = TypeVar("R")


def _workers() -> int:
    """Return how many blocks are in work at once."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, 8)


def each(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield ``function(item)`` in the order of the items, with a few items in work at a time.

    Memory stays bounded: a new item begins only when a result has been taken and used. What items
    there still are may therefore depend on the results.
    """
    remaining = iter(items)
    first = list(islice(remaining, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    further = max(_workers() - 2, 0)
    with ThreadPoolExecutor(further + 2, thread_name_prefix="sweep-query") as pool:
        pending: deque[Future[R]] = deque(pool.submit(function, item) for item in first)
        pending.extend(pool.submit(function, item) for item in islice(remaining, further))
        try:
            while pending:
                yield pending.popleft().result()
                pending.extend(pool.submit(function, item) for item in islice(remaining, 1))
        finally:
            for future in pending:
                future.cancel()

"""Where a question's results come from: a store, results in memory, or a plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sweep.errors import QueryError
from sweep.query.grid import Grid
from sweep.reduction import Reducible
from sweep.store import files_of, is_url, open_groups

__all__ = ["grids_of", "grids_of_store"]


def grids_of(data: Any) -> list[Grid]:
    """Return the grids of results, one per kernel.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping of str to Dataset, or path
        Results in memory, lazy, or the path of a store.

    Returns
    -------
    list of Grid
        In the order of the kernels' names.

    Raises
    ------
    QueryError
        There are no results in it.
    """
    if isinstance(data, str | os.PathLike):
        return grids_of_store(*_identity(data))
    planned = data if isinstance(data, Reducible) else None
    data = data if planned is None else planned.results
    import xarray as xr

    if isinstance(data, xr.Dataset):
        found = {str(data.attrs.get("kernel", "kernel")): data}
    elif isinstance(data, xr.DataTree):
        # A store's root holds no results, but an index of its chunks.
        nodes = [n for n in data.subtree if n.data_vars and not n.children]
        found = {str(n.attrs.get("kernel", n.name or "kernel")): n.to_dataset() for n in nodes}
    elif isinstance(data, Mapping):
        found = {str(name): dataset for name, dataset in data.items()}
    else:
        raise QueryError(f"cannot query a {type(data).__name__}: give a store, DataTree or Dataset")
    if not any(dataset.data_vars for dataset in found.values()):
        raise QueryError("there are no results to query")
    # A store lists its groups by name, a tree in memory does not: the order must not depend on it.
    return [Grid(kernel, found[kernel], planned) for kernel in sorted(found)]


def _identity(data: str | os.PathLike[str]) -> tuple[Any, tuple[Any, ...]]:
    """Return a store's path, and what changes with its root record."""
    files = files_of(data)
    mark = files.mark("zarr.json")
    # Opening what is not there explains what is wrong, with the name that the user gave.
    return (Path(data), ()) if mark is None and not is_url(data) else (files.root, (mark,))


@lru_cache(maxsize=4)
def grids_of_store(path: Path, _: tuple[Any, ...]) -> list[Grid]:
    """Return the grids of a store, opened once; ``cache_clear`` forgets what is kept of stores."""
    groups = open_groups(path)
    if not any(group.data_vars for group in groups.values()):
        raise QueryError("there are no results to query")
    return [Grid(kernel, groups[kernel]) for kernel in sorted(groups)]

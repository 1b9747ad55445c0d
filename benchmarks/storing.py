"""Writing: ``run`` into a store, and the same finished arrays through zarr's own interface."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import zarr

from sweep.space import Space
from sweep.workflows import run

__all__ = ["PLAIN", "finished_arrays", "run_fresh"]

Finished = Mapping[str, tuple[zarr.Array[Any], Any]]
"""By name: an array of a finished store (for its metadata), and its content in memory."""

THREADS = 2


def run_fresh(space: Space, path: Path) -> None:
    """Evaluate a space into a store that is not there yet."""
    shutil.rmtree(path, ignore_errors=True)
    run(space, path, threads=THREADS)


def finished_arrays(path: Path, kernel: str) -> Finished:
    """Return a store's computed arrays, read into memory."""
    group = zarr.open_group(path, mode="r")[kernel]
    return {
        name: (array, array[...])
        for name, array in group.arrays()
        if array.ndim > 1 and array.dtype.kind in "fu"
    }


def _created(finished: Finished, path: Path) -> dict[str, zarr.Array[Any]]:
    """Create empty arrays like the finished ones: shape, chunks, codecs, dimension names."""
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.create_group(path)
    return {
        name: group.create_array(
            name,
            shape=like.shape,
            chunks=like.chunks,
            dtype=like.dtype,
            compressors=like.compressors,
            fill_value=like.fill_value,
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=like.metadata.dimension_names,
        )
        for name, (like, _) in finished.items()
    }


def _regions(array: zarr.Array[Any]) -> Iterator[tuple[slice, ...]]:
    cuts = [
        [slice(i, min(i + chunk, n)) for i in range(0, n, chunk)]
        for n, chunk in zip(array.shape, array.chunks, strict=True)
    ]
    yield from product(*cuts)


def plain_by_chunk(finished: Finished, path: Path) -> None:
    """Write chunk by chunk from two threads."""
    created = _created(finished, path)
    tasks = [(name, region) for name, array in created.items() for region in _regions(array)]

    def write(task: tuple[str, tuple[slice, ...]]) -> None:
        name, region = task
        created[name][region] = finished[name][1][region]

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, tasks))


def plain_with_fill(finished: Finished, path: Path) -> None:
    """The same without looking for chunks of nothing but fill, which zarr would leave out."""
    with zarr.config.set({"array.write_empty_chunks": True}):
        plain_by_chunk(finished, path)


def plain_whole(finished: Finished, path: Path) -> None:
    """Write array by array; zarr itself encodes chunks in two threads."""
    for name, array in _created(finished, path).items():
        array[...] = finished[name][1]


PLAIN: Mapping[str, Callable[[Finished, Path], None]] = {
    "chunk by chunk": plain_by_chunk,
    "chunk by chunk with empty ones": plain_with_fill,
    "whole arrays": plain_whole,
}

"""Write results: ``run`` into a store, and the same finished arrays through zarr's interface."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import zarr

from sweep.runs.running import run
from sweep.space import Space

__all__ = ["PLAIN", "TOLD", "again_and_again", "finished_arrays", "plain_by_chunk", "run_fresh"]

Finished = Mapping[str, tuple[zarr.Array[Any], Any]]
"""By name: an array of a finished store (for its metadata) and its content in memory."""

THREADS = 2


def run_fresh(space: Space, path: Path) -> None:
    """Evaluate a space into a new store."""
    shutil.rmtree(path, ignore_errors=True)
    run(space, path, threads=THREADS)


def finished_arrays(path: Path, kernel: str) -> Finished:
    """Return a store's computed arrays, read into memory."""
    group = zarr.open_group(path, mode="r")[kernel]
    return {
        name: (array, array[...])
        for name, array in group.arrays
        if array.ndim > 1 and array.dtype.kind in "fu"
    }


def _created(finished: Finished, path: Path, times: int = 1) -> dict[str, zarr.Array[Any]]:
    """Create empty arrays like the finished ones: shape, chunks, codecs, dimension names.

    They have ``times`` as many complete chunks along the axis that is divided into chunks.
    """
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.create_group(path)
    created = {}
    for name, (like, _) in finished.items():
        shape = list(like.shape)
        if times > 1:
            axis = _cut_axis(like)
            shape[axis] = times * (shape[axis] // like.chunks[axis]) * like.chunks[axis]
        created[name] = group.create_array(
            name,
            shape=tuple(shape),
            chunks=like.chunks,
            dtype=like.dtype,
            compressors=like.compressors,
            fill_value=like.fill_value,
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=like.metadata.dimension_names,
        )
    return created


def _cut_axis(array: zarr.Array[Any]) -> int:
    """Return the axis with several chunks, other than that of the models."""
    several = [i for i, (n, c) in enumerate(zip(array.shape, array.chunks, strict=True)) if n > c]
    return several[-1]


def _regions(array: zarr.Array[Any]) -> Iterator[tuple[slice, ...]]:
    cuts = [
        [slice(i, min(i + chunk, n)) for i in range(0, n, chunk)]
        for n, chunk in zip(array.shape, array.chunks, strict=True)
    ]
    yield from product(*cuts)


def plain_by_chunk(finished: Finished, path: Path, times: int = 1) -> None:
    """Write chunk by chunk from two threads; if ``times`` is not 1, repeat the complete chunks."""
    created = _created(finished, path, times)
    tasks = []
    for name, (like, _) in finished.items():
        if times == 1:
            tasks += [(name, region, region) for region in _regions(like)]
            continue
        axis = _cut_axis(like)
        chunk = like.chunks[axis]
        extent = like.shape[axis] // chunk * chunk
        for again in range(times):
            for region in _regions(like):
                part = region[axis]
                if part.stop - part.start == chunk:
                    moved = slice(part.start + again * extent, part.stop + again * extent)
                    tasks.append((name, region, (*region[:axis], moved, *region[axis + 1 :])))

    def write(task: tuple[str, tuple[slice, ...], tuple[slice, ...]]) -> None:
        name, region, place = task
        created[name][place] = finished[name][1][region]

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, tasks))


def plain_with_fill(finished: Finished, path: Path, times: int = 1) -> None:
    """Write as `plain_by_chunk`, without searching for empty chunks, which zarr would omit."""
    with zarr.config.set({"array.write_empty_chunks": True}):
        plain_by_chunk(finished, path, times)


def again_and_again(finished: Finished, points: int) -> tuple[int, int]:
    """Return how often to repeat the complete chunks for ``points`` evaluations, and the total."""
    like, _ = max(finished.values(), key=lambda pair: pair[0].size)
    axis = _cut_axis(like)
    whole = like.shape[axis] // like.chunks[axis] * like.chunks[axis]
    each = like.size // like.shape[axis] * whole
    times = max(2, round(points / each))
    return times, times * each


def plain_whole(finished: Finished, path: Path) -> None:
    """Write array by array; zarr encodes chunks in two threads."""
    for name, array in _created(finished, path).items():
        array[...] = finished[name][1]


PLAIN: Mapping[str, Callable[..., None]] = {
    "chunk by chunk": plain_by_chunk,
    "whole arrays": plain_whole,
}
"""Ways to write with zarr's default settings."""

TOLD: Mapping[str, Callable[..., None]] = {
    "chunk by chunk, told to write empty ones": plain_with_fill,
}
"""Ways to write with zarr that change a setting."""

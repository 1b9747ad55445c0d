"""Hit rates of L2 of a product's factors over a box: :mod:`sweep.hardware.tile_order`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.evaluation.counts import Evaluator
from sweep.evaluation.device_names import device_values
from sweep.hardware.tile_order import awaited, fetches, hit_rates
from sweep.models.workload import Array
from sweep.specs import Device, Kernel

ORDER = (
    "rows", "columns", "group", "row_bytes", "column_bytes", "row_share", "column_share", "shared",
)  # fmt: skip


def reuse_of(kernel: Kernel, evaluate: Evaluator, at_once: Array) -> dict[str, tuple[Array, ...]]:
    """Return the hit rates of the accesses that read a row's or a column's factor.

    Parameters
    ----------
    kernel : Kernel
        With a table ``[tile_order]``, or without.
    evaluate : Evaluator
        Of the box.
    at_once : array
        Blocks that the device runs at once [1].

    Returns
    -------
    dict
        By ``"row"`` and ``"column"`` the hit rate of L2, that with a memory-side cache, and the
        share of reads that wait for DRAM; empty without accesses that ask for it.
    """
    if not any(access.reuse for access in kernel.global_accesses):
        return {}
    order = [evaluate(kernel.expressions.get(f"tile_order.{key}"), default=float(key != "shared"))
             for key in ORDER]  # fmt: skip
    parts = evaluate.steps(_partitions, evaluate.devices, evaluate.ndim)
    found = [
        evaluate.steps(_hits, *order, at_once, caches.values["l2_bytes"], parts)
        for caches in (evaluate, evaluate.beyond)
    ]
    row, column, of_row, of_column = found[0]
    if found[0] is found[1]:  # no memory-side cache
        return {"row": (row, row, of_row), "column": (column, column, of_column)}
    return {
        factor: (
            found[0][i],
            evaluate.steps(np.maximum, found[0][i], found[1][i]),
            evaluate.steps(np.minimum, found[0][i + 2], found[1][i + 2]),
        )  # fmt: skip
        for i, factor in enumerate(("row", "column"))
    }


# Steps of an evaluation


def _partitions(devices: tuple[Device, ...], ndim: int) -> Any:
    """Return the parts of each device's L2, each of which keeps what all multiprocessors read."""
    return np.nan_to_num(device_values(devices, "chip.l2_partitions", ndim), nan=1.0)


def _hits(
    rows: Array, columns: Array, group: Array, row_bytes: Array, column_bytes: Array,
    row_share: Array, column_share: Array, shared: Array, at_once: Array, capacity: Array,
    partitions: Array,
) -> tuple[Array, ...]:  # fmt: skip
    strips = rows, columns, group, row_bytes, column_bytes
    found = fetches(*strips, at_once, capacity / partitions, shared)
    hits = hit_rates(rows, columns, row_share, column_share, *found)
    waits = awaited(rows, columns, group, at_once, *found)
    # All that misses waits, also where a block reads a smaller part of its strip than the others.
    return (*hits, *(np.maximum(wait, 1.0 - hit) for wait, hit in zip(waits, hits, strict=True)))


def blocks_at_once(fitting: Array, n_sm: Array, blocks: Array) -> Array:
    """Return the blocks that run at once, one at least on each multiprocessor if there are more."""
    return np.minimum(np.maximum(fitting, 1.0) * n_sm, blocks)

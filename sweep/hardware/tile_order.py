"""What L2 keeps of a product's factors, by the order in which blocks compute its tiles.

A block computes one tile of a product. It reads a strip of the first factor, which all blocks of
its row of tiles read, and a strip of the second, which all blocks of its column read. Blocks start
in their order, and those that run at once advance through their strips side by side: a strip that
several of them read comes from DRAM once for all. What a later wave of blocks reads again still
lies in L2 if no more than L2 holds was read in between (the reuse distance of a cache that replaces
what was least recently used: R. Mattson et al., "Evaluation techniques for storage hierarchies",
IBM Systems Journal 9, 1970).

The order is that of grouped rows: the blocks pass a column of a group of rows, then the group's
next column, and group by group. A group of one row is row-major order; a group of all rows
column-major. Triton's tutorial on matrix products calls the rows of a group ``GROUP_SIZE_M``.
Persistent programs, each of which takes the next tile of the order that is left, read what waves of
as many blocks read. Programs that share tiles (stream-K) are not in step: each begins in another
place of its strips. What a wave reads together they read one after the other, and once only if the
cache keeps it as long.
`tests/hardware/test_tile_order.py` has the same from a simulated cache.
"""

from __future__ import annotations

import numpy as np

from sweep.fields import Array


def lost(distance: Array, capacity: Array) -> Array:
    """Return the share of a strip that a cache has lost after ``distance`` bytes were read [1].

    Half of it at the capacity, all at 10 % more and nothing at 10 % less: blocks are not quite in
    step, so that a cache does not lose all at once.
    """
    is_cache = capacity > 0
    share: Array = distance * (5.0 / np.where(is_cache, capacity, 1.0))
    share -= np.where(is_cache, 4.5, -1.0)
    return np.clip(share, 0.0, 1.0)


def fetches(
    rows: Array,
    columns: Array,
    group: Array,
    row_bytes: Array,
    column_bytes: Array,
    at_once: Array,
    capacity: Array,
    shared: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Return how often a row's strip and a column's come from DRAM, each at least once.

    Parameters
    ----------
    rows, columns : array
        Tiles of the product along both sides [1].
    group : array
        Rows of a group [1].
    row_bytes, column_bytes : array
        What a block reads of its row's and its column's factor [B].
    at_once : array
        Blocks that run at once [1].
    capacity : array
        What the cache holds [B].
    shared : array
        Tiles at the end of the order that all blocks share in equal parts of their strips, fewer
        than blocks [1].

    Returns
    -------
    tuple of array
        Mean fetches of a row's strip and of a column's [1].
    """
    strips = rows, columns, group, row_bytes, column_bytes
    (of_row, of_column), _ = _in_step(*strips, at_once, capacity)
    if not np.any(shared):
        return of_row, of_column
    (row, column), (high, wide, wave) = _in_step(*strips, np.minimum(at_once, shared), capacity)
    # Between two reads of a part of a row's strip lie those of other strips for a tile's width.
    tile = row_bytes + column_bytes
    of_rows, of_columns = (lost(np.minimum(n * tile, wave), capacity) for n in (high, wide))
    most_of_row, most_of_column = np.maximum(columns / row, 1.0), np.maximum(rows / column, 1.0)
    apart = _moments(shared, at_once)
    row = row * (1.0 + of_rows * (np.minimum(np.minimum(wide, apart), most_of_row) - 1.0))
    column = column * (
        1.0 + of_columns * (np.minimum(np.minimum(high, apart), most_of_column) - 1.0)
    )
    share = np.minimum(shared / np.maximum(rows * columns, 1.0), 1.0)
    return of_row + share * (row - of_row), of_column + share * (column - of_column)


def _moments(shared: Array | float, blocks: Array) -> Array:
    """Return at how many moments the same part of a strip is read, if tiles are shared equally."""
    tiles = np.rint(np.maximum(shared, 1.0)).astype(np.int64)
    return tiles / np.gcd(tiles, np.rint(blocks).astype(np.int64))


def _in_step(
    rows: Array, columns: Array, group: Array, row_bytes: Array, column_bytes: Array,
    at_once: Array, capacity: Array,
) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:  # fmt: skip
    """Return fetches of blocks that go in step; and a wave's rows, columns and bytes."""
    rows, columns, group, high, wide = _wave(rows, columns, group, at_once)
    passed = np.maximum(group, high)
    of_passed, of_wide = passed * row_bytes, wide * column_bytes
    wave = high * row_bytes + of_wide
    # The next wave of the group reads its rows again, unless all columns are under way.
    of_row = 1.0 + lost(of_passed + of_wide, capacity) * (columns / wide - 1.0)
    # Several waves of a tall group share a column; the next group reads all columns again.
    within = 1.0 + lost(wave, capacity) * (np.maximum(group / high, 1.0) - 1.0)
    group_to_group = of_passed + columns * column_bytes
    of_column = within * (1.0 + lost(group_to_group, capacity) * (rows / passed - 1.0))
    return (of_row, of_column), (high, wide, wave)


def _wave(
    rows: Array, columns: Array, group: Array, at_once: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Return rows, columns and rows of a group, at least one each; and those of a wave."""
    rows, columns = np.maximum(rows, 1.0), np.maximum(columns, 1.0)
    group = np.clip(group, 1.0, rows)
    at_once = np.clip(at_once, 1.0, rows * columns)
    # A wave covers some columns of a group, or part of one, or more than one group.
    wide = np.clip(at_once / group, 1.0, columns)
    high = np.where(at_once > group * columns, at_once / columns, np.minimum(group, at_once))
    return rows, columns, group, high, wide


def awaited(
    rows: Array, columns: Array, group: Array, at_once: Array, of_row: Array, of_column: Array
) -> tuple[Array, Array]:
    """Return the share of waves that wait for DRAM to read a row's strip, and a column's.

    All blocks of a wave that read a strip wait for the one that fetches it.
    """
    rows, columns, _, high, wide = _wave(rows, columns, group, at_once)
    return np.minimum(of_row * (wide / columns), 1.0), np.minimum(of_column * (high / rows), 1.0)


def hit_rates(
    rows: Array, columns: Array, row_share: Array, column_share: Array,
    of_row: Array, of_column: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the hit rates of reads of a row's factor and a column's, by the fetches of a strip.

    Of a strip only the share that lies in the matrix comes from DRAM.
    """
    first = 1.0 - of_row * (row_share / np.maximum(columns, 1.0))
    second = 1.0 - of_column * (column_share / np.maximum(rows, 1.0))
    return np.maximum(first, 0.0), np.maximum(second, 0.0)

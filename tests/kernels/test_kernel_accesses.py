"""The shipped kernels' affine accesses, as devices serve them."""

from __future__ import annotations

import numpy as np
import pytest

from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve


def served(key, device, **chosen):
    """Return the accesses of one configuration as a device serves them, by name."""
    plan = Plan((key,), (device,), ("hong_kim",), axes={k: (v,) for k, v in chosen.items()})
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    assert not np.any(launch.status == STATUS["kernel_expression"])
    work = launch.workload
    return {a.name: a for a in (*work.global_accesses, *work.shared_accesses)}


@pytest.mark.parametrize(
    ("tile", "padding", "store", "load"),
    # On 32 banks. Two rows of a tile of 16 share a warp: unpadded, eight lanes of each in a bank.
    [(32, 0, 1, 32), (32, 1, 1, 1), (16, 0, 1, 8), (16, 1, 2, 2), (64, 0, 1, 32), (64, 1, 1, 1)],
)
def test_transpose__bank_conflicts(tile, padding, store, load):
    chosen = {"tile": tile, "padding": padding, "block_rows": 8, "tiles_per_block": 1}
    accesses = served("transpose", "gtx_980", **chosen)
    assert (accesses["tile_store"].degree, accesses["tile_load"].degree) == (store, load)
    # 16 banks serve half a warp at a time: there 16 lanes of a column meet, or none.
    old = served("transpose", "gtx_280", **chosen)
    assert (old["tile_store"].degree, old["tile_load"].degree) == (1, 1 if padding else 16)
    assert all(a[name].coalesced for a in (accesses, old) for name in ("rows_in", "rows_out"))


def test_matrixmul_shared__short_rows_are_not_aligned():
    def transactions(device, tile):
        access = served("matrixmul_shared", device, tile=tile, work_per_thread=1, unroll=1)["tiles"]
        return access.transactions.item(), access.sectors.item(), access.coalesced.item()

    # Rows of 16 and more fill half-warps that start at multiples of 64 bytes. Rows of 8 do not:
    # compute capability 1.0 then serves each lane alone, 1.3 each row; sectors are none the more.
    for device in ("quadro_fx_5600", "gtx_280"):
        assert transactions(device, 16) == transactions(device, 32) == (2, 4, True)
    assert transactions("quadro_fx_5600", 8) == (32, 4, False)
    assert transactions("gtx_280", 8) == (4, 4, False)
    assert {transactions("gtx_980", tile) for tile in (8, 16, 32)} == {(4, 4, True)}


@pytest.mark.parametrize("device", ["quadro_fx_5600", "gtx_280", "gtx_980"])
@pytest.mark.parametrize("tile", [8, 16, 32])
@pytest.mark.parametrize("unroll", [1, 2, 8])
def test_matrixmul_shared__no_bank_conflicts(device, tile, unroll):
    accesses = served("matrixmul_shared", device, tile=tile, work_per_thread=2, unroll=unroll)
    assert {accesses[name].degree.max() for name in ("tiles_store", "a", "b")} == {1}

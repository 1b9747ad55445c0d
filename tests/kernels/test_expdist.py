"""The distance of two point sets, held to a walk through its source."""

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of

import sweep
from sweep.space import Plan

NAMES = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "use_shared_mem",
         "use_column", "n_y_blocks")  # fmt: skip
CONFIGURATIONS = [
    (64, 2, 3, 4, 0, 0, 1), (32, 4, 2, 5, 1, 0, 1), (128, 1, 1, 8, 0, 1, 4), (64, 4, 2, 3, 1, 1, 8),
    (32, 8, 4, 1, 2, 1, 16), (32, 32, 4, 8, 2, 1, 32),
]  # fmt: skip
SIZES = {"m": 1000, "n": 1300}
UNROLLED = {"loop_unroll_factor_x": 1, "loop_unroll_factor_y": 1}


def walk(block_x, block_y, tile_x, tile_y, shared, column, rows):
    """Return pairs, words copied to shared memory and barriers of all threads of the grid."""
    m, n = SIZES["m"], SIZES["n"]
    rows = rows if column else -(-n // (block_y * tile_y))
    pairs = first = second = barriers = 0
    for x in range(-(-m // (block_x * tile_x))):
        columns = min(block_x * tile_x, m - x * block_x * tile_x)
        for y in range(rows):
            starts = range(y * block_y * tile_y, n, rows * block_y * tile_y)
            lengths = [min(block_y * tile_y, n - start) for start in starts]
            pairs += columns * sum(lengths)
            first += 3 * (shared > 0) * columns * block_y
            second += 3 * (shared > 0) * sum(lengths) * block_x
            of_tiles = (0, 2, 1)[shared] * column * len(starts)
            barriers += block_x * block_y * ((shared > 0) + of_tiles + 1)
    return np.array([pairs, first, second, barriers])


@pytest.mark.parametrize("chosen", CONFIGURATIONS)
def test_counts__as_a_walk_finds_them(chosen):
    own = dict(zip(NAMES, chosen, strict=True)) | SIZES
    launch = launched("expdist", "rtx_3090", loop_unroll_factor_x=1, loop_unroll_factor_y=1, **own)
    work, value, found = launch.workload, numbers_of(launch), accesses_of(launch)
    threads = (work.threads_per_block * work.blocks).item()
    copied = (found[name].count.item() for name in ("first_copied", "second_copied"))
    counts = np.array([value["pairs"], *copied, work.barriers.item()])
    assert counts * threads == pytest.approx(walk(*chosen))
    assert work.instructions["fp64"].item() == pytest.approx((38 + 15 * 0.44) * value["pairs"] + 6)


RATES = {"rtx_3090": 82 * 2 * 1.695e9, "a100_80gb": 108 * 32 * 1.41e9}


@pytest.mark.parametrize("device", RATES)
def test_time__is_at_least_that_of_double_precision(device):
    for far, doubles in ((1e-9, 38), (1, 53)):
        axes = {name: (value,) for name, value in (UNROLLED | {"far": far}).items()}
        plan = Plan(("expdist",), (device,), ("combined",), axes=axes, store=False)
        times = sweep.evaluate(plan)["expdist"]["execution_time"].values
        assert 1 <= np.nanmin(times) * RATES[device] / (doubles * 32768**2) < 1.1

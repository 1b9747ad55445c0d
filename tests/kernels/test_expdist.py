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


# Of NVRTC 12.9.86, per pair whose term is not too small; blocks of 128 by 8 threads.
@pytest.mark.parametrize(("device", "tiles", "fp32", "integer", "control", "move"), [
    ("gtx_1080_ti", (3, 6), 7, 12.16, 11.04, 10.49), ("gtx_1080_ti", (6, 4), 7, 14.3, 10.74, 11.39),
    ("rtx_2080_ti", (3, 6), 7.1, 7.6, 16.7, 10.8), ("rtx_2080_ti", (6, 4), 7.1, 9.02, 16.72, 11.7),
])  # fmt: skip
def test_instructions__are_those_of_machine_code(device, tiles, fp32, integer, control, move):
    sizes = {"m": 512 * tiles[0], "n": 64 * tiles[1], "far": 1e-9}
    own = dict(zip(NAMES, (128, 8, *tiles, 0, 1, 2), strict=True)) | sizes
    launch = launched("expdist", device, loop_unroll_factor_x=3, loop_unroll_factor_y=2, **own)
    counts, pairs = launch.workload.instructions, numbers_of(launch)["pairs"]
    found = [counts[name].item() / pairs for name in ("fp32", "integer", "control", "move")]
    assert found[0] == pytest.approx(fp32, rel=0.01)
    assert found == pytest.approx([fp32, integer, control, move], rel=0.21)

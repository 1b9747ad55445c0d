"""The hotspot kernel file, held to a walk through its source."""

from collections import Counter

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of
from support.warps import simulate_bank_conflicts, simulate_transactions

from sweep.fields import STATUS

GRID = 512
MARGIN = 10  # max_tfactor
NAMES = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "temporal_tiling_factor",
         "loop_unroll_factor_t", "sh_power")  # fmt: skip
CONFIGURATIONS = [
    (32, 8, 1, 1, 1, 1, 1), (64, 4, 2, 3, 4, 2, 1), (16, 16, 2, 2, 3, 1, 0), (4, 32, 8, 1, 2, 2, 1),
    (1, 32, 10, 4, 5, 5, 0), (96, 2, 3, 5, 10, 5, 1), (256, 1, 1, 10, 6, 3, 0),
    (8, 8, 1, 1, 9, 3, 1),
]  # fmt: skip


def launch_of(configuration, device="rtx_2080_ti", **more):
    chosen = dict(zip(NAMES, configuration, strict=True), grid_width=GRID, grid_height=GRID)
    return launched("hotspot", device, **chosen | more)


class Walk:
    """What the threads of the first block do, warp by warp, as the source's loops have it.

    ``turns`` counts the points that a warp takes at once, ``points`` all points, by what is done
    with them; ``words`` are the lanes' places in shared memory or in the input, one row a turn, -1
    for lanes that take no part.
    """

    def __init__(self, configuration):
        block_x, block_y, tile_x, tile_y, steps, _, _ = configuration
        self.block = block_x, block_y
        self.width, self.height = block_x * tile_x + 2 * steps, block_y * tile_y + 2 * steps
        self.turns, self.points = Counter(), Counter()
        self.words = {"fill": [], "step": [], "input": []}
        pitch, start = GRID + 2 * MARGIN, MARGIN - steps
        lanes = np.arange(block_x * block_y).reshape(-1, 32)
        for margin in range(steps + 1):
            name = "step" if margin else "fill"
            for x, y in zip(lanes % block_x, lanes // block_x, strict=True):
                for j, i in self.turns_of(x + margin, y + margin, margin):
                    inside = (i < self.width - margin) & (j < self.height - margin)
                    self.turns[name] += 1
                    self.points[name] += int(inside.sum())
                    self.words[name].append(np.where(inside, j * self.width + i, -1))
                    if not margin:
                        place = (start + j) * pitch + start + i
                        self.words["input"].append(np.where(inside, place, -1))

    def turns_of(self, x, y, margin):
        """Yield rows and columns of a warp's lanes, as long as any lane is left."""
        for j in range(0, self.height, self.block[1]):
            for i in range(0, self.width, self.block[0]):
                row, column = y + j, x + i
                if ((row < self.height - margin) & (column < self.width - margin)).any():
                    yield row, column


def cost(simulate, rows, rule):
    """Return what a rule says of some warps' accesses to words of 4 bytes."""
    words = np.array(rows)
    return np.asarray(simulate(4 * words, 4, rule, words >= 0)[0])


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_points_and_turns__as_a_walk_finds_them(configuration):
    walk, launch = Walk(configuration), launch_of(configuration)
    value, work, accesses = numbers_of(launch), launch.workload, accesses_of(launch)
    warps, power = value["warps"], configuration[6]
    assert walk.turns["fill"] == value["fill_turns"]
    assert walk.turns["step"] == value["step_turns"]
    assert walk.points["fill"] == value["width"] * value["height"]
    assert walk.points["step"] == pytest.approx(value["step_points"])
    count = {name: access.count.item() * warps for name, access in accesses.items()}
    assert count["fill"] == pytest.approx((1 + power) * walk.turns["fill"])
    assert count["points"] == pytest.approx((5 + power) * walk.turns["step"])
    assert count["next"] == pytest.approx(walk.turns["step"])
    assert work.instructions["fp64"].item() * warps == pytest.approx(13 * walk.turns["step"])
    assert work.barriers.item() == 1 + configuration[4]
    assert value["shared_memory_bytes"] == 4 * (2 + power) * walk.width * walk.height


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_accesses__as_a_walk_finds_them(configuration):
    walk, launch = Walk(configuration), launch_of(configuration)
    accesses = accesses_of(launch)
    # Of whole warps; those that a margin cuts take no more passes.
    for name, of in (("fill", "fill"), ("points", "step")):
        whole = [row for row in walk.words[of] if (row >= 0).all()]
        if whole:
            passes = cost(simulate_bank_conflicts, whole, "warp")
            assert np.mean(passes) == pytest.approx(accesses[name].wavefronts.item(), rel=0.25)
        assert np.max(cost(simulate_bank_conflicts, walk.words[of], "warp")) <= 1 + max(passes)
    temperature, warps = accesses["temperature"], launch.workload.threads_per_block.item() / 32
    requested = cost(simulate_transactions, walk.words["input"], "sector").sum()
    counted = temperature.count.item() * temperature.sectors.item() * warps
    assert counted == pytest.approx(requested, rel=0.2)
    new = {int(word) // 8 for row in walk.words["input"] for word in row if word >= 0}
    beyond_l1 = requested * (1 - temperature.l1_hit_rate.item())
    assert beyond_l1 == pytest.approx(len(new), rel=0.25)


@pytest.mark.parametrize("side", [GRID, 4096])
@pytest.mark.parametrize("configuration", [*CONFIGURATIONS, (128, 1, 3, 1, 1, 1, 0)])
def test_launch__covers_the_grid(configuration, side):
    launch = launch_of(configuration, grid_width=side, grid_height=side)
    threads = launch.workload.threads_per_block.item() * launch.workload.blocks.item()
    found = accesses_of(launch)
    assert found["result"].count.item() * threads == pytest.approx(side * side)
    for one in (found["temperature"], found["power"]):  # each word comes from DRAM once, at least
        of_dram = (1 - one.l1_hit_rate.item()) * (1 - one.l2_hit_rate.item())
        sectors = one.count.item() * one.sectors.item() * threads / 32
        assert 32 * sectors * of_dram >= 0.85 * 4 * side * side


@pytest.mark.parametrize(("device", "registers"), [
    ("h100_pcie", [32, 32, 40]), ("a100_40gb", [32, 40, 45]), ("v100", [40, 48, 45]),
    ("gtx_980_paper", [40, 48, 40]), ("rtx_a4000", [40, 40, 40]),
])  # fmt: skip
def test_registers__are_those_of_nvrtc(device, registers):
    # 32 x 8 threads and four steps: all unrolled, none, none with power in shared memory.
    variants = ((32, 8, 1, 1, 4, 4, 0), (32, 8, 1, 1, 4, 1, 0), (32, 8, 1, 1, 4, 1, 1))
    launches = [launch_of(variant, device) for variant in variants]
    assert [one.values["registers_per_thread"].item() for one in launches] == registers


def test_bounded_registers__allow_the_blocks():
    free = launch_of((32, 32, 1, 1, 1, 1, 1), "rtx_a4000")
    bounded = launch_of((32, 8, 1, 1, 1, 1, 1), "rtx_a4000", blocks_per_sm=4)
    assert free.values["registers_per_thread"].item() == 40
    assert bounded.status.item() == STATUS["valid"]
    assert bounded.values["registers_per_thread"].item() == 40  # 4 x 256 threads leave 64
    tight = launch_of((64, 16, 1, 1, 1, 1, 1), "rtx_a4000", blocks_per_sm=4)
    assert tight.values["registers_per_thread"].item() == 16
    large = launch_of((32, 8, 8, 4, 10, 1, 1), "rtx_a4000", blocks_per_sm=4)
    assert large.status.item() == STATUS["constraint"]

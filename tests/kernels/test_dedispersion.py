"""The dedispersion kernel file, held to a walk through its source."""

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of
from support.warps import simulate_transactions

CHANNELS, SAMPLES, DMS, PITCH = 1536, 25000, 2048, 25650
NAMES = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "tile_stride_x",
         "tile_stride_y")  # fmt: skip
CONFIGURATIONS = [
    (32, 32, 1, 1, 0, 0), (16, 64, 2, 4, 0, 1), (8, 128, 4, 2, 1, 0), (1, 256, 1, 8, 0, 1),
    (2, 40, 3, 3, 1, 1), (4, 200, 4, 8, 0, 0),
]  # fmt: skip


def launch_of(configuration, device="rtx_2080_ti"):
    return launched("dedispersion", device, **dict(zip(NAMES, configuration, strict=True)))


def shifts():
    """Return the shift of each channel for a DM of 1, in samples of 40.96 us."""
    frequency = 1425.0 + 0.1953125 * np.arange(CHANNELS)
    return 4148.808 * (frequency**-2.0 - frequency[-1] ** -2.0) / 0.00004096


def test_slope__is_that_of_the_channels():
    values = numbers_of(launch_of(CONFIGURATIONS[0]))
    assert np.mean(0.02 * shifts()) == pytest.approx(values["slope"], rel=1e-3)
    assert np.max(0.02 * shifts()) == pytest.approx(values["steepest"], rel=1e-3)
    assert DMS * values["steepest"] < 650  # max_shift


def addresses_of(configuration, block):
    """Return (turns, warps, lanes, channels) addresses of a block, -1 where no lane is."""
    block_x, block_y, tile_x, tile_y, stride_x, stride_y = configuration
    threads = block_x * block_y
    lane = np.arange(-(-threads // 32) * 32).reshape(-1, 32)
    x, y = lane % block_x, lane // block_x
    taken = np.linspace(0, CHANNELS - 1, 25).astype(int)  # of all channels
    found = []
    for i in range(tile_x):
        for j in range(tile_y):
            sample = (x + i * block_x if stride_x else x * tile_x + i) + block[0] * block_x * tile_x
            dm = (y + j * block_y if stride_y else y * tile_y + j) + block[1] * block_y * tile_y
            shift = np.floor(0.02 * dm[..., None] * shifts()[taken])
            place = taken * PITCH + sample[..., None] + shift.astype(np.int64)
            found.append(np.where((lane < threads)[..., None], place, -1))
    return np.array(found)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_sectors__as_a_walk_finds_them(configuration):
    launch = launch_of(configuration)
    value, samples = numbers_of(launch), accesses_of(launch)["samples"]
    requested, of_turn, of_block = [], [], []
    for block in ((3, 0), (11, 1), (14, 2), (37, 4)):
        places = addresses_of(configuration, block)
        warps = np.moveaxis(places, 3, 0)  # channels first
        cost = simulate_transactions(warps, 1, "sector", warps >= 0)
        requested.append(cost.sectors.mean())
        for channel in warps:
            of_turn += [len(np.unique(turn[turn >= 0] // 32)) for turn in channel]
            of_block.append(len(np.unique(channel[channel >= 0] // 32)))
    assert np.mean(requested) == pytest.approx(value["warp_sectors"], rel=0.12)
    assert np.mean(of_turn) == pytest.approx(value["turn_sectors"], rel=0.12)
    assert np.mean(of_block) == pytest.approx(value["block_sectors"], rel=0.12)
    assert samples.sectors.item() == value["warp_sectors"]
    beyond = value["requested"] * (1 - samples.l1_hit_rate.item())
    expected = np.mean(of_turn) * value["sums"]
    assert value["stays_in_l1"] or beyond == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_sums__are_all_of_the_output(configuration):
    launch = launch_of(configuration)
    work = launch.workload
    threads = work.threads_per_block.item() * work.blocks.item()
    count = {name: access.count.item() * threads for name, access in accesses_of(launch).items()}
    assert count["samples"] == pytest.approx(CHANNELS * SAMPLES * DMS)
    assert count["result"] == pytest.approx(SAMPLES * DMS)
    assert work.barriers.item() == 0


def test_caches__hold_what_they_can():
    # All channels of a block exceed L1, so that every sum reads them from L2 again; and without L1
    # every load of a warp goes there.
    several, single = (16, 64, 2, 4, 0, 1), (32, 32, 1, 1, 0, 0)
    turing, maxwell = (
        accesses_of(launch_of(several, device))["samples"]
        for device in ("rtx_2080_ti", "gtx_980_paper")
    )
    assert maxwell.l1_hit_rate.item() == 0 < turing.l1_hit_rate.item()
    # Whatever the tiles, a byte comes from DRAM once for each row of blocks at least.
    for configuration in (several, single):
        launch = launch_of(configuration)
        access, work = accesses_of(launch)["samples"], launch.workload
        sectors = access.count * access.sectors * work.threads_per_block / 32 * work.blocks
        missed = sectors * (1 - access.l1_hit_rate) * (1 - access.l2_hit_rate)
        assert missed.item() * 32 >= 0.9 * CHANNELS * SAMPLES

"""Kernels on AMD's GPUs, held to machine code of clang 17.0.6 (-O3, HIP)."""

import pytest
from support.launches import accesses_of, launched, numbers_of

DEVICES = {
    "gfx906": "mi50",
    "gfx90a": "mi250x",
    "gfx1032": "radeon_pro_w6600",
    "gfx1100": "radeon_pro_w7800",
}

# Target, block_size_x and _y, use_shmem, tile_size_x and _y; then what the machine code has for a
# thread: registers, words spilled, restored, and loaded from shared memory or the image, vector
# instructions beside multiply-adds. 4096 by 4096 pixels, which tiles of 48 and of 3 do not divide.
COMPILED = [
    (("gfx906", 32, 4, 1, 1, 1), 16, 0, 0, 225, 72),
    (("gfx906", 32, 4, 1, 2, 1), 25, 0, 0, 450, 172),
    (("gfx906", 32, 4, 1, 2, 2), 64, 68, 69, 570, 246),
    (("gfx906", 32, 4, 1, 4, 2), 64, 181, 182, 1140, 586),
    (("gfx906", 32, 16, 1, 2, 2), 23, 0, 0, 900, 399),
    (("gfx906", 48, 4, 1, 2, 1), 64, 176, 176, 450, 826),
    (("gfx906", 48, 4, 1, 2, 2), 64, 460, 790, 570, 1183),
    (("gfx906", 48, 4, 1, 4, 3), 64, 1270, 2685, 1380, 3064),
    (("gfx906", 48, 4, 0, 2, 2), 64, 1472, 756, 900, 6825),
    (("gfx906", 32, 4, 0, 4, 4), 40, 0, 0, 3600, 4677),
    (("gfx90a", 32, 4, 0, 1, 1), 70, 0, 0, 225, 98),
    (("gfx90a", 32, 4, 0, 4, 1), 83, 0, 0, 900, 99),
    (("gfx90a", 32, 4, 0, 2, 2), 128, 74, 74, 570, 1765),
    (("gfx90a", 32, 4, 0, 4, 4), 128, 1150, 1340, 3600, 3209),
    (("gfx90a", 48, 4, 0, 1, 1), 128, 206, 104, 225, 1224),
    (("gfx90a", 48, 4, 0, 2, 2), 128, 1098, 549, 900, 7199),
    (("gfx90a", 32, 4, 0, 3, 3), 128, 3388, 1735, 2025, 15916),
    (("gfx1032", 48, 4, 0, 1, 1), 128, 204, 104, 225, 941),
    (("gfx1032", 48, 4, 0, 1, 4), 128, 1107, 555, 900, 8845),
    (("gfx1100", 48, 4, 0, 1, 1), 192, 77, 40, 225, 853),
    (("gfx1100", 32, 4, 0, 3, 3), 192, 2992, 1528, 2025, 12490),
    (("gfx1100", 32, 4, 0, 4, 4), 39, 0, 0, 3600, 3825),
    (("gfx90a", 48, 4, 1, 2, 1), 128, 112, 112, 450, 706),
    (("gfx90a", 48, 4, 1, 2, 2), 128, 396, 638, 570, 1139),
    (("gfx1032", 48, 4, 1, 2, 2), 128, 399, 723, 570, 1273),
    (("gfx1100", 32, 4, 1, 2, 2), 157, 0, 0, 570, -60),
    (("gfx1100", 32, 4, 1, 2, 4), 192, 175, 175, 810, 556),
    (("gfx1100", 48, 4, 1, 1, 1), 15, 0, 0, 225, 25),
    (("gfx1100", 48, 4, 1, 4, 1), 192, 498, 530, 900, 1371),
    (("gfx1100", 48, 4, 1, 3, 2), 192, 620, 1084, 855, 1615),
    (("gfx1100", 48, 16, 1, 2, 2), 192, 501, 525, 900, 1227),
    (("gfx1100", 48, 4, 0, 2, 1), 192, 555, 278, 450, 3843),
    (("gfx1100", 48, 4, 0, 4, 2), 192, 2540, 1284, 1800, 10815),
    (("gfx1100", 48, 4, 0, 4, 4), 192, 5514, 2812, 3600, 21638),
]
NAMES = ("block_size_x", "block_size_y", "use_shmem", "tile_size_x", "tile_size_y")


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: "-".join(map(str, case[0])))
def test_convolution_as_compiled(case):
    (target, *chosen), registers, spilled, restored, loaded, others = case
    launch = launched(
        "convolution", DEVICES[target], read_only=0, use_padding=0,
        **dict(zip(NAMES, chosen, strict=True)),
    )  # fmt: skip
    numbers = numbers_of(launch)
    accesses = {name: access.count.item() for name, access in accesses_of(launch).items()}
    pixels = numbers["pixels"]
    assert numbers["registers"] == pytest.approx(registers, rel=0.25, abs=20)
    assert accesses["spilled"] == pytest.approx(spilled, rel=0.3, abs=10)
    assert accesses["restored"] == pytest.approx(restored, rel=0.3, abs=10)
    used = accesses["tile_load"] + accesses["image_direct"]
    assert used == pytest.approx(loaded, rel=0.01)
    counted = launch.workload.stages[-1].instructions
    vector = counted["fp32"].item() + counted["integer"].item()
    assert vector == pytest.approx(others + 225 * pixels, rel=0.22, abs=30)


def test_read_only_changes_nothing():
    for device in DEVICES.values():
        first, second = (
            launched("convolution", device, read_only=choice, use_shmem=0, use_padding=0)
            for choice in (0, 1)
        )
        assert (first.values["registers"] == second.values["registers"]).all()
        assert (first.values["of_amd"] == second.values["of_amd"]).all()


def test_spilled_words_of_all_threads_fill_the_caches():
    """W7800: 620 words of 4 bytes, 1024 threads, 35 work-group processors: 89 MB, in 70 MiB."""
    launch = launched(
        "convolution", "radeon_pro_w7800", block_size_x=48, block_size_y=4, tile_size_x=3,
        tile_size_y=2, use_shmem=1, use_padding=0, read_only=0,
    )  # fmt: skip
    hit = accesses_of(launch)["restored"].cached_hit_rate.item()
    assert hit == pytest.approx(70 * 2**20 / (620 * 4 * 1024 * 35), rel=1e-2)


def test_hotspot_as_compiled():
    """12 instructions in double precision and 5 for integers a point, 27 to 35 registers."""
    few, many = (
        launched(
            "hotspot", "mi50", block_size_x=32, block_size_y=8, tile_size_x=2, tile_size_y=2,
            temporal_tiling_factor=factor, loop_unroll_factor_t=1, sh_power=1, blocks_per_sm=0,
        )
        for factor in (1, 4)
    )  # fmt: skip
    few_numbers, many_numbers = numbers_of(few), numbers_of(many)
    points = many_numbers["computed"]
    assert many.workload.instructions["fp64"].item() == pytest.approx(12 * points)
    assert 27 <= few_numbers["registers_per_thread"] <= 35
    vector = 4 + 12 + 5  # of a point, as in the loop over columns
    counted = many.workload.instructions
    beside = 30 + 12 * many_numbers["filled"] + 9 * many_numbers["fill_rows"]
    beside += 8 * many_numbers["step_rows"] + 6 * 4
    total = sum(counted[name].item() for name in ("fp32", "fp64", "integer", "move", "control"))
    assert total == pytest.approx(vector * points + beside)


# Target's device, MWI and NWI, SA and SB; words that clang keeps in scratch memory, and that it
# reads anew in a turn of the loop over KWI = 2 steps (8 x 8 threads, KWG = 16).
SPILLED = [
    ("mi50", 8, 8, 1, 52, 72), ("mi50", 8, 8, 0, 38, 105), ("mi50", 16, 8, 1, 141, 214),
    ("mi50", 8, 16, 0, 137, 215), ("mi210", 8, 8, 1, 0, 0), ("mi210", 8, 16, 0, 42, 54),
    ("radeon_pro_w7800", 8, 8, 1, 0, 0), ("radeon_pro_w7800", 8, 16, 0, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("device", "mwi", "nwi", "shared", "words", "reloaded"), SPILLED)
def test_xgemm_spills_as_compiled(device, mwi, nwi, shared, words, reloaded):
    launch = launched(
        "xgemm", device, MWG=8 * mwi, NWG=8 * nwi, KWG=16, MDIMC=8, NDIMC=8, MDIMA=8, NDIMB=8,
        VWM=4 if shared else 2, VWN=4 if shared else 2, STRM=0, STRN=0, SA=shared, SB=shared,
    )  # fmt: skip
    assert numbers_of(launch)["spilled"] == pytest.approx(words, rel=0.3, abs=8)
    count = accesses_of(launch)["restored"].count.item() / (4096 / 2)
    assert count == pytest.approx(reloaded, rel=0.5, abs=12)


# Target's device, tile_size_x and _y; of the machine code, for each channel of a sum: loads, waits
# for them, instructions for integers.
DEDISPERSED = [
    ("mi250x", 1, 1, 1, 0.125, 1.132), ("mi250x", 1, 2, 1.125, 0.1875, 1.131),
    ("mi250x", 2, 8, 1.25, 0.25, 1.13), ("radeon_pro_w6600", 4, 1, 1.188, 0.2188, 1.131),
    ("radeon_pro_w7800", 1, 1, 1, 0.25, 1.132), ("radeon_pro_w7800", 1, 4, 1.188, 0.3438, 1.036),
    ("radeon_pro_w7800", 3, 5, 1.25, 0.325, 1.129),
]  # fmt: skip


@pytest.mark.parametrize(("device", "x", "y", "loads", "waits", "integers"), DEDISPERSED)
def test_dedispersion_as_compiled(device, x, y, loads, waits, integers):
    launch = launched(
        "dedispersion", device, block_size_x=16, block_size_y=32, tile_size_x=x, tile_size_y=y,
        tile_stride_x=0, tile_stride_y=0, loop_unroll_factor_channel=0,
    )  # fmt: skip
    accesses, channels = accesses_of(launch), numbers_of(launch)["channels"]
    loaded = (accesses["samples"].count + accesses["shifts"].count).item() / channels
    assert loaded == pytest.approx(loads, rel=0.02)
    assert loaded / launch.workload.memory_parallelism.item() == pytest.approx(waits, rel=0.16)
    assert launch.workload.instructions["integer"].item() / channels == pytest.approx(
        integers, rel=0.08
    )


PAIRED = [  # MWG, NWG, MDIMC, NDIMC; instructions a multiply-add in machine code of gfx1100
    (16, 32, 8, 16, 0.82), (32, 32, 8, 8, 0.64), (64, 64, 8, 16, 0.51), (64, 128, 16, 8, 0.5),
    (128, 64, 8, 8, 0.52),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "x", "y", "share"), PAIRED)
def test_pairs_of_rdna_3(m, n, x, y, share):
    counts = [
        launched("xgemm", device, MWG=m, NWG=n, KWG=32, MDIMC=x, NDIMC=y, MDIMA=8, NDIMB=8,
                 VWM=2, VWN=2, STRM=0, STRN=0, SA=0, SB=0).workload.instructions["fp32"].item()
        for device in ("radeon_pro_w6600", "radeon_pro_w7800")
    ]  # fmt: skip
    assert counts[1] / counts[0] == pytest.approx(share, abs=0.06)


# Target, MWG, NWG, KWG, MDIMC, NDIMC, MDIMA, NDIMB, VWM, VWN, STRM, STRN, SA, SB; of machine code
# with k = 256: vector instructions, words spilled, loads and stores of global memory.
XGEMM = [
    (("gfx90a", 64, 128, 16, 16, 8, 32, 8, 1, 2, 1, 1, 1, 1), 16979, 0, 417),
    (("gfx90a", 128, 64, 32, 8, 8, 32, 16, 2, 2, 0, 1, 0, 1), 22864, 9284, 1225),
    (("gfx90a", 32, 64, 16, 8, 8, 8, 16, 1, 2, 0, 1, 0, 0), 10838, 0, 1296),
    (("gfx1100", 128, 64, 16, 16, 8, 16, 32, 2, 1, 0, 1, 0, 0), 11240, 0, 2592),
    (("gfx1100", 32, 128, 32, 16, 8, 16, 16, 2, 8, 1, 0, 1, 0), 6288, 0, 1113),
    (("gfx1100", 128, 128, 32, 8, 16, 8, 32, 8, 1, 1, 0, 0, 0), 21301, 0, 1600),
    (("gfx906", 64, 128, 16, 16, 8, 32, 8, 1, 2, 1, 1, 1, 1), 18553, 8086, 417),
    (("gfx906", 128, 64, 32, 32, 8, 32, 16, 4, 4, 1, 0, 0, 0), 11319, 0, 784),
    (("gfx906", 64, 128, 32, 8, 8, 16, 8, 4, 2, 1, 1, 0, 0), 36512, 28467, 2624),
    (("gfx1032", 64, 64, 32, 8, 16, 16, 8, 2, 2, 1, 0, 1, 1), 9316, 0, 177),
]  # fmt: skip
XGEMM_NAMES = "MWG NWG KWG MDIMC NDIMC MDIMA NDIMB VWM VWN STRM STRN SA SB".split()


@pytest.mark.parametrize("case", XGEMM, ids=lambda case: "-".join(map(str, case[0])))
def test_xgemm_as_compiled(case):
    (target, *chosen), vector, spilled, moved = case
    launch = launched(
        "xgemm", DEVICES[target], k=256, **dict(zip(XGEMM_NAMES, chosen, strict=True))
    )
    counted = launch.workload.instructions
    found = sum(counted[name].item() for name in ("fp32", "integer", "move"))
    assert found == pytest.approx(vector, rel=0.17)
    counts = {name: access.count.item() for name, access in accesses_of(launch).items()}
    assert counts.pop("spilled") == pytest.approx(spilled, rel=0.25)
    counts.pop("restored")
    in_shared = {"a_store", "b_store", "a_load", "b_load"}
    total = sum(count for name, count in counts.items() if name not in in_shared)
    assert total == pytest.approx(moved, rel=0.3)

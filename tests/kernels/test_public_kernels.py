"""Tunable kernels from public sources: their tables, their counts, and how predictions move."""

from collections import defaultdict

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of

import sweep
from sweep.space import Plan

DEVICES = (  # of each generation from 3.0 on
    "gtx_680", "tesla_k20", "gtx_980_paper", "rtx_2080_ti", "rtx_3090", "a100_40gb", "h100_sxm",
    "rtx_5090",
)  # fmt: skip
WITHOUT_ROWS = "radeon_pro_w7800"
CHOSEN = {
    "reduction": {"block_size_x": 256, "use_shuffle": 1, "vector": 4, "num_blocks": 1024},
    "scan": {"THREADBLOCK_SIZE": 256},
    "stencil_3d": {"k_blockDimX": 32, "k_blockDimMaxY": 16},
    "histogram": {"WARP_COUNT": 6, "PARTIAL_HISTOGRAM256_COUNT": 240},
    "spmv_csr": {"block_size_x": 128, "read_only": 1},
    "nbody": {
        "WORK_GROUP_SIZE_X": 256, "OUTER_UNROLL_FACTOR": 2, "INNER_UNROLL_FACTOR1": 8,
        "INNER_UNROLL_FACTOR2": 0, "USE_SOA": 1, "LOCAL_MEM": 1,
    },
    "pnpoly": {
        "block_size_x": 256, "tile_size": 4, "between_method": 0, "use_precomputed_slopes": 1,
        "use_method": 0,
    },
}  # fmt: skip

DIRECT = {  # without a table
    "transpose_ktt": {
        "VECTOR_TYPE": 1, "CR": 0, "LOCAL_MEM": 1, "PADD_LOCAL": 1, "WORK_GROUP_SIZE_X": 32,
        "TILE_SIZE_X": 32, "WORK_GROUP_SIZE_Y": 8, "TILE_SIZE_Y": 32, "DIAGONAL_MAP": 0,
    },
    "bicg": {
        "BICG_BATCH": 4, "USE_SHARED_MATRIX": 1, "USE_SHARED_VECTOR_1": 1,
        "USE_SHARED_VECTOR_2": 1, "USE_SHARED_REDUCTION_1": 1, "USE_SHARED_REDUCTION_2": 1,
        "UNROLL_BICG_STEP": 1, "ROWS_PROCESSED": 512, "TILE": 32,
    },
}  # fmt: skip


def seconds(kernel, device="rtx_3090", **changes):
    """Return the predicted time of the chosen configuration with some changes."""
    axes = {name: (value,) for name, value in ((CHOSEN | DIRECT)[kernel] | changes).items()}
    plan = Plan((kernel,), (device,), ("combined",), axes=axes, store=False)
    return sweep.evaluate(plan)[kernel]["execution_time"].values.item()


@pytest.mark.parametrize("kernel", CHOSEN)
def test_table__has_rows_and_valid_configurations(kernel):
    launch = launched(kernel, *DEVICES, **CHOSEN[kernel])
    names = launch.values
    assert np.all(names["compiled"] == 1)
    assert np.all(launch.status == 0)
    # Of 3.0, which only 3.5 stands in for, a thread has 63 registers.
    assert names["registers_per_thread"].ravel()[0] <= 63
    assert np.all(launch.workload.occupancy.occupancy > 0)


@pytest.mark.parametrize("kernel", CHOSEN)
def test_formulas__serve_devices_without_a_row(kernel):
    launch = launched(kernel, WITHOUT_ROWS, **CHOSEN[kernel])
    assert numbers_of(launch)["compiled"] == 0
    assert launch.status.item() == 0


@pytest.mark.parametrize("kernel", ["scan", "stencil_3d", "nbody"])
def test_formulas__are_near_the_table(kernel):
    old, new = (
        launched(kernel, device, **CHOSEN[kernel]).workload
        for device in (WITHOUT_ROWS, "rtx_2080_ti")
    )
    for name in ("fp32", "integer", "special"):
        if name in old.instructions:
            written, compiled = (w.instructions[name].item() for w in (old, new))
            assert written == pytest.approx(compiled, rel=0.3, abs=4)
    assert old.barriers.item() == new.barriers.item()
    assert old.computation_instructions.item() == pytest.approx(
        new.computation_instructions.item(), rel=0.25
    )


def test_reduction__words_cover_the_array_and_vectors_are_not_slower():
    for vector in (1, 2, 4):
        chosen = CHOSEN["reduction"] | {"vector": vector}
        work = launched("reduction", "rtx_3090", **chosen).workload
        access = work.global_accesses[0]
        threads = (work.threads_per_block * work.blocks).item()
        assert access.count.item() * access.bytes.item() * threads == 4 * 80_000_000
    times = [seconds("reduction", vector=v) for v in (1, 2, 4)]
    assert times == sorted(times, reverse=True)
    bandwidth = 4 * 80_000_000 / seconds("reduction")
    assert 0.5 * 936e9 < bandwidth < 936e9


def test_reduction__few_blocks_leave_multiprocessors_idle():
    few, many = (seconds("reduction", block_size_x=32, num_blocks=n) for n in (32, 1024))
    assert few > 5 * many


def test_scan__moves_each_element_twice():
    for device in ("rtx_3090", "a100_40gb"):
        peak = {"rtx_3090": 936e9, "a100_40gb": 1555e9}[device]
        assert seconds("scan", device) > 8 * 67_108_864 / peak


def test_histogram__data_with_a_frequent_value_contend():
    times = [seconds("histogram", hottest=share) for share in (1 / 256, 0.25, 0.5, 1.0)]
    assert times == sorted(times)
    assert times[-1] > 3 * times[0]
    access = accesses_of(launched("histogram", "rtx_3090", hottest=1.0, **CHOSEN["histogram"]))
    assert access["additions"].wavefronts.item() == 32  # all lanes want one word


def test_spmv__neighbouring_columns_are_not_slower():
    times = [seconds("spmv_csr", spread=share, columns=1e8) for share in (0.125, 0.5, 1.0)]
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]
    cached, beyond = (seconds("spmv_csr", columns=n) for n in (131072, 1e8))
    assert cached < beyond


@pytest.mark.parametrize("device", ["rtx_3090", "mi250x"])
def test_spmv__every_word_of_the_matrix_is_moved(device):
    launch = launched("spmv_csr", device, **CHOSEN["spmv_csr"])
    warps = numbers_of(launch)["blocks"] * 128 / (64 if device == "mi250x" else 32)
    values = accesses_of(launch)["values"]
    assert 32 * values.sectors.item() * values.count.item() * warps >= 4 * 131 * 131072


# Of NVRTC 11.8.89 for sm_35 and 12.9.86 for sm_61: integer and control instructions of a thread.
@pytest.mark.parametrize(("kernel", "device", "chosen", "integer", "control"), [
    ("histogram", "tesla_k20", {"words": 32 * 240 * 32 * 6}, 804, 299),
    ("reduction", "tesla_k20", {"n": 41 * 4 * 1024 * 256, "use_shuffle": 0}, 54, 17),
    ("reduction", "gtx_1080_ti", {"n": 81 * 4 * 1024 * 256, "use_shuffle": 0}, 65, 109),
    ("transpose_ktt", "tesla_k20", {"LOCAL_MEM": 1, "WORK_GROUP_SIZE_X": 32, "TILE_SIZE_X": 32,
     "WORK_GROUP_SIZE_Y": 1, "TILE_SIZE_Y": 32, "VECTOR_TYPE": 1, "DIAGONAL_MAP": 0}, 216, 55),
])  # fmt: skip
def test_counts_before_volta__are_those_of_machine_code(kernel, device, chosen, integer, control):
    found = launched(kernel, device, **(CHOSEN | DIRECT)[kernel] | chosen).workload.instructions
    assert found["integer"].item() == pytest.approx(integer, rel=0.15)
    assert found["control"].item() == pytest.approx(control, rel=0.4)


# Of NVRTC 12.9.86 (Kepler: 11.8.89), a plane: fp32, integers, branches, moves (PTX: 25, 18, 4, 1).
@pytest.mark.parametrize(("device", "counts"), [
    ("gtx_680", (25, 28.3, 0.4, 2.9)), ("tesla_k20", (25, 17.7, 0.1, 1.5)),
    ("gtx_1080_ti", (25, 23.7, 4.8, 1.3)), ("rtx_2080_ti", (25, 12.1, 0.1, 1.3)),
    ("rtx_3090", (25, 12.9, 0.2, 1.5)), (WITHOUT_ROWS, (25, 12.1, 0.1, 1.3)),
])  # fmt: skip
def test_stencil__instructions_of_a_plane_are_those_of_machine_code(device, counts):
    found = launched("stencil_3d", device, **CHOSEN["stencil_3d"]).workload.instructions
    for name, count in zip(("fp32", "integer", "control", "move"), counts, strict=True):
        assert found[name].item() / 376 == pytest.approx(count, abs=0.1)


def test_stencil__higher_blocks_load_less_of_the_margin():
    def loaded(rows):
        chosen = CHOSEN["stencil_3d"] | {"k_blockDimMaxY": rows}
        return launched("stencil_3d", "rtx_3090", **chosen).workload.total("count").item()

    assert [loaded(rows) for rows in (4, 8, 16, 32)] == sorted(map(loaded, (4, 8, 16, 32)))[::-1]


# Of NVRTC 12.9.86 for sm_75, 11.8.89 for sm_35, a body: integers, moves, shared and local loads.
T, K = "rtx_2080_ti", "tesla_k20"


@pytest.mark.parametrize(("device", "chosen", "integer", "move", "shared", "local"), [
    (T, (1, 1, 0, 1, 0), 10.0, 8.0, 0, 0), (T, (1, 1, 0, 0, 1), 6.0, 0, 4, 0),
    (T, (2, 2, 0, 1, 1), 3.0, 0, 2, 0), (T, (2, 0, 1, 1, 1), 9.0, 4.0, 4, 12),
    (T, (4, 0, 0, 1, 1), 3.0, 0, 2, 0), (T, (8, 8, 8, 1, 1), 0.4, 0, 1, 0),
    (T, (8, 8, 1, 1, 0), 32.9, 1.4, 0, 48), (T, (8, 4, 4, 0, 1), 8.8, 1.5, 4, 12),
    (K, (1, 0, 0, 0, 0), 0.3, 0, 0, 0), (K, (8, 8, 1, 1, 0), 33.4, 1.4, 0, 48),
])  # fmt: skip
def test_nbody__counts_are_those_of_machine_code(device, chosen, integer, move, shared, local):
    own = dict(zip(list(CHOSEN["nbody"])[1:], chosen, strict=True))
    launch = launched("nbody", device, WORK_GROUP_SIZE_X=256, **own)
    found = launch.workload.instructions
    assert found["integer"].item() / 131072 == pytest.approx(integer, abs=0.1)
    assert found["move"].item() / 131072 == pytest.approx(move, abs=0.1)
    access = accesses_of(launch)
    loads = [access[name].count.item() / 131072 for name in ("buffer_load", "sums_load")]
    assert loads == [shared, local]


# Of NVRTC 11.8.89 for sm_35 with 63 registers, another body: words that come back and go.
@pytest.mark.parametrize(("unroll", "soa", "local", "restored", "spilled"), [
    (0, 0, 1, 4.02, 1.02), (2, 0, 1, 7.0, 7.0), (8, 1, 0, 11.1, 1.5), (32, 1, 0, 13.9, 3.5),
])  # fmt: skip
def test_nbody__eight_bodies_spill_in_each_turn_of_3_0(unroll, soa, local, restored, spilled):
    own = {"OUTER_UNROLL_FACTOR": 8, "INNER_UNROLL_FACTOR1": unroll, "INNER_UNROLL_FACTOR2": 0}
    own |= {"USE_SOA": soa, "LOCAL_MEM": local, "WORK_GROUP_SIZE_X": 256}
    for device, times in (("gtx_680", 1), ("tesla_k20", 0)):
        access = accesses_of(launched("nbody", device, **own))
        assert access["restored"].count.item() / 131072 == pytest.approx(times * restored, rel=0.4)
        assert access["spilled"].count.item() / 131072 == pytest.approx(times * spilled, rel=0.2)


def test_nbody__sums_in_local_memory_are_slower():
    chosen = {"OUTER_UNROLL_FACTOR": 4, "INNER_UNROLL_FACTOR2": 4}
    assert seconds("nbody", **chosen | {"INNER_UNROLL_FACTOR2": 1}) > seconds("nbody", **chosen)


def test_nbody__time_grows_with_the_pairs():
    once, twice = (seconds("nbody", n=n) for n in (131072, 262144))
    assert twice == pytest.approx(4 * once, rel=0.15)


def test_pnpoly__mapped_points_pass_the_link():
    plain = seconds("pnpoly", "v100", tile_size=1)
    mapped = seconds("pnpoly", "v100", tile_size=1, mapped=1)
    assert mapped >= max(plain, 20_000_000 * 8 / 12e9)


def shaped(width, rows, height, **more):
    """Return the parameters of a transpose by blocks of width x rows, tiles of width x height."""
    across = {"WORK_GROUP_SIZE_X": width, "TILE_SIZE_X": width}
    down = {"WORK_GROUP_SIZE_Y": rows, "TILE_SIZE_Y": height}
    return DIRECT["transpose_ktt"] | across | down | more


def direct(width, rows, height, by_column, vector, **more):
    own = {"LOCAL_MEM": 0, "PADD_LOCAL": 0, "CR": by_column, "VECTOR_TYPE": vector}
    return shaped(width, rows, height, **own | more)


# Of NVRTC 12.9.86: registers, loads under way together, integers, branches and moves.
@pytest.mark.parametrize(("device", "chosen", "registers", "together", "count"), [
    ("rtx_2080_ti", shaped(32, 8, 32), 64, 4, 61 + 34 + 11),
    ("rtx_3090", shaped(32, 32, 32), 40, 1, 42 + 14 + 13),
    ("rtx_3090", shaped(64, 1, 64), 40, 16, 239 + 34 + 12),
    ("gtx_1080_ti", shaped(32, 8, 32), 32, 4, 94 + 31 + 9),
    ("rtx_2080_ti", direct(8, 4, 16, 0, 1), 14, 4, 10 + 1 + 7),
    ("rtx_2080_ti", direct(8, 4, 32, 1, 1), 38, 8, 14 + 1 + 7),
    ("rtx_2080_ti", direct(32, 1, 64, 0, 2), 28, 4, 180 + 21 + 43),
    ("gtx_1080_ti", direct(32, 1, 32, 1, 2), 31, 8, 162 + 12 + 26),
])  # fmt: skip
def test_transpose__counts_are_near_machine_code(device, chosen, registers, together, count):
    launch = launched("transpose_ktt", device, **chosen)
    assert numbers_of(launch)["registers_per_thread"] == pytest.approx(registers, abs=10)
    assert launch.workload.memory_parallelism.item() == together
    assert sum(launch.workload.instructions.values()).item() == pytest.approx(count, rel=0.25)


def passes(width, height, padding, threads):
    """Return the passes of a warp that reads columns of a tile, in the mean of the block."""
    taken = []
    for first in range(0, threads, 32):
        banks = defaultdict(set)
        for thread in range(first, first + 32):
            word = thread % height * (width + padding) + thread // height
            banks[word % 32].add(word)
        taken.append(max(map(len, banks.values())))
    return np.mean(taken)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("width", [1, 2, 8, 16, 32, 64])
def test_transpose__banks_of_columns(width, padding):
    for rows, height in ((1, 1), (1, 8), (2, 4), (4, 16), (8, 8), (16, 32), (32, 32), (64, 64)):
        threads = width * rows
        if 32 <= threads <= 1024 and height <= threads:
            chosen = shaped(width, rows, height, PADD_LOCAL=padding)
            found = accesses_of(launched("transpose_ktt", "rtx_3090", **chosen))["tile_load"]
            assert found.wavefronts.item() == passes(width, height, padding, threads)


# The last two have 40 MB of L2, or 64 MB of another cache behind it.
@pytest.mark.parametrize(("device", "later"), [
    ("gtx_1080_ti", 4.0), ("mi250x", 6.7), ("a100_40gb", 1), ("radeon_pro_w7800", 1),
])  # fmt: skip
def test_transpose__each_word_passes_dram_once_while_l2_keeps_its_sector(device, later):
    def moved(chosen):
        work = launched("transpose_ktt", device, **chosen).workload
        return work.dram_bytes.item() / (8 * 8192**2)

    tiled = shaped(32, 8, 32), shaped(32, 2, 4), shaped(4, 16, 64), shaped(8, 8, 8, DIAGONAL_MAP=1)
    for chosen in (*tiled, direct(32, 8, 32, 0, 1), direct(32, 8, 8, 1, 1), direct(8, 8, 8, 1, 2)):
        assert moved(chosen) == pytest.approx(1)
    # The block beside has a sector's next words, at once or, DIAGONAL_MAP, a row of blocks later.
    assert moved(direct(1, 32, 64, 0, 1)) == pytest.approx(1)
    late = moved(direct(1, 32, 64, 0, 1, DIAGONAL_MAP=1))
    assert late == pytest.approx(later, abs=0.1)


@pytest.mark.parametrize("device", ["gtx_1080_ti", "rtx_2080_ti", "a100_40gb", "tesla_k20"])
def test_transpose__tiles_and_padding_pay(device):
    def of(chosen):
        return seconds("transpose_ktt", device, **chosen)

    padded, plain = (of(shaped(32, 8, 32, PADD_LOCAL=words)) for words in (1, 0))
    peak = {"gtx_1080_ti": 484e9, "rtx_2080_ti": 616e9, "a100_40gb": 1555e9, "tesla_k20": 208e9}
    assert 0.8 < 8 * 8192**2 / peak[device] / padded < 1
    assert plain > (1.15 if device == "gtx_1080_ti" else 1.2) * padded
    assert of(direct(32, 8, 32, 0, 1)) > 1.2 * padded
    assert of(direct(1, 32, 32, 0, 1, DIAGONAL_MAP=1)) > 3 * padded


# Of NVRTC 12.9.86, a step of 16: single precision, integers, branches and moves, and barriers.
@pytest.mark.parametrize(("device", "batch", "changes", "fp32", "count", "barriers"), [
    ("rtx_2080_ti", 4, {}, 10.3, 15.6 + 6.1 + 5.8, 5.25),
    ("rtx_2080_ti", 1, {}, 6.3, 14.6 + 6.1 + 8.5, 7.38),
    ("rtx_2080_ti", 16, {"USE_SHARED_VECTOR_2": 0}, 32.5, 23.7 + 6.1 + 5.6, 3.12),
    ("rtx_2080_ti", 8, {"USE_SHARED_MATRIX": 0}, 17.3, 21.7 + 6.3 + 6.0, 4.19),
    ("rtx_2080_ti", 32, {"UNROLL_BICG_STEP": 0}, 65.1, 60.4 + 6.1 + 2.4, 3.12),
    ("rtx_3090", 8, {}, 17.3, 18.6 + 4.2 + 3.2, 4.19),
    ("gtx_1080_ti", 4, {}, 10.3, 21.3 + 17.5 + 3.7, 5.25),
])  # fmt: skip
def test_bicg__counts_are_near_machine_code(device, batch, changes, fp32, count, barriers):
    chosen = DIRECT["bicg"] | {"BICG_BATCH": batch} | changes
    work = launched("bicg", device, **chosen).workload
    found = {name: counted.item() / 16 for name, counted in work.instructions.items()}
    assert found.pop("fp32") == pytest.approx(fp32, abs=0.1)
    assert sum(found.values()) == pytest.approx(count, rel=0.25)
    assert work.barriers.item() / 16 == pytest.approx(barriers, abs=0.01)


def test_bicg__words_of_the_matrix():
    def moved(**changes):
        return launched(
            "bicg", "rtx_2080_ti", **DIRECT["bicg"] | changes
        ).workload.dram_bytes.item()

    once = 4 * 16384 * (16384 + 4)
    assert moved() == pytest.approx(once, rel=1e-9)
    # Sums of eight rows of threads are a sector of each row of the tile, a quarter of it.
    assert moved(USE_SHARED_REDUCTION_1=0) == pytest.approx(1.25 * once, rel=1e-3)
    assert moved(USE_SHARED_REDUCTION_2=0) == pytest.approx((1 + 8 / 512) * once, rel=1e-3)


@pytest.mark.parametrize(("device", "peak"), [
    ("gtx_titan_x", 336.5e9), ("rtx_2080_ti", 616e9), ("a100_40gb", 1555e9), ("mi250x", 1638e9),
])  # fmt: skip
def test_bicg__a_tile_in_shared_memory_is_read_once(device, peak):
    best = seconds("bicg", device)
    assert 0.75 < 4 * 16384**2 / peak / best < 1
    assert seconds("bicg", device, USE_SHARED_MATRIX=0) > 2 * best
    assert seconds("bicg", device, USE_SHARED_REDUCTION_1=0) > 1.5 * best
    assert seconds("bicg", device, BICG_BATCH=1) > 1.3 * best  # barriers between few words

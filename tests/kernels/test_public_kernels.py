"""Tunable kernels from public sources: their tables, their counts, and how predictions move."""

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


def seconds(kernel, device="rtx_3090", **changes):
    """Return the predicted time of the chosen configuration with some changes."""
    axes = {name: (value,) for name, value in (CHOSEN[kernel] | changes).items()}
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


# Of NVRTC 12.9.86, a plane: single precision, integers, branches and moves (PTX: 25, 18, 4, 1).
@pytest.mark.parametrize(("device", "counts"), [
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


# Of NVRTC 12.9.86 for sm_75, a body: integers, moves, loads from shared and local memory.
@pytest.mark.parametrize(("chosen", "integer", "move", "shared", "local"), [
    ((1, 1, 0, 1, 0), 10.0, 8.0, 0, 0), ((1, 1, 0, 0, 1), 6.0, 0, 4, 0),
    ((2, 2, 0, 1, 1), 3.0, 0, 2, 0), ((2, 0, 1, 1, 1), 9.0, 4.0, 4, 12),
    ((4, 0, 0, 1, 1), 3.0, 0, 2, 0), ((8, 8, 8, 1, 1), 0.4, 0, 1, 0),
    ((8, 8, 1, 1, 0), 32.9, 1.4, 0, 48), ((8, 4, 4, 0, 1), 8.8, 1.5, 4, 12),
])  # fmt: skip
def test_nbody__counts_are_those_of_machine_code(chosen, integer, move, shared, local):
    own = dict(zip(list(CHOSEN["nbody"])[1:], chosen, strict=True))
    launch = launched("nbody", "rtx_2080_ti", WORK_GROUP_SIZE_X=256, **own)
    found = launch.workload.instructions
    assert found["integer"].item() / 131072 == pytest.approx(integer, abs=0.1)
    assert found["move"].item() / 131072 == pytest.approx(move, abs=0.1)
    access = accesses_of(launch)
    loads = [access[name].count.item() / 131072 for name in ("buffer_load", "sums_load")]
    assert loads == [shared, local]


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

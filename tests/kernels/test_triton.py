"""Triton's products beside what Triton 3.9 and ptxas made of its tutorial's kernel.

`tests/data/triton_matmul_compiled.csv` has 440 configurations for sm_80 and sm_90, of fp16 with
m, n, k and strides that are multiples of 16: resources, and machine instructions of a warp in the
loop over k and outside of it.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from support.launches import launched as launched_on

import sweep
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve

PATH = Path(__file__).parents[1] / "data" / "triton_matmul_compiled.csv"
ROWS = [
    {name: float(value) for name, value in row.items()}
    for row in csv.DictReader(PATH.read_text("utf-8").splitlines())
]
DEVICE = {8.0: "a100_80gb", 9.0: "h100_sxm"}
PARAMETERS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")


def of(capability, **kept):
    return [r for r in ROWS if r["compute_capability"] == capability
            and all(kept[name](r[name]) for name in kept)]  # fmt: skip


def predicted(rows, *names):
    """Return derived values of the kernel file for each row, for k of 1024 elements."""
    device = DEVICE[rows[0]["compute_capability"]]
    axes = {name: sorted({r[name] for r in rows}) for name in PARAMETERS}
    axes |= {"k": [1024.0], "GROUP_M": [8.0]}
    plan = Plan(["triton_matmul"], [device], ["combined"], axes=axes)
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    found = []
    axis_of = {d.name: i for i, d in enumerate(space.clocked.dimensions)}
    for row in rows:
        at = {axis_of[name]: axes[name].index(row[name]) for name in PARAMETERS if name in axis_of}
        values = []
        for name in names:
            table = np.asarray(launch.values[name])
            index = tuple(at.get(i, 0) if n > 1 else 0 for i, n in enumerate(table.shape))
            values.append(float(table[index]))
        found.append(values)
    return np.array(found).T


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_resources(capability):
    rows = of(capability)
    registers, shared = predicted(rows, "registers_per_thread", "shared_memory_bytes")
    error = np.abs(registers / [r["registers"] for r in rows] - 1)
    assert np.median(error) < 0.10
    assert np.quantile(error, 0.9) < 0.30
    assert np.mean(shared == [r["shared_bytes"] for r in rows]) > 0.93


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_instructions_of_the_loop(capability):
    rows = of(capability, num_stages=lambda n: n > 1)
    names = "products", "copies", "loads_a", "loads_b", "is_group", "beside"
    products, copies, a, b, group, beside = predicted(rows, *names)
    assert (products == [r["matrix"] for r in rows]).all()
    assert np.mean(copies == [r["copies"] for r in rows]) > 0.95
    total = products + copies + (a + b) * (1 - group) + beside
    assert np.median(np.abs(total / [r["loop"] for r in rows] - 1)) < 0.10


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_spills(capability):
    """Where ptxas spills much, the file says so, and nowhere else much."""
    rows = of(capability)
    (spilled,) = predicted(rows, "spilled")
    stack = np.array([r["stack_bytes"] for r in rows])
    assert np.mean(spilled[stack > 500] > 0) > 0.9
    assert np.mean(4 * spilled[stack == 0] > 500) < 0.02


def test_clusters_are_those_of_the_device():
    sizes = [1.0, 2.0, 8.0, 16.0, 32.0]
    plan = Plan(["triton_matmul"], ["a100_80gb", "h100_sxm", "b200", "rtx_5090"], ["combined"],
                axes={"cluster": sizes, "m": [8192.0], "BLOCK_M": [64.0], "BLOCK_N": [64.0],
                      "BLOCK_K": [32.0], "GROUP_M": [1.0], "num_warps": [4.0], "num_stages": [3.0]},
                outputs=("status",))  # fmt: skip
    found = sweep.evaluate(plan)["triton_matmul"].dataset.load().status
    for device, most in (("a100_80gb", 1), ("h100_sxm", 16), ("b200", 16), ("rtx_5090", 1)):
        valid = found.sel(device=device).values.ravel() == STATUS["valid"]
        assert valid.tolist() == [size <= most for size in sizes], device


@pytest.mark.parametrize("m", [1, 127, 129, 4096])
def test_shapes_that_are_no_multiple_of_the_tile(m):
    plan = Plan(["triton_matmul"], ["a100_80gb"], ["combined"],
                axes={"m": [float(m)], "n": [1000.0], "k": [70.0]})  # fmt: skip
    time = sweep.evaluate(plan)["triton_matmul"].dataset.execution_time.load()
    assert 2.5e-6 < float(time.min()) < 1e-3


def test_a_time_is_the_same_beside_loads_that_are_waited_for():
    """With one stage there are no copies; other configurations of its box are not changed by it."""
    axes = {"num_stages": [1, 2, 3], "BLOCK_M": [64], "BLOCK_N": [64, 128], "num_warps": [4]}

    def times(stages):
        plan = Plan(["triton_matmul"], ["a100_80gb"], ["combined"],
                    axes=axes | {"num_stages": stages})  # fmt: skip
        return sweep.evaluate(plan)["triton_matmul"].dataset.execution_time.load()

    together = times([1, 2, 3])
    for n in (1, 2, 3):
        np.testing.assert_array_equal(together.sel(num_stages=n), times([n]).sel(num_stages=n))


TILE = {"BLOCK_M": [128], "BLOCK_N": [128], "BLOCK_K": [64], "GROUP_M": [8], "num_warps": [8],
        "num_stages": [3]}  # fmt: skip
SMS = 108  # of an A100


def launched(*, device="a100_80gb", **axes):
    """Return the launch of one configuration, and its time [s]."""
    import sweep

    axes = TILE | {name: [value] for name, value in axes.items()}
    plan = Plan(["triton_matmul"], [device], ["combined"], variant="revised", axes=axes,
                precision="float64")  # fmt: skip
    (space,) = resolve(plan).kernels
    time = sweep.evaluate(plan)["triton_matmul"].dataset.execution_time.load()
    return build_launch(space), float(time.squeeze())


def one(launch, name):
    return float(np.asarray(launch.values[name]).squeeze())


def moved(launch, name):
    """Return the bytes that all blocks move by an access."""
    (access,) = (a for a in launch.workload.global_accesses if a.name == name)
    count, size = (np.asarray(part).squeeze() for part in (access.count, access.moved_bytes))
    per_warp = float(count * size)
    return per_warp * one(launch, "blocks") * one(launch, "threads_per_block") / 32


@pytest.mark.parametrize(("k", "block_k", "asked"), [
    (2048, 32, 1), (2064, 32, 1.5), (2056, 32, 1.75), (2064, 128, 1.125), (2064, 16, 2),
])  # fmt: skip
def test_rows__between_pieces_of_64_bytes_ask_l2_for_one_more(k, block_k, asked):
    found, _ = launched(m=1024, n=1024, k=k, BLOCK_K=block_k)
    (access,) = (a for a in found.workload.global_accesses if a.name == "a")
    moved_bytes = 64 * 1024 * 8 * (-(-k // block_k) - 1) * block_k * 2 / 64
    assert moved(found, "a") == pytest.approx(asked * moved_bytes)
    # DRAM brings each strip once: what is asked for twice is there.
    missed = float(np.asarray(access.missed_rate).squeeze())
    assert missed * asked == pytest.approx(1 / 8)  # of 8 blocks of a row


@pytest.mark.parametrize(("m", "n"), [(1024, 1024), (1536, 1536), (4096, 4096)])
def test_persistent__every_tile_once_in_whole_waves(m, n):
    tiles, steps = m // 128 * n // 128, 4096 // 64
    plain, _ = launched(m=m, n=n, k=4096)
    for programs in (1, 2):
        found, time = launched(m=m, n=n, k=4096, PERSISTENT=programs)
        assert one(found, "blocks") == min(programs * SMS, tiles)
        full, left = divmod(tiles, one(found, "programs"))
        waves = full + min(1, -(-left // SMS) / programs)
        assert one(found, "busiest") == waves * steps
        for access in ("a", "b", "c"):
            # The first step of a program is that of its first tile; all others go on.
            first = moved(found, f"{access}_first") if access != "c" else 0.0
            before = moved(plain, f"{access}_first") if access != "c" else 0.0
            assert moved(found, access) + first == pytest.approx(moved(plain, access) + before)
        assert moved(found, "partial") == moved(found, "parts_read") == 0
    # As many waves of blocks that do not begin anew: no more time than a block for each tile that
    # has a multiprocessor to itself.
    alone = (tiles // SMS + (tiles % SMS > 0)) * launched(m=128, n=128 * SMS, k=4096)[1]
    assert launched(m=m, n=n, k=4096, PERSISTENT=1)[1] < alone


def test_persistent__double_precision_has_room_for_what_is_turned():
    """As Triton 3.9 compiles one loop over tiles and k for sm_80, sm_90 and sm_100."""
    tile = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 8, "num_stages": 2}
    found, _ = launched(bits=64, PERSISTENT=1, **tile)
    assert one(found, "shared_memory_bytes") == 40960


def test_stream_k__has_no_quantisation_and_exchanges_parts():
    """One tile more than fills all multiprocessors costs a wave, or a share of one and parts."""
    wave, more = 12 * 9, 13 * 9  # tiles: of all multiprocessors, and nine more
    (_, full), (_, two) = (launched(m=m * 128, n=9 * 128, k=16384, PERSISTENT=1)
                           for m in (12, 13))  # fmt: skip
    assert 1.6 * full < two < 2.0 * full  # the second wave's nine blocks have L2 to themselves
    found, shared = launched(m=13 * 128, n=9 * 128, k=16384, PERSISTENT=1, STREAM_K=1)
    assert one(found, "shared") == more - wave == 9
    assert one(found, "busiest") == 256 + np.ceil(9 * 256 / SMS)
    assert full < shared < 1.5 * full
    tile_bytes = 4 * 128 * 128
    assert moved(found, "partial") == pytest.approx(SMS * tile_bytes)
    assert one(found, "parts_read") == 12
    even, time = launched(m=12 * 128, n=9 * 128, k=16384, PERSISTENT=1, STREAM_K=1)
    assert one(even, "shared") == moved(even, "partial") == 0 and time == full


def test_reduction__writes_and_reads_all_parts():
    m = n = 1024
    found, time = launched(m=m, n=n, k=32768, SPLIT_K=4, REDUCTION=1)
    assert moved(found, "partial") == moved(found, "parts_read") == pytest.approx(4 * 4 * m * n)
    assert moved(found, "c") == pytest.approx(2 * m * n)
    (read,) = (a for a in found.workload.global_accesses if a.name == "parts_read")
    assert float(np.asarray(read.l2_hit_rate).squeeze()) == 1  # 16 MiB lie in L2
    assert time < launched(m=m, n=n, k=32768)[1]


@pytest.mark.parametrize("axes", [
    {"STREAM_K": 1}, {"STREAM_K": 2, "PERSISTENT": 1}, {"REDUCTION": 1},
    {"PERSISTENT": 1, "SPLIT_K": 2}, {"BLOCK_M": 48}, {"BLOCK_K": 24}, {"num_warps": 6},
    {"BLOCK_K": 8}, {"BLOCK_K": 16, "bits": 8}, {"m": 2.0**30, "n": 2.0**20},
    {"cluster": 2, "n": 511, "device": "h100_sxm"},
])  # fmt: skip
def test_what_triton_or_the_gpu_refuses(axes):
    launch, time = launched(**({"m": 512, "n": 512, "k": 512} | axes))
    assert np.isnan(time) and (launch.status == STATUS["constraint"]).all()


def test_products_that_wait_for_each_other():
    """By machine code of Triton 3.6 for sm_90: B by column, as in fp8, or sums that spill."""
    for tile, warps, given, waiting in (
        ((128, 256), 8, {"bits": 8}, True), ((64, 256), 8, {"b_by_column": 1}, True),
        ((256, 128), 4, {}, True), ((128, 256), 8, {"bits": 8, "PERSISTENT": 1}, False),
        ((64, 256), 4, {"bits": 8}, False), ((256, 128), 8, {"bits": 8}, False),
        ((128, 256), 8, {"b_by_column": 0}, False),
    ):  # fmt: skip
        blocks = dict(zip(("BLOCK_M", "BLOCK_N"), tile, strict=True))
        launch = launched_on("triton_matmul", "h100_sxm", **blocks, num_warps=warps, **given)
        assert np.all((launch.workload.asynchronous == 0.0) == waiting), (tile, given)
    for warps in (4, 8):  # 256 sums of a thread, and 128
        tile = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "num_warps": warps}
        launch = launched_on("triton_moe", "h100_sxm", **tile)
        assert np.all((launch.workload.asynchronous == 0.0) == (warps == 4))


def test_strides_that_are_no_multiples_of_16__cost_copies():
    full = launched(m=4096, n=4096, k=4096)[1]
    for sizes in ({"k": 4095}, {"k": 4100}, {"n": 4097}):
        found, time = launched(**({"m": 4096, "n": 4096, "k": 4096} | sizes))
        assert 1.3 * full < time < 6 * full and one(found, "elements") == 32
    assert launched(m=4095, n=4096, k=4096)[1] <= full  # rows of C alone
    assert launched(m=4096, n=4096, k=4032)[1] < full
    sizes = {"m": 4096, "n": 4096, "k": 4096, "bits": 8, "device": "h100_sxm"}
    whole, by_n, by_k = (launched(**(sizes | odd))[1] for odd in ({}, {"n": 4095}, {"k": 4095}))
    assert by_n < 1.01 * whole < by_k / 1.3  # in 8 bits B lies column by column

"""What kernel files say of stages, accesses, caches and parallelism, as models find it."""

from __future__ import annotations

import numpy as np
import pytest
from support.launches import accesses_of as by_name
from support.launches import launched
from support.spec_texts import KERNEL, STAGES, spoilt

from sweep.fields import STATUS
from sweep.hardware.occupancy_limits import compute_capabilities, l1_bytes_of

BAD = STATUS["kernel_expression"]
LAST_OF_LOAD = """stride = "1 if layout == 'row' else n"\n"""


def launch_of(text, device="gtx_980_paper"):
    return launched("kernel", device, text=text)


def accesses_of(text, *devices):
    work = launched("kernel", *(devices or ("gtx_980_paper",)), text=text).workload
    return work.global_accesses, work.shared_accesses


def with_rates(rates: str) -> str:
    return spoilt(KERNEL, LAST_OF_LOAD, LAST_OF_LOAD + rates)


def staged(threads):
    return launch_of(STAGES.replace("THREADS", str(threads)), "gtx_285")


@pytest.mark.parametrize(("threads", "warps"), [(128, 4), (64, 2), (33, 2), (32, 1), (8, 1)])
def test_counts_are_means_over_the_blocks_warps(threads, warps):
    work = staged(threads).workload
    share = warps / 4
    assert [stage.warps.item() for stage in work.stages] == [4, warps]
    assert work.stages[0].instructions["fp32"].item() == 10
    assert work.stages[1].instructions["fp32"].item() == 4 * share
    assert work.instructions["special"].item() == 2 * share
    assert work.total("count").item() == 3 * share
    assert work.shared_accesses[0].count.item() == 5 * share
    assert work.computation_instructions.item() == 10 + 1 + (4 + 2 + 5) * share


@pytest.mark.parametrize(("threads", "degree"), [(128, 16), (16, 16), (8, 8), (1, 1)])
def test_lanes_that_take_no_part_meet_no_bank(threads, degree):
    work = staged(threads).workload
    assert work.shared_accesses[0].degree.item() == degree
    assert work.global_accesses[0].moved_bytes.item() == max(min(threads, 32) * 4, 32)


@pytest.mark.parametrize("probability", [0, 0.01, 0.5, 1])
def test_branch_of_chance__costs_the_warps_of_which_any_thread_takes_it(probability):
    text = STAGES.replace("threads = THREADS", f"probability = {probability}")
    work = launch_of(text, "gtx_285").workload
    lanes = np.random.default_rng(7).random((20_000, 32)) < probability
    share = 1 - (1 - probability) ** 32
    assert share == pytest.approx(lanes.any(axis=1).mean(), abs=0.01)
    assert work.stages[0].instructions["fp32"].item() == 10
    assert work.stages[1].instructions["fp32"].item() == pytest.approx(4 * share)
    assert work.total("count").item() == pytest.approx(3 * share)


def test_probability_above_1_is_flagged():
    text = STAGES.replace("threads = THREADS", "probability = 'warp_size / 31'")
    assert launch_of(text, "gtx_285").status.item() == BAD


def test_more_threads_than_the_block_has_are_flagged():
    assert staged(129).status.item() == BAD


# Bytes of a word to passes of a warp: a request is a warp, half a warp for 8 bytes, a quarter
# for 16; on 3.x, whose banks are 8 bytes wide, half a warp for 16; on 1.x always half a warp.
@pytest.mark.parametrize(("device", "expected"), [
    ("gtx_980_paper", {4: 1, 8: 2, 16: 4}), ("gt_640", {4: 1, 8: 1, 16: 2}),
    ("gtx_280", {4: 2, 8: 4, 16: 8}),
])  # fmt: skip
@pytest.mark.parametrize("pattern", ["", 'pattern = "affine"\nx = 1\n'])
def test_consecutive_words__passes(device, expected, pattern):
    for size, passes in expected.items():
        text = spoilt(KERNEL, 'count = "tile"\n', f'count = "tile"\nbytes = {size}\n{pattern}')
        _, (access,) = accesses_of(text, device)
        full = np.broadcast_to(np.ravel(access.wavefronts), 3)[1:]  # whole warps
        assert set(full) == {passes}


@pytest.mark.parametrize(("size", "passes"), [(4, 1), (8, 1), (16, 2)])
def test_broadcast__passes_and_sectors_of_vectors(size, passes):
    (_, store), _ = accesses_of(KERNEL.replace("bytes = 4", f"bytes = {size}"))
    assert np.max(store.sectors) == size
    text = spoilt(KERNEL, 'count = "tile"\n', f'count = "tile"\nbytes = {size}\nstride = 0\n')
    _, (access,) = accesses_of(text)
    assert set(np.ravel(access.wavefronts)[1:]) == {passes}  # requests of the same word merge
    text = spoilt(KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, 'pattern = "broadcast"\n')
    (load, _), _ = accesses_of(text, "rtx_2080_ti")
    assert set(np.ravel(load.sectors)) == set(np.ravel(load.wavefronts)) == {1}


@pytest.mark.parametrize(("pattern", "passes"), [
    ("coalesced", 1), ("broadcast", 1), ("uncoalesced", 32), ("strided", 4), ("affine", 4),
    ("measured", 3),
])  # fmt: skip
def test_global_loads__meet_the_banks_of_l1_from_7_0_on(pattern, passes):
    keys = {"strided": "stride = 4\n", "affine": "x = 4\n", "measured": "transactions = 9\n"}
    told = f'pattern = "{pattern}"\n{keys.get(pattern, "")}'
    text = spoilt(KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, told)
    (load, _), _ = accesses_of(text, "rtx_2080_ti")
    assert set(np.ravel(load.wavefronts)[1:]) <= {passes}  # of whole warps
    # On Maxwell four requests in the time of one pass, on Kepler as many passes as lines.
    (load, _), _ = accesses_of(text, "gtx_980_paper")
    assert set(np.ravel(load.wavefronts)[1:]) <= {{"uncoalesced": 2, "measured": 3}.get(pattern, 1)}
    (load, _), _ = accesses_of(text, "gt_640")
    lines = {"uncoalesced": 32, "strided": 4, "affine": 4, "measured": 3}.get(pattern, 1)
    assert set(np.ravel(load.wavefronts)[1:]) <= {lines}


def test_passes__of_devices_with_different_rules_are_each_ones_own():
    devices = ("gtx_285", "gt_640", "gtx_980_paper", "rtx_2080_ti", "mi210")
    text = spoilt(
        KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, 'pattern = "strided"\nstride = 4\n'
    )
    (together, _), _ = accesses_of(text, *devices)
    for i, device in enumerate(devices):
        (alone, _), _ = accesses_of(text, device)
        np.testing.assert_array_equal(together.wavefronts[i], alone.wavefronts[0])


@pytest.mark.parametrize(("keys", "kept"), [
    ("", {"rtx_2080_ti", "tesla_p100"}),
    ("read_only = 1\n", {"rtx_2080_ti", "tesla_p100", "gtx_1080", "gtx_980_paper", "tesla_k20"}),
    ('memory = "local"\n', {"rtx_2080_ti", "tesla_p100", "gtx_1080", "tesla_k20", "gtx_680"}),
])  # fmt: skip
def test_hits_of_l1__only_of_what_the_device_keeps_there(keys, kept):
    rates = "l1_hit_rate = 0.75\nl2_hit_rate = 0.5\n"
    told = f'pattern = "coalesced"\n{keys}{rates}'
    text = spoilt(KERNEL, 'pattern = "strided"\n' + LAST_OF_LOAD, told)
    for device in (
        "rtx_2080_ti", "tesla_p100", "gtx_1080", "gtx_980_paper", "tesla_k20", "gtx_680",
    ):  # fmt: skip
        (load, _), _ = accesses_of(text, device)
        # What L1 does not keep L2 serves; DRAM is read as often.
        rates = (0.75, 0.5) if device in kept else (0, 0.875)
        assert (np.max(load.l1_hit_rate), np.max(load.l2_hit_rate)) == rates
    (old, _), _ = accesses_of(text, "gtx_285")
    assert np.max(old.l1_hit_rate) == np.max(old.l2_hit_rate) == 0


def test_hits_of_l1__of_a_share_of_loads():
    text = with_rates('read_only = "tile / 16"\nl1_hit_rate = 0.5\nl2_hit_rate = 0\n')
    (load, _), _ = accesses_of(text, "gtx_980_paper")
    assert list(np.ravel(load.l1_hit_rate)) == [0.125, 0.25, 0.5]
    missed = (1 - load.l1_hit_rate) * (1 - load.l2_hit_rate)
    np.testing.assert_allclose(missed, 0.5)


def test_hit_rates_and_parallelism__of_access_and_kernel():
    text = with_rates('l1_hit_rate = "0.5 if tile == 4 else 0.25"\nl2_hit_rate = 0.75\n')
    text += "\n[cache]\nl2_hit_rate = 0.125\n"
    (load, store), _ = accesses_of(text, "rtx_2080_ti")
    assert list(np.ravel(load.l1_hit_rate)) == [0.5, 0.25, 0.25]
    assert (np.max(load.l2_hit_rate), np.max(store.l2_hit_rate)) == (0.75, 0.125)
    assert np.max(store.l1_hit_rate) == 0
    (old, _), _ = accesses_of(text, "gtx_280")  # which has no L2
    assert np.max(old.l2_hit_rate) == 0
    work = launch_of(KERNEL).workload
    assert np.max(work.instruction_parallelism) == np.max(work.memory_parallelism) == 1
    work = launch_of(KERNEL + '\n[parallelism]\ninstruction = "tile"\nmemory = 2\n').workload
    assert list(np.ravel(work.instruction_parallelism)) == [4, 8, 16]
    assert np.max(work.memory_parallelism) == 2


def test_out_of_range__is_flagged_where_it_occurs():
    for text, bad in (
        (with_rates('l1_hit_rate = "tile / 10"\n'), [False, False, True]),
        (with_rates('l2_hit_rate = "tile / 10"\n'), [False, False, True]),
        (KERNEL + '\n[parallelism]\ninstruction = "tile / 10"\n', [True, True, False]),
    ):
        assert list(np.ravel(launch_of(text).status == BAD)) == bad


def test_l1__of_every_capability_and_in_expressions():
    text = with_rates('read_only = 1\nl1_hit_rate = "min(1, l1_bytes / 2 ** 18)"\n')
    for device, share in (("gtx_980_paper", 3 / 16), ("rtx_a4000", 0.5), ("gtx_280", 0)):
        (load, _), _ = accesses_of(text, device)
        assert np.max(load.l1_hit_rate) == share
    sizes = {name: l1_bytes_of(name) for name in compute_capabilities()}
    assert all((size == 0) == name.startswith("1.") for name, size in sizes.items())
    expected = {"7.0": 128, "7.5": 96, "8.0": 192, "9.0": 256}
    assert {name: sizes[name] / 1024 for name in expected} == expected
    assert l1_bytes_of("") == 0


def served(key, device, **chosen):
    """Return the accesses of one configuration as a device serves them, by name."""
    launch = launched(key, device, **chosen)
    assert not np.any(launch.status == BAD)
    return by_name(launch)


@pytest.mark.parametrize(
    ("tile", "padding", "store", "load"),
    # On 32 banks. Two rows of a tile of 16 share a warp: unpadded, eight lanes of each in a bank.
    [(32, 0, 1, 32), (32, 1, 1, 1), (16, 0, 1, 8), (16, 1, 2, 2), (64, 0, 1, 32), (64, 1, 1, 1)],
)
def test_transpose__bank_conflicts(tile, padding, store, load):
    chosen = {"tile": tile, "padding": padding, "block_rows": 8, "tiles_per_block": 1}
    accesses = served("transpose", "gtx_980_paper", **chosen)
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
    assert {transactions("gtx_980_paper", tile) for tile in (8, 16, 32)} == {(4, 4, True)}


@pytest.mark.parametrize("device", ["quadro_fx_5600", "gtx_280", "gtx_980_paper"])
@pytest.mark.parametrize("tile", [8, 16, 32])
def test_matrixmul_shared__no_bank_conflicts(device, tile):
    for unroll in (1, 2, 8):
        accesses = served("matrixmul_shared", device, tile=tile, work_per_thread=2, unroll=unroll)
        assert {accesses[name].degree.max() for name in ("tiles_store", "a", "b")} == {1}

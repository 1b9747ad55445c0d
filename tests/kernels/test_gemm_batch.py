"""Products of many small matrices, held to a walk through its source and to machine code."""

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of
from support.warps import simulate_bank_conflicts, simulate_transactions

import sweep
from sweep.fields import STATUS
from sweep.space import Plan

SIZES = ("SIZE_A", "SIZE_B", "SIZE_C")
NAMES = (*SIZES, "GROUP_SIZE_Y", "GROUP_SIZE_Z", "CACHING_STRATEGY", "PADD_AA", "PADD_AB", "PADD_C",
         "DIRECT_WRITE", "UNROLL_K")  # fmt: skip
BLOCKS = 8  # where a block's words begin in a sector repeats
CONFIGURATIONS = [
    (4, 4, 4, 2, 16, 1, 0, 0, 0, 0, 0), (4, 4, 4, 1, 32, 2, 1, 1, 0, 1, 1),
    (4, 4, 4, 4, 8, 2, 0, 1, 0, 1, 0), (16, 16, 16, 2, 4, 2, 1, 0, 0, 1, 0),
    (16, 16, 16, 1, 8, 2, 0, 0, 0, 1, 0), (16, 8, 32, 8, 2, 1, 0, 0, 0, 0, 0),
    (6, 6, 6, 2, 16, 2, 0, 1, 2, 1, 1), (6, 6, 6, 1, 16, 2, 0, 0, 2, 0, 0),
    (10, 4, 6, 4, 8, 1, 1, 0, 2, 1, 0), (32, 32, 32, 4, 1, 1, 1, 0, 0, 1, 0),
]  # fmt: skip


def launch_of(configuration, device="rtx_2080_ti"):
    return launched("gemm_batch", device, **dict(zip(NAMES, configuration, strict=True)))


class Walk:
    """The words that the warps of some blocks want, a row for each access and warp, -1 for none."""

    def __init__(self, configuration, word):
        a, b, c, y, z, strategy, pad_a, _, pad_c, direct, _ = configuration
        team, pitch = (c + pad_c) * y, a + pad_a
        lane = np.arange(team * z)
        tx, ty, tz = lane % (c + pad_c), lane // (c + pad_c) % y, lane // team
        self.found = {}
        for block in range(BLOCKS):
            own = (block * z + tz) * (b * c)
            for i in range(0, a * b * z, lane.size):
                place, is_there = lane + i, lane + i < a * b * z
                self.add("a", block * z * a * b + place, is_there)
                self.add("a_store", place + place // a * pad_a, is_there)
            for i in range(0, a * c * z if strategy == 1 or y > 1 else 0, lane.size):
                self.add("b", block * z * a * c + lane + i, lane + i < a * c * z)
            for k in range(a if "b" in self.found else 0):
                self.add("b_load", tz * a * c + k * c + tx, True)
            for k in range(0 if "b" in self.found else a):
                self.add("b_direct", (block * z + tz) * a * c + k * c + tx, True)
            for row in range(0, b, y):
                for k in range(0, a, word):
                    self.add("a_load", (tz * pitch * b + (row + ty) * pitch + k) // word, True)
                takes_part = (tx < c) & (row + ty < b)
                place = (row + ty) * c + tx
                self.add("c_direct" if direct else "c_store",
                         place + (own if direct else tz * b * c), takes_part)  # fmt: skip
            for i in range(0, 0 if direct else b * c * z, c * y * z):
                self.add("c", block * z * b * c + lane + i, lane + i < b * c * z)

    def add(self, name, words, takes_part):
        rows = np.where(takes_part, words, -1)
        rows = np.append(rows, np.full(-len(rows) % 32, -1)).reshape(-1, 32)
        self.found.setdefault(name, []).extend(rows)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_accesses__as_a_walk_finds_them(configuration):
    launch = launch_of(configuration)
    value, found = numbers_of(launch), accesses_of(launch)
    walk = Walk(configuration, int(value["word"])).found
    used = {name for name, one in found.items() if one.count.item() > 0}
    assert set(walk) == used - {"b_store", "c_load"}  # as b is loaded, and c stored
    for name, rows in walk.items():
        one, words = found[name], np.array(rows)
        count = one.count.item() * BLOCKS * value["threads"]
        if hasattr(one, "sectors"):
            sectors = simulate_transactions(4 * words, 4, "sector", words >= 0)[0].sum()
            predicted = count * one.sectors.item() / 32
            assert predicted == pytest.approx(sectors)
            beyond = predicted * (1 - one.l1_hit_rate.item()) * (1 - one.l2_hit_rate.item())
            assert beyond == pytest.approx(len(np.unique(words[words >= 0] // 8)), rel=0.01)
            continue
        # A warp takes part as a whole, but in a copy's last turn, and in a row computed in vain.
        turns = (words >= 0).sum() if name == "a_store" else words.size
        in_vain = value["loaded"] / value["rows"] if name == "a_load" else 1
        assert count == pytest.approx(turns * in_vain)
        size = 4 * int(value["word"]) if name == "a_load" else 4
        passes, _ = simulate_bank_conflicts(size * words, size, "merging", words >= 0)
        assert one.wavefronts.item() == pytest.approx(passes[(words >= 0).any(axis=1)].max())


@pytest.mark.parametrize(("size", "configurations"), [(4, 336), (8, 452), (16, 424)])
def test_space__has_the_source_s_configurations(size, configurations):
    launch = launched("gemm_batch", "rtx_2080_ti", **dict.fromkeys(SIZES, size))
    assert np.sum(launch.status == STATUS["valid"]) == configurations


# Of NVRTC 12.9.86: multiply-adds; integers, branches and moves; loads and stores; registers.
@pytest.mark.parametrize(("device", "configuration", "fp32", "others", "accesses", "registers"), [
    ("rtx_2080_ti", (4, 4, 4, 4, 4, 2, 0, 0, 0, 1, 0), 4, 44 + 22 + 14, 2 + 5 + 3, 30),
    ("rtx_2080_ti", (4, 4, 4, 2, 16, 1, 0, 0, 0, 0, 0), 8, 93 + 40 + 19, 4 + 10 + 8, 38),
    ("rtx_2080_ti", (8, 8, 8, 1, 8, 1, 1, 1, 0, 0, 0), 64, 136 + 62 + 14, 16 + 80 + 32, 40),
    ("rtx_2080_ti", (16, 16, 16, 2, 4, 2, 0, 0, 0, 1, 0), 128, 61 + 37 + 11, 16 + 48 + 24, 66),
    ("gtx_1080_ti", (16, 16, 16, 2, 1, 2, 0, 0, 0, 0, 1), 128, 107 + 46 + 23, 16 + 56 + 32, 32),
    ("rtx_a4000", (32, 32, 32, 2, 1, 2, 0, 0, 0, 0, 0), 512, 138 + 50 + 47, 32 + 176 + 64, 44),
])  # fmt: skip
def test_counts__are_near_machine_code(device, configuration, fp32, others, accesses, registers):
    launch = launch_of(configuration, device)
    counts = {name: count.item() for name, count in launch.workload.instructions.items()}
    assert counts.pop("fp32") == fp32
    assert sum(counts.values()) == pytest.approx(others, rel=0.2)
    assert sum(one.count.item() for one in accesses_of(launch).values()) == pytest.approx(
        accesses, rel=0.1
    )
    assert numbers_of(launch)["registers_per_thread"] == pytest.approx(registers, abs=8)


@pytest.mark.parametrize(("device", "peak"), [
    ("gtx_1080_ti", 484e9), ("rtx_2080_ti", 616e9), ("a100_40gb", 1555e9), ("mi250x", 1638e9),
])  # fmt: skip
def test_best__is_near_the_bandwidth_of_dram(device, peak):
    axes = dict.fromkeys(SIZES, (16,)) | {"matrices": (65536,)}
    plan = Plan(("gemm_batch",), (device,), ("combined",), axes=axes, store=False)
    times = sweep.evaluate(plan)["gemm_batch"]["execution_time"].values
    assert 0.75 < 12 * 16**2 * 65536 / peak / np.nanmin(times) < 1

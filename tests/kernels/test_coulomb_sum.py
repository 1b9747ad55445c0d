"""The Coulomb sum of KTT: what the compiler found, and formulas for devices without its table."""

import numpy as np
import pytest
from support.launches import launched

from sweep.specs import load_kernel

TABLE = load_kernel("coulomb_sum").compiled
NAMES = ("Z_ITERATIONS", "INNER_UNROLL_FACTOR", "USE_SOA")
OLD, NEW = "radeon_pro_w7800", "rtx_2080_ti"  # without and with rows of the table


def counts(device, z, unroll, soa, **more):
    chosen = {"atoms": 64} | dict(zip(NAMES, (z, unroll, soa), strict=True))
    work = launched("coulomb_sum", device, WORK_GROUP_SIZE_X=32, **chosen | more).workload
    return {name: count.item() for name, count in work.instructions.items()}, work


@pytest.mark.parametrize(("z", "unroll", "soa"), [
    (1, 0, 1), (4, 0, 0), (16, 0, 1), (32, 0, 0), (8, 1, 0), (16, 1, 1), (32, 2, 0),
])  # fmt: skip
def test_formulas_for_devices_without_rows__agree_with_the_table(z, unroll, soa):
    compiled, _ = counts(NEW, z, unroll, soa)
    written, _ = counts(OLD, z, unroll, soa)
    assert written["fp32"] == pytest.approx(compiled["fp32"], rel=0.001)
    assert written["special"] == compiled["special"] == 64 * z
    total = sum(compiled.values())
    assert sum(written.values()) == pytest.approx(total, rel=0.12)


def test_counts_grow_with_the_atoms():
    few, _ = counts(NEW, 8, 0, 1)
    many, _ = counts(NEW, 8, 0, 1, atoms=256)
    assert many["fp32"] == 4 * few["fp32"]


# Of NVRTC 12.9.86 and 11.8.89 (sm_35), a point and atom: words from local memory, and moves.
@pytest.mark.parametrize(("device", "z", "unroll", "soa", "words", "moves"), [
    (NEW, 16, 0, 0, 0, 0), (NEW, 2, 1, 0, 0, 6), (NEW, 8, 1, 1, 1, 0.4), (NEW, 8, 4, 0, 0, 4.4),
    (NEW, 16, 2, 0, 1, 0.2), (NEW, 16, 2, 1, 0, 16.2), (NEW, 16, 4, 0, 0, 8.2),
    (NEW, 32, 2, 1, 1, 0.1), (NEW, 32, 16, 0, 0, 16.1), ("tesla_k20", 4, 2, 1, 1, 0.8),
    ("tesla_k20", 8, 2, 0, 0, 8.4), ("gtx_680", 16, 1, 0, 0, 32.2), ("gtx_680", 4, 2, 0, 1, 0.8),
])  # fmt: skip
def test_sums_of_a_loop_lie_in_local_memory_or_moves_choose_them(
    device, z, unroll, soa, words, moves
):
    found, work = counts(device, z, unroll, soa)
    sums = [a for a in work.global_accesses if a.name.startswith("sums")]
    assert [(a.count * a.bytes).item() for a in sums] == [4 * words * 64 * z] * 2
    assert found["move"] / (64 * z) == pytest.approx(moves, abs=0.2)


def test_registers_are_the_compilers():
    for capability, z, unroll, soa, registers in ((7.5, 16, 0, 0, 50), (7.5, 32, 16, 1, 58)):
        values = {"gpu_target": capability, "VECTOR_SIZE": 1}
        found, missing = TABLE.look_up(
            "registers", values | dict(zip(NAMES, (z, unroll, soa), strict=True))
        )
        assert (found, missing) == (registers, False)
    assert np.all(TABLE.columns["spill_load_bytes"] == 0)

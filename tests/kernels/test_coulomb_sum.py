"""The Coulomb sum of KTT: what the compiler found, and formulas for devices without its table."""

from __future__ import annotations

import numpy as np
import pytest
from support.launches import launched

from sweep.specs import load_kernel

TABLE = load_kernel("coulomb_sum").compiled
NAMES = ("Z_ITERATIONS", "INNER_UNROLL_FACTOR", "USE_SOA")
OLD, NEW = "radeon_pro_w7800", "rtx_2080_ti"  # without and with rows of the table


def counts(device, z, unroll, soa, **more):
    chosen = {"atoms": 256} | dict(zip(NAMES, (z, unroll, soa), strict=True))
    work = launched("coulomb_sum", device, WORK_GROUP_SIZE_X=32, **chosen | more).workload
    return {name: count.item() for name, count in work.instructions.items()}, work


@pytest.mark.parametrize(("z", "unroll", "soa"), [
    (1, 0, 1), (4, 0, 0), (16, 0, 1), (32, 0, 0), (4, 1, 0), (8, 4, 1), (32, 8, 0),
])  # fmt: skip
def test_formulas_for_devices_without_rows__agree_with_the_table(z, unroll, soa):
    compiled, _ = counts(NEW, z, unroll, soa)
    written, _ = counts(OLD, z, unroll, soa)
    assert written["fp32"] == pytest.approx(compiled["fp32"], rel=0.001)
    assert written["special"] == compiled["special"] == 256 * z
    total = sum(compiled.values())
    assert sum(written.values()) == pytest.approx(total, rel=0.12)


def test_counts_grow_with_the_atoms():
    few, _ = counts(NEW, 8, 0, 1)
    many, _ = counts(NEW, 8, 0, 1, atoms=1024)
    assert many["fp32"] == 4 * few["fp32"]


def test_sums_of_a_loop_lie_in_local_memory():
    def sums(unroll):
        _, work = counts(NEW, 16, unroll, 0)
        return {a.name: a.count.item() for a in work.global_accesses if a.name.startswith("sums")}

    assert sums(4) == {"sums_load": 256 * 16, "sums_store": 256 * 16}
    assert sums(0) == {"sums_load": 0, "sums_store": 0}


def test_registers_are_the_compilers():
    for capability, z, unroll, soa, registers in ((7.5, 16, 0, 0, 50), (7.5, 32, 16, 1, 58)):
        values = {"gpu_target": capability, "VECTOR_SIZE": 1}
        found, missing = TABLE.look_up(
            "registers", values | dict(zip(NAMES, (z, unroll, soa), strict=True))
        )
        assert (found, missing) == (registers, False)
    assert np.all(TABLE.columns["spill_load_bytes"] == 0)

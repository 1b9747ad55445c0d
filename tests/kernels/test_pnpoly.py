"""Points in a polygon: formulas for other devices agree with the compiler's table."""

from __future__ import annotations

from itertools import product

import pytest
from support.launches import launched

NAMES = ("between_method", "tile_size", "use_precomputed_slopes", "use_method")
CASES = list(product((0, 1, 2, 3), (1, 4, 8, 20), (0, 1), (0, 1)))
OLD, NEW = "radeon_pro_w7800", "rtx_2080_ti"  # without and with rows of the table


def counts(device, chosen):
    own = dict(zip(NAMES, chosen, strict=True))
    work = launched("pnpoly", device, block_size_x=256, **own).workload
    return {name: count.item() for name, count in work.instructions.items()}


@pytest.mark.parametrize("chosen", CASES[::5])
def test_formulas__are_near_the_table(chosen):
    written, compiled = counts(OLD, chosen), counts(NEW, chosen)
    assert written["special"] == compiled["special"]
    assert written["fp32"] == pytest.approx(compiled["fp32"], rel=0.2)
    assert sum(written.values()) == pytest.approx(sum(compiled.values()), rel=0.25)


def test_precomputed_slopes_save_the_division_of_each_edge():
    assert counts(NEW, (0, 4, 0, 1))["special"] == 600
    assert counts(NEW, (0, 4, 1, 1))["special"] == 0

"""Points in a polygon: instructions of an edge as machine code has them."""

import pytest
from support.launches import launched

NAMES = ("between_method", "tile_size", "use_precomputed_slopes", "use_method")
DEVICES = "radeon_pro_w7800", "rtx_2080_ti"  # without and with rows of the table


def counts(device, chosen):
    own = dict(zip(NAMES, chosen, strict=True))
    work = launched("pnpoly", device, block_size_x=256, **own).workload
    return {name: count.item() / 600 for name, count in work.instructions.items()}


# Of NVRTC 12.9.86 for sm_75: single precision with comparisons, and all.
@pytest.mark.parametrize(("chosen", "fp32", "total"), [
    ((0, 8, 0, 0), 47, 75), ((0, 8, 1, 0), 40, 63.5), ((0, 8, 1, 2), 40, 55.5),
    ((0, 18, 1, 1), 90, 155), ((1, 18, 0, 0), 133, 202), ((1, 8, 1, 1), 56, 99),
    ((2, 2, 0, 1), 19.5, 29.9), ((2, 8, 1, 2), 56, 76),
])  # fmt: skip
@pytest.mark.parametrize("device", DEVICES)
def test_counts__are_those_of_machine_code(device, chosen, fp32, total):
    found = counts(device, chosen)
    assert found["fp32"] == pytest.approx(fp32, rel=0.1)
    assert sum(found.values()) == pytest.approx(total, rel=0.12)


# Of NVRTC 12.9.86 for sm_61 and sm_75.
@pytest.mark.parametrize(("device", "chosen", "integer", "move"), [
    ("gtx_1080_ti", (0, 18, 1, 0), 23, 4), ("gtx_1080_ti", (1, 12, 1, 0), 41, 4),
    ("gtx_1080_ti", (1, 18, 1, 1), 59, 22), ("gtx_1080_ti", (0, 20, 1, 2), 25, 4),
    ("rtx_2080_ti", (0, 18, 1, 0), 42, 5), ("rtx_2080_ti", (1, 18, 1, 1), 42, 40),
    ("rtx_2080_ti", (1, 12, 1, 2), 48, 5), ("rtx_2080_ti", (2, 8, 0, 1), 12, 19),
])  # fmt: skip
def test_counts__are_raised_by_moves_from_volta_on_and_by_additions_before(
    device, chosen, integer, move
):
    found = counts(device, chosen)
    assert (found["integer"], found["move"]) == pytest.approx((integer, move), rel=0.08)


def test_precomputed_slopes_save_the_division_of_each_edge():
    for method in (0, 1, 2):
        divided, loaded = (counts("rtx_2080_ti", (0, 4, slopes, method)) for slopes in (0, 1))
        saved = {name: divided[name] - loaded[name] for name in ("fp32", "special", "control")}
        assert saved == pytest.approx({"fp32": 7, "special": 1, "control": 1})
        # Of NVRTC 12.9.86 for sm_75 and method 1: slopes cost moves of their own.
        assert sum(divided.values()) - sum(loaded.values()) == pytest.approx(7.5, rel=0.15)

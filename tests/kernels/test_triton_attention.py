"""Triton's attention on a B200: published speeds beside the best predicted configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.pages import ACCURACY_WORDS, accuracy_row

from sweep.evaluation.problems import Problems
from sweep.space import Plan

SPEEDS = np.genfromtxt(
    Path(__file__).parents[1] / "data" / "b200" / "attention.csv", delimiter=",", names=True
)
TRIED = {"BLOCK_M": (64, 128), "BLOCK_N": (32, 64, 128), "num_stages": (2, 3, 4)}
pytestmark = pytest.mark.slow


def predicted(specialized: tuple[int, ...]) -> np.ndarray:
    """Return the speed of the best configuration that the tutorial tries [TFLOP/s]."""
    axes = TRIED | {"num_warps": (4, 8), "WARP_SPECIALIZE": specialized, "core_clock": (1800,)}
    plan = Plan(("triton_flash_attention",), ("b200",), ("combined",), variant="revised", axes=axes)
    sizes = {name: SPEEDS[name] for name in ("head", "causal", "sequence", "bits")}
    sizes |= {"batch": np.full(40, 4), "heads": np.full(40, 32)}
    problems = Problems.of(plan, sizes)
    rows, columns, warps = map(problems.configurations.column, ("BLOCK_M", "BLOCK_N", "num_warps"))
    tried = (rows * columns == 128 * 128) | (warps == 4)
    tried = tried & ((SPEEDS["causal"] == 0)[:, None] | (rows >= columns))
    operations = 4 * 4 * 32 * SPEEDS["sequence"] ** 2 * SPEEDS["head"] / (1 + SPEEDS["causal"])
    times = np.where(tried, problems.times(), np.nan)
    return operations / np.nanmin(times, axis=1) / 1e12


@pytest.mark.parametrize(
    ("row", "specialized"),
    [("Triton's attention (its tutorial), B200", (0,)), ("the same, blind", (0, 1))],
)
def test_error__is_that_of_the_page_of_accuracy(row, specialized):
    error = np.median(np.abs(SPEEDS["teraflops"] / predicted(specialized) - 1))
    assert accuracy_row(row)[2] == f"{100 * error:.0f} %"


def test_speeds_of_long_sequences__are_those_of_the_page_of_accuracy():
    long = SPEEDS[is_long := SPEEDS["sequence"] >= 4096]
    alone, both = (predicted(way)[is_long] / long["teraflops"] for way in ((0,), (0, 1)))
    small, eight = long["head"] == 64, long["bits"] == 8
    of_small, of_8, of_16, of_all = (
        f"{ratio.min():.1f} to {ratio.max():.1f} times"
        for ratio in (both[small], both[~small & eight], both[~small & ~eight], alone)
    )
    assert (
        f"{of_small} as fast as the speed with heads of 64 elements, {of_8} with 128 in fp8, and "
        f"{of_16} with 128 in fp16; without it, {of_all} in all"
    ) in ACCURACY_WORDS

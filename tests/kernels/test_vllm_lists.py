"""vLLM's lists for mixtures of experts: how far behind the best one they are predicted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.pages import ACCURACY_WORDS, accuracy_row

from sweep.evaluation.problems import Problems, times_of_rows
from sweep.space import Plan

LISTS = Path(__file__).parents[1] / "data" / "vllm" / "moe_lists.csv.gz"
SIZES = ("tokens", "experts", "topk", "n", "k", "bits")
TRIED = {  # by vLLM's tuner (benchmarks/kernels/benchmark_moe.py)
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256), "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256), "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8), "num_stages": (2, 3, 4, 5),
}  # fmt: skip
TRIED_ON_AMD = TRIED | {  # without options that only AMD's GPUs have
    "BLOCK_SIZE_N": (16, 32, 64, 128, 256), "BLOCK_SIZE_K": (16, 32, 64, 128, 256),
    "GROUP_SIZE_M": (1, 4, 8, 16, 32), "num_warps": (1, 2, 4, 8), "num_stages": (2,),
}  # fmt: skip
NAMES = {"H100": "h100_sxm", "H200": "h200", "H20": "h20", "A100": "a100_80gb", "L40S": "l40s",
         "RTX 4090": "rtx_4090", "MI300X": "mi300x", "B200": "b200"}  # fmt: skip
pytestmark = pytest.mark.slow


@cache
def rows(device: str, block_shape: int) -> np.ndarray:
    table = np.genfromtxt(LISTS, delimiter=",", names=True, dtype=None, encoding="utf-8")
    return table[(table["device"] == device) & (table["block_shape"] == block_shape)]


@cache
def behind(device: str, block_shape: int = 0, scales: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much each entry is slower than the best, and how high the best's tiles are."""
    sizes, listed = ({n: rows(device, block_shape)[n] for n in names} for names in (SIZES, TRIED))
    axes = dict(TRIED_ON_AMD if device == "mi300x" else TRIED)
    if block_shape:  # the tuner tries its multiples; the kernel cuts longer steps
        listed["BLOCK_SIZE_K"] = np.minimum(listed["BLOCK_SIZE_K"], block_shape)
        axes |= {"BLOCK_SIZE_N": (128, 256), "BLOCK_SIZE_K": (128,), "block_shape": (scales,)}
    plan = Plan(("triton_moe",), (device,), ("combined",), variant="revised", axes=axes)
    problems = Problems.of(plan, sizes)
    times = np.nan_to_num(problems.times(), nan=np.inf)
    own, _ = times_of_rows(problems.with_sizes({n: v[:1] for n, v in sizes.items()}), sizes, listed)
    height = problems.configurations.column("BLOCK_SIZE_M")[times.argmin(axis=1)]
    return own / np.minimum(times.min(axis=1), own) - 1.0, height


def test_entries__are_predicted_as_far_behind_as_the_page_of_accuracy_says():
    found = {name: behind(device)[0] for name, device in NAMES.items()}
    for name in ("H100", "H200", "H20", "B200"):
        found[name] = np.concatenate([found[name], behind(NAMES[name], 128, 128)[0]])
    what, _, said = accuracy_row("the best configurations in vLLM 0.33")
    assert f"{sum(map(len, found.values())):,} entries" in what
    assert said == ", ".join(f"{n} {100 * np.nanmedian(v):.0f} %" for n, v in found.items())
    assert {n: int(np.isnan(v).sum()) for n, v in found.items() if np.isnan(v).any()} == {"L40S": 3}


def test_entries_with_scales_along_k__as_the_page_of_accuracy_says():
    for name in ("H200", "B200", "H100", "H20"):
        now, before = (100 * np.median(behind(NAMES[name], 128, scales)[0]) for scales in (128, 0))
        assert f"{name} {now:.0f} % (without: {before:.0f})" in ACCURACY_WORDS


def test_tiles_of_16_rows_on_a_b200__as_the_page_of_accuracy_says():
    listed = rows("b200", 0)
    chosen = (listed["bits"] == 8) & (listed["BLOCK_SIZE_M"] == 16)
    loss, height = (column[chosen] for column in behind("b200"))
    assert set(height) == {64}
    assert f"{1 + np.median(loss):.1f} times as fast (median of {len(loss)}" in ACCURACY_WORDS

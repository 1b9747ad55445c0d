"""Matrix products of libraries: measured times beside the best predicted configuration."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from support.pages import ACCURACY_WORDS, accuracy_row

from sweep.cli import main
from sweep.evaluation.problems import Problems
from sweep.space import Plan

TIMES = Path(__file__).parents[1] / "data" / "library" / "library_gemm.csv.gz"
CONFIGURATIONS = {
    "BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (16, 32, 64, 128, 256), "BLOCK_K": (32, 64, 128),
    "GROUP_M": (8,), "num_warps": (2, 4, 8), "num_stages": (2, 3, 4, 5), "SPLIT_K": (1, 2, 4, 8),
}  # fmt: skip
IN_A_GRAPH = 1.3  # microseconds of a launch on an H100, see docs/howto/triton.md


@pytest.fixture(scope="module")
def in_a_graph(tmp_path_factory) -> str:
    """Return a device file of the H100 whose launches are those of a CUDA graph."""
    path = tmp_path_factory.mktemp("devices") / "h100_in_a_graph.toml"
    given = ["name=H100 in a CUDA graph", f"kernel_launch_us={IN_A_GRAPH}"]
    assert main(["new", "device", "--like", "h100_sxm", *given, "-o", str(path)]) == 0
    return str(path)


def measured(device: str, dtype: str) -> dict[str, np.ndarray]:
    with gzip.open(TIMES, "rt", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if (r["device"], r["dtype"]) == (device, dtype)]
    assert len(rows) == 600
    return {key: np.array([float(row[key]) for row in rows]) for key in ("m", "n", "k", "time_ms")}


def best(kernel: str, device: str, axes, sizes) -> np.ndarray:
    """Return the shortest predicted time [ms] of each problem."""
    axes = {name: tuple(values) for name, values in axes.items()}
    plan = Plan((kernel,), (device,), ("combined",), variant="revised", axes=axes)
    times = Problems.of(plan, sizes).times()
    return np.where(np.isfinite(times), times, np.inf).min(axis=1) * 1e3


def product(device: str, bits: int, shapes) -> np.ndarray:
    axes = CONFIGURATIONS | {
        "cluster": (1, 2) if "h100" in device else (1,), "b_by_column": (int(bits == 8),),
    }  # fmt: skip
    sizes = {name: shapes[name] for name in "mnk"} | {"bits": np.full(len(shapes["m"]), bits)}
    return best("triton_matmul", device, axes, sizes)


def beside_the_product(device: str, shapes) -> np.ndarray:
    """Return the time of a layer's other four launches: two of them do almost nothing."""
    inputs = {name: shapes[name] for name in "mk"}
    scale = best("fp8_scale", device, {"block_size_x": [1024], "num_blocks": [1024]}, inputs)
    blocks = {"block_size_x": [256], "num_blocks": [1024], "vector": [1]}
    quotients = best("fp8_quantize", device, blocks, inputs)
    least = {"block_size_x": [128], "num_blocks": [128]}
    nothing = best("fp8_scale", device, least, {"m": np.array([1]), "k": np.array([1])})
    return scale + quotients + 2 * nothing


def off(predicted: np.ndarray, shapes) -> tuple[float, float]:
    """Return the median and mean error, of shapes that have a configuration."""
    error = np.abs(predicted / shapes["time_ms"] - 1)[np.isfinite(predicted)]
    assert error.size > 590
    return float(np.median(error)), float(np.mean(error))


@pytest.mark.parametrize(("device", "what"), [
    ("a100_80gb", "library GEMM, A100 SXM 80 GB, bf16"),
    ("h100_sxm", "library GEMM, H100 SXM, bf16, launches"),
    ("in_a_graph", "library GEMM, H100 SXM, bf16, in a CUDA graph"),
])  # fmt: skip
def test_products__are_predicted_as_the_page_says(device, what, in_a_graph):
    shapes = measured("a100_80gb" if device == "a100_80gb" else "h100_sxm", "bfloat16")
    found = off(product(in_a_graph if device == "in_a_graph" else device, 16, shapes), shapes)
    assert [f"{100 * error:.0f} %" for error in found] == accuracy_row(what)[-2:]
    assert found[0] <= 0.12 and found[1] <= 0.20


def test_layer_in_fp8__is_predicted_as_the_page_says(in_a_graph):
    shapes = measured("h100_sxm", "fp8")
    product_alone = product(in_a_graph, 8, shapes)
    found = off(product_alone + beside_the_product(in_a_graph, shapes), shapes)
    assert [f"{100 * error:.0f} %" for error in found] == accuracy_row("library layer, H100")[-2:]
    assert found[0] <= 0.12 and found[1] <= 0.20
    alone, _ = off(product_alone, shapes)  # less than half of these times
    assert alone > 0.5
    assert f"The product alone is {100 * alone:.0f} % off" in ACCURACY_WORDS

"""Matrix products of libraries: measured times beside the best predicted configuration."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from sweep.cli import main
from sweep.evaluation.problems import Problems
from sweep.space import Plan

ROOT = Path(__file__).parents[2]
TIMES = ROOT / "tests" / "data" / "library" / "library_gemm.csv.gz"
PAGE = ROOT / "docs" / "models" / "combined_accuracy.md"
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


def layer_in_fp8(device: str, shapes) -> np.ndarray:
    """Return the time of five launches: two of them do almost nothing."""
    inputs = {name: shapes[name] for name in "mk"}
    scale = best("fp8_scale", device, {"block_size_x": [1024], "num_blocks": [1024]}, inputs)
    blocks = {"block_size_x": [256], "num_blocks": [1024], "vector": [1]}
    quotients = best("fp8_quantize", device, blocks, inputs)
    least = {"block_size_x": [128], "num_blocks": [128]}
    nothing = best("fp8_scale", device, least, {"m": np.array([1]), "k": np.array([1])})
    return product(device, 8, shapes) + scale + quotients + 2 * nothing


def off(predicted: np.ndarray, shapes) -> tuple[float, float]:
    """Return the median and mean error, of shapes that have a configuration."""
    error = np.abs(predicted / shapes["time_ms"] - 1)[np.isfinite(predicted)]
    assert error.size > 590
    return float(np.median(error)), float(np.mean(error))


def said(what: str) -> tuple[float, float]:
    """Return the errors of a row of the page."""
    (row,) = (line for line in PAGE.read_text("utf-8").splitlines() if what in line)
    median, mean = (float(cell.split("%")[0]) / 100 for cell in row.strip("|").split("|")[-2:])
    return median, mean


@pytest.mark.parametrize(
    ("device", "what"),
    [
        ("a100_80gb", "library GEMM, A100 SXM 80 GB, bf16"),
        ("h100_sxm", "library GEMM, H100 SXM, bf16, launches"),
        ("in_a_graph", "library GEMM, H100 SXM, bf16, in a CUDA graph"),
    ],
)
def test_products__are_predicted_as_the_page_says(device, what, in_a_graph):
    shapes = measured("a100_80gb" if device == "a100_80gb" else "h100_sxm", "bfloat16")
    found = off(product(in_a_graph if device == "in_a_graph" else device, 16, shapes), shapes)
    assert found == pytest.approx(said(what), abs=0.0051)
    assert found[0] <= 0.12
    assert found[1] <= 0.20


def test_layer_in_fp8__is_predicted_as_the_page_says(in_a_graph):
    shapes = measured("h100_sxm", "fp8")
    found = off(layer_in_fp8(in_a_graph, shapes), shapes)
    assert found == pytest.approx(said("library layer, H100 SXM, fp8"), abs=0.0051)
    assert found[0] <= 0.12
    assert found[1] <= 0.20
    # The product alone is less than half of these times.
    assert off(product(in_a_graph, 8, shapes), shapes)[0] > 0.5

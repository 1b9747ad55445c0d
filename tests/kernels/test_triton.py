"""Triton's products beside what Triton 3.9 and ptxas made of its tutorial's kernel.

`tests/data/triton_matmul_compiled.csv` has 440 configurations for sm_80 and sm_90, of fp16 with
m, n, k and strides that are multiples of 16: resources, and machine instructions of a warp in the
loop over k and outside of it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import sweep
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve

PATH = Path(__file__).parents[1] / "data" / "triton_matmul_compiled.csv"
ROWS = [
    {name: float(value) for name, value in row.items()}
    for row in csv.DictReader(PATH.read_text("utf-8").splitlines())
]
DEVICE = {8.0: "a100_80gb", 9.0: "h100_sxm"}
PARAMETERS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")


def of(capability, **kept):
    return [r for r in ROWS if r["compute_capability"] == capability
            and all(kept[name](r[name]) for name in kept)]  # fmt: skip


def predicted(rows, *names):
    """Return derived values of the kernel file for each row, for k of 1024 elements."""
    device = DEVICE[rows[0]["compute_capability"]]
    axes = {name: sorted({r[name] for r in rows}) for name in PARAMETERS}
    axes |= {"k": [1024.0], "GROUP_M": [8.0]}
    plan = Plan(["triton_matmul"], [device], ["combined"], axes=axes)
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    found = []
    axis_of = {d.name: i for i, d in enumerate(space.clocked.dimensions)}
    for row in rows:
        at = {axis_of[name]: axes[name].index(row[name]) for name in PARAMETERS if name in axis_of}
        values = []
        for name in names:
            table = np.asarray(launch.values[name])
            index = tuple(at.get(i, 0) if n > 1 else 0 for i, n in enumerate(table.shape))
            values.append(float(table[index]))
        found.append(values)
    return np.array(found).T


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_resources(capability):
    rows = of(capability)
    registers, shared = predicted(rows, "registers_per_thread", "shared_memory_bytes")
    error = np.abs(registers / [r["registers"] for r in rows] - 1)
    assert np.median(error) < 0.10
    assert np.quantile(error, 0.9) < 0.30
    assert np.mean(shared == [r["shared_bytes"] for r in rows]) > 0.93


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_instructions_of_the_loop(capability):
    rows = of(capability, num_stages=lambda n: n > 1)
    names = "products", "copies", "loads_a", "loads_b", "is_group", "beside"
    products, copies, a, b, group, beside = predicted(rows, *names)
    assert np.mean(products == [r["matrix"] for r in rows]) > 0.93
    assert np.mean(copies == [r["copies"] for r in rows]) > 0.95
    total = products + copies + (a + b) * (1 - group) + beside
    assert np.median(np.abs(total / [r["loop"] for r in rows] - 1)) < 0.10


@pytest.mark.parametrize("capability", [8.0, 9.0])
def test_spills(capability):
    """Where ptxas spills much, the file says so, and nowhere else much."""
    rows = of(capability)
    (spilled,) = predicted(rows, "spilled")
    stack = np.array([r["stack_bytes"] for r in rows])
    assert np.mean(spilled[stack > 500] > 0) > 0.9
    assert np.mean(4 * spilled[stack == 0] > 500) < 0.02


def test_a_type_that_the_device_lacks_has_a_status():
    plan = Plan(["triton_matmul"], ["a100_80gb", "h100_sxm"], ["combined"],
                axes={"bits": [8.0], "BLOCK_M": [64.0], "BLOCK_N": [64.0], "num_warps": [4.0]},
                outputs=("execution_time", "status"))  # fmt: skip
    found = sweep.evaluate(plan)["triton_matmul"].dataset.load()
    status = found.status.sel(device="a100_80gb").values
    assert set(np.unique(status)) <= {STATUS["missing_parameters"], STATUS["shared_memory"]}
    assert np.isfinite(found.execution_time.sel(device="h100_sxm")).any()


def test_clusters_are_those_of_the_device():
    sizes = [1.0, 2.0, 8.0, 16.0, 32.0]
    plan = Plan(["triton_matmul"], ["a100_80gb", "h100_sxm", "b200", "rtx_5090"], ["combined"],
                axes={"cluster": sizes, "m": [8192.0], "BLOCK_M": [64.0], "BLOCK_N": [64.0],
                      "BLOCK_K": [32.0], "GROUP_M": [1.0], "num_warps": [4.0], "num_stages": [3.0]},
                outputs=("status",))  # fmt: skip
    found = sweep.evaluate(plan)["triton_matmul"].dataset.load().status
    for device, most in (("a100_80gb", 1), ("h100_sxm", 16), ("b200", 16), ("rtx_5090", 1)):
        valid = found.sel(device=device).values.ravel() == STATUS["valid"]
        assert valid.tolist() == [size <= most for size in sizes], device


@pytest.mark.parametrize("m", [1, 127, 129, 4096])
def test_shapes_that_are_no_multiple_of_the_tile(m):
    plan = Plan(["triton_matmul"], ["a100_80gb"], ["combined"],
                axes={"m": [float(m)], "n": [1000.0], "k": [70.0]})  # fmt: skip
    time = sweep.evaluate(plan)["triton_matmul"].dataset.execution_time.load()
    assert 2.5e-6 < float(time.min()) < 1e-3


def test_a_time_is_the_same_beside_loads_that_are_waited_for():
    """With one stage there are no copies; other configurations of its box are not changed by it."""
    axes = {"num_stages": [1, 2, 3], "BLOCK_M": [64], "BLOCK_N": [64, 128], "num_warps": [4]}

    def times(stages):
        plan = Plan(["triton_matmul"], ["a100_80gb"], ["combined"],
                    axes=axes | {"num_stages": stages})  # fmt: skip
        return sweep.evaluate(plan)["triton_matmul"].dataset.execution_time.load()

    together = times([1, 2, 3])
    for n in (1, 2, 3):
        np.testing.assert_array_equal(together.sel(num_stages=n), times([n]).sel(num_stages=n))

"""Triton's products beside what Triton 3.9 made of them for AMD's GPUs and Blackwell.

`tests/data/triton/matmul_targets.csv` has 90 configurations for each of five targets, drawn at
random over types and layouts: resources, and a warp's machine instructions in a step over k.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import sweep
from sweep.evaluation.launch import build_launch, build_workload
from sweep.fields import STATUS
from sweep.models import get_model
from sweep.space import Plan, resolve

PATH = Path(__file__).parents[1] / "data" / "triton" / "matmul_targets.csv"
KINDS = {"fp16": (16.0, 0.0), "tf32": (32.0, 0.0), "fp8": (8.0, 0.0), "int8": (8.0, 1.0)}
DEVICE = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx1100": "radeon_pro_w7800",
          "sm_100": "b200", "sm_120": "rtx_5090"}  # fmt: skip
AMD = pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100"])
ALL = pytest.mark.parametrize("target", list(DEVICE))
NAMES = ("products", "copies", "loads_a", "loads_b", "is_group", "is_tensor", "writes", "beside",
         "conversions", "spilled", "registers_per_thread", "shared_memory_bytes",
         "tensor_memory_columns")  # fmt: skip


@cache
def table(target):
    """Return the compiled rows, 8 bits in one layout, and what the kernel file says of each."""
    rows = []
    for row in csv.DictReader(PATH.read_text("utf-8").splitlines()):
        bits, is_integer = KINDS[row.pop("kind")]
        own = row.pop("target")
        row = {k: float(v) for k, v in row.items()} | {"bits": bits, "is_integer": is_integer}
        row |= {"a_by_column": row.pop("a_column"), "b_by_column": row.pop("b_column")}
        if own == target and (bits > 8 or (row["a_by_column"], row["b_by_column"]) == (0, 1)):
            rows.append(row)
    axes = {name: sorted({r[name] for r in rows}) for name in (
        "bits", "is_integer", "a_by_column", "b_by_column", "BLOCK_M", "BLOCK_N", "BLOCK_K",
        "num_warps", "num_stages")}  # fmt: skip
    plan = Plan(["triton_matmul"], [DEVICE[target]], ["combined"], axes=axes, layout="grid")
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    axis_of = {d.name: i for i, d in enumerate(space.clocked.dimensions)}
    found = {}
    for name in NAMES:
        values, column = np.asarray(launch.values[name]), []
        for row in rows:
            at = {axis_of[n]: axes[n].index(row[n]) for n in axes if n in axis_of}
            column.append(values[tuple(at.get(i, 0) % n for i, n in enumerate(values.shape))])
        found[name] = np.array(column, float)
    return {name: np.array([r[name] for r in rows]) for name in rows[0]}, found


def error(predicted, counted):
    return np.abs(predicted / counted - 1)


@ALL
def test_instructions__matrix_units_and_copies_are_all_as_said(target):
    rows, found = table(target)
    assert (found["products"] == rows["matrix"]).all()
    share = np.mean(found["copies"] == rows["copies"])
    assert share == 1 if target.startswith("gfx") else share > 0.97


@ALL
def test_instructions__of_a_step(target):
    rows, found = table(target)
    few = (rows["stack_bytes"] < 100) & (rows["num_stages"] > 1)  # copies, and no spills
    names = ("products", "copies", "writes", "beside", "conversions")
    total = sum(found[name] for name in names)
    total += (found["loads_a"] + found["loads_b"]) * (1 - found["is_group"])
    assert np.median(error(total, rows["step"])[few]) < 0.10


@AMD
def test_instructions__of_shared_memory(target):
    rows, found = table(target)
    has = (rows["shared_loads"] > 0) & (rows["shared_stores"] > 0) & (rows["bits"] < 32)
    loads = error((found["loads_a"] + found["loads_b"])[has], rows["shared_loads"][has])
    assert np.mean(loads < 0.01) > 0.85
    writes = found["writes"][has] / rows["shared_stores"][has]
    assert np.mean(error(writes, 1) < 0.01) > 0.55 and 0.45 < writes.min() and writes.max() < 4.1


@ALL
def test_resources(target):
    rows, found = table(target)
    registers = error(found["registers_per_thread"], rows["registers"])
    assert np.median(registers) < 0.10 and np.quantile(registers, 0.9) < 0.30
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"]) > 0.88
    assert (found["tensor_memory_columns"].clip(32 * found["is_tensor"]) == rows["columns"]).all()


@ALL
def test_spills(target):
    """Where the compiler spills much in the loop, the file says so, and nowhere else much."""
    rows, found = table(target)
    much = (found["is_tensor"] == 0) & (rows["stack_bytes"] > 200)
    assert np.mean(found["spilled"][much] > 0) > 0.8
    assert np.mean(4 * found["spilled"][rows["stack_bytes"] == 0] > 500) < 0.02


def test_tensor_memory__limits_the_blocks_of_b200():
    plan = Plan(["triton_matmul"], ["b200"], ["combined"],
                axes={"BLOCK_M": [128.0], "BLOCK_N": [64.0, 256.0], "BLOCK_K": [16.0],
                      "num_warps": [4.0], "num_stages": [2.0], "GROUP_M": [8.0]},
                outputs=("active_blocks_per_sm", "occupancy_limiter"))  # fmt: skip
    found = sweep.evaluate(plan)["triton_matmul"].dataset.load()
    assert found.active_blocks_per_sm.values.ravel().max() >= 3
    at = found.isel({d: -1 for d in found.dims})
    assert (int(at.active_blocks_per_sm), int(at.occupancy_limiter)) == (2, 6)


@pytest.mark.parametrize(
    ("device", "bits"), [("mi210", 8.0), ("a100_80gb", 8.0), ("gtx_980", 16.0)]
)
def test_a_type_that_the_device_lacks_has_a_status(device, bits):
    plan = Plan(["triton_matmul"], [device], ["combined"], axes={"bits": [bits]},
                outputs=("execution_time", "status"))  # fmt: skip
    status = sweep.evaluate(plan)["triton_matmul"].dataset.load().status.values
    assert STATUS["missing_parameters"] in status and STATUS["valid"] not in status


def inputs(device, warps=4.0, bits=16.0, stages=2.0):
    """Return the model's inputs for a tile of 128 x 128, and the device's numbers."""
    axes = {"BLOCK_M": [128.0], "BLOCK_N": [128.0], "BLOCK_K": [64.0], "bits": [bits],
            "num_warps": [warps], "num_stages": [stages], "GROUP_M": [8.0]}  # fmt: skip
    (space,) = resolve(Plan(["triton_matmul"], [device], ["combined"], axes=axes)).kernels
    model = get_model("combined")
    given = model.prepare(build_workload(build_launch(space), model, {}), "corrected")
    return given, space.devices[0].values


def slowness(device, warps, bits=16.0):
    """Return the time of the matrix units, over that at the device's rate."""
    given, values = inputs(device, warps, bits)
    rate = values[f"matrix.{'fp16' if bits == 16 else 'tf32'}_multiply_adds"]
    return float(np.ravel(given["matrix"][1])[0]) / (128 * 128 * 4096 / warps / rate)


def test_rdna_multiplies_on_the_lanes_that_it_computes_with():
    """Its instructions of a step take the time of both; CDNA's have units of their own."""
    assert slowness("mi300x", 4.0) == pytest.approx(1.0)
    assert 1.05 < slowness("radeon_pro_w7800", 4.0) < 1.5


@pytest.mark.parametrize(("device", "slower"), [("h100_sxm", 1.5), ("b200", 4.0), ("l40s", 1.0)])
def test_products_of_single_warps_are_slower_than_those_of_groups(device, slower):
    """Two warps are no group: they multiply by mma, whatever the type."""
    found = [slowness(device, 2.0, bits) for bits in (16.0, 32.0)] + [slowness(device, 4.0)]
    assert found == pytest.approx([slower, slower, 1.0], rel=1e-4)


def test_first_copies_are_waited_for_beside_those_of_the_next_steps():
    """The code before the loop issues them all; a warp group has a buffer for each stage."""
    few, many = (inputs("h100_sxm", stages=n)[0] for n in (2.0, 5.0))
    assert np.max(many["chain"][0]) < np.min(few["chain"][0])
    assert [np.max(one["buffers"][1]) for one in (few, many)] == [2, 5]


@pytest.mark.parametrize("device", ["mi300x", "b200", "radeon_pro_w7800"])
def test_experts__cost_what_the_same_product_costs(device):
    """With one expert, whose tokens fill all tiles, the fused product is the plain one."""
    tile = {"num_warps": [4.0], "num_stages": [2.0]}
    rows = {"BLOCK_M": [128.0], "BLOCK_N": [64.0], "BLOCK_K": [64.0], "GROUP_M": [8.0]}
    plain = Plan(["triton_matmul"], [device], ["combined"],
                 axes=tile | rows | {"m": [8192.0], "b_by_column": [1.0]})  # fmt: skip
    long = {name.replace("_", "_SIZE_"): value for name, value in rows.items()}
    sizes = {"tokens": [8192.0], "experts": [1.0], "topk": [1.0], "n": [4096.0], "k": [4096.0]}
    fused = Plan(["triton_moe"], [device], ["combined"], axes=tile | long | sizes)
    times = [float(sweep.evaluate(plan)[plan.kernels[0]].dataset.load().execution_time.max())
             for plan in (plain, fused)]  # fmt: skip
    assert times[1] == pytest.approx(times[0], rel=0.02)


def test_attention__is_refused_where_its_instructions_were_not_counted():
    plan = Plan(["triton_flash_attention"], ["mi300x", "b200"], ["combined"], outputs=("status",))
    status = sweep.evaluate(plan)["triton_flash_attention"].dataset.load().status.values
    assert STATUS["valid"] not in status and STATUS["constraint"] in status

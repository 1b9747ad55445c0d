"""Kernels in Triton beside what Triton 3.9 and ptxas made of them.

`tests/data/triton` has, for sm_80 and sm_90, resources and machine instructions of a warp in each
loop and outside, by class, and the script that counts them. A row with `aligned = 1` is of a length
that is a multiple of 16 elements.
"""

import csv
import importlib.util
from functools import cache

import numpy as np
import pytest
from support.triton_tables import FOLDER, KINDS, error

import sweep
from sweep.errors import PlanError
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve

DEVICE = {8.0: "a100_80gb", 9.0: "h100_sxm"}
TURNS = 64.0  # of every loop
BOTH = pytest.mark.parametrize("capability", [8.0, 9.0])
AXES = {
    "flash_attention": ("bits", "head", "causal", "BLOCK_M", "BLOCK_N", "num_warps", "num_stages"),
    "softmax": ("bits", "columns", "num_warps", "num_stages"),
    "layer_norm": ("bits", "columns", "BLOCK_SIZE", "num_warps"),
    "moe": ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages"),
}
TYPES = (
    "bits", "is_integer", "a_by_column", "b_by_column", "BLOCK_M", "BLOCK_N", "BLOCK_K",
    "num_warps",
)  # fmt: skip
LOOPS = {"flash_attention": [("steps", "scores")], "softmax": [("rows",)],
         "layer_norm": [("mean",), ("deviation",), ("result",)], "moe": [("steps",)]}  # fmt: skip
"""Stages of each of a kernel's loops."""
CLASSES = ("matrix", "ldmatrix", "copies", "loads", "stores", "shared", "fp32", "special",
           "conversion", "control", "move", "integer", "barriers", "shuffles")  # fmt: skip


@cache
def rows_of(kernel, capability):
    """Return the compiled configurations, each with the sizes that make such a one."""
    text = (FOLDER / f"{kernel}.csv").read_text("utf-8")
    read = csv.DictReader(text.splitlines())
    rows = [{k: v if k == "kind" else float(v or 0) for k, v in r.items()} for r in read]
    for row in rows:
        if kernel == "matmul":
            row["bits"], row["is_integer"] = KINDS[row["kind"]]
            row |= {"a_by_column": row["a_column"], "b_by_column": row["b_column"]}
        if kernel == "moe":
            row |= {"bits": 16.0} | {f"BLOCK_SIZE_{side}": row[f"BLOCK_{side}"] for side in "MNK"}
        if kernel == "softmax":
            row["columns"] = row["BLOCK"] - (1 - row["aligned"])
        if kernel == "layer_norm":
            row |= {
                "BLOCK_SIZE": row["BLOCK"],
                "columns": TURNS * row["BLOCK"] - 1 + row["aligned"],
            }
    # Hopper's other instructions do not multiply in 8 bits, and products in 8 bits have one layout:
    # the files say so, too.
    taken = [
        r for r in rows
        if r["compute_capability"] == capability and r["registers"]
        and (r["bits"] > 8 or r.get("is_integer") or (r["BLOCK_M"] >= 64 and r["num_warps"] >= 4))
        and (r["bits"] > 8 or kernel != "matmul" or (not r["a_column"] and r["b_column"]))
    ]  # fmt: skip
    return tuple(taken)


@cache
def tables(kernel, capability):
    """Return the launch over all values of the rows' axes, and the number of each axis."""
    rows = rows_of(kernel, capability)
    axes = {name: sorted({r[name] for r in rows}) for name in AXES.get(kernel, TYPES)}
    sizes = {"flash_attention": {"sequence": [2.0**20]}, "softmax": {"rows": [1e6]},
             "matmul": {"num_stages": [3.0]}, "moe": {"k": [2.0**20]}}  # fmt: skip
    plan = Plan([f"triton_{kernel}"], [DEVICE[capability]], ["combined"],
                axes=axes | sizes.get(kernel, {}), layout="grid")  # fmt: skip
    (space,) = resolve(plan).kernels
    names = {d.name: i for i, d in enumerate(space.clocked.dimensions)}
    return build_launch(space), {
        name: (names[name], values) for name, values in axes.items() if name in names
    }


def by_row(kernel, capability, table):
    """Return a table's value for each row."""
    _, axes = tables(kernel, capability)
    table, found = np.asarray(table), []
    for row in rows_of(kernel, capability):
        index = [0] * table.ndim
        for name, (axis, values) in axes.items():
            index[axis] = values.index(row[name]) if table.shape[axis] > 1 else 0
        found.append(float(table[tuple(index)]))
    return np.array(found)


def values(kernel, capability, name):
    return by_row(kernel, capability, tables(kernel, capability)[0].values[name])


def column(kernel, capability, name):
    return np.array([row.get(name, 0.0) for row in rows_of(kernel, capability)])


def per_turn(kernel, capability, stage):
    """Return the instructions of a warp in one turn of a stage's loop, spills left out."""
    (stage,) = [s for s in tables(kernel, capability)[0].workload.stages if s.name == stage]
    accesses = [a.count for a in stage.global_accesses if a.memory != "local"]
    total = by_row(kernel, capability, stage.computation_instructions)
    total = total + sum((by_row(kernel, capability, count) for count in accesses), 0.0)
    return total / by_row(kernel, capability, stage.executions)


def unrolled(capability, i):
    """Return how many turns of layer norm's loops the compiler joined, by their loads."""
    loads = values("layer_norm", capability, "accesses") * (3 if i == 3 else 1)
    return column("layer_norm", capability, f"loads_{i}") / loads


@BOTH
@pytest.mark.parametrize("kernel", AXES)
def test_registers_and_shared_memory(kernel, capability):
    wrong = error(
        values(kernel, capability, "registers_per_thread"), column(kernel, capability, "registers")
    )
    assert np.median(wrong) < 0.10
    assert np.quantile(wrong, 0.9) < 0.30
    shared = column(kernel, capability, "shared_bytes")
    found = values(kernel, capability, "shared_memory_bytes")
    assert np.mean(np.abs(found - shared) <= 0.01 * shared + 1100) > 0.98


@BOTH
@pytest.mark.parametrize("kernel", AXES)
def test_instructions_of_the_loops(kernel, capability):
    for i, names in enumerate(LOOPS[kernel], 1):
        counted = sum(column(kernel, capability, f"{kind}_{i}") for kind in CLASSES)
        is_whole = column(kernel, capability, f"spills_{i}") == 0
        if kernel == "layer_norm":
            counted = counted / unrolled(capability, i)
        found = sum(per_turn(kernel, capability, name) for name in names)
        assert np.median(error(found, counted)[is_whole]) < 0.10, names


@BOTH
def test_product_in_other_types_and_layouts(capability):
    def counted(*kinds):
        return sum(column("matmul", capability, f"{kind}_1") for kind in kinds)

    def found(*names):
        return sum(values("matmul", capability, name) for name in names)

    assert len({r["kind"] for r in rows_of("matmul", capability)}) >= 3
    assert (found("products") == counted("matrix")).all()
    assert (found("copies") == counted("copies", "loads")).all()
    shared = error(found("shared_memory_bytes"), column("matmul", capability, "shared_bytes"))
    assert np.mean(shared == 0) > 0.9
    registers = error(found("registers_per_thread"), column("matmul", capability, "registers"))
    assert np.median(registers) < 0.10
    loads = found("loads_a", "loads_b") * (1 - found("is_group"))
    whole = error(found("products", "copies", "beside") + loads, counted(*CLASSES))
    assert np.median(whole) < 0.10
    for kind in {r["kind"] for r in rows_of("matmul", capability)}:
        own = [r["kind"] == kind for r in rows_of("matmul", capability)]
        assert np.median(whole[own]) < 0.26 and np.median(registers[own]) < 0.12, kind


@BOTH
def test_attention__matrix_instructions_and_loads(capability):
    counted = column("flash_attention", capability, "matrix_1")
    assert np.mean(values("flash_attention", capability, "products") == counted) > 0.99
    loads = values("flash_attention", capability, "loads")
    assert np.mean(loads == column("flash_attention", capability, "ldmatrix_1")) > 0.95


@BOTH
@pytest.mark.parametrize("name", ["barriers", "shuffles"])
def test_attention__barriers_and_shuffles(capability, name):
    staged = column("flash_attention", capability, "num_stages") > 1
    counted = column("flash_attention", capability, f"{name}_1")
    assert np.mean((values("flash_attention", capability, name) == counted)[staged]) > 0.97


@BOTH
def test_attention__barriers_outside_of_the_loops(capability):
    stages = tables("flash_attention", capability)[0].workload.stages
    found = sum(by_row("flash_attention", capability, stages[i].barriers) for i in (0, -1))
    whole = column("flash_attention", capability, "spills_1") == 0
    whole &= column("flash_attention", capability, "num_stages") > 1
    counted = column("flash_attention", capability, "barriers_outside")
    assert np.median(error(found, counted)[whole]) < 0.34


@BOTH
@pytest.mark.parametrize("kernel", ["flash_attention", "moe"])
def test_spills(kernel, capability):
    counted = column(kernel, capability, "spills_1")
    found = 2 * values(kernel, capability, "spilled")
    assert np.mean(found[counted > 100] > 50) > 0.9
    assert np.mean(found[counted == 0] > 50) < 0.05
    ratio = (found / np.maximum(counted, 1))[counted > 100]
    assert 0.5 < np.median(ratio) < 2
    assert np.mean((ratio > 0.25) & (ratio < 4)) > 0.8


@BOTH
def test_attention__masks_along_the_diagonal(capability):
    first, second = (
        sum(column("flash_attention", capability, f"{kind}_{i}") for kind in CLASSES)
        for i in (1, 2)
    )
    is_apart = (second > 0) & (column("flash_attention", capability, "spills_1") == 0)
    wrong = error(
        values("flash_attention", capability, "masks")[is_apart], (second - first)[is_apart]
    )
    assert np.median(wrong) < 0.10


@pytest.mark.slow
@pytest.mark.parametrize("kernel", AXES)
def test_what_triton_compiles_today(kernel, monkeypatch, tmp_path):
    """With the extra `compilers`: the recorded rows are what the compiler says."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    for capability in DEVICE:
        row = min(
            rows_of(kernel, capability), key=lambda r: (-r["num_warps"] * r["bits"], r["registers"])
        )
        named = make.configurations(FOLDER / f"{kernel}.csv")[0]
        given = {n: row[n] if n == "compute_capability" else int(row[n]) for n in named}
        found = make.counts(kernel, given)
        assert found["registers"] == pytest.approx(row["registers"], rel=0.2)
        assert found["shared_bytes"] == pytest.approx(row["shared_bytes"], rel=0.1, abs=128)
        for kind in ("matrix", "fp32", "special"):
            assert found[f"{kind}_1"] == pytest.approx(row.get(f"{kind}_1", 0), rel=0.1)


@BOTH
def test_attention__shared_memory_that_a_block_cannot_have(capability):
    launch, _ = tables("flash_attention", capability)
    refused = by_row("flash_attention", capability, launch.status) == STATUS["shared_memory"]
    most = {8.0: 166_912, 9.0: 232_448}[capability]
    assert np.mean(refused == (column("flash_attention", capability, "shared_bytes") > most)) > 0.98


def times(kernel, device="a100_80gb", **axes):
    plan = Plan([f"triton_{kernel}"], [device], ["combined"],
                axes={name: list(given) for name, given in axes.items()})  # fmt: skip
    return sweep.evaluate(plan)[f"triton_{kernel}"].dataset.load()


@pytest.mark.parametrize(
    "kernel, size, whole, given",
    [
        ("flash_attention", "sequence", 1024.0, {"BLOCK_M": [64.0], "BLOCK_N": [64.0]}),
        ("softmax", "columns", 4096.0, {"num_warps": [4.0]}),
        ("layer_norm", "columns", 4096.0, {"BLOCK_SIZE": [1024.0], "num_warps": [4.0]}),
    ],
)
def test_lengths_that_are_no_multiple_of_the_tile(kernel, size, whole, given):
    """What lies beside the tile is computed, too; rows that are not aligned element by element."""
    axes = {size: [1.0, whole - 1, whole, whole + 1, 1e9]}
    found = times(kernel, **axes, **given)
    time = found.execution_time.min([d for d in found.execution_time.dims if d != size]).values
    assert np.isfinite(time[:4]).all() and 0 < time[0] <= time[2] < time[3]
    is_valid = found.status.values == STATUS["valid"]
    assert (np.isfinite(found.execution_time.values) == is_valid).all()


@pytest.mark.parametrize("size", ["rows", "columns"])
def test_no_rows_and_no_columns(size):
    with pytest.raises(PlanError, match=f"axes.{size} = 0.0: a problem size is a number above 0"):
        times("softmax", **{size: [0.0]})


def test_types_and_shapes_that_attention_lacks():
    for given in ({"bits": [8.0]}, {"head": [96.0]}, {"heads": [2.0**14]}):
        status = times("flash_attention", **given).status.values
        assert (status[status != STATUS["block_too_large"]] == STATUS["constraint"]).all()
    assert (times("flash_attention", "h100_sxm", bits=[8.0]).status == 0).any()

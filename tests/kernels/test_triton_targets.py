"""Products, experts and attention beside what Triton 3.9 made of them for AMD's and Blackwell."""

import numpy as np
import pytest
from support.triton_tables import DEVICE, OPTIONS, error, launched, table

import sweep
from sweep.evaluation.launch import build_launch, build_workload
from sweep.fields import STATUS
from sweep.models import get_model
from sweep.space import Plan, resolve

AMD = pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100"])
ALL = pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "sm_100", "sm_120"])
PRODUCTS = pytest.mark.parametrize("kernel", ["matmul", "moe"])
KERNELS = pytest.mark.parametrize("kernel", ["matmul", "moe", "flash_attention"])


@ALL
@PRODUCTS
def test_instructions__matrix_units_and_copies_are_all_as_said(kernel, target):
    rows, found = table(target, kernel)
    assert (found["products"] == rows["matrix"]).all()
    share = np.mean(found["copies"] == rows["copies"])
    assert share == 1 if target.startswith("gfx") else share > 0.97


@ALL
@PRODUCTS
def test_instructions__of_a_step(kernel, target):
    rows, found = table(target, kernel)
    few = (rows["stack_bytes"] < 100) & (rows["num_stages"] > 1)  # copies, and no spills
    names = ("products", "copies", "writes", "beside", "conversions")
    total = sum(found[name] for name in names)
    total += (found["loads_a"] + found["loads_b"]) * (1 - found["is_group"])
    assert np.median(error(total, rows["step"])[few]) < 0.10


@pytest.mark.parametrize("target", ["gfx942", "sm_100", "sm_120", "sm_90"])
def test_experts_in_fp8(target):
    rows, found = table(target, "moe")
    of = rows["bits"] == 8
    few = of & (rows["stack_bytes"] < 100) & (rows["num_stages"] > 1)
    total = sum(found[n] for n in ("products", "copies", "writes", "beside", "conversions"))
    total += (found["loads_a"] + found["loads_b"]) * (1 - found["is_group"])
    assert of.sum() == 25 and (found["products"] == rows["matrix"])[of].all()
    assert np.median(error(total, rows["step"])[few]) < 0.07
    assert np.median(error(found["registers_per_thread"], rows["registers"])[of]) < 0.10
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"], where=of) > 0.9


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120", "gfx942"])
def test_experts_in_fp8_with_scales_along_k(target):
    rows, found = table(target, "moe_quant")
    is_amd = target == "gfx942"  # whose loads of scales are counted with the others
    assert (found["products"] == rows["matrix"]).all()
    assert (found["copies"] + is_amd * found["scales"] == rows["copies"]).all()
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"]) > 0.92
    few = rows["stack_bytes"] < 100
    names = ("products", "copies", "writes", "beside", "conversions", "of_scales")
    total = sum(found[n] for n in names)
    total += (found["loads_a"] + found["loads_b"]) * (1 - found["is_group"])
    total += found["scaling"] * (0.5 if target == "sm_100" else 1)  # FMUL2 and FFMA2
    assert np.median(error(total, rows["step"])[few]) < 0.07
    assert np.median(error(found["registers_per_thread"], rows["registers"])) < 0.10
    spilled = 4 * found["spilled"] / rows["stack_bytes"].clip(1)
    assert ((0.5 < spilled) & (spilled < 1.5))[~few].all() and (found["spilled"][few] == 0).all()


@AMD
@PRODUCTS
def test_instructions__of_shared_memory(kernel, target):
    rows, found = table(target, kernel)
    has = (rows["shared_loads"] > 0) & (rows["shared_stores"] > 0) & (rows["bits"] < 32)
    loads = error((found["loads_a"] + found["loads_b"])[has], rows["shared_loads"][has])
    assert np.mean(loads < 0.01) > 0.93
    writes = found["writes"][has] / rows["shared_stores"][has]
    assert np.mean(error(writes, 1) < 0.01) > 0.92 and 0.7 < writes.min() and writes.max() < 3.1
    buffered = rows["num_stages"] > 1
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"], where=buffered) > 0.99


@ALL
@KERNELS
def test_resources(kernel, target):
    rows, found = table(target, kernel)
    registers = error(found["registers_per_thread"], rows["registers"])
    assert np.median(registers) < 0.10 and np.quantile(registers, 0.9) < 0.30
    shared, slack = found["shared_memory_bytes"], 1100 * (kernel == "flash_attention")
    assert np.mean(np.abs(shared - rows["shared_bytes"]) <= slack) > 0.88
    assert (found["tensor_memory_columns"].clip(32 * found["is_tensor"]) == rows["columns"]).all()


@ALL
def test_attention__matrix_instructions_and_exponentials_are_all_as_said(target):
    rows, found = table(target, "flash_attention")
    assert (found["products"] == rows["matrix"]).all()
    assert (found["scores"] + found["rows"] == rows["special"]).all()


def instructions_of_a_step(kernel, target):
    """Return what the kernel file says of attention's warps, without spills."""
    launch, by_row = launched(kernel, target)
    total, stages = 0.0, launch.workload.stages[1:3]
    assert [stage.name for stage in stages] == ["steps", "scores"]
    for stage in stages:
        of_stage = by_row(stage.computation_instructions)
        of_stage += sum(by_row(a.count) for a in stage.global_accesses if a.memory != "local")
        total = total + of_stage / by_row(stage.executions)
    return total


@ALL
def test_attention__instructions_of_a_step(target):
    rows, found = table(target, "flash_attention")
    whole, total = rows["stack_bytes"] == 0, instructions_of_a_step("flash_attention", target)
    assert np.median(error(total, rows["step"])[whole]) < 0.10
    more = rows["last"] - rows["step"]  # a loop that is unrolled has several steps
    masked = whole & (more > 0) & (more < 0.6 * rows["step"])
    assert np.median(error(found["masks"], more)[masked]) < 0.20


@ALL
def test_attention__barriers_and_shuffles(target):
    rows, found = table(target, "flash_attention")
    staged, right = rows["num_stages"] > 1, found["barriers"] == rows["barriers"]
    share = {"gfx1100": 0.5, "gfx90a": 0.8, "gfx942": 0.8}.get(target, 0.95)
    assert np.mean(right[staged]) > share
    assert target.startswith("gfx") or (found["shuffles"] == rows["shuffles"])[staged].all()
    more = ~staged & (rows["barriers"] > 0)
    assert np.median(error(found["barriers"][more], rows["barriers"][more])) < 0.34


def test_attention__warps_that_specialise():
    """A warp with scores has its part of what those with sums, products and copies take."""
    rows, found = table("sm_100", "flash_attention_special")

    def of_block(name):
        of_warps = rows[name] * rows["num_warps"] + rows[f"sums_{name}"] * found["correctors"]
        return of_warps + rows[f"products_{name}"] + rows[f"copies_{name}"]

    assert (found["scores"] + found["rows"] == rows["special"]).all() and len(rows["step"]) == 72
    assert (found["all_threads"] / 32 == rows["warps"]).all()
    names = {"products": "matrix", "tensor_memory_columns": "columns", "shuffles": "shuffles"}
    for name, counted in ({"registers_per_thread": "registers"} | names).items():
        assert (found[name] == rows[counted]).all(), name
    assert (np.abs(found["shared_memory_bytes"] - rows["shared_bytes"]) <= 750).all()
    whole, spilled = rows["stack_bytes"] < 100, 4 * found["spilled"] / rows["stack_bytes"].clip(1)
    step = instructions_of_a_step("flash_attention_special", "sm_100") * rows["warps"]
    assert np.median(error(step, of_block("step"))[whole]) < 0.05
    assert np.median(error(found["barriers"] * rows["num_warps"], of_block("barriers"))) < 0.10
    masked = whole & (rows["last"] > 0)
    assert np.median(error(found["masks"], rows["last"] - rows["step"])[masked]) < 0.10
    assert ((0.4 < spilled) & (spilled < 1.2))[~whole].all() and (found["spilled"][whole] < 5).all()


def test_attention__where_warps_specialise():
    """On B200, by tcgen05; 640 threads have no 168 registers each."""
    axes = {"WARP_SPECIALIZE": [1.0], "head": [128.0], "BLOCK_M": [32.0, 128.0],
            "num_warps": [2.0, 4.0, 8.0], "num_stages": [2.0], "flex": [0.0, 1.0]}  # fmt: skip
    plan = Plan(["triton_flash_attention"], ["b200", "h100_sxm", "rtx_5090"], ["combined"],
                axes=axes, layout="grid")  # fmt: skip
    found = sweep.evaluate(plan)["triton_flash_attention"].dataset.load().status
    found = found.squeeze().transpose("device", "flex", "BLOCK_M", "num_warps", "BLOCK_N").values
    wanted = np.full_like(found, STATUS["constraint"])
    wanted[0, 0, 1, 1], wanted[0, 0, 1, 2] = STATUS["valid"], STATUS["registers"]
    assert (found == wanted).all()


@AMD
def test_attention__instructions_of_shared_memory(target):
    rows, found = table(target, "flash_attention")
    whole = (rows["stack_bytes"] == 0) & (rows["shared_stores"] > 0)
    assert np.median(error(found["loads"], rows["shared_loads"])[whole]) < 0.10
    assert np.median(error(found["writes"], rows["shared_stores"])[whole]) < 0.15


@pytest.mark.parametrize("target", [target for target in DEVICE if target != "sm_89"])
def test_flex_attention(target):
    """Copies are no TMA, scores take two products more, and the loop with the mask is apart."""
    rows, found = table(target, "flex_attention")
    assert (found["products"] == rows["matrix"]).all()
    assert np.mean(found["copies"] == rows["copies"]) > 0.95  # others copy 8 bytes at a time
    assert (np.abs(found["shared_memory_bytes"] - rows["shared_bytes"]) <= 1100).all()
    is_amd = target.startswith("gfx")
    registers = error(found["registers_per_thread"], rows["registers"])
    assert np.median(registers) < (0.11 if is_amd else 0.08)
    whole = rows["stack_bytes"] == 0
    total = sum(found[n] for n in ("products", "copies", "loads", "writes", "floats", "rows"))
    total += found["beside"] + (2 if is_amd else 1.5) * found["scores"]
    assert np.median(error(total, rows["step"])[whole]) < 0.10
    more = whole & (rows["last"] > rows["step"])
    assert np.median(error(found["masks"], rows["last"] - rows["step"])[more]) < 0.25
    assert is_amd or np.mean(found["spilled"] > 0, where=rows["stack_bytes"] > 500) > 0.6
    assert np.mean(found["spilled"] > 0, where=whole) < 0.1


def test_flex_attention__keys_beyond_the_heads_dimension_and_blocks_of_the_mask():
    """A tile's rows pass over all keys of the mask's 128 rows; the tutorial has narrower tiles."""
    axes = {"head": [64.0], "causal": [1.0], "BLOCK_M": [64.0], "BLOCK_N": [128.0],
            "num_warps": [4.0], "num_stages": [3.0], "sequence": [1024.0]}  # fmt: skip
    flex, short = {"flex": [1.0]}, {"sequence": [64.0], "BLOCK_N": [16.0]}
    plans = [Plan(["triton_flash_attention"], ["h100_sxm"], ["combined"], axes=axes | more,
                  outputs=("status",))
             for more in ({}, flex, flex | short, flex | {"mask_block": [192.0]})]  # fmt: skip
    status = [int(sweep.evaluate(p)["triton_flash_attention"].dataset.load().status.squeeze())
              for p in plans]  # fmt: skip
    assert status == [STATUS[w] for w in ("constraint", "valid", "valid", "constraint")]
    for plan, steps in ((plans[1], (4.5, 1)), (plans[2], (4, 4))):  # no more than there are keys
        values = build_launch(resolve(plan).kernels[0]).values
        assert tuple(float(np.squeeze(values[n])) for n in ("steps", "masked")) == steps


@ALL
@KERNELS
def test_spills(kernel, target):
    """Where the compiler spills much in the loop, the file says so, and nowhere else much."""
    rows, found = table(target, kernel)
    much = (found["is_tensor"] == 0) & (rows["stack_bytes"] > 200)
    if kernel != "moe":  # of which hardly one of these rows spills
        assert np.mean(found["spilled"][much] > 0) > (0.8 if kernel == "matmul" else 0.75)
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
    few, many = (inputs("h100_sxm", stages=n)[0] for n in (2.0, 5.0))
    assert np.max(many["chain"][0]) < np.min(few["chain"][0])
    assert [np.max(one["buffers"][1]) for one in (few, many)] == [1, 4]


@pytest.mark.parametrize(("device", "options"), [
    ("mi300x", (0.0, 0.0, 1.0)), ("mi300x", (4.0, 16.0, 2.0)), ("b200", (0.0, 0.0, 1.0)),
    ("radeon_pro_w7800", (8.0, 32.0, 2.0)),
])  # fmt: skip
def test_experts__cost_what_the_same_product_costs(device, options):
    """With one expert, whose tokens fill all tiles, only instructions beside products are more."""
    tile = {"num_warps": [4.0], "num_stages": [2.0]}
    tile |= {name: [value] for name, value in zip(OPTIONS, options, strict=True)}
    rows = {"BLOCK_M": [128.0], "BLOCK_N": [64.0], "BLOCK_K": [64.0], "GROUP_M": [8.0]}
    plain = Plan(["triton_matmul"], [device], ["combined"],
                 axes=tile | rows | {"m": [8192.0], "b_by_column": [1.0]})  # fmt: skip
    long = {name.replace("_", "_SIZE_"): value for name, value in rows.items()}
    sizes = {"tokens": [8192.0], "experts": [1.0], "topk": [1.0], "n": [4096.0], "k": [4096.0]}
    fused = Plan(["triton_moe"], [device], ["combined"], axes=tile | long | sizes)
    times = [float(sweep.evaluate(plan)[plan.kernels[0]].dataset.load().execution_time.max())
             for plan in (plain, fused)]  # fmt: skip
    assert times[1] == pytest.approx(times[0], rel=0.026)


@AMD
def test_options__registers_of_so_many_warps_and_what_spills(target):
    rows, found = table(target)
    limited = rows["waves_per_eu"] > 0
    assert (rows["registers"] <= found["most"])[limited].all()
    spills = limited & (rows["stack_bytes"] > 0)
    assert np.mean(found["spilled"] > 0, where=spills) > 0.8


@pytest.mark.parametrize("kernel", ["matmul", "moe", "flash_attention"])
def test_options__are_amds(kernel):
    names = OPTIONS[:2] if kernel == "flash_attention" else OPTIONS
    size = "SIZE_" * (kernel == "moe")
    tile = {f"BLOCK_{size}{side}": [64.0] for side in "MN"} | {"num_warps": [4.0]}
    for option, value in zip(names, (2.0, 16.0, 2.0), strict=False):
        axes = tile | {option: [value]}
        plan = Plan([f"triton_{kernel}"], ["mi300x", "h100_sxm"], ["combined"], axes=axes)
        status = sweep.evaluate(plan)[f"triton_{kernel}"].dataset.load().status
        assert (status.sel(device="mi300x") == STATUS["valid"]).any()
        assert (status.sel(device="h100_sxm") == STATUS["constraint"]).all()


def test_attention__options_of_amds_compiler():
    """Registers of so many warps and what spills then; instructions of 16 x 16 tiles."""
    # Registers, matrix instructions, words on the stack.
    compiled = {(0.0, 0.0): (272, 64, 0), (2.0, 0.0): (256, 64, 16), (4.0, 0.0): (128, 64, 104),
                (0.0, 16.0): (260, 128, 0)}  # fmt: skip
    axes = {"head": [128.0], "causal": [0.0], "BLOCK_M": [128.0], "BLOCK_N": [64.0],
            "num_warps": [4.0], "num_stages": [1.0]}  # fmt: skip
    for (warps, side), (registers, products, spilled) in compiled.items():
        own = {"waves_per_eu": [warps], "matrix_instr_nonkdim": [side]}
        plan = Plan(["triton_flash_attention"], ["mi300x"], ["combined"], axes=axes | own)
        values = build_launch(resolve(plan).kernels[0]).values
        assert float(np.max(values["registers_per_thread"])) == pytest.approx(registers, rel=0.2)
        assert float(np.max(values["products"])) == products
        assert float(np.max(values["spilled"])) == pytest.approx(spilled, abs=20)

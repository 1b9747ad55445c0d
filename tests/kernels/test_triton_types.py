"""Products in other types and layouts beside what Triton 3.9 made of them, and published rates."""

import numpy as np
import pytest
from support.triton_tables import error, table

import sweep
from sweep.evaluation.launch import build_launch
from sweep.fields import STATUS
from sweep.space import Plan, resolve


@pytest.mark.parametrize(
    "target", ["sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx1100"]
)
def test_strides_that_are_no_multiples_of_16(target):
    """Factors are loaded element by element, have one buffer (not on RDNA), and spill."""
    rows, found = table(target, "matmul_odd")
    assert (found["products"] == rows["matrix"]).all()
    assert (found["copies"] == rows["copies"]).all()
    assert (found["shared_memory_bytes"] == rows["shared_bytes"]).all()
    few = rows["stack_bytes"] < 32
    total = sum(found[n] for n in ("products", "copies", "writes", "beside"))
    if target.startswith("gfx"):
        assert (found["loads_a"] + found["loads_b"] == rows["shared_loads"]).all()
        assert np.mean(found["writes"] == rows["shared_stores"]) > 0.9
    total += (found["loads_a"] + found["loads_b"]) * (1 - found["is_group"])
    assert np.median(error(total, rows["step"])[few]) < 0.12
    assert np.median(error(found["registers_per_thread"], rows["registers"])) < 0.13
    assert (found["spilled"] > 0)[rows["stack_bytes"] > 100].all()


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx90a", "gfx942"])
def test_double_precision(target):
    rows, found = table(target, "matmul_fp64")
    assert (found["products"] == rows["matrix"]).all()
    assert (found["copies"] == rows["copies"]).all()
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"]) > 0.96
    few = (rows["stack_bytes"] < 100) & (rows["num_stages"] > 1)
    total = sum(found[n] for n in ("products", "copies", "writes", "beside", "loads_a", "loads_b"))
    assert np.median(error(total, rows["step"])[few]) < 0.08
    assert np.median(error(found["registers_per_thread"], rows["registers"])) < 0.11
    assert (found["spilled"] > 0)[rows["stack_bytes"] > 100].all()


@pytest.mark.parametrize(("target", "bits"), [
    ("sm_80", 32), ("sm_89", 32), ("sm_89", 64), ("sm_90", 32), ("sm_100", 32), ("sm_120", 32),
    ("sm_120", 64), ("gfx90a", 32), ("gfx942", 32),
])  # fmt: skip
def test_products_without_tf32_and_without_units_for_doubles(target, bits):
    """NVIDIA's threads multiply; CDNA's units have instructions for all 32 bits."""
    rows, found = table(target, "matmul_ieee")
    of, is_amd = rows["bits"] == bits, target.startswith("gfx")
    few = of & (rows["stack_bytes"] < 100) & (rows["num_stages"] > 1)
    assert of.sum() >= 16 and (found["is_fma"] != is_amd)[of].all()
    more = found["products"] / rows["matrix"]  # sm_100 multiplies some in pairs (FFMA2)
    assert (1 <= more[of]).all() and (more[of] <= (1.15 if target == "sm_100" else 1)).all()
    assert (found["copies"] == rows["copies"])[of].all()
    assert np.mean(found["shared_memory_bytes"] == rows["shared_bytes"], where=few) > 0.94
    loads = error(found["loads_a"] + found["loads_b"], rows["shared_loads"])
    assert np.median(loads[of]) < 0.05
    total = sum(found[n] for n in ("products", "copies", "writes", "beside", "loads_a", "loads_b"))
    assert np.median(error(total, rows["step"])[few]) < (0.10 if is_amd else 0.04)
    assert np.median(error(found["registers_per_thread"], rows["registers"])[of]) < 0.10
    assert np.mean(found["spilled"] > 0, where=of & (rows["stack_bytes"] > 100)) > 0.7
    assert np.mean(found["spilled"] > 0, where=of & (rows["stack_bytes"] == 0)) < 0.15


def test_threads_that_multiply__work_and_passes_of_shared_memory():
    """Of B that lies column by column eight lanes meet in one bank."""
    axes = {"BLOCK_M": [64.0], "BLOCK_N": [64.0], "BLOCK_K": [32.0], "num_warps": [4.0],
            "num_stages": [3.0], "bits": [32.0], "tf32": [0.0],
            "b_by_column": [0.0, 1.0]}  # fmt: skip
    plan = Plan(["triton_matmul"], ["h100_sxm"], ["combined"], axes=axes)
    launch = build_launch(resolve(plan).kernels[0])
    (steps,) = (stage for stage in launch.workload.stages if stage.name == "steps")
    assert np.unique(steps.instructions["fp32"]) == 64 * 64 * 4096 / 128
    assert np.unique(steps.instructions["matrix"]) == 0
    # Loads of 16 bytes of A take two passes, of B four, or eight for each quarter of the lanes.
    assert set(np.ravel(launch.values["load_passes"])) == {64 * 2 + 32 * 4, 64 * 2 + 32 * 32}


@pytest.mark.parametrize(("axes", "device", "published", "below", "above"), [
    # Of eight tiles, issue 2491 of triton-lang/triton.
    ({"bits": [32.0], "tf32": [0.0]}, "a100_80gb",
     {2048: 17.1, 2304: 17.9, 3072: 17.5}, 0.03, 0.05),
    # Of unknown configurations, pulls 10313 (it decided `half_rate`) and 10060 of the same.
    ({"bits": [64.0]}, "h100_sxm", {2048: 31.0, 4096: 31.0}, 0.03, 0.05),
    ({"bits": [64.0]}, "h100_sxm", {1024: 28.0}, 0.03, 0.10),
    ({"bits": [64.0]}, "a100_40gb", {1024: 13.8}, 0.03, 0.15),
    ({"bits": [64.0]}, "a100_40gb", {1792: 15.4}, 0.03, 0.08),
    # Of PyTorch's tiles, gau-nernst/learn-cuda, 33ba4c1, 02c_matmul_sm120; the RTX 5090 at 400 W.
    ({"b_by_column": [1.0]}, "rtx_5090", {2048: 140.0}, 0.03, 0.06),
    ({"b_by_column": [1.0]}, "rtx_5090", {4096: 166.9, 8192: 187.4}, 0.03, 0.03),
    ({"b_by_column": [1.0]}, "rtx_pro_6000_blackwell", {2048: 232.3}, 0.03, 0.16),
    ({"b_by_column": [1.0]}, "rtx_pro_6000_blackwell", {4096: 349.6, 8192: 405.6}, 0.053, 0.03),
])  # fmt: skip
def test_rates_of_triton_that_others_published(axes, device, published, below, above):
    """Seen after the predictions [TFLOP/s], but for `half_rate` and the last card's peak rate."""
    for size, rate in published.items():
        axes |= {name: [float(size)] for name in "mnk"}
        plan = Plan(["triton_matmul"], [device], ["combined"], axes=axes)
        predicted = 2e-12 * size**3 / sweep.best(plan).rows[0]["execution_time"]
        assert 1.0 - below < predicted / rate < 1.0 + above, size


@pytest.mark.parametrize(("device", "bits"), [
    ("mi210", 8.0), ("a100_80gb", 8.0), ("gtx_980", 16.0), ("gtx_980", 64.0),
    ("radeon_pro_w7800", 32.0), ("radeon_pro_w7800", 64.0),
])  # fmt: skip
def test_a_type_that_the_device_lacks_has_a_status(device, bits):
    plan = Plan(["triton_matmul"], [device], ["combined"], axes={"bits": [bits]},
                outputs=("execution_time", "status"))  # fmt: skip
    status = sweep.evaluate(plan)["triton_matmul"].dataset.load().status.values
    assert STATUS["missing_parameters"] in status and STATUS["valid"] not in status
    others = {STATUS["missing_parameters"], STATUS["shared_memory"], STATUS["constraint"]}
    assert set(status.ravel()) <= others
    found = sweep.best(Plan(["triton_matmul"], ["h100_sxm"], axes={"bits": [8.0]}))
    assert np.isfinite(found.rows[0]["execution_time"])  # a device that has the type

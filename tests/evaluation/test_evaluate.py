"""Evaluation as a library: lazy, labelled, and the same however it is cut."""

from __future__ import annotations

import dask
import numpy as np
import pytest
import xarray as xr
from support.runs import plan

import sweep
from sweep.errors import PlanError
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.variables import variables
from sweep.fields import POWER_STATUS, STATUS
from sweep.space import Plan, resolve
from sweep.specs import load_device, load_kernel

KERNELS = ("sepia", "mat_tiled")


@pytest.fixture(scope="module")
def results() -> dict[str, xr.Dataset]:
    """The small plan's results in memory, by kernel."""
    tree = sweep.evaluate(plan())
    return {kernel: tree[kernel].to_dataset().compute() for kernel in KERNELS}


# ---------------------------------------------------------------------------- laziness


def test_nothing_is_computed_before_it_is_read(boxes):
    def raising(*_: object, **__: object) -> None:
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=raising):
        tree = sweep.evaluate(plan())
        kept = tree["sepia"].to_dataset().sel(block_size=128)
        kept = kept.where(kept["status"] == 0)
        ratio = kept["energy"] / kept["execution_time"]
        assert ratio.sizes["device"] == 2
        assert repr(tree) and tree["sepia/status"].attrs["flag_meanings"]
        with pytest.raises(AssertionError, match="something was computed"):
            ratio.compute()
    assert boxes == []


def test_each_box_is_evaluated_once_and_only_where_it_is_read(boxes, results):
    def one(data):
        return float(data.execution_time.sel(device="gtx_280", block_size=128)[0, 0, 0])

    assert one(sweep.evaluate(plan())["sepia"].to_dataset()) == one(results["sepia"])
    assert len(boxes) == 1
    boxes.clear()
    space = resolve(plan(kernels=["sepia"], axes={}, chunk_points=5))
    sweep.evaluate(space)["sepia"].to_dataset().compute()
    assert len(boxes) == len(set(boxes)) == space["sepia"].grid.n_chunks


def test_too_many_chunks_for_a_graph():
    axes = {"block_size": {"start": 1, "stop": 1_100_000, "step": 1}}
    with pytest.raises(PlanError, match=r"sepia has 1,100,000 chunks, more than 1,000,000; raise"):
        sweep.evaluate(plan(kernels=["sepia"], axes=axes, devices=["gtx_280"], chunk_points=1))


# ---------------------------------------------------------------------------- however it is cut


@pytest.mark.parametrize("chunk_points", [1, 4, 13, 10_000])
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_bits_do_not_depend_on_chunks_or_scheduler(results, chunk_points, scheduler):
    tree = sweep.evaluate(plan(chunk_points=chunk_points))
    for kernel in KERNELS:
        found = tree[kernel].to_dataset().compute(scheduler=scheduler)
        for name, variable in results[kernel].data_vars.items():
            assert variable.values.tobytes() == found[name].values.tobytes(), name


def test_outputs_kept_do_not_change_each_other(results):
    few = sweep.evaluate(plan(outputs=["energy", "regime"]))
    for kernel in KERNELS:
        assert set(few[kernel].data_vars) == {"energy", "regime", "status", "power_status"}
        for name in ("energy", "regime", "status"):
            assert np.array_equal(few[kernel][name], results[kernel][name], equal_nan=True)


def test_float32_is_float64_rounded(results):
    exact = sweep.evaluate(plan(precision="float64"))
    for kernel in KERNELS:
        for name, variable in results[kernel].data_vars.items():
            other = exact[kernel][name].values
            if variable.dtype.kind == "f":
                assert (variable.dtype, other.dtype) == (np.float32, np.float64)
                other = other.astype(np.float32)
            assert np.array_equal(variable, other, equal_nan=variable.dtype.kind == "f"), name


# ---------------------------------------------------------------------------- labels

CLOCKS = ("core_clock_ratio", "memory_clock_ratio")


def test_dimensions(results):
    sepia = results["sepia"]
    expected = {
        "execution_time": ("model", "device", "block_size", *CLOCKS),
        "occupancy": ("device", "block_size"),
        "assumed": ("model", "device"),
        "power_assumed": ("device",),
        "core_clock": ("device", "core_clock_ratio"),
        "width": (),  # a size that is not swept
    }
    assert {name: sepia[name].dims for name in expected} == expected
    own = [name for name in sepia.data_vars if name.startswith("hong_kim_")]
    assert "hong_kim_memory_warp_parallelism" in own
    for name in own:
        assert sepia[name].dims == ("device", "block_size", *CLOCKS)
        assert sepia[name].attrs["model"] == "hong_kim"
    assert sepia["model"].values.tolist() == ["hong_kim"]
    assert sepia["device"].values.tolist() == ["gtx_280", "gtx_980_paper"]


def test_texts_leave_arithmetic_alone(results):
    """As variables they would keep a dataset from being masked, reduced or subtracted."""
    sepia = results["sepia"]
    kept = sepia.where(sepia["status"] == 0).min("block_size")
    assert kept["execution_time"].notnull().all()
    assert kept["assumed"].equals(sepia["assumed"])
    assert float((sepia - sepia)["execution_time"].max()) == 0


def test_every_variable_and_group_says_what_it_is(results):
    space = resolve(plan())["sepia"]
    for kernel in KERNELS:
        for name, variable in results[kernel].variables.items():
            assert variable.attrs["units"] and variable.attrs["long_name"], name
    for variable in variables(space, plan()):
        stored = results["sepia"][variable.name]
        assert stored.attrs["source"]
        if variable.is_code:
            meanings = stored.attrs["flag_meanings"].split()
            assert len(meanings) == len(stored.attrs["flag_values"]) == len(set(meanings))
            assert set(np.unique(stored)) <= set(stored.attrs["flag_values"])
    time = results["sepia"]["execution_time"]
    assert (time.attrs["units"], time.dtype) == ("s", np.float32)
    assert results["sepia"]["cycles_per_instruction"].attrs["equation"] == "hong_kim (25)"
    kernel = load_kernel("sepia")
    expected = {"kernel": "sepia", "variant": "corrected", "kernel_sha256": kernel.sha256,
                "constraints": [c.text for c in kernel.constraints]}  # fmt: skip
    expected["variant_meaning"] = "contradictions and undefined cases of the paper mended"
    assert expected.items() <= results["sepia"].attrs.items()


# ---------------------------------------------------------------------------- statuses


def test_power_that_is_missing_does_not_disqualify_a_time(results):
    """The GTX 280 has no table of power, the GTX 980 has one."""
    assert "power.static" not in load_device("gtx_280").values
    valid = results["sepia"].sel(block_size=128)
    without, having = valid.sel(device="gtx_280"), valid.sel(device="gtx_980_paper")
    assert (without["status"] == 0).all() and without["execution_time"].notnull().all()
    assert (without["power_status"] == POWER_STATUS["missing_parameters"]).all()
    assert without["power"].isnull().all() and without["energy"].isnull().all()
    assert (having["power_status"] == 0).all()
    product = having["power"].astype(float) * having["execution_time"]
    assert np.allclose(product, having["energy"], rtol=1e-6)


def test_status_of_each_cause():
    few = {"block_size": [128]}
    for cause, changes in {
        "constraint": {"constraints": ["block_size != 128"], "axes": few},
        "clock_out_of_range": {"axes": {**few, "core_clock": [2000]}},
        "missing_parameters": {"models": ["wang_chu"], "devices": ["gtx_280"], "axes": few},
        "block_too_large": {"axes": {"block_size": [2000]}},
    }.items():
        status = sweep.evaluate(plan(kernels=["sepia"], **changes))["sepia/status"]
        assert (status == STATUS[cause]).all(), cause


def test_time_says_on_which_assumptions_it_rests(results):
    power = results["sepia"]["power_assumed"].sel(device="gtx_980_paper").item()
    assert "power.static_W" in power
    assert results["sepia"]["power_assumed"].sel(device="gtx_280").item() == ""
    assumed = sweep.evaluate(plan(kernels=["micro_coalesced"], axes={}))["micro_coalesced/assumed"]
    assert all(text.startswith("kernel: ") for text in assumed.values.ravel())
    fitted = sweep.evaluate(plan(kernels=["dense_matmul"], axes={}))["dense_matmul/assumed"]
    for text in fitted.values.ravel():
        assert "kernel: instructions.computation (fitted)" in text


def test_results_lie_as_chunks_are_stored():
    """Any other order would be copied by whatever encodes or summarises them."""
    axes = {"n": [2**24, 2**25, 2**26], "block_size": [64, 128, 256]}
    space = resolve(Plan(["vector_add"], ["gtx_980_paper"], ["hong_kim"], axes=axes))
    arrays = evaluate_box(space.kernels[0], space.plan, space.kernels[0].grid.whole)
    assert np.ptp(arrays["occupancy_limiter"], axis=1).max() == 0
    assert all(array.flags.c_contiguous for array in arrays.values())
